"""Hudi options that a policy may not set, each with the reason: compaction here is right only while they hold."""

from __future__ import annotations

from etc_policy.codes.registry import Code

_TABLE = "is a property of the table, which a compaction never changes"
_METADATA = "is taken from the table: a client with other settings drops or builds its indexes"
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
#: Prefix (ends in a dot) or whole key -> reason.
RESERVED = {
    "hoodie.table.": _TABLE,
    "hoodie.base.path": _TABLE,
    "hoodie.record.merge.": _TABLE,
    **dict.fromkeys(_MERGE_OPTIONS_OF_WRITERS, _TABLE),
    "hoodie.payload.ordering.field": _TABLE,
    "hoodie.datasource.write.precombine.field": _TABLE,
    "hoodie.write.table.version": _TABLE,
    "hoodie.write.auto.upgrade": _TABLE,
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
    "hoodie.datasource.merge.type": _MERGED,
    "hoodie.client.heartbeat.": _SAFETY,
    "hoodie.write.concurrency.mode": _SAFETY,
    "hoodie.clean.failed.writes.policy": _SAFETY,
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
    for reserved, reason in RESERVED.items():
        if key == reserved or (reserved.endswith(".") and key.startswith(reserved)):
            return Code.RESERVED_OPTION, reason, "remove it"
    return None


def lock_option_fault(key: str) -> tuple[str, str] | None:
    """Reason and hint where the option is not allowed in `writer.lock`."""
    if key.startswith(_LOCK_PREFIX):
        return None
    return "is not a lock option", f"lock options begin with `{_LOCK_PREFIX}`; others go to `hudi_options`"


def spark_conf_fault(key: str) -> tuple[Code, str, str] | None:
    """Code, reason and hint where a setting of Spark is a Hudi option that is not allowed: sessions pass them on."""
    option = key.removeprefix("spark.")
    return option_fault(option) if option.startswith("hoodie.") else None
