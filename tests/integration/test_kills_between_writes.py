"""Kills of `etc apply` while it looks for a moment between two writes of a stock writer, and while it holds the table's lock from
that moment on; and then one run that mends all.

Every file slice has a delete to compact, so that a run beside the writer is refused first. Of two tables the writer goes on
before anything is mended: it waits for the lock that the killed run has left until that expires.
"""

import json
import shutil
import time
from dataclasses import dataclass

import pytest

from etc_policy.run.lock_holder import read_holder
from etc_policy.spark.session import start_spark
from tests.integration.conftest import written_once
from tests.integration.history import EPOCH_MS, QUICK, WRITER, Oracle, Write, partition_of, write_history
from tests.integration.kill_checks import check_views
from tests.integration.kills import ATTEMPTS, EXPIRY, LOCK, ORDER, Project, Table
from tests.integration.session import stop_spark
from tests.integration.writer_on_command import Writer

pytestmark = [pytest.mark.spark, pytest.mark.extended]
DELETED = (
    Write(tuple((key, "v0", key) for key in range(9))),
    Write(tuple((key, "v1", 100 + key) for key in range(3, 9))),
    Write(deleted=(0, 1, 2)),
)
#: What the writer is writing when the run begins, what it writes before the next run, and after that one.
BESIDE, BETWEEN = Write(((0, "again", 200), (3, "again", 201))), Write(((1, "between", 205), (4, "between", 206)))
AFTER = Write(((2, "after", 600), (5, "after", 601), (0, "after", 602)))
OPTIONS = {
    **WRITER,
    **QUICK,
    "hoodie.index.type": "SIMPLE",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.filesystem.expire": "1",
    "hoodie.write.lock.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.client.num_retries": "900",
}
HOLDING = LOCK.replace("lock_wait: 3s", "lock_wait: 3m\n      hold: 3m") + EXPIRY
LOOKS_FOR_A_MOMENT = "waiting for one between two writes"
#: By the moment of the kill what the next run does. `locked`: the moment was found, and nothing is published.
MOMENTS = {
    "looking, and the writer goes on": "compacted",
    "locked": "compacted",
    "published": "resumed",
    "executing": "resumed",
    "executing, and the writer goes on": "compacted",
    "committing to the metadata table": "resumed",
    "committed to the metadata table": "resumed",
}


@dataclass
class Killed:
    """A table whose run was killed at a moment, and its writer."""

    project: Project
    writer: Writer
    table: Table
    moment: str
    written: tuple[Write, ...] = DELETED

    @property
    def name(self):
        return self.table.base.name

    @property
    def hold(self):
        return self.table.base.with_suffix(".hold")

    @property
    def goes_on(self):
        return self.moment.endswith("goes on")

    @property
    def is_held(self):
        """Whether a run of etc has the lock."""
        holder = read_holder(self.table.meta / "lock")
        return holder is not None and holder.owner is not None

    def begin(self, write, **hold):
        rows = [(key, partition_of(key), value, EPOCH_MS + second * 1000) for key, value, second in write.rows]
        self.writer.begin(self.table.base, rows, OPTIONS, **hold)
        self.written = (*self.written, write)

    def write(self, write):
        self.begin(write)
        self.answered()

    def answered(self):
        """The write ends well; each of its rows waits for the file to go."""
        deadline = time.monotonic() + 300
        while not self.writer.is_done and time.monotonic() < deadline:
            self.hold.unlink(missing_ok=True)
            time.sleep(0.02)
        assert (answer := self.writer.answer()) == "done", answer

    def reached(self):
        """Let the write that the run was refused for come to its end, unless the run is to die before it does."""
        step, is_looking = self.moment.split(",")[0], LOOKS_FOR_A_MOMENT in self.project.stderr
        if step == "looking":
            return is_looking and self.is_held
        if is_looking:
            self.hold.unlink(missing_ok=True)
        begun = len(self.table.done("deltacommit")) > len(DELETED) and self.is_held
        return begun and ORDER.index(self.table.step) >= ORDER.index(step)

    def kill(self):
        """Whether the run had the lock when it died at the moment."""
        self.begin(BESIDE, hold=self.hold)
        self.writer.wait_until_held(self.hold)
        self.project.kill_when(self.reached, self.name)
        is_there = self.is_held and not self.table.done("commit")
        began = time.monotonic()
        self.answered()
        if is_there and self.goes_on:
            if self.moment.startswith("executing"):
                self.write(BETWEEN)
            assert 30 < time.monotonic() - began < 240
            assert not self.table.is_locked
        return is_there


@pytest.fixture(scope="module")
def deleted_table(tmp_path_factory):
    def write(spark, base):
        write_history(spark, base, DELETED, {**OPTIONS, "hoodie.write.lock.filesystem.expire": "0"})

    return written_once(tmp_path_factory, "deleted-as-written", write)


@pytest.fixture
def writer(deleted_table, no_spark, tmp_path):
    writer = Writer(tmp_path)
    yield writer
    writer.close()


def killed_at(project, writer, source, number, moment):
    """One that was killed at a moment; a run that had moved on when it died is tried afresh."""
    for attempt in range(ATTEMPTS):
        table = project.add(f"t{number}{attempt}", source, level="metadata", lock=HOLDING)
        killed = Killed(project, writer, table, moment)
        if killed.kill():
            return killed
        shutil.rmtree(table.base)
        (project.folder / "policies" / f"{killed.name}.yml").unlink()
    raise AssertionError(f"no run could be killed at `{moment}`\n{project.stderr}")


@pytest.mark.parametrize(
    "moments", [tuple(MOMENTS)[:3], tuple(MOMENTS)[3:]], ids=["before the work", "from the work on"]
)
def test_one_run_mends_all(writer, deleted_table, tmp_path, moments):
    project = Project(tmp_path, timeout_seconds=600)
    found = [killed_at(project, writer, deleted_table, *one) for one in enumerate(moments)]
    assert all(one.is_held != one.goes_on for one in found)
    results = project.apply()
    for one in found:
        result = results[one.name]
        assert result["status"] == MOMENTS[one.moment], (one.moment, result)
        assert result["verification"]["status"] in ("pass", "warn"), json.dumps(result["verification"])
        assert not one.table.is_locked, one.moment
        one.write(AFTER)  # the lock is free
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, tmp_path / "spark.log")
    try:
        for one in found:
            check_views(spark, one.table, Oracle.of(one.written))
            check_left(one.table)
    finally:
        stop_spark(spark)


def check_left(table):
    """Nothing of a killed run is left but markers of what has completed."""
    assert not table.is_locked
    assert not list(table.meta.glob(".lock.etc.*"))
    assert table.incomplete("compaction", "commit") == set()
    assert table.orphans() == set()
    plans = {path.name.split(".")[0] for path in table.timeline("*.compaction.requested")}
    assert {path.name for path in (table.meta / ".temp").glob("*")} <= plans
