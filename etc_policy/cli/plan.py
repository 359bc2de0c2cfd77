"""`etc plan`: what would be compacted, and why; nothing is touched."""

from __future__ import annotations

import shlex
from datetime import timedelta
from functools import partial
from pathlib import Path

import click

from etc_policy.cli.ci_forms import CheckedCommand, places, report_checks
from etc_policy.cli.messages import show_note
from etc_policy.cli.opening import finish, open_project, settle
from etc_policy.cli.options import (
    Flags,
    common_options,
    conf_option,
    examples,
    jobs_option,
    long_option,
    metadata_only_option,
    require_one_form,
    trust_options,
)
from etc_policy.cli.printing import show, text_width
from etc_policy.cli.value_types import FILE, at_option, every_option
from etc_policy.errors import ExitCode
from etc_policy.plan.explainer import explain_plan, list_plan
from etc_policy.plan.model import Plan
from etc_policy.report.checks import checks_of_plan
from etc_policy.table.formats import MANY_TABLES, TEXT_WIDTH

_MORE = "`etc plan --long` shows the tables one by one, `--explain` says why."


@click.command(
    "plan",
    cls=CheckedCommand,
    short_help="Show what would be compacted, and save it",
    epilog=examples(
        "etc plan",
        "etc plan --select orders_ro --explain",
        "etc plan --out orders.plan.json && etc apply orders.plan.json",
        "etc plan --every 5m --output json | jq '.tables[].next_due_ms'",
        "etc plan --at 2013-01-02T01:00:00Z --output json | jq '.tables[].action'",
    ),
)
@at_option
@every_option
@conf_option
@click.option("--out", type=FILE, help="Save the plan to this file for `etc apply FILE`.")
@jobs_option
@metadata_only_option
@click.option("--read-stats", is_flag=True, help="Take unknown event times from column statistics (starts Spark).")
@long_option
@click.option("--explain", is_flag=True, help="Say in words why: each slice, each guard, what holds RO back.")
@click.option("--detailed-exitcode", is_flag=True, help="Exit with 2 when there is something to compact.")
@trust_options
@common_options
def command(
    flags: Flags,
    every: timedelta | None,
    out: Path | None,
    read_stats: bool,
    long: bool,
    explain: bool,
    detailed_exitcode: bool,
) -> ExitCode:
    """Show what would be compacted, and save it.

    Reads the tables' metadata, and the log files whose event times are not in it; without Spark. The plan is saved
    as target/plan.json too. A table that cannot be compacted now is refused with its reason, and the others are planned
    all the same.
    """
    require_one_form(flags, explain=explain, long=long)
    with open_project(flags) as project:
        plan, error = settle(
            project.plan, *flags.terms, at=flags.at, every=every, read_stats=read_stats, out=out, check=True
        )
        where = places(project.policies(*flags.terms))
    show(flags, plan, partial(text_of, plan, explain=explain, long=long, hint=f"\n{_MORE}", width=text_width()))
    if out is not None:
        show_note(f"Saved: etc apply {shlex.quote(str(out))}")
    report_checks(checks_of_plan(plan, where))
    finish(error)
    return ExitCode.CHANGES if detailed_exitcode and plan.has_changes else ExitCode.DONE


def text_of(plan: Plan, *, explain: bool = False, long: bool = False, hint: str = "", width: int = TEXT_WIDTH) -> str:
    """The plan as text; many tables have a line each and the hint below them, unless it is to be long."""
    if long or explain or len(plan.tables) < MANY_TABLES:
        return explain_plan(plan, explain=explain, width=width)
    return list_plan(plan, width) + hint
