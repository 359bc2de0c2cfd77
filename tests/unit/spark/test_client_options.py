"""The client mirrors the table: one with default settings drops indexes, or builds a metadata table.

See facts: client-mirrors-table.
"""

import pytest

from etc_policy.policy.hudi_options import OPERATION_OPTION, option_fault
from etc_policy.policy.manifest import EventTime, Policy, Writer
from etc_policy.run.ports import Job
from etc_policy.spark.client_options import client_options, lock_config, lock_options, merge_options

INDEXES = {
    "column_stats": "hoodie.metadata.index.column.stats.enable",
    "partition_stats": "hoodie.metadata.index.partition.stats.enable",
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "record_index": "hoodie.metadata.record.index.enable",
}


def options(*metadata_partitions, version=9, **policy):
    told = Policy(name="a", table="/t", event_time=EventTime(column="ts"), data_latency_ms=1, **policy)
    return client_options(Job(told, "/t", version, metadata_partitions, "20260101000000000"))


def test_a_table_without_metadata_table_gets_none():
    found = options()
    assert found["hoodie.metadata.enable"] == "false"
    assert {found[option] for option in INDEXES.values()} == {"false"}


@pytest.mark.parametrize("index", INDEXES)
def test_exactly_the_indexes_of_the_table_are_on(index):
    found = options("files", index)
    assert found["hoodie.metadata.enable"] == "true"
    assert {name for name, option in INDEXES.items() if found[option] == "true"} == {index}


@pytest.mark.parametrize(
    ("index", "is_on"),
    [("secondary_index_v", True), ("expr_index_ts", True), ("func_index_ts", True), ("record_index", False)],
)
def test_the_timeline_server_runs_for_indexes_that_ask_it(index, is_on):
    assert options("files", index)["hoodie.embed.timeline.server"] == str(is_on).lower()


def test_no_server_of_markers_removes_folders_for_others():
    """Whoever reaches its port could name the folder (facts: timeline-server-needed)."""
    assert options("files", "secondary_index_v")["hoodie.write.markers.type"] == "DIRECT"


def test_rows_are_merged_whatever_readers_are_set_to():
    found = options(hudi_options={"hoodie.datasource.merge.type": "skip_merge"})
    assert found["hoodie.datasource.merge.type"] == "payload_combine"


def test_rows_carry_their_operation_where_the_tables_log_files_do():
    """See facts: changelog-mode."""
    policy, option = (
        Policy(name="a", table="/t", event_time=EventTime(column="ts"), data_latency_ms=1),
        OPERATION_OPTION,
    )
    jobs = [Job(policy, "/t", 6, (), "20260101000000000", in_changelog_mode=mode) for mode in (True, False)]
    assert [client_options(job).get(option) for job in jobs] == ["true", None]
    assert option_fault(option) is not None


@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_table_keeps_its_version(version):
    found = options(version=version)
    assert (found["hoodie.write.table.version"], found["hoodie.write.auto.upgrade"]) == (str(version), "false")


def test_options_of_the_policy_are_passed_but_cannot_change_the_table():
    given = {"hoodie.parquet.max.file.size": "1", "hoodie.metadata.enable": "true", "hoodie.clean.automatic": "true"}
    found = options(hudi_options={**given, "hoodie.metadata.auto.delete.partitions": "true"})
    assert found["hoodie.parquet.max.file.size"] == "1"
    assert (found["hoodie.metadata.enable"], found["hoodie.clean.automatic"]) == ("false", "false")
    assert found["hoodie.metadata.auto.delete.partitions"] == "false"


def test_what_mirrors_the_table_is_merged_last():
    """Also where the lock's settings come in, whatever they hold."""
    lock = {"hoodie.metadata.enable": "false", "hoodie.clean.automatic": "true", "hoodie.write.lock.x": "y"}
    policy = Policy(
        name="a", table="/t", event_time=EventTime(column="ts"), data_latency_ms=1, writer=Writer(lock=lock)
    )
    found = lock_config(Job(policy, "/t", 9, ("files",), "20260101000000000"))
    assert (found["hoodie.metadata.enable"], found["hoodie.clean.automatic"]) == ("true", "false")
    assert found["hoodie.write.lock.x"] == "y"
    assert "hoodie.write.lock.provider" not in found


def test_heartbeats_are_on_and_ours_alone_decide():
    found = options(hudi_options={"hoodie.client.heartbeat.interval_in_ms": "1"})
    assert found["hoodie.write.concurrency.mode"] == "optimistic_concurrency_control"
    assert found["hoodie.clean.failed.writes.policy"] == "LAZY"
    assert found["hoodie.cleaner.policy.failed.writes"] == "LAZY"


def test_hudi_never_commits_by_itself():
    """Before 1.1 the option is read by `compact`, which would commit without the table's lock, the fence and what is promised."""
    assert options(hudi_options={"hoodie.auto.commit": "true"})["hoodie.auto.commit"] == "false"
    assert all(option_fault(name) for name in ("hoodie.auto.commit", "hoodie.cleaner.policy.failed.writes"))


def test_heartbeats_of_a_policy_are_not_taken():
    found = options(hudi_options={"hoodie.client.heartbeat.interval_in_ms": "1"})
    assert found["hoodie.client.heartbeat.interval_in_ms"] != "1"


def test_the_client_leaves_the_tables_lock_to_its_caller():
    """It would take it a second time, and stock Hudi removes a lock that it has waited for in vain.

    See facts: client-lock-in-process.
    """
    for lock in ({}, {"hoodie.write.lock.provider": "zookeeper"}):
        assert options(writer=Writer(lock=lock))["hoodie.write.lock.provider"].endswith(".InProcessLockProvider")


@pytest.mark.parametrize(
    ("provider", "wait_ms", "retries"),
    [("ZookeeperBasedLockProvider", "90000", "0"), ("HiveMetastoreBasedLockProvider", "1000", "90")],
)
def test_hudis_own_waiting_for_a_lock_is_bounded(provider, wait_ms, retries):
    lock = {"hoodie.write.lock.provider": provider, "hoodie.write.lock.num_retries": "7"}
    found = lock_options(Writer(lock=lock, lock_wait_ms=90_000))
    assert found == {
        "hoodie.write.lock.provider": provider,
        "hoodie.write.lock.wait_time_ms": wait_ms,
        "hoodie.write.lock.client.num_retries": retries,
        "hoodie.write.lock.client.wait_time_ms_between_retry": "1000",
        "hoodie.write.lock.num_retries": "7",
    }


def test_rows_are_merged_by_the_ordering_field_of_the_table():
    assert merge_options(("seq",)) == {
        "hoodie.payload.ordering.field": "seq",
        "hoodie.datasource.write.precombine.field": "seq",
    }
    assert merge_options(()) == merge_options(("a", "b")) == {}
