"""`etc parse`: is everything in the project's files right?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from etc_policy.cli.ci_forms import CheckedCommand, places, report_checks
from etc_policy.cli.options import common_options, examples, select_policies
from etc_policy.cli.project import check_files, check_suites, counted, load_manifest
from etc_policy.compile.manifest import Policy
from etc_policy.compile.selection import Selection
from etc_policy.errors import ExitCode, Issue, PolicyError
from etc_policy.publish.checks import Check, checks_of_issues


@click.command(
    "parse",
    cls=CheckedCommand,
    short_help="Check the project's files",
    epilog=examples("etc parse", "etc parse --project-dir warehouse", "etc parse --select orders_ro --output json"),
)
@common_options
def command(project_dir: Path, target_dir: Path, select: Selection, output: str) -> ExitCode:
    """Check the project's files.

    Reads every file under policies/ and suites/ and prints all that is wrong, each with its place. Nothing is written, no
    table is touched.
    """
    if output == "json":
        return _print_json(project_dir, select)
    files, found = check_files(project_dir)
    faults = check_suites(files, project_dir)
    if faults:
        raise PolicyError([*(issue for issue in found if issue.level == "error"), *faults])
    manifest = load_manifest(project_dir)
    policies = select_policies(manifest, select)
    _report(policies)
    everything = tuple(policy for policy in manifest.policies if policy.enabled)
    disabled = len(manifest.policies) - len(policies) if policies == everything else 0
    click.echo(f"{counted(len(policies), 'policy')} OK" + (f", {disabled} disabled" if disabled else ""))
    return ExitCode.DONE


def _print_json(project_dir: Path, select: Selection) -> ExitCode:
    """Policies and issues to stdout, so that an editor or a CI can read them; the issues alone where there are errors."""
    try:
        files, found = check_files(project_dir)
        issues = (*found, *check_suites(files, project_dir))
    except PolicyError as error:
        issues = error.issues
    report_checks(checks_of_issues(issues))
    failed = any(issue.level == "error" for issue in issues)
    policies = () if failed else select_policies(load_manifest(project_dir), select)
    _report(policies)
    answer = {
        "schema_version": 1,
        "policies": [{"policy": policy.name, "table": policy.table, "source": policy.source} for policy in policies],
        "issues": [_issue_fields(issue) for issue in issues],
    }
    click.echo(json.dumps(answer, indent=2))
    return ExitCode.FAILED if failed else ExitCode.DONE


def _report(policies: Iterable[Policy]) -> None:
    """A check per policy that has no error."""
    where = places(policies)
    report_checks(Check(policy.name, "parse", "pass", where=where[policy.name]) for policy in policies)


def _issue_fields(issue: Issue) -> dict[str, Any]:
    where = issue.where
    return {
        "level": issue.level,
        "code": str(issue.code),
        "message": issue.message,
        "path": where.path if where else None,
        "line": where.line if where else None,
        "column": where.column if where else None,
        "policy": where.object_name if where else None,
        "hint": issue.hint,
    }
