"""One Spark for the whole pytest session, and real merge-on-read tables written by the stock writer."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from etc_policy.adapters.spark_session import start_spark


def pytest_configure(config):
    """PySpark leaves the sockets of `collect` to the garbage collector, which may run in any later test."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@contextmanager
def own_stdout():
    """`start_spark` moves file descriptor 1 for the process's JSON; pytest's capturing needs it back."""
    stream, descriptor = sys.stdout, os.dup(1)
    try:
        yield
    finally:
        replaced, sys.stdout = sys.stdout, stream
        if replaced is not stream:
            replaced.close()
        os.dup2(descriptor, 1)
        os.close(descriptor)


@pytest.fixture(scope="session")
def spark() -> Iterator:
    """The Spark session of all tests in this run."""
    with own_stdout():
        session = start_spark({"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"})
    yield session
    session.stop()
