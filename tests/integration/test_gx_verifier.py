"""Every lie that a read-optimized view can tell, on real tables, and that each is found (and truths are not)."""

import datetime as dt
from pathlib import Path

import pytest

from etc_policy.adapters.gx_verifier import GxVerifier
from etc_policy.compile.manifest import EventTime, Freshness, Policy
from etc_policy.declare.suites import read_suite
from etc_policy.errors import EngineError, PolicyError, TableError
from etc_policy.verify.ports import DataCheck
from etc_policy.verify.suites import parse_suite
from tests.integration.hudi_tables import EPOCH_MS, StockTable

pytestmark = pytest.mark.spark

T = EPOCH_MS + 1_000
ROWS = "id int, p string, v string, ts long"
CONTAINMENT, TWICE, DELETED = "expect_ro_to_contain_rt_up_to", "expect_no_key_twice", "expect_no_deleted_rows"


def row(key, value="a", at_ms=0, partition="x"):
    return (key, partition, value, EPOCH_MS + at_ms)


def check(table, **changes):
    path, text = read_suite("ro_complete", Path("no-such-project"))
    policy = Policy(
        name="orders",
        table=table.base,
        event_time=changes.pop("event_time", EventTime(column="ts")),
        data_latency_ms=0,
        freshness=changes.pop("freshness", Freshness()),
    )
    request = {
        "policy": policy,
        "base_path": table.base,
        "suite": parse_suite(text, path).items,
        "threshold_ms": T,
        "now_ms": T + 60_000,
        "complete_until_ms": T,
        "pinned_instant": table.last_completed,
        "seen_until": table.last_completed,
        "late_commits": frozenset(),
        "open_file_ids": frozenset(),
    }
    late, results = GxVerifier(table.spark).check(DataCheck(**{**request, **changes}))
    return late, {result.expectation: result for result in results}


@pytest.fixture(scope="module")
def logged(spark, tmp_path_factory):
    """Two base rows, then log files only: an update below T, one above T, a delete of key 3."""
    table = StockTable(spark, str(tmp_path_factory.mktemp("logged") / "t"), ROWS)
    table.write([row(n) for n in (1, 2, 3)], "insert")
    table.commits = [
        table.write([row(1, "new", 500)]),
        table.write([row(2, "later", 5_000)]),
        table.write([row(3, at_ms=9_000)], "delete"),
    ]
    return table


def test_a_complete_view_passes_and_freshness_is_left_out_without_limits(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS)
    table.write([row(n) for n in range(4)], "insert")
    table.write([row(1, "new", 500), row(2, "late", 5_000)])
    table.write([row(3)], "delete")
    pinned_before_compaction = table.last_completed
    table.compact()
    late, results = check(table)
    assert late == 0
    assert {name: result.status for name, result in results.items()} == {
        CONTAINMENT: "pass", TWICE: "pass", DELETED: "pass",
    }  # fmt: skip
    observed = results[CONTAINMENT].observed
    assert (observed["promised_rows"], observed["rt_rows"], observed["missing"], observed["different"]) == (2, 3, 0, 0)

    table.write([row(7, "unseen", 100)], "insert")
    assert check(table, pinned_instant=table.completed()[-2][0])[1][CONTAINMENT].observed["rt_rows"] == 3
    assert check(table, pinned_instant=pinned_before_compaction)[1][CONTAINMENT].status == "fail"


def test_an_update_below_the_threshold_that_ro_lacks_fails(logged):
    late, results = check(logged, open_file_ids=logged.file_ids())
    found = results[CONTAINMENT]
    assert (late, found.status, found.observed["different"], found.observed["missing"]) == (0, "fail", 1, 0)
    sample = found.observed["samples"]["different"]
    assert sample == [{"partition": "x", "key": "1", "columns": ["ts", "v"]}]
    assert "key `1`" in found.message


def test_rows_of_late_commits_are_counted_and_not_failed(logged):
    late, results = check(logged, late_commits=frozenset(logged.commits), open_file_ids=logged.file_ids())
    assert (late, results[CONTAINMENT].status) == (1, "pass")


def test_rows_of_commits_requested_after_the_plan_saw_the_table_are_late(logged):
    before = min(logged.commits)
    late, results = check(logged, seen_until=str(int(before) - 1), open_file_ids=logged.file_ids())
    assert (late, results[CONTAINMENT].status) == (1, "pass")


def test_a_deleted_row_fails_unless_its_file_group_is_open(logged):
    open_group = check(logged, open_file_ids=logged.file_ids())[1][DELETED]
    assert (open_group.status, open_group.observed["deleted_not_yet_compacted"]) == ("pass", 1)
    closed_group = check(logged)[1][DELETED]
    assert (closed_group.status, closed_group.observed["deleted"]) == ("fail", 1)
    assert closed_group.observed["samples"]["deleted"] == [{"partition": "x", "key": "3"}]


def test_a_row_that_ro_lacks_fails_with_a_sample_of_keys(spark, tmp_path):
    bucket = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=bucket)
    table.write([row(0)])
    table.write([row(n, at_ms=n) for n in range(1, 31)])
    found = check(table)[1][CONTAINMENT]
    assert (found.status, found.observed["missing"], found.observed["promised_rows"]) == ("fail", 30, 31)
    assert len(found.observed["samples"]["missing"]) == 20


def test_equal_key_and_event_time_but_another_value_fails(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS)
    table.write([row(1, "a"), row(2, None)], "insert")
    table.write([row(1, None), row(2, None)])
    found = check(table)[1][CONTAINMENT]
    assert (found.status, found.observed["different"]) == ("fail", 1)
    assert found.observed["samples"]["different"] == [{"partition": "x", "key": "1", "columns": ["v"]}]


def test_a_key_twice_in_ro_fails(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options={"hoodie.parquet.small.file.limit": "0"})
    table.write([row(1), row(2)], "insert")
    table.write([row(1)], "insert")
    results = check(table)[1]
    assert (results[TWICE].status, results[TWICE].observed["duplicate_keys"]) == ("fail", 1)
    assert results[TWICE].observed["samples"]["duplicate_keys"] == [{"partition": "x", "key": "1"}]
    assert results[TWICE].observed["ro_rows"] == 3


NESTED = "id int, p string, m map<string,struct<a:double,n:map<string,int>>>, s array<double>, ts timestamp"


def test_nested_values_are_compared_by_value_and_null_times_are_counted(spark, tmp_path):
    moment = dt.datetime(2023, 11, 14, 22, 13, 20, 500_000, dt.UTC)
    table = StockTable(spark, str(tmp_path / "t"), NESTED, ordering="id")
    nan = float("nan")
    table.write([
        (1, "x", {"k": (nan, {"i": 1, "j": 2}), "l": None}, [0.0, nan], moment),
        (2, "x", {"k": (1.0, {"i": 1})}, None, moment),
        (3, "x", None, None, None),
        (4, "x", {"k": (1.0, {"i": 1})}, None, moment + dt.timedelta(days=1)),
    ], "insert")  # fmt: skip
    table.write([
        (1, "x", {"l": None, "k": (nan, {"j": 2, "i": 1})}, [0.0, nan], moment),
        (2, "x", {"k": (1.0, {"i": 7})}, None, moment),
        (3, "x", {"k": (1.0, {})}, None, None),
    ])  # fmt: skip
    found = check(table, threshold_ms=EPOCH_MS + 500)[1][CONTAINMENT]
    assert found.observed["promised_rows"] == 2
    assert found.observed["null_event_times"] == 1
    assert found.observed["samples"]["different"] == [{"partition": "x", "key": "2", "columns": ["m"]}]


def test_event_times_in_text(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), "id int, p string, ts string", ordering="id")
    table.write([(1, "x", "14.11.2023 22:13:20"), (2, "x", "14.11.2023 22:13:22")], "insert")
    german = EventTime(column="ts", format="dd.MM.yyyy HH:mm:ss")
    assert check(table, event_time=german)[1][CONTAINMENT].observed["promised_rows"] == 1
    with pytest.raises(TableError, match=r"2 values .*`ts` \(type `string`\).*`14\.11\.2023 22:13:22`") as raised:
        check(table)
    assert raised.value.code == "ETC232"
    with pytest.raises(TableError, match="no event-time column `gone`"):
        check(table, event_time=EventTime(column="gone"))


def test_stock_expectations_run_on_either_view_and_errors_are_not_failures(logged):
    items = (
        {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 2}, "on": "rt"},
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": "v", "value_set": ["b"]},
            "severity": "info",
        },
        {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 2}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "nope"}},
    )
    path, text = read_suite("ro_complete", Path("no-such-project"))
    suite = (*items[:3], *parse_suite(text, path).items)
    request = {"suite": suite, "late_commits": frozenset(logged.commits)}
    late, results = check(logged, freshness=Freshness(warn_after_ms=1_000), **request)
    statuses = {name: result.status for name, result in results.items()}
    assert late == 1
    assert statuses["expect_table_row_count_to_equal"] == "fail"  # the second, on RO, where three rows still stand
    assert statuses["expect_column_values_to_be_in_set"] == "warn"
    assert statuses["expect_freshness_within"] == "warn"
    assert results["expect_freshness_within"].observed["lag_ms"] == 60_000
    assert list(results)[-4:] == [CONTAINMENT, TWICE, DELETED, "expect_freshness_within"]

    broken = check(logged, suite=(items[0], items[3]))[1]
    assert broken["expect_table_row_count_to_equal"].status == "pass"
    assert broken["expect_column_values_to_not_be_null"].status == "error"
    assert "nope" in broken["expect_column_values_to_not_be_null"].message
    with pytest.raises(EngineError) as raised:
        check(logged, suite=items[3:])
    assert (raised.value.code, "nope" in raised.value.cause) == ("ETC332", True)


def test_both_views_are_read_once_and_nothing_stays_cached(logged, monkeypatch):
    from etc_policy.adapters import gx_expectations

    passes = []
    count_differences = gx_expectations.count_differences
    monkeypatch.setattr(gx_expectations, "count_differences", lambda *a: passes.append(a) or count_differences(*a))
    check(logged)
    assert len(passes) == 1
    assert logged.spark.sparkContext._jsc.getPersistentRDDs().isEmpty()
    assert not [name for name in logged.spark.catalog.listTables() if name.name.startswith("etc_")]


def test_rows_that_a_late_commit_put_into_ro_only_are_not_ghosts(logged):
    first = logged.completed()[0][1]
    observed = check(logged, late_commits=frozenset([first]))[1][DELETED].observed
    assert (observed["deleted"], observed["newer_than_pinned"]) == (0, 1)


def test_unknown_expectations_and_arguments_are_errors_of_the_suite(logged):
    items = ({"type": "expect_no_key_twise"}, {"type": "expect_column_max_to_be_between", "kwargs": {"colum": "v"}})
    with pytest.raises(PolicyError) as raised:
        check(logged, suite=items)
    unknown, wrong = raised.value.issues
    assert (unknown.code, unknown.hint) == ("ETC225", "did you mean `expect_no_key_twice`?")
    assert wrong.code == "ETC226"
    assert str(wrong.where) == "suites/ro_complete.yml (policy `orders`)"
    assert "`colum`" in wrong.message


def test_a_table_without_meta_columns_is_refused(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options={"hoodie.populate.meta.fields": "false"})
    table.write([row(1), row(2)], "bulk_insert")
    with pytest.raises(TableError) as raised:
        check(table)
    assert (raised.value.code, raised.value.hint) == ("ETC234", "set `verify.level: metadata` for this policy")


def test_a_table_that_cannot_be_read_is_an_engine_error(spark, tmp_path, logged):
    with pytest.raises(EngineError) as raised:
        check(logged, base_path=str(tmp_path / "nothing"))
    assert raised.value.code == "ETC331"
