"""A day of a table: writers write, and at each run the real planner plans, as `etc simulate` has it.

Times are milliseconds. What is asserted of a day is said in `test_just_in_time.py`, and shares nothing with the planner.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from etc_policy.plan.model import Operation, TablePlan
from etc_policy.plan.simulation import Schedule, replay
from etc_policy.policy.manifest import EventTime, Freshness, Granularity, Policy, Strategy
from etc_policy.table.instants import instant_from_ms
from etc_policy.table.past import Arrival, Past
from etc_policy.table.state import LogFile, TableState

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
#: 2026-01-01, UTC.
START = 1_767_225_600_000
UTC = ZoneInfo("UTC")


@dataclass(frozen=True)
class Written:
    """A log file of one commit in one file group; `event` is its true smallest event time, `known` whether anybody knows."""

    name: str
    group: str
    requested: int
    completed: int
    event: int
    known: bool = True
    size: int = 1_000_000


@dataclass(frozen=True)
class Promise:
    """What the policy says, and how long runs take at most; `interval` None is always due, which needs no interval."""

    latency: int
    target: int
    every: int
    longest_run: int
    granularity: Granularity
    just_in_time: bool = True
    sleeps: bool = False

    @property
    def policy(self) -> Policy:
        return Policy(
            name="day",
            table="/day",
            event_time=EventTime(column="ts"),
            data_latency_ms=self.latency,
            strategy=Strategy(granularity=self.granularity, every_ms=self.every if self.just_in_time else None),
            freshness=Freshness(target_ms=self.target),
        )


@dataclass
class Run:
    """One run: when it began, what it planned, and when RO had it."""

    began: int
    ended: int
    plan: TablePlan


@dataclass
class Day:
    """What became of the writes: when each reached RO, and each run."""

    promise: Promise
    writes: tuple[Written, ...]
    base_bytes: int
    reached: dict[Written, int] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    ended: int = 0

    @property
    def bytes_rewritten(self) -> int:
        return sum(one.bytes_written_estimate for one in self._operations())

    @property
    def bytes_read(self) -> int:
        return sum(one.bytes_read for one in self._operations())

    @property
    def worst_lag(self) -> int:
        """How far RO was behind at most: right before an event reached it, or the day ended."""
        lags = (self.reached.get(one, self.ended) - one.event for one in self.writes if one.completed < self.ended)
        return max(lags, default=0)

    def outstanding(self, run: Run) -> list[Written]:
        """What was committed and not compacted when a run planned."""
        return [
            one for one in self.writes if one.completed <= run.began and self.reached.get(one, run.ended) >= run.ended
        ]

    def _operations(self) -> Iterator[Operation]:
        return (operation for run in self.runs for operation in run.plan.operations)


def live(
    promise: Promise,
    writes: tuple[Written, ...],
    lengths: random.Random,
    base_bytes: int = 100_000_000,
    clock: Callable[[int], int] = lambda now: now,
    length: int = DAY,
) -> Day:
    """A day from its first run on, one interval after its begin, to its last; runs do not overlap.

    `clock` is what the machine of the runs takes a time for.
    """
    day, by_name = Day(promise, writes, base_bytes), {one.name: one for one in writes}
    schedule = Schedule(
        promise.policy, promise.every, promise.longest_run, paced=promise.just_in_time, sleeps=promise.sleeps
    )
    past = past_of_writes(writes, base_bytes, length)
    for run in replay(past, schedule, lambda: lengths.randint(1_000, promise.longest_run), clock):
        assert run.plan is not None
        day.reached.update((by_name[one.log_file.name], run.ended_ms) for one in run.merged)
        day.runs.append(Run(run.began_ms, run.ended_ms, run.plan))
        day.ended = run.ended_ms
    return day


def past_of_writes(writes: tuple[Written, ...], base_bytes: int, length: int = DAY) -> Past:
    """The writes as the past of a table whose base files are all there, and as large as each other."""
    state = TableState(
        base_path="/day",
        table_version=9,
        timezone="UTC",
        metadata_partitions=("files",),
        properties_fingerprint="properties",
        event_time_type="long",
        instants=(),
        metadata_instants=frozenset(),
        slices=(),
    )
    arrivals = tuple(map(_arrival, sorted(writes, key=lambda one: one.completed)))
    return Past(state, arrivals, START, START + length, {one.group: base_bytes for one in arrivals})


def _arrival(one: Written) -> Arrival:
    requested, completed = (instant_from_ms(time, UTC) for time in (one.requested, one.completed))
    event = one.event if one.known else None
    log_file = LogFile(one.name, one.size, requested, completed, event, recorded_bytes=one.size)
    return Arrival(("p", one.group), log_file, one.requested, one.completed)


def write(
    source: random.Random, groups: int, latency: int, *, gap: int = 10 * MINUTE, most: int = 4, unknown: float = 0.05
) -> tuple[Written, ...]:
    """A day of commits one after the other, `gap` apart at the mean, each to some file groups, with events as late as allowed."""
    found: list[Written] = []
    at = START
    while True:
        requested = at + source.randint(1, gap // 1_000) * 2_000
        at = requested + source.randint(1, 20) * 1_000
        if at >= START + DAY:
            return tuple(found)
        for group in source.sample(range(groups), min(groups, source.randint(1, most))):
            late = source.choice((0, latency, source.randint(0, latency), source.randint(0, latency // 4)))
            # Off the whole seconds of runs, as nothing that completed right before one can be cut (facts: free-instant).
            times = requested + 137, at + 137
            known = source.random() >= unknown
            found.append(Written(f"L{len(found)}", f"f{group:04}", *times, times[1] - late, known=known))
