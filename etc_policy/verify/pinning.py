"""At which state of the timeline both views are read, so that they show the same commits."""

from __future__ import annotations

from etc_policy.plan.instants import add_ms
from etc_policy.plan.table_state import TableState

#: What keeps Hudi from time travel beyond it as long as it is incomplete (`TimelineUtils.validateTimestampAsOf`).
_COMMITS = ("commit", "deltacommit", "replacecommit", "clustering")


def pin_of(state: TableState) -> str | None:
    """The instant as of which a query shows the table as it is in `state`; None where Hudi allows no such query.

    That is the last completion, or where a writer in flight has begun before it, the time right before that writer. etc's
    own compaction must be part of it: what it promised, and all that it merged, is older. What other writers completed
    since is in neither view then; it is late data, which the metadata shows.
    """
    last = state.last_completed
    incomplete = min((i.requested for i in state.pending if i.action in _COMMITS), default=None)
    if last is None or incomplete is None or incomplete > last:
        return last
    pin, own = add_ms(incomplete, -1), state.last_compaction
    return pin if own is not None and own.instant <= pin else None
