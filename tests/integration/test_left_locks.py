"""`etc apply` killed while it holds the table's lock, by the file that Hudi's own lock provider knows."""

import os
import time

import pytest

from etc_policy.adapters.lease.lock_holder import read_holder
from etc_policy.adapters.spark.session import start_spark
from tests.integration.history import HISTORY, STRADDLING, Oracle
from tests.integration.kill_checks import check_files, check_views
from tests.integration.kills import EXPIRY, LOCK, Project, kill_holding
from tests.integration.session import stop_spark

pytestmark = pytest.mark.spark
#: Where the lock is held: to begin, and to commit; `random_kills.py` draws any step.
HELD = ("published", "committed to the metadata table")


def test_one_run_removes_what_killed_runs_left_and_mends_all(no_spark, written_table, tmp_path):
    """Hudi's provider leaves its file empty, so that nobody could tell whose it is: the next run waited for an hour."""
    project = Project(tmp_path)
    tables = {}
    for number, step in enumerate(HELD):
        lock = LOCK + (EXPIRY if number % 2 else "")
        tables[f"t{number}"] = kill_holding(project, f"t{number}", written_table, step, lock)
    assert all(read_holder(table.meta / "lock").owner is not None for table in tables.values())
    began = time.monotonic()
    results = project.apply()
    assert time.monotonic() - began < 180
    assert {result["status"] for result in results.values()} <= {"compacted", "resumed", "nothing_due"}
    assert {result["verification"]["status"] for result in results.values()} <= {"pass", "warn"}
    spark, oracle = start_spark({"spark.sql.shuffle.partitions": "2"}, tmp_path / "spark.log"), Oracle.of(HISTORY)
    try:
        for table in tables.values():
            assert not table.is_locked
            assert not list(table.meta.glob(".lock.etc.*"))
            check_files(table)
            check_views(spark, table, oracle, STRADDLING)
    finally:
        stop_spark(spark)


def test_a_strangers_lock_is_shown_and_ends_the_run_in_time(no_spark, written_table, tmp_path):
    project = Project(tmp_path)
    table = project.add("t", written_table, level="metadata", lock=LOCK)
    lock = table.meta / "lock"
    lock.touch()
    long_ago = time.time() - 7200
    os.utime(lock, (long_ago, long_ago))
    process = project.start("apply", "--yes")
    assert process.wait(timeout=240) == 4, project.stderr
    assert f"waiting for the lock `{lock}`, held by a process of user " in project.stderr
    assert "error[ETC422]" in project.stderr
    assert f"`rm {lock}`" in " ".join(project.stderr.split())
    assert lock.exists()
    lock.unlink()
    assert project.apply()["t"]["status"] == "compacted"
