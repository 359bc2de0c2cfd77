"""`etc freshness`: how far each table's RO view is complete now, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from etc_policy.api.observing import observe_freshness
from etc_policy.cli.ci_forms import CheckedCommand, places, report_checks
from etc_policy.cli.moments import at_option
from etc_policy.cli.options import common_options, examples, metadata_only_option, select_policies
from etc_policy.cli.printing import say, text_width
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest, write_text
from etc_policy.cli.spark_confs import conf_option
from etc_policy.compile.selection import Selection
from etc_policy.errors import ExitCode, SeveralErrors
from etc_policy.plan.formats import iso_time
from etc_policy.publish.checks import checks_of_freshness
from etc_policy.publish.report import render_freshness
from etc_policy.publish.results import FreshnessReport
from etc_policy.wiring import clock_ms


@click.command(
    "freshness",
    cls=CheckedCommand,
    short_help="How far each table is complete, without Spark",
    epilog=examples(
        "etc freshness",
        "etc freshness --fail-on warn --github --junit-xml target/freshness.xml",
        "etc freshness --output json | jq '.tables[] | {policy, status}'",
    ),
)
@at_option
@conf_option
@metadata_only_option
@click.option("--archived", is_flag=True, help="Judge `data_latency` over archived commits too.")
@click.option(
    "--fail-on",
    type=click.Choice(["warn", "error"]),
    default="error",
    show_default=True,
    help="Exit with 1 from this status on; `unknown` always does.",
)
@common_options
def command(
    project_dir: Path,
    target_dir: Path,
    select: Selection,
    output: str,
    at_ms: int | None,
    confs: Mapping[str, str],
    metadata_only: bool,
    archived: bool,
    fail_on: str,
) -> int:
    """How far each table is complete, without Spark.

    Each table passes, warns or fails by the lag of its completeness behind now. Beside it stand the late data since the
    last compaction, and how well `data_latency` fits what the table's commits show. Exits with 1 when a table is beyond
    its limit or nothing is known of it, with `--fail-on warn` also when it is beyond its target. The report is written
    to target/freshness.json too.
    """
    policies = select_policies(load_manifest(project_dir), select)
    environment = open_environment(project_dir, target_dir, confs, metadata_only=metadata_only)
    now_ms = clock_ms() if at_ms is None else at_ms
    try:
        tables, errors = observe_freshness(environment, policies, now_ms, archived=archived)
    finally:
        environment.close()
    report = FreshnessReport(observed_at=iso_time(now_ms), git=environment.git_state(), tables=tables)
    text = report.model_dump_json(indent=2)
    write_text(target_dir / "freshness.json", text + "\n")
    if output == "json":
        click.echo(text)
    else:
        say(render_freshness(report, text_width()))
    report_checks(checks_of_freshness(report, places(policies), fail_on_warn=fail_on == "warn"))
    if errors:  # what is not known is a verdict here, not a failure of the command
        raise SeveralErrors(errors, ExitCode.FAILED)
    failing = ("error", "unknown", "warn") if fail_on == "warn" else ("error", "unknown")
    return ExitCode.FAILED if any(table.status in failing for table in tables) else ExitCode.DONE
