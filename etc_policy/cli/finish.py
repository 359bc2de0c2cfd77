"""`etc finish`: carries out compactions that others have scheduled."""

from __future__ import annotations

import click

from etc_policy.cli.opening import finish, open_project, settle
from etc_policy.cli.options import Flags, common_options, conf_option, examples
from etc_policy.cli.printing import show
from etc_policy.errors import ExitCode


@click.command(
    "finish",
    short_help="Run compactions that others have scheduled and not carried out",
    epilog=examples("etc finish --select orders_ro", "etc finish --output json"),
)
@conf_option
@common_options
def command(flags: Flags) -> ExitCode:
    """Run compactions that others have scheduled and not carried out.

    A compaction that a stock job has scheduled and nobody runs keeps `etc plan` from planning. This runs it by the stock
    client, set up like the table and by the rules of etc's own plans: indexes, metadata table, version and zone stay as they
    are. One that would lose rows or make keys double by now is taken off the timeline instead (exit code 4): `etc apply`
    compacts what is due. One whose job beats or makes files is left to it (exit code 4).

    End the job first where it may be alive. Without a heartbeat, as of Flink or of a single writer, nothing shows that one is at
    work which makes no file for `writer.heartbeat_expiry`: it would be rolled back.

    Clusterings and log compactions are left to the writers, as they go by choices that no table shows (exit code 3, with
    the call to make). So are rollbacks and restores. Plans of etc are finished by `etc apply`.
    """
    with open_project(flags) as project:
        report, error = settle(project.finish, *flags.terms)
    lines = [f"{service.policy}: the {service.action} at {service.instant} is complete" for service in report.finished]
    # that there was none is known only where every table could be read
    none = "" if error else "No compaction of another job is pending."
    show(flags, report, lambda: "\n".join(lines) or none)
    return finish(error, report.exit_code)
