"""`target/run_results.json`, and `target/runs/`: one file per run of apply and verify, kept for history, sync and the site."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from etc_policy.api.artifacts import read_text, remove_file, write_text
from etc_policy.api.each_table import errors_of
from etc_policy.errors import EngineError, EtcError, ExitCode, Issue, Where
from etc_policy.errors.codes import Code
from etc_policy.plan.model import Plan
from etc_policy.policy.locations import is_catalog_name, location_identity
from etc_policy.policy.manifest import Policy
from etc_policy.policy.selection import FreshnessStatus, Result
from etc_policy.report.results import (
    RESULTS_SCHEMA_VERSION,
    FreshnessReport,
    RunResults,
    TableFreshness,
    VerificationReport,
)
from etc_policy.report.run_files import RunFile, RunFiles, read_run_files, run_file_name, stamp
from etc_policy.run.results import TableResult
from etc_policy.table.formats import iso_time
from etc_policy.wiring import clock_ms

RESULTS_FILE, FRESHNESS_FILE = "run_results.json", "freshness.json"
RUNS_FOLDER = "runs"

#: Run files that are read at most, the newest.
MAX_RUNS = 200
#: Of the run files so many bytes are kept, in so many files: those of the newest runs.
MAX_KEPT_BYTES, MAX_KEPT_RUNS = 256 << 20, 2_000


def record_apply(target_dir: Path, results: RunResults, plan: Plan | None, git_sha: str | None) -> tuple[EtcError, ...]:
    """Write what an apply did, and keep it with the plan that it carried out; returns what cannot be written."""
    run = RunFile(kind="apply", recorded_at=iso_time(clock_ms()), git_sha=git_sha, plan=plan, results=results)
    text = results.as_json(indent=2) + "\n"
    return errors_of(lambda: write_text(target_dir, RESULTS_FILE, text), lambda: _record(target_dir, run))


def record_verification(target_dir: Path, report: VerificationReport, git_sha: str | None) -> tuple[EtcError, ...]:
    """Keep the verdicts of a run; returns what cannot be written."""
    run = RunFile(kind="verify", recorded_at=iso_time(clock_ms()), git_sha=git_sha, verifications=report)
    return errors_of(lambda: _record(target_dir, run))


def _record(target_dir: Path, run: RunFile) -> None:
    name = f"{RUNS_FOLDER}/{run_file_name(run, os.getpid())}"
    write_text(target_dir, name, run.as_json() + "\n")
    _remove_oldest(target_dir)


def _remove_oldest(target_dir: Path) -> None:
    """Keep the folder of run files to its size; other processes may do the same."""
    left_bytes = MAX_KEPT_BYTES
    for number, path in enumerate(sorted((target_dir / RUNS_FOLDER).glob("*-*-*.json"), reverse=True)):
        with suppress(OSError):
            left_bytes -= path.lstat().st_size
            if number >= MAX_KEPT_RUNS or left_bytes < 0:
                remove_file(target_dir, f"{RUNS_FOLDER}/{path.name}", "--target-dir")


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


def last_results(target_dir: Path, policies: Iterable[Policy]) -> dict[str, TableResult]:
    """The latest result of each policy that has run; run files serve those that the last run was not about.

    A result counts only for the very table that it was about: under another target the same policy has another one.

    Raises:
        EngineError: the results of the last run cannot be read, or are of a newer version of etc.

    """
    wanted = {policy.name: policy for policy in policies}
    found: dict[str, TableResult] = {}
    last = _read_report(target_dir / RESULTS_FILE, RunResults, "etc apply")
    _take(() if last is None else last.tables, wanted, found)
    for path in _newest_applies(target_dir):
        if not wanted:
            break
        _take(_of_run_file(target_dir, path), wanted, found)
    return found


def _newest_applies(target_dir: Path) -> list[Path]:
    """The run files of the last applies, the newest first; none from a time to come, as a clock that was ahead leaves."""
    now = stamp(iso_time(clock_ms()))
    found = sorted((target_dir / RUNS_FOLDER).glob("*-apply-*.json"), reverse=True)
    return [path for path in found if path.name.partition("-")[0] <= now][:MAX_RUNS]


def last_table(target_dir: Path, name: str) -> str | None:
    """The table that the last run of a policy compacted, or found with nothing due; None where no record says it."""
    for path in _newest_applies(target_dir):
        for result in _of_run_file(target_dir, path):
            if result.policy == name and result.status not in ("refused", "failed", "stale"):
                return result.base_path
    return None


def how_runs_ended(target_dir: Path, policies: Iterable[Policy]) -> dict[str, Result]:
    """How the last run of each policy ended that has run; a verification or sync that did not pass is an error.

    Raises:
        EngineError: the results of the last run cannot be read, or are of a newer version of etc.

    """
    return {name: _ended(result) for name, result in last_results(target_dir, policies).items()}


def _ended(result: TableResult) -> Result:
    if result.status in ("refused", "stale"):
        return "refused"
    verified, synced = result.verification, result.sync
    is_wrong = verified is not None and verified.exit_code != ExitCode.DONE
    is_out_of_sync = synced is not None and synced.status == "failed"
    return "error" if result.status == "failed" or is_wrong or is_out_of_sync else "done"


def found_freshness(target_dir: Path, policies: Iterable[Policy]) -> dict[str, FreshnessStatus]:
    """What the last `etc freshness` found of each policy that it was about, for the very table that it was about.

    Raises:
        EngineError: what it found cannot be read, or is of a newer version of etc.

    """
    wanted = {policy.name: policy for policy in policies}
    report = _read_report(target_dir / FRESHNESS_FILE, FreshnessReport, "etc freshness")
    tables = () if report is None else report.tables
    return {one.policy: one.status for one in tables if one.policy in wanted and _is_of(wanted[one.policy], one)}


def last_results_or_none(
    target_dir: Path, policies: Iterable[Policy], warn: Callable[[Issue], None]
) -> dict[str, TableResult]:
    """The same; results that cannot be read are a warning, and count as none."""
    try:
        return last_results(target_dir, policies)
    except EtcError as error:
        warn(replace(error.issues[0], level="warning"))
        return {}


def _take(results: Iterable[TableResult], wanted: dict[str, Policy], found: dict[str, TableResult]) -> None:
    """Move from `wanted` to `found` what the results are about."""
    for result in results:
        policy = wanted.get(result.policy)
        if policy is not None and _is_of(policy, result):
            found[result.policy] = result
            del wanted[result.policy]


def _is_of(policy: Policy, result: TableResult | TableFreshness) -> bool:
    """Whether the result is about the policy's table; where only the catalog knows the path, the name has to do."""
    return is_catalog_name(policy.table) or location_identity(policy.table) == location_identity(result.base_path)


def _of_run_file(target_dir: Path, path: Path) -> tuple[TableResult, ...]:
    """The results in a run file; empty if it cannot be read, which `etc history` reports."""
    try:
        text = read_text(target_dir, f"{RUNS_FOLDER}/{path.name}")
    except (OSError, UnicodeDecodeError):
        return ()
    return tuple(
        result for run in read_run_files([(str(path), text)]).files if run.results for result in run.results.tables
    )


_Kept = TypeVar("_Kept", RunResults, FreshnessReport)


def _read_report(path: Path, kind: type[_Kept], command: str) -> _Kept | None:
    """The report that the last run of the command left there; None without one."""
    where = Where(str(path))
    try:
        content = from_json(read_text(path.parent, path.name))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        hint = "delete the file" if isinstance(error, ValueError) else None
        raise EngineError(
            Code.BAD_RUN_RESULTS, "cannot read the results", where=where, hint=hint, cause=str(error)
        ) from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > RESULTS_SCHEMA_VERSION:
        message = f"the results are of version {version}; this etc reads up to {RESULTS_SCHEMA_VERSION}"
        raise EngineError(Code.BAD_RUN_RESULTS, message, where=where, hint=f"use the newer etc, or run `{command}`")
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        message = "these are not the results of a run"
        raise EngineError(Code.BAD_RUN_RESULTS, message, where=where, hint="delete the file") from error
