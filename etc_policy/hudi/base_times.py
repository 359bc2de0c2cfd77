"""Event times in base files: the latest of row groups, by footers alone, and what is left of each commit. Needs pyarrow."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from etc_policy.hudi.blocks import BadLogFile
from etc_policy.hudi.discovery import column_ranges
from etc_policy.hudi.event_time_values import kind_of, number_ms, reads_as_spark, time_reader
from etc_policy.hudi.footers import can_read_parquet, read_footer
from etc_policy.hudi.parquet import least_by
from etc_policy.policy.bounded_json import load_json
from etc_policy.policy.manifest import EventTime, digest
from etc_policy.storage.object_cache import Cache
from etc_policy.storage.open_storage import open_reader
from etc_policy.storage.port import TableReader
from etc_policy.table.instants import DAY_MS, instant_to_ms
from etc_policy.table.state import BaseTimes, RowGroup, TableState, UnreadableTime, path_below

#: So many base files are looked at, the newest; nothing is known of the others.
MOST_FILES = 1_000
#: Of what commits wrote so many of the newest base files are read, and of each so many bytes and rows.
_READ_FILES, _READ_BYTES, _READ_ROWS = 3, 16 << 20, 1 << 16
#: Raised when the same bytes may give another answer.
_RULES_VERSION = 1
_COMMIT = "_hoodie_commit_time"
#: So much of a text is shown.
_SHOWN = 60
#: Those of stores far away are read side by side.
_THREADS = 8
_EPOCH_DAY, _EPOCH = dt.date(1970, 1, 1), dt.datetime(1970, 1, 1)  # noqa: DTZ001 - footers have no zone
_MS = dt.timedelta(milliseconds=1)


def with_newest_times(state: TableState, event_time: EventTime) -> TableState:
    """The state with what the newest base file holds of a column of numbers or texts, where its footer says it."""
    newest = max((one for one in state.slices if one.base_file), key=lambda one: one.base_instant, default=None)
    kind = kind_of(state.event_time_type or "")
    if newest is None or kind not in ("number", "text"):
        return state
    path = path_below(newest.partition, newest.base_file or "")
    found = column_ranges(state.base_path, path, [event_time.column]).get(event_time.column)
    if found is None:
        return state
    first_ms, last_ms = map(time_reader(kind, event_time), found)
    is_read = reads_as_spark(event_time.format)
    if first_ms is None and last_ms is None and is_read and str(found.last).strip():
        return replace(state, unreadable_time=UnreadableTime(path, str(found.last)[:_SHOWN]))
    return (
        state if first_ms is None or last_ms is None else replace(state, base_times=BaseTimes(path, first_ms, last_ms))
    )


def with_left_times(state: TableState, event_time: EventTime, kept: Cache | None = None) -> TableState:
    """The state with the earliest event time that is left of each commit, where its event-time column is known."""
    found = {} if state.event_time_type is None else left_times(state, event_time, state.event_time_type, kept)
    return replace(state, left_times=tuple(sorted(found.items())))


def left_times(state: TableState, event_time: EventTime, type_name: str, kept: Cache | None = None) -> dict[int, int]:
    """By when commits began the earliest event time of what they wrote and the newest base files still hold.

    A compaction leaves each row the instant of its write (facts: rows-keep-their-commit). The first commit in a file loaded it,
    and its own instant is that of all rows where a compaction does not. What was read is kept: no base file changes.
    """
    zone, found = ZoneInfo(state.timezone), dict[int, int]()
    newest = sorted((one for one in state.slices if one.base_file), key=lambda one: one.base_instant)[-_READ_FILES:]
    for one in newest if can_read_parquet() else ():
        path = path_below(one.partition, one.base_file or "")
        earliest = _earliest(state.base_path, path, one.base_file_bytes, event_time, type_name, kept)
        for instant in sorted(earliest)[1:]:
            if instant != one.base_instant and (began_ms := _began_ms(instant, zone)) is not None:
                found[began_ms] = min(earliest[instant], found.get(began_ms, earliest[instant]))
    return found


def _began_ms(instant: str, zone: ZoneInfo) -> int | None:
    try:
        return instant_to_ms(instant, zone)
    except (ValueError, OverflowError):  # rows may hold anything
        return None


def _earliest(
    base_path: str, path: str, size: int, event_time: EventTime, type_name: str, kept: Cache | None
) -> dict[str, int]:
    """Each commit with the earliest event time of its rows in a base file of this size; none where these cannot be read."""
    values = {"base file": [base_path, path, size], "type": type_name, "most": [_READ_BYTES, _READ_ROWS]}
    key = digest({**values, "event_time": event_time.model_dump(), "rules": _RULES_VERSION})
    content = None if kept is None else kept.get(key)
    if content is not None:
        return _unpacked(content)
    kind, names = kind_of(type_name) or "", tuple(event_time.column.split("."))
    stored, most = kind if kind in ("number", "text") else type_name, (_READ_BYTES, _READ_ROWS)
    try:
        with open_reader(base_path).open(path) as stream:
            read = least_by(stream, _COMMIT, names, stored, time_reader(kind, event_time), most)
    except (BadLogFile, OSError):
        return {}
    found = {instant: time_ms for instant, time_ms in read.items() if isinstance(instant, str)}
    if kept is not None:
        kept.put(key, json.dumps(found).encode())
    return found


def _unpacked(content: bytes) -> dict[str, int]:
    with suppress(ValueError, RecursionError):
        found = load_json(content)
        if isinstance(found, dict) and all(type(time_ms) is int for time_ms in found.values()):
            return found
    return {}


def read_row_groups(state: TableState, event_time: EventTime) -> dict[str, tuple[RowGroup, ...]]:
    """The row groups of the table's base files, by the files' paths below it; files of which one is not known are left out."""
    if not can_read_parquet():
        return {}
    newest = sorted((one for one in state.slices if one.base_file), key=lambda one: one.base_instant)[-MOST_FILES:]
    paths = [path_below(one.partition, one.base_file or "") for one in newest]
    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(partial(_row_groups, open_reader(state.base_path), event_time), paths)
        return {path: groups for path, groups in zip(paths, found, strict=True) if groups is not None}


def _row_groups(storage: TableReader, event_time: EventTime, path: str) -> tuple[RowGroup, ...] | None:
    """None where the footer cannot be read, or does not say the latest time of each group."""
    footer = read_footer(storage, path)
    if footer is None:
        return None
    from pyarrow import ArrowException

    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    try:
        found = tuple(_latest(one, event_time) for one in groups)
    except (ArrowException, OSError, ValueError, OverflowError):  # the last two of times beyond Python's
        return None
    return None if None in found else tuple(one for one in found if one is not None)


def _latest(group: Any, event_time: EventTime) -> RowGroup | None:
    """A group whose event times are all null has no time that is later than another."""
    for statistics in _statistics(group, event_time.column):
        if statistics is None:
            return None
        if statistics.has_null_count and statistics.null_count == group.num_rows:
            return RowGroup(None, 0)
        latest_ms = _time_ms(statistics.max, event_time) if statistics.has_min_max else None
        return None if latest_ms is None else RowGroup(latest_ms, group.num_rows)
    return None


def _statistics(group: Any, column: str) -> Iterator[Any]:
    parts: Sequence[Any] = [group.column(number) for number in range(group.num_columns)]
    return (part.statistics for part in parts if part.path_in_schema == column)


def _time_ms(value: Any, event_time: EventTime) -> int | None:
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - _EPOCH) // _MS
    if isinstance(value, dt.date):
        return (value - _EPOCH_DAY).days * DAY_MS
    return number_ms(value, event_time.unit) if type(value) is int else None
