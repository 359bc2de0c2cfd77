"""Smallest event times of log files from the metadata table's column statistics, through Hudi's own reader.

See facts: column-stats-reader.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.hudi.event_time_values import kind_of, time_reader
from etc_policy.plan.carry import is_bounded
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.objects_in_logs import require_no_objects_for
from etc_policy.run.ports import Job
from etc_policy.run.table_files import require_regular
from etc_policy.spark.bundles import release_of
from etc_policy.spark.hudi_client import hudi_client, hudi_table, metadata_reader
from etc_policy.storage.port import OWN_FOLDER
from etc_policy.table.impossible_times import latest_in, with_impossible
from etc_policy.table.instants import DAY_MS
from etc_policy.table.state import FileSlice, LogFile, TableState

_EPOCH = dt.date(1970, 1, 1)
#: The smallest and the latest event time of a log file.
Ends = tuple[int, int]


def fill_event_times(spark: Any, policy: Policy, state: TableState) -> TableState:
    """The state with the event times that column statistics know; files with deletes stay unknown, they are not in them.

    So do those beside parts of rows, as no event time bounds what they change.

    Raises:
        EngineError: Hudi could not read its statistics.
        TableError: what it would read is no file, or makes objects.

    """
    unknown = ((s, f) for s, f in state.log_files if f.min_event_time_ms is None and not f.has_deletes)
    wanted = [(s.partition, f.name) for s, f in unknown if not s.updates_in_part]
    found = _read(spark, policy, state, wanted)

    def filled(file_slice: FileSlice, log_file: LogFile) -> LogFile:
        ends = found.get((file_slice.partition, log_file.name))
        return log_file if ends is None else _with_ends(log_file, ends, latest_in(state, log_file, policy.event_time))

    return state.with_log_files(filled)


def _with_ends(log_file: LogFile, ends: Ends, latest_ms: int) -> LogFile:
    if ends[1] > latest_ms and not is_bounded(log_file):
        return with_impossible(log_file, *ends, latest_ms)
    return log_file._replace(min_event_time_ms=ends[0])


def _read(spark: Any, policy: Policy, state: TableState, wanted: list[tuple[str, str]]) -> dict[tuple[str, str], Ends]:
    job = Job(policy, state.base_path, state.table_version, state.metadata_partitions, instant="")
    require_regular(state.base_path, OWN_FOLDER)
    require_no_objects_for(job, None)
    jvm = spark._jvm
    pairs = jvm.java.util.ArrayList()
    for partition, name in wanted:
        pairs.add(jvm.org.apache.hudi.common.util.collection.Pair.of(partition, name))
    release = release_of(jvm) or "of an unknown release"
    failure = EngineError(
        Code.NO_COLUMN_STATISTICS,
        f"Hudi {release} could not read the column statistics of `{state.base_path}`",
        hint="plan without `--read-stats`: event times are then read from log files; or name no bundle of Hudi, and one is "
        "chosen that fits the table",
    )
    with hudi_client(spark, job, failure) as client:
        stats = metadata_reader(hudi_table(spark, client)).getColumnStats(pairs, policy.event_time.column)
        return dict(_times(stats, policy.event_time, state.event_time_type))


def _times(
    stats: Any,
    event_time: EventTime,
    column_type: str | None,
) -> list[tuple[tuple[str, str], Ends]]:
    times = []
    for pair in stats:
        least, greatest = (_plain(end) for end in (stats[pair].getMinValue(), stats[pair].getMaxValue()))
        has_nulls = stats[pair].getNullCount() != 0  # rows without an event time, which is unknown
        is_earliest = not has_nulls and _in_order(least, greatest, event_time.unit, column_type)
        first, last = (
            event_time_ms(end, event_time, column_type) if is_earliest else None for end in (least, greatest)
        )
        if first is not None:
            times.append(((str(pair.getLeft()), str(pair.getRight())), (first, first if last is None else last)))
    return times


def _plain(value: Any) -> Any:
    return value.getValue() if hasattr(value, "getValue") else value


def _in_order(least: Any, greatest: Any, unit: str | None, column_type: str | None) -> bool:
    """Whether the least value is the earliest: not so where numbers of no declared unit may mean several."""
    if type(least) is not int or unit is not None or column_type not in (None, "int", "long"):
        return True
    return type(greatest) is int and len(str(least)) == len(str(greatest))


def event_time_ms(
    value: Any,
    event_time: EventTime,
    column_type: str | None = None,
) -> int | None:
    """A column's smallest value as epoch ms; None where its order is not the order of time, or it cannot be read.

    Strings are compared by letters in the statistics, which orders times only in ISO 8601: they stay unknown. A `date`
    comes as its number of days since 1970, or as a date.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        kind = kind_of(column_type or "long")
        return time_reader("number" if kind in (None, "text") else kind, event_time)(value)
    if isinstance(value, dt.datetime):
        return int(value.replace(tzinfo=value.tzinfo or dt.UTC).timestamp() * 1000)
    if isinstance(value, dt.date):
        return (value - _EPOCH).days * DAY_MS
    name = value.getClass().getName() if hasattr(value, "getClass") else ""
    if name in ("java.sql.Timestamp", "java.util.Date"):
        return int(value.getTime())
    if name == "java.time.Instant":
        return int(value.toEpochMilli())
    if name in ("java.sql.Date", "java.time.LocalDate"):
        day = value.toLocalDate() if name == "java.sql.Date" else value
        return int(day.toEpochDay()) * DAY_MS
    return None
