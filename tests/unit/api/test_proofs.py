"""What a verdict means for the compaction that it is about."""

import pytest

from etc_policy.api.proofs import begin_proof, is_proven, note_verdict
from etc_policy.compile.manifest import EventTime, Policy
from etc_policy.plan.table_state import CompactionRecord
from etc_policy.verify.evidence import Claim
from etc_policy.verify.metadata_checks import COMPACTED
from etc_policy.verify.ports import ExpectationResult, Verification
from tests.fakes import MemoryOfTables

POLICY = Policy(name="t", table="/t", event_time=EventTime(column="ts", unit="ms"), data_latency_ms=0)
RECORD = CompactionRecord("20260101120000000", "20260101120001000", 1_000, "t", "plan")
CLAIM = Claim(1_000, "20260101115900000")
LAGS = ExpectationResult(expectation="expect_freshness_within", status="fail", message="RO lags 9d behind now")
UNKNOWN = LAGS.model_copy(update={"status": "error", "message": "how far RO is complete is not known"})
AGREES = ExpectationResult(expectation=COMPACTED, status="pass")
LACKS = ExpectationResult(expectation=COMPACTED, status="fail")


def noted(*found: ExpectationResult, status: str):
    """What is kept after a verification with these results."""
    memory = MemoryOfTables()
    begin_proof(POLICY, RECORD, memory)
    verification = Verification(level="metadata", status=status, threshold_ms=1_000, expectations=found)
    note_verdict(POLICY, RECORD, memory, verification, POLICY.verify.level, CLAIM)
    return memory


def test_a_lag_beyond_its_limit_disproves_nothing():
    """The compaction holds what it promised; it is only old."""
    memory = noted(AGREES, LAGS, status="fail")
    assert is_proven(POLICY, RECORD, memory)
    assert [[one.until_ms for one in proofs] for proofs in memory.proved.values()] == [[1_000]]


@pytest.mark.parametrize(
    ("found", "status"),
    [((LACKS,), "fail"), ((LACKS, LAGS), "fail"), ((AGREES, UNKNOWN), "error"), ((UNKNOWN, LAGS), "error")],
)
def test_whatever_else_did_not_pass_leaves_it_unproven(found, status):
    memory = noted(*found, status=status)
    assert not is_proven(POLICY, RECORD, memory)
    assert memory.unproven("/t").why.startswith("its verification ")
    assert not any(memory.proved.values())
