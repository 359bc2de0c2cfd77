"""Hudi's options: those that a policy may not set, what a strategy of Hudi's own becomes, and what a lock's options say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from etc_policy.errors.codes import Code
from etc_policy.policy.schema import Strategy
from etc_policy.policy.schema_values import StrategyType

_TABLE = "is a property of the table, which a compaction never changes"
_FILES = "is taken from the table's log files: a client with another setting brings deleted rows back"
_METADATA = "is taken from the table: a client with other settings drops or builds its indexes"
_OTHERS_SERVE = (
    "cannot be followed: writers with it take a lock of the metadata table, which etc does not; it may compact only while nobody "
    "serves that table"
)
_SCHEDULE = "is decided by this policy: it says when and what is compacted"
_ALONE = "is fixed: a run compacts and starts no other service"
_MERGED = "is fixed: a compaction writes merged rows, whatever readers ask for"
_SAFETY = "is fixed, so that two runs of `etc apply` cannot harm each other"

#: What the table says of how the rows of a key are merged, by the names that writers' options have. The classes of a merger of
#: one's own (`hoodie.write.record.merge.custom.implementation.classes`, `hoodie.datasource.write.record.merger.impls`) are free:
#: the table names only its strategy, and a client that is not given the classes cannot merge.
_MERGE_OPTIONS_OF_WRITERS = (
    "hoodie.write.record.merge.mode",
    "hoodie.write.record.merge.strategy.id",
    "hoodie.datasource.write.record.merger.strategy",
    "hoodie.compaction.record.merger.strategy",
    "hoodie.datasource.write.payload.class",
    "hoodie.compaction.payload.class",
)
#: By it rows carry their operation, and may delete: Flink's `changelog.enabled`. The table's log files show it.
OPERATION_OPTION = "hoodie.allow.operation.metadata.field"
#: Prefix (ends in a dot) or whole key -> reason.
RESERVED = {
    "hoodie.table.services.": _ALONE,
    "hoodie.table.service.manager.": _ALONE,
    "hoodie.table.": _TABLE,
    "hoodie.base.path": _TABLE,
    "hoodie.record.merge.": _TABLE,
    **dict.fromkeys(_MERGE_OPTIONS_OF_WRITERS, _TABLE),
    "hoodie.payload.ordering.field": _TABLE,
    "hoodie.datasource.write.precombine.field": _TABLE,
    OPERATION_OPTION: _FILES,
    "hoodie.write.table.version": _TABLE,
    "hoodie.write.auto.upgrade": _TABLE,
    "hoodie.metadata.write.concurrency.mode": _OTHERS_SERVE,
    "hoodie.metadata.": _METADATA,
    "hoodie.compact.": _SCHEDULE,
    "hoodie.compaction.strategy": _SCHEDULE,
    "hoodie.datasource.compaction.": _SCHEDULE,
    "hoodie.log.compaction.": _SCHEDULE,
    "hoodie.clustering.inline": _ALONE,
    "hoodie.clustering.async.": _ALONE,
    "hoodie.clean.automatic": _ALONE,
    "hoodie.archive.automatic": _ALONE,
    "hoodie.embed.timeline.server": _ALONE,
    "hoodie.write.markers.type": _SAFETY,
    "hoodie.datasource.merge.type": _MERGED,
    "hoodie.client.heartbeat.": _SAFETY,
    "hoodie.write.concurrency.mode": _SAFETY,
    "hoodie.clean.failed.writes.policy": _SAFETY,
    "hoodie.cleaner.policy.failed.writes": _SAFETY,
    "hoodie.auto.commit": _SAFETY,
    "hoodie.rollback.": _SAFETY,
}
#: Options that planning itself reads, with Hudi's defaults.
WHOLE_NUMBER_OPTIONS = {
    "hoodie.keep.min.commits": 20,
    "hoodie.keep.max.commits": 30,
    "hoodie.time.generator.max_expected_clock_skew_ms": 200,
    "hoodie.parquet.max.file.size": 120 * 2**20,
}
#: Archiving leaves the first, and starts above the second.
ARCHIVE_LIMITS = ("hoodie.keep.min.commits", "hoodie.keep.max.commits")

#: What a policy may say better than the table: its index definitions name the columns as they were when the index was made, how
#: writers commit to the metadata table shows in their last files alone, and who runs the services of that table nowhere.
_NOT_RECORDED = frozenset(
    {
        "hoodie.metadata.index.column.stats.column.list",
        "hoodie.metadata.streaming.write.enabled",
        "hoodie.metadata.table.service.manager.enabled",
        "hoodie.metadata.table.service.manager.actions",
    }
)
_LOCK_PREFIX = "hoodie.write.lock."
_HINTS = {
    "hoodie.logfile.max.size": "write `log_file_max_size`",
    "hoodie.payload.event.time.field": "write `event_time_column`",
}


def option_fault(key: str) -> tuple[Code, str, str] | None:
    """Code, reason and hint where the option is not allowed in `hudi_options`."""
    if not key.startswith("hoodie."):
        hint = f"write `hoodie.{key.removeprefix('spark.hoodie.')}`" if key.startswith("spark.hoodie.") else None
        return (
            Code.NOT_AN_OPTION,
            "is not an option of Hudi",
            hint or "only options that begin with `hoodie.` are passed on",
        )
    if key.startswith(_LOCK_PREFIX):
        return Code.RESERVED_OPTION, "is a lock option of the writers", "move it to `writer.lock`"
    if key in _HINTS:
        return Code.RESERVED_OPTION, "has a key of its own", _HINTS[key]
    if key in _NOT_RECORDED:
        return None
    for reserved, reason in RESERVED.items():
        if key == reserved or (reserved.endswith(".") and key.startswith(reserved)):
            return Code.RESERVED_OPTION, reason, "remove it"
    return None


def lock_option_fault(key: str, value: str) -> tuple[str, str] | None:
    """Reason and hint where the option is not allowed in `writer.lock`."""
    if not key.startswith(_LOCK_PREFIX):
        return "is not a lock option", f"lock options begin with `{_LOCK_PREFIX}`; others go to `hudi_options`"
    if key == PROVIDER and "." not in value and "{{" not in value:
        known = next((one for one in _PROVIDERS if one.endswith(f".{value}")), None)
        return "needs a class with its package", f"write `{known}`" if known else f"such as `{FILE_PROVIDER}`"
    return None


def spark_conf_fault(key: str) -> tuple[Code, str, str] | None:
    """Code, reason and hint where it is no setting of Spark, or a Hudi option that is not allowed: sessions pass them on."""
    option = key.removeprefix("spark.")
    if not key.startswith(("spark.", "hoodie.")):
        return (
            Code.NOT_AN_OPTION,
            "is not a setting of Spark",
            f"write `spark.{key[:60]}`; Hadoop's begin with `spark.hadoop.`",
        )
    return option_fault(option) if option.startswith("hoodie.") else None


STRATEGY = "hoodie.compaction.strategy"
TARGET_IO = "hoodie.compaction.target.io"
#: `hoodie.compact.inline.max.delta.commits` where nobody sets it.
COMMITS_BEFORE_COMPACTION = 5
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


EVENT_TIME_KEYS = ("granularity", "partitions", "max_io", "every", "at", "keep", "on_close", "carry")


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


PROVIDER = "hoodie.write.lock.provider"
FILE_PROVIDER = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
IN_PROCESS_PROVIDER = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
_PROVIDERS = (
    FILE_PROVIDER,
    IN_PROCESS_PROVIDER,
    "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
    "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
    "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
    "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
)
LOCK_FOLDER = "hoodie.write.lock.filesystem.path"
EXPIRY = "hoodie.write.lock.filesystem.expire"


def is_file_lock(lock: Mapping[str, object]) -> bool:
    """Whether the lock is a file that lies beside the table, or in a declared folder."""
    return str(lock.get(PROVIDER, "")).strip() == FILE_PROVIDER


def is_in_process(lock: Mapping[str, object]) -> bool:
    """Whether the lock is one inside a single Java process, which nobody outside of it sees."""
    return str(lock.get(PROVIDER, "")).strip().endswith(".InProcessLockProvider")


def expiry_minutes(lock: Mapping[str, object]) -> int:
    """After how many minutes anybody may remove the lock file as left behind; 0, Hudi's default, for never."""
    text = str(lock.get(EXPIRY, "0")).strip()
    return int(text) if text.isascii() and text.isdigit() else 0
