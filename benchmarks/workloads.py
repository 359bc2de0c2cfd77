"""Days of writes to a table: who writes which key when, and how late."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from etc_policy.demo.flights import StatusEvent, batches, read_flights

MINUTE = 60_000
#: A commit every hour.
STEP = 60 * MINUTE
START = 1_357_030_800_000  # 2013-01-01 09:00 UTC
LATENESS = ((0.8, MINUTE), (0.95, 5 * MINUTE), (1.0, 30 * MINUTE))
DAYS, GROUPS_OF_A_DAY, KEYS_OF_A_GROUP, TOUCHED_GROUPS, TOUCHED_KEYS = 4, 5, 4_000, 6, 25


@dataclass(frozen=True, slots=True)
class Row:
    """A version of a key: the number of the commit that wrote it, when that was, and when it happened, in ms."""

    key: str
    partition: str
    event_ms: int
    version: int
    committed_ms: int

    @property
    def waited_ms(self) -> int:
        """From the event to the commit."""
        return self.committed_ms - self.event_ms


@dataclass(frozen=True)
class Workload:
    """The rows of the first commit, and of one for each step; what comes later than `latency_ms` is late data."""

    name: str
    latency_ms: int
    file_groups: int
    commits: tuple[tuple[Row, ...], ...]


Choose = Callable[[random.Random], set[int]]
_GROUPS = DAYS * GROUPS_OF_A_DAY


def uniform(source: random.Random) -> set[int]:
    """Every file group is as likely as any other."""
    return set(source.sample(range(_GROUPS), TOUCHED_GROUPS))


def skewed(source: random.Random) -> set[int]:
    """The file groups of late days get most of the updates."""
    return {_GROUPS - min(_GROUPS, int(source.paretovariate(0.6))) for _ in range(2 * TOUCHED_GROUPS)}


def updates(name: str, choose: Choose, steps: int, seed: int) -> Workload:
    """A table that is there, and updates of some keys of some of its file groups."""
    source = random.Random(seed)
    first = (_row(group, key, START, START, 0) for group in range(_GROUPS) for key in range(KEYS_OF_A_GROUP))
    later = (tuple(_updated(source, choose(source), number)) for number in range(1, steps + 1))
    return Workload(name, STEP + LATENESS[-1][1], _GROUPS, (tuple(first), *later))


def _updated(source: random.Random, groups: set[int], number: int) -> Iterator[Row]:
    committed = START + number * STEP
    for group in sorted(groups):
        for key in source.sample(range(KEYS_OF_A_GROUP), TOUCHED_KEYS):
            share = source.random()
            late = source.randint(0, next(bound for part, bound in LATENESS if share <= part))
            yield _row(group, key, committed - source.randint(0, STEP - 1) - late, committed, number)


def _row(group: int, key: int, event_ms: int, committed_ms: int, number: int) -> Row:
    return Row(f"{group:02}-{key:05}", f"2013/01/{1 + group // GROUPS_OF_A_DAY:02}", event_ms, number, committed_ms)


def flights(steps: int) -> Workload:
    """Two days of flights out of New York, with their real lateness: the timetable, then what was reported."""
    days, start = (date(2013, 1, 1), date(2013, 1, 2)), datetime.fromtimestamp(START / 1000, UTC)
    commits: list[tuple[Row, ...]] = [()] * (steps + 1)
    for batch in batches(read_flights(days), start, timedelta(milliseconds=STEP)):
        number = (batch.arrived_until_ms - START) // STEP
        if number <= steps:
            newest = {event.flight_id: event for event in sorted(batch.rows, key=lambda event: event.event_time_ms)}
            commits[number] = tuple(_status(event, number, batch.arrived_until_ms) for event in newest.values())
    return Workload("flights", 120 * MINUTE, 6, tuple(commits))


def _status(event: StatusEvent, number: int, committed_ms: int) -> Row:
    year, month, day, _ = event.flight_id.split("-", 3)
    return Row(event.flight_id, f"{year}/{month}/{day}", event.event_time_ms, number, committed_ms)
