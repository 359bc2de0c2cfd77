"""Ctrl-C while Java works: Java ends first, so that nothing goes on behind an `interrupted`."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Any

_seen = threading.Event()


def end_java_on_interrupt() -> None:
    """Let Ctrl-C kill this process's Java, and then raise KeyboardInterrupt; to be called once Spark has started.

    PySpark's own handler asks Java something in the middle of another call, and ends in errors of the connection. A run
    whose Java is killed is finished by the next (facts: interrupt-kills-java).
    """
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(*_: Any) -> None:
    from pyspark import SparkContext

    _seen.set()
    logging.getLogger().addHandler(logging.NullHandler())  # py4j logs a stack for each call that fails from now on
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()
    raise KeyboardInterrupt


def raise_if_interrupted() -> None:
    """What fails after Ctrl-C fails because Java is gone.

    Raises:
        KeyboardInterrupt: Ctrl-C has ended Java.

    """
    if _seen.is_set():
        raise KeyboardInterrupt
