"""`etc` on a table on HDFS, of a real NameNode and DataNode: one run loses them, the next one ends what it began."""

import time

import pytest

from etc_policy.spark.session import start_spark
from tests.integration.history import HISTORY, QUICK, Oracle, Views, Write, write_history
from tests.integration.kills import SECOND, TIMEOUT_SECONDS, Project
from tests.integration.session import stop_spark

pytestmark = pytest.mark.spark
LATER = Write(((1, "v7", 600), (9, "v7", 601), (2, "v7", 602)))


#: A nameservice of two NameNodes, of which the first one is dead, given up sooner than by default.
CONFIGURATION = {
    "dfs.nameservices": "lake",
    "dfs.ha.namenodes.lake": "a,b",
    "dfs.namenode.rpc-address.lake.a": "127.0.0.1:1",
    "dfs.client.failover.proxy.provider.lake": "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
    "dfs.client.failover.max.attempts": "2",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "500",
}


def configure(cluster, folder):
    """Write Hadoop's configuration."""
    pairs = {**CONFIGURATION, "dfs.namenode.rpc-address.lake.b": cluster.authority}
    text = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in pairs.items())
    (folder / "hdfs-site.xml").write_text(f"<configuration>{text}</configuration>")


def executing(cluster, path):
    """Whether the compaction has begun to write base files."""
    try:
        files = [one.path.removeprefix(f"{path}/") for one in cluster.client.list_status(path, recursive=True)]
    except FileNotFoundError:  # of a moment: gone while it was listed
        return False
    plans = [file.rpartition("/")[2].split(".")[0] for file in files if file.endswith(".compaction.requested")]
    return any(not file.startswith(".hoodie/") and file.endswith(f"_{plans[0]}.parquet") for file in files if plans)


def lose_the_cluster_at_work(cluster, path, project):
    """Run `etc apply` and kill the NameNode and the DataNode once it writes; its exit code."""
    process = project.start("apply", "--yes")
    while not executing(cluster, path):
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


@pytest.mark.extended
def test_a_run_that_loses_the_cluster_says_so_and_the_next_one_ends_it(
    no_spark, written_table, hdfs_cluster, tmp_path, monkeypatch
):
    path = hdfs_cluster.path(hdfs_cluster.upload(written_table, hdfs_cluster.new_folder()))
    configure(hdfs_cluster, tmp_path)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    project, location = Project(tmp_path), f"hdfs://lake{path}"
    project.declare("t", location, "granularity: log_file")
    assert project.start("plan").wait(60) == 0, project.stderr
    assert "compact       12 of 14 log files" in (tmp_path / "stdout").read_text()
    code = lose_the_cluster_at_work(hdfs_cluster, path, project)
    assert (code, "error[ETC456]" in project.stderr, "Traceback" in project.stderr) == (4, True, False), project.stderr
    table = project.apply()["t"]
    assert (table["status"], table["verification"]["status"]) == ("resumed", "pass"), table
    check_views(location, tmp_path)
