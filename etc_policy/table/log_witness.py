"""Event times that log files hold against those that their commits recorded: the earlier one counts."""

from __future__ import annotations

from collections.abc import Iterable

from etc_policy.policy.manifest import EventTime
from etc_policy.table.apply_state import Misrecorded
from etc_policy.table.formats import format_time
from etc_policy.table.history import event_time_key
from etc_policy.table.state import FileSlice, LogFile, LogWitness, TableState, path_below

#: Why a log file was not read at all: the table may have moved on.
NOT_THERE = "it cannot be opened, or not in the size in which it was listed"


def path_of(file_slice: FileSlice, log_file: LogFile) -> str:
    """A log file's path below its table."""
    return path_below(file_slice.partition, log_file.name)


def misrecorded_in(witnesses: Iterable[LogWitness]) -> tuple[Misrecorded, ...]:
    """The log files that hold an earlier event than their commits recorded."""
    return tuple(
        Misrecorded(one.path, one.size_bytes, one.recorded_ms, one.found_ms)
        for one in witnesses
        if one.recorded_ms is not None and one.found_ms is not None and one.found_ms < one.recorded_ms
    )


def of_event_time(found: Iterable[Misrecorded], event_time: EventTime, state: TableState) -> tuple[Misrecorded, ...]:
    """Those that hold earlier events by this event time, as far as that is known."""
    key = event_time_key(event_time, state)
    return tuple(one for one in found if one.event_time in ("", key))


def still_there(state: TableState, found: Iterable[Misrecorded]) -> tuple[Misrecorded, ...]:
    """Those of the log files that are not compacted yet."""
    looked_for = tuple(found)
    if not looked_for:
        return ()
    sizes = {path_of(file_slice, log_file): log_file.size_bytes for file_slice, log_file in state.log_files}
    return tuple(one for one in looked_for if sizes.get(one.path) == one.size_bytes)


def with_earlier_times(state: TableState, found: Iterable[Misrecorded]) -> TableState:
    """The state with the times that these log files hold, where these are earlier than what is known of them."""
    times = {one.path: one.found_ms for one in still_there(state, found)}
    if not times:
        return state

    def corrected(file_slice: FileSlice, log_file: LogFile) -> LogFile:
        found_ms, known_ms = times.get(path_of(file_slice, log_file)), log_file.min_event_time_ms
        is_earlier = found_ms is not None and known_ms is not None and found_ms < known_ms
        return log_file._replace(min_event_time_ms=found_ms, max_event_time_ms=None) if is_earlier else log_file

    return state.with_log_files(corrected)


def in_words(one: Misrecorded) -> str:
    """The file, what its commit recorded and what it holds."""
    return (
        f"{one.path} holds an event at {format_time(one.found_ms)}, "
        f"and its commit recorded none before {format_time(one.recorded_ms)}"
    )
