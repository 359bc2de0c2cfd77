"""`etc apply` on tables in a bucket of a real S3 server: every view of one kind, all of which `bucket_cut.py` plays as a command;
and killed, run again, with what the bucket holds against the oracle."""

import pytest

from etc_policy.adapters.spark.session import start_spark
from tests.integration import bucket_cut
from tests.integration.history import HISTORY, Oracle
from tests.integration.kills import LATENCY_SECONDS, POLICY, Project, Table, check_files, check_views
from tests.integration.session import stop_spark
from tests.s3_servers import REGION

pytestmark = pytest.mark.spark
STRADDLING = range(4, 6)


class Bucket:
    """The table's objects, seen without etc."""

    def __init__(self, server):
        self.server, self.name = server, server.make_bucket()

    def keys(self, prefix="t/"):
        pages = self.server.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", ())]

    def has(self, state):
        return any(key.endswith(state) for key in self.keys("t/.hoodie/timeline/"))

    def is_written_to(self):
        """A run is at work on base files."""
        return any(".marker" in key or "/MARKERS" in key for key in self.keys("t/.hoodie/.temp/"))

    def download(self, folder):
        for key in self.keys():
            if not key.endswith((".crc", "/")):
                (folder / key).parent.mkdir(parents=True, exist_ok=True)
                self.server.client.download_file(self.name, key, str(folder / key))
        return Table(folder / "t")


@pytest.fixture
def bucket(no_spark, s3_variables, moto_server, written_table, monkeypatch):
    """A bucket with a copy of the table; the standard variables say where the server is, to Python and to Spark."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto_server.endpoint)
    monkeypatch.setenv("AWS_REGION", REGION)
    bucket = Bucket(moto_server)
    moto_server.upload(written_table, bucket.name, "t")
    return bucket


def test_every_view_is_right_at_each_step(no_spark, s3_variables, moto_server, tmp_path, monkeypatch):
    for name, value in bucket_cut.variables(moto_server).items():
        monkeypatch.setenv(name, value)
    spark = bucket_cut.start(tmp_path)
    try:
        bucket_cut.play(spark, moto_server, bucket_cut.Kind(mdt=False))
    finally:
        stop_spark(spark)


def test_a_run_is_killed_and_the_next_one_finishes_it(bucket, tmp_path):
    project = Project(tmp_path)
    (tmp_path / "policies").mkdir()
    values = {"table": f"s3a://{bucket.name}/t", "latency": LATENCY_SECONDS, "granularity": "log_file", "level": "data"}
    (tmp_path / "policies" / "t.yml").write_text(f"version: 1\npolicies:\n{POLICY.format(name='t', **values)}")
    project.kill_when(bucket.is_written_to, "t")
    assert bucket.has(".compaction.inflight"), project.stderr
    assert not bucket.has(".commit")

    found = project.apply()["t"]
    assert (found["status"], found["verification"]["status"], found["verification"]["level"]) == (
        "resumed",
        "pass",
        "data",
    )
    table = bucket.download(tmp_path / "downloaded")
    check_files(table)
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, tmp_path / "spark.log")
    try:
        check_views(spark, table, Oracle.of(HISTORY), STRADDLING)
    finally:
        stop_spark(spark)
