"""Events of `etc apply` as OpenLineage's own client sends them, by HTTP and to a file, checked by its schemas."""

import json
import os
import re
import socket
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from etc_policy.api import observers
from etc_policy.table.state import Instant
from tests.command_blocks import REPOSITORY, Shell, command_blocks_of
from tests.environments import installed_extra
from tests.integration.prometheus_server import free_port
from tests.unit.api.test_partition_events import drip
from tests.unit.cli.conftest import etc  # noqa: F401 - a fixture
from tests.unit.cli.test_apply import NOON, outside  # noqa: F401 - a fixture
from tests.unit.plan.plan_cases import instant
from tests.unit.plan.states import C
from tests.unit.test_command_blocks import make_table

SCHEMAS = {path.stem: json.loads(path.read_text()) for path in Path(__file__).with_name("openlineage").glob("*.json")}
REGISTRY = Registry().with_resources([(one["$id"], Resource.from_contents(one)) for one in SCHEMAS.values()])
POLICY = """version: 1
policies:
  - {name: orders_ro, table: lake/orders, event_time_column: {column: ts, unit: ms}, data_latency: 30m,
    writer: {index: simple, compaction: none}, verify: {level: metadata}}
"""
PARENT = "0195f3ae-7a15-7c5f-8d3e-0f4c5a6b7c8d"


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    return installed_extra("openlineage", tmp_path_factory)


@pytest.fixture
def client(packages, monkeypatch):
    """The client can be imported, and nothing is configured."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])


@pytest.fixture
def apply(etc, client, outside, monkeypatch):  # noqa: F811
    """Runs `etc apply` with these variables."""

    def run(*arguments, **variables):
        before = dict(os.environ)
        with monkeypatch.context() as patched:
            for name, value in variables.items():
                patched.setenv(name, value)
            answer = etc("apply", "--at", NOON, "--yes", *arguments)
        assert dict(os.environ) == before
        return answer

    return run


class Server:
    """Takes events, or answers with a status."""

    def __init__(self, status=201):
        self.events, self.status = [], status


@contextmanager
def server(status=201):
    found = Server(status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            found.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            assert self.path == "/api/v1/lineage"
            self.send_response(found.status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        found.url = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield found
        http.shutdown()
        thread.join()


def faults(event):
    """What is wrong with an event and its facets, each by the schema that it names."""
    found = [event, *event["run"]["facets"].values(), *event["job"]["facets"].values()]
    for dataset in (*event["inputs"], *event["outputs"]):
        for kind in ("facets", "inputFacets", "outputFacets"):
            found += dataset.get(kind, {}).values()
    for part in found:
        schema = {"$ref": part.get("schemaURL") or part["_schemaURL"]}
        validator = Draft202012Validator(schema, registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER)
        yield from validator.iter_errors(part)


def shape(event):
    return event["eventType"], event["job"]["name"]


@pytest.mark.extended
def test_each_table_has_a_run_with_its_completeness_and_its_checks(apply):
    with server() as found:
        code, _, err = apply(
            OPENLINEAGE_URL=found.url, OPENLINEAGE_NAMESPACE="shop", OPENLINEAGE_PARENT_ID=f"dags/night/{PARENT}"
        )
    assert (code, "OpenLineage" in err) == (0, False)
    names = ["etc_apply.orders_ro", "etc_apply.payments_ro"]
    assert sorted(map(shape, found.events)) == [(kind, name) for kind in ("COMPLETE", "START") for name in names]
    assert [list(faults(event)) for event in found.events] == [[]] * 4
    by_run = {}
    for event in found.events:
        by_run.setdefault(event["run"]["runId"], []).append(event["eventType"])
    assert list(by_run.values()) == [["START", "COMPLETE"]] * 2
    last = next(event for event in found.events if shape(event) == ("COMPLETE", names[0]))
    assert last["job"]["namespace"] == "shop"
    parent = last["run"]["facets"]["parent"]
    assert (parent["job"], parent["run"]["runId"]) == ({"namespace": "dags", "name": "night", "facets": {}}, PARENT)
    (read,), (written,) = last["inputs"], last["outputs"]
    assert (read["namespace"], read["name"]) == (written["namespace"], written["name"]) == ("file", "/t")
    known = {name: value for name, value in written["facets"]["etc_completeness"].items() if not name.startswith("_")}
    eleven = 1_767_265_200_000
    assert known == {
        "status": "compacted",
        "threshold_ms": eleven,
        "complete_until_ms": eleven,
        "proof_level": "metadata",
        "instant": C,
    }
    assert written["outputFacets"]["outputStatistics"]["size"] == 5
    checks = read["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert checks
    assert all(one["success"] for one in checks)


@pytest.mark.extended
def test_a_table_that_is_not_compacted_is_a_run_that_fails(apply, outside):  # noqa: F811
    outside.lost.add("payments_ro")
    table, pending = outside.tables["orders_ro"], Instant(instant("11:59:00"), "clustering", "requested")
    table.state = replace(table.state, instants=(*table.state.instants, pending))
    with server() as found:
        code, _, _ = apply(OPENLINEAGE_URL=found.url)
    last = {event["job"]["name"]: event for event in found.events if event["eventType"] == "FAIL"}
    assert code != 0
    lost = last["etc_apply.payments_ro"]
    assert lost["run"]["facets"]["errorMessage"]["message"] == "no such table"
    refused = last["etc_apply.orders_ro"]
    assert "clustering" in refused["run"]["facets"]["errorMessage"]["message"]
    assert refused["outputs"] == []
    assert [list(faults(event)) for event in found.events] == [[]] * len(found.events)
    assert len(found.events) == 4


@pytest.mark.extended
def test_a_plan_that_nobody_wants_is_a_run_that_is_given_up(apply, monkeypatch):
    monkeypatch.setattr("etc_policy.cli.apply._confirmed", lambda *_, **__: False)
    with server() as found:
        apply(OPENLINEAGE_URL=found.url)
    assert [event["eventType"] for event in found.events] == ["START", "ABORT"] * 2


@pytest.mark.extended
def test_events_go_to_a_file_that_openlineage_yml_names(apply, outside):  # noqa: F811
    file = outside.project_dir / "events.json"
    (outside.project_dir / "openlineage.yml").write_text(
        f"transport: {{type: file, log_file_path: {file}, append: true}}\n"
    )
    assert apply(OPENLINEAGE_DISABLED="true")[0] == 0
    assert not file.exists()
    assert apply()[0] == 0
    assert len(file.read_text().splitlines()) == 4


@pytest.mark.extended
def test_events_are_written_as_the_page_says(tmp_path, packages, request):
    (configuration,) = re.findall(
        r"^```yaml\n(.*?)^```$", (REPOSITORY / "docs/how-to/openlineage.md").read_text(), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "openlineage.yml").write_text(configuration)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "orders.yml").write_text(POLICY)
    make_table(tmp_path / "lake" / "orders", due=False)
    (block,) = command_blocks_of(request.node.originalname)
    Shell(tmp_path, PYTHONPATH=str(packages)).succeeds(block)
    start, complete = map(json.loads, (tmp_path / "lineage.json").read_text().splitlines())
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert (complete["job"]["namespace"], list(faults(complete))) == ("compaction", [])
    assert complete["inputs"][0]["name"] == str(tmp_path / "lake" / "orders")
    assert complete["inputs"][0]["facets"]["etc_completeness"]["status"] == "nothing_due"


@pytest.mark.extended
@pytest.mark.parametrize("status", [500, 400, None])
def test_a_broken_server_is_one_warning(apply, status):
    with server(status) as found:
        url = found.url if status else f"http://127.0.0.1:{free_port()}"
        code, _, err = apply(OPENLINEAGE_URL=url)
    assert (code, err.count("ETC357")) == (0, 1)
    assert "Traceback" not in err


@pytest.mark.extended
def test_a_server_that_drips_is_one_warning(apply, monkeypatch):
    """The client's own timeout is for each byte: the run, and the lease of its table, stood for ever."""
    monkeypatch.setattr(observers, "_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as drips:
        threading.Thread(target=drip, args=(drips,), daemon=True).start()
        url = f"http://127.0.0.1:{drips.getsockname()[1]}"
        code, _, err = apply(OPENLINEAGE_URL=url)
    assert (code, err.count("ETC357")) == (0, 1)
    assert "no whole answer within 1 s" in err


@pytest.mark.extended
def test_a_file_that_says_nothing_is_one_warning(apply, outside):  # noqa: F811
    (outside.project_dir / "openlineage.yml").write_text("transport: [\n")
    code, _, err = apply()
    assert (code, err.count("ETC357")) == (0, 1)
