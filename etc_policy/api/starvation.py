"""Tables that are refused again and again because something is always pending: counted, and reported with what to do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from etc_policy.errors import OvertakenError, StalePlanError
from etc_policy.plan.between_writes import ends_refusals
from etc_policy.plan.model import PendingWork, TablePlan
from etc_policy.plan.refusals import BLOCKING_ACTIONS
from etc_policy.plan.rules import Passes, is_by_writers, passing
from etc_policy.policy.manifest import Policy
from etc_policy.table.apply_state import ApplyState, ApplyStateStore, Refusals
from etc_policy.table.formats import count_of, format_time
from etc_policy.table.state import GroupKey

#: As many refusals in a row are no accident any more.
REFUSALS_BEFORE_ADVICE = 3
#: Where more file groups are busy than this, the others are not what a run should begin with.
BUSY_AT_MOST = 100

_WRITER = "a writer is in flight whenever etc looks: run `etc apply` in the writer's job, between two batches"
_SERVICE = (
    "its clustering or compaction is pending whenever etc looks: let `etc apply` run in the same job, right after that "
    "service, or let the service run less often than etc"
)


def is_blocked_by_pending_work(table: TablePlan) -> bool:
    """Whether a plan was refused because of something that was only pending."""
    return table.action == "refused" and passing(table.reason_code) == Passes.OTHERS_END


def with_remedy(policy: Policy, table: TablePlan, before: Refusals | None) -> TablePlan:
    """The plan; one that is refused once more after several refusals (`before`) says so, and what to do.

    What would end refusals by writers that never pause is said at the first one.
    """
    if not is_blocked_by_pending_work(table):
        return table
    by_writers = is_by_writers(table.reason_code)
    ends = ends_refusals(policy, table.table_version, table.base_path) if by_writers else None
    if before is None or before.count + 1 < REFUSALS_BEFORE_ADVICE:
        first, *others = (*table.hints, "")
        return table.model_copy(update={"hints": tuple(filter(None, (_joined(first, ends), *others)))})
    now = Refusals(before.count + 1, before.since, before.pending)
    hint = _joined(remedy(now, table.pending), ends)
    return table.model_copy(update={"hints": (hint, *table.hints)})


def _joined(*hints: str | None) -> str:
    return "; ".join(filter(None, hints))


def remedy(refusals: Refusals, pending: PendingWork | None = None) -> str:
    """What to do about a table that is refused again and again; `pending` is what the last refusal waits for."""
    is_service = pending is not None and pending.action in BLOCKING_ACTIONS
    advice = _stuck(refusals, pending) or (_SERVICE if is_service else _WRITER)
    return f"refused {count_of(refusals.count, 'time')} in a row, since {refusals.since}: {advice}"


def _stuck(refusals: Refusals, pending: PendingWork | None) -> str | None:
    """What to do about one thing that has been pending all the time; None where it is another each time."""
    if pending is None or pending.instant != refusals.pending:
        return None
    if pending.action not in BLOCKING_ACTIONS:
        return (
            f"the write that began at {pending.instant} has been in flight all the time. If it has failed, end or restart "
            "its writer's process: until then Hudi keeps the heartbeat of a failed write fresh"
        )
    what = f"the {BLOCKING_ACTIONS[pending.action]} at {pending.instant} has been pending all the time"
    once = "`etc finish` runs it once" if pending.action == "compaction" else "run it once by hand, or cancel it"
    if not pending.is_begun:
        return f"{what} and was never started: the job that requests it must also run it; {once}"
    return f"{what}: whoever began it may be dead; if so, {once}"


def count_refusal(policy: Policy, store: ApplyStateStore, now_ms: int, pending: PendingWork | None = None) -> Refusals:
    """Counts one more refusal of a policy's table; returns how many in a row that makes."""
    this = Refusals(1, format_time(now_ms), pending.instant if pending else "")
    after = store.update(policy.table, lambda kept: replace(kept, refusals=_one_more(kept.refusals, this)))
    return after.refusals or this


def _one_more(before: Refusals | None, this: Refusals) -> Refusals:
    if before is None:
        return this
    return Refusals(before.count + 1, before.since, this.pending if this.pending == before.pending else "")


def end_refusals(policy: Policy, store: ApplyStateStore, run_ms: int | None = None) -> None:
    """Ends the row of refusals of a policy's table; `run_ms` is how long a run took that compacted it."""

    def ended(kept: ApplyState) -> ApplyState:
        return replace(kept, refusals=None, run_ms=kept.run_ms if run_ms is None else run_ms)

    store.update(policy.table, ended)


def count_run(policy: Policy, store: ApplyStateStore, now_ms: int, *, moved: bool, busy: Collection[GroupKey]) -> None:
    """Counts a run of a policy's table that has ended; `moved` says that it brought RO further, or had nothing to do.

    `busy` are the file groups that it left out, as writers had added to them meanwhile: the next run begins with the others.
    """
    groups = tuple(sorted(busy)) if len(busy) <= BUSY_AT_MOST else ()

    def ended(kept: ApplyState) -> ApplyState:
        return replace(kept, runs=kept.runs.with_run(moved=moved, now_ms=now_ms), busy=groups)

    store.update(policy.table, ended)


def count_stale(policy: Policy, store: ApplyStateStore, error: StalePlanError, now_ms: int, table_version: int) -> int:
    """Counts a plan that grew stale between its making and its commit: again and again, it is starved by writers."""
    refusals = count_refusal(policy, store, now_ms)
    ends = ends_refusals(policy, table_version, policy.table) if isinstance(error, OvertakenError) else None
    again = remedy(refusals) if refusals.count >= REFUSALS_BEFORE_ADVICE else None
    error.hint = _joined(error.hint, again, ends) or None
    return refusals.count
