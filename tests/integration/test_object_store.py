"""`etc apply` on tables in a bucket of a real S3 server: every view of one kind, all of which `bucket_cut.py` plays as a command;
and killed or cut off, with one run that mends all, as `random_kills.py --where moto` plays it any number of times."""

import random

import pytest

from etc_policy.adapters.spark.session import start_spark
from tests.faulty_proxy import faulty_proxy
from tests.integration import bucket_cut
from tests.integration.kill_settings import InBucket
from tests.integration.kills import Project
from tests.integration.session import stop_spark
from tests.s3_servers import S3Server

pytestmark = pytest.mark.spark
STRADDLING = range(4, 6)
#: Who dies, and at which step; of two runs nobody does, but for a while the network fails.
VICTIMS = {
    "locked": "both",
    "published": "python",
    "begun": "both",
    "executing": "network",
    "committing to the metadata table": "network",
    "committed": "java",
}


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
    """Buckets behind a proxy; the standard variables say where it is, to Python and to Spark."""
    with faulty_proxy(moto_server.endpoint) as proxy:
        for name, value in bucket_cut.variables(S3Server(proxy.endpoint)).items():
            monkeypatch.setenv(name, value)
        setting = InBucket(moto_server, proxy, tmp_path)
        setting.level, setting.numbers = "metadata", STRADDLING
        yield setting


def test_six_runs_die_and_one_mends_all(setting, written_table, tmp_path):
    project, tables = Project(tmp_path), {}
    for number, (step, victim) in enumerate(VICTIMS.items()):
        name, dice = f"t{number}", random.Random(number)
        tables[name] = table = setting.add(project, name, written_table, "log_file", "", dice)
        least = table.order.index(step)
        setting.kill_when(
            lambda table=table, least=least: table.order.index(table.step) >= least, project, name, victim
        )
        assert victim == "network" or table.order.index(table.step) >= least, project.stderr
    results = project.apply()
    assert {results[name]["verification"]["status"] for name in tables} <= {"pass", "warn"}
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, tmp_path / "spark.log")
    try:
        for table in tables.values():
            setting.check(spark, table, "metadata table")
    finally:
        stop_spark(spark)
