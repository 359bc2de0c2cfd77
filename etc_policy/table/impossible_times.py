"""Event times that cannot be true: later than the commit that wrote them, by more than the policy allows.

Where all of them are, the policy names another unit than the column's: RO would look complete for ever. Where most writes
bring old ones, it may name a column that updates leave as it was: each takes RO back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta, tzinfo
from functools import lru_cache
from itertools import dropwhile
from operator import itemgetter
from typing import NamedTuple
from zoneinfo import ZoneInfo

from etc_policy.policy.manifest import EventTime
from etc_policy.table.formats import format_duration, part_of
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.state import CUT_VERSIONS, LogFile, TableState

#: Milliseconds in one of each unit that a column of numbers may be in.
_MS_IN = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
#: A unit fits if it puts an event no longer than this before its commit.
_OLDEST_MS = timedelta(days=20 * 365) // timedelta(milliseconds=1)
#: Rows are old data if they are older than both when they are written: this long, and this many times `data_latency`.
_OLD_MS, _OLD_TIMES = timedelta(days=30) // timedelta(milliseconds=1), 10


class WrongUnit(NamedTuple):
    """The unit in which the event times of a file would be before its commit, with one of them as it is read now."""

    file: str
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
    if state.base_times is not None:
        return _of_base_file(event_time, state, is_early=False)
    if not ahead or any(not (f.min_event_time_ms is f.seen_event_time_ms is None) for _, f in state.log_files):
        return None
    first = min(ahead, key=lambda one: one.name)
    return _fitting(event_time, state, first, first.impossible_ms)


def too_early_unit(event_time: EventTime, state: TableState) -> WrongUnit | None:
    """The unit that fits where even the newest log files' events seem to be decades old: nothing is lost, all is due at once."""
    if state.base_times is not None:
        return _of_base_file(event_time, state, is_early=True)
    if state.left_times:
        return _of_left_times(event_time, state)
    newest = (one.log_files[-1] for one in state.slices if one.log_files) if event_time.unit is not None else ()
    known = (one for one in newest if one.min_event_time_ms is not None)
    last = max(known, key=lambda one: one.min_event_time_ms or 0, default=None)
    return None if last is None else _fitting(event_time, state, last, last.min_event_time_ms)


def _fitting(event_time: EventTime, state: TableState, log_file: LogFile, found_ms: int | None) -> WrongUnit | None:
    latest_ms = latest_in(state, log_file, event_time)
    fitting = None if found_ms is None else fitting_unit(event_time, found_ms, latest_ms)
    if fitting is None or found_ms is None:
        return None
    return WrongUnit(f"log file {log_file.name}, committed at {log_file.completed},", found_ms, fitting)


def _of_base_file(event_time: EventTime, state: TableState, *, is_early: bool) -> WrongUnit | None:
    """The unit that fits both the earliest and the latest time in a base file."""
    found = state.base_times
    if found is None or state.last_completed is None:
        return None
    latest_ms = latest_possible_ms(state.last_completed, ZoneInfo(state.timezone), event_time.ahead_ms)
    first, last = (fitting_unit(event_time, one, latest_ms) for one in (found.first_ms, found.last_ms))
    if last is None or first != last or (found.last_ms <= latest_ms) != is_early:
        return None
    return WrongUnit(f"base file {found.file}", found.last_ms, last)


def _of_left_times(event_time: EventTime, state: TableState) -> WrongUnit | None:
    """The unit that fits the latest that the newest base files hold of commits, where that seems to be decades old."""
    began_ms, last_ms = max(state.left_times, key=itemgetter(1))
    fitting = fitting_unit(event_time, last_ms, began_ms + event_time.ahead_ms)
    is_early = fitting is not None and last_ms <= began_ms
    return WrongUnit("the newest base files", last_ms, fitting) if is_early and fitting else None


class LateCommits(NamedTuple):
    """So many of so many commits brought events later than `data_latency` allows; half of all brought some so late, or later.

    `which` says what commits these are.
    """

    late: int
    commits: int
    half_ms: int
    which: str = "after the table's first"


def old_data_ms(declared_ms: int) -> int:
    """Rows that are older than this when they are written are loaded or replayed, where `data_latency` is so long."""
    return max(_OLD_MS, _OLD_TIMES * declared_ms)


def mostly_late(arrivals: Iterable[tuple[int, int]], declared_ms: int) -> LateCommits | None:
    """Where two commits or more, and most of all, bring events later than declared, how many; None where they do not.

    `arrivals` are when each commit after the table's first completed, and an event in it; old data before the first other
    ones do not count.
    """
    lags = dict[int, int]()
    for completed_ms, event_ms in arrivals:
        lags[completed_ms] = max(lags.get(completed_ms, 0), completed_ms - event_ms)
    old_ms = old_data_ms(declared_ms)
    judged = [*dropwhile(lambda lag_ms: lag_ms > old_ms, (lags[at] for at in sorted(lags)))]
    late = sum(lag_ms > declared_ms for lag_ms in judged)
    is_most = late > 1 and 2 * late > len(judged)
    return LateCommits(late, len(judged), sorted(judged)[len(judged) // 2]) if is_most else None


def late_in(state: TableState, declared_ms: int) -> LateCommits | None:
    """The same of the log files that are not compacted, or where none is left of what base files still hold."""
    if state.left_times:
        found = mostly_late(state.left_times, declared_ms)
        return found and found._replace(which="of which the newest base files hold rows")
    zone, first = ZoneInfo(state.timezone), state.first_instant if state.table_version in CUT_VERSIONS else ""
    known = ((f.completed, f.min_event_time_ms) for _, f in state.log_files if f.requested > first)
    return mostly_late(((instant_to_ms(at, zone), time) for at, time in known if time is not None), declared_ms)


def late_text(found: LateCommits, column: str, declared_ms: int, ordering: Sequence[str]) -> tuple[str, str]:
    """That most commits bring late events, and what to do."""
    other = "" if column in ordering or not ordering else f", such as the ordering field `{ordering[0]}`"
    commits = f"{part_of(found.late, found.commits, 'commit')} {found.which}"
    half = "one of them" if found.commits == 2 else "half of all"
    late = f"`data_latency` ({format_duration(declared_ms)}), {half} {format_duration(found.half_ms)} or more after they happened"
    return (
        f"{commits} brought events later than {late}: if updates leave `{column}` as it was, each update of an old row takes "
        "RO back",
        f"take a column that moves with updates{other}; else a longer `data_latency`",
    )
