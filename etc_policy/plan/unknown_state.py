"""What keeps a table from being planned, and anybody from knowing how far RO is complete: a plan says nothing of that then."""

from __future__ import annotations

from etc_policy.plan.clock import times_refusal
from etc_policy.plan.model import TablePlan
from etc_policy.plan.refusals import Refusal, find_damage, find_refusal, unsupported_version
from etc_policy.plan.stock_choice import days_refusal
from etc_policy.policy.manifest import Policy
from etc_policy.table.state import TableState

#: Refusals that pass by themselves, or that the next `etc apply` ends.
PASSING_REFUSALS = frozenset({"pending_service", "pending_own_plan", "writer_in_flight", "too_young"})


def why_refused(policy: Policy, state: TableState, clock_ms: int) -> Refusal | None:
    """Why no compaction of the table may be planned, whatever is due; None where one may."""
    return find_refusal(policy, state) or times_refusal(policy, state, clock_ms) or days_refusal(policy, state)


def why_unknown(policy: Policy, state: TableState, clock_ms: int) -> Refusal | None:
    """Why the table's metadata do not show how far RO is complete, whatever is pending on it; None where they do.

    Its instants are wrong or of another zone, data files are missing or damaged, event times cannot be read, files belong
    together by rules that are not known, or nothing bounds the event times of one.
    """
    return (
        times_refusal(policy, state, clock_ms)
        or unsupported_version(state)
        or find_damage(policy, state)
        or _unbounded(state)
    )


def _unbounded(state: TableState) -> Refusal | None:
    """A carried log file of table version 6: its rows came before the compaction that carried it, which is archived."""
    name = next((one.name for _, one in state.log_files if one.may_hold_anything), None)
    if name is None:
        return None
    reason = f"nobody knows when rows of {name} came that have no known event time: the compaction that carried it is archived"
    return Refusal(
        "unbounded_event_times", reason, "`etc apply` compacts it; without `--metadata-only` its event times are read"
    )


def claiming_nothing(refused: TablePlan, why: Refusal) -> TablePlan:
    """The plan without what it would say of completeness, and of what its file slices hold; it says why not."""
    other = () if why.reason == refused.reason else (f"how far RO is complete is not known: {why.reason}",)
    return refused.model_copy(
        update={
            "watermark_known": False,
            "watermark_before_ms": None,
            "watermark_after_ms": None,
            "watermark_assumed": False,
            "held_back_by": None,
            "left_out": (),
            "warnings": (*other, *refused.warnings),
        }
    )
