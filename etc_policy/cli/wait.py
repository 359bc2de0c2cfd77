"""`etc wait`: returns when RO is complete up to a time, or a partition is done, for the job that follows."""

from __future__ import annotations

from datetime import datetime, timedelta

import click

from etc_policy.api.arguments import DEFAULT_POLL, span_ms
from etc_policy.cli.opening import finish, open_project, settle
from etc_policy.cli.options import (
    PROJECT_OPTIONS,
    SELECT_OPTIONS,
    Flags,
    complete_policies,
    conf_option,
    examples,
    metadata_only_option,
    output_option,
    require_choice,
    shared_options,
)
from etc_policy.cli.printing import show
from etc_policy.cli.value_types import MomentType, Span
from etc_policy.errors import ExitCode
from etc_policy.report.results import TableFreshness
from etc_policy.table.formats import format_duration, format_time


@click.command(
    "wait",
    short_help="Wait until RO is complete up to a time, or a partition is done",
    epilog=examples(
        "etc wait orders_ro --until 2026-01-01T06:00:00Z --timeout 30m",
        "etc wait orders_ro payments_ro --until 2026-01-01T06:00:00Z && ./report",
        "etc wait --select tag:morning --until 2026-01-01T06:00:00Z",
        "etc wait orders_ro --partition dt=2026-11-25 --timeout 6h && ./daily_report",
        "etc wait orders_ro --until 1767247200000 --timeout 0s   # only check",
    ),
)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_policies)
@click.option(
    "--until",
    type=MomentType(may_be_future=True),
    help="The event time up to which RO has to be complete: epoch ms or ISO 8601 (UTC without a zone).",
)
@click.option(
    "--partition",
    metavar="PATH",
    help="The path of the partition that has to be done: closed, by `partition_time` or `partition_idle`, and all in RO.",
)
@click.option(
    "--timeout", "timeout_ms", type=Span(), default="30m", show_default=True, help="Give up after this; exits with 4."
)
@click.option(
    "--poll",
    "poll_ms",
    type=Span(),
    default=format_duration(span_ms(DEFAULT_POLL)),
    show_default=True,
    help="Time between two readings of the metadata.",
)
@shared_options(*PROJECT_OPTIONS, *SELECT_OPTIONS, conf_option, metadata_only_option, output_option)
def command(
    flags: Flags, names: tuple[str, ...], until: datetime | None, partition: str | None, timeout_ms: int, poll_ms: int
) -> ExitCode:
    """Wait until RO is complete up to a time, or a partition is done.

    For the job that reads the view: exits with 0 as soon as every selected table holds all rows with event time up to
    `--until`, or all rows of its `--partition`, as far as the data keep their promise on latency, and with 4 when the time
    runs out. Where no waiting helps it ends with 3, or with 1 where the policy is wrong: at once, or for a missing data file
    at the second reading. However it ends, `--output json` has the freshness of each table as it was last seen. It only reads
    metadata, so it starts no Spark (a `db.table` is looked up in Spark's catalog once); who compacts, and where, does not
    matter.
    """
    if (until is None) == (partition is None):
        raise click.UsageError("give one of `--until` and `--partition`")
    timeout, poll = (timedelta(milliseconds=span) for span in (timeout_ms, poll_ms))
    select, exclude = require_choice(flags, *names)
    with open_project(flags) as project:
        report, error = settle(
            project.wait, select, exclude, until=until, partition=partition, timeout=timeout, poll=poll
        )
    show(flags, report, lambda: "" if error else "\n".join(_line(table) for table in report.tables))
    return finish(error)


def _line(table: TableFreshness) -> str:
    if table.partitions is not None:
        (partition,) = table.partitions.partitions
        before = (
            f" with an event before {format_time(partition.ends_ms)}" if table.partitions.rows == "until_end" else ""
        )
        return f"{table.policy}  RO holds every row of {partition.partition}{before}"
    return f"{table.policy}  RO is complete until {format_time(table.complete_until_ms)}"
