"""`etc undo`: withdraws published plans that have not completed."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from etc_policy.cli.opening import failed_tables, finish, open_project, settle
from etc_policy.cli.options import Flags, common_options, conf_option, examples
from etc_policy.cli.printing import say
from etc_policy.cli.terminal import print_json
from etc_policy.errors import ExitCode, SeveralErrors


@click.command(
    "undo",
    short_help="Withdraw a published plan that has not completed",
    epilog=examples("etc undo", "etc undo --select orders_ro --output json"),
)
@conf_option
@common_options
def command(flags: Flags) -> ExitCode:
    """Withdraw a published plan that has not completed.

    Only plans of etc are touched. What a killed run had begun is rolled back by Hudi first; the table is then as it was
    before the plan. A compaction that has completed stays: it lost nothing, so there is nothing to undo.
    """
    with open_project(flags) as project:
        withdrawn, error = settle(lambda: project.undo(*flags.terms))
    _print(withdrawn, flags.output, error)
    return finish(error)


def _print(withdrawn: Mapping[str, str], output: str, error: SeveralErrors | None) -> None:
    """Print what was done; that nothing was to do is known only where every table could be read."""
    if output == "json":
        tables = [{"policy": name, "instant": instant} for name, instant in withdrawn.items()]
        print_json(json.dumps({"schema_version": 1, "withdrawn": tables, "failed": failed_tables(error)}, indent=2))
        return
    for name, instant in withdrawn.items():
        say(f"{name}: the plan at {instant} is withdrawn")
    if error is None and not withdrawn:
        say("etc has no pending plan.")
