"""`etc debug`: what is fine, what is not, and what to do."""

from __future__ import annotations

import click

from etc_policy.cli.opening import open_project
from etc_policy.cli.options import Flags, common_options, conf_option, examples, jobs_option, metadata_only_option
from etc_policy.cli.printing import show, text_width
from etc_policy.errors import ExitCode
from etc_policy.report.debug import DebugReport, render_debug
from etc_policy.table.formats import TEXT_WIDTH


@click.command(
    "debug",
    short_help="Check the machine, the project and the tables",
    epilog=examples(
        "etc debug",
        "etc debug --select orders_ro",
        "etc debug --spark --target prod",
        "etc debug --output json | jq '.findings[] | select(.status != \"ok\")'",
    ),
)
@conf_option
@jobs_option
@metadata_only_option
@click.option("--spark", is_flag=True, help="Start Spark too, which takes seconds, to see that it does.")
@common_options
def command(flags: Flags, spark: bool) -> ExitCode:
    """Check the machine, the project and the tables.

    Looks at Python, Java, Spark and the Hudi bundle, at the project and its target, and at each table: whether its
    writers do what the policy asks (log file sizes, event times, no compactions of their own), whether the declared
    index and lock agree with the table, and whether two defects of stock Hudi can harm it. Exits with 1 where something
    is an error; warnings exit with 0.
    """
    with open_project(flags) as project:
        report = project.debug(*flags.terms, spark=spark)
    show(flags, report, lambda: text_of(report, text_width()))
    return ExitCode.FAILED if any(finding.status == "error" for finding in report.findings) else ExitCode.DONE


def text_of(report: DebugReport, width: int = TEXT_WIDTH) -> str:
    """The report as text."""
    return render_debug(report, width)
