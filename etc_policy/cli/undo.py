"""`etc undo`: withdraws published plans that have not completed."""

from __future__ import annotations

import click

from etc_policy.cli.opening import finish, open_project, settle, show_done
from etc_policy.cli.options import Flags, common_options, conf_option, examples
from etc_policy.errors import ExitCode


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
        withdrawn, error = settle(project.undo, *flags.terms)
    lines = [f"{name}: the plan at {instant} is withdrawn" for name, instant in withdrawn.items()]
    tables = [{"policy": name, "instant": instant} for name, instant in withdrawn.items()]
    show_done(flags, error, "withdrawn", tables, lines, "etc has no pending plan.")
    return finish(error)
