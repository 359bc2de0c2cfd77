"""`etc sync`: the properties of RO tables in the catalog."""

from __future__ import annotations

import click

from etc_policy.cli.ci_forms import CheckedCommand, places, report_checks
from etc_policy.cli.opening import finish, open_project, settle
from etc_policy.cli.options import Flags, common_options, conf_option, examples, long_option, require_one_form
from etc_policy.cli.printing import show, text_width
from etc_policy.cli.value_types import at_option
from etc_policy.errors import ExitCode
from etc_policy.report.checks import checks_of_syncs
from etc_policy.report.report import render_sync


@click.command(
    "sync",
    cls=CheckedCommand,
    short_help="Record in the catalog how far each RO table is complete",
    epilog=examples(
        "etc sync",
        "etc sync --select orders_ro --output json | jq '.tables[].properties'",
        "etc sync --remove",
    ),
)
@at_option
@conf_option
@click.option("--remove", is_flag=True, help="Remove the properties instead.")
@long_option
@common_options
def command(flags: Flags, remove: bool, long: bool) -> ExitCode:
    """Record in the catalog how far each RO table is complete.

    Sets the properties `etc.event_time.*` on the table that a policy names as `sync.ro_table`, as `etc apply` does after
    each run: the threshold of the last completed compaction, how far RO is complete now, and whether that compaction was
    verified. Only the catalog is written. A catalog that does not answer is tried three times, then the exit code is 4.
    """
    require_one_form(flags, long=long)
    with open_project(flags) as project:
        report, error = settle(project.sync, *flags.terms, at=flags.at, remove=remove)
        where = places(project.policies(*flags.terms))
    show(flags, report, lambda: render_sync(report, text_width(), long=long))
    report_checks(checks_of_syncs(report, where))
    return finish(error, report.exit_code)
