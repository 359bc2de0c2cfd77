"""Kills of `etc apply` at some steps, and one while it rolls a killed run back; and then one run that mends all.

`random_kills.py` plays any number, at any step.
"""

import json

import pytest

from etc_policy.adapters.spark.session import start_spark
from tests.integration.history import HISTORY, STRADDLING, Oracle
from tests.integration.kill_checks import check_files, check_views
from tests.integration.kills import Project, kill_at, kill_while_it_rolls_back
from tests.integration.session import stop_spark

pytestmark = pytest.mark.spark
#: Before and after publishing, while executing, between the two commits.
STEPS = ("locked", "published", "executing", "committed to the metadata table")
#: Where the rows are compared by `etc` too, and not by this test alone.
DATA = ("executing",)


@pytest.fixture
def killed(no_spark, written_table, tmp_path):
    """Tables by the step at which their apply was killed; while it executed, its Python process alone.

    The one that died within its commit to the metadata table is mended first: there Hudi needs its classes in order.
    """
    project = Project(tmp_path)
    victims = {"executing": "python"}
    tables = {
        step: kill_at(project, name_of(step), written_table, step, victims.get(step, "both"), level_of(step))
        for step in reversed(STEPS)
    }
    return project, {
        **tables,
        "rolling back": kill_while_it_rolls_back(project, name_of("rolling back"), written_table),
    }


def name_of(step):
    return f"{'a' if step.startswith(('committing', 'rolling')) else 'b'}_{step.replace(' ', '_')}"


def level_of(step):
    return "data" if step in DATA else "metadata"


def test_one_run_mends_all(killed, tmp_path):
    project, tables = killed
    published = {step: table.timeline("*.compaction.requested") for step, table in tables.items()}
    expected = {step: "nothing_due" if table.step == "committed" else "resumed" for step, table in tables.items()}
    expected["locked"] = "compacted"
    results = project.apply()
    found = {step: results[name_of(step)] for step in tables}
    assert {step: result["status"] for step, result in found.items()} == expected
    for step, result in found.items():
        verification = result["verification"]
        assert verification["level"] == level_of(step), json.dumps(verification)
        assert verification["status"] in ("pass", "warn"), json.dumps(verification)
        assert published[step] in ([], tables[step].timeline("*.compaction.requested"))
        assert result["status"] == "nothing_due" or result["bytes_read"] > 0
    spark, oracle = start_spark({"spark.sql.shuffle.partitions": "2"}, tmp_path / "spark.log"), Oracle.of(HISTORY)
    try:
        for table in tables.values():
            check_files(table)
            check_views(spark, table, oracle, STRADDLING)
    finally:
        stop_spark(spark)
    again = project.apply()
    levels = {step: again[name_of(step)]["verification"]["level"] for step in tables}
    assert levels == {step: "logs" if step in DATA else "metadata" for step in tables}
