"""`etc history`: what was done to a policy's table, from the table itself."""

from __future__ import annotations

import click

from etc_policy.cli.opening import open_project
from etc_policy.cli.options import PROJECT_OPTIONS, Flags, conf_option, examples, output_option, shared_options
from etc_policy.cli.printing import show, text_width
from etc_policy.publish.history_text import render_history


@click.command(
    "history",
    short_help="Show the compactions of a table and their checks",
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
@shared_options(*PROJECT_OPTIONS, conf_option, output_option)
def command(flags: Flags, name: str, limit: int) -> None:
    """Show the compactions of a table and their checks.

    Each compaction is read from the table's own commits, active and archived, so it is known on any machine that can
    read the table, without Spark: the git commit, the policy's fingerprint, the plan, the instant and what it wrote.
    The checks of a run come from target/runs/ where the run was made here. A compaction by somebody else is shown too.
    """
    with open_project(flags) as project:
        found = project.history(name)
    show(flags, found, lambda: render_history(found, limit, text_width()))
