"""What each gauge says of a table, and that a figure which is not known has no sample."""

from etc_policy.policy.manifest import EventTime, Freshness, Policy
from etc_policy.report.freshness import table_freshness, unreadable
from etc_policy.report.metrics import GAUGES, TableObservation, table_samples
from etc_policy.report.results import TableFreshness
from etc_policy.run.results import SyncResult, TableResult
from etc_policy.table.apply_state import Proof
from etc_policy.table.partitions import PartitionFreshness, PartitionsFreshness
from etc_policy.verify.late_data import LateData
from etc_policy.verify.latency import LatencyVerdict, ObservedLatency
from etc_policy.verify.ports import Verification
from tests.unit.plan.plan_cases import state_of

POLICY = Policy(
    name="orders_ro",
    table="lake/orders",
    event_time=EventTime(column="ts"),
    data_latency_ms=600_000,
    freshness=Freshness(target_ms=1_800_000, warn_after_ms=2_400_000, error_after_ms=3_600_000),
)
FRESH = TableFreshness(
    policy="orders_ro",
    base_path="/lake/orders",
    status="warn",
    complete_until_ms=1_700_000_000_123,
    complete_until_proof=Proof(level="logs", until_ms=1_700_000_000_123, proved_at_ms=1_700_002_000_000),
    lag_seconds=2500.5,
    watermark_ms=1_700_000_000_123,
    threshold_ms=1_699_999_000_000,
    held_back_by="L1",
    last_commit_age_seconds=60.0,
    remaining_log_files=3,
    remaining_log_bytes=30_000,
    remaining_file_slices=2,
    unknown_log_files=1,
    runs_without_progress=2,
    runs_of_day=18,
    runs_of_day_without_progress=9,
    late_data=LateData(
        instant="20260101120000000",
        threshold_ms=1_699_999_000_000,
        writes=2,
        rows_at_most=70,
        complete_until_ms=1_699_998_998_500,
        regression_ms=1500,
    ),
    data_latency=LatencyVerdict(
        declared_ms=600_000,
        status="fits",
        suggested_ms=90_000,
        observed=ObservedLatency(writes=30, unknown_writes=0, since_ms=1, p50_ms=1000, p99_ms=90_000, max_ms=480_500),
    ),
    partitions=PartitionsFreshness(
        unsent={"http": 3},
        partitions=(
            PartitionFreshness(partition="h=9", status="closed", complete_until_ms=1_700_000_000_123, log_files=3),
            PartitionFreshness(partition="h=8", status="done", complete_until_ms=1_700_000_000_123, reopened=2),
            PartitionFreshness(partition="x", complete_until_ms=1_700_000_000_123),
        ),
        unparsed=1,
        unparsed_example="x",
    ),
)
RUN = TableResult(
    policy="orders_ro",
    base_path="/lake/orders",
    status="compacted",
    started_at="2026-01-01T12:00:00.000Z",
    completed_at="2026-01-01T12:00:09.500Z",
    seconds=7.5,
    step_seconds={"compact": 7.5, "verify": 2.0},
    log_files=4,
    bytes_read=500,
    bytes_written=400,
    verification=Verification(level="data", status="pass", threshold_ms=1_699_999_000_000, late_rows=6),
    sync=SyncResult(policy="orders_ro", ro_table="lake.orders_ro", status="synced"),
)


def samples(freshness, run=None, policy=POLICY):
    found = table_samples(TableObservation(policy, "prod", 1_700_002_500_623, freshness, run))
    return {(sample.gauge.name.removeprefix("etc_"), sample.extra): sample.value for sample in found}


def test_every_figure():
    found = samples(FRESH, RUN)
    states = {key: value for key, value in found.items() if key[0].endswith(("status", "_proof"))}
    assert {key for key, value in states.items() if value} == {
        ("freshness_status", "warn"),
        ("complete_until_proof", "logs"),
        ("last_run_status", "compacted"),
        ("last_run_verification_status", "pass"),
        ("last_run_sync_status", "synced"),
    }
    assert ("freshness_status", "unknown") in states
    assert ("last_run_status", "failed") in states
    assert {key: value for key, value in found.items() if key not in states} == {
        ("observed_timestamp_seconds", None): 1_700_002_500.623,
        ("table_readable", None): 1.0,
        ("complete_until_timestamp_seconds", None): 1_700_000_000.123,
        ("complete_until_proved_timestamp_seconds", None): 1_700_002_000.0,
        ("completeness_lag_seconds", None): 2500.5,
        ("freshness_target_seconds", None): 1800.0,
        ("freshness_warn_after_seconds", None): 2400.0,
        ("freshness_error_after_seconds", None): 3600.0,
        ("threshold_timestamp_seconds", None): 1_699_999_000.0,
        ("watermark_timestamp_seconds", None): 1_700_000_000.123,
        ("log_files_min_event_timestamp_seconds", None): 1_700_000_000.124,
        ("log_files", None): 3,
        ("log_files_bytes", None): 30_000,
        ("log_file_slices", None): 2,
        ("log_files_unknown", None): 1,
        ("held_back_file_slices", None): 0,
        ("runs_without_progress", None): 2,
        ("runs_of_day", None): 18,
        ("runs_of_day_without_progress", None): 9,
        ("last_commit_timestamp_seconds", None): 1_700_002_440.623,
        ("partitions", "open"): 0,
        ("partitions", "closed"): 1,
        ("partitions", "done"): 1,
        ("partitions_unparsed", None): 1,
        ("partition_reopenings", None): 2,
        ("partition_events_unsent", "http"): 3,
        ("partition_complete_until_timestamp_seconds", "h=9"): 1_700_000_000.123,
        ("late_writes", None): 2,
        ("late_rows_upper_bound", None): 70,
        ("completeness_regression_seconds", None): 1.5,
        ("data_latency_seconds", None): 600.0,
        ("observed_latency_p99_seconds", None): 90.0,
        ("observed_latency_max_seconds", None): 480.5,
        ("last_run_timestamp_seconds", None): 1_767_268_809.5,
        ("last_run_read_bytes", None): 500,
        ("last_run_written_bytes", None): 400,
        ("last_run_log_files", None): 4,
        ("last_run_duration_seconds", "compact"): 7.5,
        ("last_run_duration_seconds", "verify"): 2.0,
        ("last_run_late_rows", None): 6,
    }
    assert {gauge.name.removeprefix("etc_") for gauge in GAUGES} == {name for name, _ in found}


def test_a_table_before_its_first_commit_can_be_read():
    found = samples(table_freshness(POLICY, state_of("lake/orders", {}), 1, 1))
    assert (found["table_readable", None], found["log_files", None]) == (1, 0)
    assert found["freshness_status", "unknown"] == 1
    assert ("complete_until_timestamp_seconds", None) not in found


def test_of_too_few_writes_no_latency_is_claimed():
    few = FRESH.model_copy(
        update={"data_latency": FRESH.data_latency.model_copy(update={"status": "too_short", "suggested_ms": None})}
    )
    assert ("observed_latency_p99_seconds", None) not in samples(few)


def test_of_a_table_that_cannot_be_read_only_that_is_told():
    bare = POLICY.model_copy(update={"freshness": Freshness()})
    unread = unreadable(bare, "gone").model_copy(update={"error_code": "ETC203"})
    found = samples(unread, policy=bare)
    told = {"observed_timestamp_seconds", "table_readable", "freshness_status", "data_latency_seconds"}
    assert {name for name, _ in found} == told
    assert found["table_readable", None] == 0
    assert samples(unreadable(bare, "in doubt"), policy=bare)["table_readable", None] == 1
    assert found["freshness_status", "unknown"] == 1
    assert found["freshness_status", "pass"] == 0


def test_a_run_that_was_not_verified_claims_nothing():
    failed = RUN.model_copy(update={"status": "failed", "verification": None})
    found = samples(FRESH, failed)
    assert found["last_run_status", "failed"] == 1
    assert "last_run_verification_status" not in {name for name, _ in found}


def test_late_rows_that_were_not_counted_are_not_zero():
    run = RUN.model_copy(update={"verification": Verification(level="metadata", status="pass", threshold_ms=1)})
    assert "last_run_late_rows" not in {name for name, _ in samples(FRESH, run)}
