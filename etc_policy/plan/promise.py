"""What a table's compactions promise in the event-time column of a policy: after the column was changed, nothing yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from etc_policy.compile.manifest import EventTime, Policy
from etc_policy.compile.policy_values import event_time_values
from etc_policy.plan.table_history import TableHistory
from etc_policy.plan.table_state import CompactionRecord, TableState

_COLUMN = "event_time_column."
#: It says how a writer's statistics are believed, not what the times are.
_TRUST = f"{_COLUMN}trust_commit_metadata"


def promise_of(policy: Policy, state: TableState) -> CompactionRecord | None:
    """The last compaction by etc, where its threshold is one of the policy's event-time column."""
    record = state.last_compaction
    return record if record is not None and is_of_column(policy.event_time, record) else None


def promises_in(policy: Policy, history: TableHistory) -> TableHistory:
    """The history without the thresholds of other event-time columns."""
    commits = (
        one if one.record is None or is_of_column(policy.event_time, one.record) else replace(one, record=None)
        for one in history.commits
    )
    return replace(history, commits=tuple(commits))


def is_of_column(event_time: EventTime, record: CompactionRecord) -> bool:
    """Whether its threshold is one of this event-time column; what an older version of etc committed counts as one."""
    then = _column_in(record.policy_values)
    return not then or then == _column_in(event_time_values(event_time))


def _column_in(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if key.startswith(_COLUMN) and key != _TRUST}
