"""`strategy.on_close` in random tables of hours: what RO lacks of a closed one waits for nothing, all else as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from etc_policy.plan import planning_context
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.model import TablePlan
from etc_policy.plan.pace import pace_of
from etc_policy.policy.manifest import EventTime, Freshness, Policy, RowsWhenDone, Strategy
from etc_policy.policy.schema import Done, PartitionTime
from etc_policy.table.instants import instant_from_ms
from etc_policy.table.state import FileSlice, GroupKey, Instant, LogFile, TableState
from tests.nightly import HISTORIES
from tests.property.day import MINUTE, START, UTC

NOW = START + 720 * MINUTE
LATENCY, EVERY = 10 * MINUTE, 5 * MINUTE


class Log(NamedTuple):
    """A log file of an hour of that day; its event is minutes after the begin of the hour, None where nobody knows."""

    hour: int
    group: int
    event: int | None
    completed: int

    @property
    def event_ms(self) -> int | None:
        return None if self.event is None else START + (self.hour * 60 + self.event) * MINUTE

    def lacks_of_closed_hour(self, rows: str) -> bool:
        is_closed = START + (self.hour + 1) * 60 * MINUTE + LATENCY <= NOW
        return is_closed and (rows == "all" or self.event is None or self.event < 60)


LOGS = st.lists(
    st.builds(Log, st.integers(6, 11), st.integers(0, 1), st.none() | st.integers(0, 130), st.integers(500, 715)),
    max_size=8,
    unique_by=lambda one: one.completed,
)
ROWS = st.sampled_from(("all", "until_end"))


def policy(on_close: bool, rows: RowsWhenDone, is_paced: bool) -> Policy:
    return Policy(
        name="hours",
        table="/hours",
        event_time=EventTime(column="ts"),
        data_latency_ms=LATENCY,
        partition_time=PartitionTime(pattern="h=%Y-%m-%d %H"),
        done=Done(rows=rows),
        strategy=Strategy(every_ms=EVERY if is_paced else None, on_close=on_close),
        freshness=Freshness(target_ms=600 * MINUTE),
    )


def state(logs: list[Log]) -> TableState:
    slices: dict[tuple[int, int], list[Log]] = {(one.hour, one.group): [] for one in logs}
    for one in sorted(logs, key=lambda one: one.completed):
        slices[one.hour, one.group].append(one)
    instants = [Instant(at(one), "deltacommit", "completed", at(one, 1)) for one in logs]
    return TableState(
        base_path="/hours",
        table_version=9,
        timezone="UTC",
        metadata_partitions=("files",),
        properties_fingerprint="properties",
        event_time_type="long",
        instants=tuple(sorted(instants, key=lambda one: one.requested)),
        metadata_instants=frozenset(),
        slices=tuple(
            FileSlice(
                f"h=2026-01-01 {hour:02}",
                f"f{hour}-{group}",
                "20251231000000000",
                f"f{hour}-{group}.parquet",
                10,
                tuple(LogFile(name(one), 10, at(one), at(one, 1), one.event_ms, recorded_bytes=10) for one in found),
                10,
            )
            for (hour, group), found in sorted(slices.items())
        ),
    )


def at(log: Log, later: int = 0) -> str:
    return instant_from_ms(START + log.completed * MINUTE + 137 + later, UTC)


def name(log: Log) -> str:
    return f"L{log.completed}"


def plan(logs: list[Log], rows: RowsWhenDone, is_paced: bool, *, on_close: bool = True) -> TablePlan:
    chosen, known = policy(on_close, rows, is_paced), state(logs)
    pace = pace_of(chosen, None, MINUTE, None)
    return build_table_plan(chosen, known, now_ms=NOW, clock_ms=NOW, pace=pace)


def check(logs: list[Log], rows: RowsWhenDone, is_paced: bool) -> None:
    closing, waiting = plan(logs, rows, is_paced), plan(logs, rows, is_paced, on_close=False)
    if not logs:
        return
    merged = {one for operation in closing.operations for one in operation.log_files_compacted}
    left = [one for one in logs if name(one) not in merged]
    assert not [one for one in left if one.lacks_of_closed_hour(rows)], "a closed hour was left to lack rows"
    assert all(one.event_ms is None or one.event_ms > closing.threshold_ms for one in left), (
        "T is later than what stays"
    )
    due = {operation.group for operation in waiting.operations}
    due |= {
        (f"h=2026-01-01 {one.hour:02}", f"f{one.hour}-{one.group}") for one in logs if one.lacks_of_closed_hour(rows)
    }
    assert {operation.group for operation in closing.operations} == due, "a slice that could wait did not"
    assert closing.threshold_ms >= waiting.threshold_ms
    assert not is_paced or closing.next_due_ms == NOW + EVERY, (
        "a run that is needed when a partition closes may be slept through"
    )


@settings(
    max_examples=max(100, HISTORIES // 20), derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(LOGS, ROWS, st.booleans())
def test_what_lacks_of_a_closed_hour_waits_for_nothing(logs: list[Log], rows: RowsWhenDone, is_paced: bool) -> None:
    check(logs, rows, is_paced)


real = planning_context.closing_slices
BREAKS: dict[str, Callable[[Policy, TableState, int], dict[GroupKey, int]]] = {
    "closed before the latency has passed": lambda policy, state, now_ms: real(policy, state, now_ms + LATENCY),
    "never closed": lambda policy, state, now_ms: {},
    "closed whatever it is about": lambda policy, state, now_ms: (
        {one.group: 2**60 for one in state.slices if one.log_files} if policy.strategy.on_close else {}
    ),
}


@pytest.mark.parametrize("rule", BREAKS)
def test_a_broken_rule_is_noticed(rule: str) -> None:
    run = settings(
        max_examples=400,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with patch.object(planning_context, "closing_slices", BREAKS[rule]), pytest.raises(AssertionError):
        run(given(LOGS, ROWS, st.booleans())(check))()
