"""`etc sync`: the properties of RO tables in the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from etc_policy.api.planning import raise_all
from etc_policy.api.run_results import last_results
from etc_policy.api.syncing import policies_to_sync, sync_tables
from etc_policy.cli.ci_forms import CheckedCommand, places, report_checks
from etc_policy.cli.messages import tell_warning
from etc_policy.cli.moments import at_option
from etc_policy.cli.options import common_options, examples, select_policies
from etc_policy.cli.printing import say, text_width
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest
from etc_policy.cli.spark_confs import conf_option
from etc_policy.compile.manifest import Policy
from etc_policy.compile.selection import Selection
from etc_policy.errors import EtcError
from etc_policy.plan.formats import iso_time
from etc_policy.publish.checks import checks_of_syncs
from etc_policy.publish.report import render_sync
from etc_policy.publish.results import SyncReport, TableResult
from etc_policy.wiring import clock_ms


@click.command(
    "sync",
    cls=CheckedCommand,
    short_help="Tell the catalog how far each RO table is complete",
    epilog=examples(
        "etc sync",
        "etc sync --select orders_ro --output json | jq '.tables[].properties'",
        "etc sync --remove",
    ),
)
@at_option
@conf_option
@click.option("--remove", is_flag=True, help="Take the properties away instead.")
@common_options
def command(
    project_dir: Path,
    target_dir: Path,
    select: Selection,
    output: str,
    at_ms: int | None,
    confs: Mapping[str, str],
    remove: bool,
) -> None:
    """Tell the catalog how far each RO table is complete.

    Sets the properties `etc.event_time.*` on the table that a policy names as `sync.ro_table`, as `etc apply` does after
    each run: the threshold of the last completed compaction, how far RO is complete now, and whether that compaction was
    verified. Only the catalog is written. A catalog that does not answer is tried three times, then the exit code is 4.
    """
    policies = policies_to_sync(select_policies(load_manifest(project_dir), select))
    environment = open_environment(project_dir, target_dir, confs)
    now_ms = clock_ms() if at_ms is None else at_ms
    try:
        known = {} if remove else _last_results(target_dir, policies)
        results, errors = sync_tables(environment, policies, now_ms, known, remove=remove)
    finally:
        environment.close()
    report = SyncReport(observed_at=iso_time(now_ms), tables=results)
    if output == "json":
        click.echo(report.model_dump_json(indent=2))
    else:
        say(render_sync(report, text_width()))
    report_checks(checks_of_syncs(report, places(policies)))
    raise_all(errors)


def _last_results(target_dir: Path, policies: Sequence[Policy]) -> Mapping[str, TableResult]:
    """What the last run verified; results that cannot be read are told, and verify nothing."""
    try:
        return last_results(target_dir, policies)
    except EtcError as error:
        tell_warning(replace(error.issues[0], level="warning"))
        return {}
