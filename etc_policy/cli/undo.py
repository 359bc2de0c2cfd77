"""`etc undo`: withdraws published plans that have not completed."""

from __future__ import annotations

import click

from etc_policy.cli.opening import finish, open_project, settle
from etc_policy.cli.options import Flags, common_options, conf_option, examples
from etc_policy.cli.printing import show
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
        report, error = settle(project.undo, *flags.terms)
    lines = [f"{plan.policy}: the plan at {plan.instant} is withdrawn" for plan in report.withdrawn]
    # that there was none is known only where every table could be read
    show(flags, report, lambda: "\n".join(lines) or ("" if error else "etc has no pending plan."))
    return finish(error, report.exit_code)
