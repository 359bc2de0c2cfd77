"""Carried log files on real tables of version 6; `python -m tests.integration.version6` plays all kinds, and states that runs
leave, and `python -m tests.integration.random_kills --where version-6` kills runs."""

import random
import shutil

import pytest

from etc_policy.adapters.spark.session import start_spark
from tests.integration.kill_settings import OfVersion6
from tests.integration.kills import Project
from tests.integration.session import run_under_bundle, stop_spark
from tests.integration.version6 import WRITES, Kind, Table6, play

pytestmark = pytest.mark.spark
#: Where runs are killed.
STEPS = ("carrying", "executing", "committing to the metadata table")


def test_every_view_is_right_at_each_step(spark, written_version_6, tmp_path):
    shutil.copytree(written_version_6, tmp_path / "t")
    play(Table6(spark, tmp_path / "t", kind=Kind(carry="hard_link"), history=WRITES))


def test_every_view_is_right_under_a_bundle_of_hudi_0(no_spark, tmp_path):
    arguments = ("tests.integration.version6", str(tmp_path), "--first")
    said = run_under_bundle("0.15.0", *arguments, timeout_seconds=600)
    assert said.startswith("MDT on, hard_link, event time: right")


def test_three_kills_and_one_run_that_mends_them(written_version_6, no_spark, tmp_path):
    setting, project, tables = OfVersion6(), Project(tmp_path), {}
    for number, step in enumerate(STEPS):
        name = f"t{number}"
        tables[name] = table = setting.add(project, name, written_version_6, "log_file", "", random.Random(number))
        at_least = table.order.index(step)
        project.kill_when(lambda table=table, least=at_least: table.order.index(table.step) >= least, name)
        assert at_least <= table.order.index(table.step) < table.order.index("committed"), project.stderr
    results = project.apply()
    assert {name: results[name]["status"] for name in tables} == dict.fromkeys(tables, "resumed")
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, tmp_path / "spark.log")
    try:
        for name, table in tables.items():
            assert results[name]["verification"]["status"] in ("pass", "warn")
            setting.check(spark, table, "metadata table")
    finally:
        stop_spark(spark)
