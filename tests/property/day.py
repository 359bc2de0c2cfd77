"""A day of a table: writers write, and at each run the real planner plans; what it plans is carried out by moving names about.

Times are milliseconds. What is asserted of a day is said in `test_just_in_time.py`, and shares nothing with the planner.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.model import Operation, TablePlan
from etc_policy.plan.pace import pace_of
from etc_policy.policy.manifest import EventTime, Freshness, Granularity, Policy, Strategy
from etc_policy.table.instants import instant_from_ms
from etc_policy.table.state import CompactionRecord, FileSlice, Instant, LogFile, TableState

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
    """One run: what was outstanding when it planned, what it planned, and when RO had it."""

    began: int
    ended: int
    plan: TablePlan
    outstanding: tuple[Written, ...]


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
    day, table = Day(promise, writes, base_bytes), _Table(writes)
    now = START + promise.every
    while now <= START + length:
        outstanding = tuple(table.outstanding(now))
        state = table.state(outstanding, day.base_bytes)
        published = state.last_compaction.threshold_ms if state.last_compaction else None
        pace = pace_of(promise.policy, None, promise.longest_run, published)
        plan = build_table_plan(promise.policy, state, now_ms=clock(now), clock_ms=clock(now), pace=pace)
        if plan.reason_code == "too_young":  # as its hint says
            now += 1_000
            continue
        ended = now + lengths.randint(1_000, promise.longest_run)
        if plan.action == "compact":
            day.reached.update(dict.fromkeys(table.compact(plan, now, ended), ended))
        day.runs.append(Run(now, ended, plan, outstanding))
        day.ended = ended
        now = max(plan.next_due_ms or 0, now + promise.every) if promise.sleeps else now + promise.every
    return day


class _Table:
    """Which log files are compacted, and the timeline."""

    def __init__(self, writes: tuple[Written, ...]) -> None:
        self._writes = sorted(writes, key=lambda one: one.completed)
        self._open: list[Written] = []
        self._next = 0
        self._instants: dict[int, Instant] = {}
        self._bases = {one.group: "20251231000000000" for one in writes}
        self._last: CompactionRecord | None = None

    def outstanding(self, now: int) -> list[Written]:
        """What was committed and is not compacted."""
        while self._next < len(self._writes) and self._writes[self._next].completed <= now:
            one = self._writes[self._next]
            self._open.append(one)
            requested, completed = (instant_from_ms(time, UTC) for time in (one.requested, one.completed))
            self._instants[one.requested] = Instant(requested, "deltacommit", "completed", completed)
            self._next += 1
        return self._open

    def state(self, outstanding: tuple[Written, ...], base_bytes: int) -> TableState:
        logs: dict[str, list[LogFile]] = {group: [] for group in self._bases}
        for one in outstanding:
            requested, completed = (instant_from_ms(time, UTC) for time in (one.requested, one.completed))
            event = one.event if one.known else None
            logs[one.group].append(LogFile(one.name, one.size, requested, completed, event, recorded_bytes=one.size))
        return TableState(
            base_path="/day",
            table_version=9,
            timezone="UTC",
            metadata_partitions=("files",),
            properties_fingerprint="properties",
            event_time_type="long",
            instants=tuple(self._instants[at] for at in sorted(self._instants)),
            metadata_instants=frozenset(),
            slices=tuple(
                FileSlice("p", group, base, f"{group}.parquet", base_bytes, tuple(logs[group]), base_bytes)
                for group, base in sorted(self._bases.items())
            ),
            last_compaction=self._last,
        )

    def compact(self, plan: TablePlan, now: int, ended: int) -> list[Written]:
        """What reaches RO, of which the slices begin anew."""
        assert plan.instant is not None
        names = {name for operation in plan.operations for name in operation.log_files_compacted}
        merged = [one for one in self._open if one.name in names]
        self._open = [one for one in self._open if one.name not in names]
        groups = frozenset(operation.file_id for operation in plan.operations)
        self._bases.update(dict.fromkeys(groups, plan.instant))
        completed = instant_from_ms(ended, UTC)
        self._instants[now] = Instant(plan.instant, "commit", "completed", completed, groups)
        self._last = CompactionRecord(plan.instant, completed, plan.threshold_ms, "day", "x")
        return merged


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
