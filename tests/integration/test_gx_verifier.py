"""Every lie that a read-optimized view can tell, on real tables, and that each is found (and truths are not)."""

import datetime as dt
from pathlib import Path

import pytest

from etc_policy.errors import EngineError, ExitCode, PolicyError, TableError, Where
from etc_policy.gx.verifier import GxVerifier
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime
from etc_policy.verify.compared_rows import waiting_writes
from tests.integration.hudi_tables import EPOCH_MS, StockTable
from tests.integration.row_checks import (
    BASE_FILE,
    BOUNDS,
    CONTAINMENT,
    DELETED,
    ROW_SUITE,
    TWICE,
    T,
    alike,
    check,
    request_for,
    row,
)
from tests.nightly import nightly

pytestmark = pytest.mark.spark

ROWS = "id int, p string, v string, ts long"


def groups_of(table, partition="x"):
    return frozenset((partition, file_id) for file_id in table.file_ids())


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


def test_a_complete_view_passes(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS)
    table.write([row(n) for n in range(4)], "insert")
    table.write([row(1, "new", 500), row(2, "late", 5_000)])
    table.write([row(3)], "delete")
    table.compact()
    late, results = check(table)
    assert late == 0
    assert {name: result.status for name, result in results.items()} == {
        CONTAINMENT: "pass", TWICE: "pass", DELETED: "pass", BASE_FILE: "pass", BOUNDS: "pass",
    }  # fmt: skip
    observed = results[CONTAINMENT].observed
    assert (observed["promised_rows"], observed["rt_rows"], observed["missing"], observed["different"]) == (2, 3, 0, 0)


@pytest.mark.extended
def test_both_views_are_read_as_of_a_pinned_instant(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS)
    table.write([row(n) for n in range(3)], "insert")
    table.write([row(1, "new", 500)])
    pinned_before_compaction = table.last_completed
    table.compact()
    table.write([row(7, "unseen", 100)], "insert")
    assert check(table, pinned_instant=table.completed()[-2][0])[1][CONTAINMENT].observed["rt_rows"] == 3
    assert check(table, pinned_instant=pinned_before_compaction)[1][CONTAINMENT].status == "fail"


def test_an_update_below_the_threshold_that_ro_lacks_fails(logged):
    late, results = check(logged, open_groups=groups_of(logged))
    found = results[CONTAINMENT]
    assert (late, found.status, found.observed["different"], found.observed["missing"]) == (0, "fail", 1, 0)
    sample = found.observed["samples"]["different"]
    assert sample == [{"partition": "x", "key": "1", "columns": ["ts", "v"]}]
    assert "key `1`" in found.message


@pytest.mark.parametrize("same", [frozenset(), *nightly(None)])
def test_a_column_in_another_unit_is_refused_with_the_one_that_fits(logged, same):
    """Else no row would be at or below T, and the views would agree."""
    known = {**alike(logged), **({} if same is None else {"same_files": same})}
    with pytest.raises(
        TableError, match="every event time of column `ts` is later than the table's last commit"
    ) as raised:
        check(logged, event_time=EventTime(column="ts", unit="s"), **known)
    assert raised.value.hint == "the values look like milliseconds: set `event_time_column: {column: ts, unit: ms}`"
    ahead = EventTime(column="ts", unit="s").model_copy(update={"max_ahead_ms": 2**60})
    assert check(logged, event_time=ahead, **known)[1][CONTAINMENT].observed["promised_rows"] == 0


def test_rows_of_late_commits_are_counted_and_not_failed(logged):
    late, results = check(logged, late_commits=frozenset(logged.commits), open_groups=groups_of(logged))
    assert (late, results[CONTAINMENT].status) == (1, "pass")


@pytest.mark.extended
def test_rows_of_commits_requested_after_the_plan_saw_the_table_are_late(logged):
    before = min(logged.commits)
    late, results = check(logged, seen_until=str(int(before) - 1), open_groups=groups_of(logged))
    assert (late, results[CONTAINMENT].status) == (1, "pass")


def test_a_deleted_row_fails_unless_its_file_group_is_open(logged):
    open_group = check(logged, open_groups=groups_of(logged))[1][DELETED]
    assert (open_group.status, open_group.observed["deleted_not_yet_compacted"]) == ("pass", 1)
    of_another_partition = check(logged, open_groups=groups_of(logged, "y"))[1][DELETED]
    assert (of_another_partition.status, of_another_partition.observed["deleted"]) == ("fail", 1)
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


@pytest.mark.extended
def test_equal_key_and_event_time_but_another_value_fails(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS)
    table.write([row(1, "a"), row(2, None)], "insert")
    table.write([row(1, None), row(2, None)])
    found = check(table)[1][CONTAINMENT]
    assert (found.status, found.observed["different"]) == ("fail", 1)
    assert found.observed["samples"]["different"] == [{"partition": "x", "key": "1", "columns": ["v"]}]


@pytest.mark.extended
def test_a_key_twice_in_ro_fails(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options={"hoodie.parquet.small.file.limit": "0"})
    table.write([row(1), row(2)], "insert")
    table.write([row(1)], "insert")
    results = check(table)[1]
    assert (results[TWICE].status, results[TWICE].observed["duplicate_keys"]) == ("fail", 1)
    assert results[TWICE].observed["samples"]["duplicate_keys"] == [{"partition": "x", "key": "1"}]
    assert results[TWICE].observed["ro_rows"] == 3
    assert results[TWICE].observed["duplicate_keys_in_rt"] == 1
    (twice,) = results[TWICE].observed["samples"]["duplicate_keys_in_rt"]
    assert (twice["key"], len(twice["file_groups"])) == ("1", 2)


@pytest.mark.extended
def test_a_key_twice_in_rt_alone_fails(spark, tmp_path):
    """One of its rows is in a log file only, where an index over base files does not find it (facts: delete-rule)."""
    simple = {"hoodie.index.type": "SIMPLE", "hoodie.parquet.small.file.limit": "0"}
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=simple)
    table.write([row(1), row(2)], "insert")
    table.write([row(1, at_ms=2)], "delete")
    how = f"path => '{table.base}', options => 'hoodie.compact.inline.max.delta.commits=1'"
    ((instant, *_),) = spark.sql(f"CALL run_compaction(op => 'schedule', {how})").collect()
    table.write([row(1, "again", at_ms=3)])
    spark.sql(f"CALL run_compaction(op => 'run', path => '{table.base}', timestamp => {instant})").collect()
    assert check(table)[1][TWICE].status == "pass"
    table.write([row(1, "once more", at_ms=4)])
    found = check(table)[1][TWICE]
    assert (found.status, found.observed["duplicate_keys"], found.observed["duplicate_keys_in_rt"]) == ("fail", 0, 1)
    (twice,) = found.observed["samples"]["duplicate_keys_in_rt"]
    assert (twice["partition"], twice["key"], len(twice["file_groups"])) == ("x", "1", 2)
    assert "1 duplicate keys in rt; for example key `1` in partition `x`, in the file groups x/" in found.message


@pytest.mark.extended
def test_a_key_that_was_deleted_and_written_again_to_another_group_is_twice_in_ro_until_the_delete_is_compacted(
    spark, tmp_path
):
    record_index = {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.parquet.small.file.limit": "0",
    }
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=record_index)
    table.write([row(1), row(2)], "insert")
    (old,) = table.file_ids()
    table.write([row(1, at_ms=2)], "delete")
    table.write([row(1, "again", at_ms=3)])
    assert len(table.file_ids()) == 2
    found = check(table, index="global_record_index", open_groups=frozenset({("x", old)}))[1]
    assert (found[TWICE].status, found[CONTAINMENT].status) == ("pass", "pass"), (found[TWICE], found[CONTAINMENT])
    observed = found[TWICE].observed
    assert (observed["duplicate_keys_not_yet_compacted"], observed["duplicate_keys"]) == (1, 0)
    closed = check(table, index="global_record_index")[1][TWICE]
    assert (closed.status, closed.observed["duplicate_keys"]) == ("fail", 1)


@pytest.mark.extended
def test_a_key_in_two_partitions_is_twice_under_a_global_index_alone(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS)
    table.write([row(1), row(2), row(1, partition="y")], "insert")
    assert check(table)[1][TWICE].status == "pass"
    found = check(table, index="global_simple")[1][TWICE]
    assert (found.status, found.observed["duplicate_keys_in_rt"]) == ("fail", 1)
    (twice,) = found.observed["samples"]["duplicate_keys_in_rt"]
    assert sorted(group.split("/")[0] for group in twice["file_groups"]) == ["x", "y"]


#: On a column of timestamps: T is 500 ms, one row lies a day later.
TIMES = (
    {"type": "expect_column_min_to_be_between", "kwargs": {"column": "ts", "max_value": {"$PARAMETER": "T"}}},
    {"type": "expect_column_max_to_be_between", "kwargs": {"column": "ts", "max_value": {"$PARAMETER": "T"}}},
    {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "ts", "max_value": {"$PARAMETER": "T"}, "mostly": 0.6},
        "on": "rt",
    },
)
NESTED = "id int, p string, m map<string,struct<a:double,n:map<string,int>>>, s array<double>, ts timestamp"


@pytest.mark.extended
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
    results = check(table, threshold_ms=EPOCH_MS + 500, event_time_type="timestamp-micros", suite=(*ROW_SUITE, *TIMES))[
        1
    ]
    found = results[CONTAINMENT]
    assert found.observed["promised_rows"] == 2
    assert found.observed["null_event_times"] == 1
    assert found.observed["samples"]["different"] == [{"partition": "x", "key": "2", "columns": ["m"]}]
    assert (results[BOUNDS].status, results[BOUNDS].observed["null_event_times_not_in_ro"]) == ("warn", 1)
    assert "2023-11-15 22:13:20.500 UTC is after" in results[BOUNDS].message
    assert "none_after_ms" in results[BOUNDS].observed
    assert [results[item["type"]].status for item in TIMES] == ["pass", "fail", "pass"]


@pytest.mark.extended
def test_rows_without_an_event_time_wait_for_the_rest_of_a_log_file_that_is_after_t(spark, tmp_path):
    tracked = {"hoodie.write.track.event.time.watermark": "true", "hoodie.payload.event.time.field": "ts"}
    table = StockTable(spark, str(tmp_path / "t"), ROWS, ordering="id", options=tracked)
    table.write([row(1), row(2), row(3)], "insert")
    table.write([(1, "x", "new", None), row(2, "later", 5_000)])
    state = FileTableReader().read(table.base, EventTime(column="ts"))
    assert waiting_writes(state, T + 5_000) == frozenset()
    found = check(table, open_groups=groups_of(table), waiting=waiting_writes(state, T))[1]
    assert (found[BOUNDS].status, found[BOUNDS].observed["null_event_times_waiting"]) == ("pass", 1)
    assert (found[CONTAINMENT].status, found[CONTAINMENT].observed["promised_rows"]) == ("pass", 1)
    held_back = check(table, open_groups=groups_of(table))[1][BOUNDS]
    assert (held_back.status, held_back.observed["null_event_times_not_in_ro"]) == ("warn", 1)


@pytest.mark.extended
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
    count = {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 2}}
    query = "SELECT * FROM {batch} WHERE nope > 1"
    broken = {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query}}
    in_set = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "v", "value_set": ["b"]}}
    suite = ({**count, "on": "rt"}, {**in_set, "severity": "info"}, count, broken, *ROW_SUITE)
    request = request_for(logged, suite=suite, late_commits=frozenset(logged.commits))
    late, results = GxVerifier(logged.spark).check(request)
    assert late == 1
    assert [(r.expectation, r.on, r.status) for r in results[:4]] == [
        ("expect_table_row_count_to_equal", "rt", "pass"),
        ("expect_column_values_to_be_in_set", "ro", "warn"),
        ("expect_table_row_count_to_equal", "ro", "fail"),  # three rows still stand there
        ("unexpected_rows_expectation", "ro", "error"),
    ]
    assert "nope" in results[3].message
    assert [r.expectation for r in results[4:]] == [CONTAINMENT, TWICE, DELETED, BASE_FILE, BOUNDS, BOUNDS]
    assert {r.on for r in results[4:]} == {None}


@pytest.mark.extended
def test_a_suite_of_which_nothing_can_be_asked_is_an_engine_error(logged):
    query = "SELECT * FROM {batch} WHERE nope > 1"
    with pytest.raises(EngineError) as raised:
        check(logged, suite=({"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query}},))
    assert (raised.value.code, "nope" in raised.value.cause) == ("ETC332", True)


def test_a_column_that_is_not_there_is_an_error_of_the_suite(logged):
    items = (
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "vv"}, "place": Where("s.yml", 3, 5)},
        {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["id", "zzz"]}},
        {"type": "expect_column_to_exist", "kwargs": {"column": "zzz"}},
    )
    with pytest.raises(PolicyError) as raised:
        check(logged, suite=items)
    first, second = raised.value.issues
    assert (first.code, str(first.where), first.hint) == ("ETC227", "s.yml:3:5", "did you mean `v`?")
    assert second.hint == "its columns are id, p, v, ts"


@pytest.mark.extended
def test_a_window_compares_later_rows_only(logged):
    """The update that RO lacks is of 500 ms, the deleted row of 0 ms."""
    inside = check(logged, since_ms=EPOCH_MS + 499)[1]
    assert (inside[CONTAINMENT].status, inside[CONTAINMENT].observed["promised_rows"]) == ("fail", 1)
    assert inside[DELETED].status == "pass"
    outside = check(logged, since_ms=EPOCH_MS + 500)[1]
    assert (outside[CONTAINMENT].status, outside[CONTAINMENT].observed["promised_rows"]) == ("pass", 0)
    count = ({"type": "expect_table_row_count_to_equal", "kwargs": {"value": 1}, "on": "rt"},)
    assert check(logged, since_ms=EPOCH_MS + 500, suite=count)[1]["expect_table_row_count_to_equal"].status == "pass"


@pytest.fixture(scope="module")
def spread(spark, tmp_path_factory):
    """Two partitions; in each a base row of two file groups, and an update below T in one of them. Key 1 moves."""
    table = StockTable(
        spark, str(tmp_path_factory.mktemp("spread") / "t"), ROWS, options={"hoodie.parquet.small.file.limit": "0"}
    )
    table.write([row(1), row(2, partition="y")], "insert")
    table.write([row(3), row(4, partition="y")], "insert")
    table.write([row(3, "new", 500), row(4, "new", 600, partition="y")])
    return table


def groups(table):
    """The file group of each key, as RO has it."""
    names = table.view(read_optimized=True).select("id", "_hoodie_file_name").collect()
    return {row.id: row._hoodie_file_name.split("_")[0] for row in names}


@pytest.mark.extended
def test_a_sample_is_exact_on_the_file_groups_that_it_reads(spread):
    file_ids = groups(spread)
    whole = check(spread)[1][CONTAINMENT].observed
    assert (whole["promised_rows"], whole["different"]) == (4, 2)
    for key, different in ((2, 0), (4, 1)):
        found = check(spread, file_ids=frozenset([file_ids[key]]))[1][CONTAINMENT]
        assert (found.observed["promised_rows"], found.observed["different"]) == (1, different), key
        assert found.status == ("fail" if different else "pass")
    both = check(spread, file_ids=frozenset([file_ids[1], file_ids[3]]))[1][CONTAINMENT].observed
    assert (both["promised_rows"], both["different"]) == (2, 1)


@pytest.mark.extended
def test_a_key_that_moved_to_a_group_outside_the_sample_is_looked_up_there(spark, tmp_path):
    """Key 1 was deleted and written again into another file group; key 2 was deleted for good."""
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options={"hoodie.parquet.small.file.limit": "0"})
    table.write([row(1), row(2)], "insert")
    (before,) = table.file_ids()
    table.write([row(1), row(2)], "delete")
    table.write([row(1, "again", 100)], "insert")
    found = check(table, file_ids=frozenset([before]))[1][DELETED].observed
    assert (found["deleted"], found["samples"]["deleted"]) == (1, [{"partition": "x", "key": "2"}])


@pytest.mark.extended
def test_a_condition_on_partitions_prunes_them_and_takes_no_other_column(spread):
    """Only partition `y` has the update of 600 ms."""
    found = check(spread, where="p = 'y'", threshold_ms=EPOCH_MS + 550)[1][CONTAINMENT]
    assert (found.status, found.observed["promised_rows"], found.observed["rt_rows"]) == ("pass", 1, 2)
    for wrong in ("id = 1", "p ="):
        with pytest.raises(PolicyError) as raised:
            check(spread, where=wrong)
        (issue,) = raised.value.issues
        assert (issue.code, issue.hint) == ("ETC228", "the partition columns are `p`")


@pytest.mark.extended
def test_partitions_named_by_a_key_generator_are_not_chosen_by_their_times(spark, tmp_path):
    """Hudi compares the folder's name with the value, and reads nothing: that nothing is wrong there says nothing."""
    by_day = {
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.datasource.write.partitionpath.field": "ts",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd",
    }
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=by_day)
    table.write([row(1), row(2, "b", 500)], "insert")
    fields = FileTableReader().read(table.base, EventTime(column="ts")).time_partition_fields
    changes = {"partition_fields": ("ts",), "time_partition_fields": fields}
    between = {"column": "ts", "max_value": EPOCH_MS + 499}
    later = f"{EPOCH_MS + 499} < ts"
    above = {"type": "comparison", "column": {"name": "ts"}, "operator": ">", "parameter": EPOCH_MS + 499}
    suite = (
        {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 1}, "on": "rt"},
        {"type": "expect_column_values_to_be_between", "kwargs": between, "on": "rt"},
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": "v", "value_set": ["a"], "row_condition": above},
        },
        {
            "type": "unexpected_rows_expectation",
            "kwargs": {"unexpected_rows_query": f"SELECT * FROM {{batch}} WHERE {later}"},
        },
    )
    found = check(table, since_ms=EPOCH_MS + 499, suite=suite, **changes)[1]
    assert {name: one.status for name, one in found.items()} == {
        "expect_table_row_count_to_equal": "pass",
        "expect_column_values_to_be_between": "fail",
        "expect_column_values_to_be_in_set": "fail",
        "unexpected_rows_expectation": "fail",
    }
    with pytest.raises(PolicyError) as raised:
        check(table, where=f"ts >= {EPOCH_MS}", **changes)
    assert "Hudi may find no row" in raised.value.issues[0].hint


@pytest.mark.extended
def test_both_views_are_read_once_and_nothing_stays_cached(logged, monkeypatch):
    from etc_policy.gx import expectations as gx_expectations

    passes = []
    comparison_of = gx_expectations.comparison_of
    monkeypatch.setattr(gx_expectations, "comparison_of", lambda name: passes.append(name) or comparison_of(name))
    check(logged)
    assert len(passes) == 1
    assert logged.spark.sparkContext._jsc.getPersistentRDDs().isEmpty()
    assert not [name for name in logged.spark.catalog.listTables() if name.name.startswith("etc_")]


@pytest.mark.extended
def test_rows_that_a_late_commit_put_into_ro_only_are_not_ghosts(logged):
    first = logged.completed()[0][1]
    observed = check(logged, late_commits=frozenset([first]))[1][DELETED].observed
    assert (observed["deleted"], observed["newer_than_pinned"]) == (0, 1)


def test_unknown_expectations_and_arguments_are_errors_of_the_suite(logged):
    place = Where("suites/mine.yml", 3, 5)
    items = (
        {"type": "expect_no_key_twise", "place": place},
        {"place": place, "type": "expect_column_max_to_be_between", "kwargs": {"colum": "v"}},
    )
    with pytest.raises(PolicyError) as raised:
        check(logged, suite=items)
    unknown, wrong = raised.value.issues
    assert (unknown.code, unknown.hint) == ("ETC225", "did you mean `expect_no_key_twice`?")
    assert wrong.code == "ETC226"
    assert str(wrong.where) == "suites/mine.yml:3:5"
    assert "`colum`" in wrong.message


def test_a_table_without_meta_columns_is_refused(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options={"hoodie.populate.meta.fields": "false"})
    table.write([row(1), row(2)], "bulk_insert")
    with pytest.raises(TableError) as raised:
        check(table)
    assert (raised.value.code, raised.value.hint) == (
        "ETC234",
        "set `verify.level: logs`, which needs no rows, for this policy",
    )


def test_a_table_that_is_gone_is_an_error_of_the_table(spark, tmp_path, logged):
    with pytest.raises(TableError, match="there is no table at"):
        check(logged, base_path=str(tmp_path / "nothing"))


def damage(base_file):
    """Fill a base file with zeros; without its checksum, Parquet itself finds out."""
    base_file.write_bytes(b"\0" * base_file.stat().st_size)
    (base_file.parent / f".{base_file.name}.crc").unlink(missing_ok=True)


@pytest.mark.extended
class TestAViewThatSparkCannotRead:
    """It fails by a plain read too, and level `logs` needs none."""

    @pytest.fixture
    def damaged(self, spark, tmp_path):
        """A table of two versions of its base file, of which the first, or both, are no Parquet."""
        table = StockTable(spark, str(tmp_path / "t"), ROWS)
        table.write([row(1)], "insert")
        table.write([row(1, "new", 500)])
        table.compact()
        first, last = sorted(Path(table.base).glob("x/*.parquet"), key=lambda file: file.name.split("_")[-1])
        damage(last)
        return table, first

    def fault(self, table, **changes):
        with pytest.raises(EngineError) as raised:
            check(table, **changes)
        assert (raised.value.code, raised.value.exit_code) == ("ETC331", ExitCode.ENGINE)
        assert "verify.level: logs" in raised.value.hint
        assert "not a Parquet file" in raised.value.cause
        return raised.value.message.partition(": a plain read fails too")[2]

    def test_it_says_whether_it_could_before_etc_compacted(self, damaged):
        table, first = damaged
        before = table.completed()[0][0]
        assert self.fault(table) == "; its timeline has no compaction by etc"
        assert self.fault(table, before_etc=before) == f"; it can as of {before}, before the last compaction by etc"
        damage(first)
        assert self.fault(table, before_etc=before).startswith(f"; nor can it as of {before}")
