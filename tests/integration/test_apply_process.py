"""`etc` as a process: killed, run again, run beside itself, and under an older bundle."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.history import EPOCH_MS, HISTORY, Oracle, Views
from tests.integration.session import REPOSITORY, run_under_bundle

pytestmark = pytest.mark.spark
NOW_MS = EPOCH_MS + 220_000
POLICY = """
version: 1
policies:
  - name: t
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 10s
    verify: {{level: metadata}}
"""


@pytest.fixture
def project(written_table, tmp_path):
    shutil.copytree(written_table, tmp_path / "t")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "t.yml").write_text(POLICY.format(table=tmp_path / "t"))
    return tmp_path


def etc(project: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "etc_policy.cli.main", *arguments, "--project-dir", str(project), "--at", str(NOW_MS)]


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(etc(project, *arguments), capture_output=True, text=True, timeout=300, cwd=REPOSITORY)


def run_without_time(project: Path, *arguments: str) -> subprocess.CompletedProcess:
    """For commands that know no `--at`."""
    return subprocess.run(etc(project, *arguments)[:-2], capture_output=True, text=True, timeout=300, cwd=REPOSITORY)


def start_and_stop_at_inflight(project: Path) -> subprocess.Popen:
    """An `etc apply` that is frozen while it executes."""
    process = subprocess.Popen(
        etc(project, "apply", "--yes"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=REPOSITORY,
    )
    timeline = project / "t" / ".hoodie" / "timeline"
    deadline = time.monotonic() + 120
    while not list(timeline.glob("*.compaction.inflight")):
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGSTOP)
    return process


def test_beside_a_run_and_after_its_death(no_spark, project):
    """What happens when it is run again after it was killed, at any step: see test_kills.py."""
    first = start_and_stop_at_inflight(project)
    try:
        assert not list((project / "t" / ".hoodie" / "timeline").glob("*.commit"))
        beside = run(project, "apply", "--yes")
        assert beside.returncode == 4, beside.stderr
        assert "another `etc apply` is working on" in beside.stderr
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()

    pending = json.loads(run(project, "plan", "--output", "json").stdout)["tables"][0]
    assert (pending["action"], pending["reason_code"]) == ("refused", "pending_own_plan")
    assert not list((project / "t" / ".hoodie" / "timeline").glob("*.commit"))
    (hint,) = pending["hints"]
    finished = run(project, *shlex.split(hint.split("`")[1])[1:], "--yes", "--output", "json")
    assert finished.returncode == 0, finished.stderr
    assert [table["status"] for table in json.loads(finished.stdout)["tables"]] == ["resumed"]
    assert Views(None, project / "t").rust() == Oracle.of(HISTORY).rt()


@pytest.mark.extended
def test_killed_then_undone_then_applied(no_spark, project):
    first = start_and_stop_at_inflight(project)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    oracle, views = Oracle.of(HISTORY), Views(None, project / "t")
    before = views.rust(read_optimized=True)

    undone = run_without_time(project, "undo")
    assert undone.returncode == 0, undone.stderr
    assert "is withdrawn" in undone.stdout
    timeline = project / "t" / ".hoodie" / "timeline"
    (plan,) = timeline.glob("*.compaction.requested")  # a reader may have listed it
    assert list(timeline.glob(f"{plan.name.split('.')[0]}_*.commit"))
    assert views.rust() == oracle.rt()
    assert views.rust(read_optimized=True) == before
    assert run_without_time(project, "undo").stdout == "etc has no pending plan.\n"

    again = run(project, "apply", "--yes", "--output", "json")
    assert again.returncode == 0, again.stderr
    assert [table["status"] for table in json.loads(again.stdout)["tables"]] == ["compacted"]
    assert views.rust() == oracle.rt()
    expected = oracle.rt_up_to(210)
    ro = views.rust(read_optimized=True)
    assert {key: ro.get(key) for key in expected} == expected


def test_stale_edited_and_foreign_plans_are_refused(no_spark, project):
    saved = project / "saved.json"
    assert run(project, "plan", "--out", str(saved), "--detailed-exitcode").returncode == 2
    plan = json.loads(saved.read_text())
    edited = project / "edited.json"
    edited.write_text(json.dumps({**plan, "created_at": "2020-01-01T00:00:00Z"}))
    result = run(project, "apply", str(edited))
    assert result.returncode == 64
    assert "error[ETC603]" in result.stderr

    properties = project / "t" / ".hoodie" / "hoodie.properties"
    kept = properties.read_text()
    properties.write_text(kept + "hoodie.table.new.key=1\n")
    result = run(project, "apply", str(saved))
    assert result.returncode == 4
    assert "hoodie.properties changed" in result.stderr
    properties.write_text(kept)

    policy = project / "policies" / "t.yml"
    policy.write_text(policy.read_text().replace("10s", "20s"))
    result = run(project, "apply", str(saved))
    assert result.returncode == 4
    assert "was changed since the plan was made" in result.stderr
    assert not list((project / "t" / ".hoodie" / "timeline").glob("*.compaction.*"))


@pytest.mark.extended
def test_just_in_time_compacts_what_cannot_wait_and_then_starts_no_java(no_spark, project):
    """Deletes have no event time, so their slice is due; the others hold events that wait for the target of 10 minutes."""
    policy = project / "policies" / "t.yml"
    policy.write_text(policy.read_text() + "    freshness: {target: 10m}\n    strategy: {every: 20s}\n")
    oracle, views = Oracle.of(HISTORY), Views(None, project / "t")
    first = run(project, "apply", "--yes", "--output", "json")
    assert first.returncode == 0, first.stderr
    (done,) = json.loads(first.stdout)["tables"]
    assert (done["status"], done["file_slices"], done["verification"]["status"]) == ("compacted", 1, "pass")
    assert done["threshold_ms"] == EPOCH_MS + 100_000 - 1  # key 1 of partition b has an event at 100 s, and waits
    assert views.rust() == oracle.rt()
    expected, ro = oracle.rt_up_to(99), views.rust(read_optimized=True)
    assert {key: ro.get(key) for key in expected} == expected

    bare = {**os.environ, "JAVA_HOME": "/nowhere", "SPARK_HOME": "/nowhere"}
    command = etc(project, "apply", "--yes", "--output", "json")
    idle = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=REPOSITORY, env=bare)
    assert idle.returncode == 0, idle.stderr
    (waits,) = json.loads(idle.stdout)["tables"]
    assert (waits["status"], waits["threshold_ms"]) == ("nothing_due", done["threshold_ms"])
    plan = json.loads(run(project, "plan", "--output", "json").stdout)["tables"][0]
    assert not plan["pace"]["run_assumed"]  # the first run's length is known
    assert plan["next_due_ms"] == EPOCH_MS + 100_000 + 600_000 - 20_000 - plan["pace"]["run_ms"]


@pytest.mark.extended
@pytest.mark.parametrize("bundle", ["1.0.1", "1.0.2"])
def test_table_of_version_8_under_its_own_bundle(no_spark, tmp_path, bundle):
    said = run_under_bundle(bundle, "tests.integration.version8", str(tmp_path / "t"), timeout_seconds=500)
    assert said.strip() == "passed"
