"""A replay predicts what real plans do to a real folder, to the commit; its figures agree with an oracle that counts each ms."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.plan.model import make_plan
from etc_policy.plan.pace import pace_of
from etc_policy.plan.simulation import Schedule, actual_runs, figures_of, lags_of, quantile_ms, replay
from etc_policy.policy.manifest import Policy, Strategy
from etc_policy.table.instants import instant_from_ms
from etc_policy.table.past import Arrival, Past, past_of
from tests.property.day import MINUTE, START, UTC, Promise, Written, past_of_writes, write
from tests.unit.hudi.table_folder import TableFolder, log
from tests.unit.hudi.table_folder import Written as DataFile

HOUR = 60 * MINUTE
RUN = 2 * MINUTE
BASE_BYTES = 1_000


class Lake:
    """A real folder of a table: writers write, and each run's real plan is carried out as stock Hudi leaves it."""

    def __init__(self, folder: Path, policy: Policy, writes: tuple[Written, ...]) -> None:
        self.policy, self.table, self.reader = policy, TableFolder(folder), FileTableReader()
        self.writes = [list(found) for _, found in groupby(writes, key=lambda one: one.requested)]
        groups = sorted({one.group for one in writes})
        begun = _instant(START - HOUR)
        self.table.commit(begun, _instant(START), *(_base(group, BASE_BYTES) for group in groups))
        self.begun = dict.fromkeys(groups, begun)

    def live(self, every: int, until: int) -> None:
        """Writes and runs in the order of time; a write may be under way while a run plans."""
        for now in range(START + every, until + 1, every):
            self._write(now)
            self._run(now)

    def _write(self, now: int) -> None:
        while self.writes and self.writes[0][0].completed <= now:
            self._commit(self.writes.pop(0))
        if self.writes and self.writes[0][0].requested <= now:
            self.table.start(_instant(self.writes[0][0].requested))

    def _commit(self, found: list[Written]) -> None:
        files = (self._log(one) for one in found)
        self.table.commit(_instant(found[0].requested), _instant(found[0].completed), *files)

    def _log(self, one: Written) -> DataFile:
        event = one.event if one.known else None
        return log(one.group, event, size=one.size, rows=1, previous=self.begun[one.group])

    def _run(self, now: int) -> None:
        state = self.reader.read(str(self.table.base), self.policy.event_time)
        published = state.last_compaction.threshold_ms if state.last_compaction else None
        pace = pace_of(self.policy, None, RUN, published)
        plan = build_table_plan(self.policy, state, now_ms=now, clock_ms=now, pace=pace)
        assert plan.action != "refused", plan.reason
        if plan.action != "compact":
            return
        assert plan.instant is not None
        saved = make_plan("2026-01-01T00:00:00Z", (plan,), None)
        merged = ((op, len(op.log_files_compacted)) for op in plan.operations)
        files = [_base(op.file_id, op.bytes_written_estimate, count, op.log_bytes_compacted) for op, count in merged]
        extra = extra_metadata(saved.tables[0], saved.plan_id, None)
        self.table.compaction(plan.instant, _instant(now + RUN), *files, extra=extra)
        self.begun.update((op.file_id, plan.instant) for op in plan.operations)

    def past(self) -> Past:
        """What is known of it afterwards."""
        past = past_of(*self.reader.read_with_history(str(self.table.base), self.policy.event_time)[:2])
        assert past is not None
        return past


def _instant(time: int) -> str:
    return instant_from_ms(time, UTC)


def _base(group: str, size: int, merged: int = 0, log_bytes: int = 0) -> DataFile:
    return DataFile(group, log=False, size=size, merged=merged, merged_bytes=log_bytes)


@pytest.mark.parametrize("granularity", ["log_file", "file_slice"])
@pytest.mark.parametrize("just_in_time", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_a_replay_of_the_history_is_what_real_plans_did(granularity, just_in_time, seed, tmp_path):
    source = random.Random(seed)
    writes = write(source, 5, 20 * MINUTE, gap=8 * MINUTE, unknown=0)
    short = tuple(replace(one, size=source.randint(1, 99)) for one in writes if one.completed < START + 5 * HOUR)
    promise = Promise(20 * MINUTE, 60 * MINUTE, 15 * MINUTE, RUN, granularity, just_in_time)
    lake = Lake(tmp_path / "t", promise.policy, short)
    lake.live(promise.every, START + 5 * HOUR)
    past = lake.past()
    schedule = Schedule(promise.policy, promise.every, RUN, paced=just_in_time)
    predicted = [run for run in replay(past, schedule) if run.merged and run.ended_ms <= past.end_ms]
    happened = list(actual_runs(past))
    assert len(happened) > 3
    assert [_facts(run) for run in predicted] == [_facts(run) for run in happened]
    one, other = (figures_of(past, promise.policy, runs) for runs in (predicted, happened))
    assert one.lag_max_ms > promise.latency
    assert (one.lag_p50_ms, one.lag_p99_ms, one.lag_max_ms) == (other.lag_p50_ms, other.lag_p99_ms, other.lag_max_ms)


def _facts(run):
    names = sorted((one.group, one.log_file.requested) for one in run.merged)
    return run.ended_ms, run.bytes_read, run.bytes_written, names


@given(
    files=st.lists(st.tuples(st.integers(0, 60), st.integers(-40, 60), st.integers(1, 70)), min_size=1, max_size=12),
    latency=st.integers(0, 50),
    target=st.integers(0, 90),
)
@settings(max_examples=150, derandomize=True, database=None)
def test_lags_are_those_of_each_millisecond(files, latency, target):
    """Of files that (completed, happened so long before, reached RO so long after), in ms."""
    whole = past_of_writes(_written(files), 1, 80)
    reached = {one: one.completed_ms + files[int(one.log_file.name)][2] for one in whole.arrivals}
    lags = list(lags_of(whole, reached, latency))
    assert sum(one.length_ms for one in lags) == 80
    brute = [_lag(whole.arrivals, reached, START + moment, latency) for moment in range(80)]
    found = [one.from_ms + (ms if one.to_ms > one.from_ms else 0) for one in lags for ms in range(one.length_ms)]
    assert found == brute
    above = sum(one.length_ms - one.below_ms(target) for one in lags)
    assert above == sum(lag >= target for lag in brute) or target == latency
    for share in (0.5, 0.99):
        nearest = sorted(brute)[max(0, -(-int(share * 100) * 80 // 100) - 1)]
        assert quantile_ms(lags, share) - nearest in (0, 1)


def _written(files):
    return tuple(
        Written(str(number), "g", START + at, START + at, START + at - before)
        for number, (at, before, _) in enumerate(files)
    )


def _lag(arrivals: tuple[Arrival, ...], reached, now: int, latency: int) -> int:
    lacking = [one for one in arrivals if one.completed_ms <= now < reached[one]]
    oldest = min((one.log_file.min_event_time_ms for one in lacking), default=now + 1)
    return max(latency, now - (oldest - 1))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=20, derandomize=True, database=None)
def test_stock_hudi_every_hour_rewrites_each_file_group_that_was_written_to(seed):
    writes = write(random.Random(seed), 6, 30 * MINUTE, unknown=0)
    policy = Promise(30 * MINUTE, HOUR, HOUR, RUN, "file_slice", just_in_time=False).policy
    unbounded = policy.model_copy(update={"strategy": Strategy(type="unbounded")})
    runs = list(replay(past_of_writes(writes, BASE_BYTES), Schedule(unbounded, HOUR, RUN, paced=False)))
    for run, begin in zip(runs, range(START, START + 24 * HOUR, HOUR), strict=True):
        merged = [one for one in writes if begin < one.completed <= begin + HOUR]
        assert run.bytes_written == BASE_BYTES * len({one.group for one in merged})
        assert run.bytes_read == run.bytes_written + sum(one.size for one in merged)
