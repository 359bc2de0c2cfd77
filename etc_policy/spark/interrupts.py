"""Java that is ended while it works: by Ctrl-C, so that nothing goes on behind an `interrupted`, or as it comes to no end."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from etc_policy.table.formats import format_duration

_seen = threading.Event()
#: The process of Java that was ended as stuck; None before there is one.
_stuck: Any = None
#: So long Java may work without the end of any task: what it reads of a table may keep it at work without one.
STUCK_SECONDS = 6 * 3600.0
_LOOKS = 100


def end_java_on_interrupt() -> None:
    """Let Ctrl-C kill this process's Java, and then raise KeyboardInterrupt; to be called once Spark has started.

    PySpark's own handler asks Java something in the middle of another call, and ends in errors of the connection. A run
    whose Java is killed is finished by the next (facts: interrupt-kills-java).
    """
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(*_: Any) -> None:
    _seen.set()
    logging.getLogger().addHandler(logging.NullHandler())  # py4j logs a stack for each call that fails from now on
    process = _java()
    if process is not None:
        process.kill()
    raise KeyboardInterrupt


def _java() -> Any:
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def raise_if_interrupted() -> None:
    """What fails after Ctrl-C fails because Java is gone.

    Raises:
        KeyboardInterrupt: Ctrl-C has ended Java.

    """
    if _seen.is_set():
        raise KeyboardInterrupt


def end_java_when_stuck(context: Any) -> None:
    """From now on end the Java of a Spark context once no task of it has ended for `STUCK_SECONDS`.

    Another one is started where it is asked for, so that one table does not stop others; an idle one ends too.
    """
    threading.Thread(target=_watch, args=(context, _java()), name="etc-stuck", daemon=True).start()


def _watch(context: Any, process: Any) -> None:
    global _stuck
    with suppress(Exception):  # the session has ended
        wait_until_stuck(lambda: _done(context))
        _stuck = process
        process.kill()


def wait_until_stuck(done: Callable[[], object]) -> None:
    """Return once what is done has been the same for `STUCK_SECONDS`."""
    before, since = done(), time.monotonic()
    while time.monotonic() - since < STUCK_SECONDS:
        time.sleep(STUCK_SECONDS / _LOOKS)
        if (now := done()) != before:
            before, since = now, time.monotonic()


def _done(context: Any) -> object:
    """What changes with each job and task that begins or ends; always another where all tasks wait for a cluster's executors."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
    at_work = any(one is not None and one.numActiveTasks for one in stages)
    waits = bool(stages) and not at_work and not context.master.startswith("local")
    return tuple(stages), tuple(tracker.getActiveJobsIds()), time.monotonic() if waits else 0.0


def why_java_ended() -> str | None:
    """Why this process has ended its Java; None where it has not."""
    if _stuck is None or _stuck is not _java():
        return None
    return f"nothing that Java did had ended for {format_duration(round(STUCK_SECONDS * 1000))}, so that etc ended it"
