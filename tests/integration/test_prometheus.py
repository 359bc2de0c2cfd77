"""A real Prometheus scrapes `etc metrics serve`, loads the rules, and can answer every query of the dashboard."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from etc_policy.report.metrics import GAUGES
from etc_policy.report.results import RunResults
from etc_policy.table.history import THRESHOLD
from tests.integration.prometheus_server import prometheus, promtool, wait_for
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms
from tests.unit.report.test_metrics import RUN

REPOSITORY = Path(__file__).resolve().parents[2]
TEMPLATES = REPOSITORY / "templates" / "observability"
RULES = TEMPLATES / "prometheus-rules.yml"
POLICIES = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 1h
    freshness: {target: 2h, warn_after: 2h, error_after: 3h}
  - {name: gone, table: lake/gone, event_time_column: ts, data_latency: 1h}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "policies").mkdir()
    (folder / "policies" / "a.yml").write_text(POLICIES)
    orders = TableFolder(folder / "lake" / "orders")
    orders.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    for minute in range(20):
        orders.commit(
            at(f"09:{minute:02}:00"), at(f"09:{minute:02}:05"), log("f1", min_event=epoch_ms(f"08:{minute:02}:00"))
        )
    orders.compaction(at("09:30:00"), at("09:30:05"), base("f1"), extra={THRESHOLD: str(epoch_ms("08:30:00"))})
    orders.commit(at("11:00:00"), at("11:00:05"), log("f1", min_event=epoch_ms("08:20:00")))
    (folder / "target").mkdir()
    run = RUN.model_copy(update={"base_path": str(folder / "lake" / "orders")})
    (folder / "target" / "run_results.json").write_text(RunResults(plan_id="x", tables=(run,)).model_dump_json())
    return folder


@pytest.fixture(scope="module")
def endpoint(project):
    """The URL that a running `etc metrics serve` prints."""
    arguments = ("metrics", "serve", "--port", "0", "--max-age", "0", "--project-dir", str(project))
    with (project / "serve.log").open("w") as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "etc_policy.cli.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=log_file,
            text=True,
            cwd=REPOSITORY,
        )
    try:
        url = process.stdout.readline().strip()
        assert url, (project / "serve.log").read_text()
        yield url
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture(scope="module")
def server(endpoint, tmp_path_factory):
    host = endpoint.removeprefix("http://").removesuffix("/metrics")
    with prometheus(tmp_path_factory.mktemp("prometheus") / "data", host, RULES) as running:
        wait_for(lambda: running.value("etc_table_readable"))
        yield running


def dashboard_queries():
    panels = json.loads((TEMPLATES / "grafana-dashboard.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_promtool_finds_no_fault_with_the_rules(tmp_path):
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stderr
    shutil.copy(RULES, tmp_path / "rules.yml")
    shutil.copy(Path(__file__).with_name("alerts.yml"), tmp_path)
    tested = promtool("test", "rules", str(tmp_path / "alerts.yml"))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_promtool_finds_no_fault_with_the_metrics(endpoint):
    with urlopen(endpoint, timeout=30) as answer:
        text = answer.read().decode()
    checked = promtool("check", "metrics", text=text)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert promtool("check", "metrics", text=text.replace("_bytes", "_kilobytes")).returncode != 0


def test_what_prometheus_has_scraped(server, project):
    named = {"policy": "orders_ro", "table": str(project / "lake" / "orders"), "target": "default"}
    ((labels, value),) = server.value("etc_log_files_min_event_timestamp_seconds")
    assert value == epoch_ms("08:20:00") / 1000
    assert named.items() <= labels.items()
    readable = {labels["policy"]: value for labels, value in server.value("etc_table_readable")}
    assert readable == {"orders_ro": 1, "gone": 0}
    scraped = {labels["__name__"] for labels, _ in server.value('{__name__=~"etc_.*"}')}
    # only of policies that say when a partition is done, or that send its events: this one does neither
    of_partitions = {
        "etc_partitions",
        "etc_partitions_unparsed",
        "etc_partition_reopenings",
        "etc_partition_events_unsent",
    }
    assert scraped == {gauge.name for gauge in GAUGES} - of_partitions
    ((_, lag),) = server.value("etc_completeness_lag_seconds")
    ((_, until),) = server.value("time() - etc_complete_until_timestamp_seconds")
    assert abs(lag - until) < 60


def test_a_look_at_the_tables_for_each_scrape(server):
    ((_, first),) = server.value('etc_observed_timestamp_seconds{policy="orders_ro"}')
    wait_for(lambda: server.value(f'etc_observed_timestamp_seconds{{policy="orders_ro"}} > {first}'))


def test_the_rules_are_loaded_and_evaluate(server):
    def evaluated():
        """The rules by name, once all have been evaluated on what was scraped."""
        (group,) = server.get("rules")["groups"]
        rules = {rule["name"]: rule for rule in group["rules"]}
        seen = all(rule["health"] != "unknown" for rule in rules.values())
        return seen and rules["EtcTableStale"]["state"] == "pending" and rules

    rules = wait_for(evaluated)
    assert {rule["health"] for rule in rules.values()} == {"ok"}
    states = {name: rule["state"] for name, rule in rules.items()}
    assert states["EtcTableUnknown"] == states["EtcLateData"] == "pending"
    assert states["EtcRunFailed"] == states["EtcVerificationFailed"] == "inactive"


@pytest.mark.parametrize("query", dashboard_queries(), ids=range(len(dashboard_queries())))
def test_the_dashboard_s_queries(server, query):
    assert server.value(query.replace("$policy", ".*").replace("$target", ".*")), query


def test_rules_and_dashboard_name_only_gauges_that_exist():
    text = RULES.read_text() + json.dumps(dashboard_queries())
    assert set(re.findall(r"\betc_\w+", text)) <= {gauge.name for gauge in GAUGES}
