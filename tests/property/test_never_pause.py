"""Beside writers that never pause no file slice starves: runs that may compact few of them take each in its turn."""

from dataclasses import replace
from math import ceil
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.hold import slice_bytes
from etc_policy.plan.skipped_slices import ContendedSlices
from etc_policy.table.instants import instant_from_ms
from etc_policy.table.state import FileSlice, Instant, LogFile
from tests.unit.plan.states import NOW, POLICY, STATE

MINUTE_MS, LATENCY_MS, ROUNDS = 60_000, 30_000, 8
JUST_BEHIND = POLICY.model_copy(update={"data_latency_ms": LATENCY_MS})


def at(time_ms):
    return instant_from_ms(time_ms, ZoneInfo("UTC"))


def written(state, numbers, now_ms, deletes):
    """The state after a write to some of its slices, all events of which are of its time; to `deletes` it deletes keys too."""
    began, done = at(now_ms - 20_000), at(now_ms - 10_000)

    def log_file(number):
        has_deletes = number in deletes
        return LogFile(f"{began}.{number}", 1, began, done, now_ms - 20_000, has_deletes, recorded_bytes=1)

    slices = tuple(
        replace(one, log_files=(*one.log_files, log_file(number))) if number in numbers else one
        for number, one in enumerate(state.slices)
    )
    return replace(state, instants=(*state.instants, Instant(began, "deltacommit", "completed", done)), slices=slices)


def compacted(state, plan):
    left = {operation.group: operation.log_files_remaining for operation in plan.operations}
    slices = tuple(
        replace(one, log_files=tuple(log for log in one.log_files if log.name in left.get(one.group, {log.name})))
        for one in state.slices
    )
    return replace(state, slices=slices)


@given(st.data())
def test_every_slice_has_its_turn(data):
    count = data.draw(st.integers(1, 6), "file slices")
    fitting = data.draw(st.integers(1, count), "of which so many fit into a hold")
    some = st.frozensets(st.integers(0, count - 1))
    slices = tuple(FileSlice("p", f"f{number}", at(NOW - 10**7), "base.parquet", 1, (), 1) for number in range(count))
    state = replace(STATE, slices=slices)
    held = ContendedSlices(hold_bytes=fitting * slice_bytes(0, 0))
    for number in range(ROUNDS):
        now_ms = NOW + number * MINUTE_MS
        state = written(state, data.draw(some, "written to"), now_ms, data.draw(some, "deletes in"))
        plan = build_table_plan(JUST_BEHIND, state, now_ms=now_ms, clock_ms=now_ms, contended=held)
        assert plan.action != "refused", plan.reason
        state = compacted(state, plan)
        turns = ceil(count / fitting)
        assert plan.threshold_ms >= now_ms - LATENCY_MS - turns * MINUTE_MS
        assert all(log.min_event_time_ms > plan.threshold_ms for _, log in state.log_files)
