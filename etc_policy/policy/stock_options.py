"""Hudi's own strategies: the class of each, and the options that a policy's `strategy` becomes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from etc_policy.policy.schema_strategy import Strategy
from etc_policy.policy.schema_values import StrategyType

STRATEGY = "hoodie.compaction.strategy"
TARGET_IO = "hoodie.compaction.target.io"
MIN_LOG_BYTES = "hoodie.compaction.logfile.size.threshold"
MIN_LOG_FILES = "hoodie.compaction.logfile.num.threshold"
LATEST_PARTITIONS = "hoodie.compaction.daybased.target.partitions"
REGEX = "hoodie.compaction.partition.path.regex"
#: Else Hudi looks only at partitions that were written to since its last compaction.
WHOLE_TABLE = "hoodie.table.services.incremental.enabled"

#: What Hudi takes where an option is not given, written out so that its version does not matter.
DEFAULT_TARGET_IO_MIB = 512_000
DEFAULT_LATEST_PARTITIONS = 10

#: Option -> the key of `strategy` that it comes from.
KEY_OF_OPTION = {
    TARGET_IO: "target_io",
    MIN_LOG_BYTES: "min_log_size",
    MIN_LOG_FILES: "min_log_files",
    LATEST_PARTITIONS: "latest_partitions",
    REGEX: "regex",
}

_PACKAGE = "org.apache.hudi.table.action.compact.strategy"
_MIB = 2**20


class Stock(NamedTuple):
    """A strategy of Hudi: its class, and the keys of `strategy` that it has."""

    class_name: str
    keys: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The class as Hudi's option names it."""
        return f"{_PACKAGE}.{self.class_name}"


STOCK: dict[StrategyType, Stock] = {
    "unbounded": Stock("UnBoundedCompactionStrategy"),
    "bounded_io": Stock("BoundedIOCompactionStrategy", ("target_io",)),
    "log_file_size": Stock("LogFileSizeBasedCompactionStrategy", ("target_io", "min_log_size")),
    "log_file_num": Stock("LogFileNumBasedCompactionStrategy", ("target_io", "min_log_files")),
    "day_based": Stock("DayBasedCompactionStrategy", ("target_io", "latest_partitions")),
    "partition_regex": Stock("PartitionRegexBasedCompactionStrategy", ("regex",)),
}


EVENT_TIME_KEYS = ("granularity", "partitions", "max_io", "every", "carry")


def keys_of(kind: StrategyType) -> tuple[str, ...]:
    """The keys of `strategy` that a type has, beside `type`."""
    return STOCK[kind].keys if kind in STOCK else EVENT_TIME_KEYS


def stock_options(declared: Strategy) -> dict[str, str]:
    """The options by which Hudi's planner chooses as the strategy says; empty for `event_time`, which Hudi does not have."""
    stock = STOCK.get(declared.type)
    if stock is None:
        return {}
    return {STRATEGY: stock.path, **dict(_options(declared, stock.keys)), WHOLE_TABLE: "false"}


def _options(declared: Strategy, keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if "target_io" in keys:
        given = declared.target_io_bytes
        yield TARGET_IO, str(DEFAULT_TARGET_IO_MIB if given is None else given // _MIB)
    if "min_log_size" in keys:
        yield MIN_LOG_BYTES, str(declared.min_log_bytes or 0)
    if "min_log_files" in keys:
        yield MIN_LOG_FILES, str(declared.min_log_files or 0)
    if "latest_partitions" in keys:
        yield LATEST_PARTITIONS, str(declared.latest_partitions or DEFAULT_LATEST_PARTITIONS)
    if "regex" in keys:
        yield REGEX, declared.regex or ""
