"""What `etc apply` keeps beside a table from run to run, and its port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from etc_policy.plan.proof import Proof


class Misrecorded(NamedTuple):
    """A log file that holds an earlier event (`found_ms`) than its commit recorded; `path` is below the table."""

    path: str
    size_bytes: int
    recorded_ms: int
    found_ms: int


@dataclass(frozen=True, slots=True)
class Refusals:
    """How often in a row a table could not be compacted because something was pending, and since when, in words.

    `pending` is the instant that was pending each time, empty where it was not always the same.
    """

    count: int
    since: str
    pending: str = ""


@dataclass(frozen=True, slots=True)
class Unproven:
    """A compaction that was done and did not pass its verification: which one, and why in words."""

    compaction: str
    why: str


class RunLengths(Protocol):
    """How long runs take to compact a table."""

    def last_ms(self, base_path: str) -> int | None:
        """From the begin of the last run that compacted the table to the commit; None where nothing is known."""
        ...

    def note(self, base_path: str, run_ms: int) -> None:
        """Keep how long a run took."""
        ...


class ApplyStateStore(Protocol):
    """What `etc apply` keeps beside a table from run to run. Losing it costs a verification or a count, never data."""

    #: How long they take.
    runs: RunLengths

    def verified(self, base_path: str) -> str | None:
        """Which compaction was verified last, and how, as it was noted; None where nothing is known."""
        ...

    def note_verified(self, base_path: str, proof: str) -> None:
        """Keep which compaction was verified, and how; any text that is equal for equal proofs. Nothing is unproven then."""
        ...

    def unproven(self, base_path: str) -> Unproven | None:
        """The compaction that did not pass its verification, or None."""
        ...

    def note_unproven(self, base_path: str, unproven: Unproven) -> None:
        """Keep that a compaction did not pass its verification; nothing is verified then."""
        ...

    def misrecorded(self, base_path: str) -> tuple[Misrecorded, ...]:
        """The log files that were found to hold earlier events than their commits recorded."""
        ...

    def note_misrecorded(self, base_path: str, found: tuple[Misrecorded, ...]) -> None:
        """Keep these log files, and no others."""
        ...

    def proofs(self, base_path: str, subject: str) -> tuple[Proof, ...]:
        """The verifications that passed of a subject: a compaction, as it was named when they were noted."""
        ...

    def note_proofs(self, base_path: str, subject: str, proofs: tuple[Proof, ...]) -> None:
        """Keep these proofs, and no others."""
        ...

    def refusals(self, base_path: str) -> Refusals | None:
        """The refusals in a row so far, or None."""
        ...

    def note_refusals(self, base_path: str, refusals: Refusals | None) -> None:
        """Keep the refusals in a row; None ends the row."""
        ...
