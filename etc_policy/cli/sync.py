"""`etc sync`: the properties of RO tables in the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from etc_policy.api.planning import place, raise_all
from etc_policy.api.run_results import last_results
from etc_policy.api.syncing import failed_sync, remove_properties, sync_table
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
from etc_policy.errors import EtcError, UsageError
from etc_policy.plan.formats import iso_time
from etc_policy.publish.checks import checks_of_syncs
from etc_policy.publish.report import render_sync
from etc_policy.publish.results import SyncReport, SyncResult, TableResult
from etc_policy.publish.sync import verdict_of
from etc_policy.wiring import Environment, clock_ms


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
@common_options
@at_option
@conf_option
@click.option("--remove", is_flag=True, help="Take the properties away instead.")
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
    selected = select_policies(load_manifest(project_dir), select)
    policies = [policy for policy in selected if policy.sync.ro_table]
    if selected and not policies:
        hint = "name the RO table of a policy, as `sync: {ro_table: lake.orders_ro}`"
        raise UsageError("ETC606", "no selected policy has an RO table to sync to", hint=hint)
    environment = open_environment(project_dir, target_dir, confs)
    now_ms = clock_ms() if at_ms is None else at_ms
    results: list[SyncResult] = []
    errors: list[EtcError] = []
    try:
        known = {} if remove else _last_results(target_dir, policies)
        for policy in policies:
            try:
                results.append(_sync(environment, policy, now_ms, known.get(policy.name), remove=remove))
            except EtcError as error:
                error.where = error.where or place(policy.source, policy.name)
                errors.append(error)
                results.append(failed_sync(policy, error))
    finally:
        environment.close()
    report = SyncReport(observed_at=iso_time(now_ms), tables=tuple(results))
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


def _sync(
    environment: Environment, policy: Policy, now_ms: int, last: TableResult | None, *, remove: bool
) -> SyncResult:
    """Sync one table; what the last run verified counts only for the very compaction that it was about."""
    if remove:
        return remove_properties(environment, policy)
    verdict = verdict_of(last) if last is not None and last.status != "nothing_due" else None
    return sync_table(environment, policy, now_ms, verdict)
