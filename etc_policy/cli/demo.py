"""`etc demo`: a real table from flight data, and the whole way over it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from etc_policy.api.applying import Applier
from etc_policy.api.planning import place, plan_tables, raise_all, worst
from etc_policy.cli.options import debug_option, examples, project_dir_option, select_policies, target_dir_option
from etc_policy.cli.printing import from_here, say, text_width
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import load_manifest, write_text
from etc_policy.cli.recording import record_apply
from etc_policy.codes.registry import Code
from etc_policy.compile.manifest import Policy
from etc_policy.declare.templates import read_template
from etc_policy.errors import ExitCode, UsageError
from etc_policy.plan.explainer import explain_plan
from etc_policy.plan.formats import fold, iso_time
from etc_policy.publish.freshness import table_freshness
from etc_policy.publish.report import render_freshness, render_results
from etc_policy.publish.results import FreshnessReport
from etc_policy.publish.views import render_views
from etc_policy.wiring import clock_ms

if TYPE_CHECKING:
    from etc_policy.wiring import Demo

POLICY = "flights_ro"
POLICY_FILE = "flights.yml"


@click.command(
    "demo",
    short_help="Build a real table from flight data and run the whole way",
    epilog=examples(
        "etc demo",
        "etc demo --project-dir /tmp/etc-demo",
    ),
)
@project_dir_option
@target_dir_option
@debug_option
def command(project_dir: Path, target_dir: Path) -> int:
    """Build a real table from flight data and run the whole way.

    Status events of real flights are written by stock Hudi as a stream of delta commits into demo/flights, then
    planned, compacted, verified and shown under the policy in policies/flights.yml. Any earlier demo table is replaced.
    """
    policy_path = project_dir / "policies" / POLICY_FILE
    if not policy_path.exists():
        write_text(policy_path, read_template(f"demo/{POLICY_FILE}"), "--project-dir")
    (policy,) = select_policies(load_manifest(project_dir), (POLICY,))
    own_table = project_dir.absolute() / "demo" / "flights"
    if Path(policy.table) != own_table:
        message = f"the demo writes only to demo/flights, but policy `{POLICY}` is about `{policy.table}`"
        raise UsageError(Code.DEMO_REFUSED, message, where=place(policy.source, policy.name))
    environment = open_environment(project_dir, target_dir)
    try:
        demo = environment.demo(policy)
        heading("1. A stream of delta commits", f"{demo.description}, into {policy.table}")
        demo.write()
        heading("2. The plan", f"etc plan --at {iso_time(demo.now_ms)}")
        plan = plan_tables(environment, (policy,), demo.now_ms, read_stats=False)
        write_text(target_dir / "plan.json", plan.model_dump_json(indent=2) + "\n")
        say(explain_plan(plan, width=text_width()))
        before = demo.views(plan.tables[0].threshold_ms)
        heading("3. Apply and verify", f"etc apply {target_dir / 'plan.json'} --at {iso_time(demo.now_ms)}")
        applier = Applier(environment, demo.now_ms, environment.git_sha(), plan=plan, policies=[policy])
        applier.apply(policy, plan.tables[0], plan.plan_id)
        applier.sync((policy,))
        results = record_apply(target_dir, applier)
        say(render_results(results, text_width()))
        raise_all(applier.errors, applier.exit_codes())
        heading("4. What the read-optimized view (RO) holds", "rows by status, against the snapshot view (RT)")
        say(render_views(before, demo.views(plan.tables[0].threshold_ms)))
        heading("5. Freshness, without Spark", f"etc freshness --at {iso_time(demo.now_ms)}")
        state, history = environment.read_table(policy)
        table = table_freshness(policy, state, demo.now_ms, clock_ms(), history)
        say(render_freshness(FreshnessReport(observed_at=iso_time(demo.now_ms), tables=(table,)), text_width()))
        _show_catalog(demo, policy)
    finally:
        environment.close()
    failed = table.status in ("error", "unknown")
    return worst([*applier.exit_codes(), *([ExitCode.FAILED] if failed else [])])


def _show_catalog(demo: Demo, policy: Policy) -> None:
    """What SQL on the RO table answers, what its properties say, and how to ask for oneself."""
    ro_table = policy.sync.ro_table
    if ro_table is None:
        return
    heading("6. The same by SQL, and what the catalog says of it", f"SHOW TBLPROPERTIES {ro_table}")
    for key, value in demo.query(f"SHOW TBLPROPERTIES {ro_table}"):
        if key.startswith("etc."):
            say(f"  {key} = {value}")
    sql = f"SELECT status, count(*) AS flights FROM {ro_table} GROUP BY status ORDER BY status"  # noqa: S608 - a name that compile has checked
    say(f"\n  {sql}\n")
    for status, flights in demo.query(sql):
        say(f"  {status:<12} {flights:>6,}")
    say(f"\n  Ask it yourself:\n  {demo.sql_command(sql)}")


def heading(title: str, subtitle: str) -> None:
    """A step of the demo, on stdout."""
    say(f"\n{title}\n{textwrap.indent(fold(from_here(subtitle), text_width() - 3), '   ')}\n")
