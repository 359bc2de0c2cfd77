"""`etc metrics`: the tables' figures for Prometheus, with alert rules and a dashboard for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import click

from etc_policy.api.observing import observe_tables
from etc_policy.cli.messages import tell_warning
from etc_policy.cli.options import (
    debug_option,
    examples,
    metadata_only_option,
    project_dir_option,
    select_options,
    select_policies,
    target_dir_option,
)
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest
from etc_policy.cli.spark_confs import conf_option
from etc_policy.compile.selection import Selection
from etc_policy.declare.templates import read_template
from etc_policy.publish.metrics import TableObservation
from etc_policy.wiring import Environment, serve_metrics, write_metrics

PORT = 9864


@click.group(
    "metrics",
    short_help="Figures for Prometheus, with rules and a dashboard",
    epilog=examples("etc metrics serve", "etc metrics rules > etc.rules.yml"),
)
def command() -> None:
    """Figures for Prometheus, with rules and a dashboard.

    All are gauges labelled by policy, table and target; they come from the tables' metadata, without Spark, and from the
    results of the last `etc apply` in the target folder.
    """


def _table_options(function: Callable[..., None]) -> Callable[..., None]:
    options = (conf_option, metadata_only_option, project_dir_option, target_dir_option, select_options, debug_option)
    for option in reversed(options):
        function = option(function)
    return function


@command.command(
    "serve",
    short_help="Answer /metrics until interrupted",
    epilog=examples("etc metrics serve", "etc metrics serve --address 0.0.0.0 --port 9900 --max-age 60"),
)
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes any free one.")
@click.option(
    "--max-age",
    "max_age_seconds",
    type=click.FloatRange(min=0),
    default=15,
    show_default=True,
    help="Seconds for which one look at the tables serves all scrapes.",
)
@_table_options
def serve(
    project_dir: Path,
    target_dir: Path,
    select: Selection,
    confs: Mapping[str, str],
    metadata_only: bool,
    address: str,
    port: int,
    max_age_seconds: float,
) -> None:
    """Answer /metrics until interrupted.

    The tables are looked at when Prometheus scrapes. A table that cannot be read is told as such, the others go on.
    """
    environment, observe = _observer(project_dir, target_dir, select, confs, metadata_only)
    try:
        server, thread = serve_metrics(observe, address, port, max_age_seconds)
        click.echo(f"http://{address}:{server.server_port}/metrics")
        try:
            thread.join()
        finally:
            server.shutdown()
            server.server_close()
    finally:
        environment.close()


@command.command(
    "write",
    short_help="Write a textfile for node_exporter",
    epilog=examples("etc metrics write /var/lib/prometheus/node-exporter/etc.prom"),
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_table_options
def write(
    file: Path,
    project_dir: Path,
    target_dir: Path,
    select: Selection,
    confs: Mapping[str, str],
    metadata_only: bool,
) -> None:
    """Write a textfile for node_exporter.

    FILE is replaced in one step; its name must end with `.prom` for node_exporter to read it.
    """
    environment, observe = _observer(project_dir, target_dir, select, confs, metadata_only)
    try:
        write_metrics(observe, file)
    finally:
        environment.close()


@command.command(
    "rules", short_help="Print alert rules for Prometheus", epilog=examples("etc metrics rules > etc_rules.yml")
)
@debug_option
def rules() -> None:
    """Print alert rules for Prometheus."""
    click.echo(read_template("observability/prometheus-rules.yml"), nl=False)


@command.command(
    "dashboard", short_help="Print a dashboard for Grafana", epilog=examples("etc metrics dashboard > etc.json")
)
@debug_option
def dashboard() -> None:
    """Print a dashboard for Grafana, to be imported or provisioned as a file."""
    click.echo(read_template("observability/grafana-dashboard.json"), nl=False)


def _observer(
    project_dir: Path, target_dir: Path, select: Selection, confs: Mapping[str, str], metadata_only: bool
) -> tuple[Environment, Callable[[], tuple[TableObservation, ...]]]:
    """A function that looks at the tables now; what it could not read goes to stderr."""
    policies = select_policies(load_manifest(project_dir), select)
    environment = open_environment(project_dir, target_dir, confs, metadata_only=metadata_only)

    def observe() -> tuple[TableObservation, ...]:
        observations, issues = observe_tables(environment, policies, target_dir)
        for issue in issues:
            tell_warning(replace(issue, level="warning"))  # told by `etc_table_readable`, and not by the exit code
        return observations

    return environment, observe
