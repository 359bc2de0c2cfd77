"""What verification asks of the data engine, and the answer it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import Field

from etc_policy.compile.manifest import Frozen, Policy, VerifyLevel

CheckStatus = Literal["pass", "warn", "fail", "error"]
VerificationStatus = Literal["pass", "warn", "fail", "error"]


class ExpectationResult(Frozen):
    """One expectation: `fail` means the data disagrees, `error` that it could not be checked."""

    expectation: str
    status: CheckStatus
    observed: dict[str, Any] = Field(default_factory=dict)
    message: str | None = None


class Verification(Frozen):
    """The verdict over one table; `late_rows` is None where it was not counted."""

    level: VerifyLevel
    status: VerificationStatus
    threshold_ms: int | None
    late_rows: int | None = None
    expectations: tuple[ExpectationResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DataCheck:
    """Everything a data verification needs, taken from the table's metadata and not from the run.

    `pinned_instant` is the completion time at which both views are read. `late_commits` are requested instants of
    commits that completed after the plan was made, and whatever was requested after `seen_until` is late too (such
    commits may be archived by now). `open_file_ids` are file groups that still have log files.
    """

    policy: Policy
    base_path: str
    suite: tuple[dict[str, Any], ...]
    threshold_ms: int
    now_ms: int
    complete_until_ms: int | None
    pinned_instant: str
    late_commits: frozenset[str]
    seen_until: str
    open_file_ids: frozenset[str]


class DataVerifier(Protocol):
    """Checks the table's rows by a suite of expectations."""

    def check(self, request: DataCheck) -> tuple[int, tuple[ExpectationResult, ...]]:
        """Late rows counted, and one result per expectation. Raises EngineError when no expectation could run."""
        ...
