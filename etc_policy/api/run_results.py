"""What the last run of `etc apply` did to each table, from its results file and the kept run files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import from_json

from etc_policy.api.artifacts import read_text
from etc_policy.errors import EngineError, EtcError, Issue, Where
from etc_policy.errors.codes import Code
from etc_policy.policy.locations import is_catalog_name, location_identity
from etc_policy.policy.manifest import Policy
from etc_policy.report.results import RESULTS_SCHEMA_VERSION, RunResults, TableResult
from etc_policy.report.run_files import read_run_files

RESULTS_FILE = "run_results.json"
RUNS_FOLDER = "runs"

#: Run files that are read at most, the newest.
MAX_RUNS = 200


def last_results(target_dir: Path, policies: Iterable[Policy]) -> dict[str, TableResult]:
    """The latest result of each policy that has run; run files serve those that the last run was not about.

    A result counts only for the very table that it was about: under another target the same policy has another one.

    Raises:
        EngineError: the results of the last run cannot be read, or are of a newer version of etc.

    """
    wanted = {policy.name: policy for policy in policies}
    found: dict[str, TableResult] = {}
    _take(_of_last_run(target_dir / RESULTS_FILE), wanted, found)
    for path in sorted((target_dir / RUNS_FOLDER).glob("*-apply-*.json"), reverse=True)[:MAX_RUNS]:
        if not wanted:
            break
        _take(_of_run_file(target_dir, path), wanted, found)
    return found


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


def _is_of(policy: Policy, result: TableResult) -> bool:
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


def _of_last_run(path: Path) -> tuple[TableResult, ...]:
    try:
        content = from_json(read_text(path.parent, path.name))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise EngineError(
            Code.BAD_RUN_RESULTS, "cannot read the results", where=Where(str(path)), cause=str(error)
        ) from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > RESULTS_SCHEMA_VERSION:
        message = f"the results are of version {version}; this etc reads up to {RESULTS_SCHEMA_VERSION}"
        raise EngineError(
            Code.BAD_RUN_RESULTS, message, where=Where(str(path)), hint="use the newer etc, or run `etc apply`"
        )
    try:
        results = RunResults.model_validate(content)
    except ValidationError as error:
        message = "these are not the results of a run"
        raise EngineError(Code.BAD_RUN_RESULTS, message, where=Where(str(path)), hint="delete the file") from error
    return results.tables
