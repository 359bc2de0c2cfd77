"""Which slices may wait for a later run, how far RO is complete without them, and when the next one falls due."""

from __future__ import annotations

from collections.abc import Iterable

from etc_policy.plan.pace import Pace
from etc_policy.plan.table_state import FileSlice, GroupKey, LogFile, TableState


def threshold_in_time(
    pace: Pace, state: TableState, now_ms: int, data_latency_ms: int, at_once: frozenset[GroupKey]
) -> int:
    """T: the slices with an event at or below it are those that cannot wait, and RO is complete up to it once they are merged.

    What waits has only later events, so that this is never before the time from which on nothing may wait. An event time that
    is not known waits for nothing, and so does a slice that is compacted `at_once` whatever it holds.
    """
    due_ms, latest_ms = (bound(now_ms, data_latency_ms) for bound in (pace.due_up_to_ms, pace.latest_ms))
    waiting = (
        first
        for one in state.slices
        if one.group not in at_once and (first := _first_event(one)) is not None and first > due_ms
    )
    return min(min(waiting, default=latest_ms + 1) - 1, latest_ms)


def next_due_ms(pace: Pace, log_files: Iterable[LogFile], now_ms: int, data_latency_ms: int) -> int:
    """Until when no run is needed, if these log files are what is left and `data_latency` holds: one interval at least."""
    known = (one.min_event_time_ms for one in log_files if one.min_event_time_ms is not None)
    first_to_come_ms = now_ms - data_latency_ms + 1
    first_ms = min(min(known, default=first_to_come_ms), first_to_come_ms)
    return max(now_ms + pace.every_ms, pace.due_at_ms(first_ms, data_latency_ms))


def _first_event(file_slice: FileSlice) -> int | None:
    """The smallest event time; None without log files, and where the event time of one is unknown."""
    times = [log_file.min_event_time_ms for log_file in file_slice.log_files]
    known = [time_ms for time_ms in times if time_ms is not None]
    return min(known) if known and len(known) == len(times) else None
