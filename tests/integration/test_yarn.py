"""`etc apply` on YARN, of a real ResourceManager and NodeManagers, with the table on HDFS: in client and in cluster mode,
beside a node that dies, an application that is killed, and a queue that never accepts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from string import Template

import pytest

from tests.command_blocks import Shell, command_blocks_of
from tests.integration.history import EPOCH_MS, HISTORY, Oracle, Views
from tests.integration.test_cluster import POLICY, THRESHOLD_MS, tasks_by_executor
from tests.integration.test_hdfs import executing
from tests.yarn_cluster import SPARK_HOME, yarn_cluster

pytestmark = [pytest.mark.spark, pytest.mark.extended]
#: The jars of Spark are on every node already; Python is where the driver runs.
TARGETS = Template("""
name: warehouse
profiles:
  warehouse:
    target: prod
    targets:
      prod:
        spark:
          master: yarn
          timeout: $timeout
          confs:
            spark.yarn.queue: $queue
            spark.yarn.jars: "local:$jars/*"
            spark.yarn.am.memory: 512m
            spark.yarn.appMasterEnv.PYSPARK_PYTHON: $python
            spark.executor.memory: 700m
            spark.executor.instances: "2"
            spark.executor.cores: "1"
            spark.driver.memory: 1g
            spark.pyspark.python: $python
            spark.eventLog.enabled: "true"
            spark.eventLog.dir: "file://$events"
            spark.task.maxFailures: "8"
            $loopback
""")
_LOOPBACK = "spark.driver.host: 127.0.0.1\n            spark.driver.bindAddress: 127.0.0.1"


@pytest.fixture(scope="module")
def cluster(hdfs_cluster, tmp_path_factory):
    with yarn_cluster(tmp_path_factory.mktemp("yarn"), hdfs_cluster) as running:
        yield running


class Warehouse:
    """A project whose one table is on the cluster's HDFS."""

    def __init__(self, folder: Path, cluster, written_table: Path) -> None:
        self.folder, self.cluster = folder, cluster
        self.location = cluster.hdfs.upload(written_table, cluster.hdfs.new_folder())
        self.use()

    def use(self, *, in_cluster: bool = False, queue: str = "default", timeout: str = "3m") -> None:
        latency = int(time.time()) - THRESHOLD_MS // 1000
        for folder in ("policies", "events"):
            (self.folder / folder).mkdir(exist_ok=True)
        policy = POLICY.replace("table: t\n", f"table: {self.location}\n").replace("LATENCY", str(latency))
        (self.folder / "policies" / "t.yml").write_text(policy)
        text = TARGETS.substitute(
            queue=queue,
            timeout=timeout,
            jars=SPARK_HOME / "jars",
            python=sys.executable,
            events=self.folder / "events",
            loopback="" if in_cluster else _LOOPBACK,
        )
        (self.folder / "etc_project.yml").write_text(text)

    def start(self, *arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "etc_policy.cli.main", *arguments]
        environment = {**os.environ, **self.cluster.environment}
        with (self.folder / "stdout").open("w") as out, (self.folder / "stderr").open("w") as err:
            return subprocess.Popen(command, stdout=out, stderr=err, cwd=self.folder, env=environment)

    def run(self, *arguments: str) -> int:
        return self.start(*arguments).wait(timeout=400)

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def started_executing(self) -> subprocess.Popen:
        """A run that has begun to write base files."""
        process = self.start("apply", "--yes")
        while not executing(self.cluster.hdfs, self.cluster.hdfs.path(self.location)):
            assert process.poll() is None, self.stderr
            time.sleep(0.1)
        return process

    def check(self) -> None:
        """What hudi-rs reads of the table, against the oracle, and what the run says of it."""
        (table,) = json.loads((self.folder / "target" / "run_results.json").read_text())["tables"]
        assert (table["status"], table["verification"]["status"]) == ("compacted", "pass"), table
        assert table["verification"]["level"] == "data"
        self.check_views()

    def check_views(self) -> None:
        copy = self.cluster.hdfs.download(self.location, self.folder / f"copy-{time.time_ns()}")
        views, oracle = Views(None, copy), Oracle.of(HISTORY)
        assert views.rust() == oracle.rt()
        promised = oracle.rt_up_to((THRESHOLD_MS - EPOCH_MS) // 1000)
        read_optimized = views.rust(read_optimized=True)
        assert {key: read_optimized.get(key) for key in promised} == promised

    def executors(self) -> set[str]:
        """The executors on which Hudi compacted."""
        tasks = tasks_by_executor(self.folder / "events")
        return {executor for job, executor in tasks if job.startswith("RunCompactionActionExecutor")}


@pytest.fixture
def warehouse(no_spark, written_table, cluster, tmp_path):
    return Warehouse(tmp_path, cluster, written_table)


def test_executors_of_yarn_compact_and_verify(warehouse):
    assert warehouse.run("apply", "--yes") == 0, warehouse.stderr
    warehouse.check()
    assert warehouse.executors() and "driver" not in warehouse.executors()


def test_a_driver_in_the_cluster(warehouse, request):
    (block,) = command_blocks_of(request.node.name)
    warehouse.use(in_cluster=True)
    assert warehouse.run("plan", "--out", "plan.json") == 0, warehouse.stderr
    shutil.copy(Path(sys.executable).with_name("etc"), warehouse.folder / "etc.py")
    small = (f"spark.yarn.jars=local:{SPARK_HOME}/jars/*", "spark.driver.memory=1g", "spark.executor.memory=700m")
    confs = " ".join(f"--conf '{one}'" for one in small)
    submit = block.replace("/srv/etc/bin/python", sys.executable).replace("--master yarn", f"--master yarn {confs}")
    Shell(warehouse.folder, **warehouse.cluster.environment).succeeds(submit)
    assert warehouse.executors() and "driver" not in warehouse.executors()
    warehouse.check_views()
    assert warehouse.run("verify") == 0, warehouse.stderr


def test_a_queue_that_never_accepts(warehouse):
    warehouse.use(queue="closed", timeout="20s")
    begun = time.monotonic()
    assert warehouse.run("apply", "--yes") == 4, warehouse.stderr
    assert time.monotonic() - begun < 120
    assert "error[ETC460]: the cluster `yarn` did not answer within 20 s" in warehouse.stderr


def test_an_application_that_is_killed_is_finished_by_the_next_run(warehouse):
    process = warehouse.started_executing()
    (running,) = warehouse.cluster.running_applications()
    warehouse.cluster.kill_application(running)
    assert process.wait(timeout=300) == 3, warehouse.stderr
    assert "error[ETC304]" in warehouse.stderr
    assert "run the same command again" in warehouse.stderr
    assert warehouse.run("apply", "--yes") == 0, warehouse.stderr
    warehouse.check_views()
    assert warehouse.run("verify") == 0, warehouse.stderr


def test_a_node_that_dies_is_made_up_for(warehouse):
    process = warehouse.started_executing()
    warehouse.cluster.kill_node(warehouse.cluster.node_of_executors_alone())
    try:
        assert process.wait(timeout=400) == 0, warehouse.stderr
        warehouse.check()
    finally:
        warehouse.cluster.start_nodes(1)
