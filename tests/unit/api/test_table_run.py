"""What one run does beside the compaction of a table."""

from types import SimpleNamespace

import pytest

from etc_policy.api import table_run
from etc_policy.api.table_run import TableRun
from etc_policy.policy.manifest import Sync
from etc_policy.report.results import SyncResult, table_result
from etc_policy.run.ports import Outcome
from etc_policy.verify.catalog import VIEWS_AGREE
from etc_policy.verify.ports import ExpectationResult, Verification
from tests.unit.plan.states import POLICY

T = 1_767_261_600_000
SYNCED = POLICY.model_copy(update={"sync": Sync(ro_table="db.orders_ro")})
DONE = SyncResult(policy=SYNCED.name, ro_table="db.orders_ro", status="synced", attempts=1)


@pytest.mark.parametrize(("status", "is_synced"), [("pass", False), ("warn", True), ("fail", True)])
def test_a_run_with_nothing_due_takes_back_what_the_catalog_says_where_rows_are_missing(monkeypatch, status, is_synced):
    """Just in time such a run syncs nothing; a suite may only warn of rows that RO lacks."""
    monkeypatch.setattr(table_run, "sync_table", lambda *_: DONE)
    found = ExpectationResult(expectation=VIEWS_AGREE, status=status, observed={"threshold_ms": T})
    idle = table_result(
        Outcome(policy=SYNCED.name, base_path="/t", status="nothing_due", threshold_ms=T),
        started_at="2026-01-01T11:00:00Z",
        completed_at="2026-01-01T11:00:06Z",
        step_seconds={"compact": 0.0},
        watermark_measured_ms=None,
        verification=Verification(level="data", status=status, threshold_ms=T, expectations=(found,)),
    )
    run = TableRun(SimpleNamespace(), SYNCED, 0, result=idle.model_copy(update={"next_due_ms": T + 1}))
    run.sync()
    assert (run.result.sync is not None) == is_synced
