"""One Spark for the whole pytest session, and real merge-on-read tables written by the stock writer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from etc_policy.adapters.spark.session import start_spark
from tests.integration.history import write_history
from tests.integration.kills import QUICK_JAVA
from tests.integration.session import stop_spark
from tests.integration.version6 import make_table


def pytest_configure(config):
    """PySpark leaves the sockets of `collect` to the garbage collector, which may run in any later test."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_collection_modifyitems(items):
    """Tests that run `etc` as a process of its own come last: then this process's Spark is gone (one at a time)."""
    items.sort(key=lambda item: "no_spark" in item.fixturenames)


#: A setting that no other process may see.
SECRET_KEY, SECRET = "spark.hadoop.etc.test.secret.key", "hunter2-of-the-session"


class _Session:
    """The session of this run, started when first asked for."""

    spark = None

    @classmethod
    def start(cls, log):
        if cls.spark is None:
            options = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2", SECRET_KEY: SECRET}
            cls.spark = start_spark(options, log)
        return cls.spark

    @classmethod
    def stop(cls):
        if cls.spark is not None:
            stop_spark(cls.spark)
            cls.spark = None


@pytest.fixture(scope="session")
def spark(tmp_path_factory) -> Iterator:
    """The Spark session of all tests in this process."""
    yield _Session.start(tmp_path_factory.mktemp("spark") / "spark.log")
    _Session.stop()


@pytest.fixture(scope="session")
def written_table(spark, tmp_path_factory) -> Path:
    """A table with the whole history of `history.HISTORY`; tests copy it."""
    base = tmp_path_factory.mktemp("written") / "t"
    write_history(spark, base)
    return base


@pytest.fixture(scope="session")
def written_version_6(tmp_path_factory) -> Path:
    """The same of table version 6, by any session that lives."""
    folder = tmp_path_factory.mktemp("written-version-6")
    make_table(_Session.start(folder / "spark.log"), folder / "t")
    return folder / "t"


@pytest.fixture
def no_spark(written_table, monkeypatch):
    """No Spark lives in this process: the test starts its own in others, whose Java starts sooner."""
    _Session.stop()
    for name, value in QUICK_JAVA.items():
        monkeypatch.setenv(name, value)
