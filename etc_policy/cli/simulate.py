"""`etc simulate`: what a policy, or another one, would have made of a table's past."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from etc_policy.api.artifacts import write_named
from etc_policy.cli.opening import finish, open_project, open_tables, settle
from etc_policy.cli.options import (
    PROJECT_OPTIONS,
    SELECT_OPTIONS,
    Flags,
    complete_policies,
    conf_option,
    examples,
    jobs_option,
    long_option,
    metadata_only_option,
    output_option,
    shared_options,
    trust_options,
)
from etc_policy.cli.printing import show, text_width
from etc_policy.cli.value_types import FILE, every_option, interval_option
from etc_policy.errors import ExitCode
from etc_policy.policy.files import read_template
from etc_policy.report.fleet import render_fleet, render_fleet_page
from etc_policy.report.simulation import SimulationReport, render_simulation
from etc_policy.table.formats import MANY_TABLES
from etc_policy.wiring import clock_ms


def _values(_context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Mapping[str, Any]:
    """Values by their dotted keys, each read as YAML."""
    from etc_policy.errors import PolicyError
    from etc_policy.policy.yaml_marks import load_marked

    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"`{text[:60]}` is not of the form {parameter.metavar}")
        try:
            found[key] = load_marked(f"value: {value}", "--set").value["value"]
        except PolicyError as error:
            raise click.BadParameter(f"`{text[:60]}`: {error.issues[0].message}") from error
    return found


@click.command(
    "simulate",
    short_help="Replay a table's past under other settings",
    epilog=examples(
        "etc simulate orders_ro",
        "etc simulate orders_ro --set data_latency=45m --every 15m",
        "etc simulate -s tag:hourly --set strategy.granularity=file_slice",
        "etc simulate --price core_hour=0.05 --price cores=8 --price gb_written=0.02",
        "etc simulate --last 2d --output json | jq '.tables[].settings'",
    ),
)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_policies)
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_values,
    help="Another value of the policy, such as data_latency=45m; may be repeated. Empty removes the key.",
)
@click.option(
    "--price",
    metavar="KEY=NUMBER",
    multiple=True,
    callback=_values,
    help="What compacting costs: `core_hour`, of which a run has `cores`, and `gb_read` and `gb_written`, each 10^9 bytes; may "
    "be repeated.",
)
@every_option
@interval_option("--last", help="Replay only so much of the past, such as 2d.  [default: all that is known]")
@conf_option
@jobs_option
@click.option("--html", type=FILE, help="Write the page of all tables to this file too.")
@metadata_only_option
@long_option
@trust_options
@shared_options(*PROJECT_OPTIONS, *SELECT_OPTIONS, output_option)
def command(
    flags: Flags,
    names: tuple[str, ...],
    settings: Mapping[str, Any],
    price: Mapping[str, Any],
    html: Path | None,
    long: bool,
    every: timedelta | None,
    last: timedelta | None,
) -> ExitCode:
    """Replay a table's past under other settings.

    Reads the commits that the table still has, active and archived, without Spark; changes nothing. At each run the planner
    plans what it would have planned then. Shown are RO's lag, the time above `freshness.target`, late rows, runs and bytes: of
    the compactions as they were, of the policy, of the policy with `--set`, and of stock Hudi that compacts every file slice.
    Several tables get a line each, with what is not compacted now and what their policies save, the longest lag first.

    NAME is a policy, or the path of a table, with a `/`: that needs no project, and its event-time column and data latency are
    guessed as by `etc import`. Nothing is written then.
    """
    paths = tuple(name for name in names if "/" in name)
    if paths and (len(paths) < len(names) or flags.select or flags.exclude):
        raise click.UsageError("a path is a table without a project: give no policies beside it")
    select = () if paths else (*names, *flags.select)
    with open_tables(flags, paths) if paths else open_project(flags) as project:
        report, error = settle(
            project.simulate, select, flags.exclude, settings=settings, price=price, every=every, last=last
        )
        if html is not None:
            write_named(html, render_fleet_page(report, clock_ms(), read_template), "--html")
        show(flags, report, lambda: _text(report, long=long))
        return finish(error, report.exit_code)


def _text(report: SimulationReport, *, long: bool) -> str:
    """Each table's block, unless there are many, and a line for each of several."""
    blocks = render_simulation(report, text_width()) if long or len(report.tables) < MANY_TABLES else ""
    return "\n\n".join(filter(None, (blocks, render_fleet(report))))
