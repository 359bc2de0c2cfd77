"""A table in a bucket, or on HDFS, is read as the same table on local disk."""

import json
import time
from dataclasses import replace

import pytest

from etc_policy.errors import EtcError
from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader, read_compactions
from etc_policy.plan.builder import build_table_plan
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.storage.object_cache import MemoryCache
from etc_policy.storage.open_storage import use_storage_settings
from tests.faulty_proxy import faulty_proxy
from tests.property.test_cut_short import EVENT_MS, NOON_MS, lived_in
from tests.unit.hudi import log_file
from tests.unit.hudi.table_folder import TableFolder, at, base, log

EVENT_TIME = EventTime(column="ts", unit="ms")
POLICY = Policy(name="orders_ro", table="/t", event_time=EVENT_TIME, data_latency_ms=1_800_000)


@pytest.fixture
def copied(s3_server):
    """Copies a local table into a new bucket."""
    use_storage_settings(StorageSettings(endpoint=s3_server.endpoint))
    bucket = s3_server.make_bucket()
    return lambda table: s3_server.upload(table.base, bucket, "lake/orders")


def readings(location, policy=POLICY, cache=None):
    state, history = FileTableReader(cache).read_with_history(location, policy.event_time, archived=None)[:2]
    state = fill_from_logs(state, policy, cache)
    plan = build_table_plan(policy, state, now_ms=NOON_MS, clock_ms=NOON_MS)
    said = json.loads(plan.model_dump_json().replace(str(location), "LOCATION"))
    compactions = replace(read_compactions(location), base_path="")
    return replace(state, base_path=""), replace(history, base_path=""), compactions, said


@pytest.mark.parametrize(("version", "pending"), [(9, False), (8, True), (6, False)])
def test_state_history_and_plan_are_the_same(tmp_path, copied, version, pending):
    table = lived_in(tmp_path / "t", version=version, pending=pending)
    assert readings(copied(table)) == readings(str(table.base))


@pytest.mark.parametrize(("version", "pending"), [(9, False), (6, False)])
def test_and_on_hdfs(tmp_path, hdfs_cluster, version, pending):
    table = lived_in(tmp_path / "t", version=version, pending=pending)
    location = hdfs_cluster.upload(table.base, hdfs_cluster.new_folder())
    assert readings(location) == readings(str(table.base))


def test_partitions_of_any_depth_are_found(tmp_path, copied):
    table = TableFolder(tmp_path / "t")
    places = ("a=1/b=10%3A00", "a=1/b=2", "c", "d e/ü", ".net", "c/.d")
    written = [base(f"f{n}", partition=place) for n, place in enumerate(places)]
    table.commit(at("10:00:00"), at("10:00:01"), *written, base("f9", partition=""))
    found = readings(copied(table))
    assert found == readings(str(table.base))
    assert {one.partition for one in found[0].slices} == {"", *(file.partition for file in written)}


def with_unknown_times(folder):
    """A table whose commits say nothing of event times: they are in the log files' own blocks."""
    table = TableFolder(folder)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    for number in range(1, 5):
        content = log_file.avro([EVENT_MS + number, EVENT_MS], ts="long")
        written = log("f1", None, size=len(content))
        instant = at(f"10:0{number}:00")
        table.commit(instant, at(f"10:0{number}:01"), written)
        (table.base / "p" / written.name(instant)).write_bytes(content)
    return table


def test_log_files_are_read_with_one_request_each_and_one_for_their_form(tmp_path, s3_server, copied):
    table = with_unknown_times(tmp_path / "t")
    location = copied(table)
    with faulty_proxy(s3_server.endpoint) as proxy:
        use_storage_settings(StorageSettings(endpoint=proxy.endpoint))
        found = readings(location)
        logs = [path for method, path in proxy.requests if method == "GET" and ".log." in path]
    assert found == readings(str(table.base))
    assert {file.min_event_time_ms for _, file in found[0].log_files} == {EVENT_MS}
    assert len(logs) == 8


def test_what_a_log_file_shows_of_its_writer_is_looked_at_once(tmp_path, s3_server, copied):
    """Where commits have event times no other request asks for a log file."""
    columns = ("id", "ts", "_hoodie_operation")
    table, cache = TableFolder(tmp_path / "t"), MemoryCache()
    table.commit(
        at("10:00:00"), at("10:00:01"), log("f1", EVENT_MS, columns=columns), log("f2", EVENT_MS, columns=columns)
    )
    with faulty_proxy(s3_server.endpoint) as proxy:
        location = copied(table)
        use_storage_settings(StorageSettings(endpoint=proxy.endpoint))
        modes = [FileTableReader(cache).read(location, EVENT_TIME).in_changelog_mode for _ in range(2)]
        assert modes == [True, True]
        assert sum(method == "GET" and ".log." in path for method, path in proxy.requests) == 1


def test_a_log_file_is_read_once_and_again_where_its_object_was_replaced(tmp_path, s3_server, copied):
    table, cache = with_unknown_times(tmp_path / "t"), MemoryCache()
    location = copied(table)
    with faulty_proxy(s3_server.endpoint) as proxy:
        use_storage_settings(StorageSettings(endpoint=proxy.endpoint))

        def read():
            proxy.requests.clear()
            times = [file.min_event_time_ms for _, file in readings(location, cache=cache)[0].log_files]
            return times, len([path for method, path in proxy.requests if method == "GET" and ".log." in path])

        assert [read(), read()] == [([EVENT_MS] * 4, 8), ([EVENT_MS] * 4, 0)]
        replaced = next((table.base / "p").glob("*.log.*"))
        replaced.write_bytes(b"x" * replaced.stat().st_size)
        s3_server.upload(table.base, location.split("/")[2], "lake/orders")
        times, requests = read()
        assert (sorted(map(str, times)).count("None"), requests) == (1, 1)


def test_a_write_that_ends_while_the_timeline_is_listed_has_its_files(tmp_path, s3_server):
    """Folders that were listed before it ended lack them: they look lost, or rows are passed over."""
    table, bucket = TableFolder(tmp_path / "t"), s3_server.make_bucket()
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    location, written = s3_server.upload(table.base, bucket, "lake/orders"), []
    with faulty_proxy(s3_server.endpoint) as proxy:

        def write_meanwhile(_, path):
            if "timeline" in path and "list-type" in path and not written:
                written.append(path)
                time.sleep(0.5)
                table.commit(at("10:05:00"), at("10:05:01"), log("f1", EVENT_MS))
                s3_server.upload(table.base, bucket, "lake/orders")
            return ""

        proxy.spoil = write_meanwhile
        use_storage_settings(StorageSettings(endpoint=proxy.endpoint))
        found, plan = readings(location)[::3]
    assert (len(found.instants), found.missing_files, len(list(found.log_files))) == (2, (), 1)
    assert plan["action"] == "compact"


def test_a_store_that_breaks_off_among_log_files_is_an_error_in_time(tmp_path, s3_server, copied):
    """Else each of many log files would be waited for, and count as unknown."""
    location = copied(with_unknown_times(tmp_path / "t"))
    with faulty_proxy(s3_server.endpoint) as proxy:
        use_storage_settings(StorageSettings(endpoint=proxy.endpoint, timeout="1s"))
        proxy.spoil = lambda method, path: "cut before" if ".log." in path else ""
        began = time.monotonic()
        with pytest.raises(EtcError, match="does not answer"):
            readings(location)
    assert time.monotonic() - began < 30


def test_an_archive_that_is_not_reached_is_not_a_damaged_one(tmp_path, s3_server, copied):
    location = copied(lived_in(tmp_path / "t", version=9))
    with faulty_proxy(s3_server.endpoint) as proxy:
        use_storage_settings(StorageSettings(endpoint=proxy.endpoint, timeout="1s"))
        proxy.spoil = lambda method, path: "busy" if path.endswith(".parquet") and "/history/" in path else ""
        with pytest.raises(EtcError) as found:
            readings(location)
    assert found.value.code == "ETC450"
