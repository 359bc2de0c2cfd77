"""What a verdict means for the compaction that it is about."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from etc_policy.api.syncing import verdict_beside
from etc_policy.api.verifying import begin_proof, broken_verification, claim_for, note_misrecorded, note_verdict
from etc_policy.errors import EngineError, RetryableError, TableError, install_hint
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import EventTime, Freshness, Policy, Sample, Verify
from etc_policy.report.freshness import unreadable
from etc_policy.report.sync import STATUS, Verdict, ro_properties
from etc_policy.run.results import TableResult, timed
from etc_policy.table.apply_state import ApplyState, Looked, Misrecorded
from etc_policy.table.history import promise_of
from etc_policy.table.log_witness import of_event_time, path_of
from etc_policy.table.proofs import (
    after_comparison,
    after_difference,
    after_log_reading,
    doubt_about,
    is_proven,
    level_to_prove,
    look_back_to,
    proofs_of,
)
from etc_policy.table.state import CompactionRecord, Instant, LogWitness, TableState
from etc_policy.verify.catalog import AS_OF, NO_KEY_TWICE, VIEWS_AGREE
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.log_checks import LOGS
from etc_policy.verify.metadata_checks import COMPACTED, INDEXES, prove_compacted
from etc_policy.verify.ports import Coverage, ExpectationResult, Verification
from etc_policy.verify.prover import claim_of
from tests.fakes import MemoryApplyStates, MemoryTable
from tests.past import history_of
from tests.unit.plan.plan_cases import inputs_of_case, plan_of_case, state_of

POLICY = Policy(name="t", table="/t", event_time=EventTime(column="ts", unit="ms"), data_latency_ms=0)
RECORD = CompactionRecord("20260101120000000", "20260101120001000", 1_000, "t", "plan")
CLAIM = Claim(1_000, "20260101115900000")
LAGS = ExpectationResult(expectation="expect_freshness_within", status="fail", message="RO lags 9d behind now")
UNKNOWN = LAGS.model_copy(update={"status": "error", "message": "how far RO is complete is not known"})
AGREES = ExpectationResult(expectation=COMPACTED, status="pass")
LACKS = ExpectationResult(expectation=COMPACTED, status="fail")
COMPARED = ExpectationResult(expectation=VIEWS_AGREE, status="pass", observed={"threshold_ms": 9_000})
#: RO lacks rows up to the threshold.
LACKED = COMPARED.model_copy(update={"status": "fail", "observed": {"threshold_ms": 1_000}})
MISSING = Verification(level="data", status="fail", threshold_ms=1_000, expectations=(LACKED,))
AGREEING = MISSING.model_copy(update={"status": "pass", "expectations": (COMPARED,)})
#: Metadata agree with what the compaction promises.
PASSED = Verification(level="metadata", status="pass", threshold_ms=1_000, expectations=(AGREES,))
OTHER = POLICY.model_copy(update={"event_time": EventTime(column="booked_at", unit="ms")})
STATE = replace(state_of("/t", {"slices": {}}), last_compaction=RECORD)


def at_level(level, **rest):
    return POLICY.model_copy(update={"verify": Verify(level=level, **rest)})


def beside_the_table(store, state=STATE):
    """The table with what is kept beside it."""
    return replace(state, apply_state=store.read("/t"))


def doubt(store, state=STATE, policy=POLICY):
    """Why nobody should rely on the table, by what is kept beside it."""
    return doubt_about(policy, beside_the_table(store, state)) or ""


def noted(*found: ExpectationResult, status: str):
    """What is kept after a verification with these results."""
    store = MemoryApplyStates()
    begin_proof(POLICY, STATE, store)
    assert store["/t"].unproven[0].why == "its verification was begun and has not ended"
    verification = Verification(level="metadata", status=status, threshold_ms=1_000, expectations=found)
    note_verdict(POLICY, STATE, store, verification, POLICY.verify.level, CLAIM)
    return store["/t"]


def test_what_another_process_has_verified_since_the_table_was_read_stays_verified():
    store = MemoryApplyStates()
    store.update("/t", lambda _: noted(AGREES, LAGS, status="fail"))
    begin_proof(POLICY, STATE, store)
    assert is_proven(POLICY, STATE, store["/t"])


RESTORE = Instant("20260101121000000", "restore", "completed", "20260101121005000")


@pytest.mark.parametrize(
    "changed",
    [
        {"column_since": "20260101000000000"},
        {"first_instant": "20260102000000000"},
        {"instants": (*STATE.instants, RESTORE)},
    ],
)
def test_what_was_proved_of_another_column_of_this_name_or_of_another_table_or_before_a_restore_is_not_proved(changed):
    store, policy = MemoryApplyStates(), at_level("metadata")
    note_verdict(policy, STATE, store, PASSED, "metadata", CLAIM)
    after = [beside_the_table(store, state) for state in (STATE, replace(STATE, **changed))]
    assert [is_proven(policy, state, store["/t"]) for state in after] == [True, False]
    assert [len(proofs_of(policy, state)) for state in after] == [1, 0]


def test_what_a_suite_proved_is_not_proved_by_another_of_its_name():
    policies = [at_level("metadata", suite="s").model_copy(update={"suite_digest": one}) for one in ("a", "b", None)]
    store = MemoryApplyStates()
    note_verdict(policies[0], STATE, store, PASSED, "metadata", CLAIM)
    assert [is_proven(policy, STATE, store["/t"]) for policy in policies] == [True, False, False]


@pytest.mark.parametrize(("level", "proven"), [("metadata", True), ("logs", True), ("data", False)])
def test_what_needs_rows_is_left_open_only_where_rows_are_to_be_read(level, proven):
    policy, store = at_level(level), MemoryApplyStates()
    begin_proof(policy, STATE, store)
    note_verdict(policy, STATE, store, PASSED.model_copy(update={"not_checked": (VIEWS_AGREE,)}), level, CLAIM)
    assert is_proven(policy, STATE, store["/t"]) is proven
    assert (store["/t"].unproven == ()) is proven


def test_a_verification_that_begins_hides_no_failure():
    """Freshness would say that RO is complete until it ends, and for ever where it is killed."""
    store = MemoryApplyStates()
    store.update("/t", lambda _: noted(LACKS, status="fail"))
    begin_proof(POLICY, STATE, store)
    assert "its verification failed" in doubt(store)


def test_a_table_that_etc_has_never_compacted_is_in_doubt_too():
    state, store = replace(STATE, last_compaction=None), MemoryApplyStates()
    note_verdict(POLICY, state, store, MISSING, "data", CLAIM)
    after = beside_the_table(store, state)
    assert doubt_about(POLICY, after) == f"the table is not proven: its verification failed ({MISSING.failures})"
    assert level_to_prove(POLICY, after, is_idle=True) == "data"
    assert verdict_beside(POLICY, after).status == "fail"
    assert "the table is not proven" in doubt_about(POLICY, replace(after, last_compaction=RECORD))
    note_verdict(POLICY, after, store, AGREEING, "data", CLAIM)
    assert not doubt(store, state)


def test_a_lag_beyond_its_limit_disproves_nothing():
    """The compaction holds what it promised; it is only old."""
    kept = noted(AGREES, LAGS, status="fail")
    assert is_proven(POLICY, STATE, kept)
    assert [one.until_ms for one in kept.proofs.of] == [1_000]


@pytest.mark.parametrize(("begun", "level"), [("20260101115000000", "metadata"), ("20260101121000000", "data")])
def test_rows_prove_nothing_where_a_write_in_flight_hides_some_that_are_claimed(begun, level):
    """Both views are read as of right before it, and another commit has completed since."""
    done = Instant("20260101115500000", "deltacommit", "completed", "20260101120000000")
    writing = Instant(begun, "deltacommit", "inflight")
    state, store = replace(STATE, last_compaction=None, instants=(writing, done)), MemoryApplyStates()
    note_verdict(POLICY, state, store, AGREEING, "data", Claim(1_000, "20260101120000000"))
    assert [one.level for one in store["/t"].proofs.of] == [level]


@pytest.mark.parametrize(("begun", "is_verified"), [("20260101120000200", False), ("20260101120000600", True)])
def test_a_compaction_is_verified_once_no_write_in_flight_hides_rows_that_it_speaks_of(begun, is_verified):
    """Its plan had seen a write that completed after its instant: later runs with nothing due would compare no rows."""
    record = replace(RECORD, seen_until="20260101120000500")
    done = Instant("20260101115500000", "deltacommit", "completed", record.seen_until)
    state = replace(STATE, last_compaction=record, instants=(done, Instant(begun, "deltacommit", "inflight")))
    policy, store = at_level("data"), MemoryApplyStates()
    begin_proof(policy, state, store)
    note_verdict(policy, state, store, AGREEING, "data", Claim(1_000, record.seen_until))
    assert is_proven(policy, state, store["/t"]) == is_verified
    assert level_to_prove(policy, replace(state, apply_state=store["/t"]), is_idle=True) == (
        "logs" if is_verified else "data"
    )
    assert store["/t"].unproven == ()


def test_a_clock_that_lets_nobody_know_now_disproves_nothing():
    unknown = ExpectationResult(
        expectation="completeness_is_known", status="error", message="a writer's clock is ahead"
    )
    assert is_proven(POLICY, STATE, noted(AGREES, UNKNOWN, unknown, status="error"))
    assert not is_proven(POLICY, STATE, noted(LACKS, unknown, status="error"))


@pytest.mark.parametrize(
    ("found", "status"),
    [((LACKS,), "fail"), ((LACKS, LAGS), "fail"), ((AGREES, UNKNOWN), "error"), ((UNKNOWN, LAGS), "error")],
)
def test_whatever_else_did_not_pass_leaves_it_unproven(found, status):
    kept = noted(*found, status=status)
    assert not is_proven(POLICY, STATE, kept)
    assert kept.unproven[0].why.startswith(("its verification failed", "its verification could"))
    assert kept.proofs is None or kept.proofs.of == ()


CANNOT = "cannot read the real-time view of `/t`"
NOT_LOOKED = [
    EngineError(Code.NO_JAVA, "no Java runtime found"),
    EngineError(Code.NO_PYSPARK, "PySpark is not installed"),
    EngineError(Code.SPARK_DID_NOT_START, "Spark did not start"),
    EngineError(Code.NO_GREAT_EXPECTATIONS, "Great Expectations is not installed"),
    EngineError(Code.MISSING_SECRET, "variable `KEY` is not set"),
    TableError(Code.STORE_REFUSES, "the store refuses"),
    TableError(Code.NO_STORE_KEYS, "no keys"),
    TableError(Code.NEEDS_PYARROW, "pyarrow is not installed"),
    TableError(Code.CANNOT_READ_TABLE, "cannot read `/t`", cause="[Errno 13] Permission denied: '/t/f1'"),
    RetryableError(Code.STORE_UNREACHABLE, "the store does not answer"),
    RetryableError(Code.NO_EXECUTOR, "no executor"),
    EngineError(Code.CANNOT_READ_VIEW, CANNOT, cause="java.lang.OutOfMemoryError: Java heap space"),
    EngineError(Code.CANNOT_READ_VIEW, CANNOT, cause="java.io.IOException: No space left on device"),
    EngineError(Code.NOTHING_CHECKED, "the rows of `/t` could not be compared", cause="Answer from Java side is empty"),
]
LOOKED = [
    EngineError(Code.CANNOT_READ_VIEW, CANNOT, cause="java.io.FileNotFoundException: /t/f1.parquet"),
    EngineError(Code.CANNOT_READ_VIEW, CANNOT, cause="`f1.parquet` is not a Parquet file"),
    EngineError(Code.NOTHING_CHECKED, "no expectation could be checked", cause="Exception when reading log file"),
    TableError(Code.UNREADABLE_TIMES, "7 values cannot be read as times"),
    TableError(Code.DAMAGED_TIMELINE, "timeline file is empty"),
]


@pytest.mark.parametrize(
    ("error", "is_doubted"), [*((error, False) for error in NOT_LOOKED), *((error, True) for error in LOOKED)]
)
def test_what_kept_a_verification_from_looking_takes_no_proof_away(error, is_doubted):
    """A laptop without Java would turn the gate of production red."""
    store = MemoryApplyStates()
    store.update("/t", lambda _: noted(AGREES, status="pass"))
    before, broken = store.read("/t"), broken_verification("data", 1_000, error)
    found = broken.model_copy(update={"expectations": (AGREES, *broken.expectations)})
    kept = note_verdict(POLICY, beside_the_table(store), store, found, "data", CLAIM)
    assert bool(doubt(store)) == is_doubted
    assert (kept == before) != is_doubted
    assert is_proven(POLICY, STATE, kept) != is_doubted


def test_of_what_was_only_begun_it_is_known_that_it_has_not_ended():
    kept = noted(*broken_verification("data", 1_000, NOT_LOOKED[0]).expectations, status="error")
    assert [one.verification for one in kept.unproven] == ["running"]
    assert not is_proven(POLICY, STATE, kept)


def test_a_check_that_found_damage_beside_one_that_could_not_run_leaves_a_doubt():
    memory = ExpectationResult(expectation="expect_no_rows_held_back", status="error", message="OutOfMemoryError")
    assert noted(AGREES, memory, status="error").unproven[0].verification == "running"
    damaged = memory.model_copy(update={"message": "is not a Parquet file"})
    assert noted(AGREES, memory, damaged, status="error").unproven[0].verification == "error"
    twice = ExpectationResult(expectation=NO_KEY_TWICE, status="fail")
    assert noted(twice, memory, status="error").unproven[0].rows is not None


def beside(*found: ExpectationResult, status: str, state: TableState = STATE):
    """Status and level of the verdict that is kept after a verification with these results."""
    verdict = verdict_beside(POLICY, replace(state, apply_state=noted(*found, status=status)))
    return verdict and (verdict.status, verdict.level, verdict.instant, bool(verdict.verified_at))


def test_the_verdict_that_is_kept_beside_the_table():
    """Whoever runs `etc sync` may have other results at hand, of an earlier run."""
    assert beside(AGREES, status="pass") == ("pass", "metadata", RECORD.instant, True)
    assert beside(LACKS, status="fail") == ("fail", "data", RECORD.instant, False)


def test_what_could_not_be_verified_or_is_of_another_compaction_is_no_verdict():
    assert beside(UNKNOWN, status="error") is None
    for record in (None, replace(RECORD, instant="20260101130000000"), replace(RECORD, completed="20260101120002000")):
        assert beside(AGREES, status="pass", state=replace(STATE, last_compaction=record)) is None
    store = MemoryApplyStates()
    begin_proof(POLICY, STATE, store)
    assert verdict_beside(POLICY, beside_the_table(store)) is None


def test_nothing_due_beside_a_delete_that_is_left_out_is_no_failure():
    """A strategy of Hudi leaves a slice with a delete by key: T is before its commit less the latency, as the plan says."""
    case = Path(__file__).parents[2] / "golden" / "plans" / "stock_nothing_beside_a_delete"
    ((policy, state, now_ms, clock_ms, _),) = inputs_of_case(case)
    (table,) = plan_of_case(case).tables
    assert (table.action, table.left_out_though_due) == ("nothing_due", 1)
    outcome = MemoryTable(state).runner().apply(policy, table, "plan", None)
    history = history_of(timezone=state.timezone)
    claim = claim_for(policy, outcome, table, state, history, now_ms)
    assert (claim.threshold_ms, claim.leaves_out) == (table.threshold_ms, True)
    assert prove_compacted(Evidence(policy, state, history, claim, clock_ms)).status == "pass"


LATER = CompactionRecord("20260101121000000", "20260101121001000", 2_000, "t", "later")
AFTERWARDS = replace(STATE, last_compaction=LATER)


def judge(store, record, status, *, last_completed=None, knows=False):
    """Keep the verdict of a verification that had read the table when this compaction was its last; perhaps with the notes."""
    one = ExpectationResult(expectation=COMPACTED, status=status)
    found = Verification(level="data", status=status, threshold_ms=record.threshold_ms, expectations=(one,))
    notes = store.read("/t") if knows else STATE.apply_state
    state = replace(STATE, last_compaction=record, apply_state=notes)
    state = with_instant_at(state, last_completed or record.completed)
    note_verdict(POLICY, state, store, found, "data", Claim(record.threshold_ms, CLAIM.seen_until))
    return state


def with_instant_at(state, completed):
    return replace(state, instants=(Instant(completed, "deltacommit", "completed", completed),))


def test_a_verification_that_takes_long_does_not_outweigh_that_of_a_later_compaction():
    """The lease ends with the commit, so that another run may have compacted and failed meanwhile."""
    store = MemoryApplyStates()
    judge(store, LATER, "fail")
    before = store["/t"]
    earlier = judge(store, RECORD, "pass")
    begin_proof(POLICY, earlier, store)
    assert store["/t"] == before
    assert before.unproven[0].compaction.startswith(LATER.instant)


def test_but_rows_that_it_found_missing_are_missing_whatever_was_compacted_since():
    store = MemoryApplyStates()
    judge(store, LATER, "pass")
    before = store.read("/t")
    note_verdict(POLICY, with_instant_at(STATE, RECORD.completed), store, MISSING, "data", CLAIM)
    assert "its verification failed" in doubt(store, with_instant_at(AFTERWARDS, LATER.completed))
    assert store.read("/t").proofs == before.proofs
    twice = MISSING.model_copy(update={"expectations": (LACKS,)})
    store.update("/t", lambda _: before)
    note_verdict(POLICY, with_instant_at(STATE, RECORD.completed), store, twice, "data", CLAIM)
    assert store.read("/t") == before


def test_nor_where_the_later_one_was_pending_when_the_table_was_read():
    """On table version 6 it completes at its own instant, which writers may have passed."""
    store = MemoryApplyStates()
    judge(store, LATER, "fail")
    state = with_instant_at(STATE, "20260101123000000")
    pending = Instant(LATER.instant, "compaction", "inflight")
    begin_proof(POLICY, replace(state, instants=(*state.instants, pending)), store)
    assert store["/t"].unproven[0].compaction.startswith(LATER.instant)


def test_one_that_was_taken_back_since_says_nothing_of_the_one_before():
    store = MemoryApplyStates()
    judge(store, LATER, "fail")
    judge(store, RECORD, "pass", last_completed="20260101123000000")
    assert is_proven(POLICY, STATE, store["/t"])


def test_of_a_table_that_was_put_back_to_an_older_copy_what_is_found_counts():
    """What is kept of a compaction that the table has not any more was known when the table was read."""
    store = MemoryApplyStates()
    judge(store, LATER, "pass")
    older = beside_the_table(store)
    begin_proof(POLICY, older, store)
    assert store["/t"].unproven[0].verification == "running"
    note_verdict(POLICY, older, store, MISSING, "data", CLAIM)
    assert "its verification failed" in doubt(store)


def test_nor_does_the_same_one_under_a_completion_that_was_set_right():
    store = MemoryApplyStates()
    judge(store, replace(RECORD, completed="20260101200000000"), "fail")
    judge(store, RECORD, "pass", knows=True)
    assert is_proven(POLICY, STATE, store["/t"])


def test_rows_that_ro_lacks_break_its_promise_though_something_else_could_not_be_checked():
    kept = noted(AGREES, LACKED, LAGS.model_copy(update={"status": "error"}), status="error")
    assert (kept.unproven[0].verification, kept.proofs.of) == ("fail", ())


def test_nor_because_there_is_another_compaction():
    """What it merged is something else: the rows are as missing as before."""
    policy, store = at_level("logs"), MemoryApplyStates()
    note_verdict(policy, STATE, store, MISSING, "data", CLAIM)
    later = with_instant_at(AFTERWARDS, LATER.completed)
    begin_proof(policy, beside_the_table(store, later), store)
    passed = Verification(level="logs", status="pass", threshold_ms=2_000, expectations=(AGREES,))
    claim = Claim(LATER.threshold_ms, CLAIM.seen_until)
    note_verdict(policy, later, store, passed, "logs", claim)
    after = beside_the_table(store, later)
    assert f"the compaction at {RECORD.instant} is not proven: its verification failed" in doubt(store, later)
    assert verdict_beside(policy, after).status == "fail"
    whole = passed.model_copy(update={"level": "data", "expectations": (COMPARED,)})
    note_verdict(policy, after, store, whole, "data", claim)
    assert not doubt(store, later)


@pytest.mark.parametrize(("seed", "is_doubted"), [(None, True), (7, False)])
def test_nor_for_a_sample_of_other_file_groups(seed, is_doubted):
    policy, store = at_level("sample", sample=Sample(seed=seed)), MemoryApplyStates()
    part = Coverage(file_groups=9, file_groups_read=1, seed=seed or 1)
    failed = MISSING.model_copy(update={"level": "sample", "coverage": part})
    note_verdict(policy, STATE, store, failed, "sample", CLAIM)
    other = part.model_copy(update={"seed": seed or 2})
    passed = failed.model_copy(update={"status": "pass", "expectations": (COMPARED,), "coverage": other})
    note_verdict(policy, beside_the_table(store), store, passed, "sample", CLAIM)
    assert bool(doubt(store)) == is_doubted


@pytest.mark.parametrize(("level", "is_doubted"), [("metadata", True), ("logs", True), ("data", False)])
def test_rows_that_were_found_missing_are_not_there_for_a_verification_that_reads_none(level, is_doubted):
    policy, store = at_level(level), MemoryApplyStates()
    note_verdict(policy, STATE, store, MISSING, "data", CLAIM)
    found = COMPARED if level == "data" else AGREES
    passed = Verification(level=level, status="pass", threshold_ms=1_000, expectations=(found,))
    note_verdict(policy, STATE, store, passed.model_copy(update={"status": "error"}), "data", None)
    note_verdict(policy, beside_the_table(store), store, passed, level, CLAIM)
    assert bool(doubt(store)) == is_doubted == (not is_proven(policy, STATE, store["/t"]))
    note_verdict(policy, beside_the_table(store), store, AGREEING, "data", CLAIM)
    assert not doubt(store)


TWICE = ExpectationResult(expectation=NO_KEY_TWICE, status="fail")
RO_FAILS = ExpectationResult(expectation="expect_column_values_to_not_be_null", status="fail")
INDEXED = ExpectationResult(expectation=INDEXES, status="fail")


def by_hand(store, level, *found, claim=CLAIM, state=STATE, policy=None, coverage=None):
    """Keep what a verification of a level found, of a policy that wants no more than log files read; whether in doubt since."""
    policy = policy or at_level("logs")
    status = "fail" if any(one.status == "fail" for one in found) else "pass"
    verification = Verification(
        level=level, status=status, threshold_ms=claim.threshold_ms, expectations=found, coverage=coverage
    )
    note_verdict(policy, beside_the_table(store, state), store, verification, level, claim)
    return bool(doubt(store, state, policy))


def passing(one):
    return one.model_copy(update={"status": "pass"})


@pytest.mark.parametrize("record", [RECORD, None])
@pytest.mark.parametrize("found", [TWICE, RO_FAILS, INDEXED])
def test_what_only_rows_show_stands_until_rows_show_otherwise(found, record):
    """`etc verify --level data` by hand, beside runs whose policy reads log files alone."""
    store, state = MemoryApplyStates(), replace(STATE, last_compaction=record, metadata_partitions=("column_stats",))
    assert by_hand(store, "data", COMPARED, found, state=state)
    assert by_hand(store, "logs", AGREES, state=state)
    later = with_instant_at(replace(state, last_compaction=LATER), LATER.completed)
    claim = Claim(LATER.threshold_ms, CLAIM.seen_until)
    assert by_hand(store, "logs", AGREES, state=later, claim=claim)
    assert by_hand(store, "data", COMPARED, state=later, claim=claim) == (found is not RO_FAILS)
    assert not by_hand(store, "data", COMPARED, passing(found), state=later, claim=claim)


def test_what_a_table_has_no_more_is_no_fault_of_it():
    store = MemoryApplyStates()
    state = replace(STATE, metadata_partitions=("column_stats",))
    assert by_hand(store, "data", COMPARED, TWICE, INDEXED, state=state)
    assert by_hand(store, "data", COMPARED)
    writer = POLICY.writer.model_copy(update={"keys": "repeated"})
    assert not by_hand(store, "data", COMPARED, policy=POLICY.model_copy(update={"writer": writer}))


def test_of_a_cut_another_one_speaks_or_none_where_nothing_is_cut_any_more():
    as_of = ExpectationResult(expectation=AS_OF, status="fail")
    cut = replace(RECORD, policy_values={"strategy.granularity": "record"})
    for later, agrees in ((replace(cut, instant="20260101121000000"), passing(as_of)), (LATER, COMPARED)):
        store, state = MemoryApplyStates(), replace(STATE, last_compaction=cut)
        assert by_hand(store, "data", COMPARED, as_of, state=state)
        not_compared = as_of.model_copy(update={"status": "warn"})
        assert by_hand(store, "data", COMPARED, not_compared, state=state)
        after = with_instant_at(replace(STATE, last_compaction=later), LATER.completed)
        assert not by_hand(store, "data", COMPARED, agrees, state=after, claim=Claim(2_000, CLAIM.seen_until))


def compared_until(until_ms):
    return COMPARED.model_copy(update={"observed": {"threshold_ms": until_ms}})


def test_rows_after_the_threshold_were_not_compared():
    """Without a compaction by etc late data or a longer latency set the claim back."""
    store, state = MemoryApplyStates(), replace(STATE, last_compaction=None)
    assert by_hand(store, "data", LACKED, state=state)
    assert by_hand(store, "data", compared_until(999), state=state, claim=Claim(999, CLAIM.seen_until))
    assert not by_hand(store, "data", compared_until(1_000), state=state, claim=Claim(1_000, CLAIM.seen_until))


@pytest.mark.parametrize("status", ["fail", "error"])
def test_a_verification_that_is_killed_hides_none_that_did_not_pass(status):
    store = MemoryApplyStates()
    ended = Verification(level="metadata", status=status, threshold_ms=1_000)
    note_verdict(POLICY, STATE, store, ended, "metadata", CLAIM)
    begin_proof(POLICY, beside_the_table(store), store)
    assert [one.verification for one in store.read("/t").unproven] == [status]
    assert doubts(store)[0]


def test_what_is_kept_of_a_hint_names_no_path_of_this_machine():
    error = EngineError("ETC332", "no expectation could be checked", hint=install_hint("local"))
    store = MemoryApplyStates()
    note_verdict(POLICY, STATE, store, broken_verification("data", 1_000, error), "data", CLAIM)
    (doubt,) = store.read("/t").unproven
    assert sys.executable not in doubt.why
    assert "run `python -m pip install" in doubt.why


@pytest.mark.parametrize("status", ["fail", "error"])
def test_a_suite_may_compare_rows_beyond_what_is_claimed(status):
    """What RO lacks there is in doubt until somebody has looked there again."""
    store, further = MemoryApplyStates(), LACKED.model_copy(update={"observed": {"threshold_ms": 1_500}})
    broken = LAGS.model_copy(update={"status": "error"})
    verdict = Verification(level="data", status=status, threshold_ms=1_000, expectations=(further, broken))
    note_verdict(POLICY, STATE, store, verdict, "data", Claim(1_000, CLAIM.seen_until))
    assert by_hand(store, "data", compared_until(1_499), claim=Claim(1_000, CLAIM.seen_until))
    assert not by_hand(store, "data", compared_until(1_500), claim=Claim(1_000, CLAIM.seen_until))


def test_rows_outside_of_a_window_or_a_condition_were_not_compared():
    whole, part = None, Coverage(file_groups=9, file_groups_read=9)
    first, later, eu = (part.model_copy(update=one) for one in ({"since_ms": 500}, {"since_ms": 600}, {"where": "eu"}))
    for found, misses, sees in ((first, later, first), (eu, first, eu), (whole, first, whole), (first, eu, whole)):
        store = MemoryApplyStates()
        assert by_hand(store, "data", LACKED, coverage=found)
        assert by_hand(store, "data", COMPARED, coverage=misses)
        assert not by_hand(store, "data", COMPARED, coverage=sees)


def test_a_sample_of_other_file_groups_by_the_same_seed_saw_other_rows():
    """Groups that come may push others out of a share."""
    policy = at_level("sample", sample=Sample(share=0.1, seed=1))
    few, more = (
        state_of("/t", {"slices": {f"p/f{number}": {"base": "08:00:00"} for number in range(count)}})
        for count in (5, 40)
    )
    part = Coverage(file_groups=5, file_groups_read=1, seed=1)
    for state, is_left in ((more, True), (few, False)):
        store = MemoryApplyStates()
        assert by_hand(store, "sample", LACKED, state=few, policy=policy, coverage=part)
        assert by_hand(store, "sample", COMPARED, state=state, policy=policy, coverage=part) == is_left


def test_what_was_found_twice_is_taken_back_by_what_sees_both():
    store, part = MemoryApplyStates(), Coverage(file_groups=9, file_groups_read=9, since_ms=500)
    assert by_hand(store, "data", LACKED, coverage=part)
    assert by_hand(store, "data", COMPARED, TWICE, coverage=part.model_copy(update={"since_ms": 600}))
    assert by_hand(store, "data", COMPARED, passing(TWICE), coverage=part.model_copy(update={"since_ms": 501}))
    assert not by_hand(store, "data", COMPARED, passing(TWICE), coverage=part)


@pytest.mark.parametrize(("since_ms", "until_ms"), [(400, 400), (900, 500), (None, None)])
def test_a_window_opens_for_what_is_in_doubt(since_ms, until_ms):
    """Else nothing would ever take it back."""
    store = MemoryApplyStates()
    part = None if since_ms is None else Coverage(file_groups=9, file_groups_read=9, since_ms=500)
    by_hand(store, "data", LACKED, coverage=part)
    state = beside_the_table(store)
    assert look_back_to(POLICY, state, since_ms or 900) == until_ms
    assert look_back_to(OTHER, state, 900) is None
    assert look_back_to(POLICY, STATE, 900) == 900
    assert look_back_to(POLICY, differing(p=9)[1], 900) is None


def test_by_another_event_time_rows_may_be_of_any_time_until_they_were_found():
    store, state = MemoryApplyStates(), with_instant_at(replace(STATE, last_compaction=None), "19700101000003000")
    assert by_hand(store, "data", LACKED, state=state)
    for until_ms, is_left in ((2_999, True), (3_999, False)):
        claim = Claim(until_ms, CLAIM.seen_until)
        assert by_hand(store, "data", compared_until(until_ms), state=state, policy=OTHER, claim=claim) == is_left
    assert by_hand(store, "logs", AGREES, state=state)


def test_what_was_found_since_a_table_was_read_is_not_taken_back():
    """Of two verifications at a time the one that began before may end after the other, and has seen less."""
    store = MemoryApplyStates()
    assert by_hand(store, "data", LACKED)
    note_verdict(POLICY, STATE, store, AGREEING, "data", CLAIM)
    assert doubts(store) == [True, True]
    assert not is_proven(POLICY, STATE, store.read("/t"))
    assert not by_hand(store, "data", COMPARED)


def test_nor_for_a_suite_that_does_not_ask():
    store, asks_else = MemoryApplyStates(), AGREES.model_copy(update={"expectation": "expect_no_key_twice"})
    note_verdict(POLICY, STATE, store, MISSING, "data", CLAIM)
    passed = AGREEING.model_copy(update={"expectations": (AGREES, asks_else)})
    note_verdict(POLICY, STATE, store, passed, "data", CLAIM)
    assert doubt(store)


@pytest.mark.parametrize(("up_to_ms", "is_doubted"), [(1_000, True), (999, True), (1_001, False)])
def test_rows_that_ro_lacks_break_its_promise_though_the_suite_only_warns(up_to_ms, is_doubted):
    found = LACKED.model_copy(update={"status": "warn", "observed": {"threshold_ms": up_to_ms}})
    kept = noted(AGREES, found, status="warn")
    assert is_proven(POLICY, STATE, kept) != is_doubted
    assert not is_doubted or kept.unproven[0].why.startswith("its verification failed")
    assert [one.level for one in kept.proofs.of] == ([] if is_doubted else ["metadata"])


@pytest.mark.parametrize(
    ("declared", "wanted", "level"),
    [("data", None, "logs"), ("data", "logs", "logs"), ("data", "data", "data"), ("metadata", None, "metadata")],
)
def test_where_nothing_is_due_freshness_says_how_much_is_proved(declared, wanted, level):
    """With `proof: data` runs with nothing due looked at log files alone, and the lag grew for ever."""
    freshness = Freshness(target_ms=1, proof=wanted)
    policy = POLICY.model_copy(update={"verify": Verify(level=declared), "freshness": freshness})
    store = MemoryApplyStates()
    passed = Verification(level=declared, status="pass", threshold_ms=1_000, expectations=(AGREES,))
    note_verdict(policy, STATE, store, passed, declared, CLAIM)
    for is_idle, expected in ((True, level), (False, declared)):
        assert level_to_prove(policy, beside_the_table(store), is_idle=is_idle) == expected


def test_what_was_kept_of_a_wrong_completion_time_hides_no_later_failure():
    """Its commit was hours ahead until it was set right; then another compaction failed."""
    store = MemoryApplyStates()
    judge(store, replace(RECORD, completed="20260101210001000"), "fail")
    state = with_instant_at(AFTERWARDS, LATER.completed)
    right = Instant(RECORD.instant, "commit", "completed", RECORD.completed)
    found = Verification(level="data", status="fail", threshold_ms=2_000, expectations=(LACKS,))
    read = replace(state, instants=(*state.instants, right))
    note_verdict(POLICY, read, store, found, "data", Claim(LATER.threshold_ms, CLAIM.seen_until))
    assert store["/t"].unproven[0].compaction.startswith(LATER.instant)


def test_a_plan_of_another_column_that_is_finished_later_claims_nothing_in_the_new_one():
    values = {"event_time_column.column": "other", "event_time_column.trust_commit_metadata": "true"}
    record = replace(RECORD, policy_values=values)
    state = replace(STATE, last_compaction=record)
    of_plan = {"threshold_ms": record.threshold_ms, "instant": record.instant}
    done = TableResult(policy="t", base_path="/t", status="resumed", **of_plan, **timed(0, 1))
    assert claim_for(POLICY, done, None, state, history_of(), 5_000) == claim_of(POLICY, state, 5_000)
    assert claim_for(POLICY, done, None, STATE, history_of(), 5_000) == Claim(RECORD.threshold_ms, RECORD.instant)


def compare(store, verification, policy):
    """Note what a comparison of the rows found by a policy."""
    begin_proof(policy, beside_the_table(store), store)
    note_verdict(policy, beside_the_table(store), store, verification, "data", CLAIM)


def doubts(store):
    """Whether the table is in doubt by the one event-time column, and by the other."""
    return [bool(doubt(store, policy=policy)) for policy in (POLICY, OTHER)]


def test_rows_that_are_missing_by_one_event_time_are_not_taken_back_by_another():
    """Of two policies of one table, or of one whose event-time column was changed and changed back."""
    store = MemoryApplyStates()
    compare(store, MISSING, POLICY)
    assert doubts(store) == [True, True]
    compare(store, AGREEING, OTHER)
    assert doubts(store) == [True, False]
    assert not is_proven(POLICY, STATE, store.read("/t"))
    assert verdict_beside(POLICY, beside_the_table(store)).status == "fail"
    compare(store, MISSING, OTHER)
    assert doubts(store) == [True, True]
    compare(store, AGREEING, POLICY)
    assert doubts(store) == [False, True]
    compare(store, AGREEING, OTHER)
    assert doubts(store) == [False, False]
    assert store.read("/t").unproven == ()


def test_the_catalog_is_told_so_before_etc_has_compacted_by_that_event_time_too():
    store, record = MemoryApplyStates(), replace(RECORD, policy_values={"event_time_column.column": "other"})
    state = replace(STATE, last_compaction=record)
    note_verdict(POLICY, state, store, MISSING, "data", CLAIM)
    state = beside_the_table(store, state)
    assert (promise_of(POLICY, state), verdict_beside(POLICY, state).status) == (None, "fail")
    unknown, weaker = unreadable(POLICY, "in doubt"), Verdict("warn", "logs", 1_000, None, "2026-01-01T12:00:00.000Z")
    assert ro_properties(POLICY, state, unknown, weaker, {}, verdict_beside(POLICY, state))[STATUS] == "failed"


def test_a_verification_of_another_event_time_that_could_not_be_done_hides_no_failure():
    store = MemoryApplyStates()
    compare(store, MISSING, POLICY)
    compare(store, Verification(level="data", status="error", threshold_ms=None, expectations=()), OTHER)
    assert verdict_beside(POLICY, beside_the_table(store)).status == "fail"
    assert doubts(store) == [True, True]


def test_which_times_are_believed_changes_nothing_about_missing_rows():
    store = MemoryApplyStates()
    compare(store, MISSING, POLICY)
    trusting = POLICY.event_time.model_copy(
        update={"trust_commit_metadata": not POLICY.event_time.trust_commit_metadata}
    )
    compare(store, AGREEING, POLICY.model_copy(update={"event_time": trusting}))
    assert doubts(store) == [False, False]


@pytest.mark.parametrize(("late_rows", "seen_until"), [(0, "20260101120001000"), (3, CLAIM.seen_until)])
def test_what_came_late_and_is_not_in_ro_was_not_seen(late_rows, seen_until):
    """A stock compaction may have merged it since, and lost it."""
    store, state = MemoryApplyStates(), with_instant_at(STATE, RECORD.completed)
    read = ExpectationResult(expectation=LOGS, status="pass", observed={"log_files_unproven": 0})
    passed = AGREEING.model_copy(update={"expectations": (COMPARED, read), "late_rows": late_rows})
    note_verdict(POLICY, state, store, passed, "data", CLAIM)
    assert [(one.level, one.seen_until) for one in store.read("/t").proofs.of] == [("data", seen_until)]


@pytest.mark.parametrize("seen_until", [CLAIM.seen_until, "20260101130000000"])
def test_what_was_found_of_a_write_is_taken_back_by_no_verification_to_which_it_was_late(seen_until):
    """A comparison of partitions goes by the last write, a normal one by what the compaction had seen."""
    store, state = MemoryApplyStates(), with_instant_at(STATE, seen_until)
    note_verdict(POLICY, state, store, MISSING, "data", replace(CLAIM, seen_until=seen_until))
    note_verdict(POLICY, beside_the_table(store, state), store, AGREEING, "data", CLAIM)
    assert bool(store["/t"].unproven) == (seen_until > CLAIM.seen_until)


@pytest.mark.parametrize(("began", "is_doubted"), [("20260101125900000", True), ("20260101130100000", False)])
def test_nor_by_one_beside_a_write_in_flight_that_hides_it(began, is_doubted):
    """Rows are compared as of right before it; its writer may have noted it after the other was read."""
    seen_until = "20260101130000000"
    store, state, claim = MemoryApplyStates(), with_instant_at(STATE, seen_until), replace(CLAIM, seen_until=seen_until)
    note_verdict(POLICY, state, store, MISSING, "data", claim)
    beside = replace(state, instants=(*state.instants, Instant(began, "deltacommit", "inflight")))
    note_verdict(POLICY, beside_the_table(store, beside), store, AGREEING, "data", claim)
    assert bool(store["/t"].unproven) == is_doubted


@pytest.mark.parametrize(("level", "seen_until"), [("data", "20260101120000999"), ("logs", "20260101150001000")])
def test_rows_of_files_that_a_write_in_flight_hides_were_not_seen(level, seen_until):
    """Both views are read as of right before it, log files as they are."""
    began, completed = "20260101120001000", "20260101150001000"
    in_flight, state = Instant(began, "deltacommit", "inflight"), with_instant_at(STATE, completed)
    state, store = replace(state, instants=(*state.instants, in_flight)), MemoryApplyStates()
    read = ExpectationResult(expectation=LOGS, status="pass", observed={"log_files_unproven": 0})
    passed = AGREEING.model_copy(update={"level": level, "expectations": (COMPARED, read)})
    note_verdict(POLICY, state, store, passed, level, CLAIM)
    (proof,) = store.read("/t").proofs.of
    assert (proof.level, proof.seen_until, proof.open_since) == (level, seen_until, began)


def test_a_log_file_that_was_found_misrecorded_since_a_table_was_read_stays_so():
    """It may have come since."""
    store, one = MemoryApplyStates(), Misrecorded("p/.f.log.1", 9, 2, 1, "")
    store.update("/t", lambda kept: replace(kept, misrecorded=(one,)))
    read = replace(STATE, witnesses=())
    note_misrecorded(POLICY, beside_the_table(store, read), store)
    assert store.read("/t").misrecorded == ()
    store.update("/t", lambda kept: replace(kept, misrecorded=(one,)))
    assert after_log_reading(store.read("/t"), POLICY, read).misrecorded == (one,)


TWO_PARTITIONS = state_of("/t", {"slices": {"p/f1": {"base": "08:00:00"}, "q/f2": {"base": "08:00:00"}}})


def differing(**ends):
    """What is kept where rows of partitions were found to differ, each up to an end, and the table as it is read then."""
    rows = Looked(level="data", until_ms=max(ends.values()) - 1, ends=ends)
    kept = after_difference(ApplyState(compared={"p": "rows"}), POLICY, TWO_PARTITIONS, "rows", rows)
    return kept, replace(TWO_PARTITIONS, apply_state=kept)


def test_partitions_that_were_found_to_differ_since_a_table_was_read_differ():
    kept, state = differing(p=9)
    assert kept.compared == {"p": ""}
    assert after_comparison(kept, POLICY, TWO_PARTITIONS, {"p": "rows"}, {"p": 9}).unproven == kept.unproven
    after = after_comparison(kept, POLICY, state, {"p": "rows"}, {"p": 9})
    assert (after.compared, after.unproven) == ({"p": "rows"}, ())


@pytest.mark.parametrize(
    ("policy", "ends", "left"),
    [
        (POLICY, {"p": 9, "q": 9}, []),
        (POLICY, {"p": 9}, [{"q": 8}]),
        (POLICY, {"p": 8, "q": 8}, [{"p": 9}]),
        (OTHER, {"p": 9, "q": 9}, [{"p": 9, "q": 8}]),
    ],
)
def test_partitions_that_differ_do_so_until_they_agree_as_far_and_by_the_same_event_time(policy, ends, left):
    """`partition_time` may end them earlier by now, and another column says less of the same rows."""
    kept, state = differing(p=9, q=8)
    after = after_comparison(kept, policy, state, dict.fromkeys(ends, "rows"), ends)
    assert [one.rows.ends for one in after.unproven] == left
    again = after_comparison(after, POLICY, replace(state, apply_state=after), {"p": "rows"}, {"p": 9})
    assert [one.rows.ends for one in again.unproven] == ([{"q": 8}] if any("q" in one for one in left) else [])


def test_partitions_that_are_gone_are_in_no_doubt():
    kept, state = differing(p=9, gone=9)
    assert after_comparison(kept, POLICY, state, {}, {}).unproven[0].rows.ends == {"p": 9}


def test_log_files_are_misrecorded_in_their_event_time_only():
    case = Path(__file__).parents[2] / "golden" / "plans" / "a_slice_beyond_the_budget"
    ((_, state, *_),) = inputs_of_case(case)
    file_slice, log_file = next(iter(state.log_files))
    witness = LogWitness(path_of(file_slice, log_file), log_file.size_bytes, recorded_ms=9_000, found_ms=1_000)
    store = MemoryApplyStates()
    note_misrecorded(POLICY, replace(state, witnesses=(witness,)), store)
    kept = store.read(state.base_path).misrecorded
    assert [len(of_event_time(kept, one.event_time, state)) for one in (POLICY, OTHER)] == [1, 0]
    note_misrecorded(OTHER, replace(state, witnesses=(), apply_state=store.read(state.base_path)), store)
    assert of_event_time(store.read(state.base_path).misrecorded, POLICY.event_time, state) == kept
