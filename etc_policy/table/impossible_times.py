"""Event times that cannot be true: later than the commit that wrote them, by more than the policy allows.

Where all of them are, the policy names another unit than the column's: RO would look complete for ever. Where most writes
bring old ones, it may name a column that updates leave as it was: each takes RO back. Whether commits bring times of events at
all is judged here, and said here, for every command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta, tzinfo
from functools import lru_cache
from itertools import chain, combinations, dropwhile, pairwise, takewhile
from operator import attrgetter, itemgetter
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from etc_policy.policy.manifest import EventTime
from etc_policy.table.formats import format_duration, format_time, part_of
from etc_policy.table.instants import DAY_MS, instant_to_ms
from etc_policy.table.state import LogFile, TableState

#: Milliseconds in one of each unit that a column of numbers may be in.
_MS_IN = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
#: A unit fits if it puts an event no longer than this before its commit.
_OLDEST_MS = timedelta(days=20 * 365) // timedelta(milliseconds=1)
#: Rows are old data if they are older than both when they are written: this long, and this many times `data_latency`.
OLD_MS, _OLD_TIMES = timedelta(days=30) // timedelta(milliseconds=1), 10
#: Numbers that seem to be older are no times of events (1980).
EARLIEST_MS = 315_532_800_000
#: An earliest event that comes so long after its commit is ahead of it by more than clocks differ.
_AHEAD_MS = timedelta(minutes=10) // timedelta(milliseconds=1)
#: So many commits show whether a column moves with the writes; so many of the newest are looked at.
ENOUGH_COMMITS, _NEWEST_COMMITS = 3, 20
#: Old data come in order if so large a share of their pairs, less those of the other order, does.
_IN_ORDER = 0.7
_TIMES = attrgetter("requested", "completed", "min_event_time_ms", "seen_event_time_ms")


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
    last = log_file.completed if state.is_cut else state.last_completed or log_file.completed
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
    newest = (one.log_files[-1] for one in state.slices if one.log_files) if event_time.unit is not None else ()
    known = (one for one in newest if one.min_event_time_ms is not None)
    last = max(known, key=lambda one: one.min_event_time_ms or 0, default=None)
    if last is not None:
        return _fitting(event_time, state, last, last.min_event_time_ms)
    return _of_left_times(event_time, state) if state.left_times else None


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


OtherKind = Literal["numbers", "still", "old", "ahead", "days"]


class OtherTimes(NamedTuple):
    """The earliest event times of each of the last so many commits, from the first to the last, are no times of events.

    They are `numbers` that are no times, stand `still` while the table is written, are `old` as all before them are, `ahead` of
    their commits, or of `days` alone. `ahead_ms` is how long after its commit the first one ahead comes at least. With a `file`
    they are its own.
    """

    kind: OtherKind
    commits: int
    first_ms: int
    last_ms: int
    ahead_ms: int = 0
    file: str = ""


#: What the commits of a table say against its event-time column.
ColumnDoubt = LateCommits | OtherTimes


class Arrival(NamedTuple):
    """When a commit completed, and the earliest event in it."""

    completed_ms: int
    event_ms: int

    @property
    def lag_ms(self) -> int:
        """How long before its commit the event was; negative where it was after."""
        return self.completed_ms - self.event_ms


def old_data_ms(declared_ms: int) -> int:
    """Rows that are older than this when they are written are loaded or replayed, where `data_latency` is so long."""
    return max(OLD_MS, _OLD_TIMES * declared_ms)


def doubt_in(arrivals: Iterable[tuple[int, int]], event_time: EventTime, declared_ms: int) -> ColumnDoubt | None:
    """What the commits after the table's first say against the event-time column; None where they say nothing.

    `arrivals` are when each commit completed, and an event in it.
    """
    commits = by_commit(arrivals)
    found = _other_times(commits, event_time, declared_ms) or mostly_late(commits, declared_ms)
    are_days = len(commits) >= ENOUGH_COMMITS and has_days_alone(one.event_ms for one in commits)
    if found is None and are_days and declared_ms < DAY_MS:
        return _span("days", commits[-_NEWEST_COMMITS:])
    return found


def by_commit(arrivals: Iterable[tuple[int, int]]) -> list[Arrival]:
    """The earliest event of each commit, in the order of completion."""
    earliest = dict[int, int]()
    for completed_ms, event_ms in arrivals:
        earliest[completed_ms] = min(earliest.get(completed_ms, event_ms), event_ms)
    return [Arrival(*one) for one in sorted(earliest.items())]


def has_days_alone(times_ms: Iterable[int]) -> bool:
    """Whether two times or more are all midnights, as those of a date are."""
    found = list(times_ms)
    return len(found) > 1 and not any(time_ms % DAY_MS for time_ms in found)


def _other_times(commits: Sequence[Arrival], event_time: EventTime, declared_ms: int) -> OtherTimes | None:
    """Whether the last commits, and most of the newest, bring no times of events."""
    old_ms, newest = old_data_ms(declared_ms), commits[-_NEWEST_COMMITS:]
    kinds: dict[OtherKind, Callable[[Arrival], bool]] = {
        "numbers": lambda one: event_time.unit is not None and one.event_ms < EARLIEST_MS,
        "still": lambda one: one.lag_ms > old_ms,
        "ahead": lambda one: one.lag_ms < -_AHEAD_MS,
    }
    for kind, is_such in kinds.items():
        found = [*takewhile(is_such, reversed(newest))][::-1]
        is_most = len(found) >= ENOUGH_COMMITS and 2 * len(found) > len(newest)
        if is_most and not (kind == "still" and _come_in_order(found)):
            may_load = len(found) == len(commits) and any(one.event_ms >= EARLIEST_MS for one in found)
            return _span("old" if kind == "still" and may_load else kind, found)
    return None


def _come_in_order(commits: Sequence[Arrival]) -> bool:
    """Whether old data are loaded or replayed in one order: they move with the writes, and not slower than half as fast."""
    steps = [a.event_ms - b.event_ms for a, b in combinations(commits, 2)]
    order = abs(sum((step > 0) - (step < 0) for step in steps)) / len(steps)
    moved_ms, took_ms = (abs(commits[-1][n] - commits[0][n]) for n in (1, 0))
    return order >= _IN_ORDER and 2 * moved_ms >= took_ms


def _span(kind: OtherKind, commits: Sequence[Arrival]) -> OtherTimes:
    times = [one.event_ms for one in commits]
    return OtherTimes(kind, len(commits), min(times), max(times), min(-one.lag_ms for one in commits))


def mostly_late(commits: Sequence[Arrival], declared_ms: int, *, of_days: bool | None = None) -> LateCommits | None:
    """Where two commits or more, and most of all, bring events later than declared, how many; None where they do not.

    Old data before the first other ones, and a replay of them that catches up, do not count. Of a day nobody knows when in it
    an event was: it is late after its end.
    """
    of_days = has_days_alone(one.event_ms for one in commits) if of_days is None else of_days
    old_ms, lags = old_data_ms(declared_ms), (one.lag_ms for one in without_replay(commits, declared_ms))
    judged = [max(0, lag_ms - DAY_MS * of_days) for lag_ms in dropwhile(lambda lag_ms: lag_ms > old_ms, lags)]
    late = sum(lag_ms > declared_ms for lag_ms in judged)
    is_most = late > 1 and 2 * late > len(judged)
    return LateCommits(late, len(judged), sorted(judged)[len(judged) // 2]) if is_most else None


def without_replay(commits: Sequence[Arrival], declared_ms: int) -> Sequence[Arrival]:
    """Without a replay of old data in order, until it has caught up with the clock: what comes late in it says nothing."""
    old_ms = old_data_ms(declared_ms)
    end = next((place for place, one in enumerate(commits) if one.lag_ms <= old_ms), len(commits))
    moves = [False, *(_moves_fast(a, b) for a, b in pairwise(commits))]
    if end < ENOUGH_COMMITS or not all(moves[end - ENOUGH_COMMITS + 1 : end]):
        return commits
    while end < len(commits) and moves[end] and commits[end].lag_ms > declared_ms:
        end += 1
    return commits[end:]


def _moves_fast(before: Arrival, after: Arrival) -> bool:
    """Whether the events of the next commit are further on than the clock, by as much as it moved or more."""
    moved_ms = after.event_ms - before.event_ms
    return moved_ms > 0 and moved_ms >= 2 * (after.completed_ms - before.completed_ms)


def whole_days_ms(duration_ms: int) -> int:
    """So many whole days or the next more."""
    return -(-duration_ms // DAY_MS) * DAY_MS


def doubt_by_files(state: TableState, event_time: EventTime, declared_ms: int) -> ColumnDoubt | None:
    """The same of the log files that are not compacted, and of what the newest base files still hold where it was read."""
    found = doubt_in(_known_in(state).values(), event_time, declared_ms)
    if isinstance(found, LateCommits) and state.left_times:
        files = "base and log files" if any(state.log_files) else "newest base files"
        return found._replace(which=f"of which the {files} hold rows")
    return found or _of_base_times(state, event_time) or _of_log_times(state, event_time)


def _of_log_times(state: TableState, event_time: EventTime) -> OtherTimes | None:
    """Whether all that log files are known to hold are numbers that are no times, however few they are."""
    times = [
        (one.max_event_time_ms or one.min_event_time_ms, one.min_event_time_ms, one.name)
        for _, one in (state.log_files if event_time.unit is not None else ())
        if one.min_event_time_ms is not None
    ]
    last_ms, first_ms, name = max(times, default=(EARLIEST_MS, EARLIEST_MS, ""))
    return OtherTimes("numbers", 0, first_ms, last_ms, file=f"log file {name}") if last_ms < EARLIEST_MS else None


def _of_base_times(state: TableState, event_time: EventTime) -> OtherTimes | None:
    """Whether a table that has only been loaded holds numbers that are no times, or times ahead of all commits."""
    found = state.base_times
    if found is None or state.last_completed is None:
        return None
    ahead_ms = found.first_ms - instant_to_ms(state.last_completed, ZoneInfo(state.timezone), latest=True)
    are_numbers, are_ahead = event_time.unit is not None and found.last_ms < EARLIEST_MS, ahead_ms > _AHEAD_MS
    kind: OtherKind = "numbers" if are_numbers else "ahead"
    return OtherTimes(kind, 0, *found[1:], ahead_ms, f"base file {found.file}") if are_numbers or are_ahead else None


def needs_base_files(state: TableState, declared_ms: int) -> bool:
    """Whether the log files that are not compacted show too little of the column, or nothing but other times."""
    known = [Arrival(*one) for one in _known_in(state).values()]
    is_usual = (-_AHEAD_MS <= one.lag_ms <= old_data_ms(declared_ms) for one in known)
    return len(known) < ENOUGH_COMMITS or not any(is_usual)


def _known_in(state: TableState) -> dict[int, tuple[int, int]]:
    """By when commits after the table's first began, when they completed, or began, and the earliest event known in each."""
    zone, first = ZoneInfo(state.timezone), state.first_instant if state.is_cut else ""
    found = {began_ms: (began_ms, time_ms) for began_ms, time_ms in state.left_times}
    in_logs = dict[str, tuple[str, int]]()
    for requested, completed, least_ms, seen_ms in map(
        _TIMES, chain.from_iterable(one.log_files for one in state.slices)
    ):
        time_ms = seen_ms if least_ms is None else least_ms
        before = in_logs.get(requested)
        if time_ms is not None and (before is None or time_ms < before[1]) and requested > first:
            in_logs[requested] = completed, time_ms
    for requested, (completed, time_ms) in in_logs.items():
        began_ms = instant_to_ms(requested, zone)
        _, before_ms = found.get(began_ms, (0, time_ms))
        found[began_ms] = instant_to_ms(completed, zone), min(time_ms, before_ms)
    return found


def doubt_text(found: ColumnDoubt, event_time: EventTime, declared_ms: int, ordering: Sequence[str]) -> tuple[str, str]:
    """What the commits say against the column and what follows, and what to do."""
    other = column_that_moves(event_time.column, ordering)
    if isinstance(found, LateCommits):
        follows = f"if updates leave `{event_time.column}` as it was, each update of an old row takes RO back"
        return f"{late_text(found, declared_ms)}: {follows}", f"take {other}; else a longer `data_latency`"
    after = {
        "days": ", with times of day; else `data_latency: 1d`, or longer",
        "still": ", unless old data are being loaded in no order",
        "old": ", unless old data are being loaded",
        "ahead": "; else look at the writer's clock and zone",
        "numbers": "",
    }
    return _other_text(found, event_time), f"take {other}{after[found.kind]}"


def column_that_moves(column: str, ordering: Sequence[str]) -> str:
    """What to take in the place of a column; the ordering field mostly is such a one."""
    other = (
        "" if column in ordering or not ordering else f", such as the ordering field `{ordering[0]}` if it is a time"
    )
    return f"a column that moves with updates{other}"


def late_text(found: LateCommits, declared_ms: int) -> str:
    """How many commits brought events too late, and how late."""
    commits = f"{part_of(found.late, found.commits, 'commit')} {found.which}"
    some = "one of them" if found.commits == 2 else "half of all commits"
    late = f"some {format_duration(found.half_ms)} or more after they happened"
    return f"{commits} brought events later than `data_latency` ({format_duration(declared_ms)}), {some} {late}"


def _other_text(found: OtherTimes, event_time: EventTime) -> str:
    """What the column is, as the first of it alone may be shown, with what was seen, and what follows."""
    seen = f"what {found.file} holds" if found.file else f"the earliest of each of the last {found.commits} commits"
    ahead = f", {format_duration(found.ahead_ms)} or more after its commit" if found.kind == "ahead" else ""
    what = {
        "numbers": f"holds numbers that are no times in `{event_time.unit}`",
        "still": "does not move with the writes",
        "old": "has old times alone",
        "ahead": "does not say when an event happened",
        "days": "has days alone",
    }
    back = "each write takes RO back to before its own, and all that is written is due at once"
    unknown = "it counts as unknown, and all that is written is compacted whatever it holds"
    is_far = found.ahead_ms > event_time.ahead_ms
    follows = {
        "numbers": back,
        "still": back,
        "old": f"either old data are being loaded, or it does not move with the writes and {back}",
        "ahead": unknown if is_far else "a row is due only so long after it was written",
        "days": "RO's freshness can be told by days only",
    }
    shown = f"`{event_time.column}` {what[found.kind]} ({seen} {_between(found)}{ahead})"
    return f"{shown}: {follows[found.kind]}"


def _between(found: OtherTimes) -> str:
    """Days alone where the times are many days apart."""
    is_wide = found.kind == "days" or found.last_ms - found.first_ms > 2 * DAY_MS
    first, last = (
        format_time(one)[: len("yyyy-mm-dd") if is_wide else None] for one in (found.first_ms, found.last_ms)
    )
    return f"is {first}" if first == last else f"lies between {first} and {last}"
