"""Every verb of `Project` and its command are one: they report the same, and leave the same files in `target/`."""

import inspect
import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from etc_policy.api import syncing
from etc_policy.api.project import Project
from etc_policy.cli.main import main
from etc_policy.errors import SeveralErrors
from etc_policy.plan.commit_metadata import THRESHOLD, extra_metadata
from etc_policy.wiring import Environment
from tests.fakes import MemoryTable
from tests.unit.adapters.table_folder import TableFolder, at, base, log
from tests.unit.cli.test_apply import Outside
from tests.unit.cli.test_sync import Catalog
from tests.unit.plan.plan_cases import epoch_ms
from tests.unit.plan.states import PLAN, STATE, C

REPOSITORY = Path(__file__).resolve().parents[3]
NO_VERBS = {"close"}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
AT = ("--at", "2026-01-01T12:00:00Z")
POLICIES = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 1h
    tags: [a]
    verify: {level: metadata}
    sync: {ro_table: lake.orders_ro}
  - {name: gone_ro, table: lake/gone, event_time_column: ts, data_latency: 1h, freshness: {target: 1h}}
  - {name: parked_ro, table: lake/parked, event_time_column: ts, data_latency: 1h, enabled: false}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project with one table that is due and synced, and one that does not exist; it is one minute past noon."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    orders = TableFolder(tmp_path / "lake" / "orders")
    orders.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    extra = {THRESHOLD: str(epoch_ms("10:00:00"))}
    orders.compaction(at("10:30:00"), at("10:30:05"), base("f1"), extra=extra)
    orders.commit(at("11:00:00"), at("11:00:05"), log("f1", min_event=epoch_ms("10:45:00")))
    monkeypatch.setattr(syncing, "PAUSES_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(Environment, "property_store", lambda _: Catalog(orders_ro={}))
    monkeypatch.setattr("etc_policy.wiring.time.time_ns", lambda: epoch_ms("12:01:00") * 1_000_000)
    return tmp_path


@pytest.fixture
def etc_json(capsys):
    """Runs a command; returns what it prints as JSON."""

    def run(*arguments):
        capsys.readouterr()
        main([*arguments, "--output", "json"])
        return json.loads(capsys.readouterr().out)

    return run


def left_in(folder):
    """Takes each file out of `target/`; returns their texts."""
    target = folder / "target"
    paths = [path for path in sorted(target.rglob("*")) if path.is_file() and "cache" not in path.parts]
    found = {str(path.relative_to(target)): path.read_text("utf-8") for path in paths}
    shutil.rmtree(target, ignore_errors=True)
    return found


def comparable(report):
    """A report without what the machine is at this moment."""
    return [one for one in report.pop("findings", ()) if one["subject"] != "machine"], report


UNTIL = epoch_ms("10:00:00")

#: The verb, its command, and the beginnings of the files that both leave.
VERBS = {
    "compile": (lambda p: p.compile("tag:a"), ("compile", "-s", "tag:a"), ("compiled", "manifest.json", "writers/")),
    "plan": (lambda p: p.plan(at=NOON), ("plan", *AT), ("plan.json",)),
    "plan without one": (
        lambda p: p.plan(exclude="gone_ro", at=NOON),
        ("plan", *AT, "--exclude", "gone_ro"),
        ("plan",),
    ),
    "plan to a file": (
        lambda p: p.plan("orders_ro", at=NOON, out="target/saved.json"),
        ("plan", *AT, "--select", "orders_ro", "--out", "target/saved.json"),
        ("plan.json", "saved.json"),
    ),
    "freshness": (lambda p: p.freshness(at=NOON), ("freshness", *AT), ("freshness.json",)),
    "archived": (lambda p: p.freshness(at=NOON, archived=True), ("freshness", *AT, "--archived"), ("freshness.json",)),
    "verify": (lambda p: p.verify("orders_ro", at=NOON), ("verify", *AT, "-s", "orders_ro"), ("runs/20260101T120100",)),
    "sync": (lambda p: p.sync(at=NOON), ("sync", *AT), ()),
    "wait": (
        lambda p: p.wait("orders_ro", until=UNTIL, timeout=timedelta(0)),
        ("wait", "orders_ro", "--until", str(UNTIL), "--timeout", "0s"),
        (),
    ),
    "wait by selection": (
        lambda p: p.wait("*_ro", exclude="gone_ro", until=UNTIL, timeout=timedelta(0)),
        ("wait", "-s", "*_ro", "--exclude", "gone_ro", "--until", str(UNTIL), "--timeout", "0s"),
        (),
    ),
    "history": (lambda p: p.history("orders_ro"), ("history", "orders_ro"), ()),
    "debug": (lambda p: p.debug("orders_ro"), ("debug", "--select", "orders_ro"), ()),
}


@pytest.mark.parametrize("verb", list(VERBS))
def test_over_tables_of_files(folder, etc_json, verb):
    call, arguments, beginnings = VERBS[verb]
    printed, by_command = etc_json(*arguments), left_in(folder)
    with Project() as project:
        report = json.loads(call(project).model_dump_json())
    assert comparable(report) == comparable(printed)
    assert left_in(folder) == by_command
    assert {beginning for name in by_command for beginning in beginnings if name.startswith(beginning)} == {*beginnings}
    assert all(name.startswith(beginnings) for name in by_command)


def test_the_site(folder, etc_json):
    printed, by_command = etc_json("docs", "generate", *AT), left_in(folder)
    site = Project(folder).site(at=NOON)
    assert (list(site.files), site.folder) == (printed["files"], folder / "target" / "site")
    assert left_in(folder) == by_command
    assert {"site/index.html", "site/tables/gone_ro.html", "site/site.json"} <= by_command.keys()


def test_parse(folder, etc_json):
    (folder / "suites").mkdir()
    (folder / "suites" / "mine.yml").write_text("expectations: 3\n")
    printed = [(issue["code"], issue["message"]) for issue in etc_json("parse")["issues"]]
    assert [(issue.code, issue.message) for issue in Project(folder).parse()] == printed
    assert (printed[0][0], len(printed) > 1) == ("ETC140", True)


def test_metrics(folder, capsys):
    main(["metrics", "write", "etc.prom"])
    written = (folder / "etc.prom").read_text()
    warnings = []
    observed = {one.policy.name: one.freshness for one in Project(folder, warn=warnings.append).metrics()()}
    assert {name: table.status != "unknown" for name, table in observed.items()} == {
        "gone_ro": False,
        "orders_ro": True,
    }
    for name, readable in (("gone_ro", "0.0"), ("orders_ro", "1.0")):
        (line,) = (one for one in written.splitlines() if one.startswith("etc_table_readable{") and name in one)
        assert line.endswith(readable)
    assert [issue.code for issue in warnings] == ["ETC140", "ETC201"]
    err = capsys.readouterr().err
    assert all(f"warning[{issue.code}]: {issue.message}" in err for issue in warnings)


@pytest.fixture
def due(folder, monkeypatch):
    """Makes the table of `orders_ro` anew, in memory and due for a compaction, with the outside world that has it."""

    monkeypatch.setattr("etc_policy.execute.runner.time.monotonic", lambda: 0.0)

    def make():
        table = MemoryTable(replace(STATE, base_path=str(folder / "lake" / "orders")))
        outside = Outside(folder, orders_ro=table)
        outside.property_store = lambda: Catalog(orders_ro={})
        outside.undo = lambda policy, path: outside.runner()._runner(policy).undo(policy, path)
        monkeypatch.setattr(Project, "environment", outside)
        return table

    return make


@pytest.mark.parametrize("saved", [False, True])
def test_apply_is_recorded(folder, etc_json, due, saved):
    found = []
    for by_command in (True, False):
        due()
        plan = "saved.json" if saved else None
        if saved:
            Project(folder).plan("orders_ro", at=NOON, out=plan)
        if by_command:
            report = etc_json("apply", *([plan] if saved else ["--yes"]), *AT, "--select", "orders_ro")
        else:
            report = json.loads(Project(folder).apply(plan, "orders_ro", at=NOON).model_dump_json())
        found.append((report, left_in(folder)))
    assert found[0] == found[1]
    report, files = found[0]
    assert [table["status"] for table in report["tables"]] == ["compacted"]
    assert json.loads(files["run_results.json"]) == report
    (run,) = (text for name, text in files.items() if name.startswith("runs/"))
    assert json.loads(run)["results"] == report


def test_an_apply_that_ends_early_is_recorded_too(folder, due):
    (folder / "policies" / "a.yml").write_text(POLICIES.replace("gone", "zz"))
    due()
    table = Project.environment.tables["zz_ro"] = MemoryTable(replace(STATE, base_path=str(folder / "lake" / "zz")))

    def end(_):
        raise KeyboardInterrupt

    table.changes = [lambda s: s, lambda s: s, end]
    with pytest.raises(KeyboardInterrupt):
        Project(folder).apply(at=NOON)
    files = left_in(folder)
    assert [one["policy"] for one in json.loads(files["run_results.json"])["tables"]] == ["orders_ro"]
    assert [name for name in files if "-apply-" in name]


def test_what_apply_verified_is_known_to_sync(folder, due, monkeypatch):
    """A run from Python counts like one from the command line."""
    due()
    project = Project(folder)
    project.apply(select="orders_ro", at=NOON)
    (result,) = project.sync(at=NOON).tables
    assert result.properties["etc.event_time.status"] == "verified"


def test_undo(folder, etc_json, due):
    due().put_plan(C, PLAN.operations, extra_metadata(PLAN, "plan-0", None))
    assert etc_json("undo", "-s", "orders_ro")["withdrawn"] == [{"policy": "orders_ro", "instant": C}]
    due().put_plan(C, PLAN.operations, extra_metadata(PLAN, "plan-0", None))
    assert Project(folder).undo("orders_ro") == {"orders_ro": C}


def test_errors_of_several_tables_carry_the_report(folder):
    (folder / "policies" / "a.yml").write_text(POLICIES.replace("gone_ro, table: lake/gone", "gone_ro, table: lake/x"))
    with Project(folder) as project, pytest.raises(SeveralErrors) as error:
        project.verify(at=NOON)
    assert [table.policy for table in error.value.report.tables] == ["orders_ro"]


def test_the_page_names_every_verb():
    page = (REPOSITORY / "docs" / "reference" / "python.md").read_text()
    verbs = {name for name, value in inspect.getmembers(Project, inspect.isfunction) if not name.startswith("_")}
    assert {name for name in verbs - NO_VERBS if f"`{name}(" not in page} == set()
