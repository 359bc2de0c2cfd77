"""`etc apply` on tables in a bucket of a real S3 server: every view of one kind, all of which `bucket_cut.py` plays as a command;
and killed, with a run that mends it, as `random_kills.py --where moto` plays it any number of times."""

import random

import pytest

from etc_policy.adapters.spark.session import start_spark
from tests.integration import bucket_cut
from tests.integration.kill_settings import InBucket
from tests.integration.kills import Project
from tests.integration.session import stop_spark

pytestmark = pytest.mark.spark
STRADDLING = range(4, 6)
#: Where the run dies.
STEP = "begun"


def test_every_view_is_right_at_each_step(no_spark, s3_variables, moto_server, tmp_path, monkeypatch):
    for name, value in bucket_cut.variables(moto_server).items():
        monkeypatch.setenv(name, value)
    spark = bucket_cut.start(tmp_path)
    try:
        bucket_cut.play(spark, moto_server, bucket_cut.Kind(mdt=False))
    finally:
        stop_spark(spark)


@pytest.fixture
def setting(no_spark, s3_variables, moto_server, tmp_path, monkeypatch):
    """Buckets; the standard variables say where they are, to Python and to Spark."""
    for name, value in bucket_cut.variables(moto_server).items():
        monkeypatch.setenv(name, value)
    setting = InBucket(moto_server, tmp_path)
    setting.numbers = STRADDLING
    return setting


def test_a_run_is_killed_and_the_next_one_finishes_it(setting, written_table, tmp_path):
    project = Project(tmp_path)
    table = setting.add(project, "t", written_table, "log_file", "", random.Random(1))
    setting.kill_when(lambda: table.order.index(table.step) >= table.order.index(STEP), project, "t", "both")
    assert table.order.index(STEP) <= table.order.index(table.step) < table.order.index("committed"), project.stderr
    found = project.apply()["t"]
    verification = found["verification"]
    assert (found["status"], verification["status"], verification["level"]) == ("resumed", "pass", "data")
    assert not table.is_locked
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, tmp_path / "spark.log")
    try:
        setting.check(spark, table, "metadata table")
    finally:
        stop_spark(spark)
