"""A NameNode and a DataNode of Hadoop for tests, in one Java process on 127.0.0.1, started once for each worker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from uuid import uuid4

import pytest
from hdfs_native import Client

from tests.maven_jars import jars_of, java_home

POM = Path(__file__).with_name("pom.xml")
_START_SECONDS = 120
#: What Hadoop's daemons need of PySpark's own jars.
PYSPARK_PATTERNS = (
    "hadoop-client-*.jar",
    "log4j*.jar",
    "*slf4j*.jar",
    "commons-logging*.jar",
    "snappy-java*.jar",
    "jsr305*.jar",
)
_SETTINGS = {
    "dfs.replication": "1",
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.handler.count": "8",
    "dfs.blocksize": "16777216",
}


def cluster_jars() -> Path:
    """The folder of the jars that PySpark lacks."""
    return jars_of("hdfs", POM)


@dataclass
class HdfsCluster:
    """A cluster with its data in `folder`."""

    folder: Path
    jars: Path
    port: int = 0
    process: subprocess.Popen | None = field(default=None)

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    def new_folder(self) -> str:
        """The location of a folder that is not there yet."""
        return f"hdfs://{self.authority}/{uuid4().hex[:12]}"

    @property
    def client(self) -> Client:
        return Client(f"hdfs://{self.authority}")

    def upload(self, folder: Path, location: str) -> str:
        """Copy a local folder to a location."""
        client, base = self.client, self.path(location)

        def copy(path: Path) -> None:
            with client.create(f"{base}/{path.relative_to(folder).as_posix()}") as writer:
                writer.write(path.read_bytes())

        with ThreadPoolExecutor(32) as pool:
            list(pool.map(copy, (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc")))
        return location

    def download(self, location: str, folder: Path) -> Path:
        """Copy what is at a location to a local folder."""
        client, base = self.client, self.path(location)
        for one in client.list_status(base, recursive=True):
            if not one.isdir:
                path = folder / one.path.removeprefix(f"{base}/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(client.read(one.path).read())
        return folder

    def path(self, location: str) -> str:
        """The whole path of a location on the cluster."""
        return location.removeprefix(f"hdfs://{self.authority}")

    def start(self, *, anew: bool = True) -> None:
        """Return when it answers; not anew it has the files and the port that it had."""
        details = self.folder / "details.json"
        details.unlink(missing_ok=True)
        command = [*self._java(), "-datanodes", "1"]
        command += ["-nnport", str(self.port), "-writeDetails", str(details), *(["-format"] if anew else [])]
        command += [part for name, value in _SETTINGS.items() for part in ("-D", f"{name}={value}")]
        with (self.folder / "cluster.log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        end = time.monotonic() + _START_SECONDS
        while not (details.exists() and details.read_text().endswith("}")):
            assert self.process.poll() is None, (self.folder / "cluster.log").read_text()[-3000:]
            assert time.monotonic() < end, "the HDFS cluster does not answer"
            time.sleep(0.1)
        self.port = json.loads(details.read_text())["namenode_port"]

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Meanwhile it keeps connections and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)  # on a busy machine it answers a while longer
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def _java(self) -> list[str]:
        import pyspark

        folder = Path(pyspark.__file__).parent / "jars"
        found = chain.from_iterable(folder.glob(pattern) for pattern in PYSPARK_PATTERNS)
        path = ":".join([*map(str, sorted(found)), f"{self.jars}/*"])
        options = ["-Xmx300m", "-XX:TieredStopAtLevel=1", f"-Dtest.build.data={self.folder / 'data'}"]
        java = str(java_home() / "bin" / "java")
        return [java, *options, "-cp", path, "org.apache.hadoop.test.MiniDFSClusterManager"]


@pytest.fixture(scope="session")
def hdfs_cluster(tmp_path_factory) -> Iterator[HdfsCluster]:
    if shutil.which("mvn") is None:
        pytest.skip("Maven is not installed")
    cluster = HdfsCluster(tmp_path_factory.mktemp("hdfs"), cluster_jars())
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.kill()
