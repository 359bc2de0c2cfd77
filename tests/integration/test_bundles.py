"""Tables of a payload that one bundle of Hudi merges otherwise than another: refused, or compacted by the one that is right."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from etc_policy.plan.bundles import bundle_of
from etc_policy.spark import interrupts
from etc_policy.spark.bundles import BUNDLE_NAME
from etc_policy.spark.java_causes import java_causes
from etc_policy.wiring import Environment
from tests.integration.history import EPOCH_MS, Views
from tests.integration.mixed_lake import ORACLE, SECOND
from tests.integration.payload_matrix import main as play
from tests.integration.payloads.steps import SEEN, WRITTEN, cells
from tests.integration.payloads.tables import FLINK
from tests.integration.session import run_under_bundle, stop_spark

pytestmark = pytest.mark.spark

STEPS, KIND = "tests.integration.payloads.steps", "PostgresDebeziumAvroPayload"
PLAYED = {
    "the bundles' own": ((), (KIND, "PartialUpdateAvroPayload", "nothing said")),
    "Flink's": (
        (FLINK,),
        (
            "OverwriteWithLatestAvroPayload, no ordering field, changelog mode",
            "PartialUpdateAvroPayload, changelog mode",
        ),
    ),
}
POLICY = """version: 1
policies:
  - name: toast
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 1h
    strategy: {{type: event_time, granularity: file_slice}}
    writer: {{index: simple, compaction: none}}
"""


def etc(project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("etc")), *arguments, "--project-dir", str(project)]
    environment = {key: value for key, value in os.environ.items() if key != "ETC_HUDI_BUNDLE"}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env={**environment, **variables})


@pytest.mark.extended
def test_a_value_of_postgres_that_did_not_change_is_never_lost(no_spark, tmp_path):
    """Bundle 1.2.0 writes Debezium's placeholder over it for good, and shows it in both views alike."""
    (cell,) = cells(["0.15.0"], [KIND])
    run_under_bundle("0.15.0", STEPS, "write", "0.15.0", str(tmp_path), "0.15.0", KIND, timeout_seconds=300)
    table = cell.base(tmp_path, WRITTEN)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "toast.yml").write_text(POLICY.format(table=table))
    before = {file.name for file in table.joinpath(".hoodie").iterdir()}
    for verb in (("plan",), ("apply", "--yes")):
        refused = etc(tmp_path, *verb, ETC_HUDI_BUNDLE=bundle_of("1.2.0"))
        assert f"ETC_HUDI_BUNDLE={bundle_of('0.15.0')}" in " ".join((refused.stdout + refused.stderr).split())
    assert {file.name for file in table.joinpath(".hoodie").iterdir()} - before <= {".etc"}
    done = etc(tmp_path, "apply", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows read by Hudi 0.15.0" in done.stdout
    run_under_bundle("0.15.0", STEPS, "read", "0.15.0", str(tmp_path), "0.15.0", KIND, timeout_seconds=300)
    seen = json.loads((table / SEEN).read_text())
    assert seen["RO"] == seen["RT"]
    assert [seen["RO"][key][1] for key in ("toast", "toast twice")] == ["old", "old"]


@pytest.mark.extended
@pytest.mark.parametrize(("writers", "kinds"), PLAYED.values(), ids=PLAYED)
def test_the_results_are_those_that_are_played(no_spark, tmp_path, monkeypatch, writers, kinds):
    """All of them are played by `python -m tests.integration.payload_matrix`."""
    if FLINK in writers and shutil.which("mvn") is None:
        pytest.skip("Maven is not installed, which fetches Flink")
    told = ["--bundles", *writers, "0.15.0", "1.2.0", "--kinds", *kinds]
    monkeypatch.setattr(sys, "argv", ["play", str(tmp_path), *told])
    with pytest.raises(SystemExit) as ended:
        play()
    assert not ended.value.code


#: Which table of the lake each release has written, and takes.
LAKE = {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}
LAKE_POLICY = """  - name: v{version}
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 10s
    strategy: {{granularity: {granularity}}}
    verify: {{level: logs}}
    writer: {{index: simple, compaction: none}}
"""


@pytest.fixture
def lake(no_spark, tmp_path):
    """A project over tables of three versions, written by stock writers of three releases."""
    policies = "version: 1\npolicies:\n"
    for release, version in LAKE.items():
        table = tmp_path / f"v{version}"
        run_under_bundle(
            release,
            "tests.integration.mixed_lake",
            *(release, str(version), str(table)),
            timeout_seconds=200,
        )
        granularity = "file_slice" if version == 6 else "log_file"
        policies += LAKE_POLICY.format(version=version, table=table, granularity=granularity)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "lake.yml").write_text(policies)
    return tmp_path


def rt_is_as_written(lake):
    return all(Views(None, lake / f"v{version}").rust() == ORACLE.rt() for version in LAKE.values())


class Javas:
    """The Java processes that `etc` has started so far: by their numbers the release that each has loaded."""

    def __init__(self, process):
        self.process, self.seen = process, {}

    def look(self):
        """Those that live now."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        living = [pid for pid in children if b"deploy.SparkSubmit" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        for pid in living:
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    found = BUNDLE_NAME.search(os.readlink(link))
                    self.seen |= {pid: found["hudi"]} if found else {}
        return living

    def watch(self, ends=lambda: False):
        """Until the process has ended, or something has happened."""
        deadline = time.monotonic() + 280
        while self.process.poll() is None and not ends():
            assert time.monotonic() < deadline
            with suppress(FileNotFoundError):  # it has ended meanwhile
                assert len(self.look()) <= 1
            time.sleep(0.1)


def started(lake):
    command = [str(Path(sys.executable).with_name("etc")), "apply", "--yes", "--output", "json", "--at"]
    command += [str(EPOCH_MS + SECOND * 1000 + 10_000), "--project-dir", str(lake)]
    variables = {key: value for key, value in os.environ.items() if key != "ETC_HUDI_BUNDLE"}
    with (lake / "out.json").open("w") as out, (lake / "err.txt").open("w") as err:
        return subprocess.Popen(command, stdout=out, stderr=err, env=variables, start_new_session=True)


@pytest.mark.extended
def test_one_apply_compacts_a_lake_of_three_releases_one_process_after_the_other(lake):
    """Killed as its second release begins, it goes on when it is run again; other readers still open what 1.0 has written."""
    assert rt_is_as_written(lake)
    planned = json.loads(etc(lake, "plan", "--output", "json", "--at", str(EPOCH_MS + SECOND * 1000 + 10_000)).stdout)
    assert {one["release"]: one["table_version"] for one in planned["tables"]} == LAKE

    first = started(lake)
    javas = Javas(first)
    javas.watch(lambda: len(javas.seen) > 1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert list(javas.seen.values()) == ["0.15.0", "1.0.2"], (lake / "err.txt").read_text()
    assert rt_is_as_written(lake)

    second = started(lake)
    javas = Javas(second)
    javas.watch()
    assert second.returncode == 0, (lake / "err.txt").read_text()
    assert list(javas.seen.values()) == ["1.0.2", "1.2.0"]
    results = json.loads((lake / "out.json").read_text())["tables"]
    assert [one["status"] for one in results] == ["nothing_due", "compacted", "compacted"]
    assert [one["verification"]["status"] for one in results] == ["pass"] * 3
    assert rt_is_as_written(lake)
    expected = ORACLE.rt_up_to(SECOND)
    for version in LAKE.values():
        ro = Views(None, lake / f"v{version}").rust(read_optimized=True)
        assert {key: ro.get(key) for key in expected} == expected


@pytest.mark.extended
def test_a_java_that_has_died_is_followed_by_another(no_spark, tmp_path):
    """The table after the one that took all memory has a session, whatever the system has killed."""
    from pyspark import SparkContext

    environment = Environment(tmp_path, lambda _: None, spark_log=tmp_path / "spark.log")
    assert environment.spark.range(2).count() == 2
    java = SparkContext._gateway.proc
    java.kill()
    java.wait()
    again = environment.spark
    assert again.range(3).count() == 3
    stop_spark(again)


@pytest.mark.extended
def test_so_is_one_that_comes_to_no_end(no_spark, tmp_path, monkeypatch):
    """As it does over blocks that lead back to themselves (facts: blocks-that-lead-back)."""
    monkeypatch.setattr(interrupts, "STUCK_SECONDS", 20.0)
    environment = Environment(tmp_path, lambda _: None, spark_log=tmp_path / "spark.log")
    spark = environment.spark

    def hang():
        with suppress(Exception):
            spark.range(16).foreach(lambda _: time.sleep(600))

    threading.Thread(target=hang, daemon=True).start()
    time.sleep(5)
    with pytest.raises(Exception) as stopped:
        spark.range(1).count()  # it waits for a core
    assert java_causes(stopped.value) == "nothing that Java did had ended for 20s, so that etc ended it"
    again = environment.spark
    assert again.range(3).count() == 3
    assert java_causes(ValueError("x")) == "x"
    stop_spark(again)
