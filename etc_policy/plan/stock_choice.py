"""Which file slices Hudi's own planner would choose, by the options that a policy's strategy becomes (facts: strategy-steps).

Hudi looks at slices in the order of its listings, on which nobody may rely. Here it is that of their oldest events, which
decides only between slices that are equal to the strategy, once its budget does not reach for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date

from etc_policy.plan.skipped_slices import age
from etc_policy.policy.hudi_options import (
    LATEST_PARTITIONS,
    MIN_LOG_BYTES,
    MIN_LOG_FILES,
    REGEX,
    TARGET_IO,
)
from etc_policy.policy.manifest import Policy
from etc_policy.policy.schema_values import is_found
from etc_policy.table.state import FileSlice, GroupKey, Slices, TableState

PARQUET_MAX_BYTES = 120 * 2**20
_MIB = 2**20
_KEYS = re.compile(r"(^|/)[^/]*?=")
_DAY = re.compile(r"([0-9]{4})/([0-9]{1,2})/([0-9]{1,2})(?![0-9])")


def stock_choice(policy: Policy, state: TableState) -> frozenset[GroupKey]:
    """The file groups that the policy's strategy of Hudi takes; empty for other policies."""
    if not policy.is_stock:
        return frozenset()
    candidates = sorted((one for one in _of_partitions(policy, state.slices) if one.log_files), key=age)
    return frozenset(one.group for one in _within(policy, _ordered(policy, candidates)))


def partition_of_no_day(state: TableState) -> str | None:
    """The first partition that is not a day, on which Hudi's planner fails; None without one."""
    return next((one.partition for one in state.slices if _day(one.partition) is None), None)


def _of_partitions(policy: Policy, slices: Slices) -> Iterable[FileSlice]:
    """The slices of the partitions that the strategy looks at."""
    if policy.strategy.type == "partition_regex":
        return (one for one in slices if is_found(policy.stock_options[REGEX], one.partition))
    if policy.strategy.type == "day_based":
        latest = _latest(slices)[: int(policy.stock_options[LATEST_PARTITIONS])]
        return (one for one in slices if one.partition in latest)
    return slices


def _ordered(policy: Policy, slices: list[FileSlice]) -> list[FileSlice]:
    """The slices that are large enough, in the order in which the budget is spent; what is equal keeps its order."""
    if policy.strategy.type == "log_file_size":
        least = int(policy.stock_options[MIN_LOG_BYTES])
        return sorted((one for one in slices if _log_bytes(one) >= least), key=_log_bytes, reverse=True)
    if policy.strategy.type == "log_file_num":
        least = int(policy.stock_options[MIN_LOG_FILES])
        return sorted((one for one in slices if _log_count(one) >= least), key=_log_count, reverse=True)
    if policy.strategy.type == "day_based":
        place = {partition: place for place, partition in enumerate(_latest(tuple(slices)))}
        return sorted(slices, key=lambda one: place[one.partition])
    return slices


def _within(policy: Policy, slices: list[FileSlice]) -> list[FileSlice]:
    """The first slices, until the budget is spent: the last one may go beyond it, as in Hudi."""
    if TARGET_IO not in policy.stock_options:
        return slices
    left_mib, largest = int(policy.stock_options[TARGET_IO]), policy.hudi_options.get("hoodie.parquet.max.file.size")
    taken = []
    for one in slices:
        if left_mib <= 0:
            break
        left_mib -= _io_mib(one, int(largest) if largest else PARQUET_MAX_BYTES)
        taken.append(one)
    return taken


def _io_mib(one: FileSlice, parquet_max_bytes: int) -> int:
    """What Hudi counts for a slice: whole MiB to read, and whole MiB to write."""
    written = one.base_file_bytes or parquet_max_bytes
    return (one.base_file_bytes + _log_bytes(one)) // _MIB + written // _MIB


def _log_bytes(one: FileSlice) -> int:
    return sum(log_file.size_bytes for log_file in one.log_files)


def _log_count(one: FileSlice) -> int:
    return len(one.log_files)


def _latest(slices: Slices) -> list[str]:
    """The partitions, the latest day first."""
    days = {partition: _day(partition) or date.min for partition in sorted({one.partition for one in slices})}
    return sorted(days, key=lambda partition: days[partition], reverse=True)


def _day(partition: str) -> date | None:
    """The day that a partition's path begins with, with or without the names of its fields."""
    found = _DAY.match(_KEYS.sub(r"\1", partition))
    if found is None:
        return None
    try:
        return date(*map(int, found.groups()))
    except ValueError:
        return None
