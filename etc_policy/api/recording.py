"""`target/run_results.json`, and `target/runs/`: one file per run of apply and verify, kept for history, sync and the site."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from etc_policy.api.applying import Applier
from etc_policy.api.artifacts import read_text, require_writable, write_text
from etc_policy.api.one_table import errors_of
from etc_policy.api.run_results import RESULTS_FILE, RUNS_FOLDER
from etc_policy.api.verifying import verify_tables
from etc_policy.errors import EtcError, Issue, Where
from etc_policy.errors.codes import Code
from etc_policy.plan.model import Plan
from etc_policy.policy.manifest import Policy, VerifyLevel
from etc_policy.report.results import RunResults, VerificationReport
from etc_policy.report.run_files import RunFile, RunFiles, read_run_files, run_file_name
from etc_policy.table.formats import iso_time
from etc_policy.wiring import Environment, clock_ms


def record_apply(target_dir: Path, applier: Applier) -> RunResults:
    """Write what an apply did, and keep it with the plan that it carried out; returns it.

    What cannot be written is `unwritten` of the applier.
    """
    results, now = applier.run_results(), iso_time(clock_ms())
    run = RunFile(kind="apply", recorded_at=now, git_sha=applier.git_sha, plan=applier.plan, results=results)
    applier.unwritten = errors_of(
        lambda: write_text(target_dir, RESULTS_FILE, results.as_json(indent=2) + "\n"), lambda: _record(target_dir, run)
    )
    return results


def run_and_record(
    environment: Environment,
    now_ms: int,
    target_dir: Path,
    policies: Iterable[Policy],
    saved: Plan | None,
    confirm: Callable[[Plan], bool],
    every_ms: int | None = None,
) -> tuple[Applier, RunResults]:
    """Carry out the saved plan, or a new one that is confirmed, and record the run; one that ends early is recorded too.

    Raises:
        EngineError: the target folder cannot be written; nothing was touched.

    """
    require_writable(target_dir, RUNS_FOLDER)
    applier = Applier(environment, now_ms, every_ms)
    try:
        applier.run(policies, saved, confirm)
    except BaseException:
        if applier.results:  # what was done to the tables before is done
            record_apply(target_dir, applier)
            for error in applier.unwritten:
                environment.progress(f"{error.message}: {error.cause}")
        raise
    return applier, record_apply(target_dir, applier)


def verify_and_record(
    environment: Environment, now_ms: int, target_dir: Path, policies: Iterable[Policy], level: VerifyLevel | None
) -> tuple[VerificationReport, tuple[EtcError, ...], tuple[EtcError, ...]]:
    """Verify the tables and keep the verdicts, if there is one.

    Returns the report, the errors of tables, and why the verdicts could not be written.
    """
    tables, errors = verify_tables(environment, policies, now_ms, level)
    report = VerificationReport(observed_at=iso_time(now_ms), tables=tables)
    if not tables:
        return report, errors, ()
    now, git_sha = iso_time(clock_ms()), environment.git_sha()
    run = RunFile(kind="verify", recorded_at=now, git_sha=git_sha, verifications=report)
    return report, errors, errors_of(lambda: _record(target_dir, run))


def load_runs(target_dir: Path, warn: Callable[[Issue], None]) -> RunFiles:
    """The runs that this machine keeps; a file that cannot be read is a warning, and left out."""
    texts: list[tuple[str, str]] = []
    unreadable: list[Issue] = []
    for path in sorted((target_dir / RUNS_FOLDER).glob("*.json")):
        try:
            texts.append((str(path), read_text(target_dir, f"{RUNS_FOLDER}/{path.name}")))
        except (OSError, UnicodeDecodeError):
            message = "this run file cannot be read; it is left out"
            unreadable.append(Issue(Code.UNREADABLE_RUN, message, Where(str(path)), level="warning"))
    found = read_run_files(texts)
    issues = (*unreadable, *found.issues)
    for issue in issues:
        warn(issue)
    return RunFiles(found.files, issues)


def _record(target_dir: Path, run: RunFile) -> None:
    name = f"{RUNS_FOLDER}/{run_file_name(run, os.getpid())}"
    write_text(target_dir, name, run.as_json() + "\n")
