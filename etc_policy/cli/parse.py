"""`etc parse`: is everything in the project's files right?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from etc_policy.api.project import Project
from etc_policy.cli.ci_forms import CheckedCommand, report_checks
from etc_policy.cli.messages import issue_fields
from etc_policy.cli.opening import open_project
from etc_policy.cli.options import Flags, common_options, examples, trust_options
from etc_policy.cli.terminal import print_json, print_text
from etc_policy.errors import ExitCode, Issue, PolicyError
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import Manifest, Policy
from etc_policy.table.formats import count_of


@click.command(
    "parse",
    cls=CheckedCommand,
    epilog=examples("etc parse", "etc parse --project-dir warehouse", "etc parse --select orders_ro --output json"),
)
@trust_options
@common_options
def command(flags: Flags) -> ExitCode:
    """Check the project's files.

    Reads every file under policies/ and suites/ and prints all that is wrong, each with its place. Nothing is written, no
    table is touched.
    """
    with open_project(flags, looks_up=False) as project:
        issues = _issues(project, as_data=flags.output == "json")
        errors = [issue for issue in issues if issue.level == "error"]
        policies = () if errors else project.policies(*flags.terms)
        report_checks(issues if errors else ())
        report_checks(Issue("parse", "", one.place, level="pass", policy=one.name) for one in policies)
        if flags.output != "json":
            print_text(_count(project.manifest(), policies, issues))
            return ExitCode.DONE
    print_json(json.dumps(_answer(policies, issues), indent=2))
    return ExitCode.FAILED if errors else ExitCode.DONE


def _issues(project: Project, *, as_data: bool) -> tuple[Issue, ...]:
    """All that is wrong; where it is not printed as data, errors are raised."""
    try:
        issues = project.parse()
    except PolicyError as error:
        if not as_data:
            raise
        return error.issues
    errors = [issue for issue in issues if issue.level == "error"]
    if errors and not as_data:
        raise PolicyError(errors)
    return issues


def _count(manifest: Manifest, policies: tuple[Policy, ...], issues: Sequence[Issue]) -> str:
    """How many policies are right, and files with open questions; without a selection also how many are disabled."""
    everything = tuple(policy for policy in manifest.policies if policy.enabled)
    disabled = len(manifest.policies) - len(policies) if policies == everything else 0
    names = len(manifest.namespaces)
    found = f", and {count_of(names, 'namespace')} whose tables are looked up by other commands" if names else ""
    asked = len({one.where.path for one in issues if one.code == Code.OPEN_QUESTION and one.where})
    more = [f"{disabled} disabled"] if disabled else []
    more += [f"{count_of(asked, 'file')} with open questions"] if asked else []
    return ", ".join((f"{count_of(len(policies), 'policy')} OK", *more)) + found


def _answer(policies: Sequence[Policy], issues: Sequence[Issue]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "policies": [{"policy": policy.name, "table": policy.table, "source": policy.source} for policy in policies],
        "issues": [issue_fields(issue) for issue in issues],
    }
