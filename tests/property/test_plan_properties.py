"""The planner's promises over thousands of modelled histories; `ETC_HISTORIES` sets how many (500; every night 20,000)."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.model import TablePlan
from tests.nightly import HISTORIES, nightly
from tests.property import checks
from tests.property.checks import check, check_cut, check_later_writes, check_readers, describe
from tests.property.histories import broken_promise, failure, histories, report, run, shorten
from tests.property.history import EVENT_ZERO_MS, INDEXES, LATENCY_MS, History
from tests.property.mutate import MUTATIONS, SEEN_BY_READERS, noticed_after
from tests.property.writers import Change, Style

PLAIN = Style(tracked=True, rolls_over=False, small_file=True, insert_to_log=False)
#: Rules that matter in few histories.
NOTICED_LATE = (
    "C after what archiving is about to take",
    "deletes by key may lie behind a writer",
    "guard: altered schema",
    "guard: table services",
    "C after the end of a log compaction, not only its instant",
    "C after log compactions that touched the slices",
    "guard: archiving",
)
QUICKLY_NOTICED = [name for name in MUTATIONS if name not in NOTICED_LATE]


def test_every_promise_holds_in_seeded_histories() -> None:
    actions, failed = run(HISTORIES, seed=20_261_121)
    assert failed is None, report(failed)
    if HISTORIES >= 500:
        assert min(actions[action] for action in ("compact", "nothing_due", "refused")) > HISTORIES // 20, actions


@settings(max_examples=500, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=220))
def test_every_promise_holds(data: bytes) -> None:
    try:
        check(data)
    except AssertionError as broken:
        raise AssertionError(f"{broken}\n{describe(data)}") from broken


@pytest.mark.parametrize("name", [*QUICKLY_NOTICED, *nightly(*NOTICED_LATE)])
def test_a_broken_rule_is_noticed(name: str) -> None:
    assert noticed_after(MUTATIONS[name], 5_000, seed=1, readers_only=False) is not None


@pytest.mark.parametrize("name", SEEN_BY_READERS)
def test_a_broken_rule_shows_in_what_readers_see(name: str) -> None:
    assert noticed_after(MUTATIONS[name], 5_000, seed=1, readers_only=True) is not None


def _planner_that(error: type[Exception]) -> Any:
    """A planner that always ends with this error."""

    def build(*_: object, **__: object) -> TablePlan:
        raise error("an error of the planner itself")

    return patch.object(checks, "build_table_plan", build)


@pytest.mark.parametrize("error", [AttributeError, ValueError, AssertionError])
def test_an_error_of_a_mutation_is_no_broken_promise(error: type[Exception]) -> None:
    """Else a mutation that cannot even run would count as noticed."""
    with pytest.raises(error, match="of the planner itself"):
        noticed_after(lambda: _planner_that(error), 1, seed=1, readers_only=False)


class Scenario(History):
    """A history told step by step, ten milliseconds a step: keys 0 and 1 are in base files, under the index given."""

    def __init__(self, index: str | None = None) -> None:
        super().__init__(bytes([0, 0, INDEXES.index(index)]))

    def tick(self) -> int:
        self.now += 10
        return self.now

    def put(self, key: int, event: int) -> Change:
        self._values += 1
        return Change(key, EVENT_ZERO_MS + event, self._values, deletes=False)

    def delete(self, key: int, event: int | None) -> Change:
        return Change(key, None if event is None else EVENT_ZERO_MS + event, 0, deletes=True)

    def write(self, *changes: Change, tracked: bool = True) -> None:
        self.complete(self._begin(list(changes), PLAIN._replace(tracked=tracked)))

    def plan(self, threshold: int) -> TablePlan:
        self.threshold, self.clock = EVENT_ZERO_MS + threshold, self.now + 60_000
        now = self.threshold + LATENCY_MS
        return build_table_plan(self.policy(), self.state(), now_ms=now, clock_ms=self.clock)


def hold(history: Scenario, plan: TablePlan) -> None:
    """What readers see is the same, and the cut keeps the rules."""
    assert plan.action == "compact", plan.reason
    check_cut(history, history.state(), plan)
    check_readers(history, plan)


@pytest.mark.parametrize("index", ["bucket", "record_index", None])
def test_late_data_stays_hidden_behind_a_tombstone_with_event_time(index: str | None) -> None:
    history = Scenario(index)
    history.write(history.delete(0, 15), tracked=False)
    history.write(history.put(0, 14))
    assert all(0 not in rows for rows in history.table.rt().values())
    hold(history, history.plan(threshold=1))


def test_a_commit_in_flight_at_the_cut_stays_in_time_travel_and_incremental() -> None:
    history = Scenario()
    due = history._begin([history.put(0, 1)], PLAIN)
    late = history._begin([history.put(0, 20)], PLAIN)
    history.complete(due)
    history.complete(late)
    hold(history, history.plan(threshold=1))


def test_no_key_stands_twice_after_a_delete_and_a_later_write() -> None:
    history = Scenario()
    history.write(history.delete(0, None))
    history.write(history.put(0, 20))
    plan = history.plan(threshold=1)
    hold(history, plan)
    check_later_writes(bytes(3), history, plan)


@pytest.mark.extended
def test_a_failing_history_is_reported_in_its_shortest_form() -> None:
    with MUTATIONS["events at T are due"]():
        failing = next(data for data in histories(1_000, seed=1) if broken_promise(data))
        short = shorten(failing, lambda data: failure(data) is not None, seconds=180)
        assert len(short) < len(failing)
        assert f"--bytes {short.hex()}" in report(short)
    assert broken_promise(short) is None
