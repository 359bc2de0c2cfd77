"""The condition of Spark SQL that an event time is at or before T (pure)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from etc_policy.policy.manifest import Policy
from etc_policy.table.instants import DAY_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def up_to(policy: Policy, column_type: str | None, threshold_ms: int) -> str:
    """The condition that the event time is at or before T, for the types of columns by which rows are split."""
    column = ".".join(f"`{part}`" for part in policy.event_time.column.split("."))
    after = _EPOCH + timedelta(milliseconds=threshold_ms + 1)
    if column_type == "date":
        return f"{column} <= DATE '{_EPOCH + timedelta(days=threshold_ms // DAY_MS):%Y-%m-%d}'"
    if column_type and column_type.startswith("local-timestamp"):
        return f"{column} < TIMESTAMP_NTZ '{after:%Y-%m-%d %H:%M:%S.%f}'"
    if column_type and column_type.startswith("timestamp"):
        return f"{column} < TIMESTAMP '{after:%Y-%m-%d %H:%M:%S.%f}Z'"
    scaled = {"s": threshold_ms // 1000, "us": threshold_ms * 1000 + 999}
    return f"{column} <= {scaled.get(policy.event_time.unit or 'ms', threshold_ms)}"
