"""`etc wait`: returns when RO is complete up to a time, for the job that follows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from etc_policy.api.waiting import DEFAULT_POLL_MS, Waiter
from etc_policy.cli.moments import MomentType, Span
from etc_policy.cli.options import (
    complete_policies,
    debug_option,
    examples,
    metadata_only_option,
    output_option,
    project_dir_option,
    select_policies,
    target_dir_option,
)
from etc_policy.cli.printing import say
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest
from etc_policy.cli.spark_confs import conf_option
from etc_policy.plan.formats import format_duration, format_time, iso_time
from etc_policy.publish.results import FreshnessReport
from etc_policy.wiring import clock_ms


@click.command(
    "wait",
    short_help="Return when RO is complete up to a time",
    epilog=examples(
        "etc wait orders_ro --until 2026-01-01T06:00:00Z --timeout 30m",
        "etc wait orders_ro payments_ro --until 2026-01-01T06:00:00Z && ./report",
        "etc wait orders_ro --until 1767247200000 --timeout 0s   # only ask",
    ),
)
@click.argument(
    "names",
    metavar="NAME...",
    nargs=-1,
    required=True,
    shell_complete=lambda context, _parameter, incomplete: complete_policies(context, incomplete),
)
@click.option(
    "--until",
    "until_ms",
    type=MomentType(future=True),
    required=True,
    help="The event time up to which RO has to be complete: epoch ms or ISO 8601 (UTC without a zone).",
)
@click.option(
    "--timeout", "timeout_ms", type=Span(), default="30m", show_default=True, help="Give up after this; exits with 4."
)
@click.option(
    "--poll",
    "poll_ms",
    type=Span(),
    default=format_duration(DEFAULT_POLL_MS),
    show_default=True,
    help="Time between two looks at the metadata.",
)
@project_dir_option
@target_dir_option
@conf_option
@metadata_only_option
@output_option
@debug_option
def command(
    names: tuple[str, ...],
    until_ms: int,
    timeout_ms: int,
    poll_ms: int,
    project_dir: Path,
    target_dir: Path,
    confs: Mapping[str, str],
    metadata_only: bool,
    output: str,
) -> None:
    """Return when RO is complete up to a time.

    For the job that reads the view: exits with 0 as soon as every named table holds all rows with event time up to
    `--until`, as far as the data keep their promise on latency, and with 4 when the time runs out. It only reads
    metadata, so it starts no Spark (a `db.table` asks Spark's catalog once); who compacts, and where, does not matter.
    """
    policies = select_policies(load_manifest(project_dir), names)
    environment = open_environment(project_dir, target_dir, confs, metadata_only=metadata_only)
    try:
        tables = Waiter(environment, until_ms, timeout_ms, max(poll_ms, 100)).wait(policies)
    finally:
        environment.close()
    if output == "json":
        click.echo(FreshnessReport(observed_at=iso_time(clock_ms()), tables=tables).model_dump_json(indent=2))
        return
    for table in tables:
        say(f"{table.policy}  RO is complete until {format_time(table.complete_until_ms)}")
