"""`etc debug`: what is fine, what is not, and what to do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from etc_policy.api.diagnosing import diagnose
from etc_policy.cli.options import common_options, examples, metadata_only_option, select_policies
from etc_policy.cli.printing import say, text_width
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import check_files, load_manifest
from etc_policy.cli.spark_confs import conf_option
from etc_policy.compile.manifest import Policy
from etc_policy.compile.selection import Selection
from etc_policy.errors import ExitCode, Issue, PolicyError
from etc_policy.publish.debug import render_debug


@click.command(
    "debug",
    short_help="What is fine, what is not, and what to do",
    epilog=examples(
        "etc debug",
        "etc debug --select orders_ro",
        "etc debug --spark --target prod",
        "etc debug --output json | jq '.findings[] | select(.status != \"ok\")'",
    ),
)
@conf_option
@metadata_only_option
@click.option("--spark", is_flag=True, help="Start Spark too, to see that it does (seconds).")
@common_options
def command(
    project_dir: Path,
    target_dir: Path,
    select: Selection,
    output: str,
    confs: Mapping[str, str],
    metadata_only: bool,
    spark: bool,
) -> ExitCode:
    """What is fine, what is not, and what to do.

    Looks at Python, Java, Spark and the Hudi bundle, at the project and its target, and at each table: whether its
    writers do what the policy asks (log file sizes, event times, no compactions of their own), whether the declared
    index and lock agree with the table, and whether two defects of stock Hudi can harm it. Exits with 1 where something
    is an error; warnings exit with 0.
    """
    issues, policies = _policies(project_dir, select)
    environment = open_environment(project_dir, target_dir, confs, metadata_only=metadata_only)
    try:
        report = diagnose(environment, issues, policies, os.environ, spark=spark)
    finally:
        environment.close()
    if output == "json":
        click.echo(report.model_dump_json(indent=2))
    else:
        say(render_debug(report, text_width()))
    return ExitCode.FAILED if any(finding.status == "error" for finding in report.findings) else ExitCode.DONE


def _policies(project_dir: Path, select: Selection) -> tuple[tuple[Issue, ...], tuple[Policy, ...]]:
    """The project's issues, and its selected policies where it has no error."""
    try:
        _, issues = check_files(project_dir)
        if any(issue.level == "error" for issue in issues):
            return issues, ()
        return issues, select_policies(load_manifest(project_dir), select)
    except PolicyError as error:
        return error.issues, ()
