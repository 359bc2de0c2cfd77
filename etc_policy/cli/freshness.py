"""`etc freshness`: how far each table's RO view is complete now, without Spark."""

from __future__ import annotations

from typing import Literal

import click

from etc_policy.cli.ci_forms import CheckedCommand, places, report_checks
from etc_policy.cli.opening import finish, open_project, open_tables, settle
from etc_policy.cli.options import (
    Flags,
    common_options,
    conf_option,
    examples,
    jobs_option,
    long_option,
    metadata_only_option,
    require_one_form,
    trust_options,
)
from etc_policy.cli.printing import show, text_width
from etc_policy.cli.value_types import at_option
from etc_policy.errors import ExitCode
from etc_policy.report.checks import checks_of_freshness
from etc_policy.report.report import list_freshness, render_freshness
from etc_policy.report.results import FreshnessReport
from etc_policy.table.formats import MANY_TABLES, TEXT_WIDTH


@click.command(
    "freshness",
    cls=CheckedCommand,
    short_help="Show how far each table is complete, without Spark",
    epilog=examples(
        "etc freshness",
        "etc freshness /mnt/lake/orders",
        "etc freshness --fail-on warn --github --junit-xml target/freshness.xml",
        "etc freshness --by partition --partition 'dt=2026-11-*'",
        "etc freshness --output json | jq '.tables[] | {policy, status}'",
    ),
)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@at_option
@conf_option
@jobs_option
@metadata_only_option
@long_option
@click.option("--by", type=click.Choice(["partition"]), help="Report each partition too, the worst first.")
@click.option(
    "--partition",
    "globs",
    metavar="GLOB",
    multiple=True,
    help="As `--by partition`, of these partitions or of a range `A..B` alone; may be repeated.",
)
@click.option("--notify", is_flag=True, help="Send what is new to those whom `notify:` in etc_project.yml names.")
@click.option("--archived", is_flag=True, help="Judge `data_latency` over archived commits too.")
@click.option(
    "--fail-on",
    type=click.Choice(["warn", "error"]),
    default="error",
    show_default=True,
    help="Exit with 1 from this status on; `unknown` always does.",
)
@trust_options
@common_options
def command(
    flags: Flags,
    paths: tuple[str, ...],
    long: bool,
    by: str | None,
    globs: tuple[str, ...],
    notify: bool,
    archived: bool,
    fail_on: Literal["warn", "error"],
) -> ExitCode:
    """Show how far each table is complete, without Spark.

    Each table passes, warns or fails by the lag of its completeness behind now. The report also shows the late data since
    the last compaction, and how well `data_latency` fits what the table's commits show. Exits with 1 when a table is beyond
    its limit or nothing is known of it, with `--fail-on warn` also when it is beyond its target. The report is written
    to target/freshness.json too.

    PATH is a table, and needs no project: its event-time column and data latency are guessed as by `etc import`. Nothing is
    written then.
    """
    if paths and (flags.select or flags.exclude):
        raise click.UsageError("PATH is a table without a project, and `--select` a policy of one")
    require_one_form(flags, long=long)
    partitions = globs if by or globs else None
    with open_tables(flags, paths) if paths else open_project(flags) as project:
        report, error = settle(
            project.freshness,
            *flags.terms,
            at=flags.at,
            archived=archived,
            check=True,
            partitions=partitions,
            notify=notify,
        )
        where = places(project.policies(*flags.terms))
        show(flags, report, lambda: text_of(report, long=long or partitions is not None, width=text_width()))
        report_checks(checks_of_freshness(report, where, fail_on_warn=fail_on == "warn"))
        return finish(error, report.exit_code_from(fail_on))


def text_of(report: FreshnessReport, *, long: bool = False, width: int = TEXT_WIDTH) -> str:
    """The report as text; many tables have a line each, unless it is to be long."""
    is_long = long or len(report.tables) < MANY_TABLES
    return (render_freshness if is_long else list_freshness)(report, width)
