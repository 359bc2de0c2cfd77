"""Spark's own standalone cluster on 127.0.0.1: a master and workers, each a process of its own, from PySpark's jars."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.integration.prometheus_server import TIMEOUT_SECONDS, free_port, wait_for
from tests.maven_jars import java_home

SPARK_HOME = Path(str(find_spec("pyspark").origin)).parent
HOST = "127.0.0.1"
#: Machines of a cluster may be in another zone than who asks them.
WORKERS_ZONE = "Asia/Tokyo"


@dataclass
class Cluster:
    """A running master; `start_workers` adds to it. What its processes print is in `folder`."""

    folder: Path
    port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def state(self) -> dict[str, Any]:
        """What the master itself says of its workers and applications."""
        with urlopen(f"http://{HOST}:{self.web_port}/json/", timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)

    def workers(self) -> list[dict[str, Any]]:
        return [one for one in self.state()["workers"] if one["state"] == "ALIVE"]

    def start_master(self) -> None:
        self._start("Master", "--port", str(self.port), "--webui-port", str(self.web_port))
        wait_for(self.state)

    def start_workers(self, number: int = 2) -> None:
        """Workers of one core and 1 GiB each."""
        for one in range(number):
            work = self.folder / f"worker-{one}"
            work.mkdir()
            own = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(work))
            self._start("Worker", *own, self.master, name=f"worker-{one}")
        wait_for(lambda: len(self.workers()) == number)

    def _start(self, role: str, *arguments: str, name: str = "master") -> None:
        java = java_home() / "bin" / "java"
        command = [java, "-Xmx256m", "-cp", f"{SPARK_HOME / 'jars'}/*"]
        command += [f"org.apache.spark.deploy.{role.lower()}.{role}", "--host", HOST, *arguments]
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_SCALA_VERSION": "2.12",
        }
        environment["TZ"] = WORKERS_ZONE
        with (self.folder / f"{name}.log").open("w") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self.folder))

    def stop(self) -> None:
        """End the workers, then the master."""
        for process in reversed(self.processes):
            process.terminate()
            process.wait(timeout=TIMEOUT_SECONDS)


@contextmanager
def standalone_cluster(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(folder)
    try:
        cluster.start_master()
        cluster.start_workers(workers)
        yield cluster
    finally:
        cluster.stop()
