"""Clusters that do not answer, give no executor or take the last one away; no Spark is started here."""

import socket

import pytest

from etc_policy.errors import RetryableError
from etc_policy.spark import cluster
from etc_policy.spark.cluster import ExecutorWatch, is_loopback, raise_if_alone, require_master
from etc_policy.wiring import SparkSessions


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://[::1]:7077", True),
        ("spark://127.0.0.1:7077,spark-2:7077", False),
        ("spark://127.example.com:7077", False),
        ("yarn", False),
        ("local[2]", False),
    ],
)
def test_which_masters_only_this_machine_reaches(master, expected):
    assert is_loopback(master) is expected


def test_one_master_of_several_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as alive, socket.create_server(("127.0.0.1", 0)) as soon_gone:
        gone = soon_gone.getsockname()[1]
        soon_gone.close()
        require_master(f"spark://127.0.0.1:{gone},127.0.0.1:{alive.getsockname()[1]}")
        with pytest.raises(RetryableError, match="does not answer") as refused:
            require_master(f"spark://127.0.0.1:{gone}")
    assert (refused.value.code, f"127.0.0.1:{gone}: " in refused.value.cause) == ("ETC460", True)


@pytest.mark.parametrize(
    "address", ["a..b:7077", f"{'a' * 64}.example.com:7077", "127.0.0.1:99999", "127.0.0.1:\u00b2", "", ":7077"]
)
def test_an_address_that_none_can_be_is_no_crash(address):
    with pytest.raises(RetryableError, match="does not answer") as refused:
        require_master(f"spark://{address}")
    assert refused.value.code == "ETC460"


@pytest.mark.parametrize("master", ["yarn", "k8s://https://127.0.0.1:1", "local[*]"])
def test_other_clusters_are_not_asked(master):
    require_master(master)


class Context:
    """A Spark context as the watch sees it; the driver is among its executors."""

    def __init__(self):
        self.executors, self.jobs, self.cancelled = 1, [7], 0
        self._jsc = self

    def sc(self):
        return self

    def statusTracker(self):
        return self

    def getExecutorInfos(self):
        return [None] * (1 + self.executors)

    def getActiveJobsIds(self):
        return self.jobs

    def cancelAllJobs(self):
        self.cancelled += 1


class Session:
    def __init__(self):
        self.sparkContext = Context()


@pytest.fixture
def watched(monkeypatch):
    """A session, its watch, and a function that looks at a time."""
    session, now = Session(), [0.0]
    watch = ExecutorWatch(session, 10, lambda: now[0])
    monkeypatch.setattr(cluster.ExecutorWatch, "latest", watch)

    def look(second):
        now[0] = second
        watch.look()

    return session, look


def test_jobs_are_cancelled_when_no_executor_is_left_for_long(watched):
    session, look = watched
    context = session.sparkContext
    look(0)
    context.executors = 0
    look(5)
    look(14)
    assert context.cancelled == 0
    raise_if_alone(session, "")
    look(15)
    assert context.cancelled == 1
    with pytest.raises(RetryableError, match="taken every executor away") as lost:
        raise_if_alone(session, "Job 7 cancelled")
    assert (lost.value.code, lost.value.cause) == ("ETC461", "Job 7 cancelled")


def test_an_executor_that_comes_back_or_no_job_ends_the_count(watched):
    session, look = watched
    context = session.sparkContext
    context.executors = 0
    look(0)
    context.executors = 1
    look(9)
    context.executors = 0
    look(10)
    look(19)
    context.jobs = []
    look(25)
    context.jobs = [8]
    look(26)
    assert context.cancelled == 0


def test_the_other_tables_of_a_run_do_not_wait_as_long_again(monkeypatch, tmp_path):
    asked = []

    def refuse(*arguments, **_):
        asked.append(arguments)
        raise RetryableError("ETC461", "no executor", hint="wait", cause="none")

    monkeypatch.setattr("etc_policy.spark.session.start_spark", refuse)
    sessions = SparkSessions(tmp_path, lambda _: None)
    for _ in range(3):
        with pytest.raises(RetryableError, match="no executor") as refused:
            sessions.spark  # noqa: B018 - starting it is what is tested
        assert (refused.value.code, refused.value.hint) == ("ETC461", "wait")
    assert len(asked) == 1
