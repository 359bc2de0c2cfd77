"""DAGs of the page and faulty ones, run by Airflow itself: its scheduler, triggerer and API, in an environment of its own.

That takes minutes to install. The variable `ETC_TEST_AIRFLOW` names a folder in which it is kept.
"""

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.command_blocks import REPOSITORY, Shell, command_blocks_of
from tests.environments import programs_of
from tests.integration.hudi_tables import StockTable
from tests.integration.prometheus_server import free_port, wait_for
from tests.unit.test_command_blocks import make_table

ETC = Path(sys.executable).parent / "etc"
#: On 2026-01-01, UTC.
HALF_PAST_EIGHT_MS = 1_767_256_200_000
SECONDS = 300
#: `apply` of a table that ends with exit code 0, 3 and 1, and what is wrong in the sensor's own arguments.
CASES = """
from datetime import timedelta
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher
from etc_policy.integrations.airflow import EtcApplyOperator, EtcCompletenessSensor, EtcFreshnessTrigger

PROJECT = {"project_dir": "FOLDER"}
GIVEN = {**PROJECT, "retries": 1, "retry_delay": timedelta(0)}
with DAG("cases", schedule=None):
    for name in ("whole", "damaged", "lost"):
        EtcApplyOperator(task_id=name, select=name, etc="PROGRAM", **GIVEN)
    EtcApplyOperator(task_id="no_option", plan="--version", etc="PROGRAM", **GIVEN)
    EtcApplyOperator(task_id="no_program", etc="/nowhere/etc", **GIVEN)
    skips = EtcApplyOperator(task_id="skips", select="whole", etc="PROGRAM", skip_if_nothing_due=True, **GIVEN)
    skips >> EmptyOperator(task_id="after")
    EtcCompletenessSensor(task_id="utc", policy="whole", until="2026-01-01T00:00:00", **GIVEN)
    EtcCompletenessSensor(task_id="no_time", policy="whole", until="yesterday", **GIVEN)
    EtcCompletenessSensor(task_id="no_policy", policy="hole", until="2026-01-01", **GIVEN)
    EtcCompletenessSensor(task_id="late", policy="whole", until="2999-01-01", timeout=1, soft_fail=True, **GIVEN)
    in_slot = {"deferrable": False, "poke_interval": 1, "timeout": 2}
    EtcCompletenessSensor(task_id="in_slot", policy="whole", until="2999-01-01", **in_slot, **GIVEN)
WATCHERS = [AssetWatcher(name="w", trigger=EtcFreshnessTrigger(policy="damaged", poll_seconds=1, **PROJECT))]
with DAG("watches_damaged", schedule=[Asset("damaged", watchers=WATCHERS)]):
    ...
"""
#: Task of `cases` -> its state, how often it was tried, and what the log of the last try says.
ENDS = {
    "whole": ("success", 1, "whole: verifying (metadata)"),
    "damaged": ("failed", 2, "`etc apply` ended with exit code 3"),
    "lost": ("failed", 1, "`etc apply` ended with exit code 1"),
    "no_option": ("failed", 1, "`etc apply` ended with exit code 64"),
    "no_program": ("failed", 1, "cannot run `/nowhere/etc`"),
    "skips": ("skipped", 1, "nothing is due"),
    "after": ("skipped", 0, ""),
    "utc": ("success", 1, ""),
    "no_time": ("failed", 1, "`until` is not a time in ISO 8601, such as 2013-01-01T18:30:00Z: 'yesterday'"),
    "no_policy": ("failed", 1, "hint: did you mean `whole`?"),
    "late": ("skipped", 1, "cannot be complete up to 2999-01-01"),
    "in_slot": ("failed", 1, "Sensor has timed out"),
}
NEITHER = """
from airflow.sdk import DAG
from etc_policy.integrations.airflow import EtcCompletenessSensor

with DAG("neither", schedule=None):
    EtcCompletenessSensor(task_id="wait", project_dir="FOLDER", policy="whole")
"""


class Airflow:
    """Airflow with its home in a folder; what its processes print is there too."""

    def __init__(self, programs, home):
        port = free_port()
        self.home, self.programs, self.url = home, programs, f"http://127.0.0.1:{port}"
        settings = {
            "CORE__DAGS_FOLDER": str(home / "dags"),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__PARALLELISM": "4",
            "API__HOST": "127.0.0.1",
            "API__PORT": str(port),
            "API__WORKERS": "1",
            "API_AUTH__JWT_SECRET": "a secret of sixty-four bytes and more, for processes of one test alone",
            "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        self.variables = {f"AIRFLOW__{name}": value for name, value in settings.items()}
        self.variables |= {"AIRFLOW_HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "NO_COLOR": "1"}

    @contextlib.contextmanager
    def running(self):
        environment = {**os.environ, **self.variables}
        subprocess.run([self.programs / "airflow", "db", "migrate"], env=environment, check=True, capture_output=True)
        with contextlib.ExitStack() as running:
            for name in ("api-server", "dag-processor", "scheduler --skip-serve-logs", "triggerer --skip-serve-logs"):
                log = running.enter_context((self.home / f"{name.split()[0]}.log").open("w"))
                command = [self.programs / "airflow", *name.split()]
                process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
                running.callback(end, process)
            yield

    def get(self, path, body=None):
        """What the public API answers; with a body it is a POST."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        with urlopen(Request(f"{self.url}/api/v2/{path}", data, headers), timeout=SECONDS) as answer:
            return json.load(answer)

    def start(self, dag):
        return self.get(f"dags/{dag}/dagRuns", {"logical_date": None})["dag_run_id"]

    def runs(self, dag):
        return self.get(f"dags/{dag}/dagRuns")["dag_runs"]

    def tasks(self, dag, run):
        found = self.get(f"dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return {one["task_id"]: (one["state"], one["try_number"]) for one in found}

    def ended(self, dag, run):
        """The tasks of a run that has ended."""
        done = ("success", "failed")
        wait_for(lambda: self.get(f"dags/{dag}/dagRuns/{run}")["state"] in done, SECONDS)
        return self.tasks(dag, run)

    def result(self, dag, run, task):
        entry = self.get(f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value?deserialize=true")
        return entry["value"]

    def events(self, asset):
        """The events of an asset, the first one first; Airflow 3.3.2 answers 500 while a run that one has started is queued."""
        found = wait_for(lambda: self.get("assets/events?order_by=timestamp&limit=100"), SECONDS)
        return [one for one in found["asset_events"] if one["name"] == asset]

    def log(self, dag, run, task, attempt):
        folder = self.home / "logs" / f"dag_id={dag}" / f"run_id={run}" / f"task_id={task}"
        texts = [file.read_text() for file in folder.glob(f"attempt={attempt}.log*")]
        lines = [json.loads(line) for text in texts for line in text.splitlines()]
        return "\n".join(json.dumps(line, ensure_ascii=False).replace("\\n", "\n") for line in lines)


def end(process):
    """End a process and all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)


def python_blocks():
    page = (REPOSITORY / "docs" / "how-to" / "airflow.md").read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def write_project(folder, policies):
    (folder / "policies").mkdir(parents=True)
    (folder / "policies" / "orders.yml").write_text(policies)
    return folder


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The folder of the programs of an environment that has Airflow and this project."""
    return programs_of([f"{REPOSITORY}[airflow]"], "ETC_TEST_AIRFLOW", tmp_path_factory)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The projects: the page's, and one of tables that end in every way."""
    root = tmp_path_factory.mktemp("projects")
    page = (REPOSITORY / "docs" / "how-to" / "partitions.md").read_text("utf-8")
    (policy, *_) = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    settings = "name: shop\nprofiles: {shop: {target: prod, targets: {prod: {}}}}\n"
    policy += "    verify: {level: metadata}\n"
    (write_project(root / "compaction", policy) / "etc_project.yml").write_text(settings)
    known = "event_time_column: {column: ts, unit: ms}, data_latency: 30m, verify: {level: metadata}"
    each = [f"  - {{name: {name}, table: lake/{name}, {known}}}\n" for name in ("whole", "damaged", "lost")]
    cases = write_project(root / "cases", f"version: 1\npolicies:\n{''.join(each)}")
    make_table(cases / "lake" / "whole", due=False)
    damaged = make_table(cases / "lake" / "damaged", due=False)
    (damaged.meta / "hoodie.properties").write_bytes(b"\x00")
    return root


@pytest.fixture(scope="module")
def airflow(programs, places, tmp_path_factory):
    """Airflow with the DAGs of the page and those of the cases, all of them read."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    texts = {"page.py": "\n".join(python_blocks()), "cases.py": CASES}
    names = {"/srv/compaction": str(places / "compaction"), "/srv/etc/bin/etc": str(ETC), "PROGRAM": str(ETC)}
    quick = {'target="prod")': 'target="prod", poll_seconds=1)', "outlets=[DAY]": "outlets=[DAY], poke_interval=1"}
    for file, text in texts.items():
        for old, new in {**names, **quick, "FOLDER": str(places / "cases")}.items():
            text = text.replace(old, new)
        (home / "dags" / file).write_text(text)
    found = Airflow(programs, home)
    with found.running():
        wait_for(lambda: found.get("dags")["total_entries"] == 6, SECONDS)
        yield found


def test_airflow_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "airflow.sdk", None)
    monkeypatch.delitem(sys.modules, "etc_policy.integrations.airflow", raising=False)
    with pytest.raises(ImportError, match=r"Airflow .* is not here: run `.*pip install .*\[airflow\]\"`$"):
        importlib.import_module("etc_policy.integrations.airflow")


@pytest.mark.spark
@pytest.mark.extended
@pytest.mark.timeout(2400)
def test_a_day_is_waited_for_compacted_and_reported(spark, airflow, places, request):
    """The page's DAGs on a real table."""
    options = {
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    table = StockTable(spark, str(places / "orders"), "id int, dt string, placed_at long", "placed_at", options)
    for _ in range(2):
        table.write([(1, "2026-01-01", HALF_PAST_EIGHT_MS)])
    (places / "compaction" / "lake").mkdir()
    (places / "orders").rename(places / "compaction" / "lake" / "orders")  # no event before it has its log file
    (first,) = wait_for(lambda: airflow.events("orders"), SECONDS)
    assert first["extra"]["payload"] == {"policy": "orders_ro", "complete_until": "2026-01-01T07:59:59.999Z"}

    (check,) = command_blocks_of(request.node.originalname)
    assert "No data found" in Shell(places, **airflow.variables).succeeds(check)
    wait_for(lambda: airflow.tasks("orders", "first") == {"wait": ("deferred", 1)}, SECONDS)

    run = airflow.start("compaction")
    assert airflow.ended("compaction", run) == {"apply": ("success", 1)}
    (result,) = airflow.result("compaction", run, "apply")["tables"]
    assert (result["policy"], result["status"]) == ("orders_ro", "compacted")

    assert airflow.ended("orders", "first") == {"wait": ("success", 1)}
    assert [one["partition_key"] for one in airflow.events("orders_of_a_day")] == ["dt=2026-01-01"]
    (report,) = wait_for(lambda: airflow.runs("report"), SECONDS)
    assert report["partition_key"] == "dt=2026-01-01"

    wait_for(lambda: len(airflow.events("orders")) > 1, SECONDS)
    last = datetime.fromisoformat(airflow.events("orders")[-1]["extra"]["payload"]["complete_until"])
    assert 0 < (datetime.now(UTC) - last).total_seconds() < 2 * 3600
    assert wait_for(lambda: airflow.runs("refresh"), SECONDS)


@pytest.mark.extended
@pytest.mark.timeout(2400)
def test_each_end_of_etc_is_the_right_end_of_a_task(airflow):
    run = airflow.start("cases")
    assert airflow.ended("cases", run) == {task: (state, tries) for task, (state, tries, _) in ENDS.items()}
    unsaid = [
        task for task, (_, tries, said) in ENDS.items() if said not in airflow.log("cases", run, task, tries or 1)
    ]
    assert unsaid == []
    (result,) = airflow.result("cases", run, "whole")["tables"]
    assert (result["status"], result["instant"]) == ("nothing_due", None)


@pytest.mark.extended
@pytest.mark.timeout(2400)
def test_a_sensor_of_neither_a_time_nor_a_partition_is_an_error_of_its_file(airflow):
    (airflow.home / "dags" / "neither.py").write_text(NEITHER)
    (error,) = wait_for(lambda: airflow.get("importErrors")["import_errors"], SECONDS)
    assert "ValueError: give either `until` or `partition`" in error["stack_trace"]


@pytest.mark.extended
@pytest.mark.timeout(2400)
def test_a_table_that_cannot_be_read_gives_no_event(airflow):
    log = airflow.home / "triggerer.log"
    read = "hoodie.properties of "
    wait_for(lambda: log.read_text().count(read) > 2, SECONDS)
    time.sleep(2)
    assert airflow.events("damaged") == []
