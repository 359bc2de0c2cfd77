"""Opens the project of a command: its files are read once, and what its verbs say goes to stderr, as progress."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, RLock, Thread
from typing import ParamSpec, TextIO, TypeVar, cast

import click

from etc_policy.api.project import Project
from etc_policy.api.workspace import are_untrusted
from etc_policy.cli.ci_forms import report_checks
from etc_policy.cli.messages import SETTINGS, show_note, show_step, show_warning
from etc_policy.cli.options import Flags
from etc_policy.errors import EtcError, ExitCode, Issue, SeveralErrors, VerdictError
from etc_policy.errors.plain_text import one_line, some_of
from etc_policy.policy.manifest import Policy
from etc_policy.table.formats import format_duration

#: So many tables are named of which the same was guessed.
_NAMED_TABLES = 5


class Progress:
    """Shows steps. A step that has ended stays as a line; what is shown never goes to stdout.

    Steps may come from several threads at once.
    """

    def __init__(self, beat: Callable[[], None] = lambda: None) -> None:
        self._beat = beat
        self._lock = RLock()
        self._began = time.monotonic()
        self._step: tuple[str, float] | None = None
        self._spinner: Thread | None = None
        self._ended = Event()
        self._terminal: TextIO | None = None

    def __call__(self, step: str) -> None:
        """Begin a step, and end the one before."""
        self._beat()
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


T = TypeVar("T")
P = ParamSpec("P")


@contextmanager
def open_project(
    flags: Flags, *, read_once: bool = True, looks_up: bool = True, beat: Callable[[], None] = lambda: None
) -> Iterator[Project]:
    """The project; Spark's log goes to the target folder, with `--debug` to the terminal. Each step calls `beat`."""
    progress = Progress(beat)
    project = Project(
        flags.project_dir,
        target=flags.target,
        target_dir=flags.target_dir,
        variables=flags.variables,
        state=flags.state,
        spark_confs=flags.confs,
        spark_log=None if SETTINGS.debug else flags.target_dir / "spark.log",
        metadata_only=flags.metadata_only,
        read_once=read_once,
        looks_up=looks_up,
        ends_java_on_interrupt=True,
        untrusted=flags.untrusted,
        allow=flags.allow,
        jobs=flags.jobs,
        progress=progress,
        warn=_warn,
        note=lru_cache(show_note),
    )
    try:
        yield project
    finally:
        progress.stop()
        project.close()


@contextmanager
def open_tables(flags: Flags, paths: tuple[str, ...]) -> Iterator[Project]:
    """A project of these tables alone, for one command: the policies are those that `etc import` writes, without its questions.

    Raises:
        UsageError: files are not trusted, and these are not said to be.
        SeveralErrors: at the end, where some are no tables that a policy fits; the others go on.

    """
    if are_untrusted(flags.untrusted):
        raise click.UsageError(
            "a PATH is a table of your own: with `--untrusted` tables are those of the project's policies"
        )
    with TemporaryDirectory(prefix="etc-") as folder:
        own = replace(flags, project_dir=Path(folder), target_dir=Path(folder, "target"))
        with open_project(own) as project:
            report, failed = report_and_error(project.import_tables, paths, guesses=True)
            if failed is not None and all(table.status == "failed" for table in report.tables):
                raise failed
            _show_guesses(project.policies())
            yield project
            if failed is not None:
                raise failed


def _show_guesses(policies: Iterable[Policy]) -> None:
    """What was guessed, once for all tables of which it is the same."""
    names: dict[tuple[str, int], list[str]] = {}
    for policy in policies:
        names.setdefault((policy.event_time.column, policy.data_latency_ms), []).append(policy.name)
    for number, ((column, latency_ms), tables) in enumerate(names.items(), start=1):
        guess = (
            f"guessed that `{column}` is the event time, and that events are at most {format_duration(latency_ms)} late"
        )
        what = "policy" if len(tables) == 1 == len(names) else "policies"
        last = f"; `etc import` writes the {what}, with reasons and questions" if number == len(names) else ""
        show_note(f"{some_of(tables, _NAMED_TABLES)}: {guess}{last}")


def _warn(issue: Issue) -> None:
    if show_warning(issue):
        report_checks([issue])


def report_and_error(verb: Callable[P, T], *args: P.args, **named: P.kwargs) -> tuple[T, SeveralErrors | None]:
    """The report of a verb and, where it failed and has one, its errors: to be raised when the report is printed.

    A verdict that did not pass is in the report, and is not said again as an error.
    """
    try:
        return verb(*args, **named), None
    except EtcError as error:
        if error.report is None:
            raise
        found = error.errors if isinstance(error, SeveralErrors) else (error,)
        errors = [one for one in found if not isinstance(one, VerdictError)]
        report = cast(T, error.report)
        return report, SeveralErrors(errors, error.exit_code) if errors else None


def exit_with(error: SeveralErrors | None, code: ExitCode = ExitCode.DONE) -> ExitCode:
    """The exit code of the report.

    Raises:
        SeveralErrors: there is an error, which ends the command with that code, or with its own where the report has none.

    """
    if error is not None:
        error.exit_code = code or error.exit_code
        raise error
    return code
