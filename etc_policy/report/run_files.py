"""What one run leaves in `target/runs/`: its plan, its results and its checks, so that later ones do not cover it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from etc_policy import __version__
from etc_policy.errors import Issue, Where
from etc_policy.errors.codes import Code
from etc_policy.plan.model import PLAN_SCHEMA_VERSION, Plan
from etc_policy.policy.bounded_json import load_json
from etc_policy.policy.manifest import Frozen
from etc_policy.report.results import RESULTS_SCHEMA_VERSION, RunResults, VerificationReport

RUN_FILE_SCHEMA_VERSION = 1

#: So many faults of a file are looked at.
_MOST_FAULTS = 10_000

RunKind = Literal["apply", "verify"]

#: The newest schema version that each part of a run file may have.
_NEWEST = {
    "": RUN_FILE_SCHEMA_VERSION,
    "plan": PLAN_SCHEMA_VERSION,
    "results": RESULTS_SCHEMA_VERSION,
    "verifications": RESULTS_SCHEMA_VERSION,
}


class RunFile(Frozen):
    """One run of `etc apply` (plan and results) or of `etc verify` (verifications); `recorded_at` is ISO 8601."""

    schema_version: int = RUN_FILE_SCHEMA_VERSION
    etc_version: str = __version__
    kind: RunKind
    recorded_at: str
    git_sha: str | None = None
    plan: Plan | None = None
    results: RunResults | None = None
    verifications: VerificationReport | None = None


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The run files of a folder, oldest first, and a warning for each that could not be read."""

    files: tuple[RunFile, ...] = ()
    issues: tuple[Issue, ...] = ()


def run_file_name(run: RunFile, process_id: int) -> str:
    """A name that sorts by time and that no other process takes."""
    return f"{stamp(run.recorded_at)}-{run.kind}-{process_id}.json"


def stamp(iso_time: str) -> str:
    """A time as names of run files begin with it."""
    return "".join(letter for letter in iso_time if letter.isalnum())


def read_run_files(texts: Iterable[tuple[str, str]]) -> RunFiles:
    """The run files in (path, text) pairs; one that cannot be read is named and left out, never taken for no run."""
    files: list[RunFile] = []
    issues: list[Issue] = []
    for path, text in texts:
        found = _read(path, text)
        if isinstance(found, RunFile):
            files.append(found)
        else:
            issues.append(found)
    return RunFiles(tuple(sorted(files, key=lambda run: run.recorded_at)), tuple(issues))


def _read(path: str, text: str) -> RunFile | Issue:
    where = Where(path)
    try:
        content = load_json(text)
    except (ValueError, RecursionError):
        what = "not JSON" if text.strip() else "empty"
        return Issue(Code.UNREADABLE_RUN, f"this run file is {what}; it is left out", where, "delete it", "warning")
    newer = _newer_part(content)
    if newer:
        message = f"this run file was written by a newer version of etc ({newer}); it is left out"
        return Issue(Code.NEWER_RUN, message, where, "upgrade etc to see this run", "warning")
    try:
        return RunFile.model_validate(content)
    except ValidationError as error:
        message = f"this is not a run file of this version of etc: {_first(error)}; it is left out"
        return Issue(Code.UNREADABLE_RUN, message[:500], where, level="warning")


def _first(error: ValidationError) -> str:
    """The first fault; where there are many, how many: the texts of all would be made for it."""
    if error.error_count() > _MOST_FAULTS:
        return f"{error.error_count():,} of its values are wrong"
    fault = error.errors()[0]
    place = ".".join(str(key) for key in fault["loc"]) or "the file"
    return f"`{place}`: {fault['msg'].lower()}"


def _newer_part(content: Any) -> str:
    """`schema 2 of plan` where a part's schema is newer than this etc's, else an empty text."""
    if not isinstance(content, dict):
        return ""
    for part, newest in _NEWEST.items():
        value = content.get(part) if part else content
        version = value.get("schema_version") if isinstance(value, dict) else None
        if isinstance(version, int) and version > newest:
            return f"schema {version}{f' of {part}' if part else ''}, this one knows {newest}"
    return ""
