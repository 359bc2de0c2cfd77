"""Why nothing is compacted although the table may be planned: writers are in the way, or nothing is due."""

from __future__ import annotations

from etc_policy.plan.model import PendingWork
from etc_policy.plan.refusals import Reason, Refusal, work_of
from etc_policy.policy.manifest import Policy
from etc_policy.table.state import FileSlice, TableState
from etc_policy.table.unknown_times import unknown_times


def overlapping_writer(state: TableState, writer: str, instant: str) -> Refusal:
    """A living writer that began before C would be missed by time travel and by incremental readers while C is pending.

    Later writes that have completed prove nothing of it, as there may be several writers: but it may have failed
    (facts: failed-write-unknown).
    """
    reason = (
        f"a writer that began at {writer} is in flight, and the compaction would have to come after it, at {instant}"
    )
    work = _work_of(state, writer)
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
        return Refusal("writer_in_flight", why, hint, _work_of(state, began))
    return Refusal(
        "writer_in_flight",
        f"{reason}kept adding to it meanwhile (delete rule)",
        "plan again when the writers are at rest",
    )


def nothing_due(policy: Policy, *, elsewhere: bool, can_wait: bool) -> Reason:
    """No file slice is due: all can wait for the next run, or those that cannot are not ones that the policy takes."""
    if policy.is_stock:
        return Reason("nothing_due", f"`{policy.strategy.type}` takes no file slice of the table as it is")
    if can_wait and not elsewhere:
        return Reason("nothing_due", "what log files hold can wait for the next run without breaking the target")
    where = " in the partitions of `strategy.partitions`" if elsewhere else ""
    return Reason("nothing_due", f"no log file{where} can hold an event at or below the threshold")


def unknown_left_out(policy: Policy, state: TableState, left_out: FileSlice, *, written_to: bool) -> Refusal:
    """A slice that is left out may hold any event, so that no T would be true."""
    if written_to:
        by = "writers that keep adding to its file slice leave"
    else:
        by = "`strategy.type` leaves" if policy.is_stock else "`strategy.partitions` or `strategy.max_io` leaves"
    reason = f"a log file without a known event time is due, and {by} it out"
    also = ("set `strategy.type: unbounded`",) if policy.is_stock else ()
    hints = (*unknown_times(policy.event_time, state, left_out.log_files), *also)
    return Refusal("unknown_left_out", reason, "; or ".join(hints))


def not_ended(state: TableState) -> str:
    """That the oldest write in flight that may live has not ended; empty without one."""
    began = oldest_writer(state)
    return f"the writer that began at {began} has not ended" if began else ""


def oldest_writer(state: TableState) -> str | None:
    """When the oldest write in flight began that may live."""
    return min((write.requested for write in state.writes_in_flight if write.may_live), default=None)


def _work_of(state: TableState, writer: str) -> PendingWork:
    found = next((one for one in state.pending if one.requested == writer), None)
    return work_of(found) if found else PendingWork(instant=writer, action="deltacommit")
