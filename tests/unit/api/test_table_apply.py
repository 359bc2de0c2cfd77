"""What one run does beside the compaction of a table."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from etc_policy.api import table_apply, verifying
from etc_policy.api.table_apply import TableApply
from etc_policy.api.verifying import verify_run
from etc_policy.errors import EngineError, StalePlanError, TableError
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import Sync
from etc_policy.report.sync import complete_until
from etc_policy.run.results import SyncResult, TableResult, timed
from etc_policy.table.proofs import doubt_about
from etc_policy.table.state import CompactionRecord
from etc_policy.verify.catalog import VIEWS_AGREE
from etc_policy.verify.ports import ExpectationResult, Verification
from tests.fakes import MemoryApplyStates
from tests.past import history_of
from tests.unit.plan.states import POLICY, STATE

T = 1_767_261_600_000
SYNCED = POLICY.model_copy(update={"sync": Sync(ro_table="db.orders_ro")})
DONE = SyncResult(policy=SYNCED.name, ro_table="db.orders_ro", status="synced", attempts=1)


@pytest.mark.parametrize(("status", "is_synced"), [("pass", False), ("warn", True), ("fail", True)])
def test_a_run_with_nothing_due_takes_back_what_the_catalog_says_where_rows_are_missing(monkeypatch, status, is_synced):
    """Just in time such a run syncs nothing; a suite may only warn of rows that RO lacks."""
    monkeypatch.setattr(table_apply, "sync_table", lambda *_: DONE)
    found = ExpectationResult(expectation=VIEWS_AGREE, status=status, observed={"threshold_ms": T})
    idle = TableResult(
        policy=SYNCED.name,
        base_path="/t",
        status="nothing_due",
        threshold_ms=T,
        next_due_ms=T + 1,
        verification=Verification(level="data", status=status, threshold_ms=T, expectations=(found,)),
        **timed(T, T + 6_000),
    )
    run = TableApply(SimpleNamespace(), SYNCED, 0, result=idle)
    run.sync()
    assert (run.result.sync is not None) == is_synced


def test_a_verification_that_the_table_does_not_allow_leaves_a_doubt(monkeypatch):
    """Else freshness would go by metadata alone, and the next plan would say that the verification has not ended."""
    record = CompactionRecord("20260101120000000", "20260101120001000", T, "t", "plan")
    state, states = replace(STATE, last_compaction=record), MemoryApplyStates()

    def unreadable(*_):
        raise TableError(Code.UNREADABLE_TIMES, "7 values cannot be read as times", hint="set `format`")

    monkeypatch.setattr(verifying, "verify", unreadable)
    environment = SimpleNamespace(
        apply_states=states,
        progress=lambda _: None,
        read_table=lambda *_, **__: (state, history_of(timezone=state.timezone)),
        with_statistics=lambda _, state: state,
    )
    done = TableResult(
        policy=POLICY.name,
        base_path="/t",
        status="compacted",
        instant=record.instant,
        threshold_ms=T,
        **timed(T, T),
    )
    with pytest.raises(TableError):
        verify_run(environment, POLICY, done, None, T)
    doubt = doubt_about(POLICY, replace(state, apply_state=states[POLICY.table]))
    assert (
        "its verification could not be done (data_can_be_read: 7 values cannot be read as times (set `format`))"
        in doubt
    )


def test_a_run_that_fails_after_it_finished_an_earlier_one_claims_no_more_than_that_one():
    """Late data had come below the threshold of what was finished; the new plan's own threshold is of no compaction."""
    finished = TableResult(
        policy=POLICY.name,
        base_path="/t",
        status="resumed",
        instant="20260101110000000",
        resumed_instant="20260101110000000",
        threshold_ms=T,
        watermark_measured_ms=T - 60_000,
        verification=Verification(level="logs", status="pass", threshold_ms=T),
        **timed(T, T),
    )
    run = TableApply(SimpleNamespace(apply_states=MemoryApplyStates()), POLICY, T, result=finished)
    plan = SimpleNamespace(threshold_ms=T + 3_600_000, instant="20260101120000000", table_version=8)
    run.fail(EngineError(Code.TABLE_MOVED_ON, "Spark has ended"), T, plan)
    assert run.result.status == "failed"
    assert complete_until(run.result) == complete_until(finished)


@pytest.mark.parametrize("of_partitions", ["warn", "error", "fail"])
@pytest.mark.parametrize("found", ["pass", "warn", "error", "fail"])
def test_a_comparison_of_partitions_hides_nothing_that_the_run_has_found(monkeypatch, found, of_partitions):
    """A doubt about partitions of an earlier run is a warning alone, and the exit code is that of the verdict."""
    ranks = ("pass", "warn", "error", "fail")
    first, second = (
        Verification(
            level="data",
            status=status,
            threshold_ms=T,
            expectations=(ExpectationResult(expectation=name, status=status, message=name),),
        )
        for name, status in (("first", found), ("second", of_partitions))
    )
    monkeypatch.setattr(table_apply, "prove_partitions", lambda *_: second)
    values = {"policy": "t", "base_path": "/t", "status": "nothing_due", "threshold_ms": T}
    result = TableResult(**values, verification=first, **timed(T, T + 6_000))
    run = TableApply(SimpleNamespace(), POLICY, 0, result=result)
    run._prove_partitions()
    assert run.result.verification.status == max(found, of_partitions, key=ranks.index)
    assert ("first" in run.result.verification.failures) == (found != "pass")
    assert "second" in run.result.verification.failures


def test_a_run_that_cannot_be_counted_is_an_error_of_its_table_alone(monkeypatch):
    """It ended the run of all tables; what follows on it is done all the same."""

    def broken(*_, **__):
        raise ValueError("no such number")

    monkeypatch.setattr(table_apply, "count_run", broken)
    monkeypatch.setattr(table_apply, "count_stale", broken)
    synced = []
    monkeypatch.setattr(TableApply, "sync", lambda _: synced.append("synced"))
    environment = SimpleNamespace(apply_states=None)
    run = TableApply(
        environment, POLICY, 0, result=TableResult(policy="t", base_path="/t", status="failed", **timed(T, T))
    )
    monkeypatch.setattr(TableApply, "_prove_partitions", lambda _: None)
    run.conclude()
    assert synced
    assert ["no such number" in str(one) for one in run.errors] == [True]
    stale = TableApply(environment, POLICY, 0)
    stale.fail(StalePlanError(Code.STALE_PLAN, "it is stale"), T)
    assert (stale.result.status, len(stale.errors)) == ("stale", 2)
