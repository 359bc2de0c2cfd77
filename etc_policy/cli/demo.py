"""`etc demo`: a real table from flight data, and the whole way over it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from etc_policy.api.applying import Applier, recorded
from etc_policy.api.artifacts import remove_file, write_text
from etc_policy.api.project import Project
from etc_policy.cli.messages import show_note
from etc_policy.cli.opening import exit_with, open_project, report_and_error
from etc_policy.cli.options import PROJECT_OPTIONS, Flags, examples, shared_options
from etc_policy.cli.printing import from_here, say, text_width
from etc_policy.cli.terminal import print_data
from etc_policy.errors import EtcError, ExitCode, UsageError, worst
from etc_policy.errors.codes import Code
from etc_policy.plan.explainer import explain_plan
from etc_policy.policy.files import read_template
from etc_policy.policy.manifest import Granularity, Policy, Strategy, Sync
from etc_policy.report.report import render_freshness, render_results, render_verifications
from etc_policy.report.results import RunResults
from etc_policy.report.views import render_as_of, render_views
from etc_policy.table.formats import fold

if TYPE_CHECKING:
    from etc_policy.wiring import Demo

POLICY = "flights_ro"
POLICY_FILE = "flights.yml"
MIDNIGHT = "00:00 America/New_York"
#: So many days of flights there are before the one that is today.
MOST_DAYS = 3


@click.command(
    "demo",
    epilog=examples(
        "etc demo",
        "etc demo --open",
        "etc demo --days 1",
        "etc demo --as-of midnight",
        "etc demo --project-dir /tmp/etc-demo",
    ),
)
@click.option(
    "--days",
    metavar="NUMBER",
    type=click.IntRange(1, MOST_DAYS),
    default=MOST_DAYS,
    show_default=True,
    help="How many days of flights are played.",
)
@click.option(
    "--as-of",
    type=click.Choice(["midnight"]),
    help="Show RO as of the last midnight in New York instead, by each granularity.",
)
@click.option("--open", "opens", is_flag=True, help="Open the table's page in the browser at the end.")
@shared_options(*PROJECT_OPTIONS)
def command(flags: Flags, days: int, as_of: str | None, opens: bool) -> ExitCode:
    """Build a real table from flight data and run the whole way.

    Days of status events of real flights, dated up to now, are written by stock Hudi as a stream of delta commits into
    demo/flights, and compacted every few hours; Hudi's clock follows the events in this table. Then they are planned,
    compacted, verified and shown under the policy in policies/flights.yml. Any earlier demo table is replaced.
    """
    with open_project(flags) as project:
        policy = _policy(project)
        if as_of is not None:
            return _show_as_of(project, policy.model_copy(update={"sync": Sync()}), days)
        demo = project.environment.demo(policy, days)
        heading("1. Days of delta commits, and of runs", f"{demo.description}, into {policy.table}")

        unsynced = policy.model_copy(update={"sync": Sync()})

        def run(at_ms: int) -> None:
            _apply(project, unsynced, at_ms)

        demo.play(run)
        code = _compact(project, demo)
        demo.go_on()
        heading(
            "6. The stream has gone on: freshness, and which days are done, without Spark",
            "etc freshness --by partition",
        )
        report = project.freshness(POLICY, partitions=())
        say(render_freshness(report, text_width()))
        _show_catalog(demo, policy)
        _show_page(project, opens=opens)
    return worst([code, report.exit_code])


def _show_as_of(project: Project, policy: Policy, days: int) -> ExitCode:
    """Copies of the table as of the last midnight in New York, by each granularity, beside what its events say."""
    demo = project.environment.demo(policy, days)
    heading("1. Days of delta commits", f"{demo.description}, into {policy.table}")
    demo.play(lambda _: None)
    demo.go_on()
    found, code, threshold_ms = {}, ExitCode.DONE, 0
    for number, granularity in enumerate(get_args(Granularity), start=2):
        strategy = Strategy(granularity=granularity, at=MIDNIGHT)
        heading(f"{number}. A run on a copy of it", f"strategy: {{granularity: {granularity}, at: {MIDNIGHT}}}")
        copied = demo.copied(policy.model_copy(update={"strategy": strategy}))
        results = _apply(project, copied, demo.now_ms)
        say(render_results(results, text_width()))
        code, threshold_ms = worst([code, results.exit_code]), copied.latest_ms(demo.now_ms)
        found[granularity] = demo.as_of(copied.table, threshold_ms)
    heading(
        "5. The read-optimized view (RO) beside the table at midnight",
        "of each flight the newest row up to T of all commits",
    )
    say(render_as_of(found, threshold_ms, text_width()))
    return code


def _apply(project: Project, policy: Policy, now_ms: int) -> RunResults:
    applier = Applier(project.environment, now_ms)
    with recorded(applier, project.target_dir):
        applier.run([policy])
    return applier.report()


def _policy(project: Project) -> Policy:
    """The demo's policy, written if it does not exist; what is refused, or cannot run here, leaves nothing behind."""
    name = f"policies/{POLICY_FILE}"
    if (project.project_dir / name).exists():
        policy = _own_table(project)
        project.environment.require_demo()
        return policy
    folder = project.project_dir / "policies"
    had_policies = folder.exists()
    project.environment.require_demo()
    write_text(project.project_dir, name, read_template(f"demo/{POLICY_FILE}"), "--project-dir")
    try:
        return _own_table(project)
    except EtcError as error:
        remove_file(project.project_dir, name, "--project-dir")
        if not had_policies:
            folder.rmdir()
        error.where = None if error.code == Code.DEMO_REFUSED else error.where
        raise


def _own_table(project: Project) -> Policy:
    """The demo's policy, if it is about the demo's table.

    Raises:
        UsageError: it is about another one.

    """
    (policy,) = project.policies(POLICY)
    if Path(policy.table) != project.project_dir.absolute() / "demo" / "flights":
        message = f"the demo writes only to demo/flights, but policy `{POLICY}` is about `{policy.table}`"
        hint = "run `etc demo` in a folder of its own"
        raise UsageError(Code.DEMO_REFUSED, message, where=policy.place, hint=hint)
    if Path(policy.table).resolve() != project.project_dir.resolve() / "demo" / "flights":
        message = "the demo replaces the table in demo/flights, and that leads elsewhere by a link"
        hint = "run `etc demo` in a folder of its own"
        raise UsageError(Code.DEMO_REFUSED, message, where=policy.place, hint=hint)
    return policy


def _compact(project: Project, demo: Demo) -> ExitCode:
    """Plan, apply and verify; what both views held before and after."""
    heading("2. The plan", "etc plan")
    plan = project.plan(POLICY)
    say(explain_plan(plan, width=text_width()))
    before = demo.views(plan.tables[0].threshold_ms)
    heading("3. Apply and verify", f"etc apply {project.target_dir / 'plan.json'}")
    results, error = report_and_error(project.apply, plan, POLICY)
    say(render_results(results, text_width()))
    code = exit_with(error, results.exit_code)
    heading("4. Compare the rows", "etc verify --level data")
    report, error = report_and_error(project.verify, POLICY, level="data")
    say(render_verifications(report, text_width()))
    code = worst([code, exit_with(error, report.exit_code)])
    heading("5. What the read-optimized view (RO) holds", "rows by status, against the snapshot view (RT)")
    say(render_views(before, demo.views(plan.tables[0].threshold_ms), text_width()))
    return code


def _show_catalog(demo: Demo, policy: Policy) -> None:
    """What SQL on the RO table answers, what its properties say, and how to ask for oneself."""
    ro_table = policy.sync.ro_table
    if ro_table is None:
        return
    heading("7. The same by SQL, and what the catalog says of it", f"SHOW TBLPROPERTIES {ro_table}")
    for key, value in demo.query(f"SHOW TBLPROPERTIES {ro_table}"):
        if key.startswith("etc."):
            say(f"  {key} = {value}")
    sql = f"SELECT status, count(*) AS flights FROM {ro_table} GROUP BY status ORDER BY status"  # noqa: S608 - a name that compile has checked
    say(f"\n  {sql}\n")
    for status, flights in demo.query(sql):
        say(f"  {status:<12} {flights:>6,}")
    say("\n  Run the query yourself:")
    print_data(f"  {demo.sql_command(sql)}\n")


def _show_page(project: Project, *, opens: bool) -> None:
    """Write the site, and open it where that is asked for."""
    import webbrowser

    heading("8. The page of these days", "etc docs generate")
    page = project.site(POLICY).folder / "index.html"
    say(f"  {from_here(str(page))}")
    if opens and not webbrowser.open(page.absolute().as_uri()):
        show_note("there is no browser here: copy the folder to where there is one")


def heading(title: str, subtitle: str) -> None:
    """A step of the demo, on stdout."""
    say(f"\n{fold(title, text_width())}\n{textwrap.indent(fold(from_here(subtitle), text_width() - 3), '   ')}\n")
