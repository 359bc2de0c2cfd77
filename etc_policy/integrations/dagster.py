"""Dagster: an asset check of how far RO of a table is complete, and a sensor that requests a run for each complete partition.

Both read metadata in Dagster's own processes, without Spark (a `db.table` is looked up in Spark's catalog).
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from etc_policy.api.arguments import EPOCH, iso_time
from etc_policy.api.project import Project
from etc_policy.errors import EtcError, install_hint

try:
    from dagster import (
        AssetCheckResult,
        AssetCheckSeverity,
        Failure,
        RunRequest,
        SensorDefinition,
        SensorResult,
        TimeWindow,
        TimeWindowPartitionsDefinition,
        asset_check,
    )
except ImportError as error:
    message = f"Dagster 1.13 or later is not here: {install_hint('dagster')}"
    raise ImportError(message, name=error.name, path=error.path) from error


def completeness_check(asset: Any, *, project_dir: str, policy: str, target: str | None = None) -> Any:
    """An `AssetChecksDefinition` for an asset that is read from RO of a policy's table.

    It passes, warns or fails as `etc freshness` does, passes where the policy has no limits, and fails where it is not known how
    far RO is complete. Its metadata are `status`, `complete_until` (ISO 8601) and `lag_seconds`. A policy or a project with
    errors fails its run.
    """

    def check() -> Any:
        table = _freshness(project_dir, policy, target)
        until_ms = table.complete_until_ms
        metadata = {
            "status": table.status,
            "complete_until": None if until_ms is None else iso_time(until_ms),
            "lag_seconds": table.lag_seconds,
        }
        return AssetCheckResult(
            passed=table.status in ("pass", "no_target"),
            severity=AssetCheckSeverity.WARN if table.status == "warn" else AssetCheckSeverity.ERROR,
            description=table.reason,
            metadata={name: value for name, value in metadata.items() if value is not None},
        )

    return asset_check(asset=asset, name=_name(policy), description="How far RO is complete")(check)


def completeness_sensor(
    asset: Any, *, project_dir: str, policy: str, target: str | None = None, every_seconds: int = 60
) -> Any:
    """A `SensorDefinition` that requests a run of `asset` for each of its partitions in which RO has become complete.

    The first request is for the last partition that is complete then. While it is not known how far RO is complete there is
    none; a policy or a project with errors fails the tick.

    Raises:
        ValueError: the asset's `partitions_def` is not of time windows, such as `DailyPartitionsDefinition`.

    """
    partitions = asset.partitions_def
    if not isinstance(partitions, TimeWindowPartitionsDefinition):
        raise ValueError(f"{asset.key} has no partitions by time: give it a `DailyPartitionsDefinition`, for example")

    def evaluate(context: Any) -> Any:
        table = _freshness(project_dir, policy, target)
        if table.complete_until_ms is None:
            return SensorResult(skip_reason=f"it is not known how far RO is complete: {table.reason}")
        keys = _complete_keys(partitions, table.complete_until_ms, context.cursor)
        if not keys:
            return SensorResult(skip_reason=f"RO is complete until {iso_time(table.complete_until_ms)}")
        return SensorResult(run_requests=[RunRequest(run_key=key, partition_key=key) for key in keys], cursor=keys[-1])

    return SensorDefinition(
        f"{_name(policy)}_complete", evaluation_fn=evaluate, target=asset, minimum_interval_seconds=every_seconds
    )


def _complete_keys(partitions: Any, complete_until_ms: int, last: str | None) -> list[str]:
    """The keys of the partitions that end by then, after the key `last`; without it the last of them."""
    window = partitions.get_prev_partition_window(EPOCH + timedelta(milliseconds=complete_until_ms + 1))
    if window is None:
        return []
    if last is None:
        return [partitions.get_partition_key_for_timestamp(window.start.timestamp())]
    begin = partitions.time_window_for_partition_key(last).end
    if begin >= window.end:
        return []
    return list(partitions.get_partition_keys_in_time_window(TimeWindow(begin, window.end)))


def _name(policy: str) -> str:
    return re.sub(r"\W", "_", policy)


def _freshness(project_dir: str, policy: str, target: str | None) -> Any:
    try:
        with Project(project_dir, target=target) as project:
            tables = project.freshness(policy).tables
    except EtcError as error:
        raise Failure(error.in_full) from error
    if len(tables) != 1:
        raise Failure(f"`{policy}` selects {len(tables)} policies, not one")
    return tables[0]
