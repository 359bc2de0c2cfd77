"""`etc undo`: withdraws published plans that have not completed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from etc_policy.api.planning import place, raise_all
from etc_policy.cli.options import common_options, examples, select_policies
from etc_policy.cli.printing import say
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest
from etc_policy.cli.spark_confs import conf_option
from etc_policy.compile.selection import Selection
from etc_policy.errors import EtcError
from etc_policy.wiring import resolve_table


@click.command(
    "undo",
    short_help="Withdraw a published plan that has not completed",
    epilog=examples("etc undo", "etc undo --select orders_ro --output json"),
)
@common_options
@conf_option
def command(project_dir: Path, target_dir: Path, select: Selection, output: str, confs: Mapping[str, str]) -> None:
    """Withdraw a published plan that has not completed.

    Only plans of etc are touched. What a killed run had begun is rolled back by Hudi first; the table is then as it was
    before the plan. A compaction that has completed stays: it lost nothing, so there is nothing to undo.
    """
    policies = select_policies(load_manifest(project_dir), select)
    environment = open_environment(project_dir, target_dir, confs)
    withdrawn: list[tuple[str, str]] = []
    errors: list[EtcError] = []
    try:
        for policy in policies:
            try:
                outcome = environment.runner().undo(policy, resolve_table(environment, policy).table)
                if outcome is not None and outcome.instant is not None:
                    withdrawn.append((policy.name, outcome.instant))
            except EtcError as error:
                error.where = error.where or place(policy.source, policy.name)
                errors.append(error)
    finally:
        environment.close()
    _print(withdrawn, output)
    raise_all(errors)


def _print(withdrawn: list[tuple[str, str]], output: str) -> None:
    if output == "json":
        tables = [{"policy": name, "instant": instant} for name, instant in withdrawn]
        click.echo(json.dumps({"schema_version": 1, "withdrawn": tables}, indent=2))
        return
    for name, instant in withdrawn:
        say(f"{name}: the plan at {instant} is withdrawn")
    if not withdrawn:
        say("No plan of ours is pending.")
