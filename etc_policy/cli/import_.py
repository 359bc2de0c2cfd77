"""`etc import`: policies for tables that exist."""

from __future__ import annotations

import click

from etc_policy.cli.opening import finish, open_project, settle
from etc_policy.cli.options import (
    PROJECT_OPTIONS,
    Flags,
    conf_option,
    examples,
    jobs_option,
    output_option,
    shared_options,
)
from etc_policy.cli.printing import show, text_width
from etc_policy.errors import ExitCode
from etc_policy.report.imports import render_import


@click.command(
    "import",
    short_help="Write policies for tables that exist",
    epilog=examples(
        "etc import /mnt/lake/orders",
        "etc import '/mnt/lake/sales/*'",
        "etc import --bucket s3://lake/sales",
        "etc import --catalog 'sales.*_mor' --target prod",
        "etc import --diff --detailed-exitcode",
    ),
)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--bucket", "buckets", multiple=True, metavar="URI", help="Search this bucket or folder, at any depth.")
@click.option(
    "--catalog",
    "catalogs",
    multiple=True,
    metavar="DB[.PATTERN]",
    help="Tables of the target's catalog (starts Spark).",
)
@click.option(
    "--diff", is_flag=True, help="Write nothing: show what is new, and which policies their tables contradict."
)
@click.option(
    "--detailed-exitcode", is_flag=True, help="With --diff: exit with 2 when something is new or has drifted."
)
@conf_option
@jobs_option
@shared_options(*PROJECT_OPTIONS, output_option)
def command(
    flags: Flags,
    paths: tuple[str, ...],
    buckets: tuple[str, ...],
    catalogs: tuple[str, ...],
    diff: bool,
    detailed_exitcode: bool,
) -> ExitCode:
    """Write policies for tables that exist.

    Looks at the metadata of each merge-on-read table and at the footer of a base file, and writes policies/NAME.yml: each
    value with its reason. What the table does not show is a question there, a line with `# ?`: `etc parse` lists it, and
    the file takes part in no run until it is answered. A table that the project has is left alone, and no file is ever
    replaced. PATH is a table, or a pattern of folders in quotes.
    """
    if not diff and not (paths or buckets or catalogs):
        raise click.UsageError("name tables, or where to look for them: PATH, `--bucket` or `--catalog`")
    if detailed_exitcode and not diff:
        raise click.UsageError("`--detailed-exitcode` goes with `--diff`")
    with open_project(flags) as project:
        report, error = settle(lambda: project.import_tables(paths, buckets=buckets, catalogs=catalogs, diff=diff))
    show(flags, report, lambda: render_import(report, text_width()))
    finish(error)
    return ExitCode.CHANGES if detailed_exitcode and report.has_drift else ExitCode.DONE
