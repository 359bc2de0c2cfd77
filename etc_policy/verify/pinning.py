"""At which state of the timeline both views are read, so that they show the same commits."""

from __future__ import annotations

from etc_policy.plan.instants import add_ms
from etc_policy.plan.table_state import TableState

#: What keeps Hudi from time travel beyond it as long as it is incomplete (`TimelineUtils.validateTimestampAsOf`).
_COMMITS = ("commit", "deltacommit", "replacecommit", "clustering")


def pin_of(state: TableState) -> str | None:
    """The instant as of which a query shows the table as it is in `state`; None where Hudi allows no such query.

    That is the last completion, or where a writer in flight has begun before it, the time right before that writer. Nothing
    is missed there if all that completed since is our own compaction at an earlier instant: it changes no row of RT, and RO
    shows it as of its instant.
    """
    last = state.last_completed
    incomplete = min((i.requested for i in state.pending if i.action in _COMMITS), default=None)
    if last is None or incomplete is None or incomplete > last:
        return last
    pin, ours = add_ms(incomplete, -1), state.last_compaction
    since = {i.requested for i in state.instants if i.state == "completed" and (i.completed or i.requested) > pin}
    return pin if ours is not None and since == {ours.instant} and ours.instant <= pin else None
