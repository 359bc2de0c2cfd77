"""`etc repair`: sets wrong completion times of a table right."""

from __future__ import annotations

import json
import sys

import click

from etc_policy.api.repairing import PlannedRepair
from etc_policy.cli.messages import show_note
from etc_policy.cli.opening import open_project
from etc_policy.cli.options import PROJECT_OPTIONS, Flags, conf_option, examples, output_option, shared_options
from etc_policy.cli.printing import announce, ask, say
from etc_policy.cli.terminal import print_json
from etc_policy.errors import ExitCode


@click.command(
    "repair",
    short_help="Correct a table's wrong completion times",
    epilog=examples("etc repair orders_ro", "etc repair orders_ro --yes", "etc repair orders_ro --output json"),
)
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask before the steps are carried out.")
@shared_options(*PROJECT_OPTIONS, conf_option, output_option)
def command(flags: Flags, name: str, yes: bool) -> ExitCode:
    """Correct a table's wrong completion times.

    A job whose Java process is in another time zone than the table completes a compaction before it was requested, which
    read-optimized queries may then not see, or in the future. `etc plan`, `etc debug` and `etc freshness` say so. This
    shows the steps that set it right, and asks; where nobody can be asked it only shows them (exit code 2). The files
    are renamed to the times at which they were written, and the metadata table is built again where it went by a wrong
    time. Stop the table's writers first: nothing is done while one may be alive, or where a true time cannot be known.
    """
    with open_project(flags) as project:
        planned = project.repair(name)
        done = _confirmed(planned, yes=yes, output=flags.output)
        if done:
            planned.carry_out()
    _print(planned, flags.output, done=done)
    return ExitCode.DONE if done or not planned.repair.steps else ExitCode.CHANGES


def _confirmed(planned: PlannedRepair, *, yes: bool, output: str) -> bool:
    """Show the steps and, on a terminal, ask."""
    steps = planned.repair.steps
    asks = bool(steps) and not yes and output != "json" and sys.stdin.isatty()
    if steps and output != "json":
        lines = (f"  {number}. {step}" for number, step in enumerate(steps, start=1))
        announce("\n".join((f"{planned.policy.name}  {planned.policy.table}", *lines)), asks=asks)
    return ask("No writer may work on the table meanwhile. Go on?") if asks else yes and bool(steps)


def _print(planned: PlannedRepair, output: str, *, done: bool) -> None:
    name, steps = planned.policy.name, planned.repair.steps
    if output == "json":
        found = {"schema_version": 1, "policy": name, "steps": [str(step) for step in steps], "done": done}
        print_json(json.dumps(found, indent=2))
    elif not steps:
        say(f"{name}: every completion time can be true; there is nothing to repair.")
    elif done:
        say(f"{name}: repaired. Prove it with `etc verify --select {name}`.")
    else:
        show_note("Nothing was changed; `--yes` carries these steps out.")
