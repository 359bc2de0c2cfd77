"""`etc verify`: proves what RO holds, from the table alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import click

from etc_policy.api.planning import raise_all, worst
from etc_policy.api.verifying import verify_tables
from etc_policy.cli.ci_forms import CheckedCommand, places, report_checks
from etc_policy.cli.moments import at_option
from etc_policy.cli.options import common_options, examples, select_policies
from etc_policy.cli.printing import say, text_width
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest
from etc_policy.cli.recording import record_verify
from etc_policy.cli.spark_confs import conf_option
from etc_policy.compile.manifest import VerifyLevel
from etc_policy.compile.selection import Selection
from etc_policy.errors import ExitCode
from etc_policy.plan.formats import iso_time
from etc_policy.publish.checks import checks_of_verifications
from etc_policy.publish.report import render_verifications
from etc_policy.publish.results import VerificationReport
from etc_policy.wiring import clock_ms

_EXIT_CODES: dict[str, ExitCode] = {"fail": ExitCode.FAILED, "error": ExitCode.ENGINE}


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
@click.option("--level", type=click.Choice(get_args(VerifyLevel)), help="Override the policy's `verify.level`.")
@common_options
def command(
    project_dir: Path,
    target_dir: Path,
    select: Selection,
    output: str,
    at_ms: int | None,
    confs: Mapping[str, str],
    level: VerifyLevel | None,
) -> int:
    """Prove what the read-optimized view holds.

    The threshold is that of the table's last compaction by etc; a table that has none is held to what its metadata
    promises. `metadata` needs no Spark, except to ask column statistics for event times that commits do not carry;
    `data` compares the rows of both views.
    """
    policies = select_policies(load_manifest(project_dir), select)
    environment = open_environment(project_dir, target_dir, confs)
    now_ms = clock_ms() if at_ms is None else at_ms
    try:
        verified, errors = verify_tables(environment, policies, now_ms, level)
    finally:
        environment.close()
    report = VerificationReport(observed_at=iso_time(now_ms), tables=verified)
    record_verify(target_dir, environment, report)
    if output == "json":
        click.echo(report.model_dump_json(indent=2))
    else:
        say(render_verifications(report, text_width()))
    report_checks(checks_of_verifications(report, places(policies)))
    codes = [_EXIT_CODES[v.verification.status] for v in verified if v.verification.status in _EXIT_CODES]
    raise_all(errors, codes)
    return worst(codes)
