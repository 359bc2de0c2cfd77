"""What ends an apply before anything is committed, as errors."""

from __future__ import annotations

from etc_policy.codes.registry import Code
from etc_policy.compile.manifest import Policy
from etc_policy.errors import EngineError, StalePlanError
from etc_policy.plan.clock import find_clock_refusal
from etc_policy.plan.refusals import Refusal
from etc_policy.plan.stages import TablePlan
from etc_policy.plan.staleness import find_stale
from etc_policy.plan.table_state import TableState


def raise_refusal(policy: Policy, refusal: Refusal | None) -> None:
    """Raise where there is a refusal: an EngineError that the policy's table cannot be compacted now."""
    if refusal is not None:
        message = f"`{policy.name}` cannot be compacted now: {refusal.reason}"
        raise EngineError(Code.CANNOT_COMPACT_NOW, message, hint=refusal.hint)


def raise_unfit(policy: Policy, table: TablePlan, state: TableState, now_ms: int, *, published: bool) -> None:
    """Raise where a plan may not be carried out on its table as it is now; `published` says that it is on the table.

    Raises:
        EngineError: the clock or its zone forbids it.
        StalePlanError: the table has changed.

    """
    raise_refusal(policy, find_clock_refusal(policy, table, state, now_ms))
    changes = find_stale(policy, table, state, published=published)
    if changes:
        message = f"the plan for `{table.policy}` no longer fits its table: {'; '.join(changes)}"
        raise StalePlanError(
            Code.STALE_PLAN, message, hint="nothing was touched; plan again, or `etc apply` without a plan"
        )
