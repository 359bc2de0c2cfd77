"""A real Hive metastore over thrift, in a network namespace of its own: it listens on all interfaces whatever it is told."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.maven_jars import jars_of, java_home

PORT = 9083
POM = Path(__file__).with_name("pom.xml")
TIMEOUT_SECONDS = 60

_OPENS = ("java.lang", "java.util", "java.net", "java.nio", "java.util.concurrent")
_SETTINGS = {
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "metastore.schema.verification": "false",
    "hive.metastore.schema.verification": "false",
    "metastore.thrift.bind.host": "127.0.0.1",
    "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
    "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
}


def missing_tools() -> list[str]:
    """What a test with a metastore needs and is not here."""
    tools = [name for name in ("ip", "mvn") if shutil.which(name) is None]
    return tools if os.geteuid() == 0 else [*tools, "root"]


def metastore_jars() -> Path:
    """The folder of the metastore's jars."""
    return jars_of("metastore", POM)


@contextmanager
def network_namespace() -> Iterator[str]:
    """The name of a network that has nothing but a loopback."""
    name = f"etc-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


@dataclass
class Metastore:
    """A metastore with its data in `folder`; start and kill it from inside the namespace."""

    folder: Path
    jars: Path
    process: subprocess.Popen | None = field(default=None)

    def start(self) -> None:
        """Return when it answers."""
        java = java_home() / "bin" / "java"
        url = f"jdbc:derby:;databaseName={self.folder / 'metastore_db'};create=true"
        settings = {
            **_SETTINGS,
            "javax.jdo.option.ConnectionURL": url,
            "metastore.warehouse.dir": f"{self.folder}/warehouse",
        }
        command = [
            str(java),
            "-Xmx400m",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS),
            f"-Dderby.system.home={self.folder}",
            *("-cp", f"{self.jars}/*", "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(PORT)),
            *(part for key, value in settings.items() for part in ("--hiveconf", f"{key}={value}")),
        ]
        with (self.folder / "metastore.log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not _answers():
            assert self.process.poll() is None, (self.folder / "metastore.log").read_text()[-3000:]
            assert time.monotonic() < deadline, "the metastore does not answer"
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _answers() -> bool:
    try:
        socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
    except OSError:
        return False
    return True
