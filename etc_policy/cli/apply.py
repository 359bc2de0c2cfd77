"""`etc apply`: carries out a plan and verifies what it did."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from etc_policy.api.applying import Applier, require_suites
from etc_policy.api.planning import load_plan, match_policies, plan_tables, raise_all, refusal_errors, worst
from etc_policy.cli.ci_forms import CheckedCommand, places, report_checks
from etc_policy.cli.moments import at_option
from etc_policy.cli.options import common_options, examples, select_policies
from etc_policy.cli.printing import say
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest, write_text
from etc_policy.cli.recording import record_apply
from etc_policy.cli.spark_confs import conf_option
from etc_policy.compile.manifest import Policy
from etc_policy.compile.selection import Selection
from etc_policy.errors import UsageError
from etc_policy.plan.explainer import explain_plan
from etc_policy.plan.formats import count_of
from etc_policy.plan.stages import Plan
from etc_policy.publish.checks import checks_of_results
from etc_policy.publish.report import render_results
from etc_policy.publish.results import RunResults
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
@common_options
@at_option
@conf_option
@click.option("--yes", is_flag=True, help="Do not ask before the plan is carried out.")
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
    plan and asks. What an earlier run left half done is finished first. It may be killed at any moment and run again.
    """
    manifest = load_manifest(project_dir)
    environment = open_environment(project_dir, target_dir, confs)
    applier = Applier(environment, clock_ms() if at_ms is None else at_ms)
    try:
        selected = select_policies(manifest, select)
        plan_id = _apply(applier, plan_file, manifest.policies, selected, yes=yes, quiet=output == "json" and yes)
    finally:
        environment.close()
    results = RunResults(plan_id=plan_id, tables=tuple(applier.results))
    text = results.model_dump_json(indent=2) + "\n"
    write_text(target_dir / "run_results.json", text)
    record_apply(target_dir, applier, results)
    if output == "json":
        click.echo(text, nl=False)
    else:
        say(render_results(results))
    report_checks(checks_of_results(results, places(manifest.policies)))
    raise_all(applier.errors, applier.exit_codes())
    return worst(applier.exit_codes())


def _apply(
    applier: Applier,
    plan_file: Path | None,
    known: tuple[Policy, ...],
    policies: tuple[Policy, ...],
    *,
    yes: bool,
    quiet: bool,
) -> str | None:
    """Finish what is pending, then carry out the saved plan or a new one; returns the plan's id.

    `known` are the project's policies, `policies` those that were selected.
    """
    environment = applier.environment
    saved = load_plan(plan_file) if plan_file else None
    if saved is not None and plan_file is not None:
        wanted = {policy.name for policy in policies}
        policies = tuple(p for p in match_policies(saved, known, plan_file).values() if p.name in wanted)
    elif not yes and not sys.stdin.isatty():
        hint = "add `--yes`, or save a plan with `etc plan --out FILE` and apply that file"
        raise UsageError("ETC604", "cannot ask: standard input is not a terminal", hint=hint)
    applier.git_sha = environment.git_sha()
    require_suites(environment, policies)
    ready = [policy for policy in applier.locate(policies) if applier.finish_pending(policy)]
    plan = saved or plan_tables(environment, ready, applier.now_ms, read_stats=True)
    applier.plan = plan
    if saved is None and not _confirmed(plan, yes=yes, quiet=quiet):
        return plan.plan_id
    by_name = {policy.name: policy for policy in ready}
    for table in plan.tables:
        if table.policy in by_name:
            applier.apply(by_name[table.policy], table, plan.plan_id)
    applier.errors.extend(refusal_errors(plan, ready))
    return plan.plan_id


def _confirmed(plan: Plan, *, yes: bool, quiet: bool) -> bool:
    """Show the plan and ask; nothing is asked where nothing would change."""
    if not quiet:
        say(explain_plan(plan) + "\n", err=True)
    if yes or not plan.has_changes:
        return True
    due = sum(table.action == "compact" for table in plan.tables)
    return click.confirm(f"Compact {count_of(due, 'table')}?", err=True)
