"""Debian's Prometheus, started for a test on 127.0.0.1, and asked over its own interface."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

TIMEOUT_SECONDS = 30


def require(program: str) -> str:
    """The path of a program that `.ci/run` installs; elsewhere a test without it is skipped."""
    path = shutil.which(program)
    if path is None and not os.environ.get("CI"):
        pytest.skip(f"{program} is not installed")
    assert path is not None, f"{program} is not installed"
    return path


def promtool(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [require("promtool"), *arguments], input=text, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:
        query = f"?{urlencode(parameters)}" if parameters else ""
        with urlopen(f"{self.url}/api/v1/{path}{query}", timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)["data"]

    def value(self, expression: str) -> list[tuple[dict[str, str], float]]:
        found = self.get("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]


@contextmanager
def prometheus(folder: Path, scrape: str, rules: Path) -> Iterator[Prometheus]:
    """A server that scrapes `host:port` every second and has loaded the rules."""
    folder.mkdir()
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: ['{rules}']\n"
        f"scrape_configs: [{{job_name: etc, static_configs: [{{targets: ['{scrape}']}}]}}]\n"
    )
    port = free_port()
    arguments = (f"--config.file={config}", f"--storage.tsdb.path={folder}", f"--web.listen-address=127.0.0.1:{port}")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([require("prometheus"), *arguments], stdout=log, stderr=log)
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        wait_for(lambda: server.get("status/buildinfo"))
        yield server
    finally:
        process.terminate()
        process.wait(timeout=TIMEOUT_SECONDS)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(ask: Any, seconds: float = TIMEOUT_SECONDS) -> Any:
    """The first answer that is not empty; an unanswered connection counts as none."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = ask()
        except URLError:
            found = None
        if found:
            return found
        assert time.monotonic() < deadline, "no answer in time"
        time.sleep(0.2)
