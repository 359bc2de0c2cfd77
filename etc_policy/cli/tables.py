"""The commands that look at tables or change them: flags in, a report as text or JSON out, its checks, and the exit code."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from etc_policy.api.arguments import DEFAULT_POLL, span_ms
from etc_policy.api.project import Project
from etc_policy.cli.ci_forms import CheckedCommand, report_tables, require_own_ways
from etc_policy.cli.messages import show_note
from etc_policy.cli.opening import exit_with, open_project, open_tables, report_and_error
from etc_policy.cli.options import (
    PROJECT_OPTIONS,
    SELECT_OPTIONS,
    Flags,
    Option,
    complete_policies,
    conf_option,
    examples,
    jobs_option,
    long_option,
    metadata_only_option,
    output_option,
    require_choice,
    require_one_form,
    shared_options,
    trust_options,
)
from etc_policy.cli.printing import announce, ask, say, show, text_width
from etc_policy.cli.terminal import print_json
from etc_policy.cli.value_types import FILE, MomentType, Span, at_option, every_option, interval_option
from etc_policy.errors import ExitCode
from etc_policy.policy.manifest import VerifyLevel
from etc_policy.table.formats import MANY_TABLES, TEXT_WIDTH, count_of, fold, format_bytes, format_duration, format_time

if TYPE_CHECKING:
    from etc_policy.plan.model import Plan
    from etc_policy.policy.manifest import Frozen
    from etc_policy.report.debug import DebugReport
    from etc_policy.report.history import PolicyHistory
    from etc_policy.report.results import FreshnessReport, TableFreshness

PROJECT = (*PROJECT_OPTIONS, output_option)
SELECT = (*PROJECT_OPTIONS, *SELECT_OPTIONS, output_option)
#: Of commands that only read.
READ = (*PROJECT_OPTIONS, *SELECT_OPTIONS, conf_option, jobs_option, output_option)
NAMES = click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_policies)
PATHS = click.argument("paths", metavar="[PATH]...", nargs=-1)
YES = "Do not ask before the {}."


def verb(shown: Sequence[str], *options: Callable[..., Any], checked: bool = False) -> Option:
    """A command of the function's name, with these options in this order; if `checked` CI systems can be shown what it found."""
    kind = CheckedCommand if checked else click.Command
    return lambda function: click.command(function.__name__.rstrip("_"), cls=kind, epilog=examples(*shown))(
        shared_options(*options)(function)
    )


def report_of(
    flags: Flags,
    call: Callable[[Project], Frozen],
    text: Callable[[Any, bool], str],
    code: Callable[[Any], ExitCode] = lambda report: report.exit_code,
    paths: tuple[str, ...] = (),
    *,
    strict: bool = False,
) -> ExitCode:
    """Print what a verb found, as `text` says or as JSON; `text` is also given whether something failed.

    With `strict` a warning fails where CI systems are shown it.
    """
    with open_tables(flags, paths) if paths else open_project(flags) as project:
        report, error = report_and_error(call, project)
        show(flags, report, lambda: text(report, error is not None))
        report_tables(report, lambda: project.policies(*flags.terms), strict=strict)
        return exit_with(error, code(report))


def lines_or(lines: Iterable[str], none: str, *, failed: bool) -> str:
    """The lines; without any the text `none`, but only where every table could be read."""
    return "\n".join(lines) or ("" if failed else none)


def can_ask(flags: Flags, *, yes: bool) -> bool:
    """Whether somebody is to be asked, and can be."""
    return not yes and flags.output != "json" and sys.stdin.isatty()


def require_yes(flags: Flags, project: Project, question: str, *, yes: bool) -> Project:
    """The project, where the tables that are selected may be changed, which is asked on a terminal.

    Raises:
        Exit: they may not.

    """
    names = [policy.name for policy in project.policies(*flags.terms)]
    if names and can_ask(flags, yes=yes) and not ask(fold(f"{question} of {', '.join(names)}?", text_width())):
        show_note("Nothing was changed.")
        raise click.exceptions.Exit(ExitCode.DONE)
    return project


def keys_and_values(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Mapping[str, Any]:
    """Values by their dotted keys, each read as YAML."""
    from etc_policy.errors import PolicyError
    from etc_policy.policy.yaml_marks import load_marked

    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"`{text[:60]}` is not of the form {parameter.metavar}")
        try:
            found[key] = load_marked(f"value: {value}", "--set").value["value"]
        except PolicyError as error:
            raise click.BadParameter(f"`{text[:60]}`: {error.issues[0].message}") from error
    return found


def text_of_plan(
    plan: Plan, *, explain: bool = False, long: bool = False, hint: str = "", width: int = TEXT_WIDTH
) -> str:
    """The plan as text; many tables have a line each and the hint below them, unless it is to be long."""
    from etc_policy.plan.explainer import explain_plan, list_plan

    if long or explain or len(plan.tables) < MANY_TABLES:
        return explain_plan(plan, explain=explain, width=width)
    return list_plan(plan, width) + hint


def text_of_freshness(report: FreshnessReport, *, long: bool = False, width: int = TEXT_WIDTH) -> str:
    """The report as text; many tables have a line each, unless it is to be long."""
    from etc_policy.report.report import list_freshness, render_freshness

    is_long = long or len(report.tables) < MANY_TABLES
    return (render_freshness if is_long else list_freshness)(report, width)


def waited_for(table: TableFreshness) -> str:
    """What a table has now that was waited for."""
    if table.partitions is None:
        return f"{table.policy}  RO is complete until {format_time(table.complete_until_ms)}"
    (one,) = table.partitions.partitions
    before = f" with an event before {format_time(one.ends_ms)}" if table.partitions.rows == "until_end" else ""
    return f"{table.policy}  RO holds every row of {one.partition}{before}"


def text_of_histories(histories: Iterable[PolicyHistory], limit: int, width: int = TEXT_WIDTH) -> str:
    """The histories as text; why a table cannot be read is said by its error."""
    from etc_policy.report.history_text import render_history

    return "\n\n".join(render_history(one, limit, width) for one in histories if one.reason is None)


def text_of_debug(report: DebugReport, *, verbose: bool = False, width: int = TEXT_WIDTH) -> str:
    """The report as text; several tables have a line each, unless all is to be shown."""
    from etc_policy.report.debug import list_debug, render_debug

    return (render_debug if verbose else list_debug)(report, width)


@verb(
    (
        "etc plan",
        "etc plan --select orders_ro --explain",
        "etc plan --out orders.plan.json && etc apply orders.plan.json",
        "etc plan --every 5m --output json | jq '.tables[].next_due_ms'",
        "etc plan --at 2013-01-02T01:00:00Z --output json | jq '.tables[].action'",
    ),
    at_option,
    every_option,
    conf_option,
    click.option("--out", type=FILE, help="Save the plan to this file for `etc apply FILE`."),
    jobs_option,
    metadata_only_option,
    click.option("--read-stats", is_flag=True, help="Take unknown event times from column statistics (starts Spark)."),
    long_option,
    click.option("--explain", is_flag=True, help="Say in words why: each slice, each guard, what holds RO back."),
    click.option("--detailed-exitcode", is_flag=True, help="Exit with 2 when there is something to compact."),
    trust_options,
    *SELECT,
    checked=True,
)
def plan(
    flags: Flags,
    out: Path | None,
    long: bool,
    explain: bool,
    detailed_exitcode: bool,
    **how: Any,  # noqa: ANN401
) -> ExitCode:
    """Show what would be compacted, and save it.

    Reads the tables' metadata, and the log files whose event times are not in it; without Spark. The plan is saved
    as target/plan.json too. A table that cannot be compacted now is refused with its reason, and the others are planned
    all the same.
    """
    require_one_form(flags, explain=explain, long=long)
    with open_project(flags) as project:
        found, error = report_and_error(project.plan, *flags.terms, at=flags.at, out=out, check=True, **how)
        report_tables(found, lambda: project.policies(*flags.terms))
    hint = fold("`etc plan --long` shows the tables one by one, `--explain` says why.", text_width())
    show(flags, found, lambda: text_of_plan(found, explain=explain, long=long, hint=f"\n{hint}", width=text_width()))
    if out is not None:
        show_note(f"Saved: etc apply {shlex.quote(str(out))}")
    exit_with(error)
    return ExitCode.CHANGES if detailed_exitcode and found.has_changes else ExitCode.DONE


@verb(
    (
        "etc verify",
        "etc verify --select orders_ro --level metadata",
        "etc verify --output json | jq '.tables[].verification.status'",
    ),
    at_option,
    conf_option,
    jobs_option,
    click.option("--level", type=click.Choice(get_args(VerifyLevel)), help="Override the policy's `verify.level`."),
    click.option(
        "--full", is_flag=True, help="Read all log files, and compare all rows, whatever earlier runs have read."
    ),
    long_option,
    *SELECT,
    checked=True,
)
def verify(flags: Flags, level: VerifyLevel | None, full: bool, long: bool) -> ExitCode:
    """Prove what the read-optimized view holds.

    The threshold is that of the table's last compaction by etc; a table that has none is held to what its metadata
    promises. `metadata` needs no Spark, except to read column statistics for event times that commits do not carry;
    `data` compares the rows of both views.
    """
    from etc_policy.report.report import render_verifications

    require_one_form(flags, long=long)
    return report_of(
        flags,
        lambda project: project.verify(*flags.terms, at=flags.at, level=level, full=full),
        lambda report, _: render_verifications(report, text_width(), long=long),
    )


@verb(
    (
        "etc freshness",
        "etc freshness /mnt/lake/orders",
        "etc freshness --fail-on warn --github --junit-xml target/freshness.xml",
        "etc freshness --by partition --partition 'dt=2026-11-*'",
        "etc freshness --output json | jq '.tables[] | {policy, status}'",
    ),
    PATHS,
    at_option,
    conf_option,
    jobs_option,
    metadata_only_option,
    long_option,
    click.option("--by", type=click.Choice(["partition"]), help="Report each partition too, the worst first."),
    click.option(
        "--partition",
        "globs",
        metavar="GLOB",
        multiple=True,
        help="As `--by partition`, of these partitions or of a range `A..B` alone; may be repeated.",
    ),
    click.option("--notify", is_flag=True, help="Send what is new to those whom `notify:` in etc_project.yml names."),
    click.option("--archived", is_flag=True, help="Judge `data_latency` over archived commits too."),
    click.option(
        "--fail-on",
        type=click.Choice(["warn", "error"]),
        default="error",
        show_default=True,
        help="Exit with 1 from this status on; `unknown` always does.",
    ),
    trust_options,
    *SELECT,
    checked=True,
)
def freshness(
    flags: Flags,
    paths: tuple[str, ...],
    long: bool,
    by: str | None,
    globs: tuple[str, ...],
    fail_on: Literal["warn", "error"],
    notify: bool,
    archived: bool,
) -> ExitCode:
    """Show how far each table is complete, without Spark.

    Each table passes, warns or fails by the lag of its completeness behind now. The report also shows the late data since
    the last compaction, and how well `data_latency` fits what the table's commits show. Exits with 1 when a table is beyond
    its limit or nothing is known of it, with `--fail-on warn` also when it is beyond its target. The report is written
    to target/freshness.json too.

    PATH is a table, and needs no project: its event-time column and data latency are guessed as by `etc import`. Nothing is
    written then.
    """
    if paths and (flags.select or flags.exclude):
        raise click.UsageError("PATH is a table without a project, and `--select` a policy of one")
    require_one_form(flags, long=long)
    partitions = globs if by or globs else None

    return report_of(
        flags,
        lambda project: project.freshness(
            *flags.terms, at=flags.at, check=True, partitions=partitions, notify=notify, archived=archived
        ),
        lambda report, _: text_of_freshness(report, long=long or partitions is not None, width=text_width()),
        lambda report: report.exit_code_from(fail_on),
        paths,
        strict=fail_on == "warn",
    )


@verb(
    (
        "etc wait orders_ro --until 2026-01-01T06:00:00Z --timeout 30m",
        "etc wait orders_ro payments_ro --until 2026-01-01T06:00:00Z && ./report",
        "etc wait --select tag:morning --until 2026-01-01T06:00:00Z",
        "etc wait orders_ro --partition dt=2026-11-25 --timeout 6h && ./daily_report",
        "etc wait orders_ro --until 1767247200000 --timeout 0s   # only check",
    ),
    NAMES,
    click.option(
        "--until",
        type=MomentType(may_be_future=True),
        help="The event time up to which RO has to be complete: epoch ms or ISO 8601 (UTC without a zone).",
    ),
    click.option(
        "--partition",
        metavar="PATH",
        help="The path of the partition that has to be done: closed, by `partition_time` or `partition_idle`, and all in RO.",
    ),
    click.option("--timeout", type=Span(), default="30m", show_default=True, help="Give up after this; exits with 4."),
    click.option(
        "--poll",
        type=Span(),
        default=format_duration(span_ms(DEFAULT_POLL)),
        show_default=True,
        help="Time between two readings of the metadata.",
    ),
    *PROJECT_OPTIONS,
    *SELECT_OPTIONS,
    conf_option,
    metadata_only_option,
    output_option,
)
def wait(
    flags: Flags, names: tuple[str, ...], until: datetime | None, partition: str | None, timeout: int, poll: int
) -> ExitCode:
    """Wait until RO is complete up to a time, or a partition is done.

    For the job that reads the view: exits with 0 as soon as every selected table holds all rows with event time up to
    `--until`, or all rows of its `--partition`, as far as the data keep their promise on latency, and with 4 when the time
    runs out. Where no waiting helps it ends with 3, or with 1 where the policy is wrong: at once, or for a missing data file
    at the second reading. However it ends, `--output json` has the freshness of each table as it was last seen. It only reads
    metadata, so it starts no Spark (a `db.table` is looked up in Spark's catalog once); who compacts, and where, does not
    matter.
    """
    if (until is None) == (partition is None):
        raise click.UsageError("give one of `--until` and `--partition`")
    select, exclude = require_choice(flags, *names)
    spans = {"timeout": timedelta(milliseconds=timeout), "poll": timedelta(milliseconds=poll)}
    return report_of(
        flags,
        lambda project: project.wait(select, exclude, until=until, partition=partition, **spans),
        lambda report, failed: "" if failed else "\n".join(map(waited_for, report.tables)),
        code=lambda _: ExitCode.DONE,
    )


@verb(
    (
        "etc simulate orders_ro",
        "etc simulate orders_ro --set data_latency=45m --every 15m",
        "etc simulate -s tag:hourly --set strategy.granularity=file_slice",
        "etc simulate --price core_hour=0.05 --price cores=8 --price gb_written=0.02",
        "etc simulate --last 2d --output json | jq '.tables[].settings'",
    ),
    NAMES,
    click.option(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        callback=keys_and_values,
        help="Another value of the policy, such as data_latency=45m; may be repeated. Empty removes the key.",
    ),
    click.option(
        "--price",
        metavar="KEY=NUMBER",
        multiple=True,
        callback=keys_and_values,
        help="What compacting costs: `core_hour`, of which a run has `cores`, and `gb_read` and `gb_written`, each 10^9 bytes; "
        "may be repeated.",
    ),
    every_option,
    interval_option("--last", help="Replay only so much of the past, such as 2d.  [default: all that is known]"),
    conf_option,
    jobs_option,
    click.option("--html", type=FILE, help="Write the page of all tables to this file too."),
    metadata_only_option,
    long_option,
    trust_options,
    *SELECT,
)
def simulate(flags: Flags, names: tuple[str, ...], html: Path | None, long: bool, **how: Any) -> ExitCode:  # noqa: ANN401
    """Replay a table's past under other settings.

    Reads the commits that the table still has, active and archived, without Spark; changes nothing. At each run the planner
    plans what it would have planned then. Shown are RO's lag, the time above `freshness.target`, late rows, runs and bytes: of
    the compactions as they were, of the policy, of the policy with `--set`, and of stock Hudi that compacts every file slice.
    Several tables get a line each, with what is not compacted now and what their policies save, the longest lag first.

    NAME is a policy, or the path of a table, with a `/`: that needs no project, and its event-time column and data latency are
    guessed as by `etc import`. Nothing is written then.
    """
    from etc_policy.api.artifacts import write_named
    from etc_policy.policy.files import read_template
    from etc_policy.report.fleet import render_fleet, render_fleet_page
    from etc_policy.report.simulation import render_simulation
    from etc_policy.wiring import clock_ms

    paths = tuple(name for name in names if "/" in name)
    if paths and (len(paths) < len(names) or flags.select or flags.exclude):
        raise click.UsageError("a path is a table without a project: give no policies beside it")
    require_own_ways((html,), flags.untrusted, flags.project_dir)

    def text(report: Any) -> str:  # noqa: ANN401
        blocks = render_simulation(report, text_width()) if long or len(report.tables) < MANY_TABLES else ""
        return "\n\n".join(filter(None, (blocks, render_fleet(report, text_width()))))

    select = () if paths else (*names, *flags.select)
    with open_tables(flags, paths) if paths else open_project(flags) as project:
        report, error = report_and_error(project.simulate, select, flags.exclude, **how)
        if html is not None:
            write_named(html, render_fleet_page(report, clock_ms(), read_template), "--html")
        show(flags, report, lambda: text(report))
        return exit_with(error, report.exit_code)


@verb(
    (
        "etc history orders_ro",
        "etc history orders_ro --limit 3",
        "etc history --select tag:morning --limit 1",
        "etc history orders_ro --output json | jq '.compactions[].git_sha'",
    ),
    click.argument("name", required=False, shell_complete=complete_policies),
    click.option(
        "--limit",
        metavar="NUMBER",
        type=click.IntRange(min=1),
        default=20,
        show_default=True,
        help="Show so many of the newest; JSON has all.",
    ),
    *READ,
)
def history(flags: Flags, name: str | None, limit: int) -> ExitCode:
    """Show the compactions of a table and their checks.

    Each compaction is read from the table's own commits, active and archived, so it is known on any machine that can
    read the table, without Spark: the git commit, the policy's fingerprint, the plan, the instant and what it wrote.
    The checks of a run come from target/runs/ where the run was made here. A compaction by somebody else is shown too.
    With `--select` there is a history for each table, in JSON as the list `histories`;
    one that cannot be read is in it with the reason.
    """
    if name is not None and flags.terms == ((), ()):
        return report_of(
            flags,
            lambda project: project.history(name),
            lambda report, _: text_of_histories((report,), limit, text_width()),
            lambda _: ExitCode.DONE,
        )
    terms = require_choice(flags, *([name] if name is not None else []))
    return report_of(
        flags,
        lambda project: project.histories(*terms),
        lambda report, _: text_of_histories(report.histories, limit, text_width()),
    )


@verb(
    (
        "etc cuts",
        "etc cuts --select orders_ro",
        "etc cuts --output json | jq -r '.tables[].cuts[] | select(.readable) | .sql'",
    ),
    *READ,
)
def cuts(flags: Flags) -> ExitCode:
    """List past cuts of tables with the SQL that reads them.

    Each compaction with `granularity: record` leaves the table as of an event time. It can be read as long as the table
    has the base files that RO read then: the writers' cleaner removes them, and `strategy.keep` says how many cuts it is
    to leave. Read from the table's own commits and folders, without Spark.
    """
    from etc_policy.report.cuts import render_cuts

    return report_of(
        flags, lambda project: project.cuts(*flags.terms), lambda report, _: render_cuts(report, text_width())
    )


@verb(
    (
        "etc sync",
        "etc sync --select orders_ro --output json | jq '.tables[].properties'",
        "etc sync --remove",
    ),
    at_option,
    conf_option,
    click.option("--remove", is_flag=True, help="Remove the properties instead."),
    long_option,
    *SELECT,
    checked=True,
)
def sync(flags: Flags, remove: bool, long: bool) -> ExitCode:
    """Record in the catalog how far each RO table is complete.

    Sets the properties `etc.event_time.*` on the table that a policy names as `sync.ro_table`, as `etc apply` does after
    each run: the threshold of the last completed compaction, how far RO is complete now, and whether that compaction was
    verified. Only the catalog is written. A catalog that does not answer is tried three times, then the exit code is 4.
    """
    from etc_policy.report.report import render_sync

    require_one_form(flags, long=long)
    return report_of(
        flags,
        lambda project: project.sync(*flags.terms, at=flags.at, remove=remove),
        lambda report, _: render_sync(report, text_width(), long=long),
    )


@verb(
    ("etc undo", "etc undo --yes", "etc undo --select orders_ro --output json"),
    conf_option,
    click.option("--yes", is_flag=True, help=YES.format("plans are withdrawn")),
    *SELECT,
)
def undo(flags: Flags, yes: bool) -> ExitCode:
    """Withdraw a published plan that has not completed.

    Only plans of etc are touched. What a killed run had begun is rolled back by Hudi first; the table is then as it was
    before the plan. A compaction that has completed stays: it lost nothing, so there is nothing to undo.
    """
    return report_of(
        flags,
        lambda project: require_yes(flags, project, "Withdraw pending plans", yes=yes).undo(*flags.terms),
        lambda report, failed: lines_or(
            (f"{one.policy}: the plan at {one.instant} is withdrawn" for one in report.withdrawn),
            "etc has no pending plan.",
            failed=failed,
        ),
    )


@verb(
    ("etc finish --select orders_ro", "etc finish --yes --output json"),
    conf_option,
    click.option("--yes", is_flag=True, help=YES.format("compactions are run")),
    *SELECT,
)
def finish(flags: Flags, yes: bool) -> ExitCode:
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
    return report_of(
        flags,
        lambda project: require_yes(flags, project, "Run pending compactions", yes=yes).finish(*flags.terms),
        lambda report, failed: lines_or(
            (f"{one.policy}: the {one.action} at {one.instant} is complete" for one in report.finished),
            "No compaction of another job is pending.",
            failed=failed,
        ),
    )


@verb(
    ("etc forget orders_ro", "etc forget orders_ro --yes", "etc forget orders_ro --output json"),
    click.argument("name"),
    click.option("--yes", is_flag=True, help="Do not ask before the files are removed."),
    *PROJECT_OPTIONS,
    conf_option,
    output_option,
)
def forget(flags: Flags, name: str, yes: bool) -> ExitCode:
    """Remove etc's own files from a table.

    Shows the files that etc keeps in `.hoodie/.etc` of the table of policy NAME, and asks; where nobody can be asked it only
    shows them (exit code 2). Hudi reads none of them. What they say is lost: proofs and doubts of the last verification, and
    which partitions were reported as done. Nothing is removed while a run is at work, or before a pending plan of etc has ended.
    """
    with open_project(flags) as project:
        kept, asks = project.kept_beside(name), can_ask(flags, yes=yes)
        if kept and flags.output != "json":
            announce("\n".join((name, *(f"  {path}  {format_bytes(size)}" for path, size in kept.items()))), asks=asks)
        done = bool(kept) and (ask("Remove them?") if asks else yes)
        if done:
            project.forget(name)
    if flags.output == "json":
        files = [{"path": path, "bytes": size} for path, size in kept.items()]
        print_json(json.dumps({"schema_version": 1, "policy": name, "files": files, "done": done}, indent=2))
    elif done:
        say(f"{name}: {count_of(len(kept), 'file')} removed.")
    elif kept:
        show_note("Nothing was removed; `--yes` removes these files.")
    else:
        say(f"{name}: etc keeps nothing in its table.")
    return ExitCode.DONE if done or not kept else ExitCode.CHANGES


@verb(
    (
        "etc import /mnt/lake/orders",
        "etc import '/mnt/lake/sales/*'",
        "etc import --bucket s3://lake --set 'web_*:writer.index=bucket'",
        "etc import --catalog 'sales.*_mor' --target prod",
        "etc import --diff --detailed-exitcode",
    ),
    PATHS,
    click.option(
        "--bucket", "buckets", multiple=True, metavar="URI", help="Search this bucket or folder, at any depth."
    ),
    click.option(
        "--catalog",
        "catalogs",
        multiple=True,
        metavar="DB[.PATTERN]",
        help="Tables of the target's catalog (starts Spark).",
    ),
    click.option(
        "--diff", is_flag=True, help="Write nothing: show what is new, and which policies their tables contradict."
    ),
    click.option(
        "--detailed-exitcode", is_flag=True, help="With --diff: exit with 2 when something is new or has drifted."
    ),
    click.option(
        "--set",
        "settings",
        metavar="[GLOB:]KEY=VALUE",
        multiple=True,
        callback=keys_and_values,
        help="A value of all policies, or of those whose name or path GLOB fits (several: `A,B`); may be repeated.",
    ),
    conf_option,
    jobs_option,
    *PROJECT,
)
def import_(
    flags: Flags,
    paths: tuple[str, ...],
    diff: bool,
    detailed_exitcode: bool,
    buckets: tuple[str, ...],
    catalogs: tuple[str, ...],
    settings: Mapping[str, Any],
) -> ExitCode:
    """Write policies for tables that exist.

    Looks at the metadata of each merge-on-read table, at the footer of a base file and at some log files, and writes
    policies/NAME.yml: each value with its reason. What the table does not show is a question there, a line with `# ?`: `etc
    parse` lists it, and the file takes part in no run until it is answered. A table that the project has is left alone, and
    no file is ever replaced. PATH is a table, or a pattern of folders in quotes.

    `--set` answers beforehand, and goes before what a table shows. A value for all tables is written once, into a new
    etc_project.yml if the project has none.
    """
    from etc_policy.report.imports import render_import

    if not diff and not (paths or buckets or catalogs):
        raise click.UsageError("name tables, or where to look for them: PATH, `--bucket` or `--catalog`")
    if detailed_exitcode and not diff:
        raise click.UsageError("`--detailed-exitcode` goes with `--diff`")
    return report_of(
        flags,
        lambda project: project.import_tables(paths, diff=diff, buckets=buckets, catalogs=catalogs, settings=settings),
        lambda report, _: render_import(report, text_width()),
        code=lambda report: ExitCode.CHANGES if detailed_exitcode and report.has_drift else ExitCode.DONE,
    )


@verb(
    ("etc retry", "etc retry --yes --target prod", "etc retry --exclude orders_ro"),
    every_option,
    conf_option,
    jobs_option,
    click.option("--yes", is_flag=True, help=YES.format("plan is carried out")),
    long_option,
    *SELECT,
    checked=True,
)
def retry(flags: Flags, every: timedelta | None, yes: bool, long: bool) -> ExitCode:
    """Apply again what failed or was refused.

    As `etc apply --select "result:error result:refused"`: of what is selected it takes the policies whose last `etc apply`,
    as far as the target folder keeps it, failed, was refused, or did not pass its verification. A new plan is made for
    them. Where all went well it does nothing and ends with 0.
    """
    from etc_policy.cli.apply import apply_selected
    from etc_policy.policy.selection import split_terms

    require_one_form(flags, long=long)
    ended = ("result:error", "result:refused")
    of_these = tuple(f"{term},{how}" for term in split_terms(flags.select) for how in ended)
    not_done = replace(flags, select=(of_these or flags.select) if flags.select else ended)
    return apply_selected(not_done, None, every, yes=yes, long=long)


@verb(
    (
        "etc debug",
        "etc debug --verbose",
        "etc debug --select orders_ro",
        "etc debug --spark --target prod",
        "etc debug --output json | jq '.findings[] | select(.status != \"ok\")'",
    ),
    conf_option,
    jobs_option,
    metadata_only_option,
    click.option("--spark", is_flag=True, help="Start Spark too, which takes seconds, to see that it does."),
    click.option("--verbose", is_flag=True, help="Show each check of each table, and what to do."),
    *SELECT,
)
def debug(flags: Flags, spark: bool, verbose: bool) -> ExitCode:
    """Check the machine, the project and the tables.

    Looks at Python, Java, Spark and the Hudi bundle, at the project and its target, and at each table: whether its
    writers do what the policy asks (log file sizes, event times, no compactions of their own), whether the declared
    index and lock agree with the table, and whether two defects of stock Hudi can harm it. Of several tables each has a line,
    those with errors first. Exits with 1 where something is an error; warnings exit with 0.
    """
    require_one_form(flags, verbose=verbose)
    return report_of(
        flags,
        lambda project: project.debug(*flags.terms, spark=spark),
        lambda report, _: text_of_debug(report, verbose=verbose, width=text_width()),
        lambda report: ExitCode.FAILED if any(one.status == "error" for one in report.findings) else ExitCode.DONE,
    )
