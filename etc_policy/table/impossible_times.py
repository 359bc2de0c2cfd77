"""Event times that cannot be true: later than the commit that wrote them, by more than the policy allows.

Where all of them are, the policy names another unit than the column's: RO would look complete for ever.
"""

from __future__ import annotations

from datetime import timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from etc_policy.policy.manifest import EventTime
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.state import CUT_VERSIONS, LogFile, TableState

#: Milliseconds in one of each unit that a column of numbers may be in.
_MS_IN = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
#: A unit fits if it puts an event no longer than this before its commit.
_OLDEST_MS = timedelta(days=20 * 365) // timedelta(milliseconds=1)


class WrongUnit(NamedTuple):
    """The unit in which the event times of a log file would be those of its commit, with one of them as it is read now."""

    log_file: LogFile
    event_time_ms: int
    fitting: str


def unit_advice(fitting: str, column: str) -> str:
    """What to do where another unit fits the values of the column."""
    look = f"the values look like {_NAMES[fitting]}"
    if fitting == "ns":
        return f"{look}, which cannot be read: let the writer add a column of microseconds, or a timestamp"
    return f"{look}: set `event_time_column: {{column: {column}, unit: {fitting}}}`"


def fitting_unit(event_time: EventTime, found_ms: int, latest_ms: int) -> str | None:
    """Another unit in which the time is no later than it can be; None for a column that has no unit, or the right one."""
    if event_time.unit is None:
        return None
    for unit, milliseconds in {event_time.unit: _MS_IN[event_time.unit], **_MS_IN}.items():
        read_ms = found_ms * milliseconds / _MS_IN[event_time.unit]
        if latest_ms - _OLDEST_MS < read_ms <= latest_ms:
            return None if unit == event_time.unit else unit
    return None


@lru_cache(maxsize=65_536)
def latest_possible_ms(completed: str, zone: tzinfo, max_ahead_ms: int) -> int:
    """The latest event time that a write which completed then can have written."""
    return instant_to_ms(completed, zone, latest=True) + max_ahead_ms


def latest_in(state: TableState, log_file: LogFile, event_time: EventTime) -> int:
    """The same of a log file; before table version 8 it grows, and bears an older instant than what was added to it."""
    last = log_file.completed if state.table_version in CUT_VERSIONS else state.last_completed or log_file.completed
    return latest_possible_ms(last, ZoneInfo(state.timezone), event_time.ahead_ms)


def with_impossible(log_file: LogFile, least_ms: int | None, greatest_ms: int, latest_ms: int) -> LogFile:
    """A log file with an event time that cannot be true: when its row is due nobody knows; others in it are seen."""
    seen = [one for one in (least_ms, log_file.min_event_time_ms, log_file.seen_event_time_ms) if one is not None]
    seen_ms = min((one for one in seen if one <= latest_ms), default=None)
    unknown = log_file._replace(min_event_time_ms=None, max_event_time_ms=None)
    return unknown._replace(seen_event_time_ms=seen_ms, impossible_ms=greatest_ms)


def wrong_unit(event_time: EventTime, state: TableState) -> WrongUnit | None:
    """The unit that fits where no event time that is known of the log files can be true; None where one can, or none fits."""
    ahead = state.log_files_ahead
    if not ahead or any(not (f.min_event_time_ms is f.seen_event_time_ms is None) for _, f in state.log_files):
        return None
    first = min(ahead, key=lambda one: one.name)
    return _fitting(event_time, state, first, first.impossible_ms)


def too_early_unit(event_time: EventTime, state: TableState) -> WrongUnit | None:
    """The unit that fits where even the newest log files' events seem to be decades old: nothing is lost, all is due at once."""
    newest = (one.log_files[-1] for one in state.slices if one.log_files) if event_time.unit is not None else ()
    known = (one for one in newest if one.min_event_time_ms is not None)
    last = max(known, key=lambda one: one.min_event_time_ms or 0, default=None)
    return None if last is None else _fitting(event_time, state, last, last.min_event_time_ms)


def _fitting(event_time: EventTime, state: TableState, log_file: LogFile, found_ms: int | None) -> WrongUnit | None:
    latest_ms = latest_in(state, log_file, event_time)
    fitting = None if found_ms is None else fitting_unit(event_time, found_ms, latest_ms)
    return None if fitting is None or found_ms is None else WrongUnit(log_file, found_ms, fitting)
