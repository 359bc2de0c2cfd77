"""`etc apply`: carries out a plan and verifies what it did."""

from __future__ import annotations

import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

import click

from etc_policy.cli.ci_forms import CheckedCommand, report_tables
from etc_policy.cli.messages import show_note
from etc_policy.cli.opening import exit_with, open_project, report_and_error
from etc_policy.cli.options import (
    Flags,
    common_options,
    conf_option,
    examples,
    jobs_option,
    long_option,
    require_one_form,
)
from etc_policy.cli.printing import announce, ask, show, text_width
from etc_policy.cli.value_types import FILE, at_option, every_option
from etc_policy.errors import ExitCode, UsageError
from etc_policy.errors.codes import Code
from etc_policy.plan.explainer import explain_plan, list_plan, summarize_changes
from etc_policy.plan.model import Plan
from etc_policy.report.report import render_results
from etc_policy.table.formats import MANY_TABLES, fold


@click.command(
    "apply",
    cls=CheckedCommand,
    epilog=examples(
        "etc apply",
        "etc apply --yes --output json",
        "etc apply --yes --every 5m",
        "etc apply target/plan.json",
        "etc apply --yes --conf spark.master=yarn --conf spark.executor.memory=4g",
    ),
)
@click.argument("plan_file", required=False, type=FILE)
@at_option
@every_option
@conf_option
@jobs_option
@click.option("--yes", is_flag=True, help="Do not ask before the plan is carried out.")
@long_option
@common_options
def command(flags: Flags, plan_file: Path | None, every: timedelta | None, yes: bool, long: bool) -> int:
    """Carry out a plan, then verify.

    With PLAN_FILE exactly that plan is carried out, unless a table changed since; without it, etc plans, shows the
    plan and asks; if a writer overtakes the plan before it is committed, a new one is made, shown and asked for. Where nobody
    can be asked, and with `--output json`, it wants `--yes` or a PLAN_FILE. What an earlier run left half done is finished
    first. It may be killed at any moment and run again.
    """
    require_one_form(flags, long=long)
    if plan_file is not None and every is not None:
        raise click.UsageError("`--every` decides what is planned: give it to `etc plan`, not beside a PLAN_FILE")
    return apply_selected(flags, plan_file, every, yes=yes, long=long)


def apply_selected(flags: Flags, plan_file: Path | None, every: timedelta | None, *, yes: bool, long: bool) -> ExitCode:
    """Carry out the plan in the file, or a new one that is confirmed, print what came of it, and return the exit code."""
    confirm = partial(_confirmed, yes=yes, output=flags.output, long=long)
    with open_project(flags) as project:
        policies = project.policies(*flags.terms)
        if plan_file is None and not yes:
            _require_an_answer(flags.output)
        try:
            results, error = report_and_error(
                project.apply, plan_file, *flags.terms, at=flags.at, every=every, confirm=confirm
            )
        except KeyboardInterrupt:
            show_note("the next `etc apply` finishes what was begun, or `etc undo` withdraws it")
            raise
    show(flags, results, lambda: render_results(results, text_width(), long=long))
    report_tables(results, lambda: policies)
    return exit_with(error, results.exit_code)


def _require_an_answer(output: str) -> None:
    """Return if somebody can be asked: on a terminal, and not where a program reads the output."""
    hint = "add `--yes`, or save a plan with `etc plan --out FILE` and apply that file"
    if output == "json":
        raise UsageError(Code.CANNOT_ASK, "`--output json` does not ask before it compacts", hint=hint)
    if not sys.stdin.isatty():
        raise UsageError(Code.CANNOT_ASK, "cannot ask: standard input is not a terminal", hint=hint)


def _confirmed(plan: Plan, *, yes: bool, output: str, long: bool) -> bool:
    """Show the plan and ask; nothing is asked where nothing would change."""
    asks = plan.has_changes and not yes
    if output != "json" and plan.tables:
        show_plan = explain_plan if long or len(plan.tables) < MANY_TABLES else list_plan
        announce(show_plan(plan, width=text_width()) + "\n", asks=asks)
    if not asks:
        return True
    if ask(f"{fold(summarize_changes(plan), text_width())}\nGo on?"):
        return True
    show_note("Nothing was changed by this plan.")
    return False
