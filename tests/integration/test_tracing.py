"""Spans of `etc apply` as OpenTelemetry's SDK exports them, decoded from OTLP by a real HTTP server."""

import socket
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from etc_policy.integrations import opentelemetry
from tests.command_blocks import Shell, command_blocks_of
from tests.environments import installed_extra
from tests.integration.prometheus_server import free_port
from tests.unit.api.test_partition_events import drip
from tests.unit.cli.conftest import etc  # noqa: F401 - a fixture
from tests.unit.cli.test_apply import NOON, outside  # noqa: F401 - a fixture
from tests.unit.plan.states import C
from tests.unit.test_command_blocks import make_table

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
POLICY = """version: 1
policies:
  - {name: orders_ro, table: lake/orders, event_time_column: {column: ts, unit: ms}, data_latency: 30m,
    writer: {index: simple, compaction: none}, verify: {level: metadata}}
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    return installed_extra("otel", tmp_path_factory)


@pytest.fixture
def apply(etc, outside, packages, monkeypatch):  # noqa: F811
    """Runs `etc apply` with these variables."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])

    def run(*arguments, **variables):
        with monkeypatch.context() as patched:
            for name, value in variables.items():
                patched.setenv(name, value)
            return etc("apply", "--at", NOON, "--yes", *arguments)

    return run


@contextmanager
def server(status=200, port=0):
    """Takes what is exported: gives the requests' bodies."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield bodies, f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def decoded(bodies):
    """The service; its spans as (name, policy, parent's name, status code), the first one first; their attributes; themselves."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    requests = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    groups = [group for request in requests for group in request.resource_spans]
    (service,) = {
        one.value.string_value for group in groups for one in group.resource.attributes if one.key == "service.name"
    }
    spans = [span for group in groups for scope in group.scope_spans for span in scope.spans]
    spans.sort(key=lambda span: span.start_time_unix_nano)
    names = {span.span_id: span.name for span in spans}
    attributes = [{one.key: one.value.string_value or one.value.int_value for one in span.attributes} for span in spans]
    shapes = [
        (span.name, known.get("etc.policy"), names.get(span.parent_span_id), span.status.code)
        for span, known in zip(spans, attributes, strict=True)
    ]
    return service, shapes, attributes, spans


@pytest.mark.extended
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_run_is_a_tree_of_its_steps(apply, outside, jobs):  # noqa: F811
    outside.compaction_jobs = int(jobs)
    with server() as (bodies, url):
        code, _, err = apply(OTEL_EXPORTER_OTLP_ENDPOINT=url, TRACEPARENT=PARENT)
    assert (code, "ETC357" in err) == (0, False)
    service, shapes, attributes, spans = decoded(bodies)
    assert (service, shapes[0]) == ("etc", ("etc apply", None, None, 0))
    assert (spans[0].trace_id.hex(), spans[0].parent_span_id.hex()) == tuple(PARENT.split("-")[1:3])
    each = [
        [
            ("apply", name, "etc apply", 0),
            ("finish pending", name, "etc apply", 0),
            ("verify", name, "apply", 0),
        ]
        for name in ("orders_ro", "payments_ro")
    ]
    assert sorted(shapes[1:], key=str) == sorted([("plan", None, "etc apply", 0), *each[0], *each[1]], key=str)
    (applied,) = (one for one, shape in zip(attributes, shapes, strict=True) if shape == each[0][0])
    assert (applied["etc.status"], applied["etc.instant"]) == ("compacted", C)
    assert {one.get("etc.level") for one in attributes} == {None, "metadata"}


@pytest.mark.extended
def test_a_table_that_fails_is_a_span_that_failed(apply, outside):  # noqa: F811
    def broken(_):
        raise RuntimeError("no disk")

    outside.tables["orders_ro"].changes = [lambda state: state, lambda state: state, broken]
    with server() as (bodies, url):
        code, _, _ = apply(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{url}/v1/traces", OTEL_SERVICE_NAME="shop")
    service, shapes, *_ = decoded(bodies)
    assert code != 0
    assert service == "shop"
    assert ("apply", "orders_ro", "etc apply", 2) in shapes
    assert ("apply", "payments_ro", "etc apply", 0) in shapes


@pytest.mark.extended
@pytest.mark.parametrize("status", [400, 503, None])
def test_a_broken_server_is_one_warning(apply, status):
    with server(status) as (_, url):
        given = url if status else f"http://127.0.0.1:{free_port()}"
        code, _, err = apply(OTEL_EXPORTER_OTLP_ENDPOINT=given, OTEL_EXPORTER_OTLP_TIMEOUT="2")
    assert (code, err.count("ETC357"), "Traceback" in err) == (0, 1, False)


@pytest.mark.extended
def test_rounds_leave_one_thread_of_an_exporter_that_hangs(apply, monkeypatch):
    """Its SDK gives its thread up after a while, one in each round of `etc run`."""
    monkeypatch.setattr(opentelemetry, "_LEFT", set())
    with socket.create_server(("127.0.0.1", 0)) as drips:
        threading.Thread(target=drip, args=(drips,), daemon=True).start()
        url = f"http://127.0.0.1:{drips.getsockname()[1]}"
        began = {*threading.enumerate()}
        said = [apply(OTEL_EXPORTER_OTLP_ENDPOINT=url) for _ in range(3)]
        left = [one for one in {*threading.enumerate()} - began if one.name.startswith("Otel")]
    assert [code for code, _, _ in said] == [0, 0, 0]
    assert ["an earlier run" in err for _, _, err in said] == [False, True, True]
    assert len(left) == 1


@pytest.mark.extended
@pytest.mark.parametrize(
    "variables",
    [{"OTEL_TRACES_EXPORTER": "zipkin"}, {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}],
)
def test_an_exporter_that_is_not_installed_is_one_warning(apply, variables):
    code, _, err = apply(**variables)
    assert (code, err.count("ETC357"), err.count("is not installed")) == (0, 1, 1)


@pytest.mark.extended
def test_spans_are_sent_as_the_page_says(tmp_path, packages, request):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "orders.yml").write_text(POLICY)
    make_table(tmp_path / "lake" / "orders", due=False)
    (block,) = command_blocks_of(request.node.originalname)
    port = free_port()
    with server(port=port) as (bodies, _):
        Shell(tmp_path, PYTHONPATH=str(packages)).succeeds(block.replace(":4318", f":{port}"))
    sys.path.append(str(packages))
    try:
        service, shapes, *_ = decoded(bodies)
    finally:
        sys.path.remove(str(packages))
    assert (service, shapes[0][0]) == ("compaction", "etc apply")
