"""`etc verify`: proves what RO holds, from the table alone."""

from __future__ import annotations

from typing import get_args

import click

from etc_policy.cli.ci_forms import CheckedCommand, places, report_checks
from etc_policy.cli.opening import finish, open_project, settle
from etc_policy.cli.options import (
    Flags,
    common_options,
    conf_option,
    examples,
    jobs_option,
    long_option,
    require_one_form,
)
from etc_policy.cli.printing import show, text_width
from etc_policy.cli.value_types import at_option
from etc_policy.errors import ExitCode
from etc_policy.policy.manifest import VerifyLevel
from etc_policy.report.checks import checks_of_verifications
from etc_policy.report.report import render_verifications


@click.command(
    "verify",
    cls=CheckedCommand,
    short_help="Prove what the read-optimized view holds",
    epilog=examples(
        "etc verify",
        "etc verify --select orders_ro --level metadata",
        "etc verify --output json | jq '.tables[].verification.status'",
    ),
)
@at_option
@conf_option
@jobs_option
@click.option("--level", type=click.Choice(get_args(VerifyLevel)), help="Override the policy's `verify.level`.")
@click.option("--full", is_flag=True, help="Read all log files, and compare all rows, whatever earlier runs have read.")
@long_option
@common_options
def command(flags: Flags, level: VerifyLevel | None, full: bool, long: bool) -> ExitCode:
    """Prove what the read-optimized view holds.

    The threshold is that of the table's last compaction by etc; a table that has none is held to what its metadata
    promises. `metadata` needs no Spark, except to read column statistics for event times that commits do not carry;
    `data` compares the rows of both views.
    """
    require_one_form(flags, long=long)
    with open_project(flags) as project:
        report, error = settle(project.verify, *flags.terms, at=flags.at, level=level, full=full)
        where = places(project.policies(*flags.terms))
    show(flags, report, lambda: render_verifications(report, text_width(), long=long))
    report_checks(checks_of_verifications(report, where))
    return finish(error, report.exit_code)
