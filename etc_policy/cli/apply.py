"""`etc apply`: carries out a plan and verifies what it did."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click

from etc_policy.api.applying import Applier
from etc_policy.api.planning import load_plan, match_policies, raise_all, worst
from etc_policy.cli.ci_forms import CheckedCommand, places, report_checks
from etc_policy.cli.messages import tell
from etc_policy.cli.moments import at_option
from etc_policy.cli.options import common_options, examples, select_policies
from etc_policy.cli.printing import ask, say, text_width
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest
from etc_policy.cli.recording import record_apply
from etc_policy.cli.spark_confs import conf_option
from etc_policy.codes.registry import Code
from etc_policy.compile.manifest import Manifest, Policy
from etc_policy.compile.selection import Selection
from etc_policy.errors import UsageError
from etc_policy.plan.explainer import explain_plan
from etc_policy.plan.formats import fold
from etc_policy.plan.stages import Plan
from etc_policy.plan.summary import summarize_changes
from etc_policy.publish.checks import checks_of_results
from etc_policy.publish.report import render_results
from etc_policy.wiring import clock_ms


@click.command(
    "apply",
    cls=CheckedCommand,
    short_help="Carry out a plan, then verify",
    epilog=examples(
        "etc apply",
        "etc apply --yes --output json",
        "etc apply target/plan.json",
        "etc apply --yes --conf spark.master=yarn --conf spark.executor.memory=4g",
    ),
)
@click.argument("plan_file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@at_option
@conf_option
@click.option("--yes", is_flag=True, help="Do not ask before the plan is carried out.")
@common_options
def command(
    plan_file: Path | None,
    project_dir: Path,
    target_dir: Path,
    select: Selection,
    output: str,
    at_ms: int | None,
    confs: Mapping[str, str],
    yes: bool,
) -> int:
    """Carry out a plan, then verify.

    With PLAN_FILE exactly that plan is carried out, unless a table changed since; without it, etc plans, shows the
    plan and asks; a plan that a writer overtakes before it is published is made, shown and asked for again. Where nobody
    can be asked, and with `--output json`, it wants `--yes` or a PLAN_FILE. What an earlier run left half done is finished
    first. It may be killed at any moment and run again.
    """
    manifest = load_manifest(project_dir)
    environment = open_environment(project_dir, target_dir, confs)
    applier = Applier(environment, clock_ms() if at_ms is None else at_ms)
    try:
        policies, saved = _chosen(manifest, select_policies(manifest, select), plan_file)
        if saved is None and not yes:
            _require_an_answer(output)
        applier.run(policies, saved, partial(_confirmed, yes=yes, output=output))
    except BaseException as error:
        if applier.results:  # what was done to the tables before is done
            record_apply(target_dir, applier)
        if isinstance(error, KeyboardInterrupt):
            tell("what was begun is finished by the next `etc apply`, or withdrawn by `etc undo`")
        raise
    finally:
        environment.close()
    results = record_apply(target_dir, applier)
    if output == "json":
        click.echo(results.model_dump_json(indent=2))
    else:
        say(render_results(results, text_width()))
    report_checks(checks_of_results(results, places(manifest.policies)))
    raise_all(applier.errors, applier.exit_codes())
    return worst(applier.exit_codes())


def _chosen(
    manifest: Manifest, selected: tuple[Policy, ...], plan_file: Path | None
) -> tuple[tuple[Policy, ...], Plan | None]:
    """The policies to work on and, where there is one, the saved plan: then those of its tables that are selected."""
    if plan_file is None:
        return selected, None
    saved = load_plan(plan_file)
    wanted = {policy.name for policy in selected}
    return tuple(p for p in match_policies(saved, manifest.policies, plan_file).values() if p.name in wanted), saved


def _require_an_answer(output: str) -> None:
    """Return if somebody can be asked: on a terminal, and not where a program reads the output."""
    hint = "add `--yes`, or save a plan with `etc plan --out FILE` and apply that file"
    if output == "json":
        raise UsageError(Code.CANNOT_ASK, "`--output json` does not ask before it compacts", hint=hint)
    if not sys.stdin.isatty():
        raise UsageError(Code.CANNOT_ASK, "cannot ask: standard input is not a terminal", hint=hint)


def _confirmed(plan: Plan, *, yes: bool, output: str) -> bool:
    """Show the plan and ask; nothing is asked where nothing would change."""
    if output != "json" and plan.tables:
        say(explain_plan(plan, width=text_width()) + "\n", err=True)
    if yes or not plan.has_changes:
        return True
    if ask(f"{fold(summarize_changes(plan), text_width())}\nGo on?"):
        return True
    tell("Nothing was changed by this plan.")
    return False
