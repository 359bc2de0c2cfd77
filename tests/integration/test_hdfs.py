"""`etc` on a table on HDFS, of a real NameNode and DataNode: one run loses them, the next one ends what it began."""

import shutil
import time

import pytest

from etc_policy.adapters.spark.session import start_spark
from tests.integration.history import HISTORY, QUICK, Oracle, Views, Write, write_history
from tests.integration.kills import SECOND, TIMEOUT_SECONDS, Project
from tests.integration.session import stop_spark

pytestmark = pytest.mark.spark
LATER = Write(((1, "v7", 600), (9, "v7", 601), (2, "v7", 602)))


def begun(cluster, location):
    """Whether the compaction is inflight."""
    timeline = cluster.client.list_status(f"{cluster.path(location)}/.hoodie/timeline")
    return any(one.path.endswith(".compaction.inflight") for one in timeline)


def lose_the_cluster_at_work(cluster, location, project):
    """Run `etc apply` and kill the NameNode and the DataNode once it compacts; its exit code."""
    process = project.start("apply", "--yes")
    while not begun(cluster, location):
        assert process.poll() is None, project.stderr
        time.sleep(0.05)
    cluster.kill()
    code = process.wait(timeout=TIMEOUT_SECONDS)
    cluster.start(anew=False)
    return code


def check_views(location, tmp_path):
    """RT and RO by stock Spark, before and after a later write of a stock writer."""
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, tmp_path / "spark.log")
    try:
        views, promised = Views(spark, location), Oracle.of(HISTORY).rt_up_to(SECOND)
        assert views.rt() == views.rt_without_mdt() == Oracle.of(HISTORY).rt()
        ro = views.ro()
        assert {key: ro.get(key) for key in promised} == promised
        write_history(spark, location, (LATER,), QUICK, first=len(HISTORY))
        assert views.rt() == views.rt_without_mdt() == Oracle.of((*HISTORY, LATER)).rt()
    finally:
        stop_spark(spark)


def test_a_run_that_loses_the_cluster_says_so_and_the_next_one_ends_it(no_spark, written_table, hdfs_cluster, tmp_path):
    location = hdfs_cluster.upload(written_table, hdfs_cluster.new_folder())
    project = Project(tmp_path)
    project.declare("t", location, "granularity: log_file")
    assert project.start("plan").wait(60) == 0, project.stderr
    assert "C " in (tmp_path / "stdout").read_text()
    code = lose_the_cluster_at_work(hdfs_cluster, location, project)
    assert (code, "error[ETC456]" in project.stderr, "Traceback" in project.stderr) == (4, True, False), project.stderr
    table = project.apply()["t"]
    assert (table["status"], table["verification"]["status"]) == ("resumed", "pass"), table
    check_views(location, tmp_path)
    shutil.rmtree(tmp_path / "target")
