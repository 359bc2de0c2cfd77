"""Every verb of `Project` and its command are one: they report the same, and leave the same files in `target/`."""

import inspect
import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from etc_policy.api import syncing
from etc_policy.api.project import Project
from etc_policy.cli.main import main
from etc_policy.errors import SeveralErrors, TableError
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.policy.writers import FORMS
from etc_policy.run.file_lease import FileLease
from etc_policy.table.history import THRESHOLD
from etc_policy.table.state import WriteInFlight
from etc_policy.wiring import Environment
from tests.fakes import MemoryCompactor, MemoryTable
from tests.unit.cli.test_apply import Outside
from tests.unit.cli.test_sync import Catalog
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms, instant
from tests.unit.plan.states import PLAN, STATE, C, slice_of, with_slice

REPOSITORY = Path(__file__).resolve().parents[3]
#: What is public of `Project`, and why no command is compared with it.
NO_VERBS = {
    "close": "it ends what the verbs began",
    "environment": "it is the outside world that the verbs work on",
    "read_anew": "it has the next verb read the files again",
}
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
    monkeypatch.setattr(Environment, "property_store", lambda *_: Catalog(orders_ro={}))
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

#: The verb, its command, and the beginnings of the files that both leave. The first word of a key is the verb.
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
    "freshness archived": (
        lambda p: p.freshness(at=NOON, archived=True),
        ("freshness", *AT, "--archived"),
        ("freshness.json",),
    ),
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
    "cuts": (lambda p: p.cuts("orders_ro"), ("cuts", "--select", "orders_ro"), ()),
    "simulate": (
        lambda p: p.simulate("orders_ro", settings={"data_latency": "45m"}, every=timedelta(minutes=20)),
        ("simulate", "orders_ro", "--set", "data_latency=45m", "--every", "20m"),
        (),
    ),
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

    monkeypatch.setattr("etc_policy.run.runner.time.monotonic", lambda: 0.0)

    def make():
        table = MemoryTable(replace(STATE, base_path=str(folder / "lake" / "orders")))
        outside = Outside(folder, orders_ro=table)
        outside.property_store = lambda _: Catalog(orders_ro={})
        outside.undo = lambda policy, path: outside.runner()._runner(policy).undo(policy, path)
        outside.finish_others = lambda policy, path: table.runner().finish_others(policy, path)
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
    assert [one.instant for one in Project(folder).undo("orders_ro").withdrawn] == [C]


def test_finish(folder, etc_json, due):
    found = []
    for by_command in (True, False):
        table = due()
        table.put_plan(C, PLAN.operations, {})
        if by_command:
            finished = etc_json("finish", "-s", "orders_ro")["finished"]
        else:
            finished = [one.model_dump() for one in Project(folder).finish("orders_ro").finished]
        found.append((finished, table.calls, left_in(folder)))
    assert found[0] == found[1]
    assert found[0][0] == [{"policy": "orders_ro", "action": "compaction", "instant": C}]
    assert "commit" in found[0][1]


def test_finish_says_what_it_did_and_what_that_leaves_to_do(folder, due, monkeypatch):
    """A writer began while the first compaction was being committed, of deletes; the second one was overtaken by it."""
    monkeypatch.setattr("etc_policy.run.fence.WRITER_WAIT_SECONDS", -1.0)
    table = due()
    deletes = tuple(one._replace(has_deletes=True) for one in slice_of(table.state, "f1").log_files)
    table.state = with_slice(table.state, "f1", log_files=deletes)
    both = tuple(one.model_copy(update={"log_files_compacted": ("L1", "L2")}) for one in PLAN.operations)
    first, second = instant("11:31:00"), instant("11:32:00")
    for at_ in (first, second):
        table.put_plan(at_, both, {})
    late = WriteInFlight(instant("11:59:00"), None)
    begin = [lambda s: s, lambda s: s, lambda s: replace(s, writes_in_flight=(late,))]
    runner = table.runner(compactor=MemoryCompactor(table, meanwhile=lambda: table.changes.extend(begin)))
    Project.environment.finish_others = runner.finish_others
    with pytest.raises(SeveralErrors) as error:
        Project(folder).finish("orders_ro")
    assert [one.instant for one in error.value.report.finished] == [first]
    assert [one.code for one in error.value.errors] == ["ETC415", "ETC416"]
    assert {str(one.where) for one in error.value.errors} == {"policies/a.yml:3:11 (policy `orders_ro`)"}


def test_forget(tmp_path, monkeypatch, etc_json):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    table = TableFolder(tmp_path / "lake" / "orders")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    found = []
    for by_command in (True, False):
        with FileLease(str(table.base)):
            pass
        project = Project(tmp_path)
        if by_command:
            shown = {one["path"]: one["bytes"] for one in etc_json("forget", "orders_ro", "--yes")["files"]}
        else:
            shown = dict(project.kept_beside("orders_ro"))
            project.forget("orders_ro")
        found.append((shown, project.kept_beside("orders_ro")))
    assert found[0] == found[1]
    assert len(found[0][0]) == 2
    assert not found[0][1]


def test_import_tables(folder, etc_json):
    shutil.copytree(folder / "lake" / "orders", folder / "lake" / "clicks")
    found = []
    for by_command in (True, False):
        if by_command:
            report = etc_json("import", "--bucket", "lake")
        else:
            report = json.loads(Project(folder).import_tables(buckets="lake").model_dump_json())
        path = folder / "policies" / "clicks.yml"
        text = re.sub("at 20.* UTC from", "", path.read_text())
        path.unlink()
        found.append((report, text, left_in(folder)))
    assert found[0] == found[1]
    assert [(one["policy"], one["status"]) for one in found[0][0]["tables"]] == [
        ("clicks", "written"),
        ("orders_ro", "known"),
    ]


def test_left_out(folder, etc_json):
    text = 'version: 1\npolicies:\n  - {tables: "lake/*", event_time_column: ts, data_latency: 1h}\n'
    (folder / "policies" / "lake.yml").write_text(text)
    found = Project(folder).left_out()
    assert found == {one["table"]: one["reason"] for one in etc_json("ls")["left_out"]}
    assert found == {str(folder / "lake" / "orders"): "has the policy `orders_ro`"}


def test_histories(folder, etc_json):
    printed, by_command = etc_json("history", "--select", "*_ro"), left_in(folder)
    with pytest.raises(SeveralErrors) as error:
        Project(folder).histories("*_ro")
    assert [json.loads(one.model_dump_json()) for one in error.value.report.histories] == printed["histories"]
    assert left_in(folder) == by_command == {}
    assert [one.policy for one in Project(folder).histories(exclude="gone_ro").histories] == ["orders_ro"]


def test_the_history_of_a_table_that_cannot_be_read(folder, etc_json):
    with pytest.raises(TableError) as error:
        Project(folder).history("gone_ro")
    printed = etc_json("history", "gone_ro")
    assert json.loads(error.value.report.model_dump_json()) == printed
    assert (printed["reason_code"], printed["reason"]) == ("ETC201", error.value.message)


def test_the_manifest_is_what_compile_writes(folder, etc_json):
    written = etc_json("compile")
    left_in(folder)
    assert json.loads(Project(folder).manifest().model_dump_json()) == written
    assert left_in(folder) == {}


def test_policies_are_those_that_are_listed(folder, etc_json):
    listed = [one["policy"] for one in etc_json("ls", "-s", "tag:a")["policies"]]
    assert [one.name for one in Project(folder).policies("tag:a")] == listed == ["orders_ro"]
    assert left_in(folder) == {}


def test_explain_is_what_compile_prints_and_leaves_nothing(folder, capsys):
    main(["compile", "--explain", "-s", "orders_ro"])
    left_in(folder)
    assert "\n".join(Project(folder).explain("orders_ro")) == capsys.readouterr().out
    assert left_in(folder) == {}


@pytest.mark.parametrize("form", FORMS)
def test_a_writer_form_is_what_compile_prints_and_leaves_nothing(folder, capsys, form):
    main(["compile", "--form", form, "--exclude", "gone_ro"])
    left_in(folder)
    assert Project(folder).writer_form(form, exclude="gone_ro") == capsys.readouterr().out
    assert left_in(folder) == {}


def test_options_are_those_that_compile_writes(folder):
    main(["compile"])
    files, project = left_in(folder), Project(folder)
    pairs = re.findall(r"^  '(.*?)' = '(.*?)',?$", files["writers/orders_ro.flink.sql"], re.MULTILINE)
    assert project.flink_options("orders_ro") == dict(pairs)
    assert project.writer_options("orders_ro") == json.loads(files["writers/orders_ro.options.json"])
    assert left_in(folder) == {}


def test_errors_of_several_tables_carry_the_report(folder):
    (folder / "policies" / "a.yml").write_text(POLICIES.replace("gone_ro, table: lake/gone", "gone_ro, table: lake/x"))
    with Project(folder) as project, pytest.raises(SeveralErrors) as error:
        project.verify(at=NOON)
    found = [(table.policy, table.verification.status) for table in error.value.report.tables]
    assert found == [("gone_ro", "error"), ("orders_ro", "pass")]


#: Verbs that a test of their own compares with their command.
COMPARED = {
    "site": test_the_site,
    "parse": test_parse,
    "metrics": test_metrics,
    "apply": test_apply_is_recorded,
    "undo": test_undo,
    "finish": test_finish,
    "forget": test_forget,
    "kept_beside": test_forget,
    "histories": test_histories,
    "manifest": test_the_manifest_is_what_compile_writes,
    "left_out": test_left_out,
    "policies": test_policies_are_those_that_are_listed,
    "explain": test_explain_is_what_compile_prints_and_leaves_nothing,
    "writer_form": test_a_writer_form_is_what_compile_prints_and_leaves_nothing,
    "import_tables": test_import_tables,
    "writer_options": test_options_are_those_that_compile_writes,
    "flink_options": test_options_are_those_that_compile_writes,
}
PUBLIC = {name for name, _ in inspect.getmembers(Project) if not name.startswith("_")}


def test_every_verb_is_compared_with_its_command():
    assert sorted([*{key.split()[0] for key in VERBS}, *COMPARED, *NO_VERBS]) == sorted(PUBLIC)


def test_the_page_names_every_verb():
    page = (REPOSITORY / "docs" / "reference" / "python.md").read_text()
    assert {name for name in PUBLIC - NO_VERBS.keys() if f"`{name}(" not in page} == set()
