"""Kills of `etc apply` at some steps, of two while they hold the table's lock, and of one while it rolls a killed run back;
and then one run that mends all.

`random_kills.py` plays any number, at any step.
"""

import json
import time

import pytest

from etc_policy.run.lock_holder import read_holder
from etc_policy.spark.session import start_spark
from tests.integration.history import HISTORY, STRADDLING, Oracle
from tests.integration.kill_checks import check_files, check_views
from tests.integration.kills import EXPIRY, LOCK, Project, kill_at, kill_holding, kill_while_it_rolls_back
from tests.integration.session import stop_spark

pytestmark = [pytest.mark.spark, pytest.mark.extended]
#: By step the lock that the killed run held, by the file that Hudi's own lock provider knows: to begin, and to commit.
HELD = {"committed to the metadata table": LOCK, "published": LOCK + EXPIRY}
#: Where the rows are compared by `etc` too, and not by this test alone.
DATA = ("executing",)


@pytest.fixture
def killed(no_spark, written_table, tmp_path):
    """Tables by the step at which their apply was killed; while it executed, its Python process alone.

    The one that died within its commit to the metadata table is mended first: there Hudi needs its classes in order.
    """
    project = Project(tmp_path)
    tables = {step: kill_holding(project, name_of(step), written_table, step, lock) for step, lock in HELD.items()}
    tables["executing"] = kill_at(project, name_of("executing"), written_table, "executing", "python")
    tables["rolling back"] = kill_while_it_rolls_back(project, name_of("rolling back"), written_table)
    return project, tables


def name_of(step):
    return f"{'a' if step.startswith('rolling') else 'b'}_{step.replace(' ', '_')}"


def level_of(step):
    return "data" if step in DATA else "metadata"


def test_one_run_mends_all(killed, tmp_path):
    project, tables = killed
    published = {step: table.timeline("*.compaction.requested") for step, table in tables.items()}
    expected = {step: "nothing_due" if table.step == "committed" else "resumed" for step, table in tables.items()}
    # Hudi's provider leaves its lock's file empty, so that nobody could tell whose it is: the next run waited for an hour.
    assert all(read_holder(tables[step].meta / "lock").owner is not None for step in HELD)
    began = time.monotonic()
    results = project.apply()
    assert time.monotonic() - began < 180
    found = {step: results[name_of(step)] for step in tables}
    assert {step: result["status"] for step, result in found.items()} == expected
    for step, result in found.items():
        verification = result["verification"]
        assert verification["level"] == level_of(step), json.dumps(verification)
        assert verification["status"] in ("pass", "warn"), json.dumps(verification)
        assert published[step] == tables[step].timeline("*.compaction.requested") != []
        assert result["status"] == "nothing_due" or result["bytes_read"] > 0
    spark, oracle = start_spark({"spark.sql.shuffle.partitions": "2"}, tmp_path / "spark.log"), Oracle.of(HISTORY)
    try:
        for table in tables.values():
            assert not table.is_locked
            assert not list(table.meta.glob(".lock.etc.*"))
            check_files(table)
            check_views(spark, table, oracle, STRADDLING)
    finally:
        stop_spark(spark)
    again = project.apply()
    levels = {step: again[name_of(step)]["verification"]["level"] for step in tables}
    assert levels == {step: "logs" if step in DATA else "metadata" for step in tables}
