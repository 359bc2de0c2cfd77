"""`etc apply` on Spark's own standalone cluster: executors do the work, and a cluster without any is an error in time."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.history import EPOCH_MS, HISTORY, Oracle, Views
from tests.integration.standalone_cluster import Cluster, standalone_cluster

pytestmark = pytest.mark.spark
NOW_MS = EPOCH_MS + 220_000
POLICY = """
version: 1
policies:
  - name: t
    table: t
    event_time_column: {column: ts, unit: ms}
    data_latency: 10s
    verify: {level: data}
"""
#: No Python can run on an executor: none is needed there.
TARGETS = """
name: warehouse
profiles:
  warehouse:
    target: cluster
    targets:
      cluster:
        spark:
          master: "MASTER"
          timeout: 10s
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
    (tmp_path / "policies" / "t.yml").write_text(POLICY)
    (tmp_path / "events").mkdir()
    return tmp_path


def use(project: Path, cluster: Cluster) -> None:
    text = TARGETS.replace("MASTER", cluster.master).replace("EVENTS", str(project / "events"))
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


def test_without_workers_it_ends_in_time_and_the_next_run_compacts_on_executors(no_spark, project, tmp_path):
    with standalone_cluster(tmp_path / "cluster", workers=0) as cluster:
        use(project, cluster)
        begun = time.monotonic()
        alone = etc(project, "apply", "--yes", "--at", str(NOW_MS))
        assert time.monotonic() - begun < 45
        assert alone.returncode == 4, alone.stderr
        assert "error[ETC461]" in alone.stderr
        assert f"the cluster `{cluster.master}` gave no executor within 10 s" in alone.stderr
        assert not compactions(project)
        shutil.rmtree(project / "events")
        (project / "events").mkdir()

        cluster.start_workers(2)
        done = etc(project, "apply", "--yes", "--output", "json", "--at", str(NOW_MS))
        assert done.returncode == 0, done.stderr
    (table,) = json.loads(done.stdout)["tables"]
    assert (table["status"], table["verification"]["status"]) == ("compacted", "pass")
    assert table["verification"]["level"] == "data"
    check_executors(project)
    check_views(project)


def test_a_master_that_is_not_there(no_spark, project, tmp_path):
    gone = Cluster(tmp_path / "none")
    use(project, gone)
    result = etc(project, "apply", "--yes", "--at", str(NOW_MS))
    assert result.returncode == 4, result.stderr
    assert "error[ETC460]" in result.stderr
    assert f"the master of the cluster `{gone.master}` does not answer" in result.stderr
    assert not compactions(project)
