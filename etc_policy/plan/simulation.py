"""Replays a table's past under a policy: at each run the real planner plans, and what it plans is carried out by names.

Nothing of an engine is in it: a compaction takes the time that is said of it, and writes what its plan expects. The planner sees
what it would have seen then: log files that had completed, writes in flight, and the instants that archiving leaves.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from pydantic import Field

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.cut import archive_limits
from etc_policy.plan.model import TablePlan
from etc_policy.plan.pace import pace_of
from etc_policy.policy.manifest import Frozen, Policy
from etc_policy.table.apply_state import ApplyState
from etc_policy.table.instants import instant_from_ms
from etc_policy.table.past import Arrival, Past
from etc_policy.table.state import CompactionRecord, FileSlice, GroupKey, Instant, TableState, WriteInFlight
from etc_policy.table.watermark import event_time_bound

#: How long a run is taken to last where none is known.
ASSUMED_RUN_MS = 120_000
#: When a plan is asked for again right after a write, as its hint says, and how long that is tried.
_AGAIN_MS, _PATIENCE_MS = 1_000, 60_000
_HOUR_MS, _GB = 3_600_000, 1_000_000_000


@dataclass(frozen=True)
class Schedule:
    """When runs come, by which policy, and how long one takes: every `every_ms`, or after so many `commits`.

    With `paced` the planner knows the interval, so that it compacts just in time where there is a target; who `sleeps` runs again
    when the plan says that it is due.
    """

    policy: Policy
    every_ms: int
    run_ms: int = ASSUMED_RUN_MS
    commits: int | None = None
    paced: bool = True
    sleeps: bool = False

    def next_ms(self, past: Past, time_ms: int, free_ms: int) -> int:
        """When the next run begins after the one of a time, not before `free_ms`."""
        if self.commits is None:
            return max(time_ms + self.every_ms, free_ms)
        times = past.commit_times_ms[self.commits - 1 :: self.commits]
        place = bisect_left(times, max(time_ms + 1, free_ms))
        return times[place] if place < len(times) else past.end_ms + 1


class SimulatedRun(NamedTuple):
    """A run: what reached RO when it ended, and its bytes; one of the past has no plan, and `left` rows to later ones."""

    began_ms: int
    ended_ms: int
    merged: tuple[Arrival, ...]
    bytes_read: int
    bytes_written: int
    plan: TablePlan | None = None
    left: tuple[Arrival, ...] = ()


def replay(
    past: Past,
    schedule: Schedule,
    length_ms: Callable[[], int] | None = None,
    clock: Callable[[int], int] = lambda now_ms: now_ms,
) -> Iterator[SimulatedRun]:
    """Each run of the schedule up to the end; none begins while another is at work.

    `length_ms` is how long each takes, where they are not all alike, and `clock` what the machine of the runs takes a time for.
    """
    table, time_ms = _Table(past), schedule.next_ms(past, past.begin_ms, past.begin_ms)
    while time_ms <= past.end_ms:
        now_ms = time_ms
        plan = table.plan(schedule, now_ms, clock)
        while plan.reason_code == "too_young" and now_ms < time_ms + _PATIENCE_MS:
            now_ms += _AGAIN_MS
            plan = table.plan(schedule, now_ms, clock)
        ended_ms = now_ms + (length_ms() if length_ms else schedule.run_ms)
        merged = table.compact(plan, ended_ms) if plan.action == "compact" else ()
        read = sum(one.bytes_read for one in plan.operations)
        written = sum(one.bytes_written_estimate for one in plan.operations)
        yield SimulatedRun(now_ms, ended_ms, merged, read, written, plan)
        free_ms = max(ended_ms, plan.next_due_ms or 0) if schedule.sleeps else ended_ms
        time_ms = schedule.next_ms(past, time_ms, free_ms)


def actual_runs(past: Past) -> Iterator[SimulatedRun]:
    """The compactions of the past, whoever made them."""
    waiting: dict[GroupKey, list[Arrival]] = {}
    for one in past.arrivals:
        waiting.setdefault(one.group, []).append(one)
    for done in past.compactions:
        merged = list[Arrival]()
        for group in sorted(done.groups):
            files = waiting.get(group, [])
            place = bisect_left(files, done.began_ms, key=lambda file: file.completed_ms)
            merged += files[:place]
            waiting[group] = files[place:]
        for one in done.left:
            insort(waiting.setdefault(one.group, []), one, key=lambda file: file.completed_ms)
        bytes_moved = done.bytes_read, done.bytes_written
        yield SimulatedRun(done.began_ms, done.ended_ms, tuple(merged), *bytes_moved, left=done.left)


class _Table:
    """The table at a moment: which log files are not compacted, the base files, and the timeline."""

    def __init__(self, past: Past) -> None:
        self._past, self._zone = past, past.zone
        self._rest = _at_rest(past.state)
        before = instant_from_ms(past.begin_ms - 1, self._zone)
        self._bases = {group: (before, size) for group, size in past.bases.items()}
        self._logs: dict[GroupKey, list[Arrival]] = {}
        self._instants: dict[str, Instant] = {}
        self._longest_ms = max((one.completed_ms - one.requested_ms for one in past.arrivals), default=0)
        self._next = self._next_change = 0
        self._last: CompactionRecord | None = None

    def plan(self, schedule: Schedule, now_ms: int, clock: Callable[[int], int]) -> TablePlan:
        """The real plan of the table as it is then."""
        self._advance(now_ms)
        policy, published = schedule.policy, self._last.threshold_ms if self._last else None
        pace = pace_of(policy, schedule.every_ms, schedule.run_ms, published) if schedule.paced else None
        state = self._state(policy, now_ms)
        return build_table_plan(policy, state, now_ms=clock(now_ms), clock_ms=clock(now_ms), pace=pace)

    def _advance(self, now_ms: int) -> None:
        """Take what had completed by then."""
        changes, arrivals = self._past.changes, self._past.arrivals
        while self._next_change < len(changes) and changes[self._next_change].completed_ms <= now_ms:
            change = changes[self._next_change]
            self._next_change += 1
            if change.base_bytes is None:
                self._bases.pop(change.group, None)
                self._logs.pop(change.group, None)
            else:
                self._bases[change.group] = change.instant, change.base_bytes
        while self._next < len(arrivals) and arrivals[self._next].completed_ms <= now_ms:
            one = arrivals[self._next]
            self._next += 1
            self._logs.setdefault(one.group, []).append(one)
            requested, completed = one.log_file.requested, one.log_file.completed
            self._instants[requested] = Instant(requested, "deltacommit", "completed", completed)

    def _state(self, policy: Policy, now_ms: int) -> TableState:
        writing = self._in_flight(now_ms)
        self._archive(archive_limits(policy.hudi_options)[1])
        pending = [Instant(one, "deltacommit", "inflight") for one in writing]
        groups = self._bases.keys() | self._logs.keys() if policy.is_stock else self._logs
        return replace(
            self._rest,
            instants=tuple(sorted((*self._instants.values(), *pending), key=lambda one: one.requested)),
            slices=tuple(map(self._slice, sorted(groups))),
            last_compaction=self._last,
            living_writers=frozenset(writing),
            writes_in_flight=tuple(WriteInFlight(one, frozenset(found)) for one, found in writing.items()),
        )

    def _in_flight(self, now_ms: int) -> dict[str, set[GroupKey]]:
        """The writes that had begun and not completed, with the groups to which they added."""
        found: dict[str, set[GroupKey]] = {}
        for place in range(self._next, len(self._past.arrivals)):
            one = self._past.arrivals[place]
            if one.completed_ms > now_ms + self._longest_ms:
                break
            if one.requested_ms <= now_ms:
                found.setdefault(one.log_file.requested, set()).add(one.group)
        return found

    def _archive(self, most: int) -> None:
        """Of the instants only so many are looked at, the newest: the others are archived."""
        for requested in sorted(self._instants)[:-most]:
            del self._instants[requested]

    def _slice(self, group: GroupKey) -> FileSlice:
        logs = tuple(one.log_file for one in self._logs.get(group, ()))
        instant, size = self._bases.get(group, (logs[0].requested if logs else "", 0))
        return FileSlice(*group, instant, f"{group[1]}.parquet" if size else None, size, logs, size)

    def compact(self, plan: TablePlan, ended_ms: int) -> tuple[Arrival, ...]:
        """Carry the plan out: what reaches RO, of which the slices begin anew."""
        instant, merged = plan.instant or "", list[Arrival]()
        for operation in plan.operations:
            names = set(operation.log_files_compacted)
            files = self._logs.pop(operation.group)
            merged += [one for one in files if one.log_file.name in names]
            if left := [one for one in files if one.log_file.name not in names]:
                self._logs[operation.group] = left
            self._bases[operation.group] = instant, operation.bytes_written_estimate
        completed = instant_from_ms(ended_ms, self._zone)
        touched = frozenset(operation.file_id for operation in plan.operations)
        self._instants[instant] = Instant(instant, "commit", "completed", completed, touched)
        self._last = CompactionRecord(instant, completed, plan.threshold_ms, plan.policy, "simulated")
        return tuple(merged)


def _at_rest(state: TableState) -> TableState:
    """The table without what is true of it only now."""
    return replace(
        state,
        metadata_instants=frozenset(),
        earliest_commit_to_retain=None,
        own_pending=None,
        missing_files=(),
        unclear_files=(),
        stray_files=(),
        unrecorded_files=(),
        hidden_blocks=(),
        unseen_files=(),
        exposed=frozenset(),
        wrong_times=(),
        witnesses=None,
        foreign_compaction=None,
        uncarried=None,
        orphans=(),
        apply_state=ApplyState(),
    )


class Figures(Frozen):
    """What a schedule made of the past.

    RO's lag is what `etc freshness` would have shown: now less how far RO is complete, at least `data_latency`. Its quantiles
    are over time. `above_target_ms` is how long it was above `freshness.target`, None without one. A write is late that came
    after the plan of the last compaction with an event at or before its T; `late_rows_at_most` counts all rows of these
    writes. Both are None where no T is published. `runs` are those that began, `compactions` those that compacted, and
    `refused` those that could not.
    """

    runs: int
    compactions: int
    refused: int = 0
    refused_because: str | None = None
    lag_p50_ms: int
    lag_p99_ms: int
    lag_max_ms: int
    above_target_ms: int | None = None
    late_writes: int | None = None
    late_rows_at_most: int | None = None
    bytes_read: int
    bytes_written: int


class Price(Frozen):
    """What compacting costs, in whatever currency: an hour of a core, of which each run has `cores`, and 10^9 bytes."""

    core_hour: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    cores: int = Field(default=1, ge=1)
    gb_read: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    gb_written: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def of(self, figures: Figures, run_ms: int) -> float:
        """The cost of some runs; those that compacted had the cores for `run_ms` each, the others for no time."""
        hours = figures.compactions * run_ms / _HOUR_MS
        moved = figures.bytes_read * self.gb_read + figures.bytes_written * self.gb_written
        return hours * self.cores * self.core_hour + moved / _GB


def figures_of(past: Past, policy: Policy, runs: Iterable[SimulatedRun]) -> Figures:
    """The figures of some runs; the policy says what counts as late, and which lag is too much."""
    reached, left = dict[Arrival, int](), list[Arrival]()
    done, refused, begun, read, written = list[SimulatedRun](), list[TablePlan](), 0, 0, 0
    publishes = False
    for run in runs:
        begun, read, written = begun + 1, read + run.bytes_read, written + run.bytes_written
        publishes = run.plan is not None and not policy.is_stock
        reached.update(dict.fromkeys(run.merged, run.ended_ms))
        left += run.left
        if run.plan is not None and run.plan.action == "refused":
            refused.append(run.plan)
        elif run.plan is None or run.plan.action == "compact":
            done.append(run._replace(merged=()))
    arrivals = sorted((*past.arrivals, *left), key=lambda one: one.completed_ms)
    lags = list(lags_of(replace(past, arrivals=tuple(arrivals)), reached, policy.data_latency_ms))
    late = late_writes(past, done) if publishes else None
    target_ms = policy.freshness.target_ms
    return Figures(
        runs=begun,
        compactions=len(done),
        refused=len(refused),
        refused_because=refused[0].reason if refused else None,
        lag_p50_ms=quantile_ms(lags, 0.5),
        lag_p99_ms=quantile_ms(lags, 0.99),
        lag_max_ms=max(one.to_ms for one in lags),
        above_target_ms=None if target_ms is None else sum(one.length_ms - one.below_ms(target_ms) for one in lags),
        late_writes=None if late is None else len(late),
        late_rows_at_most=None if late is None else sum(one.rows for one in late),
        bytes_read=read,
        bytes_written=written,
    )


class Lag(NamedTuple):
    """RO's lag over some time: it grows with the clock from one value to another, or stays the same for `length_ms`."""

    from_ms: int
    to_ms: int
    length_ms: int

    def below_ms(self, lag_ms: int) -> int:
        """How long it is no more than that."""
        if lag_ms >= self.to_ms:
            return self.length_ms
        return max(0, lag_ms - self.from_ms)


def lags_of(past: Past, reached: Mapping[Arrival, int], data_latency_ms: int) -> Iterator[Lag]:
    """RO's lag from beginning to end, by when each log file reached RO, or its file group was replaced."""
    zone, never = past.zone, past.end_ms + 1
    gone = {change.group: change.completed_ms for change in past.changes if change.base_bytes is None}
    completed = (one.completed_ms for one in past.arrivals)
    times = sorted(
        {past.begin_ms, past.end_ms, *completed, *(t for t in (*reached.values(), *gone.values()) if t < never)}
    )
    lacking: list[tuple[int, int]] = []
    place = 0
    for from_ms, to_ms in pairwise(times):
        while place < len(past.arrivals) and past.arrivals[place].completed_ms <= from_ms:
            one = past.arrivals[place]
            first_ms = event_time_bound(one.log_file, data_latency_ms, zone).ms
            heapq.heappush(lacking, (first_ms, min(reached.get(one, never), gone.get(one.group, never))))
            place += 1
        while lacking and lacking[0][1] <= from_ms:
            heapq.heappop(lacking)
        grows_ms = lacking[0][0] - 1 + data_latency_ms if lacking else to_ms
        if (least_ms := min(to_ms, grows_ms) - from_ms) > 0:
            yield Lag(data_latency_ms, data_latency_ms, least_ms)
        if (begins_ms := max(from_ms, grows_ms)) < to_ms:
            first_ms = lacking[0][0]
            yield Lag(begins_ms - first_ms + 1, to_ms - first_ms + 1, to_ms - begins_ms)


def quantile_ms(lags: Iterable[Lag], share: float) -> int:
    """The smallest lag that is not exceeded for that share of the time, in whole ms."""
    every = list(lags)
    wanted = share * sum(one.length_ms for one in every)
    highest = range(max(one.to_ms for one in every))
    return bisect_left(highest, wanted, key=lambda lag_ms: sum(one.below_ms(lag_ms) for one in every))


def late_writes(past: Past, done: Iterable[SimulatedRun]) -> list[Arrival]:
    """The arrivals that are late for the compaction before them; those of unknown event times are not known to be."""
    published = [(one.began_ms, one.plan.threshold_ms) for one in done if one.plan is not None]
    late = []
    for one in past.arrivals:
        place, first_ms = bisect_left(published, (one.completed_ms,)) - 1, one.log_file.min_event_time_ms
        if place >= 0 and first_ms is not None and first_ms <= published[place][1]:
            late.append(one)
    return late
