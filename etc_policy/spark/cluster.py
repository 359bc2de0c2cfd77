"""Clusters: whether one answers at all and gives an executor, and what happens when it takes the last one away.

Spark itself waits without end for an executor, and asks a master that does not answer for a minute.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from etc_policy.errors import EngineError, RetryableError, first_line
from etc_policy.errors.codes import Code

_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|\[::1\]")
_STANDALONE = "spark://"
_STANDALONE_PORT = 7077
_CONNECT_SECONDS = 5.0
_POLL_SECONDS = 0.2
_WATCH_SECONDS = 2.0


def is_local(master: str) -> bool:
    """Whether Spark runs on this machine alone, in one process or a few."""
    return master.startswith("local")


def is_loopback(master: str) -> bool:
    """Whether the masters of a standalone cluster can be reached from this machine alone, so that its workers are here too."""
    return master.startswith(_STANDALONE) and all(_LOOPBACK.fullmatch(host) for host, _ in _addresses(master))


def require_master(master: str) -> None:
    """Return if one of a standalone cluster's masters takes a connection; other clusters are not asked.

    Raises:
        RetryableError: none does.

    """
    refused = []
    for host, port in _addresses(master) if master.startswith(_STANDALONE) else ():
        try:
            socket.create_connection((host.strip("[]"), port), timeout=_CONNECT_SECONDS).close()
        except (OSError, ValueError, OverflowError) as error:  # the last two: no name or port can be like that
            refused.append(f"{host}:{port}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    if refused:
        hint = "nothing was changed: run this again when the master is up, or correct the target's `spark.master`"
        raise RetryableError(
            Code.NO_MASTER, f"the master of the cluster `{master}` does not answer", hint=hint, cause="\n".join(refused)
        )


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    for one in master.removeprefix(_STANDALONE).split(","):
        host, _, port = one.rpartition(":")
        yield (host, int(port)) if host and port.isdecimal() else (one, _STANDALONE_PORT)


@contextmanager
def answered_within(master: str, seconds: float) -> Iterator[None]:
    """What is done meanwhile waits for the cluster: Java is ended when it takes too long.

    Raises:
        RetryableError: it did.

    """
    from pyspark import SparkContext

    process: Any = getattr(SparkContext._gateway, "proc", None)
    expired = threading.Event()

    def end() -> None:
        expired.set()
        process.kill()

    timer = threading.Timer(seconds, end) if process is not None and not is_local(master) else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield
    except Exception as error:
        if not expired.is_set():
            raise
        SparkContext._gateway = SparkContext._jvm = None  # the next session has a Java of its own
        raise RetryableError(
            Code.NO_MASTER, f"the cluster `{master}` did not answer within {seconds:.0f} s", hint=_WAIT_HINT
        ) from error
    finally:
        if timer is not None:
            timer.cancel()


def require_executor(session: Any, master: str, seconds: float) -> None:
    """Return when an executor has done a first, tiny task, which also makes clusters with dynamic allocation start one.

    Raises:
        RetryableError: the cluster gave none in time; the session is stopped.
        EngineError: executors do not start there.

    """
    from py4j.protocol import Py4JError

    jvm, deadline = session._jvm, time.monotonic() + seconds
    try:
        action = session._jsc.parallelize(jvm.java.util.Collections.singletonList(1), 1).countAsync()
        while not action.isDone() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        done = action.isDone()
        if done:
            action.get()
            return
        action.cancel(True)
    except (Py4JError, OSError) as error:
        _stop(session)
        message = f"no executor of the cluster `{master}` could carry out a task"
        hint = "the logs of the cluster's workers and executors say why"
        raise EngineError(Code.SPARK_DID_NOT_START, message, hint=hint, cause=first_line(error)) from error
    _stop(session)
    message = f"the cluster `{master}` gave no executor within {seconds:.0f} s"
    raise RetryableError(Code.NO_EXECUTOR, message, hint=_WAIT_HINT)


_WAIT_HINT = (
    "nothing was changed: see whether the cluster has workers with enough free cores and memory, or let the target wait "
    "longer (`spark.timeout`)"
)


def _stop(session: Any) -> None:
    with suppress(Exception):  # its Java may have died
        session.stop()


class ExecutorWatch:
    """Cancels Spark's jobs when the cluster has taken every executor away and given none back for so long."""

    latest: ClassVar[ExecutorWatch | None] = None

    def __init__(self, session: Any, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._seconds, self._clock = session.sparkContext, seconds, clock
        self._alone_since: float | None = None
        self.has_cancelled = False

    def watches(self, session: Any) -> bool:
        """Whether it is this session that is watched."""
        return getattr(session, "sparkContext", None) is self._context

    def start(self) -> ExecutorWatch:
        """Watch from now on, until the session ends."""
        threading.Thread(target=self._watch, name="etc-executors", daemon=True).start()
        return self

    def _watch(self) -> None:
        with suppress(Exception):  # the session has ended
            while True:
                time.sleep(min(_WATCH_SECONDS, self._seconds))
                self.look()

    def look(self) -> None:
        """Look once."""
        scheduler = self._context._jsc.sc()
        driver_alone = len(scheduler.statusTracker().getExecutorInfos()) <= 1
        if not driver_alone or not self._context.statusTracker().getActiveJobsIds():
            self._alone_since = None
            return
        self._alone_since = self._alone_since if self._alone_since is not None else self._clock()
        if self._clock() - self._alone_since >= self._seconds:
            self.has_cancelled = True
            scheduler.cancelAllJobs()
            self._alone_since = None


def watch_executors(session: Any, seconds: float) -> None:
    """From now on the session's jobs fail when no executor is left for so long."""
    ExecutorWatch.latest = ExecutorWatch(session, seconds).start()


def raise_if_alone(session: Any, cause: str) -> None:
    """What has just failed failed because the cluster has taken its executors away.

    Raises:
        RetryableError: that is so.

    """
    watch = ExecutorWatch.latest
    if watch is not None and watch.watches(session) and watch.has_cancelled:
        message = "the cluster has taken every executor away and gave none back in time"
        hint = "nothing is lost: run the same command again, it finishes or rolls back what was begun"
        raise RetryableError(Code.NO_EXECUTOR, message, hint=hint, cause=cause)
