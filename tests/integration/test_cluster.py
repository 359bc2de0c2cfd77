"""`etc apply` on Spark's own standalone cluster: executors do the work, and a cluster without any is an error in time."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from etc_policy.errors import RetryableError
from etc_policy.spark.cluster import raise_if_alone, watch_executors
from etc_policy.spark.session import start_spark
from tests.command_blocks import Shell, command_blocks_of
from tests.integration.history import EPOCH_MS, HISTORY, Oracle, Views
from tests.integration.session import stop_spark
from tests.integration.standalone_cluster import Cluster, standalone_cluster

pytestmark = pytest.mark.spark
#: The threshold that the first plan gets: rows up to second 202 are below it, those from second 300 on above.
THRESHOLD_MS = EPOCH_MS + 210_000
SECRET = "hunter2-of-the-cluster"
POLICY = """
version: 1
policies:
  - name: t
    table: t
    event_time_column: {column: ts, unit: ms}
    data_latency: LATENCYs
    verify: {level: data}
"""
#: No Python can run on an executor: none is needed there.
TARGETS = """
name: warehouse
profiles:
  warehouse:
    target: prod
    targets:
      prod:
        spark:
          master: "MASTER"
          timeout: TIMEOUT
          confs:
            spark.executor.memory: 1g
            spark.pyspark.python: /nonexistent/python
            spark.eventLog.enabled: true
            spark.eventLog.dir: EVENTS
"""


@pytest.fixture
def project(written_table, tmp_path):
    shutil.copytree(written_table, tmp_path / "t")
    (tmp_path / "policies").mkdir()
    latency_seconds = int(time.time()) - THRESHOLD_MS // 1000
    (tmp_path / "policies" / "t.yml").write_text(POLICY.replace("LATENCY", str(latency_seconds)))
    (tmp_path / "events").mkdir()
    return tmp_path


def use(project: Path, cluster: Cluster, timeout: str = "2m") -> None:
    text = TARGETS.replace("MASTER", cluster.master).replace("EVENTS", str(project / "events"))
    text = text.replace("TIMEOUT", timeout)
    (project / "etc_project.yml").write_text(text)


def etc(project: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    """As a user runs it in the project's folder: paths are relative to it, and mean nothing to an executor."""
    command = [sys.executable, "-m", "etc_policy.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=project, **options)


def tasks_by_executor(events: Path) -> Counter:
    """Tasks that have succeeded, by (what Hudi or Spark says of their job, executor), from Spark's own event logs."""
    found: Counter = Counter()
    for log in events.iterdir():
        descriptions = {}
        for line in log.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerStageSubmitted":
                properties = event.get("Properties") or {}
                descriptions[event["Stage Info"]["Stage ID"]] = properties.get("spark.job.description", "")
            elif event["Event"] == "SparkListenerTaskEnd":
                assert event["Task End Reason"]["Reason"] == "Success", event
                found[descriptions[event["Stage ID"]], event["Task Info"]["Executor ID"]] += 1
    return found


def check_views(project: Path) -> None:
    oracle, views = Oracle.of(HISTORY), Views(None, project / "t")
    assert views.rust() == oracle.rt()
    promised = oracle.rt_up_to(210)
    read_optimized = views.rust(read_optimized=True)
    assert {key: read_optimized.get(key) for key in promised} == promised


def check_executors(project: Path) -> None:
    tasks = tasks_by_executor(project / "events")
    assert "driver" not in {executor for _, executor in tasks}
    compaction = {executor for job, executor in tasks if job.startswith("RunCompactionActionExecutor")}
    assert compaction == {"0", "1"}, tasks


def compactions(project: Path) -> list[str]:
    return [path.name for path in (project / "t" / ".hoodie" / "timeline").glob("*.compaction.*")]


@pytest.fixture
def blocks(request):
    """The blocks of the page that the test runs."""
    return command_blocks_of(request.node.originalname)


@pytest.mark.extended
def test_without_workers_it_ends_in_time_and_the_next_run_compacts_on_executors(blocks, no_spark, project, tmp_path):
    (apply,) = blocks
    with standalone_cluster(tmp_path / "cluster", workers=0) as cluster:
        use(project, cluster, "10s")
        begun = time.monotonic()
        alone = Shell(project).run(apply)
        assert time.monotonic() - begun < 90
        assert alone.returncode == 4, alone.stderr
        assert "error[ETC461]" in alone.stderr
        assert f"the cluster `{cluster.master}` gave no executor within 10 s" in alone.stderr
        assert not compactions(project)
        shutil.rmtree(project / "events")
        (project / "events").mkdir()

        use(project, cluster)
        cluster.start_workers(2)
        Shell(project).succeeds(apply)
    (table,) = json.loads((project / "target" / "run_results.json").read_text())["tables"]
    assert (table["status"], table["verification"]["status"]) == ("compacted", "pass")
    assert table["verification"]["level"] == "data"
    check_executors(project)
    check_views(project)


def test_a_master_that_is_not_there(no_spark, project, tmp_path):
    gone = Cluster(tmp_path / "none")
    use(project, gone)
    result = etc(project, "apply", "--yes")
    assert result.returncode == 4, result.stderr
    assert "error[ETC460]" in result.stderr
    assert f"the master of the cluster `{gone.master}` does not answer" in result.stderr
    assert not compactions(project)


def arguments_while_running(process: subprocess.Popen) -> set[bytes]:
    """Every command line that a process of this machine had meanwhile."""
    seen: set[bytes] = set()
    while process.poll() is None:
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.add(file.read_bytes())
            except OSError:  # the process has ended
                continue
        time.sleep(0.1)
    return seen


@pytest.mark.extended
def test_etc_is_the_program_of_a_spark_submit(blocks, no_spark, project, tmp_path, monkeypatch):
    plan, submit = blocks
    monkeypatch.setenv("ETC_TEST_SECRET", SECRET)
    policy = project / "policies" / "t.yml"
    policy.write_text(policy.read_text().replace("level: data", "level: metadata"))
    with standalone_cluster(tmp_path / "cluster") as cluster:
        use(project, cluster)
        targets = project / "etc_project.yml"
        hidden = "            spark.hadoop.test.secret.key: \"{{ env_var('ETC_TEST_SECRET') }}\"\n"
        # the target's own master is not the one that is submitted to
        targets.write_text(targets.read_text().replace(cluster.master, "local[1]") + hidden)
        shell = Shell(project)
        shell.succeeds(plan)
        submit = submit.replace("spark://master.example.com:7077", cluster.master)

        properties = project / "t" / ".hoodie" / "hoodie.properties"
        kept = properties.read_text()
        properties.write_text(kept + "hoodie.table.some.new.key=1\n")
        with (project / "said").open("w") as said:
            environment = shell.environment
            process = subprocess.Popen(submit, shell=True, stdout=said, stderr=said, cwd=project, env=environment)
            seen = arguments_while_running(process)
        printed = (project / "said").read_text()
        assert process.returncode == 4, printed
        (table,) = json.loads((project / "target" / "run_results.json").read_text())["tables"]
        assert (table["status"], "error[ETC402]" in printed) == ("stale", True)
        assert any(b"etc.py" in one and cluster.master.encode() in one for one in seen)
        assert not any(SECRET.encode() in one for one in seen)
        properties.write_text(kept)

        said = shell.succeeds(submit)
        assert "result        compacted" in said
        assert "verified      PASS" in said
        check_executors(project)
        check_views(project)
        assert len(list((project / "target" / "runs").glob("*.json"))) == 2


@pytest.mark.extended
def test_a_job_whose_last_executor_is_gone_ends_in_time(no_spark, tmp_path):
    """Spark itself would wait without end."""
    with standalone_cluster(tmp_path / "cluster", workers=1) as cluster:
        options = {"spark.master": cluster.master, "spark.executor.memory": "1g"}
        spark = start_spark(options, tmp_path / "spark.log", cluster_seconds=60)
        try:
            watch_executors(spark, 5)
            threading.Timer(5, cluster.processes[-1].terminate).start()
            with pytest.raises(Exception, match="cancelled"):
                spark.sql("SELECT java_method('java.lang.Thread', 'sleep', id + 120000L) FROM range(2)").collect()
            with pytest.raises(RetryableError, match="taken every executor away"):
                raise_if_alone(spark, "")
        finally:
            stop_spark(spark)
