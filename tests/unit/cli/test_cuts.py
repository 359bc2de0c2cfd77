"""`strategy.at`: what is due at a boundary, and that each is published once; `etc cuts`: which cuts can be read, and how."""

import io
import json
from dataclasses import replace
from unittest.mock import ANY

import pytest
from jsonschema import Draft202012Validator

from etc_policy.hudi.apply_state import FileApplyStateStore
from etc_policy.policy.manifest import EventTime, event_time_values
from etc_policy.report.as_of_sql import up_to
from etc_policy.report.schemas import json_schema
from etc_policy.table.apply_state import Unproven
from etc_policy.table.history import GRANULARITY, POLICY_VALUES, SEEN_UNTIL, THRESHOLD
from etc_policy.wiring import Environment
from tests.unit.cli.test_just_in_time import NOON
from tests.unit.cli.test_just_in_time import orders as orders
from tests.unit.cli.test_sync import Catalog
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import POLICY_OF_CASES, epoch_ms

POLICY = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 1h
    strategy: {granularity: log_file, at: "10:20 10:30 UTC"}
    freshness: {target: 30h}
    verify: {level: metadata}
"""


@pytest.fixture
def daily(orders, tmp_path):
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    return orders


def publish(table, threshold):
    """A compaction by etc that saw all that was there."""
    extra = {THRESHOLD: str(epoch_ms(threshold)), SEEN_UNTIL: at("10:30:05")}
    table.compaction(at("11:30:00"), at("11:30:05"), base("f1"), extra=extra)


class TestPlan:
    @pytest.mark.parametrize(
        ("now", "action", "threshold"),
        [("11:29", "nothing_due", "10:20"), ("11:30", "compact", "10:30"), ("12:00", "compact", "10:30")],
    )
    def test_t_is_the_last_boundary(self, etc, daily, now, action, threshold):
        _, out, _ = etc("plan", "--at", f"2026-01-01T{now}:00Z", "--every", "5m", "--output", "json")
        (table,) = json.loads(out)["tables"]
        assert (table["action"], table["threshold_ms"]) == (action, epoch_ms(f"{threshold}:00"))
        assert (table["pace"], table["next_due_ms"]) == (None, None)

    def test_it_is_published_once(self, etc, daily):
        publish(daily, "10:20:00")
        assert etc("plan", "--at", NOON, "--detailed-exitcode")[0] == 0
        daily.commit(at("11:40:00"), at("11:40:05"), log("f1", min_event=epoch_ms("10:15:00")))
        assert etc("plan", "--at", NOON, "--detailed-exitcode")[0] == 2

    def test_late_data_waits_for_the_next(self, etc, daily):
        publish(daily, "10:30:00")
        daily.commit(at("11:40:00"), at("11:40:05"), log("f1", min_event=epoch_ms("10:15:00")))
        code, out, _ = etc("plan", "--at", NOON)
        assert code == 0
        assert "published by the compaction at 20260101113000000; the next one is due at 2026-01-02 11:20:00 UTC" in (
            " ".join(out.split())
        )


def test_a_run_that_finds_it_published_does_nothing_and_late_data_is_no_fault(etc, daily):
    publish(daily, "10:30:00")
    daily.commit(at("11:40:00"), at("11:40:05"), log("f1", min_event=epoch_ms("10:15:00")))
    code, out, err = etc("apply", "--yes", "--at", NOON, "--output", "json")
    (table,) = json.loads(out)["tables"]
    assert (code, table["status"]) == (0, "nothing_due"), err


def test_a_job_that_waits_for_a_cut_goes_on_when_it_is_published(etc, daily):
    wait = ("wait", "orders_ro", "--until", "2026-01-01T10:30:00Z", "--timeout", "0s")
    assert etc(*wait)[0] == 4
    publish(daily, "10:30:00")
    assert etc(*wait)[0] == 0


def test_a_saved_plan_of_a_boundary_is_derived_again(etc, daily):
    etc("plan", "--at", NOON, "--out", "p.json")
    code, _, err = etc("apply", "p.json", "--at", NOON)
    assert (code, "Spark was asked for" in err) == (3, True)


KEPT = POLICY.replace("log_file, at", "record, keep: 2, at") + "    sync: {ro_table: lake.orders_ro}\n"


@pytest.fixture
def kept(daily, tmp_path):
    """Two cuts of two file groups, of which the later one compacts one alone; the clock shows noon."""
    (tmp_path / "policies" / "a.yml").write_text(KEPT)
    daily.commit(at("08:10:00"), at("08:10:05"), base("f2"))
    for clock, threshold, files in (
        ("11:00:00", "10:20:00", (base("f1"), base("f2"))),
        ("11:30:00", "10:30:00", (base("f1"),)),
    ):
        extra = {THRESHOLD: str(epoch_ms(threshold)), GRANULARITY: "record"}
        daily.compaction(at(clock), f"{at(clock)[:-4]}5000", *files, extra=extra)
    return daily


def test_a_cut_by_another_event_time_column_is_none_of_this_one(etc, kept, tmp_path):
    """Its rows were chosen by the column before: under the new one's name the query would read others."""
    assert len(json.loads(etc("cuts", "--output", "json")[1])["tables"][0]["cuts"]) == 2
    values = {POLICY_VALUES: json.dumps(event_time_values(EventTime(column="id", unit="ms")))}
    extra = {THRESHOLD: str(epoch_ms("10:40:00")), GRANULARITY: "record", **values}
    kept.compaction(at("11:40:00"), at("11:40:05"), base("f1"), extra=extra)
    cuts = json.loads(etc("cuts", "--output", "json")[1])["tables"][0]["cuts"]
    assert [one["threshold_ms"] for one in cuts] == [epoch_ms("10:30:00"), epoch_ms("10:20:00")]


def remove(table, clock, file_id):
    (file,) = table.base.glob(f"p/{file_id}_*_{at(clock)}.parquet")
    file.unlink()


class TestCuts:
    @pytest.fixture
    def listed(self, etc):
        def read():
            code, out, err = etc("cuts", "--output", "json")
            assert code == 0, err
            assert not list(Draft202012Validator(json_schema("cuts")).iter_errors(json.loads(out)))
            return json.loads(out)["tables"][0]

        return read

    def test_each_has_the_sql_that_reads_it(self, kept, listed):
        newest, oldest = listed()["cuts"]
        assert (newest["threshold_ms"], oldest["threshold_ms"]) == (epoch_ms("10:30:00"), epoch_ms("10:20:00"))
        assert newest["sql"].startswith("SELECT * FROM lake.orders_ro TIMESTAMP AS OF '20260101113005000' WHERE `ts` ")
        assert [(one["readable"], one["base_files"], one["gone"]) for one in (newest, oldest)] == [(True, 2, 0)] * 2

    def test_what_is_in_doubt_is_said_with_them(self, kept, listed):
        doubt = Unproven(f"{at('11:30:00')} {at('11:30:00')[:-4]}5000", "its verification failed (rows)", "fail")
        FileApplyStateStore().update(str(kept.base), lambda notes: replace(notes, unproven=(doubt,)))
        (said,) = listed()["warnings"]
        assert said == f"the last compaction ({at('11:30:00')}) is not proven: its verification failed (rows)"

    @pytest.mark.parametrize(
        ("clock", "file_id", "readable"),
        [
            ("08:00:00", "f1", [True, True]),
            ("11:00:00", "f1", [True, False]),
            ("11:00:00", "f2", [False, False]),
            ("11:30:00", "f1", [False, True]),
        ],
    )
    def test_one_whose_files_are_gone_cannot_be_read(self, kept, listed, clock, file_id, readable):
        remove(kept, clock, file_id)
        assert [one["readable"] for one in listed()["cuts"]] == readable

    def test_nor_can_one_of_which_a_base_file_is_gone_beside_the_rows_that_were_split_off(self, kept, listed):
        extra = {THRESHOLD: str(epoch_ms("10:40:00")), GRANULARITY: "record"}
        remainder = log("f1", version=0, token="100000-0-0")
        kept.compaction(at("11:40:00"), f"{at('11:40:00')[:-4]}5000", base("f1"), remainder, extra=extra)
        remove(kept, "11:40:00", "f1")
        assert [(one["readable"], one["gone"]) for one in listed()["cuts"]] == [(False, 1), (True, 0), (True, 0)]

    def test_a_base_file_of_a_write_that_has_not_completed_is_read_by_nobody(self, kept, listed):
        kept.file(at("11:00:02"), ".deltacommit.inflight")
        kept.file(at("11:50:00"), ".deltacommit.inflight")
        for clock in ("11:00:02", "11:50:00"):
            kept.data(at(clock), base("f1"))
        assert [one["kept_bytes"] > 0 for one in listed()["cuts"]] == [False, True]
        remove(kept, "11:00:00", "f1")
        assert [one["gone"] for one in listed()["cuts"]] == [0, 1]

    def test_one_that_hudi_refuses_cannot_be_read(self, kept, listed):
        """Whatever is there, as after a clean that has failed half way."""
        kept.clean(at("11:40:00"), at("11:40:05"), at("11:20:00"))
        assert [(one["readable"], one["gone"]) for one in listed()["cuts"]] == [(True, 0), (False, 0)]

    def test_what_was_put_into_base_files_after_c_is_part_of_the_cut(self, kept, listed):
        kept.commit(at("11:30:02"), at("11:30:04"), base("f3"))
        kept.commit(at("11:50:00"), at("11:50:04"), base("f4"))
        assert [one["base_files"] for one in listed()["cuts"]] == [3, 2]

    def test_what_a_write_in_flight_puts_there_later_is_counted(self, etc, kept, listed):
        """By facts: time-travel-by-request. The write that began before the older cut completed after it too."""
        kept.commit(at("11:00:01"), at("11:20:00"), base("f3"))
        kept.commit(at("11:30:02"), at("11:50:00"), base("f1"), base("f4"))
        found = [(one["base_files"], one["in_flight"], one["readable"]) for one in listed()["cuts"]]
        assert found == [(4, 2, True), (3, 1, True)]
        out = etc("cuts")[1]
        assert "readable: 4 base files, 2 of them of writes that were in flight" in out
        assert "readable: 3 base files, 1 of them of writes that were in flight" in out

    @pytest.mark.parametrize("kind", ["INSERT_OVERWRITE", "CLUSTER", "DELETE_PARTITION"])
    def test_so_is_what_a_write_in_flight_takes_away_later(self, kept, listed, kind):
        written = () if kind == "DELETE_PARTITION" else (base("f3"),)
        kept.replace(at("11:30:02"), at("11:50:00"), *written, replaced={"p": ["f2"]}, kind=kind)
        found = [(one["base_files"], one["in_flight"]) for one in listed()["cuts"]]
        assert found == [(1 + len(written), len(written)), (2, 0)]

    @pytest.mark.parametrize("action", ["deltacommit", "replacecommit", "commit"])
    def test_hudi_refuses_those_beyond_a_write_that_has_not_ended(self, etc, kept, listed, action):
        """Whatever became of it (facts: time-travel-limit)."""
        kept.file(at("11:20:00"), f".{action}.requested")
        newest, oldest = listed()["cuts"]
        assert (newest["readable"], newest["waits_for"]) == (False, at("11:20:00"))
        assert (oldest["readable"], oldest["waits_for"]) == (True, None)
        reason = "not readable: the write at 20260101112000000 has not ended, and Hudi allows no time travel beyond it"
        assert reason in " ".join(etc("cuts")[1].split())

    def test_one_that_began_when_it_was_published_counts(self, kept, listed):
        kept.start(f"{at('11:30:00')[:-4]}5000", log("f1"))
        assert [one["readable"] for one in listed()["cuts"]] == [False, True]

    @pytest.mark.parametrize(
        ("clock", "action"), [("11:20:00", "rollback"), ("11:20:00", "clustering"), ("11:50:00", "deltacommit")]
    )
    def test_other_instants_and_later_writes_keep_none_from_it(self, kept, listed, clock, action):
        kept.file(at(clock), f".{action}.requested")
        assert [one["readable"] for one in listed()["cuts"]] == [True, True]

    def test_what_is_kept_for_the_past_alone(self, kept, listed):
        (size,) = {file.stat().st_size for file in kept.base.glob("p/f1_*.parquet")}
        assert [one["kept_bytes"] for one in listed()["cuts"]] == [0, size]

    def test_in_words(self, etc, kept):
        remove(kept, "11:00:00", "f1")
        out = etc("cuts")[1]
        assert "as of         2026-01-01 10:30:00 UTC  readable: 2 base files" in out
        assert "as of         2026-01-01 10:20:00 UTC  not readable: 1 of 2 base files gone" in out

    def test_a_table_without_any(self, etc, daily):
        assert "no compaction has split this table by record" in etc("cuts")[1]

    def test_one_that_is_not_there(self, etc, daily, tmp_path):
        (tmp_path / "policies" / "a.yml").write_text(KEPT.replace("lake/orders", "lake/gone"))
        code, out, _ = etc("cuts", "--output", "json")
        assert (code, json.loads(out)["tables"][0]["cuts"]) == (1, [])
        assert "lake/gone" in json.loads(out)["tables"][0]["reason"]

    @pytest.mark.parametrize(("retained", "warned"), [("08:00:00", False), ("11:30:00", True)])
    def test_a_cleaner_that_keeps_too_little_is_warned_of(self, etc, kept, retained, warned):
        """Two cuts and the next one, at most 23 h 50 min apart."""
        kept.clean(at("11:40:00"), at("11:40:05"), at(retained))
        for command in ("cuts", "plan"):
            assert ("`strategy.keep` needs the base files of" in etc(command)[1]) is warned

    def test_the_writers_get_the_options(self, etc, kept):
        options = json.loads(etc("compile", "--form", "options")[1])
        assert options["hoodie.cleaner.policy"] == "KEEP_LATEST_BY_HOURS"
        assert options["hoodie.cleaner.hours.retained"] == "72"
        assert "'clean.retain_hours' = '72'" in etc("compile", "--form", "flink")[1]


@pytest.mark.parametrize(
    ("column_type", "unit", "condition"),
    [
        ("long", "ms", "`a`.`b` <= 1767225600123"),
        ("long", "s", "`a`.`b` <= 1767225600"),
        ("long", "us", "`a`.`b` <= 1767225600123999"),
        ("timestamp-micros", None, "`a`.`b` < TIMESTAMP '2026-01-01 00:00:00.124000Z'"),
        ("local-timestamp-millis", None, "`a`.`b` < TIMESTAMP_NTZ '2026-01-01 00:00:00.124000'"),
        ("date", None, "`a`.`b` <= DATE '2026-01-01'"),
    ],
)
def test_the_condition_on_the_event_time(column_type, unit, condition):
    policy = POLICY_OF_CASES.model_copy(update={"event_time": EventTime(column="a.b", unit=unit)})
    assert up_to(policy, column_type, epoch_ms("00:00:00") + 123) == condition


class TestView:
    @pytest.fixture
    def catalog(self, kept, tmp_path, monkeypatch):
        path = tmp_path / "policies" / "a.yml"
        path.write_text(path.read_text().replace("orders_ro}", "orders_ro, as_of_view: lake.orders_asof}"))
        found = Catalog(orders_ro={})
        monkeypatch.setattr(Environment, "property_store", lambda *_: found)
        return found

    def test_it_shows_the_rows_up_to_t(self, etc, catalog):
        assert etc("sync", "--at", NOON)[0] == 0
        assert catalog.views == {"lake.orders_asof": ("lake.orders_ro", f"`ts` <= {epoch_ms('10:30:00')}")}

    def test_it_is_replaced_when_t_moves_and_goes_with_the_properties(self, etc, catalog, kept):
        etc("sync", "--at", NOON)
        catalog.views.clear()
        etc("sync", "--at", NOON)
        assert catalog.views == {}
        extra = {THRESHOLD: str(epoch_ms("10:40:00")), GRANULARITY: "record"}
        kept.compaction(at("11:40:00"), at("11:40:05"), base("f1"), extra=extra)
        etc("sync", "--at", NOON)
        assert catalog.views["lake.orders_asof"][1] == f"`ts` <= {epoch_ms('10:40:00')}"
        etc("sync", "--remove")
        assert catalog.views == {"lake.orders_asof": None}

    @pytest.mark.parametrize(
        ("change", "views"),
        [
            ((", as_of_view: lake.orders_asof", ""), {"lake.orders_asof": None}),
            (("orders_asof", "other"), {"lake.orders_asof": None, "lake.other": ANY}),
        ],
    )
    def test_one_that_the_policy_names_no_more_goes(self, etc, catalog, tmp_path, change, views):
        """Nobody moves its T any more: it would lose each key that changes."""
        etc("sync", "--at", NOON)
        path = tmp_path / "policies" / "a.yml"
        path.write_text(path.read_text().replace(*change))
        assert etc("sync", "--at", NOON)[0] == 0
        assert catalog.views == views
        catalog.views.clear()
        etc("sync", "--at", NOON)
        assert catalog.views == {}

    @pytest.mark.parametrize(
        "change",
        [("granularity: record, keep: 2, at:", "granularity: log_file, at:"), ("ro_table: lake.orders_ro, ", "")],
    )
    def test_without_a_cut_or_its_table_it_is_an_error(self, etc, catalog, tmp_path, change):
        path = tmp_path / "policies" / "a.yml"
        path.write_text(path.read_text().replace(*change))
        code, _, err = etc("parse")
        assert (code, "error[ETC148]: `sync.as_of_view` shows" in err, "policies/a.yml:10:" in err) == (1, True, True)


def test_a_plan_counts_what_base_files_hold_after_t(etc, tmp_path, monkeypatch):
    """By their footers."""
    import pyarrow
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    footer = io.BytesIO()
    parquet.write_table(pyarrow.table({"ts": [1_000, 5_000, 1_500]}), footer, row_group_size=2)
    table = TableFolder(tmp_path / "t")
    table.commit(at("00:00:00"), at("00:00:00"), replace(base("f1"), size=footer.tell()))
    table.commit(at("01:00:00"), at("01:00:00"), log("f1", min_event=900, max_event=900))
    base_file = table.base / "p" / base("f1").name(at("00:00:00"))
    base_file.write_bytes(footer.getvalue())
    (tmp_path / "policies").mkdir()
    policy = f"{{name: p, table: {table.base}, event_time_column: {{column: ts, unit: ms}}, data_latency: 1s, "
    policy += "strategy: {granularity: record}, writer: {compaction: none}}"
    (tmp_path / "policies" / "a.yml").write_text(f"version: 1\npolicies:\n  - {policy}\n")
    for threshold_ms, counts in ((1_000, [1, 3, 0]), (2_000, [1, 2, 0]), (5_000, [0, 0, 0])):
        _, out, _ = etc("plan", "--at", f"1970-01-01T00:00:0{threshold_ms // 1_000 + 1}Z", "--output", "json")
        (planned,) = json.loads(out)["tables"]
        assert planned["action"] == "compact", planned["reason"]
        assert [*planned["later_rows"].values()] == counts
    base_file.write_bytes(bytes(footer.tell()))
    _, out, _ = etc("plan", "--at", "1970-01-01T00:00:02Z")
    assert "later rows    not known of 1 base file" in out
