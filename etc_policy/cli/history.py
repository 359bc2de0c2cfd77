"""`etc history`: what was done to a policy's table, from the table itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from etc_policy.api.planning import set_place
from etc_policy.cli.options import (
    debug_option,
    examples,
    output_option,
    project_dir_option,
    select_policies,
    target_dir_option,
)
from etc_policy.cli.printing import say, text_width
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest
from etc_policy.cli.recording import load_runs
from etc_policy.cli.spark_confs import conf_option
from etc_policy.codes.registry import Code
from etc_policy.errors import EtcError, UsageError
from etc_policy.publish.history import policy_history
from etc_policy.publish.history_text import render_history


@click.command(
    "history",
    short_help="What was done to a table: commit, policy, plan, instant, checks",
    epilog=examples(
        "etc history orders_ro",
        "etc history orders_ro --limit 3",
        "etc history orders_ro --output json | jq '.compactions[].git_sha'",
    ),
)
@click.argument("name")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Show the newest of them; JSON has all."
)
@project_dir_option
@target_dir_option
@conf_option
@output_option
@debug_option
def command(name: str, limit: int, project_dir: Path, target_dir: Path, confs: Mapping[str, str], output: str) -> None:
    """What was done to a table: commit, policy, plan, instant, checks.

    Each compaction is read from the table's own commits, active and archived, so it is known on any machine that can
    read the table, without Spark: the git commit, the policy's fingerprint, the plan, the instant and what it wrote.
    The checks of a run come from target/runs/ where the run was made here. A compaction by somebody else is shown too.
    """
    policies = select_policies(load_manifest(project_dir), (name,))
    if len(policies) != 1:
        raise UsageError(Code.USAGE, f"`{name[:60]}` means {len(policies)} policies, and a history is that of one")
    policy = policies[0]
    environment = open_environment(project_dir, target_dir, confs)
    try:
        history = environment.read_commit_log(policy, compactions_only=True)
    except EtcError as error:
        set_place(error, policy)
        raise
    finally:
        environment.close()
    runs = load_runs(target_dir)
    found = policy_history(policy, history, runs.files, tuple(str(issue) for issue in runs.issues))
    if output == "json":
        click.echo(found.model_dump_json(indent=2))
    else:
        say(render_history(found, limit, text_width()))
