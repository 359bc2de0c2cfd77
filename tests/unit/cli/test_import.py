"""`etc import` over folders that hold more than tables: a line for each that gets no policy, and the others go on."""

import json
import os
import shlex
import shutil
import time
from datetime import UTC, datetime

import pytest
import yaml

from etc_policy.api.importing import policy_name
from etc_policy.api.project import Project
from etc_policy.errors import RetryableError
from etc_policy.table.formats import format_duration
from etc_policy.table.instants import instant_to_ms
from etc_policy.wiring import Environment
from tests.unit.hudi.table_folder import MILLIS, TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms


def make_table(folder, **properties):
    table = TableFolder(folder, properties=properties)
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    table.commit(at("10:35:00"), at("10:35:05"), log("f1", epoch_ms("10:30:00")))


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """Nobody may ask for Spark."""
    monkeypatch.setattr(Environment, "spark", property(lambda _: pytest.fail("Spark was asked for")))
    monkeypatch.chdir(tmp_path)
    make_table(tmp_path / "lake" / "orders")
    make_table(tmp_path / "lake" / "prices", **{"hoodie.table.type": "COPY_ON_WRITE"})
    (tmp_path / "lake" / "notes").mkdir()
    return tmp_path / "lake"


def written(lake):
    return sorted(path.name for path in (lake.parent / "policies").glob("*.yml"))


def test_what_is_no_merge_on_read_table_is_a_line_each_and_the_others_go_on(lake, etc):
    code, out, err = etc("import", "lake/orders", "lake/prices", "lake/notes", "lake/gone*")
    assert code == 1
    assert written(lake) == ["orders.yml"]
    assert err.count("error[") == 3, err
    assert "no folder matches `lake/gone*`" in err
    assert [line.split()[1] for line in out.splitlines()[:-1]] == ["written"]


def test_a_folder_of_tables_that_is_named_as_a_table(lake, etc):
    hint = f"hint: where tables are in it, name them by `{lake}/*`"
    assert f"{hint}, or search it by `--bucket`\n" in etc("import", "lake")[2]
    assert f"{hint}\n" in etc("freshness", "./lake")[2]


def test_what_is_found_and_not_named_is_left_out(lake, etc):
    code, out, err = etc("import", "--bucket", "lake")
    assert (code, written(lake)) == (0, ["orders.yml"]), err
    assert [line.split()[:2] for line in out.splitlines()[:2]] == [["orders", "written"], ["prices", "left"]]


def test_a_table_that_is_named_twice_gets_one_policy(lake, etc):
    (lake / "link").symlink_to(lake / "orders")
    assert etc("import", "lake/orders", "lake/orders/", "lake/link", "lake/ord*")[0] == 0
    assert written(lake) == ["orders.yml"]


def test_links_in_a_folder_that_is_searched(lake, etc):
    """One leads to a table, and one back to the folder; the table is named by its own path."""
    (lake / "again").symlink_to(lake / "orders")
    (lake / "circle").symlink_to(lake)
    (lake / "itself").symlink_to("itself")
    code, out, err = etc("import", "--bucket", "lake")
    assert (code, written(lake)) == (0, ["orders.yml"]), err
    assert "circle" not in out
    assert "table: lake/orders\n" in (lake.parent / "policies" / "orders.yml").read_text()


def test_a_table_without_a_column_of_times(lake, etc, monkeypatch):
    """Neither by name nor by type."""
    monkeypatch.setattr("tests.unit.hudi.table_folder.COLUMNS", ("id", "p", "size"))
    make_table(lake / "sizes", **{"hoodie.table.ordering.fields": None})
    code, _, err = etc("import", "lake/sizes", "lake/orders")
    assert (code, written(lake)) == (1, ["orders.yml"])
    assert err.count("error[") == 1
    assert "error[ETC" in err


def test_tables_without_event_times_that_a_search_finds_are_left_out(lake, etc, monkeypatch):
    """One that nobody has written to yet, and one without a column of times: no job fails because of them."""
    TableFolder(lake / "fresh")
    monkeypatch.setattr("tests.unit.hudi.table_folder.COLUMNS", ("id", "p", "size"))
    make_table(lake / "sizes", **{"hoodie.table.ordering.fields": None})
    code, out, err = etc("import", "--bucket", "lake", "--diff", "--detailed-exitcode")
    assert (code, err) == (2, "")
    found = {line.split()[0]: line for line in out.splitlines()}
    assert "left out" in found["fresh"]
    assert "left out" in found["sizes"]


def test_a_catalog_that_does_not_answer(lake, etc, monkeypatch):
    def refuse(*_):
        raise RetryableError("ETC311", "the catalog does not answer", cause="refused")

    monkeypatch.setattr(Environment, "catalog_tables", refuse)
    code, _, err = etc("import", "--catalog", "sales", "lake/orders")
    assert (code, written(lake)) == (4, ["orders.yml"]), err
    assert err.count("error[") == 1
    assert "the catalog does not answer" in err


def test_a_table_whose_file_has_open_questions_is_known_by_the_name_that_it_has_there(lake, etc):
    (lake / "web").mkdir()
    make_table(lake / "web" / "orders")
    assert etc("import", "--bucket", "lake")[0] == 0
    assert written(lake) == ["orders.yml", "web_orders.yml"]
    out = etc("import", "lake/web/orders", "--output", "json")[1]
    (table,) = json.loads(out)["tables"]
    assert (table["status"], table["policy"], table["file"]) == ("known", "web_orders", "policies/web_orders.yml")
    assert etc("import", "lake/web/orders")[1].splitlines()[0].split()[0] == "web_orders"


@pytest.mark.parametrize("name", ["{{y}}", '" }}{{ 7*7 }}{{ "', '{{ "a" }}', "{% if y %}", "\\\\{{ 1 }}", "a}}"])
def test_a_folder_whose_name_is_jinja_s_is_imported_once(lake, etc, name):
    make_table(lake / name)
    assert etc("import", f"lake/{name}")[0] == 0
    before = written(lake)
    code, out, err = etc("import", f"lake/{name}")
    assert (code, err.count("error")) == (0, 0)
    assert "1 in project" in out
    assert written(lake) == before


def test_where_every_file_has_open_questions_that_is_said(lake, etc):
    etc("import", "lake/orders")
    code, out, err = etc("parse")
    assert (code, out) == (0, "0 policies OK, 1 file with open questions\n")
    assert "every policy has open questions" in err
    assert "the project has no policies" not in err + etc("plan")[2]


def test_a_folder_whose_name_is_not_utf_8_stops_no_other(lake, etc):
    make_table(lake / os.fsdecode(b"bad\xff"))
    code, out, err = etc("import", "--bucket", "lake")
    assert (code, err.count("error["), "not UTF-8" in err) == (1, 1, True)
    assert written(lake) == ["orders.yml"], out


@pytest.fixture
def wide(lake):
    """Twenty tables, which leave two questions each, in days, hours and neither."""
    shutil.rmtree(lake)
    for number in range(20):
        partition = ("dt=2026-01-01", "2026/01/01/08", "p")[number % 3]
        table = TableFolder(lake / f"{'shop' if number % 2 else 'web'}_{number:02}")
        table.commit(at("08:00:00"), at("08:00:05"), base("f1", partition=partition))
        table.compaction(at("09:00:00"), at("09:01:00"), base("f1", partition=partition))
        log_file = log("f1", epoch_ms("10:30:00"), partition=partition)
        table.commit(at("10:35:00"), at("10:35:05"), log_file)
    return lake


def test_twenty_tables_become_a_parsed_project_with_three_answers(wide, etc):
    found = json.loads(etc("import", "--bucket", "lake", "--diff", "--output", "json")[1])["tables"]
    assert {key for one in found for key in one["questions"]} == {"data_latency", "writer.compaction"}
    answers = ("data_latency=30m", "writer.compaction=async", "web_*:writer.index=simple")
    code, out, err = etc("import", "--bucket", "lake", *(f"--set={one}" for one in answers))
    assert (code, out.splitlines()[-1], err) == (
        0,
        "20 tables: 20 written.",
        "wrote etc_project.yml\nwrote .gitignore\n",
    )
    assert etc("parse")[:2] == (0, "20 policies OK\n")
    policies = {one.name: one for one in Project(wide.parent).policies()}
    assert {(one.data_latency_ms, one.writer.compaction) for one in policies.values()} == {(1_800_000, "async")}
    assert {name for name, one in policies.items() if one.writer.index == "simple"} == {
        n for n in policies if "web" in n
    }
    assert (wide.parent / ".gitignore").read_text() == "target/\n"
    project = (wide.parent / "etc_project.yml").read_text()
    assert "policies:\n  +data_latency: 30m\n  +writer: {compaction: async}\n" in project
    assert project.endswith(
        "+freshness: {target: 2h}  # `data_latency`, an hour between two runs and half an hour for one\n"
    )
    assert {one.freshness.target_ms for one in policies.values()} == {7_200_000}
    text = (wide.parent / "policies" / "web_00.yml").read_text()
    assert ("data_latency" in text, "freshness" in text) == (False, False)


def test_a_column_that_is_said_of_all_is_no_default_of_the_project(wide, etc):
    etc("import", "lake/web_00", "--set", "event_time_column={column: id, unit: s}", "--set", "data_latency=1h")
    assert "event_time_column" not in (wide.parent / "etc_project.yml").read_text()
    assert "event_time_column: {column: id, unit: s}" in (wide.parent / "policies" / "web_00.yml").read_text()
    etc("import", "lake/web_02")
    assert "event_time_column: ts" in (wide.parent / "policies" / "web_02.yml").read_text()


def test_where_there_is_an_etc_project_its_defaults_are_not_asked_and_other_answers_are_each_policy_s(wide, etc):
    project = wide.parent / "etc_project.yml"
    project.write_text("policies: {+data_latency: 1h, +writer: {compaction: async}}\n")
    assert etc("import", "lake/web_00", "--set", "data_latency=1h")[0] == 0
    assert etc("import", "lake/web_02", "--set", "data_latency=2h", "--set", "web_02:event_time_column=id")[0] == 0
    texts = [(wide.parent / "policies" / f"web_0{number}.yml").read_text() for number in (0, 2)]
    assert ["?" in text for text in texts] == [False, False]
    assert [" data_latency:" in text for text in texts] == [False, True]
    assert texts[1].count("event_time_column") == 1
    assert {one.name: one.data_latency_ms for one in Project(wide.parent).policies()} == {
        "web_00": 3_600_000,
        "web_02": 7_200_000,
    }
    assert project.read_text().startswith("policies: {+data")


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (
            "data_latency=soon",
            1,
            "error[ETC116]: `data_latency`: `soon` is not a duration\n  --> --set data_latency=soon",
        ),
        ("event_time_column.unit=days", 1, "`event_time_column.unit`"),
        ("data_latency.at_least=1h", 1, "error[ETC116]: `data_latency`: a duration is text"),
        ("data_latenzy=1h", 1, "hint: did you mean `data_latency`?"),
        ("verify.sample.share=x", 1, "error[ETC"),
        ("data_latency=", 64, "`data_latency` has no value"),
        ("name=a", 64, "`name` is not the same for many tables"),
        ("*:table=a", 64, "`table` is not the same for many tables"),
        ("shopp*:data_latency=1h", 64, "no table that is new fits `shopp*`"),
    ],
)
def test_an_answer_that_is_wrong_is_said_before_anything_is_written(wide, etc, given, code, said):
    found, _, err = etc("import", "--bucket", "lake", "--set", given)
    assert (found, said in err) == (code, True), err
    assert [path.name for path in wide.parent.iterdir()] == ["lake"]


@pytest.mark.parametrize(
    ("project", "given", "targets"),
    [
        (None, ("data_latency=30m", "web_*:data_latency=6h"), {"web_00": "8h", "shop_01": "2h"}),
        (None, ("data_latency=30m", "freshness.target=5h"), {"web_00": "5h", "shop_01": "5h"}),
        (None, ("data_latency=30m", "freshness={error_after: 5h}"), {"web_00": None, "shop_01": None}),
        (None, ("data_latency=30m", "web_*:freshness.target=9h"), {"web_00": "9h", "shop_01": "2h"}),
        (None, ("web_*:data_latency=12h", "shop_*:data_latency=30s"), {"web_00": "14h", "shop_01": "2h"}),
        ("+data_latency: {at_most: 12h}", (), {"web_00": "14h", "shop_01": "14h"}),
        ("+data_latency: 1d", (), {"web_00": "1d2h", "shop_01": "1d2h"}),
        ("+data_latency: 1d", ("data_latency=1d",), {"web_00": "1d2h", "shop_01": "1d2h"}),
        ("+data_latency: 1h, +freshness: {target: 3h}", (), {"web_00": "3h", "shop_01": "3h"}),
        ("+data_latency: \"{{ var('x', '4h') }}\"", (), {"web_00": "5h30m", "shop_01": "5h30m"}),
    ],
)
def test_each_policy_gets_a_target_that_it_can_keep(wide, etc, project, given, targets):
    if project:
        (wide.parent / "etc_project.yml").write_text(f"policies: {{{project}}}\n")
    answers = (*given, "writer.compaction=async")
    code, _, err = etc("import", *(f"lake/{name}" for name in targets), *(f"--set={one}" for one in answers))
    assert (code, "error" in err) == (0, False), err
    assert etc("parse")[:2] == (0, "2 policies OK\n")
    found = {one.name: one.freshness.target_ms for one in Project(wide.parent).policies()}
    assert {name: None if ms is None else format_duration(ms) for name, ms in found.items()} == targets


def test_answers_of_every_depth_are_where_the_key_is(wide, etc):
    keys = (
        "writer.lock.a=b",
        "writer={index: simple}",
        "freshness={target: 4h}",
        "tags=[a, b]",
        "strategy.max_io=1 GiB",
    )
    given = [f"lake/web_00:{one}" for one in ("data_latency=1h", "writer.compaction=async", *keys)]
    etc("import", "lake/web_00", *(f"--set={one}" for one in given))
    text = (wide.parent / "policies" / "web_00.yml").read_text()
    assert "?" not in text
    values = yaml.safe_load(text)["policies"][0]
    assert values["writer"] == {"index": "simple", "compaction": "async", "lock": {"a": "b"}}
    assert (values["freshness"], values["tags"], values["strategy"]) == (
        {"target": "4h"},
        ["a", "b"],
        {"max_io": "1 GiB"},
    )


def test_days_and_hours_are_offered(wide, etc):
    etc("import", "--bucket", "lake")
    offered = [
        line.strip()
        for name in ("web_00", "shop_01", "web_02")
        for line in (wide.parent / "policies" / f"{name}.yml").read_text().splitlines()
        if "partition_time: {" in line
    ]
    assert offered == ['# partition_time: {from: "dt=%Y-%m-%d"}', '# partition_time: {from: "%Y/%m/%d/%H"}']


def test_the_first_policies_of_a_project_start_from_the_root_of_its_target(lake, etc):
    """Written from the project's folder they would mean other tables."""
    (lake.parent / "etc_project.yml").write_text(
        "name: p\nprofiles: {p: {target: d, targets: {d: {table_root: lake}}}}\n"
    )
    make_table(lake.parent / "elsewhere" / "refunds")
    assert etc("import", "lake/orders", "elsewhere/refunds")[0] == 0
    texts = [(lake.parent / "policies" / f"{name}.yml").read_text() for name in ("orders", "refunds")]
    assert "    table: orders\n" in texts[0]
    assert f"    table: {lake.parent}/elsewhere/refunds\n" in texts[1]
    assert "2 in project" in etc("import", "lake/orders", "elsewhere/refunds")[1]


def test_a_folder_without_tables(lake, etc):
    assert etc("import", "--bucket", "lake/notes")[:2] == (0, "0 tables.\n")


def test_what_is_no_database_ends_with_a_code_and_the_others_go_on(lake, etc):
    assert etc("import", "--catalog", "a b")[0] == 64
    assert written(lake) == []
    code, _, err = etc("import", "--catalog", "a b", "lake/orders")
    assert (code, err.count("error["), written(lake)) == (64, 1, ["orders.yml"])


def test_names_of_ten_thousand_tables_whose_folders_have_one_name():
    names = set()
    for number in range(10_000):
        names.add(policy_name(f"/lake/{number // 100}/{number % 100}/v1", names))
    assert len(names) == 10_000
    assert {"v1", "table_1_v1", "table_99_99_v1"} < names


def test_a_name_that_no_folder_makes_free_is_numbered():
    taken = {"t", "a_t", "lake_a_t"}
    assert policy_name("/lake/a/t", taken) == "t_2"
    assert policy_name("s3://lake/a/t", {*taken, "t_2"}) == "t_3"


def test_events_after_the_end_of_their_partition_are_said(lake, etc):
    """Whoever adds `partition_time` is to know before that rows come in after midnight."""
    table = TableFolder(lake / "days")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1", partition="dt=2020-01-01"))
    table.commit(at("08:35:00"), at("08:35:05"), log("f1", epoch_ms("08:30:00"), partition="dt=2020-01-01"))
    assert etc("import", "lake/days")[0] == 0
    text = " ".join((lake.parent / "policies" / "days.yml").read_text().replace("#", "").split())
    assert "by `partition_time.from: dt=%Y-%m-%d` 1 log file of 1 closed partition with events after the end" in text
    assert "`partition_time.grace` moves the end, with `done.rows: until_end` only rows" in text


TIMES = ("placed_at", "updated_at")


SCHEMA = {"type": "record", "name": "r", "fields": [{"name": name, "type": ["null", MILLIS]} for name in TIMES]}


def write_update(table, minute, placed):
    """A write of a row that was placed at a time of the day, or on the day before."""
    now = epoch_ms(f"10:{minute:02}:00")
    placed_ms = now - 86_400_000 if placed is None else epoch_ms(placed)
    written = log("f1", columns=TIMES, values=((placed_ms, now - 1_000),), rows=1)
    extra = {"schema": json.dumps(SCHEMA)}
    table.commit(at(f"10:{minute:02}:00"), at(f"10:{minute:02}:02"), written, extra=extra)


def make_updates(folder, ordering, *, writes=4):
    """Each write but the first updates a row that was placed on the day before."""
    table = TableFolder(folder, properties={"hoodie.table.ordering.fields": ordering})
    table.commit(at("10:00:00"), at("10:00:05"), base("f1"))
    for minute in range(1, writes + 1):
        write_update(table, minute, "10:01:00" if minute == 1 else None)
    return table


def test_the_column_that_moves_with_updates_is_proposed_with_the_lags_of_all(lake, etc):
    make_updates(lake / "updates", "updated_at")
    assert etc("import", "lake/updates")[0] == 0
    text = " ".join((lake.parent / "policies" / "updates.yml").read_text().replace("#", "").split())
    assert "event_time_column: updated_at" in text
    assert "? event_time_column" not in text
    assert "all 4 commits came within 3s of their earliest event; the ordering field" in text
    assert "Others: placed_at (timestamp-millis): all 4 commits came within 1d2s of" in text
    assert "By `updated_at`, all 4 commits came within 3s of their earliest event." in text


@pytest.mark.parametrize("make", ["updates", "compacted"])
def test_a_latency_that_the_table_contradicts_is_said_at_once(lake, etc, make):
    """For one table, for all, and by etc_project.yml; the next `--diff` says no more."""
    (make_updates if make == "updates" else make_compacted)(lake / "updates", "updated_at")
    for name, given in (("p", "updates:data_latency=500ms"), ("q", "data_latency=500ms"), ("r", None)):
        where = ("--project-dir", name)
        (lake.parent / name).mkdir()
        if given is None:
            (lake.parent / name / "etc_project.yml").write_text("policies: {+data_latency: 500ms}\n")
        answers = ("--set", given) if given else ()
        _, out, _ = etc("import", "lake/updates", *where, *answers, "--set", "updates:writer.compaction=async")
        lag = "1s" if make == "compacted" else "3s"
        late = f"later than `data_latency` (500ms), half of all commits some {lag} or more"
        said = f"all 4 commits by `updated_at` brought events {late}"
        assert said in " ".join(out.split()), (given, out)
        assert "drifted" in etc("import", "--diff", *where)[1]
        text = (lake.parent / name / "policies" / "updates.yml").read_text()
        assert (" ".join(said.split()) in " ".join(text.replace("#", "").split())) == (name == "p")
    _, out, _ = etc("import", "lake/updates", "--project-dir", "s", "--set", "data_latency=1m")
    assert "brought events" not in out


def test_a_column_that_is_said_keeps_what_was_seen_of_it(lake, etc):
    make_updates(lake / "updates", "updated_at")
    answers = ("updates:event_time_column=placed_at", "updates:data_latency=1h")
    _, out, _ = etc("import", "lake/updates", *(f"--set={one}" for one in answers))
    text = " ".join((lake.parent / "policies" / "updates.yml").read_text().replace("#", "").split())
    assert "said by `--set` when it was imported; placed_at (timestamp-millis): all 4 commits came within 1d2s" in text
    assert (
        "3 of 4 commits by `placed_at` brought events later than `data_latency` (1h), half of all commits some 1d"
        in text
    )
    assert "updates leave `placed_at` as it was, and move `updated_at`" in " ".join(out.split())
    etc("import", "lake/updates", "--project-dir", "p", "--set", answers[0])
    asked = " ".join((lake.parent / "p" / "policies" / "updates.yml").read_text().replace("#", "").split())
    assert "By `placed_at`, all 4 commits came within" in asked


def test_a_column_of_times_to_come_moves_with_no_write(lake, etc):
    """As the end of what is valid for ever, where no base file holds it."""
    field = {"name": "ends_at", "type": ["null", MILLIS]}
    extra = {"schema": json.dumps({"type": "record", "name": "r", "fields": [field]})}
    table = TableFolder(lake / "valid", properties={"hoodie.table.ordering.fields": "id"})
    table.commit(at("10:00:00"), at("10:00:05"), base("f1"))
    for minute in range(1, 5):
        written = log("f1", columns=("ends_at",), values=((253_402_214_400_000,),), rows=1)
        table.commit(at(f"10:0{minute}:00"), at(f"10:0{minute}:02"), written, extra=extra)
    assert "skipped, as none of its columns moves with the writes (`ends_at`)" in etc("import", "lake/valid")[1]
    text = " ".join((lake.parent / "policies" / "valid.yml").read_text().replace("#", "").split())
    assert "ends_at (timestamp-millis): log files hold days after their commits" in text


def test_without_an_ordering_field_to_go_by_it_is_asked(lake, etc):
    """A column of when rows came in moves too, and is no event time."""
    make_updates(lake / "updates", "id")
    out = etc("import", "lake/updates")[1]
    assert "open: event_time_column, data_latency" in out
    assert "# event_time_column: updated_at" in (lake.parent / "policies" / "updates.yml").read_text()


@pytest.fixture(params=["Asia/Tokyo", "America/Los_Angeles"])
def elsewhere(lake, monkeypatch, request):
    """A table whose writers work in UTC, and etc where their instants are earlier, or later."""
    table = make_updates(lake / "updates", "updated_at", writes=24)
    for path in table.timeline.glob("*.deltacommit*"):
        instant = path.name.partition(".")[0].rpartition("_")[2]
        os.utime(path, (instant_to_ms(instant, UTC) / 1000,) * 2)
    properties = table.meta / "hoodie.properties"
    properties.write_text(properties.read_text().replace("timezone=UTC", "timezone=LOCAL"))
    monkeypatch.setenv("TZ", request.param)
    return lake


def test_no_lag_is_told_where_the_files_show_that_the_writers_are_in_another_zone(elsewhere, etc):
    why = f"the table's instants are in its writers' local time, read here in {os.environ['TZ']}, but its writers' clocks show"
    code, out, err = etc("import", "lake/updates")
    assert (code, why in " ".join(out.split())) == (0, True), (out, err)
    text = " ".join((elsewhere.parent / "policies" / "updates.yml").read_text().replace("#", "").split())
    assert f"The table does not show it: {why}" in text
    assert "of their earliest event" not in text
    assert "came at once" not in text


@pytest.mark.parametrize("latency", ["1s", "10m"])
def test_what_is_declared_is_not_judged_by_instants_of_another_zone(elsewhere, etc, latency):
    (elsewhere.parent / "policies").mkdir()
    policy = BY_PLACED.replace("placed_at", "updated_at").replace("10m", latency)
    (elsewhere.parent / "policies" / "a.yml").write_text(policy)
    for command in (("plan",), ("freshness",), ("debug",), ("import", "--diff")):
        _, *said = etc(*command)
        said = " ".join(" ".join(said).split())
        assert "writers' clocks show another zone" in said or command == ("freshness",), said
        for word in ("drifted", "at once", "earliest event", "later than", "event time in"):
            assert word not in said, (command, said)


BY_PLACED = """version: 1
policies:
  - {name: updates, table: lake/updates, event_time_column: placed_at, data_latency: 10m}
"""


def test_a_column_that_updates_leave_as_it_was_is_warned_of_by_every_command_that_looks(lake, etc):
    make_updates(lake / "updates", "updated_at")
    (lake.parent / "policies").mkdir()
    (lake.parent / "policies" / "a.yml").write_text(BY_PLACED)
    said = "3 of 4 commits after the table's first brought events later than `data_latency` (10m), half of all commits some 1d"
    for command in ("plan", "freshness", "debug"):
        out = " ".join(etc(command)[1].split())
        assert said in out, command
        assert "such as the ordering field `updated_at`" in out, command
    assert "drifted" in etc("import", "--diff")[1]
    skipped = BY_PLACED.replace("data_latency: 10m", "data_latency: 10m, enabled: false")
    (lake.parent / "policies" / "a.yml").write_text(skipped)
    code, out, _ = etc("import", "--diff", "--detailed-exitcode")
    assert (code, "in project" in out, "skipped by `enabled: false`" in out) == (0, True, True), out
    (lake.parent / "policies" / "a.yml").write_text(BY_PLACED.replace("placed_at", "updated_at"))
    for command in ("plan", "freshness", "debug"):
        assert "brought events later" not in etc(command)[1], command


def make_compacted(folder, ordering="updated_at", **rest):
    """Updates of old rows, all of them compacted by others: no log file is left."""
    table = make_updates(folder, ordering, **rest)
    now = epoch_ms("10:00:00")
    left = [(at("10:00:00"), {"placed_at": now - 90_000_000, "updated_at": now - 90_000_000})]
    for minute in range(1, 5):
        now = epoch_ms(f"10:0{minute}:00")
        left.append((at(f"10:0{minute}:00"), {"placed_at": now - 86_400_000, "updated_at": now - 1_000}))
    merged = base("f1", previous=at("10:00:00"), left=tuple(left), merged=4)
    table.compaction(at("10:05:00"), at("10:05:30"), merged, extra={"schema": json.dumps(SCHEMA)})
    for path in (folder / "p").glob(".f1_*.log.*"):
        path.unlink()
    return table


@pytest.mark.parametrize("archived", [0, 5])
def test_a_table_that_is_compacted_is_judged_by_what_its_base_files_still_hold(lake, etc, archived):
    table = make_compacted(lake / "updates")
    table.archive_first(archived)
    assert etc("import", "lake/updates")[0] == 0
    text = " ".join((lake.parent / "policies" / "updates.yml").read_text().replace("#", "").split())
    assert "event_time_column: updated_at" in text
    assert "? event_time_column" not in text
    assert "all 4 commits came within 1s of their earliest event; the ordering field" in text


def test_one_column_is_not_said_for_all_tables_where_that_alone_is_asked(lake, etc):
    for name in ("a", "b"):
        make_updates(lake / name, "id")
    out = etc("import", "lake/a", "lake/b", "--set", "data_latency=1h")[1]
    said = "Without these files `etc import` with this answer leaves none open; change what is not so:"
    assert out.splitlines()[-2].endswith(said)
    assert out.splitlines()[-1] == "  --set a,b:event_time_column=updated_at"


@pytest.mark.parametrize("others", [0, 1])
def test_the_answers_that_are_shown_leave_nothing_open(lake, etc, others):
    """Those for all tables where all are asked, else by names; but for tables that are skipped, and for columns of days."""
    shutil.rmtree(lake)
    for name in ("text_dmy", "users", "clicks", "readings"):
        make_kind(lake / name, KINDS[name][0], writes=3)
    make_kind(lake / "people", {"birth_date*": "date"}, writes=3, ordering="id")
    make_kind(lake / "days", {"day": "date"}, writes=3)
    make_kind(lake / "loaded", {"day": "date"}, writes=1)
    if others:
        make_table(lake / "orders")
    _, out, _ = etc("import", "--bucket", "lake", "--diff")
    *_, summary = (line for line in out.splitlines() if not line.startswith("  --set "))
    shown = [line for line in out.splitlines() if line.startswith("  --set ")]
    assert f"{6 + others} tables with open questions. `etc import` with these 2 answers leaves none open" in summary
    assert ("  --set writer.compaction=async" in shown, "  --set data_latency=1h" in shown) == (not others, True)
    code, out, err = etc("import", "--bucket", "lake", *(word for line in shown for word in shlex.split(line)))
    assert (code, "open" in out) == (0, False), err
    assert etc("parse")[:2] == (0, f"{6 + others} policies OK, 1 disabled\n")


def as_text(form):
    return lambda moment_ms: datetime.fromtimestamp(moment_ms // 1000, UTC).strftime(form)


#: How each kind of column holds a moment: its Avro type, its Parquet type, and the value.
HELD = {
    "time": (MILLIS, "timestamp[ms]", lambda moment_ms: moment_ms),
    "s": ("long", "int64", lambda moment_ms: moment_ms // 1000),
    "ms": ("long", "int64", lambda moment_ms: moment_ms),
    "us": ("long", "int64", lambda moment_ms: moment_ms * 1000),
    "date": ({"type": "int", "logicalType": "date"}, "date32", lambda moment_ms: moment_ms // 86_400_000),
    "iso": ("string", "string", as_text("%Y-%m-%d %H:%M:%S")),
    "dmy": ("string", "string", as_text("%d/%m/%Y %H:%M")),
    "german": ("string", "string", as_text("%d.%m.%Y %H:%M:%S")),
    "ymd": ("string", "string", as_text("%Y-%m-%d")),
    "digits": ("string", "string", as_text("%Y%m%d")),
    "count": ("int", "int32", lambda moment_ms: moment_ms // 60_000 % 1000),
    "never": (MILLIS, "timestamp[ms]", lambda _: 253_402_214_400_000),
    "zero": (MILLIS, "timestamp[ms]", lambda _: 0),
}
#: The columns of tables whose first is the ordering field, and which of them is to be taken without a question. Those with a
#: `*` an update leaves as they were.
KINDS = {
    "users": ({"updated_at": "time"}, "updated_at"),
    "orders": ({"updated_at": "time", "placed_at*": "time"}, "updated_at"),
    "payments": ({"updated_at": "ms", "placed_at*": "ms"}, "updated_at"),
    "sessions": ({"ended_at": "time", "started_at*": "time"}, "ended_at"),
    "customers": ({"updated_at": "time", "birth_date*": "date"}, "updated_at"),
    "inventory": ({"version": "us", "updated_at": "s"}, "updated_at"),
    "clicks": ({"event_time": "s"}, "event_time"),
    "devices": ({"last_seen": "time"}, "last_seen"),
    "readings": ({"measured_at": "iso"}, "measured_at"),
    "text_dmy": ({"seq": "us", "event_time": "dmy"}, "event_time"),
}


#: Tables whose ordering field is no time.
UNORDERED = {
    "accounts": ({"updated_at": "time", "created_at*": "time"}, "updated_at"),
    "patients": ({"modified_ms": "ms", "birth_date*": "date", "registration_date*": "date"}, "modified_ms"),
    "prices": ({"last_updated_at": "s"}, "last_updated_at"),
    "tickets": ({"created_at": "time", "updated_at": "time"}, "updated_at"),
    "contracts": ({"valid_from": "time"}, "valid_from"),
    "visits": ({"ts": "iso"}, "ts"),
}


#: Those of a lake as shops, Debezium and devices write it. Of `None` no column moves with the writes.
VARIED = {
    "orders": ({"updated_at": "time", "placed_at*": "time"}, "updated_at"),
    "customers": ({"ts_ms": "ms", "lsn": "count"}, "ts_ms"),
    "stock": ({"ver": "count", "upd_ts": "iso"}, "upd_ts"),
    "stock_eu": ({"ver": "count", "upd_ts": "german"}, "upd_ts"),
    "contracts": ({"valid_from": "date"}, "valid_from"),
    "changes": ({"change_date": "ymd", "signed_on*": "ymd"}, "change_date"),
    "rates": ({"ver": "count", "rate_date": "digits"}, "rate_date"),
    "sessions": ({"last_seen": "s"}, "last_seen"),
    "page_views": ({"event_ts": "us"}, "event_ts"),
    "products": ({"modified_at": "time"}, "modified_at"),
    "countries": ({"version": "count"}, None),
    "people": ({"ver": "count", "birth_date*": "date"}, None),
    "accounts": ({"updated_at": "time", "created_at*": "time", "valid_to": "never", "closed_at": "zero"}, "updated_at"),
    "tickets": ({"version": "count", "opened_at*": "time", "status_changed_at": "time"}, "status_changed_at"),
    "prices": ({"loaded_at": "time", "effective_date*": "date"}, "loaded_at"),
    "devices": ({"seq": "count", "reported_at": "time"}, "reported_at"),
    "payments": ({"updated_at": "ms", "created_at*": "ms"}, "updated_at"),
    "readings": ({"measured_at": "iso"}, "measured_at"),
    "shipments": ({"updated_at": "time", "shipped_at*": "time"}, "updated_at"),
    "logs": ({"ts": "iso"}, "ts"),
}


def make_kind(folder, columns, writes, ordering=None):
    """A load and updates, all of them compacted by others."""
    names = {name.strip("*"): HELD[kind] for name, kind in columns.items()}
    fields = [{"name": name, "type": ["null", avro_type]} for name, (avro_type, *_) in names.items()]
    extra = {"schema": json.dumps({"type": "record", "name": "r", "fields": fields})}
    table = TableFolder(folder, properties={"hoodie.table.ordering.fields": ordering or next(iter(names))})
    left = []
    for minute in range(writes + 1):
        instant, moment_ms = at(f"10:{minute:02}:00"), epoch_ms(f"10:{minute:02}:00") - 20_000
        moments = [moment_ms - 86_400_000 * (name.endswith("*") or not minute) for name in columns]
        values = {name: held(moment) for (name, (_, _, held)), moment in zip(names.items(), moments, strict=True)}
        left.append((instant, values))
        table.commit(instant, at(f"10:{minute:02}:30"), log("f1", on_disk=False) if minute else base("f1"), extra=extra)
    kinds = {name: kind for name, (_, kind, _) in names.items()}
    merged = base("f1", previous=at("10:00:00"), left=tuple(left), kinds=kinds, merged=writes)
    table.compaction(at("11:00:00"), at("11:00:30"), merged, extra=extra)


def test_two_answers_are_enough_for_twenty_tables_of_ten_kinds(lake, etc):
    """Those of updates by the column that moves with them; only what is not known is asked."""
    shutil.rmtree(lake)
    for name, (columns, _) in KINDS.items():
        for number in (1, 2):
            make_kind(lake / f"{name}_{number}", columns, writes=2 + number)
    found = json.loads(etc("import", "--bucket", "lake", "--diff", "--output", "json")[1])["tables"]
    asked = {one["policy"] for one in found if "event_time_column" in one["questions"]}
    assert (len(found), asked) == (20, set())
    answers = ("data_latency=5m", "writer.compaction=async")
    etc("import", "--bucket", "lake", *(f"--set={one}" for one in answers))
    assert etc("parse")[:2] == (0, "20 policies OK\n")
    taken = {one.name: one.event_time.column for one in Project(lake.parent).policies()}
    assert taken == {f"{name}_{number}": column for name, (_, column) in KINDS.items() for number in (1, 2)}


def test_three_answers_are_enough_for_twenty_tables_of_twenty_kinds(lake, etc):
    """What only the user knows, for all tables; two are skipped, and columns of days have their day."""
    shutil.rmtree(lake)
    for name, (columns, _) in VARIED.items():
        make_kind(lake / name, columns, writes=4)
    out = etc("import", "--bucket", "lake", "--diff")[1]
    shown = [line.removeprefix("  --set ") for line in out.splitlines() if line.startswith("  --set ")]
    assert shown == ["data_latency=1h", "writer.compaction=async", "prices:event_time_column=loaded_at"]
    said = "countries new lake/countries: skipped, as none of its columns moves with the writes (`version`)"
    assert said in " ".join(out.split()), out
    assert etc("import", "--bucket", "lake", *(f"--set={one}" for one in shown))[0] == 0
    assert etc("parse")[:2] == (0, "18 policies OK, 2 disabled\n")
    policies = {one.name: one for one in Project(lake.parent).policies()}
    assert {name: one.event_time.column for name, one in policies.items() if one.enabled} == {
        name: column for name, (_, column) in VARIED.items() if column is not None
    }
    days = {name for name, one in policies.items() if one.data_latency_ms == 86_400_000}
    assert days - {"people", "countries"} == {"contracts", "changes", "rates"}


def test_three_answers_are_enough_for_twelve_tables_that_no_time_orders(lake, etc):
    shutil.rmtree(lake)
    for name, (columns, _) in UNORDERED.items():
        for writes in (1, 4):
            make_kind(lake / f"{name}_{writes}", columns, writes=writes, ordering="id")
    found = json.loads(etc("import", "--bucket", "lake", "--diff", "--output", "json")[1])["tables"]
    assert {key for one in found for key in one["questions"]} == {"data_latency", "writer.compaction"}
    etc("import", "--bucket", "lake", "--set", "data_latency=5m", "--set", "writer.compaction=async")
    assert etc("parse")[:2] == (0, "12 policies OK\n")
    taken = {one.name: one.event_time.column for one in Project(lake.parent).policies()}
    assert taken == {f"{name}_{writes}": column for name, (_, column) in UNORDERED.items() for writes in (1, 4)}


def test_without_what_reads_parquet_it_is_asked(lake, etc, monkeypatch):
    monkeypatch.setattr("etc_policy.hudi.footers.can_read_parquet", lambda: False)
    monkeypatch.setattr("etc_policy.hudi.base_times.can_read_parquet", lambda: False)
    make_compacted(lake / "updates")
    assert "open: event_time_column, data_latency" in etc("import", "lake/updates")[1]
    text = " ".join((lake.parent / "policies" / "updates.yml").read_text().replace("#", "").split())
    assert "Take one that moves with updates, such as `updated_at` (the ordering field)" in text
    assert "event_time_column: updated_at" in text


def test_a_wrong_column_is_warned_of_where_all_is_compacted(lake, etc):
    make_compacted(lake / "updates")
    (lake.parent / "policies").mkdir()
    (lake.parent / "policies" / "a.yml").write_text(BY_PLACED)
    said = (
        "all 4 commits of which the newest base files hold rows brought events later than `data_latency` (10m), half of "
        "all commits some 1d"
    )
    for command in ("plan", "freshness", "debug", "import --diff"):
        out = " ".join(etc(*command.split())[1].split())
        assert said in out, command
        assert "such as the ordering field `updated_at`" in out, command
    (lake.parent / "policies" / "a.yml").write_text(BY_PLACED.replace("placed_at", "updated_at"))
    for command in ("plan", "freshness", "debug", "import --diff"):
        assert "brought events later" not in etc(*command.split())[1], command


def test_without_pyarrow_it_is_said_once_that_no_base_file_is_looked_at(lake, etc, monkeypatch):
    for name in ("updates", "others"):
        make_compacted(lake / name)
    monkeypatch.setattr(
        "etc_policy.hudi.footers.can_read_parquet", lambda: time.sleep(0.05)
    )  # tables are read side by side
    monkeypatch.setattr("etc_policy.hudi.base_times.can_read_parquet", lambda: False)
    assert etc("import", "lake/updates", "lake/others")[2].count("and `etc import` asks more") == 1
    for file in (lake.parent / "policies").iterdir():
        file.write_text(BY_PLACED.replace("updates", file.stem))
    said = " ".join(etc("freshness")[2].split())
    assert said.count("base files are not read, and `etc import` asks more: no pyarrow 26 or later; run `") == 1
    assert "pip install 'pyarrow>=26'`" in said


def test_what_was_read_before_a_compaction_is_judged_once_it_is_archived(lake, etc):
    """Hudi records no times of a timestamp column: what earlier commands have read of log files counts."""
    table = make_updates(lake / "updates", "updated_at", writes=25)
    (lake.parent / "policies").mkdir()
    (lake.parent / "policies" / "a.yml").write_text(BY_PLACED.replace("placed_at", "updated_at"))
    assert "10m is generous: all 25 writes to log files (read from log files)" in etc("freshness")[1]
    table.compaction(at("10:26:00"), at("10:26:30"), base("f1", previous=at("10:00:00")))
    write_update(table, 27, "10:27:00")
    table.archive_first(25)
    merged = (lake / "updates" / "p").glob(".f1_*.log.*")
    for path in sorted(merged)[:-1]:
        path.unlink()
    (verdict,) = (one["data_latency"] for one in json.loads(etc("freshness", "--output", "json")[1])["tables"])
    assert (verdict["status"], verdict["observed"]["writes"]) == ("generous", 26)
