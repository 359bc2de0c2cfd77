"""`etc retry`: applies again what failed or was refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import click

from etc_policy.cli.apply import apply_selected
from etc_policy.cli.ci_forms import CheckedCommand
from etc_policy.cli.options import (
    PROJECT_OPTIONS,
    Flags,
    conf_option,
    examples,
    jobs_option,
    long_option,
    output_option,
    require_one_form,
    shared_options,
)
from etc_policy.cli.value_types import every_option
from etc_policy.errors import ExitCode

NOT_DONE = ("result:error", "result:refused")


@click.command(
    "retry",
    cls=CheckedCommand,
    short_help="Apply again what failed or was refused",
    epilog=examples("etc retry", "etc retry --yes --target prod"),
)
@every_option
@conf_option
@jobs_option
@click.option("--yes", is_flag=True, help="Do not ask before the plan is carried out.")
@long_option
@shared_options(*PROJECT_OPTIONS, output_option)
def command(flags: Flags, every: timedelta | None, yes: bool, long: bool) -> ExitCode:
    """Apply again what failed or was refused.

    The same as `etc apply --select "result:error result:refused"`: the policies whose last `etc apply`, as far as the target
    folder keeps it, failed, was refused, or did not pass its verification. A new plan is made for them. Where all went well
    it does nothing and ends with 0.
    """
    require_one_form(flags, long=long)
    return apply_selected(replace(flags, select=NOT_DONE), None, every, yes=yes, long=long)
