"""YARN's own ResourceManager and NodeManagers on 127.0.0.1, each a process of its own, over an HDFS cluster of the tests."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.hdfs_cluster import PYSPARK_PATTERNS, HdfsCluster
from tests.integration.prometheus_server import TIMEOUT_SECONDS, free_port, wait_for
from tests.integration.standalone_cluster import SPARK_HOME
from tests.maven_jars import jars_of, java_home

POM = Path(__file__).with_name("pom.xml")
HOST = "127.0.0.1"
_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODE = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
#: The ResourceManager's addresses; a port each.
_ADDRESSES = ("", ".scheduler", ".resource-tracker", ".admin", ".webapp")
_SETTINGS = {
    "yarn.nodemanager.hostname": HOST,
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    # beside an application's master there is room for one executor: the other one is on the other node
    "yarn.nodemanager.resource.memory-mb": "2304",
    "yarn.nodemanager.resource.cpu-vcores": "4",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
    "yarn.nodemanager.delete.debug-delay-sec": "3600",
    "yarn.scheduler.minimum-allocation-mb": "128",
    # a node that is silent for so long is lost, and its containers with it
    "yarn.nm.liveness-monitor.expiry-interval-ms": "6000",
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "500",
    "yarn.am.liveness-monitor.expiry-interval-ms": "20000",
    "yarn.resourcemanager.am.max-attempts": "1",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
    "yarn.scheduler.capacity.root.queues": "default,closed",
    "yarn.scheduler.capacity.root.default.capacity": "99",
    # it takes applications, and has no room for any container
    "yarn.scheduler.capacity.root.closed.capacity": "1",
    "yarn.scheduler.capacity.root.closed.maximum-capacity": "1",
}


@dataclass
class YarnCluster:
    """A cluster whose logs and containers are in `folder`; `conf` is what `HADOOP_CONF_DIR` names."""

    folder: Path
    hdfs: HdfsCluster
    ports: dict[str, int] = field(default_factory=lambda: {one: free_port() for one in _ADDRESSES})
    manager: subprocess.Popen | None = None
    nodes: list[subprocess.Popen] = field(default_factory=list)

    @property
    def conf(self) -> Path:
        return self.folder / "conf"

    @property
    def environment(self) -> dict[str, str]:
        """What whoever submits to it has in his environment."""
        return {"HADOOP_CONF_DIR": str(self.conf), "YARN_CONF_DIR": str(self.conf), "HADOOP_USER_NAME": "root"}

    def start_manager(self) -> None:
        """Return when the ResourceManager answers."""
        self._configure(self.conf, {})
        self.manager = self._start(_MANAGER, self.conf, "manager")
        wait_for(lambda: self._ask("info"))

    def start_nodes(self, number: int) -> None:
        """Return when so many more NodeManagers are running."""
        before = len(self.running_nodes())
        for _ in range(number):
            name = f"node-{len(self.nodes)}"
            own = {f"yarn.nodemanager{one}.address": f"{HOST}:0" for one in ("", ".localizer", ".webapp")}
            own["yarn.nodemanager.collector-service.address"] = f"{HOST}:0"
            own |= {f"yarn.nodemanager.{one}-dirs": str(self.folder / name / one) for one in ("local", "log")}
            folder = self.folder / name / "conf"
            self._configure(folder, own)
            self.nodes.append(self._start(_NODE, folder, name))
        wait_for(lambda: len(self.running_nodes()) == before + number)

    def running_nodes(self) -> list[dict[str, Any]]:
        return [one for one in self._ask("nodes")["nodes"] or () if one["state"] == "RUNNING"]

    def running_applications(self) -> list[str]:
        """Their ids."""
        return sorted(set(re.findall(r"application_\d+_\d+", json.dumps(self._ask("apps?states=RUNNING")))))

    def kill_application(self, name: str) -> None:
        """As `yarn application -kill` does."""
        body = json.dumps({"state": "KILLED"}).encode()
        url = f"http://{HOST}:{self.ports['.webapp']}/ws/v1/cluster/apps/{name}/state?user.name=root"
        request = Request(url, body, {"Content-Type": "application/json"}, method="PUT")
        urlopen(request, timeout=TIMEOUT_SECONDS).close()

    def node_of_executors_alone(self) -> int:
        """A running node without an application's master, whose loss ends the application here (one attempt)."""
        running = [number for number, node in enumerate(self.nodes) if node.poll() is None]
        containers = {number: list(self._containers(number)) for number in running}
        return next(number for number, own in containers.items() if own and not any(map(self._is_master, own)))

    def kill_node(self, number: int) -> None:
        """As a machine that is gone: the NodeManager, and all that it started."""
        os.killpg(self.nodes[number].pid, signal.SIGKILL)
        for process in self._containers(number):
            os.kill(process, signal.SIGKILL)
        self.nodes[number].wait()

    def stop(self) -> None:
        for process in (*self.nodes, self.manager):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(timeout=TIMEOUT_SECONDS)

    def _containers(self, number: int) -> Iterator[int]:
        """The processes whose work is in a node's folder; each has a session of its own."""
        place = str(self.folder / f"node-{number}" / "local").encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if place in (folder / "environ").read_bytes():
                    yield int(folder.name)
            except OSError:  # it has ended
                continue

    @staticmethod
    def _is_master(process: int) -> bool:
        """Whether it is the first container of an application."""
        return bool(re.search(rb"CONTAINER_ID=container_\w+_000001\0", Path(f"/proc/{process}/environ").read_bytes()))

    def _ask(self, what: str) -> dict[str, Any]:
        with urlopen(f"http://{HOST}:{self.ports['.webapp']}/ws/v1/cluster/{what}", timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)

    def _configure(self, folder: Path, own: dict[str, str]) -> None:
        """Write Hadoop's configuration: where the manager and HDFS are, and what a daemon has of its own."""
        folder.mkdir(parents=True)
        addresses = {f"yarn.resourcemanager{one}.address": f"{HOST}:{port}" for one, port in self.ports.items()}
        settings = {"yarn.resourcemanager.hostname": HOST, **addresses, **own}
        core = {"fs.defaultFS": f"hdfs://{self.hdfs.authority}", "dfs.replication": "1"}
        for name, values in (("core-site.xml", core), ("yarn-site.xml", {**_SETTINGS, **settings})):
            rows = "".join(
                f"<property><name>{key}</name><value>{value}</value></property>\n" for key, value in values.items()
            )
            (folder / name).write_text(f"<configuration>\n{rows}</configuration>\n")

    def _start(self, daemon: str, conf: Path, name: str) -> subprocess.Popen:
        home = java_home()
        own = chain.from_iterable((SPARK_HOME / "jars").glob(pattern) for pattern in PYSPARK_PATTERNS)
        path = ":".join([str(conf), *map(str, sorted(own)), f"{jars_of('yarn', POM)}/*"])
        options = ["-Xmx300m", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
        with (self.folder / f"{name}.log").open("w") as log:
            command = [str(home / "bin" / "java"), *options, "-cp", path, daemon]
            environment = {**os.environ, "HADOOP_USER_NAME": "root", "JAVA_HOME": str(home)}  # of containers too
            return subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, env=environment, start_new_session=True
            )


@contextmanager
def yarn_cluster(folder: Path, hdfs: HdfsCluster, *, nodes: int = 2) -> Iterator[YarnCluster]:
    folder.mkdir(parents=True, exist_ok=True)
    cluster = YarnCluster(folder, hdfs)
    try:
        cluster.start_manager()
        cluster.start_nodes(nodes)
        yield cluster
    finally:
        cluster.stop()
