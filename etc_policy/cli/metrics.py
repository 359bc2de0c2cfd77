"""`etc metrics`: the tables' figures for Prometheus, with alert rules and a dashboard for them."""

from __future__ import annotations

from pathlib import Path

import click

from etc_policy.cli.messages import message_options
from etc_policy.cli.opening import open_project
from etc_policy.cli.options import (
    PROJECT_OPTIONS,
    SELECT_OPTIONS,
    Flags,
    conf_option,
    examples,
    jobs_option,
    metadata_only_option,
    shared_options,
)
from etc_policy.cli.terminal import print_data, print_text
from etc_policy.cli.value_types import FILE, port_option
from etc_policy.policy.files import read_template
from etc_policy.wiring import serve_metrics

PORT = 9864


@click.group("metrics", epilog=examples("etc metrics serve", "etc metrics rules > etc_rules.yml"))
def command() -> None:
    """Metrics for Prometheus, with rules and a dashboard.

    All are gauges labelled by policy, table and target; they come from the tables' metadata, without Spark, and from the
    results of the last `etc apply` in the target folder.
    """


_table_options = shared_options(conf_option, jobs_option, metadata_only_option, *PROJECT_OPTIONS, *SELECT_OPTIONS)


@command.command(
    "serve",
    short_help="Answer /metrics until interrupted",
    epilog=examples("etc metrics serve", "etc metrics serve --address 0.0.0.0 --port 9900 --max-age 60"),
)
@click.option("--address", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@port_option(PORT)
@click.option(
    "--max-age",
    "max_age_seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=15,
    show_default=True,
    help="One reading of the tables serves all scrapes for so long.",
)
@_table_options
def serve(flags: Flags, address: str, port: int, max_age_seconds: float) -> None:
    """Answer /metrics until interrupted.

    The tables and the project's files are read when Prometheus scrapes. A table that cannot be read is reported as such; the
    others are not affected.
    """
    with open_project(flags, read_once=False) as project:
        server, thread = serve_metrics(project.metrics(*flags.terms), address, port, max_age_seconds)
        print_text(f"http://{address}:{server.server_port}/metrics")
        try:
            thread.join()
        finally:
            server.shutdown()
            server.server_close()


@command.command(
    "write",
    short_help="Write a textfile for node_exporter",
    epilog=examples("etc metrics write /var/lib/prometheus/node-exporter/etc.prom"),
)
@click.argument("file", type=FILE)
@_table_options
def write(flags: Flags, file: Path) -> None:
    """Write a textfile for node_exporter.

    FILE is replaced in one step; its name must end with `.prom` for node_exporter to read it.
    """
    from etc_policy.report.prometheus import write_textfile

    with open_project(flags) as project:
        write_textfile(project.metrics(*flags.terms), file)


@command.command(
    "rules", short_help="Print alert rules for Prometheus", epilog=examples("etc metrics rules > etc_rules.yml")
)
@message_options
def rules() -> None:
    """Print alert rules for Prometheus."""
    print_data(read_template("observability/prometheus-rules.yml"))


@command.command(
    "dashboard",
    short_help="Print a dashboard for Grafana",
    epilog=examples("etc metrics dashboard > etc_dashboard.json"),
)
@message_options
def dashboard() -> None:
    """Print a dashboard for Grafana, to be imported or provisioned as a file."""
    print_data(read_template("observability/grafana-dashboard.json"))
