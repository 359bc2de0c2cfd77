"""Progress on stderr: on a terminal a line that moves while a step lasts, elsewhere one plain line per step."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from itertools import cycle
from threading import Event, RLock, Thread
from typing import TextIO

from etc_policy.cli.messages import SETTINGS, show_step
from etc_policy.errors.plain_text import one_line


class Progress:
    """Shows steps. A step that has ended stays as a line; what is shown never goes to stdout.

    Steps may come from several threads at once.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._began = time.monotonic()
        self._step: tuple[str, float] | None = None
        self._spinner: Thread | None = None
        self._ended = Event()
        self._terminal: TextIO | None = None

    def __call__(self, step: str) -> None:
        """Begin a step, and end the one before."""
        with self._lock:
            self._begin(one_line(step))

    def _begin(self, step: str) -> None:
        elapsed = time.monotonic() - self._began
        if SETTINGS.plain or SETTINGS.quiet or SETTINGS.debug:  # what Spark prints would tear a moving line
            show_step(step, elapsed)
            return
        self.stop()
        self._step = (step, elapsed)
        if self._terminal is None:  # one of its own: while Spark starts, standard error is its log
            self._terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8")
        SETTINGS.pause = self.stop
        self._ended = Event()
        self._spinner = Thread(target=_spin, args=(step, self._terminal, self._ended), daemon=True)
        self._spinner.start()

    def stop(self) -> None:
        """End the step that is shown, so that others may print."""
        with self._lock:
            if self._spinner is not None and self._step is not None:
                self._ended.set()
                self._spinner.join()
                show_step(*self._step)
            self._spinner = self._step = None


def _spin(step: str, terminal: TextIO, ended: Event) -> None:
    """Show a spinner, the step and the seconds it lasts on one line, until it has ended; then clear the line."""
    began = time.monotonic()
    with suppress(OSError):  # the terminal is gone
        columns = os.get_terminal_size(terminal.fileno()).columns or 80
        for frame in cycle("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"):
            seconds = f" {time.monotonic() - began:.0f} s"
            terminal.write(f"\r{frame} {step[: columns - len(seconds) - 3]}{seconds}\x1b[K")
            terminal.flush()
            if ended.wait(0.1):
                break
        terminal.write("\r\x1b[K")
        terminal.flush()
