"""yaml-language-server itself checks the file of `etc init` by the schema that its first line names."""

import json
import os
import subprocess
from contextlib import contextmanager

import pytest

from etc_policy.cli.main import main
from tests.integration.prometheus_server import require

#: A catalog of schemas is elsewhere; the first line needs none.
SETTINGS = {"yaml": {"validate": True, "schemaStore": {"enable": False}}}


class Editor:
    """An editor that has started the server, as the Language Server Protocol says."""

    def __init__(self, process):
        self.process, self.last = process, 0
        self.ask("initialize", processId=os.getpid(), rootUri=None, capabilities={"workspace": {"configuration": True}})
        self.send({"method": "initialized", "params": {}})

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def read(self):
        """The next message that is no question; questions are answered."""
        while True:
            length = 0
            while line := self.process.stdout.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            assert length, "the server has ended"
            message = json.loads(self.process.stdout.read(length))
            if "id" not in message or "method" not in message:
                return message
            items = message["params"]["items"] if message["method"] == "workspace/configuration" else []
            self.send({"id": message["id"], "result": [SETTINGS.get(one["section"], {}) for one in items]})

    def ask(self, method, **params):
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params})
        while self.read().get("id") != self.last:
            pass

    def problems(self, path):
        """Line and message of each problem in a file."""
        document = {"uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": path.read_text()}
        self.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        while True:
            message = self.read()
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == path.as_uri():
                found = message["params"]["diagnostics"]
                return [(one["range"]["start"]["line"] + 1, one["message"]) for one in found]


@contextmanager
def editor(folder):
    npm = [require("npm"), "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder)]
    subprocess.run([*npm, "yaml-language-server@1"], check=True, timeout=300)
    server = [folder / "node_modules" / ".bin" / "yaml-language-server", "--stdio"]
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Editor(process)
        finally:
            process.terminate()


@pytest.mark.extended
@pytest.mark.timeout(400)
def test_an_editor_shows_what_is_wrong_in_a_policy(tmp_path):
    project = tmp_path / "project"
    assert main(["init", str(project)]) == 0
    right = project / "policies" / "orders.yml"
    lines = right.read_text().splitlines()
    at = next(number for number, line in enumerate(lines, 1) if line.startswith("    data_latency:"))
    wrong = project / "policies" / "wrong.yml"
    wrong.write_text("\n".join([*lines[: at - 1], "    data_latency: [30m]", "    latency: 30m", *lines[at:]]))
    with editor(tmp_path / "npm") as opened:
        assert opened.problems(right) == []
        found = dict(opened.problems(wrong))
        assert sorted(found) == [at, at + 1]
        assert "latency" in found[at + 1]
