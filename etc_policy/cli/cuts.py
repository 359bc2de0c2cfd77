"""`etc cuts`: the table as of past event times, and the SQL that reads each."""

from __future__ import annotations

import click

from etc_policy.cli.opening import finish, open_project, settle
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
from etc_policy.cli.printing import show, text_width
from etc_policy.errors import ExitCode
from etc_policy.report.cuts import render_cuts


@click.command(
    "cuts",
    short_help="List past cuts of tables with the SQL that reads them",
    epilog=examples(
        "etc cuts",
        "etc cuts --select orders_ro",
        "etc cuts --output json | jq -r '.tables[].cuts[] | select(.readable) | .sql'",
    ),
)
@shared_options(*PROJECT_OPTIONS, *SELECT_OPTIONS, conf_option, jobs_option, output_option)
def command(flags: Flags) -> ExitCode:
    """List past cuts of tables with the SQL that reads them.

    Each compaction with `granularity: record` leaves the table as of an event time. It can be read as long as the table
    has the base files that RO read then: the writers' cleaner removes them, and `strategy.keep` says how many cuts it is
    to leave. Read from the table's own commits and folders, without Spark.
    """
    with open_project(flags) as project:
        report, error = settle(project.cuts, *flags.terms)
    show(flags, report, lambda: render_cuts(report, text_width()))
    return finish(error, report.exit_code)
