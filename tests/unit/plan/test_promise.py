"""After the event-time column of a policy was changed, its table promises nothing in the new one yet."""

from dataclasses import replace

import pytest

from etc_policy.policy.manifest import EventTime, event_time_values, policy_values
from etc_policy.report.freshness import table_freshness
from etc_policy.report.sync import INSTANT, STATUS, THRESHOLD, VERIFIED_AT, VERIFIED_LEVEL, ro_properties
from etc_policy.table.history import promise_of, promises_in
from etc_policy.table.state import CompactionRecord
from etc_policy.verify.evidence import Evidence
from etc_policy.verify.late_data import late_data
from etc_policy.verify.metadata_checks import prove_compacted
from etc_policy.verify.prover import claim_of
from tests.past import history_of
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of
from tests.unit.plan.states import NOW, POLICY
from tests.unit.verify.test_late_data import write

T = epoch_ms("10:00:00")
COLUMN = EventTime(column="placed_at", unit="ms")
TABLE = {"slices": {"p/f1": {"base": "11:00:00", "logs": {"L1": "10:50:00 > 11:00:01, event 07:00:00"}}}}


def policy_with(event_time):
    return POLICY.model_copy(update={"event_time": event_time})


def record_of(policy):
    seen, values = instant("11:00:02"), policy_values(policy)
    return CompactionRecord(instant("11:00:00"), instant("11:00:05"), T, policy.name, "x", seen, values)


NEW = policy_with(COLUMN)
OTHERS = [
    policy_with(EventTime(column="processed_at", unit="ms")),
    policy_with(EventTime(column="placed_at", unit="us")),
]


@pytest.mark.parametrize("old", OTHERS, ids=["column", "unit"])
def test_a_threshold_of_another_column_is_no_promise(old):
    record = record_of(old)
    state = replace(state_of("/t", TABLE), last_compaction=record)
    history = history_of([write("11:10:00", "09:30:00")], [record])
    assert promise_of(NEW, state) is None
    assert late_data(promises_in(NEW, history)) == ()
    assert prove_compacted(Evidence(NEW, state, history, claim_of(NEW, state, NOW), NOW)).status == "pass"
    fresh = table_freshness(NEW, state, NOW, NOW, history)
    assert (fresh.threshold_ms, fresh.late_data) == (None, None)
    before = {INSTANT: record.instant, STATUS: "verified", VERIFIED_AT: "2026-01-01T11:01:00Z", VERIFIED_LEVEL: "data"}
    synced = ro_properties(NEW, state, fresh, None, before)
    assert (synced[STATUS], THRESHOLD in synced, INSTANT in synced) == ("unverified", False, False)


@pytest.mark.parametrize(
    "record",
    [
        record_of(NEW),
        record_of(policy_with(COLUMN.model_copy(update={"trust_commit_metadata": False}))),
        record_of(policy_with(COLUMN.model_copy(update={"max_ahead_ms": 60_000}))),
        replace(record_of(NEW), policy_values={}),
        record_of(NEW.model_copy(update={"data_latency_ms": 1})),
    ],
    ids=["the same", "believed otherwise", "bounded otherwise", "by an older version", "another value"],
)
def test_one_of_the_same_column_is(record):
    state = replace(state_of("/t", TABLE), last_compaction=record)
    assert promise_of(NEW, state) == record
    assert len(late_data(promises_in(NEW, history_of(runs=[record])))) == 1


@pytest.mark.parametrize("policy", [NEW, *OTHERS, policy_with(EventTime(column="e.at", format="yyyy-MM-dd"))])
def test_what_a_policy_says_of_its_column_is_what_its_compactions_record(policy):
    of_column = {key: value for key, value in policy_values(policy).items() if key.startswith("event_time_column")}
    assert event_time_values(policy.event_time) == of_column
