"""`etc undo`: withdraws published plans that have not completed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from etc_policy.api.planning import raise_all
from etc_policy.api.undoing import undo_tables
from etc_policy.cli.options import common_options, examples, select_policies
from etc_policy.cli.printing import say
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest
from etc_policy.cli.spark_confs import conf_option
from etc_policy.compile.selection import Selection


@click.command(
    "undo",
    short_help="Withdraw a published plan that has not completed",
    epilog=examples("etc undo", "etc undo --select orders_ro --output json"),
)
@conf_option
@common_options
def command(project_dir: Path, target_dir: Path, select: Selection, output: str, confs: Mapping[str, str]) -> None:
    """Withdraw a published plan that has not completed.

    Only plans of etc are touched. What a killed run had begun is rolled back by Hudi first; the table is then as it was
    before the plan. A compaction that has completed stays: it lost nothing, so there is nothing to undo.
    """
    policies = select_policies(load_manifest(project_dir), select)
    environment = open_environment(project_dir, target_dir, confs)
    try:
        withdrawn, errors = undo_tables(environment, policies)
    finally:
        environment.close()
    _print(withdrawn, output)
    raise_all(errors)


def _print(withdrawn: Iterable[tuple[str, str]], output: str) -> None:
    if output == "json":
        tables = [{"policy": name, "instant": instant} for name, instant in withdrawn]
        click.echo(json.dumps({"schema_version": 1, "withdrawn": tables}, indent=2))
        return
    found = tuple(withdrawn)
    for name, instant in found:
        say(f"{name}: the plan at {instant} is withdrawn")
    if not found:
        say("No plan of etc is pending.")
