"""`etc run`: plans and applies again and again, in one process with one Spark session at a time."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from etc_policy.api.project import Project
from etc_policy.api.running import Rounds, marks_of
from etc_policy.cli.messages import (
    NAMED,
    SETTINGS,
    kind_of,
    show_error,
    show_issues,
    show_note,
    show_text,
    unexpected_text,
)
from etc_policy.cli.opening import open_project, report_and_error
from etc_policy.cli.options import (
    PROJECT_OPTIONS,
    SELECT_OPTIONS,
    Flags,
    conf_option,
    examples,
    jobs_option,
    output_option,
    shared_options,
)
from etc_policy.cli.printing import say
from etc_policy.cli.terminal import print_json
from etc_policy.cli.value_types import FILE, Size, Span, address_option
from etc_policy.errors import EngineError, EtcError, ExitCode, Issue, SeveralErrors, UsageError
from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import some_of
from etc_policy.plan.fleet import Allowance
from etc_policy.policy.manifest import Policy
from etc_policy.report.results import RunResults
from etc_policy.table.formats import count_of, format_duration, format_time
from etc_policy.wiring import clock_ms, serve_metrics

if TYPE_CHECKING:
    from etc_policy.plan.model import Plan

#: How often a process that waits shows that it lives, and without how long a sign it counts as stuck.
_BEAT_SECONDS, _STUCK_SECONDS = 30, 3_600
#: For so long one reading of the tables serves all scrapes.
_MAX_AGE_SECONDS = 60
#: What came of tables that the line of a round names.
_MISSED = ("failed", "refused", "stale")
#: What changes in a warning from round to round besides figures, names of files and plurals.
_COUNTS = {"between", "both", "half", "other", "them", "they"}


def _named_folder() -> Path:
    """The current folder by the name by which it was entered, whichever folder or link has that name later."""
    named = Path(os.environ.get("PWD", ""))
    with suppress(OSError):
        if named.is_absolute() and named.samefile(Path.cwd()):
            return named
    return Path.cwd()


@dataclass
class _Life:
    """Signs of life of a process: each step touches a file, if there is one. `at_work` are this round's policies.

    `folder` is where it began, which relative paths start from. `warned` are the warnings of plans that were shown, `failed`
    what failed, by policy, when it was tried last.
    """

    file: Path | None = None
    folder: Path = field(default_factory=_named_folder)
    at_work: tuple[Policy, ...] = ()
    warned: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    failed: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    _at: float = field(default_factory=lambda: time.monotonic())

    def beat(self) -> None:
        self._at = time.monotonic()
        if self.file is not None:
            with suppress(OSError):  # what looks at the file notices
                self.file.touch()

    def new_warnings(self, plan: Plan | None) -> Iterator[str]:
        """What the plan warns of and none before has, whatever its figures were."""
        from etc_policy.plan.explainer import short_warnings

        for policy, _, text in short_warnings(plan) if plan else ():
            key = policy, _kind_of_warning(text)
            if key not in self.warned:
                self.warned.add(key)
                yield f"warning: {policy}: {text}"

    def show(self, error: EtcError | None, results: RunResults | None) -> None:
        """Show what failed in a round; of what failed in the same way when it was tried before no more than that it did."""
        done = {table.policy for table in results.tables if table.status not in _MISSED} if results else set()
        self.failed = {one for one in self.failed if one[0] not in done}
        if error is None:
            return
        found = {(issue.subject, kind_of(issue)) for issue in error.issues}
        if found <= self.failed and not SETTINGS.json:
            show_text(f"as before: {', '.join(sorted({f'{one.code} ({one.subject})' for one in error.issues}))}")
        else:
            show_error(error)
        self.failed |= found

    def forget_but(self, policies: Sequence[Policy]) -> None:
        """Keep nothing of tables that are gone: others may make new ones for ever."""
        names = {"project", *(one.name for one in policies)}
        self.warned = {one for one in self.warned if one[0] in names}
        self.failed = {one for one in self.failed if one[0] in names}

    def fault(self) -> str | None:
        seconds = time.monotonic() - self._at
        return f"no step for {format_duration(round(seconds) * 1000)}" if seconds > _STUCK_SECONDS else None


def _kind_of_warning(text: str) -> frozenset[str]:
    """The longer words of a warning, which stay the same while its figures change."""
    words = (word.strip("`().,:").removesuffix("s") for word in text.split())
    return frozenset(word for word in words if len(word) > 3 and re.fullmatch("[a-z_.]+", word)) - _COUNTS


@click.command(
    "run",
    epilog=examples(
        "etc run",
        "etc run --every 15m --select tag:hourly --jobs 4",
        "etc run --max-io 200GiB --max-time 40m --listen 127.0.0.1:9864",
        "etc run --rounds 1   # as `etc apply --yes`",
    ),
)
@click.option(
    "--every",
    "every_ms",
    type=Span(),
    default="5m",
    show_default=True,
    help="Time from one look at a table to the next, if nothing is due later; what can wait for the next one does.",
)
@click.option(
    "--max-io", type=Size(), help="Bytes that all tables together may read and write in an hour, such as 200GiB."
)
@click.option(
    "--max-time", "max_ms", type=Span(), help="Time that compactions of all tables may take in an hour, such as 40m."
)
@click.option(
    "--rounds", metavar="NUMBER", type=click.IntRange(min=1), help="End after so many rounds.  [default: go on]"
)
@click.option("--alive", type=FILE, help="Touch this file at each step, and each half minute while nothing is due.")
@address_option("--listen", help="Answer /metrics and /healthz at this HOST:PORT.  [default: nothing listens]")
@shared_options(conf_option, jobs_option, *PROJECT_OPTIONS, *SELECT_OPTIONS, output_option)
def command(
    flags: Flags,
    every_ms: int,
    max_io: int | None,
    max_ms: int | None,
    rounds: int | None,
    alive: Path | None,
    listen: tuple[str, int] | None,
) -> ExitCode:
    """Apply again and again, in one process.

    For systemd or Kubernetes. A round plans the tables that are due, and does what `etc apply --yes` does where something is to
    be compacted, refused or sent. The next one begins when a table is due again, and after `--every` at the latest, when the
    project's files are read anew. Spark starts when it is first needed, and stays until it fails, or tables need another
    release of Hudi. SIGTERM ends the process after the tables that it works on, with 0. It keeps nothing in memory that
    matters: kill it, start it elsewhere, run `etc apply` beside it.

    Tables that break their `freshness.target` first go first. With `--max-io` or `--max-time` the others wait until enough of
    the hour's budget has come in. A table that fails is tried again after twice the time, then four times, up to an hour.
    """
    for name, milliseconds in (("--every", every_ms), ("--max-time", max_ms)):
        if milliseconds == 0:
            raise click.UsageError(f"`{name}` must be longer than 0s")
    stop, life = threading.Event(), _Life(alive)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    if alive is not None:
        _require_touchable(alive)
    plans = Rounds(every_ms, Allowance(max_io), Allowance(max_ms))
    with _listening(flags, listen, life):
        done, code = _play(flags, plans, stop, life, rounds)
    if stop.is_set():
        show_note(f"ended by SIGTERM after {count_of(done, 'round')}")
        return ExitCode.DONE
    return code


def _play(flags: Flags, plans: Rounds, stop: threading.Event, life: _Life, rounds: int | None) -> tuple[int, ExitCode]:
    """So many rounds, or as many as there are until the process is to end; how many they were, and how the last one ended.

    Where something waits to be tried again, it is how the last one that failed ended.
    """
    done, code, failed = 0, ExitCode.DONE, ExitCode.DONE

    def goes_on() -> bool:
        return done != rounds and not stop.is_set()

    while goes_on():
        with open_project(flags, beat=life.beat) as project:
            while goes_on():
                with _watched(project, life):
                    code, next_ms, engine_failed = _round(project, flags, plans, stop, life, is_first=not done)
                done, failed = done + 1, code or failed
                if goes_on():
                    _wait(next_ms, stop, life)
                if engine_failed:  # Spark may have died: the next round has another
                    break
    return done, code or (failed if plans.is_failing else ExitCode.DONE)


def _wait(until_ms: int, stop: threading.Event, life: _Life) -> None:
    """Return at that time, or once the process is to end."""
    until = time.monotonic() + (until_ms - clock_ms()) / 1000  # whatever the clock does meanwhile
    while not stop.is_set() and (left := until - time.monotonic()) > 0:
        life.beat()
        stop.wait(min(left, _BEAT_SECONDS))


@contextmanager
def _watched(project: Project, life: _Life) -> Iterator[None]:
    """Around a round: a compaction is one step, however long; what Java writes for it meanwhile is a sign of life.

    Only signs are read beside the round: looking tables up anew would take from it what it has found to be refused.
    """
    ended = threading.Event()
    life.at_work = ()

    def watch() -> None:
        last: tuple[object, ...] = ()
        while not ended.wait(_BEAT_SECONDS):
            with suppress(Exception):  # the next look may succeed
                signs = project.environment.signs_of_runs(life.at_work)
                if signs != last and any(signs):
                    life.beat()
                last = signs

    context = copy_context()
    watcher = threading.Thread(target=context.run, args=(watch,), daemon=True, name="signs of life")
    watcher.start()
    try:
        yield
    finally:
        ended.set()


def _require_touchable(file: Path) -> None:
    try:
        file.touch()
    except OSError as error:
        raise UsageError(Code.USAGE, f"`--alive`: cannot write `{file}`: {error.strerror}") from error


@contextmanager
def _listening(flags: Flags, listen: tuple[str, int] | None, life: _Life) -> Iterator[None]:
    """Around all rounds: metrics and health for who asks, from a project of their own."""
    if listen is None:
        yield
        return
    with open_project(flags, read_once=False) as project:
        metrics = cache(lambda: project.metrics(*flags.terms))  # made at the first look: the rounds show what is wrong
        server, _ = serve_metrics(lambda: metrics()(), *listen, _MAX_AGE_SECONDS, life.fault)
        show_note(f"http://{listen[0]}:{server.server_port}/metrics and /healthz")
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()


def _round(
    project: Project, flags: Flags, plans: Rounds, stop: threading.Event, life: _Life, *, is_first: bool
) -> tuple[ExitCode, int, bool]:
    """One round, and a line about it; when the next one begins, and whether the engine failed in this one.

    What fails in it is shown, and ends nothing.

    Raises:
        EtcError: the first round cannot even begin: an error in the files or in what is selected.

    """
    began_ms, every = clock_ms(), timedelta(milliseconds=plans.every_ms)
    chosen: list[Policy] = []
    results = error = None
    try:
        _enter(life.folder)
        project.read_anew()
        policies = project.policies(*flags.terms)
        life.forget_but(policies)
        marks = marks_of(project.environment, (one for one in policies if one.sync.ro_table))
        plans.take_back(policies, marks, began_ms)
        due = plans.due(policies, began_ms)
        if not due:
            return ExitCode.DONE, plans.next_ms(began_ms), False
        life.at_work = due
        marks |= marks_of(project.environment, (one for one in due if one.name not in marks))
        changed = plans.to_plan(due, marks, began_ms)
        plan = project.plan([one.name for one in changed], every=every) if changed else None
        names = plans.chosen(plan, changed, began_ms, marks) if plan else ()
        chosen = [one for one in due if one.name in names]
        if names:
            results, error = report_and_error(
                project.apply, None, names, every=every, first=names, goes_on=lambda: not stop.is_set()
            )
    except Exception as raised:
        failure = raised if isinstance(raised, EtcError) else _unexpected(raised)
        if is_first:
            raise failure from failure.__cause__
        plans.note(chosen, (), began_ms, clock_ms())
        show_error(failure)
        return failure.exit_code, began_ms + plans.every_ms, _is_of_engine(failure)
    plans.note(chosen, results.tables if results else (), began_ms, clock_ms())
    _show(results, flags, began_ms, idle=len(due) - len(chosen) - len(plans.waiting), waiting=len(plans.waiting))
    for warning in life.new_warnings(plan):
        show_note(warning)
    life.show(error, results)
    code, next_ms = results.exit_code if results else ExitCode.DONE, plans.next_ms(clock_ms())
    return code, next_ms, (error is not None and _is_of_engine(error)) or _is_unverified(results)


def _unexpected(error: Exception) -> EngineError:
    """What nobody has foreseen ends no service: another round may be without it."""
    hint = "`--debug` prints the stack; report it"
    failure = EngineError(Code.UNEXPECTED, unexpected_text(error), hint=hint)
    failure.__cause__ = error
    return failure


def _enter(folder: Path) -> None:
    """Be in the folder that has the name now: a new release of the project may have taken its place.

    Raises:
        UsageError: no folder has the name.

    """
    try:
        os.chdir(folder)
    except OSError as error:
        hint = "put the project there again: the next round reads it"
        raise UsageError(
            Code.USAGE, f"the folder `{folder}`, where `etc run` began: {error.strerror}", hint=hint
        ) from error


def _is_of_engine(error: EtcError) -> bool:
    """Whether the engine failed, and not only what etc reads of a table itself."""
    errors = error.errors if isinstance(error, SeveralErrors) else (error,)
    return any(isinstance(one, EngineError) for one in errors)


def _is_unverified(results: RunResults | None) -> bool:
    """Whether something kept a verification from its verdict."""
    return results is not None and any(verdict.exit_code == ExitCode.ENGINE for _, verdict in results.verdicts)


def _show(results: RunResults | None, flags: Flags, began_ms: int, *, idle: int, waiting: int) -> None:
    """A line about the round; that it cannot be written, as on a full disk, ends nothing."""
    try:
        if flags.output == "json":
            if results is not None:
                print_json(results.as_json())
        else:
            say(_line(results, began_ms, idle=idle, waiting=waiting))
    except OSError as error:
        message = f"the line about this round cannot be written to standard output: {error.strerror}"
        show_issues(
            [Issue(Code.CANNOT_PRINT, message, hint="make room on its disk; the rounds go on", level="warning")]
        )


def _line(results: RunResults | None, began_ms: int, *, idle: int, waiting: int) -> str:
    tables, verdicts = (results.tables, results.verdicts) if results else ((), ())
    counts = Counter({"nothing due": idle} if idle else {})
    counts.update(one.status.replace("_", " ") for one in tables)
    missed = {status: [one.policy for one in tables if one.status == status] for status in _MISSED}
    unverified = [name for name, verdict in verdicts if verdict.exit_code != ExitCode.DONE]
    said = [f"{count} {status}{_named(missed.get(status, []))}" for status, count in sorted(counts.items())]
    said += [f"{len(unverified)} not verified{_named(unverified)}"] if unverified else []
    said += [f"{waiting} beyond the budget"] if waiting else []
    return f"{format_time(began_ms)}  {', '.join(said) or 'no tables'}"


def _named(names: list[str]) -> str:
    """The first of the names in brackets."""
    return f" ({some_of(names, NAMED)})" if names else ""
