from dataclasses import replace

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.explainer import explain_plan
from etc_policy.plan.model import make_plan
from etc_policy.policy.manifest import policy_values
from etc_policy.table.state import CompactionRecord
from tests.unit.plan.plan_cases import epoch_ms, instant
from tests.unit.plan.states import POLICY, STATE

NOW = epoch_ms("12:00:00")


def plan(values):
    record = CompactionRecord(instant("09:00:00"), instant("09:01:00"), 0, "orders_ro", "x", policy_values=values)
    return build_table_plan(POLICY, replace(STATE, last_compaction=record), now_ms=NOW, clock_ms=NOW)


def test_what_changed_in_the_policy_since_the_last_compaction():
    before = {**policy_values(POLICY), "data_latency": "7h", "freshness.target": "9h"}
    table = plan(before)
    assert table.policy_changes == ("data_latency: 7h -> 1h", "freshness.target: 9h -> not set")
    assert "policy change data_latency: 7h -> 1h  since the last compaction" in explain_plan(make_plan("now", (table,)))


def test_nothing_changed_or_nothing_known():
    assert plan(policy_values(POLICY)).policy_changes == ()
    assert plan({}).policy_changes == ()
    assert build_table_plan(POLICY, STATE, now_ms=NOW, clock_ms=NOW).policy_changes == ()
