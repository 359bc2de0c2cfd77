"""A `data_latency` that is learned, from a table's files to its plan, its freshness and a saved plan."""

import pytest

from etc_policy.api.observing import with_learned_latencies
from etc_policy.api.project import Project
from etc_policy.api.saved_plans import require_derived
from etc_policy.api.waiting import CompleteUntil, Waiter
from etc_policy.errors import RetryableError
from etc_policy.errors.codes import Code
from etc_policy.plan.explainer import explain_plan
from etc_policy.table.history import PLAN_ID, SEEN_UNTIL, THRESHOLD
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

NOW, MINUTE = epoch_ms("09:30:00"), 60_000
POLICIES = """version: 1
policies:
  - name: orders_ro
    table: orders
    event_time_column: ts
    data_latency: {quantile: 0.95, at_least: 10m, at_most: 6h}
"""


@pytest.fixture
def orders(tmp_path, monkeypatch):
    """A table with thirty writes that are 29 minutes late; the current folder is its project."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    table = TableFolder(tmp_path / "orders")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    for minute in range(30):
        event_ms = epoch_ms(f"09:{minute:02}:05") - 29 * MINUTE
        table.commit(at(f"09:{minute:02}:00"), at(f"09:{minute:02}:05"), log("f1", event_ms))
    return table


def test_it_is_learned_and_shown_with_what_it_rests_on(orders):
    plan = Project().plan(at=NOW)
    (table,) = plan.tables
    assert (table.data_latency_ms, table.threshold_ms) == (30 * MINUTE, NOW - 30 * MINUTE)
    assert "30m  learned: 95 % of 30 writes since 2026-01-01 09:00:05 UTC came in within 29m;" in explain_plan(
        plan, width=200
    )
    assert Project().freshness(at=NOW).tables[0].data_latency.declared_ms == 30 * MINUTE


def test_what_is_archived_is_judged_where_too_few_writes_are_left(orders):
    orders.archive_first(28)
    verdict = Project().freshness(at=NOW).tables[0].data_latency
    assert (verdict.status, verdict.observed.writes) == ("generous", 30)


def test_without_event_times_it_is_as_long_as_it_may_be(orders):
    early = epoch_ms("09:10:00")
    plan = Project().plan(at=early)
    assert plan.tables[0].data_latency_ms == 360 * MINUTE
    assert "6h  `at_most`, as too few writes have known event times" in explain_plan(plan, width=200)


def test_what_was_published_stays_where_later_rows_come_later(orders):
    published = NOW - 29 * MINUTE
    extra = {THRESHOLD: str(published), PLAN_ID: "x", SEEN_UNTIL: at("09:29:05")}
    orders.compaction(at("09:29:05.001"), at("09:31:00"), base("f1"), extra=extra)
    for second in range(10, 20):
        orders.commit(at(f"09:32:{second}"), at(f"09:32:{second}.500"), log("f1", epoch_ms("09:31:00") - 30 * MINUTE))
    for second in range(20, 30):
        orders.commit(at(f"09:32:{second}"), at(f"09:32:{second}.500"), log("f1", epoch_ms("05:31:00")))
    project, now_ms = Project(), epoch_ms("09:33:00")
    plan = project.plan(at=now_ms)
    assert plan.tables[0].threshold_ms == published
    assert "T stays where the last compaction had it" in explain_plan(plan, width=200)


def test_a_saved_plan_holds_though_another_latency_is_learned_since(orders):
    project = Project()
    (table,) = project.plan(at=NOW, out="plan.json").tables
    for second in range(10, 40):
        orders.commit(at(f"09:30:{second}"), at(f"09:30:{second}.500"), log("f1", epoch_ms("05:31:00")))
    later = project.plan(at=epoch_ms("09:31:00"))
    assert later.tables[0].data_latency_ms > table.data_latency_ms
    (policy,) = project.policies()
    require_derived(project.environment, policy, table, NOW)
    edited = table.model_copy(update={"data_latency_ms": MINUTE, "threshold_ms": NOW - MINUTE})
    with pytest.raises(Exception, match="does not follow"):
        require_derived(project.environment, policy, edited, NOW)


def test_a_simulation_of_another_target_has_the_same(orders, monkeypatch):
    monkeypatch.setattr("etc_policy.wiring.time.time_ns", lambda: NOW * 1_000_000)
    (table,) = Project().simulate(settings={"freshness.target": "12h"}).tables
    lags = {one.kind: one.figures.lag_max_ms for one in table.settings if one.figures}
    assert lags["changed"] == lags["policy"] < 360 * MINUTE


def test_a_wait_goes_by_what_is_learned_when_it_looks(orders):
    """While it sleeps thirty writes come hours late, and somebody else compacts all of them."""
    with Project() as project:
        policies = project._learned(project.policies(), NOW)
        now = [NOW]

        def sleep(milliseconds):
            now[0] += milliseconds
            for second in range(10, 40) if now[0] == NOW + MINUTE else ():
                orders.commit(at(f"09:30:{second}"), at(f"09:30:{second}.500"), log("f1", epoch_ms("05:31:00")))
            if now[0] == NOW + MINUTE:
                orders.compaction(at("09:30:50"), at("09:30:55"), base("f1"))

        goal = CompleteUntil(epoch_ms("08:45:00"))
        waiter = Waiter(project.environment, goal, 5 * MINUTE, MINUTE, lambda: now[0], sleep)
        with pytest.raises(RetryableError, match="`orders_ro` is complete until 2026-01-01 05:"):
            waiter.wait(policies)
        assert now[0] == NOW + 5 * MINUTE
        (fresh,) = project.freshness(at=now[0]).tables
        assert fresh.complete_until_ms == waiter.found["orders_ro"].complete_until_ms < goal.until_ms


def test_while_nobody_can_read_the_history_it_is_as_long_as_it_may_be(orders, monkeypatch):
    """What was learned before, as a wait has it, may have grown since."""

    def unreadable(*_, **__):
        raise RetryableError(Code.CANNOT_READ_TABLE, "cannot read the table")

    with Project() as project:
        (learned,) = project._learned(project.policies(), NOW)
        monkeypatch.setattr(type(project.environment), "read_table", unreadable)
        (again,) = with_learned_latencies(project.environment, (learned,), NOW)
    found = [(one.data_latency_ms, one.latency_evidence is None) for one in (learned, again)]
    assert found == [(30 * MINUTE, False), (360 * MINUTE, True)]
