"""What `etc apply` keeps beside a table from run to run, with what proves how far RO is complete, and its port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from etc_policy.policy.manifest import Frozen, Level, VerifyLevel, Whole
from etc_policy.table.formats import format_time

_HOUR_MS, _HOURS = 3_600_000, 24
#: In the place of what a partition's rows were where they did not agree, for an older etc.
DIFFERENT = ""
_PARTITIONS = " partitions"


class Proof(Frozen):
    """A verification that passed at `proved_at_ms`: RO was complete up to `until_ms` as far as the level can show.

    It looked at no log file that completed after the instant `seen_until`. All that was requested before `open_since` had
    completed then. `rests_on_ms` is when the oldest of the comparisons was made that it rests on, None where it rests on none.
    """

    level: VerifyLevel
    until_ms: Whole
    proved_at_ms: Whole
    seen_until: str = ""
    open_since: str = ""
    rests_on_ms: Whole | None = None

    @property
    def rank(self) -> Level:
        """The larger the stronger."""
        return Level[self.level]

    def __str__(self) -> str:
        older = "" if self.rests_on_ms is None else f", in part of {format_time(self.rests_on_ms // 1000 * 1000)}"
        return f"proof: {self.level}, {format_time(self.proved_at_ms // 1000 * 1000)}{older}"


def with_proof(kept: Iterable[Proof], new: Proof) -> tuple[Proof, ...]:
    """What is to be kept: of each level the newest and the one that reaches furthest, less weaker ones that reach no further
    than a stronger one.
    """
    own = [one for one in kept if one.level == new.level]
    furthest = max((one for one in own if one.until_ms > new.until_ms), key=lambda one: one.until_ms, default=None)
    rest = (
        one for one in kept if one.level != new.level and not (one.rank < new.rank and one.until_ms <= new.until_ms)
    )
    return (*rest, *([furthest] if furthest else []), new)


def proof_of(until_ms: int, proofs: Sequence[Proof], now_ms: int) -> Proof:
    """The strongest proof that RO is complete up to a time; that of metadata, as of now, where none reaches so far."""
    reaching = [one for one in proofs if one.until_ms >= until_ms]
    by_metadata = Proof(level="metadata", until_ms=until_ms, proved_at_ms=now_ms)
    return max((by_metadata, *reaching), key=lambda one: (one.rank, one.proved_at_ms))


def proven_until(proofs: Iterable[Proof], level: VerifyLevel) -> int | None:
    """Up to where a proof of the level or of a stronger one reaches; None without one."""
    return max((one.until_ms for one in proofs if one.rank >= Level[level]), default=None)


class Looked(Frozen):
    """What of a table's rows a verification looked at: those up to `until_ms`, later than `since_ms` where that is given.

    `where` is the condition, and `sample` the sample, by which only some of them were read. `checks` are expectations about
    rows: of a verification that passed those that did, of a doubt those that have to. `ends` are of a doubt the partitions
    that it is about, where each was read up to its own end (epoch ms). Rows of writes that completed after the instant
    `seen_until` were late, and not held against it.
    """

    level: VerifyLevel
    until_ms: Whole = 0
    since_ms: Whole | None = None
    where: str | None = None
    sample: str | None = None
    checks: tuple[str, ...] = ()
    ends: Mapping[str, Whole] = {}
    seen_until: str = ""

    def covers(self, other: Looked) -> bool:
        """Whether it would have seen what was found in the rows of the other."""
        return (
            Level[self.level] >= Level[other.level]
            and self.until_ms >= other.until_ms
            and self.seen_until >= other.seen_until
            and (self.since_ms is None or (other.since_ms is not None and self.since_ms <= other.since_ms))
            and self.where in (None, other.where)
            and self.sample in (None, other.sample)
            and set(other.checks) <= set(self.checks)
        )

    def joined(self, other: Looked) -> Looked:
        """The least that covers both."""
        begins = [one for one in (self.since_ms, other.since_ms) if one is not None]
        return Looked(
            level=max(self.level, other.level, key=Level.__getitem__),
            until_ms=max(self.until_ms, other.until_ms),
            since_ms=min(begins) if len(begins) == 2 else None,
            where=self.where if self.where == other.where else None,
            sample=self.sample if self.sample == other.sample else None,
            checks=tuple(sorted({*self.checks, *other.checks})),
            ends={**self.ends, **{name: max(end, self.ends.get(name, end)) for name, end in other.ends.items()}},
            seen_until=max(self.seen_until, other.seen_until),
        )


class ComparedFiles(Frozen):
    """The partitions of base files alone in which a verification found nothing wrong with any row.

    `partitions` has what the files of each were, by name, size and version, and when its rows were compared (epoch ms).
    `subject` is all else that the comparison went by, `latest_ms` the earliest event time that it would have found too late,
    `last_write` when the last write that it saw had completed, and `full_ms` when all rows were compared at once.
    """

    subject: str
    full_ms: Whole
    last_write: str
    latest_ms: Whole | None = None
    partitions: Mapping[str, tuple[str, Whole]] = {}


class Misrecorded(NamedTuple):
    """A log file that holds an earlier event (`found_ms`) than its commit recorded; `path` is below the table.

    `event_time` is the key of the event time that was read (`event_time_key`); empty where an older etc kept it.
    """

    path: str
    size_bytes: int
    recorded_ms: int
    found_ms: int
    event_time: str = ""


@dataclass(frozen=True, slots=True)
class Refusals:
    """How often in a row a table could not be compacted because something was pending, and since when, in words.

    `pending` is the instant that was pending each time, empty where it was not always the same.
    """

    count: int
    since: str
    pending: str = ""


class Runs(Frozen):
    """Whether runs of `etc apply` brought RO further: how many in a row did not, since when, and by hours of the last day.

    An hour is counted from 1970 on, with how many runs ended in it and how many of these brought RO no further.
    """

    in_a_row: Whole = 0
    since_ms: Whole | None = None
    hours: tuple[tuple[Whole, Whole, Whole], ...] = ()

    def with_run(self, *, moved: bool, now_ms: int) -> Runs:
        """With one more that ended now; `moved` says that it brought RO further, or had nothing to do."""
        this = now_ms // _HOUR_MS
        by_hour = {hour: (runs, without) for hour, runs, without in self.hours if this - _HOURS < hour <= this}
        runs, without = by_hour.get(this, (0, 0))
        by_hour[this] = runs + 1, without + (not moved)
        hours = tuple((hour, *counts) for hour, counts in sorted(by_hour.items()))
        if moved:
            return Runs(hours=hours)
        return Runs(in_a_row=self.in_a_row + 1, since_ms=self.since_ms if self.in_a_row else now_ms, hours=hours)

    def of_day(self, now_ms: int) -> tuple[int, int]:
        """How many ended in the last 24 hours, this one among them, and how many of these brought RO no further."""
        this = now_ms // _HOUR_MS
        found = [(runs, without) for hour, runs, without in self.hours if this - _HOURS < hour <= this]
        return sum(runs for runs, _ in found), sum(without for _, without in found)


@dataclass(frozen=True, slots=True)
class Unproven:
    """A compaction that was done and did not pass its verification: which one, why in words, and how that ended.

    `compaction` is empty where rows were found at fault of a table that etc has not compacted yet. Where the rows of partitions
    were compared it says so too (`of_partitions`). `rows` is what was looked at where only that shows the fault: what covers it
    takes it back. All of these rows were there at `written_ms`. `event_time` is the key of the event time by which it was
    verified (`event_time_key`), empty where an older etc kept it. `passed` are the keys of the other event times by which the
    table passed since: what is missing by one may be beyond what RO promises by another.
    """

    compaction: str
    why: str
    verification: Literal["running", "fail", "error"] = "error"
    rows: Looked | None = None
    event_time: str = ""
    passed: tuple[str, ...] = ()
    written_ms: int = 0

    def is_of(self, event_time: str) -> bool:
        """Whether it was found by this event time, as far as that is known."""
        return self.event_time in ("", event_time)

    @staticmethod
    def of_partitions(compaction: str) -> str:
        """What is named where the rows of partitions are at fault, when this was the last compaction."""
        return f"{compaction}{_PARTITIONS}"

    @property
    def is_of_partitions(self) -> bool:
        """Whether the rows of partitions are at fault: a comparison of these takes it back too."""
        return self.compaction.endswith(_PARTITIONS)


@dataclass(frozen=True, slots=True)
class Proofs:
    """The verifications that passed of a subject: a compaction, as it was named when they were noted."""

    subject: str
    of: tuple[Proof, ...]


@dataclass(frozen=True, slots=True)
class ApplyState:
    """What earlier runs keep beside a table. Losing it costs a verification or a count, never data.

    `run_ms` is how long the last run that compacted the table took, from its begin to the commit. `verified` says which
    compaction was verified last, and how: any text that is equal for equal proofs. `unproven` has by event time the compaction
    that did not pass its verification. `misrecorded` are the log files that were found to hold
    earlier events than their commits recorded. `refusals` are those in a row so far, `runs` all of the last day. `busy` are the
    file groups that the last run left out, as writers had added to them while it compacted their deletes. `hold_bytes` is how
    much the next run may compact while it keeps writers out (`plan/hold.py`). `compared` has by partition what its rows were
    when both views were compared and agreed (`rows_key`). `compared_files` is what the next proof of rows may rest on.
    """

    run_ms: int | None = None
    verified: str | None = None
    unproven: tuple[Unproven, ...] = ()
    misrecorded: tuple[Misrecorded, ...] = ()
    proofs: Proofs | None = None
    refusals: Refusals | None = None
    runs: Runs = field(default_factory=Runs)
    busy: tuple[tuple[str, str], ...] = ()
    hold_bytes: int | None = None
    compared: Mapping[str, str] = field(default_factory=dict)
    compared_files: ComparedFiles | None = None

    @property
    def faults(self) -> frozenset[tuple[str, ...]]:
        """What takes back how far RO is said to be complete: doubts, log files earlier than recorded, that no proof is left."""
        doubts = {(one.compaction, one.event_time, one.verification) for one in self.unproven}
        lost = {(one.path, one.event_time) for one in self.misrecorded}
        proofs = {("proofs",)} if self.proofs is not None and not self.proofs.of else set()
        return frozenset({one for one in doubts if one[-1] != "running"} | lost | proofs)

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
