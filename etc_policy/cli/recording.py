"""`target/run_results.json`, and `target/runs/`: one file per run of apply and verify, kept for `etc history` and the site."""

from __future__ import annotations

import os
from pathlib import Path

from etc_policy.api.applying import Applier
from etc_policy.api.run_results import RESULTS_FILE, RUNS_FOLDER
from etc_policy.cli.messages import tell_warning
from etc_policy.cli.project import write_text
from etc_policy.codes.registry import Code
from etc_policy.errors import Issue, Where
from etc_policy.plan.formats import iso_time
from etc_policy.publish.results import RunResults, VerificationReport
from etc_policy.publish.run_files import RunFile, RunFiles, read_run_files, run_file_name
from etc_policy.wiring import Environment, clock_ms


def record_apply(target_dir: Path, applier: Applier) -> RunResults:
    """Write what an apply did, and keep it with the plan that it carried out; returns it."""
    results, now = applier.run_results(), iso_time(clock_ms())
    write_text(target_dir / RESULTS_FILE, results.model_dump_json(indent=2) + "\n")
    _record(
        target_dir,
        RunFile(kind="apply", recorded_at=now, git_sha=applier.git_sha, plan=applier.plan, results=results),
    )
    return results


def record_verify(target_dir: Path, environment: Environment, report: VerificationReport) -> None:
    """Keep the verdicts of a verification; none is kept where no table could be read."""
    if report.tables:
        now = iso_time(clock_ms())
        _record(
            target_dir, RunFile(kind="verify", recorded_at=now, git_sha=environment.git_sha(), verifications=report)
        )


def load_runs(target_dir: Path) -> RunFiles:
    """The runs that this machine keeps; what cannot be read is named on stderr and left out."""
    texts: list[tuple[str, str]] = []
    unreadable: list[Issue] = []
    for path in sorted((target_dir / RUNS_FOLDER).glob("*.json")):
        try:
            texts.append((str(path), path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError):
            message = "this run file cannot be read; it is left out"
            unreadable.append(Issue(Code.UNREADABLE_RUN, message, Where(str(path)), level="warning"))
    found = read_run_files(texts)
    found = RunFiles(found.files, (*unreadable, *found.issues))
    for issue in found.issues:
        tell_warning(issue)
    return found


def _record(target_dir: Path, run: RunFile) -> None:
    write_text(target_dir / RUNS_FOLDER / run_file_name(run, os.getpid()), run.model_dump_json() + "\n")
