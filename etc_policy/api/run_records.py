"""`target/run_results.json`, and `target/runs/`: one file per run of apply and verify, kept for history, sync and the site."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from etc_policy.api.artifacts import read_text, remove_file, write_text
from etc_policy.api.each_table import errors_of
from etc_policy.errors import EngineError, EtcError, ExitCode, Issue, Where
from etc_policy.errors.codes import Code
from etc_policy.plan.model import Plan
from etc_policy.policy.bounded_json import load_json
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
from etc_policy.storage import files
from etc_policy.table.formats import iso_time
from etc_policy.wiring import clock_ms

RESULTS_FILE, FRESHNESS_FILE = "run_results.json", "freshness.json"
RUNS_FOLDER = "runs"

#: Run files that are read at most for the last result of each policy, the newest.
MAX_RUNS = 200
#: Of the run files so many bytes are kept, in so many files: those of the newest runs.
MAX_KEPT_BYTES, MAX_KEPT_RUNS = 256 << 20, 2_000
#: So much of the newest ones is read, in half a minute.
MAX_READ_BYTES = 64 << 20


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
    found = sorted(_run_files(target_dir, "*-*-*.json"), reverse=True)
    kept = set(_within(found, MAX_KEPT_BYTES, MAX_KEPT_RUNS))
    for path in (path for path in found if path not in kept):
        remove_file(target_dir, f"{RUNS_FOLDER}/{path.name}", "--target-dir")


def _run_files(target_dir: Path, pattern: str) -> Iterator[Path]:
    """Those of the folder of runs, unless it is a link: its names are shown."""
    with suppress(OSError):
        names = fnmatch.filter(files.names_below(target_dir, RUNS_FOLDER), pattern)
        yield from (target_dir / RUNS_FOLDER / name for name in names)


def _within(paths: Iterable[Path], max_bytes: int, most: int) -> Iterator[Path]:
    """The first of the files that have so many bytes together; one that is too large is passed over, and hides no other."""
    for path in paths:
        size = _size_of(path)
        if size <= max_bytes and most > 0:
            max_bytes, most = max_bytes - size, most - 1
            yield path


def _size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def load_runs(target_dir: Path, warn: Callable[[Issue], None]) -> RunFiles:
    """The newest runs that this machine keeps; a file that cannot be read is a warning, and left out, as are the older ones."""
    unreadable: list[Issue] = []

    def texts() -> Iterator[tuple[str, str]]:
        for path in chosen:
            try:
                yield str(path), read_text(target_dir, f"{RUNS_FOLDER}/{path.name}")
            except (OSError, UnicodeDecodeError):
                message = "this run file cannot be read; it is left out"
                unreadable.append(Issue(Code.UNREADABLE_RUN, message, Where(str(path)), level="warning"))

    paths = _newest_first(_run_files(target_dir, "*.json"))
    chosen = list(_within(paths, MAX_READ_BYTES, MAX_KEPT_RUNS))
    found = read_run_files(texts())
    if len(chosen) < len(paths):
        left_out = f"{len(paths) - len(chosen)} of {len(paths)} run files are left out"
        message = f"{left_out}: of the newest {MAX_READ_BYTES >> 20} MiB are read"
        where = Where(str(target_dir / RUNS_FOLDER))
        unreadable.append(Issue(Code.UNREADABLE_RUN, message, where, "move older ones elsewhere", "warning"))
    issues = (*unreadable, *found.issues)
    for issue in issues:
        warn(issue)
    return RunFiles(found.files, issues)


def _newest_first(paths: Iterable[Path]) -> list[Path]:
    """Those from a time to come, as a clock that was ahead leaves them, are the last."""
    now = stamp(iso_time(clock_ms()))
    newest = sorted(paths, reverse=True)
    return sorted(newest, key=lambda path: path.name.partition("-")[0] > now)


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


def _newest_applies(target_dir: Path, most: int = MAX_RUNS) -> list[Path]:
    """The run files of the last applies, the newest first; none from a time to come, as a clock that was ahead leaves."""
    now = stamp(iso_time(clock_ms()))
    found = sorted(_run_files(target_dir, "*-apply-*.json"), reverse=True)
    return list(_within((one for one in found if one.name.partition("-")[0] <= now), MAX_READ_BYTES, most))


def last_tables(target_dir: Path) -> dict[str, str]:
    """By policy the table that its last run compacted, or found with nothing due; nothing of those of which no record says it."""
    found: dict[str, str] = {}
    for path in _newest_applies(target_dir, MAX_KEPT_RUNS):
        for result in _of_run_file(target_dir, path):
            if result.status not in ("refused", "failed", "stale"):
                found.setdefault(result.policy, result.base_path)
    return found


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
        content = load_json(read_text(path.parent, path.name))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        hint = None if isinstance(error, OSError) else "delete the file"
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
