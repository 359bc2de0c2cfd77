"""What a table's compactions promise in the event-time column of a policy: after the column was changed, nothing yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from etc_policy.compile.manifest import Policy
from etc_policy.compile.policy_values import policy_values
from etc_policy.plan.table_history import TableHistory
from etc_policy.plan.table_state import CompactionRecord, TableState

_COLUMN = "event_time_column."
#: It says how a writer's statistics are believed, not what the times are.
_TRUST = f"{_COLUMN}trust_commit_metadata"


def promise_of(policy: Policy, state: TableState) -> CompactionRecord | None:
    """The last compaction by etc, where its threshold is one of the policy's event-time column."""
    record = state.last_compaction
    return record if record is not None and _is_of_column(policy, record) else None


def promises_in(policy: Policy, history: TableHistory) -> TableHistory:
    """The history without the thresholds of other event-time columns."""
    commits = (
        one if one.record is None or _is_of_column(policy, one.record) else replace(one, record=None)
        for one in history.commits
    )
    return replace(history, commits=tuple(commits))


def _is_of_column(policy: Policy, record: CompactionRecord) -> bool:
    """What an older version of etc committed does not say which column it was: it counts as the same."""
    then = _column_in(record.policy_values)
    return not then or then == _column_in(policy_values(policy))


def _column_in(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if key.startswith(_COLUMN) and key != _TRUST}
