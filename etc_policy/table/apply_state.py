"""What `etc apply` keeps beside a table from run to run, and its port."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from etc_policy.table.proof import Proof


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
    """A compaction that was done and did not pass its verification: which one, why in words, and how that ended."""

    compaction: str
    why: str
    verification: Literal["running", "fail", "error"] = "error"


@dataclass(frozen=True, slots=True)
class Proofs:
    """The verifications that passed of a subject: a compaction, as it was named when they were noted."""

    subject: str
    of: tuple[Proof, ...]


@dataclass(frozen=True, slots=True)
class ApplyState:
    """What earlier runs keep beside a table. Losing it costs a verification or a count, never data.

    `run_ms` is how long the last run that compacted the table took, from its begin to the commit. `verified` says which
    compaction was verified last, and how: any text that is equal for equal proofs. `unproven` is the compaction that did not
    pass its verification; where there is one, nothing is verified. `misrecorded` are the log files that were found to hold
    earlier events than their commits recorded. `refusals` are those in a row so far.
    """

    run_ms: int | None = None
    verified: str | None = None
    unproven: Unproven | None = None
    misrecorded: tuple[Misrecorded, ...] = ()
    proofs: Proofs | None = None
    refusals: Refusals | None = None

    def proofs_of(self, subject: str) -> tuple[Proof, ...]:
        """The proofs of a subject; none where those that are kept are of another."""
        return self.proofs.of if self.proofs is not None and self.proofs.subject == subject else ()


class ApplyStateStore(Protocol):
    """Keeps the state of `etc apply` beside each table."""

    def read(self, base_path: str) -> ApplyState:
        """What is kept now; what means nothing counts as missing.

        Raises:
            TableError: it cannot be read.

        """

    def update(self, base_path: str, change: Callable[[ApplyState], ApplyState]) -> ApplyState:
        """Keep what the change makes of what is kept right now, perhaps by another process since it was read; returns that."""
