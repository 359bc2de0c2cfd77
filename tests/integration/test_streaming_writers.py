"""`etc apply` beside writers that stream to the metadata table, and beside some that do not."""

import os
import signal
import time

import pytest

from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.writer_options import STREAMING, option_of_metadata_commits
from etc_policy.plan.bundles import bundle_of
from etc_policy.storage.open_storage import open_reader
from tests.integration.held import freeze
from tests.integration.history import EPOCH_MS, HISTORY, QUICK, WRITER, Oracle, Write, partition_of
from tests.integration.kills import LOCK, Project, wait_for_group
from tests.integration.stock_writer import LOCKED, SHARED
from tests.integration.writer_on_command import Writer

pytestmark = [pytest.mark.spark, pytest.mark.extended]
OPTIONS = {
    **WRITER,
    **QUICK,
    **LOCKED,
    **SHARED,
    "hoodie.write.lock.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.num_retries": "600",
    "hoodie.clean.automatic": "false",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.index.type": "SIMPLE",
}
#: A table that Hudi 1.0.2 merges rightly, though 1.2.0 writes it.
OF_BOTH = {"hoodie.write.table.version": "8", "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}
NOT_STREAMING = {STREAMING: "false"}
WRITTEN = HISTORY[:4]
LATER = Write(((0, "later", 900), (12, "new", 901), (13, "new", 902)))


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    writer = Writer(tmp_path_factory.mktemp("writer"))
    yield writer
    writer.close()


def written(writer, table, *writes, **options):
    for write in writes:
        begin(writer, table, write, **options)
        assert writer.answer() == "done"


def begin(writer, table, write, hold=None, **options):
    rows = [(key, partition_of(key), value, EPOCH_MS + second * 1000) for key, value, second in write.rows]
    rows += [(key, partition_of(key), "", 0) for key in write.deleted]
    operation = "delete" if write.deleted else "upsert"
    writer.begin(table, rows, {**OPTIONS, **options}, operation, hold)


@pytest.fixture(scope="module")
def sources(writer, tmp_path_factory):
    """A table of writers that stream, and one of writers that do not."""
    folder = tmp_path_factory.mktemp("sources")
    written(writer, folder / "streaming", *WRITTEN[:2], **OF_BOTH)
    written(writer, folder / "plain", *WRITTEN, **NOT_STREAMING)
    return folder


def shown(table):
    """What the table shows of how its writers commit to the metadata table."""
    storage = open_reader(str(table.base))
    return [one.value for one in option_of_metadata_commits(storage, read_properties(storage))]


def stop_streaming(writer, table, hold):
    """A write that is stopped once its commit to the metadata table is open, and before it takes the lock."""
    for number in range(5):
        begin(writer, table.base, Write(((0, f"later {number}", 900 + number),)), hold)
        writer.wait_until_held(hold)
        (begun,) = table.incomplete("deltacommit")
        opened = table.base / table.metadata_timeline / f"{begun}.deltacommit.requested"
        hold.unlink()
        while not opened.exists():
            time.sleep(0.001)
        os.killpg(writer.process.pid, signal.SIGSTOP)
        time.sleep(0.1)
        if not table.is_locked and table.incomplete("deltacommit"):
            return
        os.killpg(writer.process.pid, signal.SIGCONT)
        assert writer.answer() == "done"
    raise AssertionError("no write could be stopped in time")


def rows_are_right(writer, table, *writes, **options):
    """RT and RO by a Spark of its own, and a write of keys that are there already: none stands twice."""
    from etc_policy.spark.session import start_spark
    from tests.integration.history import Views
    from tests.integration.session import stop_spark

    written(writer, table.base, LATER, **options)
    oracle = Oracle.of((*WRITTEN, *writes, LATER))
    spark = start_spark(
        {"spark.sql.shuffle.partitions": "1", "spark.master": "local[1]"}, table.base.parent / "look.log"
    )
    try:
        views = Views(spark, table.base)
        assert views.rt_without_mdt() == oracle.rt()
        assert views.rt() == oracle.rt()
        assert views.rust() == oracle.rt()
        promised, ro = Oracle.of((*WRITTEN, *writes)).rt_up_to(210), views.ro()
        assert {key: ro.get(key) for key in promised} == promised
    finally:
        stop_spark(spark)


def test_a_commit_of_a_writer_that_does_not_stream_ends_no_compaction(no_spark, writer, sources, tmp_path):
    """A client that streams opens its commit to the metadata table as it begins, and the writer's would roll it back."""
    project = Project(tmp_path)
    table = project.add("t", sources / "plain", lock=LOCK)
    assert shown(table) == ["false"]
    run = freeze(project, table, "executing")
    written(writer, table.base, LATER, **NOT_STREAMING)
    os.killpg(run.pid, signal.SIGCONT)
    assert run.wait(timeout=240) == 0, project.stderr
    wait_for_group(run.pid)
    rows_are_right(writer, table, LATER, **NOT_STREAMING)


def test_a_bundle_that_cannot_stream_is_refused_beside_writers_that_do(sources, tmp_path, monkeypatch):
    """Hudi 1.0.2 would roll back what a living writer has begun in the metadata table, record index and all."""
    monkeypatch.setenv("ETC_HUDI_BUNDLE", bundle_of("1.0.2"))
    project = Project(tmp_path)
    table = project.add("t", sources / "streaming", lock=LOCK)
    assert shown(table) == ["true"]
    assert project.start("apply", "--yes").wait(timeout=240) != 0
    assert "error[ETC325]" in project.stderr
    assert table.step == "nothing"


def test_a_writer_that_streams_beside_others_that_do_not_keeps_its_commit(writer, sources, tmp_path):
    """Nothing of it may be rolled back: the run waits for it, and then gives way."""
    project = Project(tmp_path)
    table = project.add("t", sources / "plain", lock=LOCK)
    stop_streaming(writer, table, tmp_path / "hold")
    try:
        code = project.start("apply", "--yes").wait(timeout=240)
    finally:
        os.killpg(writer.process.pid, signal.SIGCONT)
    assert (code, "is at work on the metadata table" in project.stderr) == (4, True), project.stderr
    assert writer.answer() == "done"
    result = project.apply()["t"]
    assert (result["status"], result["verification"]["status"]) == ("resumed", "pass"), result
