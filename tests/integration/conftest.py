"""One Spark for each worker, and real merge-on-read tables written by the stock writer, once for all workers."""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from etc_policy.spark.session import start_spark
from tests.integration.history import write_history
from tests.integration.kills import QUICK_JAVA
from tests.integration.session import stop_spark
from tests.integration.version6 import make_table


def pytest_configure(config):
    """What libraries leave to the garbage collector, which may run in any later test.

    PySpark leaves the sockets of `collect`, Great Expectations before 1.24 a folder.
    """
    for left in ("unclosed <socket", "Implicitly cleaning up"):
        config.addinivalue_line("filterwarnings", f"ignore:{left}:ResourceWarning")


#: The Java of a worker's Spark, which lasts for minutes: its compilers took 40 % of its processor time, this takes a fifth off
#: the whole. Code is compiled later, and by the slow compiler only where it runs often.
LASTING_JAVA = {
    "JDK_JAVA_OPTIONS": "-XX:+UseSerialGC -XX:Tier3InvocationThreshold=1000 -XX:Tier3MinInvocationThreshold=500 "
    "-XX:Tier3CompileThreshold=8000 -XX:Tier4InvocationThreshold=15000 -XX:Tier4MinInvocationThreshold=2000 "
    "-XX:Tier4CompileThreshold=45000 -XX:Tier4BackEdgeThreshold=120000"
}
#: A setting that no other process may see.
SECRET_KEY, SECRET = "spark.hadoop.etc.test.secret.key", "hunter2-of-the-session"


@contextmanager
def variables(given: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment meanwhile."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in given.items():
            environment.setenv(name, value)
        yield


class _Session:
    """The session of this run, started when first asked for."""

    spark = None

    @classmethod
    def start(cls, log):
        if cls.spark is None:
            options = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2", SECRET_KEY: SECRET}
            with variables(LASTING_JAVA):
                cls.spark = start_spark(options, log)
        return cls.spark

    @classmethod
    def stop(cls):
        if cls.spark is not None:
            stop_spark(cls.spark)
            cls.spark = None


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> Iterator[None]:
    """Every other process's Java starts soon."""
    with variables(QUICK_JAVA):
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory) -> Iterator:
    """The Spark session of all tests in this process."""
    yield _Session.start(tmp_path_factory.mktemp("spark") / "spark.log")
    _Session.stop()


def written_once(tmp_path_factory, name, write) -> Path:
    """A table that the first worker who needs it writes, with a session of its own; the others wait for it."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    folder = root / name
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "written").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            write(_Session.start(folder / "spark.log"), folder / "t")
            (folder / "written").touch()
    return folder / "t"


@pytest.fixture(scope="session")
def written_table(tmp_path_factory) -> Path:
    """A table with the whole history of `history.HISTORY`; tests copy it."""
    return written_once(tmp_path_factory, "table-as-written", write_history)


@pytest.fixture(scope="session")
def written_version_6(tmp_path_factory) -> Path:
    """The same of table version 6."""
    return written_once(tmp_path_factory, "version-6-as-written", make_table)


@pytest.fixture
def no_spark():
    """No Spark lives in this process, though one may have written a table: the test starts its own in others."""
    _Session.stop()
