"""Progress on stderr: on a terminal a line that moves while a step lasts, elsewhere one plain line per step."""

from __future__ import annotations

import os
import sys
import time
from threading import RLock
from typing import TYPE_CHECKING, TextIO

from etc_policy.cli.messages import SETTINGS, show_step
from etc_policy.plain_text import one_line

if TYPE_CHECKING:
    from rich.live import Live


class Progress:
    """Shows steps. A step that has ended stays as a line; what is shown never goes to stdout.

    Steps may come from several threads at once.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._began = time.monotonic()
        self._step: tuple[str, float] | None = None
        self._live: Live | None = None
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
        self._live = _moving(step, self._terminal)
        self._live.start()

    def stop(self) -> None:
        """End the step that is shown, so that others may print."""
        with self._lock:
            if self._live is not None and self._step is not None:
                self._live.stop()
                show_step(*self._step)
            self._live = self._step = None


def _moving(step: str, terminal: TextIO) -> Live:
    """A spinner, the step and the seconds it has lasted; it leaves standard output to the data."""
    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(file=terminal, no_color=not SETTINGS.colour)
    bar = Bar(SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), console=console)
    bar.add_task(step, total=None)
    return Live(bar, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
