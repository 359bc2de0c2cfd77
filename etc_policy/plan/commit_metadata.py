"""What a compaction by etc says about itself: the extra metadata of its plan and its commit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from etc_policy import __version__
from etc_policy.plan.carry import CARRIED, carried_text
from etc_policy.plan.model import TablePlan
from etc_policy.policy.bounded_json import load_json
from etc_policy.policy.manifest import GitState
from etc_policy.table.formats import FIRST_MS, LAST_MS
from etc_policy.table.history import (
    FINGERPRINT,
    GIT_DIRTY,
    GIT_SHA,
    GRANULARITY,
    LEFT_OUT,
    PLAN_ID,
    POLICY,
    POLICY_VALUES,
    SEEN_UNTIL,
    THRESHOLD,
    VERSION,
    WATERMARK_BEFORE,
    WITHDRAWN,
)
from etc_policy.table.state import CompactionRecord

#: What `git describe --dirty` adds to a commit whose files were changed since.
DIRTY_SUFFIX = "-dirty"


def extra_metadata(table: TablePlan, plan_id: str, git_sha: str | None) -> dict[str, str]:
    """The pairs committed with the compaction, which join its plan, its policy and the project's git commit.

    The threshold is in epoch milliseconds; `git_sha` may end in `-dirty`. The policy's values are a JSON mapping, so that
    the next run can say what changed in the policy, on any machine. The watermark before the compaction is in epoch
    milliseconds too: the log files that it was taken from will be gone.
    """
    pairs = {
        THRESHOLD: str(table.threshold_ms),
        POLICY: table.policy,
        FINGERPRINT: table.policy_fingerprint,
        PLAN_ID: plan_id,
        SEEN_UNTIL: table.seen.last_completed or "",
        GRANULARITY: table.granularity,
        POLICY_VALUES: json.dumps(table.policy_values, sort_keys=True, separators=(",", ":")),
        VERSION: __version__,
    }
    if carried := carried_text(table.operations):
        pairs[CARRIED] = carried
    if table.watermark_before_ms is not None:
        pairs[WATERMARK_BEFORE] = str(table.watermark_before_ms)
    if table.left_out_though_due:
        pairs[LEFT_OUT] = str(table.left_out_though_due)
    if not git_sha:
        return pairs
    dirty = {GIT_DIRTY: "true"} if git_sha.endswith(DIRTY_SUFFIX) else {}
    return {**pairs, GIT_SHA: git_sha.removesuffix(DIRTY_SUFFIX), **dirty}


def withdrawn_metadata() -> dict[str, str]:
    """The pairs of the empty commit that ends a withdrawn plan: they take back what the plan would have promised."""
    return {WITHDRAWN: "true", THRESHOLD: "", PLAN_ID: "", VERSION: __version__}


def git_state_of(sha: str | None) -> GitState | None:
    """A commit as `git describe --dirty` writes it, taken apart."""
    return GitState(sha=sha.removesuffix(DIRTY_SUFFIX), dirty=sha.endswith(DIRTY_SUFFIX)) if sha else None


#: The values of a policy have some thousand characters; a few of others become much more in memory.
_MAX_VALUES = 1 << 16


def compaction_record(instant: str, completed: str, extra: Mapping[str, str]) -> CompactionRecord | None:
    """The record in a commit's or plan's extra metadata; None for a compaction that is not by etc."""
    threshold_ms = _epoch_ms(extra.get(THRESHOLD, ""))
    if threshold_ms is None:
        return None
    return CompactionRecord(
        instant=instant,
        completed=completed,
        threshold_ms=threshold_ms,
        policy=extra.get(POLICY, ""),
        plan_id=extra.get(PLAN_ID, ""),
        seen_until=extra.get(SEEN_UNTIL, ""),
        policy_values=_values(extra.get(POLICY_VALUES, "")),
        left_out=int(left_out) if re.fullmatch(r"[0-9]{1,9}", left_out := extra.get(LEFT_OUT, "")) else 0,
        watermark_before_ms=_epoch_ms(extra.get(WATERMARK_BEFORE, "")),
    )


def _epoch_ms(text: str) -> int | None:
    """The time in a commit; None for what is no number, or no time that a calendar has."""
    if not re.fullmatch(r"-?[0-9]{1,15}", text):
        return None
    return int(text) if FIRST_MS <= int(text) <= LAST_MS else None


def _values(text: str) -> dict[str, str]:
    """The policy's values as committed; empty where an older version of etc, or another hand, wrote none."""
    try:
        found = load_json(text or "{}") if len(text) <= _MAX_VALUES else {}
    except (ValueError, RecursionError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}
