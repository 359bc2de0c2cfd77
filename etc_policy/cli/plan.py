"""`etc plan`: what would be compacted, and why; nothing is touched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from etc_policy.api.planning import plan_tables, raise_all, refusal_errors
from etc_policy.cli.ci_forms import CheckedCommand, places, report_checks
from etc_policy.cli.messages import tell
from etc_policy.cli.moments import at_option
from etc_policy.cli.options import common_options, examples, metadata_only_option, select_policies
from etc_policy.cli.printing import say, text_width
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest, write_text
from etc_policy.cli.spark_confs import conf_option
from etc_policy.compile.selection import Selection
from etc_policy.errors import ExitCode
from etc_policy.plan.explainer import explain_plan
from etc_policy.publish.checks import checks_of_plan
from etc_policy.wiring import clock_ms


@click.command(
    "plan",
    cls=CheckedCommand,
    short_help="Show what would be compacted, and save it",
    epilog=examples(
        "etc plan",
        "etc plan --select orders_ro --explain",
        "etc plan --out orders.plan.json && etc apply orders.plan.json",
        "etc plan --at 2013-01-02T01:00:00Z --output json | jq '.tables[].action'",
    ),
)
@at_option
@conf_option
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Save the plan to this file for `etc apply FILE`."
)
@metadata_only_option
@click.option("--read-stats", is_flag=True, help="Take unknown event times from column statistics (starts Spark).")
@click.option("--explain", is_flag=True, help="Say in words why: each slice, each guard, what holds RO back.")
@click.option("--detailed-exitcode", is_flag=True, help="Exit with 2 when there is something to compact.")
@common_options
def command(
    project_dir: Path,
    target_dir: Path,
    select: Selection,
    output: str,
    at_ms: int | None,
    confs: Mapping[str, str],
    out: Path | None,
    metadata_only: bool,
    read_stats: bool,
    explain: bool,
    detailed_exitcode: bool,
) -> int:
    """Show what would be compacted, and save it.

    Reads the tables' metadata, and the log files whose event times that does not tell; without Spark. The plan is saved
    as target/plan.json too. A table that cannot be compacted now is refused with its reason, and the others are planned
    all the same.
    """
    policies = select_policies(load_manifest(project_dir), select)
    environment = open_environment(project_dir, target_dir, confs, metadata_only=metadata_only)
    now_ms = clock_ms() if at_ms is None else at_ms
    try:
        plan = plan_tables(environment, policies, now_ms, read_stats=read_stats)
    finally:
        environment.close()
    text = plan.model_dump_json(indent=2) + "\n"
    write_text(target_dir / "plan.json", text)
    if out is not None:
        write_text(out, text, "--out")
    if output == "json":
        click.echo(text, nl=False)
    else:
        say(explain_plan(plan, explain=explain, width=text_width()))
    if out is not None:
        tell(f"Saved: etc apply {out}")
    report_checks(checks_of_plan(plan, places(policies)))
    raise_all(refusal_errors(plan, policies))
    return ExitCode.CHANGES if detailed_exitcode and plan.has_changes else ExitCode.DONE
