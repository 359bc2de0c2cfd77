"""Tables that are refused again and again because something is always pending: counted, and told with what to do."""

from __future__ import annotations

from etc_policy.compile.manifest import Policy
from etc_policy.errors import StalePlanError
from etc_policy.execute.ports import ApplyStateStore, Refusals
from etc_policy.plan.formats import format_time
from etc_policy.plan.stages import TablePlan

#: As many refusals in a row are no accident any more.
REFUSALS_BEFORE_ADVICE = 3

_REMEDIES = {
    "pending_service": (
        "its clustering or compaction is pending whenever etc looks: let `etc apply` run in the same job, right after "
        "that service, or let the service run less often than etc"
    ),
    "writer_in_flight": (
        "a writer is in flight whenever etc looks: run `etc apply` in the writer's job, between two batches"
    ),
}


def is_blocked_by_pending_work(table: TablePlan) -> bool:
    """Whether a plan was refused because of something that was only pending."""
    return table.action == "refused" and table.reason_code in _REMEDIES


def with_remedy(table: TablePlan, memory: ApplyStateStore) -> TablePlan:
    """The plan; one that is refused once more after several refusals says so, and what to do."""
    if not is_blocked_by_pending_work(table):
        return table
    before = memory.refusals(table.base_path)
    if before is None or before.count + 1 < REFUSALS_BEFORE_ADVICE:
        return table
    hint = remedy(Refusals(before.count + 1, before.since), table.reason_code or "")
    return table.model_copy(update={"hints": (hint, *table.hints)})


def remedy(refusals: Refusals, code: str) -> str:
    """What to do about a table that is refused again and again."""
    return f"refused {refusals.count} times in a row, since {refusals.since}: {_REMEDIES[code]}"


def count_refusal(policy: Policy, memory: ApplyStateStore, now_ms: int) -> Refusals:
    """Counts one more refusal of a policy's table; returns how many in a row that makes."""
    before = memory.refusals(policy.table)
    after = Refusals(before.count + 1, before.since) if before else Refusals(1, format_time(now_ms))
    memory.note_refusals(policy.table, after)
    return after


def end_refusals(policy: Policy, memory: ApplyStateStore) -> None:
    """Ends the row of refusals of a policy's table."""
    if memory.refusals(policy.table) is not None:
        memory.note_refusals(policy.table, None)


def count_stale(policy: Policy, memory: ApplyStateStore, error: StalePlanError, now_ms: int) -> int:
    """Counts a plan that grew stale between its making and its commit: again and again, it is starved by writers."""
    refusals = count_refusal(policy, memory, now_ms)
    if refusals.count >= REFUSALS_BEFORE_ADVICE:
        error.hint = "; ".join(filter(None, (error.hint, remedy(refusals, "writer_in_flight"))))
    return refusals.count
