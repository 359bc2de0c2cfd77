"""`etc run`: plans and applies again and again, in one process with one Spark session."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from datetime import timedelta

import click

from etc_policy.api.project import Project
from etc_policy.cli.messages import show_error, show_note
from etc_policy.cli.opening import open_project, settle
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
from etc_policy.cli.value_types import Span
from etc_policy.errors import EtcError, ExitCode
from etc_policy.report.results import RunResults
from etc_policy.table.formats import format_time
from etc_policy.wiring import clock_ms


@click.command(
    "run",
    short_help="Apply again and again, in one process",
    epilog=examples(
        "etc run",
        "etc run --every 15m --select tag:hourly --jobs 4",
        "etc run --rounds 1   # as `etc apply --yes`",
    ),
)
@click.option(
    "--every",
    "every_ms",
    type=Span(),
    default="5m",
    show_default=True,
    help="Time from the start of a round to the start of the next; what can wait for the next one does.",
)
@click.option("--rounds", type=click.IntRange(min=1), help="End after so many rounds.  [default: go on]")
@shared_options(conf_option, jobs_option, *PROJECT_OPTIONS, *SELECT_OPTIONS, output_option)
def command(flags: Flags, every_ms: int, rounds: int | None) -> ExitCode:
    """Apply again and again, in one process.

    For systemd or Kubernetes. A round is what `etc apply --yes` does: it plans all tables, and carries the plan out where
    something is due. Each round reads the project's files anew. Spark starts when it is first needed, and stays until a
    round fails in it. SIGTERM ends the process after its round, with 0. It keeps nothing in memory that matters: kill it,
    start it elsewhere, run `etc apply` beside it.
    """
    if every_ms == 0:
        raise click.UsageError("an interval is longer than nothing")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    done, code = 0, ExitCode.DONE

    def goes_on() -> bool:
        return done != rounds and not stop.is_set()

    while goes_on():
        with open_project(flags, read_once=False) as project:
            while goes_on():
                began = time.monotonic()
                code = _round(project, flags, every_ms, is_first=not done)
                done += 1
                if goes_on():
                    stop.wait(max(0.0, began + every_ms / 1000 - time.monotonic()))
                if code == ExitCode.ENGINE:  # Spark may have died: the next round has another
                    break
    if stop.is_set():
        show_note(f"ended by SIGTERM after {done} rounds")
        return ExitCode.DONE
    return code


def _round(project: Project, flags: Flags, every_ms: int, *, is_first: bool) -> ExitCode:
    """One round, and a line about it; what fails in it is shown, and ends nothing.

    Raises:
        EtcError: the first round cannot even begin: an error in the files or in what is selected.

    """
    began_ms = clock_ms()
    try:
        results, error = settle(project.apply, None, *flags.terms, every=timedelta(milliseconds=every_ms))
    except EtcError as failure:
        if is_first:
            raise
        show_error(failure)
        return failure.exit_code
    _show(results, flags, began_ms)
    if error is not None:
        show_error(error)
    return results.exit_code


def _show(results: RunResults, flags: Flags, began_ms: int) -> None:
    if flags.output == "json":
        print_json(results.as_json())
        return
    counts = Counter(one.status.replace("_", " ") for one in results.tables)
    failed = sum(verdict.exit_code != ExitCode.DONE for _, verdict in results.verdicts)
    said = [f"{count} {status}" for status, count in sorted(counts.items())]
    said += [f"{failed} not verified"] if failed else []
    say(f"{format_time(began_ms)}  {', '.join(said) or 'no tables'}")
