"""`strategy.at`: what is due at a boundary, and that each is published once."""

import json

import pytest

from etc_policy.table.history import SEEN_UNTIL, THRESHOLD
from tests.unit.cli.test_just_in_time import NOON
from tests.unit.cli.test_just_in_time import orders as orders
from tests.unit.hudi.table_folder import at, base, log
from tests.unit.plan.plan_cases import epoch_ms

POLICY = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 1h
    strategy: {granularity: log_file, at: "10:20 10:30 UTC"}
    freshness: {target: 30h}
    verify: {level: metadata}
"""


@pytest.fixture
def daily(orders, tmp_path):
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    return orders


def publish(table, threshold):
    """A compaction by etc that saw all that was there."""
    extra = {THRESHOLD: str(epoch_ms(threshold)), SEEN_UNTIL: at("10:30:05")}
    table.compaction(at("11:30:00"), at("11:30:05"), base("f1"), extra=extra)


class TestPlan:
    @pytest.mark.parametrize(
        ("now", "action", "threshold"),
        [("11:29", "nothing_due", "10:20"), ("11:30", "compact", "10:30"), ("12:00", "compact", "10:30")],
    )
    def test_t_is_the_last_boundary(self, etc, daily, now, action, threshold):
        _, out, _ = etc("plan", "--at", f"2026-01-01T{now}:00Z", "--every", "5m", "--output", "json")
        (table,) = json.loads(out)["tables"]
        assert (table["action"], table["threshold_ms"]) == (action, epoch_ms(f"{threshold}:00"))
        assert (table["pace"], table["next_due_ms"]) == (None, None)

    def test_it_is_published_once(self, etc, daily):
        publish(daily, "10:20:00")
        assert etc("plan", "--at", NOON, "--detailed-exitcode")[0] == 0
        daily.commit(at("11:40:00"), at("11:40:05"), log("f1", min_event=epoch_ms("10:15:00")))
        assert etc("plan", "--at", NOON, "--detailed-exitcode")[0] == 2

    def test_late_data_waits_for_the_next(self, etc, daily):
        publish(daily, "10:30:00")
        daily.commit(at("11:40:00"), at("11:40:05"), log("f1", min_event=epoch_ms("10:15:00")))
        code, out, _ = etc("plan", "--at", NOON)
        assert code == 0
        assert "published by the compaction at 20260101113000000; the next one is due at 2026-01-02 11:20:00 UTC" in (
            " ".join(out.split())
        )


def test_a_run_that_finds_it_published_does_nothing_and_late_data_is_no_fault(etc, daily):
    publish(daily, "10:30:00")
    daily.commit(at("11:40:00"), at("11:40:05"), log("f1", min_event=epoch_ms("10:15:00")))
    code, out, err = etc("apply", "--yes", "--at", NOON, "--output", "json")
    (table,) = json.loads(out)["tables"]
    assert (code, table["status"]) == (0, "nothing_due"), err


def test_a_saved_plan_of_a_boundary_is_derived_again(etc, daily):
    etc("plan", "--at", NOON, "--out", "p.json")
    code, _, err = etc("apply", "p.json", "--at", NOON)
    assert (code, "Spark was asked for" in err) == (3, True)
