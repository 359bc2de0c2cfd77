"""`etc finish`: carries out table services that others have scheduled."""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

from etc_policy.cli.opening import failed_tables, finish, open_project, settle
from etc_policy.cli.options import Flags, common_options, conf_option, examples
from etc_policy.cli.printing import say
from etc_policy.cli.terminal import print_json
from etc_policy.errors import ExitCode, SeveralErrors
from etc_policy.publish.results import FinishedService


@click.command(
    "finish",
    short_help="Run what others have scheduled and not carried out",
    epilog=examples("etc finish --select orders_ro", "etc finish --output json"),
)
@conf_option
@common_options
def command(flags: Flags) -> ExitCode:
    """Run what others have scheduled and not carried out.

    A compaction, log compaction or clustering that a stock job has scheduled and nobody runs keeps `etc plan` from planning.
    This runs it by the stock client, set up like the table: its indexes, its metadata table, its version and the zone of
    its instants stay as they are. One that a living job runs is left to it (exit code 4). Plans of etc are finished by
    `etc apply`.
    """
    with open_project(flags) as project:
        finished, error = settle(lambda: project.finish(*flags.terms))
    _print(finished, flags.output, error)
    return finish(error)


def _print(finished: Iterable[FinishedService], output: str, error: SeveralErrors | None) -> None:
    """Print what was done; that nothing was to do is known only where every table could be read."""
    if output == "json":
        found = [service.model_dump() for service in finished]
        print_json(json.dumps({"schema_version": 1, "finished": found, "failed": failed_tables(error)}, indent=2))
        return
    lines = [f"{service.policy}: the {service.action} at {service.instant} is complete" for service in finished]
    say("\n".join(lines) or ("No service of another job is pending." if error is None else ""))
