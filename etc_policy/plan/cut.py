"""The cut: the one instant C at which the chosen slices are split into what is compacted and what stays (facts: cut-in-the-past).

C starts 1 ms after the latest completion that must be compacted. Each guard may only raise it, never lower it, and
they are asked again until none of them does: a fixed point that compacts a prefix of every chosen slice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Self

from etc_policy.plan.model import Move
from etc_policy.table.formats import count_of
from etc_policy.table.instants import add_ms
from etc_policy.table.state import WRITE_ACTIONS, FileSlice, Instant, LogFile, Slices, TableState, find_lacking

#: Completed actions that decide which slices exist: C must lie after those that touched a chosen slice (facts: after-services).
SERVICE_ACTIONS = frozenset({"commit", "replacecommit", "logcompaction", "rollback", "restore"})
#: What completed of these is no data: a plan need not have seen it.
WITHOUT_DATA = frozenset({"clean", "savepoint", "indexing"})
#: Of the services the ones that take effect when they complete; a base file counts from its instant on.
_AT_COMPLETION = frozenset({"logcompaction", "rollback", "restore"})

#: Hudi's defaults: archiving starts above `hoodie.keep.max.commits` and leaves `hoodie.keep.min.commits`.
KEEP_MIN_COMMITS, KEEP_MAX_COMMITS = 20, 30
_COMPLETION = attrgetter("completed")

#: How many commits before archiving starts C is already kept out of what it will take.
ARCHIVE_MARGIN_COMMITS = 5


@dataclass(frozen=True, slots=True)
class Cut:
    """What the guards look at: the chosen slices, the two timelines and when archiving starts."""

    slices: tuple[FileSlice, ...]
    instants: tuple[Instant, ...]
    metadata_instants: frozenset[str]
    keep_commits: tuple[int, int] = (KEEP_MIN_COMMITS, KEEP_MAX_COMMITS)

    @classmethod
    def of(cls, slices: tuple[FileSlice, ...], state: TableState, hudi_options: Mapping[str, str]) -> Self:
        """What guards look at before these slices of a table are compacted, by the writers' options of its policy."""
        return cls(slices, state.instants, state.metadata_instants, archive_limits(hudi_options))


def archive_limits(hudi_options: Mapping[str, str]) -> tuple[int, int]:
    """(`hoodie.keep.min.commits`, `hoodie.keep.max.commits`) as the policy declares them, else Hudi's defaults."""
    minimum = hudi_options.get("hoodie.keep.min.commits", KEEP_MIN_COMMITS)
    return int(minimum), int(hudi_options.get("hoodie.keep.max.commits", KEEP_MAX_COMMITS))


@dataclass(frozen=True, slots=True)
class Raised:
    """C had to move up to `instant`: the rule that asks for it, and the file or instant that it met."""

    instant: str
    why: str
    witness: str | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    """A rule that may move C up, never down: what it is called, what would go wrong without it, and where it moves C to.

    Whether it is asked again when the plan is published; of those that are not, `rules` has a finer form.
    """

    title: str
    reason: str
    raised: Callable[[Cut, str], Raised | None]
    is_asked_again: bool = True

    @property
    def name(self) -> str:
        """As plans name it."""
        return self.raised.__name__


_GUARDS: list[Guard] = []


def _guard(
    title: str, reason: str, *, is_asked_again: bool = True
) -> Callable[[Callable[[Cut, str], Raised | None]], Callable[[Cut, str], Raised | None]]:
    """Put a function into the table of guards."""

    def decorated(raised: Callable[[Cut, str], Raised | None]) -> Callable[[Cut, str], Raised | None]:
        _GUARDS.append(Guard(title, reason, raised, is_asked_again))
        return raised

    return decorated


def compacted(file_slice: FileSlice, instant: str) -> tuple[LogFile, ...]:
    """The slice's log files that a compaction at `instant` merges: those that completed before it."""
    return file_slice.log_files[: _first_not_before(file_slice, instant)]


def remaining(file_slice: FileSlice, instant: str) -> tuple[LogFile, ...]:
    """The slice's log files that fall into the new slice by themselves: those that completed at or after `instant`."""
    return file_slice.log_files[_first_not_before(file_slice, instant) :]


def _first_not_before(file_slice: FileSlice, instant: str) -> int:
    """The place of the first log file that completed at `instant` or later; they are in the order of completion."""
    return bisect_left(file_slice.log_files, instant, key=_COMPLETION)


@_guard(
    "overlapping writers",
    "Log files merge in the order in which their commits were requested. A commit requested before C that completes "
    "after C would lose its place in that order, and queries of the past would change.",
)
def closed_in_both_orders(cut: Cut, instant: str) -> Raised | None:
    """Slices follow completion order, merging and time travel requested order; C respects both (facts: both-orders).

    So nothing that stays behind may have been requested before C, and nothing that is compacted after it: merged in requested
    order the one would change places with the other, and between a request and C time travel would miss it.
    """
    late = [
        log_file
        for file_slice in cut.slices
        for log_file in remaining(file_slice, instant)
        if log_file.requested < instant
    ]
    why = "a commit that was requested before it completed after it, on a chosen slice (writers overlapped)"
    return _past_the_last(late, why) if late else _past_the_requests(cut, instant)


def _past_the_requests(cut: Cut, instant: str) -> Raised | None:
    """Where clocks were set back meanwhile, what completed before C may have been requested after it."""
    merged = (log_file for file_slice in cut.slices for log_file in compacted(file_slice, instant))
    last = max((one for one in merged if one.requested >= instant), key=attrgetter("requested", "name"), default=None)
    if last is None:
        return None
    why = "a commit that completed before it was requested after it, on a chosen slice (clocks were set back)"
    witness = f"{last.name}, requested at {last.requested}, completed at {last.completed}"
    return Raised(add_ms(last.requested, 1), why, witness)


@_guard(
    "delete rule",
    "A log file that is merged holds deletes, or may hold some. Separated from what was written to the same slice later, "
    "a deleted key can come back, or exist twice.",
)
def no_tombstone_alone(cut: Cut, instant: str) -> Raised | None:
    """A slice that compacts a delete may leave no log file behind.

    An index over base files only would not find the key again (facts: delete-rule). And whatever the index, a delete that carries
    an event time hides later upserts of an earlier time only while it is in the log.
    """
    late = [
        log_file
        for file_slice in cut.slices
        if (left := remaining(file_slice, instant))
        and any(log_file.has_deletes for log_file in compacted(file_slice, instant))
        for log_file in left
    ]
    why = (
        "delete rule: a compacted log file holds deletes, which must not be separated from what was written after them"
    )
    return _past_the_last(late, why) if late else None


def _past_the_last(late: list[LogFile], why: str) -> Raised:
    last = max(late, key=lambda log_file: (log_file.completed, log_file.name))
    witness = f"{last.name}, requested at {last.requested}, completed at {last.completed}"
    return Raised(add_ms(last.completed, 1), why, witness)


@_guard(
    "table services",
    "A compaction, log compaction, replace or rollback has changed a chosen slice since. C must come after it.",
    is_asked_again=False,
)
def after_services(cut: Cut, instant: str) -> Raised | None:
    """C is later than every completed compaction, replace and rollback that touched a chosen slice.

    A compaction or replace counts with its instant, which is where its slices begin, so that a cut may follow another
    one closely; a rollback or log compaction counts with its completion.
    """
    chosen = {file_slice.file_id for file_slice in cut.slices}
    latest, last = max(
        (
            (max(done.requested, (done.completed if done.action in _AT_COMPLETION else None) or ""), done)
            for done in cut.instants
            if done.state == "completed" and done.action in SERVICE_ACTIONS
            if done.file_ids is None or not chosen.isdisjoint(done.file_ids)
        ),
        key=lambda found: found[0],
        default=("", None),
    )
    if last is None or latest < instant:
        return None
    why = "a compaction, replace or rollback touched a chosen slice after that"
    return Raised(add_ms(latest, 1), why, f"the {last.action} at {last.requested}, completed at {last.completed}")


@_guard(
    "altered schema",
    "A compaction reads by the schema of the last commit before C. Before an ALTER TABLE it would lose values of columns.",
    is_asked_again=False,
)
def after_schema_changes(cut: Cut, instant: str) -> Raised | None:
    """No later write carries another evolved schema than the last one before C (facts: schema-of-the-cut).

    A table whose last write hides its schema is refused before any C is looked for.
    """
    found = find_lacking(cut.instants, instant)
    if found is None or found.requested < instant:
        return None
    why = "the table's schema was altered after that, and values would be lost"
    return Raised(add_ms(found.requested, 1), why, f"the write at {found.requested}")


@_guard(
    "archiving",
    "Hudi has archived the commits up to there, or is about to. Over a pending compaction that is older than the first "
    "active commit its readers lose rows.",
)
def after_archive(cut: Cut, instant: str) -> Raised | None:
    """C is later than the first active commit, also after the archiving that is about to happen.

    Archiving may go beyond savepoints: it counts their commits, and leaves them behind (facts: archive-savepoints).
    """
    active = not_left_behind(cut.instants) or sorted(i.requested for i in cut.instants)
    if not active:
        return None
    done = [i for i in cut.instants if i.action in WRITE_ACTIONS and i.state == "completed"]
    archivable = not_left_behind(done)
    floor = active[0]
    keep_min, keep_max = cut.keep_commits
    if archivable and len(done) > keep_max - ARCHIVE_MARGIN_COMMITS and len(done) >= keep_min:
        floor = max(floor, archivable[min(len(done) - keep_min, len(archivable) - 1)])
    if instant > floor:
        return None
    why = "archiving has reached, or is about to reach, the commits before that"
    limits = f"above {keep_max} commits it leaves {keep_min}"
    return Raised(add_ms(floor, 1), why, f"{count_of(len(done), 'active commit')} from {active[0]} on; {limits}")


def not_left_behind(instants: Iterable[Instant]) -> list[str]:
    """The requests of the writes without a savepoint, in order; of those with one where there are no others."""
    writes = [one for one in instants if one.action in WRITE_ACTIONS]
    free = [one for one in writes if not one.has_savepoint]
    return sorted(one.requested for one in free or writes)


def archive_passed(instants: tuple[Instant, ...], instant: str) -> bool:
    """Whether archiving has passed a pending plan at `instant`: then the plan makes readers lose rows (facts: archive-passed)."""
    writes = not_left_behind(one for one in instants if one.requested != instant)
    return instant <= next(iter(writes), "")


@_guard(
    "free instant",
    "Another instant of the table or of its metadata table has exactly that time.",
)
def at_a_free_time(cut: Cut, instant: str) -> Raised | None:
    """C is the time of no other instant, of the table or of its metadata table (facts: free-instant)."""
    taken = cut.metadata_instants.union(
        *({i.requested, i.completed} if i.completed else {i.requested} for i in cut.instants)
    )
    free = instant
    while free in taken:
        free = add_ms(free, 1)
    return Raised(free, "another instant has that time") if free != instant else None


#: In the order in which they are asked.
GUARDS: tuple[Guard, ...] = tuple(_GUARDS)


def find_cut(cut: Cut, start: str, guards: Iterable[Guard] = GUARDS) -> tuple[str, tuple[Move, ...]]:
    """The smallest C at or above `start` that every guard accepts, and each move on the way there."""
    instant, moves, order = start, [], tuple(guards)
    while found := next(((guard, raised) for guard in order if (raised := guard.raised(cut, instant))), None):
        guard, raised = found
        moves.append(
            Move(guard=guard.name, before=instant, after=raised.instant, why=raised.why, witness=raised.witness)
        )
        instant = raised.instant
    return instant, tuple(moves)


def closed_before(slices: Slices, writer: str, instant_of: Callable[[Slices], str]) -> Slices:
    """Slices that one compaction before the instant `writer` can merge; empty where none can be.

    `instant_of` gives the earliest C for some slices; it never is earlier for more of them. Those whose own C is earliest
    are taken, as many as have a C before the writer together.
    """
    alone = ((instant_of((one,)), index, one) for index, one in enumerate(slices))
    ordered = tuple(one for instant, _, one in sorted(alone, key=lambda found: found[:2]) if instant < writer)
    count = bisect_left(range(1, len(ordered) + 1), True, key=lambda size: instant_of(ordered[:size]) >= writer)
    taken = {one.group for one in ordered[:count]}
    return tuple(one for one in slices if one.group in taken)
