"""`etc mcp` asked by the SDK's own client over its standard input and output, and by the protocol's conformance tool."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.environments import installed_extra
from tests.integration.prometheus_server import free_port, require, wait_for
from tests.unit.test_command_blocks import make_table

ETC = str(Path(sys.executable).with_name("etc"))
POLICIES = """version: 1
policies:
  - {name: orders_ro, table: lake/orders, event_time_column: {column: ts, unit: ms}, data_latency: 30m,
    writer: {index: simple, compaction: none}}
  - {name: damaged_ro, table: lake/damaged, event_time_column: {column: ts, unit: ms}, data_latency: 30m,
    writer: {index: simple, compaction: none}}
"""
LOOP = "{% for _ in range(9999) %}" * 3 + "{% endfor %}" * 3  # years
ENDLESS = POLICIES.replace("lake/orders", f"'{LOOP}'")
TOOLS = ["debug", "explain", "freshness", "history", "ls", "plan"]
CONFORMANCE = "@modelcontextprotocol/conformance@0.1.13"
#: Those of its scenarios that need no tools of their own.
SCENARIOS = ("server-initialize", "ping", "tools-list")
#: Calls each tool that it is given by JSON, and prints the answers as JSON.
CLIENT = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters

async def main(command, env, calls):
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=env)
    async with Client(parameters) as client:
        tools = (await client.list_tools()).tools
        answers = [await client.call_tool(name, arguments) for name, arguments in calls]
    print(json.dumps({
        "tools": {tool.name: tool.annotations.read_only_hint for tool in tools},
        "answers": [[answer.is_error, "".join(part.text for part in answer.content)] for answer in answers],
    }))

asyncio.run(main(*json.loads(sys.argv[1])))
"""
SERVER = """
import sys
from pathlib import Path
from etc_policy.integrations.mcp import server_of
from etc_policy.cli.options import Flags

folder, port = sys.argv[1:]
server_of(Flags(Path(folder), target_dir=Path(folder, "target"))).run(
    transport="streamable-http", host="127.0.0.1", port=int(port)
)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    return installed_extra("mcp", tmp_path_factory)


@pytest.fixture
def project(tmp_path):
    """Two tables: one has log files that are due, the other cannot be read."""
    folder = tmp_path / "project"
    (folder / "policies").mkdir(parents=True)
    (folder / "policies" / "orders.yml").write_text(POLICIES)
    make_table(folder / "lake" / "orders")
    (make_table(folder / "lake" / "damaged", due=False).meta / "hoodie.properties").write_bytes(b"\x00")
    return folder


@pytest.fixture
def asked(packages, project, tmp_path):
    """Calls tools: the server's tools, and an answer for each call as (is it an error, its text)."""

    def ask(*calls):
        variables = {"PYTHONPATH": str(packages), "HOME": str(tmp_path)}
        given = [[ETC, "mcp", "--project-dir", str(project)], variables, calls]
        command = [sys.executable, "-c", CLIENT, json.dumps(given)]
        done = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        return found["tools"], [tuple(one) for one in found["answers"]]

    return ask


def files(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


@pytest.mark.extended
def test_each_tool_answers_as_the_terminal_does_and_nothing_is_written(asked, project):
    before = files(project)
    tools, answers = asked(
        ("ls", {}),
        ("freshness", {}),
        ("plan", {"select": "orders_ro", "at": "2026-01-02T00:00:00Z", "explain": True}),
        ("history", {"policy": "orders_ro"}),
        ("debug", {"select": "orders_ro"}),
        ("explain", {"code": "ETC405"}),
    )
    assert (sorted(tools), set(tools.values())) == (TOOLS, {True})
    listed, fresh, planned, past, checked, explained = (text for _, text in answers)
    assert [is_error for is_error, _ in answers] == [False] * 6
    assert listed.splitlines()[0].split()[:2] == ["policy", "table"]
    assert "UNKNOWN damaged_ro" in fresh
    assert "2 of 2 log files" in planned
    assert past.startswith("orders_ro")
    assert "0 errors" in checked.splitlines()[-1]
    assert explained.startswith("ETC405")
    assert files(project) == before


@pytest.mark.extended
def test_what_is_not_there_is_an_error_of_the_tool_that_says_so(asked, project):
    _, answers = asked(
        ("plan", {"select": "order_ro"}),
        ("history", {"policy": "damaged_ro"}),
        ("freshness", {"at": "yesterday"}),
        ("explain", {"code": "ETC999"}),
        ("apply", {}),
        ("freshness", {"select": "\x1b[31mred\u202e"}),
    )
    assert [is_error for is_error, _ in answers] == [True] * 6
    unknown, damaged, _, code, write, hostile = (text for _, text in answers)
    assert "hint: did you mean `orders_ro`?" in unknown
    assert "hoodie.properties" in damaged
    assert "there is no code, key or page `ETC999`" in code
    assert "apply" in write
    assert ("\\x1b[31mred\\u202e" in hostile, "\x1b" in hostile) == (True, False)


@pytest.mark.extended
@pytest.mark.parametrize(("text", "said"), [("version: [\n", "policies/orders.yml:"), (ENDLESS, "steps")])
def test_a_broken_project_is_an_error_within_its_limits(asked, project, text, said):
    (project / "policies" / "orders.yml").write_text(text)
    ((is_error, answer),) = asked(("plan", {}))[1]
    assert (is_error, said in answer) == (True, True)


@pytest.mark.extended
def test_the_conformance_tool_of_the_protocol_finds_nothing(packages, project, tmp_path):
    """It speaks HTTP alone, so that the server is served by that here."""
    install = [require("npm"), "install", "--silent", "--no-audit", "--no-fund", CONFORMANCE]
    kept = os.environ.get("ETC_TEST_EXTRAS")
    folder = Path(kept, "conformance") if kept else tmp_path / "conformance"
    folder.mkdir(exist_ok=True)
    if not (folder / "node_modules").exists():
        subprocess.run(install, cwd=folder, check=True)
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    served = subprocess.Popen(
        [sys.executable, "-c", SERVER, project, str(port)],
        env={**os.environ, "PYTHONPATH": str(packages)},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: answers(url), 60)
        for scenario in SCENARIOS:
            tool = [folder / "node_modules" / ".bin" / "conformance", "server", "--url", url, "--scenario", scenario]
            done = subprocess.run(tool, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
            assert (done.returncode, "Passed: 1/1, 0 failed, 0 warnings" in done.stdout) == (0, True), done.stdout
    finally:
        served.terminate()
        served.wait(30)


def answers(url):
    with suppress(HTTPError):
        urlopen(url, timeout=10).close()
    return True
