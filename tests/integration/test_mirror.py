"""A compaction by etc changes nothing but the data: indexes, metadata table, version and properties stay."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import time
from pathlib import Path

import pytest

from etc_policy.errors import EngineError, RetryableError
from etc_policy.gx.verifier import GxVerifier
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.run.fence import Fence
from etc_policy.spark import write_stats
from tests.encrypted_parquet import write_encrypted
from tests.integration.bench import ORACLE, SECOND, Bench
from tests.integration.history import HISTORY, QUICK, Oracle, Views, Write, write_history

pytestmark = pytest.mark.spark

INDEXED = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
TABLES = {
    "record index and bloom filters": (INDEXED, {"record_index", "bloom_filters"}, "record_index"),
    "no metadata table": ({"hoodie.metadata.enable": "false"}, set(), None),
    "version 8": ({"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}, {"files"}, None),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", TABLES)
def test_properties_stay(spark, tmp_path, name):
    options, partitions, index = TABLES[name]
    bench = Bench(spark, tmp_path / "t", index=index)
    write_history(spark, bench.base, options=options)
    state = bench.state()
    assert partitions <= set(state.metadata_partitions)
    assert bool(partitions) == bool(state.metadata_partitions)
    before = bench.properties()

    outcome = bench.apply(bench.plan())

    assert outcome.status == "compacted"
    assert bench.properties() == before
    assert bench.state().metadata_partitions == state.metadata_partitions
    views = Views(spark, bench.base)
    assert views.rt() == ORACLE.rt() == views.rust()
    expected = ORACLE.rt_up_to(SECOND)
    assert {key: views.ro().get(key) for key in expected} == expected


def apply_beside(bench, monkeypatch, act, why):
    """A run beside whose work somebody acts, and which commits nothing therefore; the next one finishes it."""
    wait = Fence.before_lock

    def act_and_wait(fence):
        act()
        wait(fence)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Fence, "before_lock", act_and_wait)
        with pytest.raises(RetryableError, match=why):
            bench.apply(bench.plan())
    assert bench.runner.finish_pending(bench.policy, bench.location).status == "resumed"


@pytest.mark.extended
def test_a_metadata_table_that_a_writer_begins_beside_the_work(spark, tmp_path, monkeypatch):
    """The client was made for a table without one, and would leave it out (facts: indexes-changed-beside)."""
    options, _, _ = TABLES["no metadata table"]
    bench, late = Bench(spark, tmp_path / "t"), Write(((1, "late", 900),))
    write_history(spark, bench.base, options=options)

    def write_beside():
        write_history(spark, bench.base, (late,), first=len(HISTORY))

    apply_beside(bench, monkeypatch, write_beside, r"its metadata table has .*files.* now, and had nothing")
    oracle, views = Oracle.of((*HISTORY, late)), bench.views()
    assert views.rt() == views.rt_without_mdt() == oracle.rt()
    expected = oracle.rt_up_to(SECOND)
    assert {key: views.ro().get(key) for key in expected} == expected


@pytest.mark.extended
def test_an_index_that_is_made_anew_of_other_columns_beside_the_work(spark, tmp_path, monkeypatch):
    """The client was made for the columns of the old one, and readers filter by those of the new one."""
    options = {**QUICK, "hoodie.metadata.index.column.stats.column.list": "id"}
    bench, late = Bench(spark, tmp_path / "t"), Write(((1, "late", 900),))
    write_history(spark, bench.base, options=options)
    dropped = {**QUICK, "hoodie.metadata.index.column.stats.enable": "false"}
    anew = {**QUICK, "hoodie.metadata.index.column.stats.column.list": "ts"}

    def make_anew():
        write_history(spark, bench.base, (late,), dropped, first=len(HISTORY))
        assert "column_stats" not in bench.state().metadata_partitions
        write_history(spark, bench.base, (late,), anew, first=len(HISTORY))

    apply_beside(bench, monkeypatch, make_anew, r"`(column|partition)_stats` in its metadata table was made anew")
    oracle, views = Oracle.of((*HISTORY, late)), bench.views()
    assert views.rt() == views.rt_without_mdt() == oracle.rt()
    assert GxVerifier(spark).wrongly_indexed(bench.state()) == ()


@pytest.mark.extended
def test_later_upserts_by_the_record_index_find_every_key(spark, tmp_path):
    options, _, index = TABLES["record index and bloom filters"]
    bench = Bench(spark, tmp_path / "t", index=index)
    write_history(spark, bench.base, options=options)
    bench.apply(bench.plan())
    write_history(spark, bench.base, HISTORY[1:4], options, first=len(HISTORY))
    assert Views(spark, bench.base).rt() == ORACLE.rt()


def test_a_way_of_reading_that_is_set_for_all_jobs_is_not_written_into_base_files(spark, written_table, tmp_path):
    """With it RT and RO got a row for each version of a key, for ever."""
    bench = Bench(spark, tmp_path / "t")
    shutil.copytree(written_table, bench.base)
    spark.sql("SET hoodie.datasource.merge.type=skip_merge")
    try:
        assert bench.apply(bench.plan()).status == "compacted"
    finally:
        spark.sql("RESET hoodie.datasource.merge.type")
    assert Views(spark, bench.base).rt() == ORACLE.rt()
    expected = ORACLE.rt_up_to(SECOND)
    assert {key: Views(spark, bench.base).ro().get(key) for key in expected} == expected


IN_OPEN = 0x20


class OpenedByJava:
    """The log files in a folder that Java has opened since: it opens the checksum of each (Linux alone)."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None)
        self.queue = libc.inotify_init1(os.O_NONBLOCK)
        libc.inotify_add_watch(self.queue, str(folder).encode(), IN_OPEN)

    def names(self) -> set[str]:
        found = set()
        while True:
            try:
                events = os.read(self.queue, 1 << 16)
            except BlockingIOError:
                return {name for name in found if ".log." in name and name.endswith(".crc")}
            while events:
                length = struct.unpack_from("iIII", events)[3]
                found.add(events[16 : 16 + length].rstrip(b"\0").decode())
                events = events[16 + length :]


@pytest.mark.extended
def test_hudi_opens_no_log_file_of_other_partitions_for_its_statistics_and_the_record_index(spark, tmp_path):
    """See facts: indexes-of-what-is-written. Only log files of what is compacted need to be looked at before."""
    keys = range(12)
    history = (
        Write(tuple((key, "v0", key) for key in keys)),
        Write(((1, "v1", 100), (4, "v1", 101))),
        Write(((3, "v2", 300), (5, "v2", 301), (6, "v2", 302))),
    )
    statistics = {
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.partition.stats.enable": "true",
    }
    bench = Bench(spark, tmp_path / "t", index="record_index")
    write_history(spark, bench.base, history, QUICK | INDEXED | statistics)
    listed = {"bloom_filters", "column_stats", "files", "partition_stats", "record_index"}
    assert set(bench.state().metadata_partitions) == listed
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    plan = bench.plan(reads_logs=True)
    assert {one.partition for one in plan.tables[0].operations} == {"b"}
    compacted, others = OpenedByJava(bench.base / "b"), [OpenedByJava(bench.base / name) for name in "ac"]
    assert bench.apply(plan).status == "compacted"
    assert compacted.names()
    assert [one.names() for one in others] == [set(), set()]
    assert bench.views().rt() == Oracle.of(history).rt()


CREATE_INDEX = {
    "secondary_index": "CREATE INDEX i ON indexed (v)",
    "expr_index": "CREATE INDEX i ON indexed USING column_stats(ts) OPTIONS(expr='from_unixtime', format='yyyy-MM-dd')",
}


@pytest.mark.extended
@pytest.mark.parametrize("kind", CREATE_INDEX)
def test_indexes_on_columns_are_kept_right(spark, tmp_path, kind):
    """Hudi updates them through its timeline server."""
    options = {**INDEXED, "hoodie.embed.timeline.server": "true"}
    bench = Bench(spark, tmp_path / "t", index="record_index")
    write_history(spark, bench.base, options=options)
    spark.sql(f"CREATE TABLE indexed USING hudi LOCATION '{bench.base}'")
    lock = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
    spark.sql(f"SET hoodie.write.lock.provider={lock}")
    try:
        spark.sql(CREATE_INDEX[kind])
    finally:
        spark.sql("RESET hoodie.write.lock.provider")
        spark.sql("DROP TABLE indexed")
    before = bench.properties()
    assert any(one.startswith(kind) for one in bench.state().metadata_partitions)
    assert bench.apply(bench.plan()).status == "compacted"
    assert bench.properties() == before
    write_history(spark, bench.base, HISTORY[1:4], options, first=len(HISTORY))
    time.sleep(2 * MAX_CLOCK_SKEW_MS / 1000)
    assert bench.apply(bench.plan(second=1000)).status == "compacted"
    views = Views(spark, bench.base)
    assert views.rt() == views.rt_without_mdt() == ORACLE.rt()
    if kind == "secondary_index":
        frame = spark.read.format("hudi").options(**{"hoodie.metadata.enable": "true"}).load(str(bench.base))
        for value in {*ORACLE.rt().values()}:
            found = {row.id for row in frame.where(f"v = '{value}'").select("id").collect()}
            assert found == {key for key, held in ORACLE.rt().items() if held == value}


def results_of_stages(spark) -> dict[int, int]:
    """Bytes that the tasks of each stage have sent to the driver."""
    gateway, jvm = spark.sparkContext._gateway, spark._jvm
    none, no_quantiles = jvm.java.util.ArrayList(), gateway.new_array(jvm.double, 0)
    stages = spark._jsc.sc().statusStore().stageList(none, False, False, no_quantiles, none)
    found = (stages.apply(place) for place in range(stages.size()))
    return {stage.stageId(): stage.resultSize() for stage in found}


@pytest.mark.extended
def test_keys_of_a_record_index_stay_on_executors(spark, tmp_path, monkeypatch):
    """Else a driver would hold the key of every row that is compacted, as whole statuses have it."""
    options, _, index = TABLES["record index and bloom filters"]
    bench = Bench(spark, tmp_path / "t", index=index)
    late = Write(((0, "late", 2), (1, "late", 2), (2, "late", 2)))
    write_history(spark, bench.base, (Write(tuple((key, "v", 1) for key in range(9_000))), late), options)

    def largest_of_a_compaction():
        time.sleep(MAX_CLOCK_SKEW_MS / 1000)  # what was written just now is too young for a plan
        before = results_of_stages(spark)
        plan = bench.plan()
        assert plan.tables[0].action == "compact", plan.tables[0].reason
        assert bench.apply(plan).status == "compacted"
        return max(size for stage, size in results_of_stages(spark).items() if stage not in before)

    stats_alone = largest_of_a_compaction()
    write_history(spark, bench.base, (late,), options, first=2)
    monkeypatch.setattr(write_stats, "_SLIM", "org.apache.hudi.NoSuchClass")
    assert stats_alone * 4 < largest_of_a_compaction(), stats_alone


@pytest.mark.extended
@pytest.mark.parametrize("plain", [False, True], ids=["footer too", "plain footer"])
def test_encrypted_base_files_are_not_compacted_by_a_session_that_does_not_encrypt(
    spark, written_table, tmp_path, plain
):
    """Their rows would be plain from then on. Nothing is touched."""
    from pyarrow import parquet

    bench = Bench(spark, tmp_path / "t")
    shutil.copytree(written_table, bench.base)
    plan = bench.plan()
    for file in bench.base.glob("*/*.parquet"):
        write_encrypted(file, parquet.ParquetFile(file).read(), "v", plaintext_footer=plain)
    before = sorted(bench.names_in(".hoodie/timeline"))
    with pytest.raises(EngineError, match="is encrypted, and a compaction by this session would not be") as error:
        bench.apply(plan)
    assert error.value.code == "ETC324"
    assert sorted(bench.names_in(".hoodie/timeline")) == before
