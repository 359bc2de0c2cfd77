"""Saved plans of modelled histories: an honest one follows from its table, also later on; a changed one does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.derivation import find_malformed, find_underived
from etc_policy.plan.rules import find_stale
from etc_policy.table.state import TableState
from tests.nightly import HISTORIES
from tests.property.checks import describe, go_on
from tests.property.histories import histories
from tests.property.history import LATENCY_MS, History
from tests.property.model import instant_text

PLANS = HISTORIES // 4


def beside_writers(history: History) -> TableState:
    """The table now, its open writes with heartbeats."""
    living = frozenset(instant_text(write.commit.requested) for write in history.writers.open)
    return replace(history.state(), living_writers=living)


def outcome(data: bytes) -> str:
    """What became of the history's plan when its table had lived on."""
    history = History(data)
    policy, state, clock_ms = history.policy(), beside_writers(history), history.clock - history.offset_ms
    now_ms = min(history.threshold + LATENCY_MS, clock_ms)
    plan = build_table_plan(policy, state, now_ms=now_ms, clock_ms=clock_ms)
    if plan.action == "refused":
        return "refused"
    assert find_malformed(plan) is None
    assert find_underived(policy, plan, state, clock_ms) == (), (
        "it does not follow from the table that it was made from"
    )
    for number in range(len(plan.operations)):
        less = (*plan.operations[:number], *plan.operations[number + 1 :])
        dropped = plan.model_copy(update={"operations": less})
        assert find_underived(policy, dropped, state, clock_ms), "an operation is missing, and it follows all the same"
    history.now = max(history.now, history.clock)
    for _ in range(data[-1] % 5):
        history.step()
    if data[0] % 2:
        go_on(history, finish_open=True)
    later = history.state()
    if plan.action == "compact" and find_stale(policy, plan, later):
        return "stale"
    found = find_underived(policy, plan, later, clock_ms)
    if found:
        assert any(one.requested not in {i.requested for i in later.instants} for one in state.instants), found
        return "archived"
    if plan.left_out_though_due:
        return "behind a writer"
    return plan.action if later == state else f"{plan.action}, lived on"


def test_honest_plans_follow_and_changed_ones_do_not() -> None:
    found: Counter[str] = Counter()
    for data in histories(PLANS, seed=7):
        try:
            found[outcome(data)] += 1
        except AssertionError as broken:
            raise AssertionError(f"{broken}\n{describe(data)}") from broken
    if PLANS >= 1_000:
        wanted = ("compact", "compact, lived on", "nothing_due, lived on", "stale")
        assert min(found[one] for one in wanted) > PLANS // 100, found
        assert found["behind a writer"], found
        assert found["archived"] < PLANS // 50, found
