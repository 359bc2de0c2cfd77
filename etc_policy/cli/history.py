"""`etc history`: what was done to a policy's table, from the table itself."""

from __future__ import annotations

from collections.abc import Iterable

import click

from etc_policy.cli.opening import finish, open_project, settle
from etc_policy.cli.options import (
    PROJECT_OPTIONS,
    SELECT_OPTIONS,
    Flags,
    complete_policies,
    conf_option,
    examples,
    jobs_option,
    output_option,
    require_choice,
    shared_options,
)
from etc_policy.cli.printing import show, text_width
from etc_policy.errors import ExitCode
from etc_policy.report.history import PolicyHistory
from etc_policy.report.history_text import render_history
from etc_policy.table.formats import TEXT_WIDTH


@click.command(
    "history",
    short_help="Show the compactions of a table and their checks",
    epilog=examples(
        "etc history orders_ro",
        "etc history orders_ro --limit 3",
        "etc history --select tag:morning --limit 1",
        "etc history orders_ro --output json | jq '.compactions[].git_sha'",
    ),
)
@click.argument("name", required=False, shell_complete=complete_policies)
@click.option(
    "--limit",
    metavar="NUMBER",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Show so many of the newest; JSON has all.",
)
@shared_options(*PROJECT_OPTIONS, *SELECT_OPTIONS, conf_option, jobs_option, output_option)
def command(flags: Flags, name: str | None, limit: int) -> ExitCode:
    """Show the compactions of a table and their checks.

    Each compaction is read from the table's own commits, active and archived, so it is known on any machine that can
    read the table, without Spark: the git commit, the policy's fingerprint, the plan, the instant and what it wrote.
    The checks of a run come from target/runs/ where the run was made here. A compaction by somebody else is shown too.
    With `--select` there is a history for each table, in JSON as the list `histories`;
    one that cannot be read is in it with the reason.
    """
    if name is not None and flags.terms == ((), ()):
        with open_project(flags) as project:
            found, error = settle(project.history, name)
        show(flags, found, lambda: text_of((found,), limit, text_width()))
        return finish(error)
    select, exclude = require_choice(flags, *([name] if name is not None else []))
    with open_project(flags) as project:
        report, error = settle(project.histories, select, exclude)
    show(flags, report, lambda: text_of(report.histories, limit, text_width()))
    return finish(error, report.exit_code)


def text_of(histories: Iterable[PolicyHistory], limit: int, width: int = TEXT_WIDTH) -> str:
    """The histories as text; why a table cannot be read is said by its error."""
    return "\n\n".join(render_history(one, limit, width) for one in histories if one.reason is None)
