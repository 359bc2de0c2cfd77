"""Policies with `tables`: which tables get one, which do not and why, and what the commands make of them."""

import json
import os
import shutil
import time
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError

from etc_policy.api.namespaces import _Lookup
from etc_policy.api.project import Project
from etc_policy.cli.main import main
from etc_policy.errors import RetryableError, SeveralErrors
from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.policy.secrets import with_values
from etc_policy.table.history import PLAN_ID, SEEN_UNTIL, THRESHOLD
from etc_policy.wiring import Environment
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

MARK, MEMORY = f"{ETC_FOLDER}/place", f"{ETC_FOLDER}/memory.json"
NOON = epoch_ms("12:00:00")
SALES = """version: 1
policies:
  - tables: lake/sales/*
    name: "sales_{table}"
    exclude: ["tmp_*"]
    event_time_column: ts
    data_latency: 1h
"""


def make_table(folder, *, compacted=False):
    table = TableFolder(folder)
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    table.commit(at("10:35:00"), at("10:35:05"), log("f1", epoch_ms("10:30:00")))
    if compacted:
        extra = {THRESHOLD: str(epoch_ms("10:00:00")), PLAN_ID: "x", SEEN_UNTIL: at("10:35:05")}
        table.compaction(at("10:35:05.001"), at("10:45:00"), base("f1"), extra=extra)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project in the current folder, and a lake with all that a glob may meet."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "sales.yml").write_text(SALES)
    monkeypatch.chdir(tmp_path)
    sales = tmp_path / "lake" / "sales"
    make_table(sales / "orders", compacted=True)
    make_table(sales / "Refunds")
    make_table(sales / "tmp_1")
    make_table(sales / "old" / "deeper")
    shutil.copytree(sales / "Refunds", sales / "prices")
    file = sales / "prices" / ".hoodie" / "hoodie.properties"
    file.write_text(file.read_text().replace("MERGE_ON_READ", "COPY_ON_WRITE"))
    (sales / "no table").mkdir()
    return tmp_path


def names(project):
    return [policy.name for policy in project.policies()]


def test_each_merge_on_read_table_has_a_policy_and_the_others_are_listed(folder):
    project = Project(folder)
    assert [(one.name, one.table, one.found_by, one.source) for one in project.policies()] == [
        ("sales_orders", f"{folder}/lake/sales/orders", "lake/sales/*", "policies/sales.yml:4:11"),
        ("sales_refunds", f"{folder}/lake/sales/Refunds", "lake/sales/*", "policies/sales.yml:4:11"),
    ]
    assert project.left_out() == {
        f"{folder}/lake/sales/prices": f"`{folder}/lake/sales/prices` is a copy-on-write table",
        f"{folder}/lake/sales/tmp_1": "excluded",
    }


def test_a_new_table_is_taken_by_itself_and_is_new_until_etc_has_compacted_it(folder):
    project = Project(folder)
    assert [one.new_from for one in project.plan(at=NOON).tables] == [None, "lake/sales/*"]
    make_table(folder / "lake" / "sales" / "clicks")
    plan = project.plan(at=NOON)
    assert [(one.policy, one.action, one.new_from) for one in plan.tables] == [
        ("sales_clicks", "compact", "lake/sales/*"),
        ("sales_orders", "nothing_due", None),
        ("sales_refunds", "compact", "lake/sales/*"),
    ]
    project.environment.apply_states.update(f"{folder}/lake/sales/clicks", lambda kept: kept.__class__(run_ms=1))
    assert [one.new_from for one in project.plan("sales_clicks", at=NOON).tables] == [None]


def test_an_explicit_policy_wins_however_it_writes_the_table(folder):
    own = "version: 1\npolicies:\n  - {name: mine, table: ./lake//sales/orders, event_time_column: ts, data_latency: 2h}\n"
    (folder / "policies" / "mine.yml").write_text(own)
    project = Project(folder)
    assert names(project) == ["mine", "sales_refunds"]
    assert project.left_out()[f"{folder}/lake/sales/orders"] == "has the policy `mine`"
    (folder / "policies" / "mine.yml").write_text(own.replace("data_latency", "enabled: false, data_latency"))
    assert names(project) == ["sales_refunds"]


def test_a_table_has_its_own_name_also_where_a_link_to_it_comes_first(folder):
    (folder / "lake" / "sales" / "current").symlink_to(folder / "lake" / "sales" / "orders")
    assert sorted(names(Project(folder))) == ["sales_orders", "sales_refunds"]
    (folder / "policies" / "sales.yml").write_text(SALES.replace('"tmp_*"', '"orders"'))
    assert "sales_current" in names(Project(folder))


def planned(project):
    """What each policy is planned to do, and the errors of those that stand for one."""
    with pytest.raises(SeveralErrors) as error:
        project.plan(at=NOON, check=True)
    return {one.policy: one.action for one in error.value.report.tables}, error.value.errors


def test_a_table_of_two_namespaces_is_an_error_and_the_others_go_on(folder):
    second = SALES.replace("lake/sales/*", "lake/*/o*").replace("sales_", "all_")
    (folder / "policies" / "all.yml").write_text(second)
    project = Project(folder)
    actions, (error,) = planned(project)
    assert actions == {"all_orders": "refused", "sales_refunds": "compact"}
    why = (
        f"the table `{folder}/lake/sales/orders` is found by `lake/*/o*` at policies/all.yml:4:11 and by `lake/sales/*`"
    )
    assert (error.code, error.message.endswith(why)) == ("ETC131", True)
    assert project.left_out()[f"{folder}/lake/sales/orders"] == why
    assert Project(folder).parse() == ()  # no table is looked up


def test_two_tables_of_one_name_need_their_folder_in_it(folder):
    """Neither of them has the name: a job that waits for one policy must not be told of another table."""
    make_table(folder / "lake" / "web" / "orders")
    text = SALES.replace("lake/sales/*", "lake/*/*").replace("sales_{table}", "{table}")
    (folder / "policies" / "sales.yml").write_text(text)
    actions, errors = planned(Project(folder))
    assert actions == {"orders": "refused", "orders_2": "refused", "refunds": "compact"}
    assert {(one.code, "`{folder}`" in one.hint) for one in errors} == {("ETC130", True)}
    assert f"`{folder}/lake/sales/orders` and `{folder}/lake/web/orders`" in errors[0].message
    (folder / "policies" / "sales.yml").write_text(text.replace("{table}", "{folder}_{table}"))
    assert names(Project(folder)) == ["sales_orders", "sales_refunds", "web_orders"]


@pytest.mark.parametrize("known_by", ["the table", "the last run"])
def test_a_newcomer_of_the_same_name_stops_nobody(folder, known_by):
    """Whoever may make a folder there stopped another's table, and took its policy's name."""
    sales = folder / "lake" / "sales"
    (folder / "policies" / "sales.yml").write_text(SALES + "    verify: {level: metadata}\n")
    project = Project(folder)
    if known_by == "the table":
        project.environment.apply_states.update(str(sales / "orders"), lambda kept: kept.__class__(run_ms=1))
    else:
        project.apply(select="sales_orders", at=NOON)
    shutil.copytree(sales / "orders", sales / "ORDERS")
    if known_by == "the table":
        shutil.rmtree(sales / "ORDERS" / ".hoodie" / ".etc")
    actions, (error,) = planned(Project(folder))
    assert actions == {"sales_orders": "nothing_due", "sales_orders_2": "refused", "sales_refunds": "compact"}
    assert error.code == "ETC130"
    assert {one.name: one.table for one in project.policies()}["sales_orders"] == f"{sales}/orders"
    shutil.copytree(sales / "ORDERS", sales / "Orders")  # another one, which changes nothing
    assert planned(Project(folder))[0]["sales_orders"] == "nothing_due"


def actual_runs(newcomer):
    """The newcomer is a copy as it is, records of etc and all."""


def with_its_own_name(newcomer):
    """It says of itself what etc says of a table, as if for years."""
    (newcomer / MARK).write_text("sales/ORDERS")
    os.utime(newcomer / MARK, (0, 0))


def with_a_record_that_nobody_can_read(newcomer):
    (newcomer / MEMORY).unlink()
    (newcomer / MEMORY).mkdir()


def with_links_to_the_records(newcomer):
    shutil.rmtree(newcomer / ETC_FOLDER)
    (newcomer / ETC_FOLDER).symlink_to(newcomer.parent / "orders" / ETC_FOLDER)


@pytest.mark.parametrize(
    "made", [actual_runs, with_its_own_name, with_a_record_that_nobody_can_read, with_links_to_the_records]
)
def test_a_newcomer_with_the_records_of_etc_stops_nobody_where_those_of_runs_are_gone(folder, made):
    """Whoever may read a table may copy all that etc keeps beside it; when the storage took it cannot be copied."""
    sales = folder / "lake" / "sales"
    Project(folder).environment.apply_states.update(str(sales / "orders"), worked_on)
    shutil.copytree(sales / "orders", sales / "ORDERS")
    made(sales / "ORDERS")
    actions, (error,) = planned(Project(folder))
    assert actions == {"sales_orders": "nothing_due", "sales_orders_2": "refused", "sales_refunds": "compact"}
    assert error.code == "ETC130"
    Project(folder).environment.apply_states.update(str(sales / "orders"), lambda kept: kept.__class__(run_ms=2))
    assert planned(Project(folder))[0] == actions


def test_a_table_that_etc_worked_on_earlier_under_another_name_is_a_newcomer_of_this_one(folder):
    sales = folder / "lake" / "sales"
    states = Project(folder).environment.apply_states
    for name in ("Refunds", "orders"):
        states.update(str(sales / name), worked_on)
    (sales / "Refunds").rename(sales / "ORDERS")
    assert planned(Project(folder))[0] == {"sales_orders": "nothing_due", "sales_orders_2": "refused"}
    shutil.rmtree(sales / "orders")
    states.update(str(sales / "ORDERS"), lambda kept: kept.__class__(run_ms=2))
    assert (sales / "ORDERS" / MARK).read_text() == "sales/ORDERS"


@pytest.mark.parametrize("by", ["a namespace", "a glob of for_each"])
def test_which_table_was_first_is_not_known_where_the_store_does_not_answer(folder, monkeypatch, by):
    if by != "a namespace":
        (folder / "policies" / "sales.yml").write_text(EACH)
    sales = folder / "lake" / "sales"
    states = Project(folder).environment.apply_states
    states.update(str(sales / "orders"), worked_on)
    shutil.copytree(sales / "orders", sales / "ORDERS")
    states.update(str(sales / "ORDERS"), lambda kept: kept.__class__(run_ms=2))
    ask = Environment.worked_on_since

    def asked(environment, location):
        if location.endswith("/orders"):
            raise RetryableError("ETC240", "the store does not answer")
        return ask(environment, location)

    monkeypatch.setattr(Environment, "worked_on_since", asked)
    with pytest.raises(SeveralErrors) as error:
        Project(folder).plan(at=NOON, check=True)
    tables = error.value.report.tables
    assert {one.action for one in tables if one.base_path.lower().endswith("/orders")} == {"refused"}
    assert {one.action for one in tables if one.base_path.endswith("/Refunds")} == {"compact"}


def worked_on(kept):
    return kept.__class__(run_ms=1)


def test_folders_that_somebody_makes_hide_no_table_of_the_last_runs(folder, monkeypatch):
    """So many folders are looked at, in the order of their names: 20,000 of them hid all tables behind."""
    (folder / "policies" / "sales.yml").write_text(SALES + "    verify: {level: metadata}\n")
    Project(folder).apply(select="sales_orders", at=NOON)
    (record,) = (folder / "target" / "runs").glob("*-apply-*.json")
    of_others = record.read_text().replace('"sales_orders"', '"other"').replace("sales/orders", "sales/other")
    record.rename(record.with_name("20260101T000000000Z-apply-1.json"))
    for number in range(300):  # runs that were about other tables, later
        record.with_name(f"20260102T000000{number:03}Z-apply-1.json").write_text(of_others)
    for number in range(5):
        (folder / "lake" / "sales" / f"a{number}").mkdir()
    monkeypatch.setattr("etc_policy.hudi.discovery.MAX_FOLDERS", 3)
    actions, (error,) = planned(Project(folder))
    assert (actions["sales_orders"], error.code) == ("nothing_due", "ETC235")
    shutil.rmtree(folder / "lake" / "sales" / "orders" / ".hoodie")
    assert "sales_orders" not in planned(Project(folder))[0]


def test_folders_that_somebody_makes_in_one_folder_hide_no_table_of_another(folder, monkeypatch):
    (folder / "policies" / "sales.yml").write_text(SALES.replace("lake/sales/*", '"lake/*/*"'))
    for number in range(20):
        (folder / "lake" / "a" / f"{number:02}").mkdir(parents=True)
    monkeypatch.setattr("etc_policy.hudi.discovery.MAX_FOLDERS", 12)
    actions, (error,) = planned(Project(folder))
    assert error.code == "ETC235"
    assert {"sales_orders", "sales_refunds"} <= actions.keys()


@pytest.mark.parametrize("above", ["lake", "lake/sales"])
def test_a_folder_that_somebody_makes_a_table_hides_none_below_it(folder, above):
    """An empty `.hoodie` in a folder of the glob took all tables below it from every command, without a word."""
    (folder / "policies" / "sales.yml").write_text(SALES.replace("lake/sales/*", '"lake/*/*"'))
    (folder / above / ".hoodie").mkdir()
    assert names(Project(folder)) == ["sales_orders", "sales_refunds"]
    make_table(folder / above)
    assert names(Project(folder)) == ["sales_orders", "sales_refunds"]


def test_a_link_out_of_the_folder_is_left_out(folder):
    """Whoever may make links there would have etc compact any table that its user may write."""
    make_table(folder / "secret" / "foreign")
    (folder / "lake" / "sales" / "evil").symlink_to(folder / "secret" / "foreign")
    (folder / "lake" / "sales" / "deep").symlink_to(folder / "secret")
    project = Project(folder)
    assert names(project) == ["sales_orders", "sales_refunds"]
    assert "leads out of the folder" in project.left_out()[f"{folder}/lake/sales/evil"]


def test_a_table_that_is_found_does_not_take_the_name_of_a_policy(folder):
    own = "version: 1\npolicies:\n  - {name: sales_refunds, table: lake/web, event_time_column: ts, data_latency: 1h}\n"
    (folder / "policies" / "mine.yml").write_text(own)
    make_table(folder / "lake" / "web")
    actions, (error,) = planned(Project(folder))
    assert actions == {"sales_orders": "nothing_due", "sales_refunds": "compact", "sales_refunds_2": "refused"}
    assert error.code == "ETC130"


def test_a_pattern_that_matches_nothing_is_one_warning(folder):
    (folder / "policies" / "sales.yml").write_text(SALES.replace("sales/*", "sales/none_*"))
    warned = []
    assert Project(folder, warn=warned.append).policies() == ()
    assert [(one.code, one.level, one.where.line) for one in warned] == [("ETC154", "warning", 3)]


def test_what_cannot_be_looked_up_is_reported_by_each_verb_and_the_others_go_on(folder):
    more = SALES.partition("policies:\n")[2].replace("lake/sales/*", "gone/*").replace("sales_", "gone_")
    (folder / "policies" / "sales.yml").write_text(SALES + more)
    project = Project(folder)
    with pytest.raises(SeveralErrors) as error:
        project.plan(at=NOON, check=True)
    assert [(one.policy, one.action) for one in error.value.report.tables] == [
        ("gone_tables", "refused"),
        ("sales_orders", "nothing_due"),
        ("sales_refunds", "compact"),
    ]
    assert "there is no such folder" in error.value.errors[0].message
    assert [one.status == "unknown" for one in project.freshness(at=NOON).tables] == [True, False, False]
    assert project.left_out()["gone/*"].startswith("cannot be looked up: ")
    make_table(folder / "gone" / "back")
    assert names(project) == ["gone_back", "sales_orders", "sales_refunds"]
    assert project.plan(at=NOON, check=True).has_changes


def test_state_compares_what_the_files_say(folder):
    (folder / "etc_project.yml").write_text("name: p\n")
    Project(folder, target_dir="before").compile()
    make_table(folder / "lake" / "sales" / "clicks")

    def selected(term):
        return [one.name for one in Project(folder, state="before").policies(term)]

    assert selected("state:new") == selected("state:modified") == []
    assert selected("state:old") == ["sales_clicks", "sales_orders", "sales_refunds"]
    (folder / "policies" / "sales.yml").write_text(SALES.replace("1h", "2h"))
    assert selected("state:modified") == ["sales_clicks", "sales_orders", "sales_refunds"]


def test_nothing_is_looked_up_offline(folder, monkeypatch):
    monkeypatch.setattr(Environment, "find_tables", lambda *_: pytest.fail("a folder was listed"))
    project = Project(folder)
    assert project.parse() == ()
    assert [*project.compile().namespaces] == ["lake/sales/*"]


def test_each_table_has_its_own_ro_table(folder):
    (folder / "policies" / "sales.yml").write_text(SALES + '    sync: {ro_table: "sales.{table}_ro"}\n')
    assert [one.sync.ro_table for one in Project(folder).policies()] == ["sales.orders_ro", "sales.refunds_ro"]
    (folder / "policies" / "sales.yml").write_text(SALES + '    sync: {ro_table: "sales.orders_ro"}\n')
    actions, errors = planned(Project(folder))
    assert actions == {"sales_orders": "refused", "sales_refunds": "refused"}
    assert [one.code for one in errors] == ["ETC142", "ETC142"]
    assert "would have one `sync.ro_table`" in errors[0].message


def test_a_folder_whose_name_makes_no_ro_table_is_refused_alone(folder):
    """Whoever may make a folder stopped each command for all tables by a name such as `web-clicks`."""
    make_table(folder / "lake" / "sales" / "web-clicks")
    policies = folder / "policies" / "sales.yml"
    for is_enabled in ("true", "false"):
        policies.write_text(SALES + f'    enabled: {is_enabled}\n    sync: {{ro_table: "sales.{{table}}_ro"}}\n')
        assert "sales_orders" in {one.name for one in Project(folder).manifest().policies}
    policies.write_text(SALES + '    sync: {ro_table: "sales.{table}_ro"}\n')
    actions, (error,) = planned(Project(folder))
    assert actions == {"sales_orders": "nothing_due", "sales_refunds": "compact", "sales_web-clicks": "refused"}
    assert error.code == "ETC142"
    assert "`sales.web-clicks_ro` is not `db.table` of the catalog" in error.message
    policies.write_text(SALES + '    sync: {ro_table: "sales.`{table}_ro`"}\n')
    plan = Project(folder).plan(at=NOON, check=True)
    assert [one.action for one in plan.tables if one.policy == "sales_web-clicks"] == ["compact"]


def test_import_leaves_the_tables_of_a_namespace_alone(folder):
    report = Project(folder).import_tables(buckets="lake", diff=True)
    assert [(one.policy, one.status) for one in report.tables if one.status != "left_out"] == [
        ("sales_refunds", "known"),
        ("deeper", "new"),
        ("sales_orders", "known"),
        ("tmp_1", "new"),
    ]


def test_ls_says_where_each_policy_came_from(folder, capsys):
    def etc(*arguments):
        return main(arguments), capsys.readouterr().out

    (folder / "policies" / "mine.yml").write_text(
        "version: 1\npolicies:\n  - {name: mine, table: other, event_time_column: ts, data_latency: 2h}\n"
    )
    code, out = etc("ls")
    assert code == 0
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "policy table latency target granularity tags from",
        "mine other 2h - file_slice policies/mine.yml:3:12",
        "sales_orders lake/sales/orders 1h - file_slice lake/sales/*",
        "sales_refunds lake/sales/Refunds 1h - file_slice lake/sales/*",
        "left out: `lake/sales/prices` is a copy-on-write table",
        "left out: lake/sales/tmp_1 excluded",
    ]
    found = json.loads(etc("ls", "--output", "json")[1])
    assert [one["found_by"] for one in found["policies"]] == [None, "lake/sales/*", "lake/sales/*"]
    assert [one["reason"] for one in found["left_out"]][1:] == ["excluded"]
    assert etc("parse")[1] == "1 policy OK, and 1 namespace whose tables are looked up by other commands\n"


def test_a_bucket(folder, moto_server, s3_variables):
    root = moto_server.upload(folder / "lake", moto_server.make_bucket(), "lake").replace("s3a:", "s3:")
    (folder / "policies" / "sales.yml").write_text(SALES.replace("lake/sales/*", f"{root}/s*/*"))
    storage = f'{{endpoint: "{moto_server.endpoint}", region: us-east-1, path_style: true}}'
    (folder / "etc_project.yml").write_text(
        f"name: p\nprofiles: {{p: {{target: d, targets: {{d: {{storage: {storage}}}}}}}}}\n"
    )
    project = Project(folder)
    assert [(one.policy, one.base_path, one.new_from) for one in project.plan(at=NOON).tables] == [
        ("sales_orders", f"{root}/sales/orders", None),
        ("sales_refunds", f"{root}/sales/Refunds", f"{root}/s*/*"),
    ]
    assert project.left_out().keys() == {f"{root}/sales/prices", f"{root}/sales/tmp_1"}


def test_a_newcomer_in_a_bucket_with_the_records_of_etc(folder, moto_server, s3_variables):
    bucket = moto_server.make_bucket()
    root = moto_server.upload(folder / "lake", bucket, "lake").replace("s3a:", "s3:")
    (folder / "policies" / "sales.yml").write_text(SALES.replace("lake/sales/*", f"{root}/sales/*"))
    storage = f'{{endpoint: "{moto_server.endpoint}", region: us-east-1, path_style: true}}'
    (folder / "etc_project.yml").write_text(
        f"name: p\nprofiles: {{p: {{target: d, targets: {{d: {{storage: {storage}}}}}}}}}\n"
    )
    Project(folder).environment.apply_states.update(f"{root}/sales/orders", worked_on)
    time.sleep(1.1)  # a store's times are whole seconds
    copy = moto_server.download(bucket, "lake/sales/orders", folder / "copy")
    (copy / MARK).write_text("sales/ORDERS")
    moto_server.upload(copy, bucket, "lake/sales/ORDERS")
    assert planned(Project(folder))[0]["sales_orders"] == "nothing_due"
    assert {one.name: one.table for one in Project(folder).policies()}["sales_orders"] == f"{root}/sales/orders"


def test_a_bucket_without_objects_has_no_tables(tmp_path, moto_server, s3_variables, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto_server.endpoint)
    bucket = moto_server.make_bucket()
    assert Project(tmp_path).import_tables(buckets=[f"s3://{bucket}"]).tables == ()
    with pytest.raises(SeveralErrors, match="there is no such folder"):
        Project(tmp_path).import_tables(buckets=[f"s3://{bucket}/sales"])
    with pytest.raises(SeveralErrors, match="there is no bucket") as error:
        Project(tmp_path).import_tables(buckets=[f"s3://{bucket}-gone"])
    assert "policy" not in (error.value.errors[0].hint or "")


EACH = """version: 1
policies:
  - for_each: lake/sales/*
    name: "sales_{{ each.name | lower }}"
    table: "{{ each.path }}"
    sync: {ro_table: "lake.{{ each.name }}"}
    event_time_column: ts
    data_latency: 1h
  - {name: by_hand, table: lake/sales/tmp_1, event_time_column: ts, data_latency: 1h}
  - {name: sales_taken, table: lake/sales/old/deeper, event_time_column: ts, data_latency: 1h}
"""
#: By a link or a copy of a table, and the code that the folder is refused by; None where it has a policy already.
FOLDERS = {
    "Bad Name!": "ETC114",
    "x\ny": "ETC114",
    "q`'": "ETC114",
    "\udcff": "ETC120",
    "ORDERS": "ETC130",
    "taken": "ETC130",
    "a-b": "ETC142",
    "n" * 120: "ETC114",
    "link": None,
    "outside": "ETC124",
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_a_glob_of_for_each_finds_stops_itself_alone(folder, tmp_path_factory, name):
    sales = folder / "lake" / "sales"
    (folder / "policies" / "sales.yml").write_text(EACH)
    shutil.rmtree(sales / "prices")
    project = Project(folder)
    before = {one.policy: one.action for one in project.plan(at=NOON, check=True).tables}
    assert before["sales_orders"] == "nothing_due"
    project.environment.apply_states.update(str(sales / "orders"), worked_on)
    if name == "link":
        (sales / name).symlink_to("orders")
    elif name == "outside":
        (sales / name).symlink_to(shutil.copytree(sales / "orders", tmp_path_factory.mktemp("out") / "t"))
    else:
        shutil.copytree(sales / "orders", sales / name)
    code = FOLDERS[name]
    if code is None:
        assert {one.policy: one.action for one in Project(folder).plan(at=NOON, check=True).tables} == before
        return
    actions, (error,) = planned(Project(folder))
    assert {one: action for one, action in actions.items() if one in before} == before
    assert [action for one, action in actions.items() if one not in before] == ["refused"]
    (issue,) = Project(folder).parse()
    assert (error.code, issue.code, issue.level) == (code, code, "warning")
    assert "is left out: " in issue.message
    assert issue.message in error.message
    assert issue.where.line in (3, 4, 5, 6)
    assert main(["compile", "--project-dir", str(folder)]) == 0
    manifest = json.loads((folder / "target" / "manifest.json").read_text())
    assert {one["name"] for one in manifest["policies"]} == before.keys()


#: What of a policy holds the name of a folder, and is filled in once the engine starts.
OF_ENGINE = (
    'hudi_options: {hoodie.parquet.compression.codec: "x{{ each.path }}"}',
    "hudi_options: \"{{ {'hoodie.parquet.compression.codec': each.path} }}\"",
    'writer: {lock: {hoodie.write.lock.filesystem.path: "/locks/{{ each.path }}"}}',
    "writer: \"{{ {'lock': {'hoodie.write.lock.filesystem.path': each.path}} }}\"",
)


@pytest.mark.parametrize("text", OF_ENGINE)
def test_the_name_of_a_folder_is_no_reference_to_a_variable(folder, monkeypatch, text):
    """Whoever makes folders had the file of a lock named by any variable, and Hudi's options hold it."""
    monkeypatch.setenv("ETC_TEST_TOKEN", "hunter2")
    shutil.copytree(folder / "lake" / "sales" / "orders", folder / "lake" / "{{ env_var('ETC_TEST_TOKEN') }}" / "t1")
    (folder / "policies" / "sales.yml").write_text(
        "version: 1\npolicies:\n"
        "  - {for_each: lake/*/*, name: '{{ each.name | lower }}_ro', table: 'x/{{ each.name }}', event_time_column: ts,\n"
        f"    data_latency: 1h, {text}}}\n"
    )
    project = Project(folder)
    options = [one for policy in project.policies() for one in (policy.writer.lock, policy.hudi_options)]
    assert any("lake/sales/orders" in str(one) for one in options)
    assert "hunter2" not in str([with_values(one, os.environ) for one in options])
    assert [issue.code for issue in project.parse() if "is left out" in issue.message] == ["ETC121"]


def test_the_time_of_folders_of_one_plain_name_goes_by_their_number(folder):
    (folder / "policies" / "sales.yml").write_text(EACH)
    (folder / "lake" / "sales" / "!" / ".hoodie").mkdir(parents=True)
    project = Project(folder)
    files = project._declared().files
    many = [replace(files.refused[0], folder=f"lake/sales/{'!' * number}") for number in range(1, 4_001)]
    lookup, began = _Lookup(project.environment, str(folder), dict), time.process_time()
    names = {one.declaration.name for one in lookup.stand_ins(many, files.policies)}
    assert len(names) == 4_000
    assert not names & {one.declaration.name for one in files.policies}
    assert time.process_time() - began < 4


#: Below the folder of the tables, in the folder itself, in a table, in a partition and in the timeline.
BAD_KEYS = (
    "/x",
    "../x",
    "a\x01b/f",
    "\x7f",
    "a\nb/f",
    "Refunds//x",
    "Refunds/../x",
    "Refunds/p//x",
    "Refunds/.hoodie/timeline//x",
)


@pytest.mark.parametrize("key", BAD_KEYS)
def test_an_object_whose_name_is_no_path_stops_its_own_table_alone(folder, s3_server, key):
    bucket = s3_server.make_bucket()
    root = s3_server.upload(folder / "lake", bucket, "lake").replace("s3a:", "s3:")
    try:
        s3_server.client.put_object(Bucket=bucket, Key=f"lake/sales/{key}", Body=b"x")
    except ClientError:
        pytest.skip("this server refuses such a name")
    if f"lake/sales/{key}" not in s3_server.keys(bucket):
        pytest.skip("this server keeps its objects in folders, so that such a name becomes another")
    (folder / "policies" / "sales.yml").write_text(SALES.replace("lake/sales/*", f"{root}/sales/*"))
    storage = f'{{endpoint: "{s3_server.endpoint}", region: us-east-1}}'
    text = f"name: p\nprofiles: {{p: {{target: d, targets: {{d: {{storage: {storage}}}}}}}}}\n"
    (folder / "etc_project.yml").write_text(text)
    actions, (error,) = planned(Project(folder))
    in_table = key.startswith("Refunds")
    assert actions.pop("sales_orders") == "nothing_due"
    assert actions.pop("sales_refunds") == ("refused" if in_table else "compact")
    assert list(actions.values()) == ([] if in_table else ["refused"])  # what cannot be looked up is said once
    assert (error.code, "has a name that cannot be a path" in error.with_cause) == ("ETC452", True)
    named = key.replace("\x01", r"\x01").replace("\x7f", r"\x7f").replace("\n", r"\n").rstrip("xf")
    assert f"lake/sales/{named}" in error.with_cause


@pytest.mark.parametrize("key", [key for key in BAD_KEYS if "\x01" not in key])  # both test servers fail at that one
def test_such_an_object_on_google_s_and_azure_s_stores(folder, cloud_keys, key):
    for path in (folder / "lake").rglob("*"):
        if path.is_file():
            assert cloud_keys.put(path.relative_to(folder).as_posix(), path.read_bytes())
    assert cloud_keys.put(f"lake/sales/{key}", b"x")
    (folder / "policies" / "sales.yml").write_text(SALES.replace("lake/sales/*", f"{cloud_keys.location}/lake/sales/*"))
    actions, (error,) = planned(Project(folder))
    in_table = key.startswith("Refunds")
    assert actions.pop("sales_orders") == "nothing_due"
    assert actions.pop("sales_refunds") == ("refused" if in_table else "compact")
    assert list(actions.values()) == ([] if in_table else ["refused"])
    assert (error.code, "has a name that cannot be a path" in error.with_cause) == ("ETC452", True)


@pytest.fixture
def in_catalog(folder, monkeypatch):
    """The lake's tables as a catalog knows them, in both views; what each call of it asked."""
    text = SALES.replace("lake/sales/*", "{catalog: shop, match: '*_ro|*_rt'}").replace("sales_", "shop_")
    (folder / "policies" / "sales.yml").write_text(text)
    sales, asked = f"{folder}/lake/sales", []

    def tables(_, database, pattern):
        asked.append((database, pattern))
        for name in ("orders", "Refunds", "prices"):
            yield from ((f"shop.{name.lower()}_{view}", f"{sales}/{name}/") for view in ("ro", "rt"))

    monkeypatch.setattr(Environment, "catalog_tables", tables)
    return asked


def test_a_database_of_the_catalog(folder, in_catalog):
    project = Project(folder, read_once=True)
    assert [(one.name, one.table, one.found_by) for one in project.policies()] == [
        ("shop_orders_ro", f"{folder}/lake/sales/orders", "shop.*_ro|*_rt"),
        ("shop_refunds_ro", f"{folder}/lake/sales/Refunds", "shop.*_ro|*_rt"),
    ]
    assert project.plan(at=NOON).has_changes
    assert in_catalog == [("shop", "*_ro|*_rt")]  # once for all verbs of a command
    own = "version: 1\npolicies:\n  - {name: mine, table: shop.orders_ro, event_time_column: ts, data_latency: 2h}\n"
    (folder / "policies" / "mine.yml").write_text(own)
    assert names(Project(folder)) == ["mine", "shop_refunds_ro"]


def test_a_catalog_that_does_not_answer(folder, in_catalog, monkeypatch):
    def fails(*_):
        raise RetryableError("ETC311", "the catalog cannot be asked about `shop.*`")

    monkeypatch.setattr(Environment, "catalog_tables", fails)
    project = Project(folder)
    with pytest.raises(SeveralErrors, match="cannot be asked") as error:
        project.plan(at=NOON, check=True)
    assert [one.policy for one in error.value.report.tables] == ["shop_tables"]
