"""What a refusal is, what `rules` are asked of (`Facts`), and what is found only while a plan is built."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from etc_policy.plan.model import PUBLISHED, Operation, PendingWork, SeenState
from etc_policy.plan.split import is_exact
from etc_policy.policy.manifest import Policy
from etc_policy.table.formats import format_time
from etc_policy.table.history import promise_of
from etc_policy.table.instants import instant_from_ms
from etc_policy.table.state import (
    CUT_VERSIONS,
    FileSlice,
    Instant,
    TableState,
)
from etc_policy.table.unknown_times import why_unknown_times

#: Services that decide which slices exist; the RFC's EVENT_TIME_TRIGGER runs after them, never beside them.
BLOCKING_ACTIONS = {
    "compaction": "compaction",
    "logcompaction": "log compaction",
    "clustering": "clustering",
    "replacecommit": "replace commit",
    "restore": "restore",
    "rollback": "rollback",
    "indexing": "metadata index build",
}
#: Services that go by choices of their writers which no table shows: `etc` carries out none of them.
LEFT_TO_WRITERS = ("clustering", "logcompaction")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a table is left as it is: a code for machines, a sentence, and what to do."""

    code: str
    reason: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal(Reason):
    """Why a table may not be compacted now; its code is that of a row of `RULES`, `pending` is the work that it waits for."""

    pending: PendingWork | None = None


def refusal_message(policy: str, code: str | None, reason: str | None) -> str:
    """A refusal as an error's message."""
    return " ".join(filter(None, (f"`{policy}` cannot be compacted now", word_of(code)))) + f": {reason}"


def word_of(code: str | None) -> str:
    """The word of a refusal in brackets, which `etc explain` takes; empty where it has an error code of its own."""
    return f"({code})" if code and not code.startswith("ETC") else ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What rules look at. From `instant` on it is about a compaction that was planned, none while one is being planned.

    `clock_ms` is None where a rule is asked whether it spoils a plan. `seen` is what a saved plan was made from. `files_gone`,
    `wrong_schema` and `rolled_back` are what the table's files say of a plan that is on the timeline.
    """

    policy: Policy
    state: TableState
    clock_ms: int | None
    instant: str = ""
    operations: tuple[Operation, ...] = ()
    seen: SeenState | None = None
    files_gone: tuple[str, ...] = ()
    wrong_schema: str | None = None
    rolled_back: str | None = None

    @property
    def now(self) -> str:
        """The clock in the table's zone.

        Raises:
            ValueError: what spoils a plan is asked without a clock.

        """
        if self.clock_ms is None:
            raise ValueError("no clock is known at this moment")
        return instant_from_ms(self.clock_ms, ZoneInfo(self.state.timezone))

    @property
    def is_cut(self) -> bool:
        """Whether the table's version has a cut."""
        return self.state.table_version in CUT_VERSIONS

    @property
    def carries(self) -> bool:
        """Whether the compaction adds log files to its slices: carried ones (table version 6), or rows that were split off."""
        return any(operation.adds_log_files for operation in self.operations)


def work_of(pending: Instant) -> PendingWork:
    """What a refusal waits for."""
    return PendingWork(instant=pending.requested, action=pending.action, is_begun=pending.state != "requested")


def no_commit(state: TableState) -> Reason | None:
    """Nothing was ever written to the table: there is nothing to compact, and nobody knows what RO should hold."""
    has_writes = any(i.action == "deltacommit" and i.completed for i in state.instants)
    return None if has_writes or state.slices else Reason("no_commit", "no commit yet")


def nothing_due(policy: Policy, *, elsewhere: bool, can_wait: bool) -> Reason:
    """No file slice is due: all can wait for the next run, or those that cannot are not ones that the policy takes."""
    if policy.is_stock:
        return Reason("nothing_due", f"`{policy.strategy.type}` takes no file slice of the table as it is")
    if can_wait and not elsewhere:
        return Reason("nothing_due", "what log files hold can wait for the next run without breaking the target")
    where = " in the partitions of `strategy.partitions`" if elsewhere else ""
    return Reason("nothing_due", f"no log file{where} can hold an event at or below the threshold")


def is_published(policy: Policy, state: TableState, threshold_ms: int) -> Reason | None:
    """An earlier run had its T at this boundary of `strategy.at`, or after it."""
    boundaries, promise = policy.strategy.boundaries, promise_of(policy, state)
    if boundaries is None or promise is None or promise.threshold_ms < threshold_ms:
        return None
    due_ms = boundaries.next_ms(max(threshold_ms, promise.threshold_ms)) + policy.data_latency_ms
    reason = f"this boundary of `strategy.at` was published by the compaction at {promise.instant}"
    return Reason(PUBLISHED, f"{reason}; the next one is due at {format_time(due_ms)}")


def overlapping_writer(state: TableState, writer: str, instant: str) -> Refusal:
    """A living writer that began before C would be missed by time travel and by incremental readers while C is pending.

    Later writes that have completed prove nothing of it, as there may be several writers: but it may have failed
    (facts: failed-write-unknown).
    """
    reason = (
        f"a writer that began at {writer} is in flight, and the compaction would have to come after it, at {instant}"
    )
    work = _writing(state, writer)
    later = sum(i.action == "deltacommit" and i.requested > writer and i.completed is not None for i in state.instants)
    if not later:
        return Refusal("writer_in_flight", reason, "plan again when the writer has committed", work)
    hint = (
        "plan again when the writer has committed. If its write has failed, end or restart its process: until then Hudi keeps "
        "the heartbeat of a failed write fresh, and nobody can know"
    )
    completed = "1 write that began after it has" if later == 1 else f"{later} writes that began after it have"
    return Refusal("writer_in_flight", f"{reason}; {completed} completed", hint, work)


def written_to_all(state: TableState) -> Refusal:
    """Every file slice that is due compacts deletes, and writers add to each, or may."""
    reason = "every file slice that is due has deletes to compact, and writers "
    if began := oldest_writer(state):
        hint = "plan again when it has committed; if it is dead, the next commit of a writer rolls it back"
        why = f"{reason}may add to it (delete rule): {not_ended(state)}"
        return Refusal("writer_in_flight", why, hint, _writing(state, began))
    return Refusal(
        "writer_in_flight",
        f"{reason}kept adding to it meanwhile (delete rule)",
        "plan again when the writers are at rest",
    )


def unknown_left_out(policy: Policy, state: TableState, left_out: FileSlice, *, contended: bool) -> Refusal:
    """A slice that is left out may hold any event, so that no T would be true."""
    if contended:
        by = "writers that keep adding to its file slice leave"
    else:
        by = "`strategy.type` leaves" if policy.is_stock else "`strategy.partitions` or `strategy.max_io` leaves"
    reason = f"a log file without a known event time is due, and {by} it out"
    also = ("set `strategy.type: unbounded`",) if policy.is_stock else ()
    hints = (*why_unknown_times(policy.event_time, state, left_out.log_files), *also)
    return Refusal("unknown_left_out", reason, "; or ".join(hints))


def not_ended(state: TableState) -> str:
    """That the oldest write in flight that may live has not ended; empty without one."""
    began = oldest_writer(state)
    return f"the writer that began at {began} has not ended" if began else ""


def oldest_writer(state: TableState) -> str | None:
    """When the oldest write in flight began that may live."""
    return min((write.requested for write in state.writes_in_flight if write.may_live), default=None)


def _writing(state: TableState, writer: str) -> PendingWork:
    found = next((one for one in state.pending if one.requested == writer), None)
    return work_of(found) if found else PendingWork(instant=writer, action="deltacommit")


def not_exact(policy: Policy, threshold_ms: int, complete_ms: int) -> Refusal | None:
    """RO is the table as of T only where no slice that is due is left out."""
    if not is_exact(policy) or complete_ms >= threshold_ms:
        return None
    reason = (
        f"some file slices that are due would be left out, as writers are at work: RO would not be the table as of "
        f"{format_time(threshold_ms)}, but lack some of its rows from {format_time(complete_ms + 1)} on"
    )
    return Refusal("not_exact", reason, "plan again when the writers are at rest, or set `granularity: log_file`")
