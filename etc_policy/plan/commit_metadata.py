"""What a compaction of ours says about itself: the extra metadata of its plan and its commit."""

from __future__ import annotations

from collections.abc import Mapping

from etc_policy.plan.stages import TablePlan
from etc_policy.plan.table_state import CompactionRecord

THRESHOLD = "etc.event_time.threshold"
POLICY = "etc.policy"
FINGERPRINT = "etc.policy_fingerprint"
PLAN_ID = "etc.plan_id"
SEEN_UNTIL = "etc.seen_until"
GRANULARITY = "etc.granularity"
GIT_SHA = "etc.git_sha"


def extra_metadata(table: TablePlan, plan_id: str, git_sha: str | None) -> dict[str, str]:
    """The pairs committed with the compaction; the threshold is in epoch milliseconds."""
    pairs = {
        THRESHOLD: str(table.threshold_ms),
        POLICY: table.policy,
        FINGERPRINT: table.policy_fingerprint,
        PLAN_ID: plan_id,
        SEEN_UNTIL: table.seen.last_completed or "",
        GRANULARITY: table.granularity,
    }
    return {**pairs, GIT_SHA: git_sha} if git_sha else pairs


def compaction_record(instant: str, completed: str, extra: Mapping[str, str]) -> CompactionRecord | None:
    """The record in a commit's or plan's extra metadata; None for a compaction that is not ours."""
    threshold = extra.get(THRESHOLD, "")
    if not threshold.lstrip("-").isdigit():
        return None
    return CompactionRecord(
        instant=instant,
        completed=completed,
        threshold_ms=int(threshold),
        policy=extra.get(POLICY, ""),
        plan_id=extra.get(PLAN_ID, ""),
        seen_until=extra.get(SEEN_UNTIL, ""),
    )
