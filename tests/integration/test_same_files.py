"""Rows of files that both views read alike are not compared, and all that a comparison of everything finds is found."""

import datetime as dt
import re
import shutil

import pytest

from etc_policy.gx import view_comparison, view_join
from etc_policy.gx.comparable_sql import comparable, row_hash
from etc_policy.gx.ro_counts import RoCounts
from etc_policy.gx.verifier import GxVerifier
from etc_policy.gx.view_rows import in_partitions, without_files
from tests.integration.hudi_tables import EPOCH_MS, StockTable
from tests.integration.row_checks import (
    BASE_FILE,
    CONTAINMENT,
    DELETED,
    ROW_SUITE,
    TWICE,
    alike,
    check,
    request_for,
    row,
)

pytestmark = pytest.mark.spark

ROWS = "id int, p string, v string, ts long"
SIMPLE = {"hoodie.index.type": "SIMPLE", "hoodie.parquet.small.file.limit": "0"}


@pytest.fixture
def compared_whole(monkeypatch):
    """The comparisons of all rows that were made."""
    made, count_all = [], view_comparison._count_all
    monkeypatch.setattr(view_comparison, "_count_all", lambda *given: made.append(given) or count_all(*given))
    return made


@pytest.fixture(scope="module")
def written(spark, tmp_path_factory):
    """Two file groups in each of two partitions; one of `x` has a log file with an update after T and a new key 9."""
    table = StockTable(spark, str(tmp_path_factory.mktemp("written") / "t"), ROWS, options=SIMPLE)
    table.write([row(n, partition=p) for n, p in ((1, "x"), (2, "x"), (3, "y"))], "insert")
    table.write([row(n, partition=p) for n, p in ((4, "x"), (5, "y"))], "insert")
    table.write([row(4, "later", 5_000)])
    return table


@pytest.fixture
def table(written, tmp_path):
    """A copy, to write to."""
    shutil.copytree(written.base, tmp_path / "t")
    return StockTable(written.spark, str(tmp_path / "t"), ROWS, options=SIMPLE)


def both(table, **changes):
    """The results of the check that spares what both views read alike; one of everything must say the same."""
    spared = check(table, **{**alike(table), **changes})
    whole = check(table, **{**alike(table), **changes, "same_files": frozenset()})
    assert spared == whole
    return spared[1]


@pytest.mark.extended
def test_a_complete_view_passes_with_the_counts_of_all_rows(written, compared_whole):
    assert len(alike(written)["same_files"]) == 3
    late, results = check(written, **alike(written))
    assert (late, {result.status for result in results.values()}, compared_whole) == (0, {"pass"}, [])
    assert results == check(written, **{**alike(written), "same_files": frozenset()})[1]
    observed = results[CONTAINMENT].observed
    assert (observed["promised_rows"], observed["rt_rows"], results[TWICE].observed["ro_rows"]) == (4, 5, 5)


def test_a_file_that_both_views_read_alike_is_spared_by_its_statistics(written):
    spark, rt = written.spark, written.view(read_optimized=False)
    left = without_files(spark, rt, alike(written)["same_files"])
    assert {found.id for found in left.collect()} == {4}
    assert "Not(In(_hoodie_file_name" in left._jdf.queryExecution().executedPlan().toString().replace(" ", "")


def test_partitions_in_which_both_views_read_the_same_are_not_read(written, compared_whole):
    request = request_for(written, **alike(written))
    views = view_join.Comparison(written.spark, *(written.view(read_optimized=ro) for ro in (False, True)), request)
    narrow = views.rt.where(in_partitions(written.spark, views.rt, request.partition_fields, request.other_partitions))
    plan = narrow._jdf.queryExecution().executedPlan().toString()
    assert re.search(r"PartitionFilters: \[[^]]*concat_ws", plan)
    assert not re.search(r"\) Filter ", plan)  # it is about whole partitions, not about rows
    assert {found.p for found in narrow.collect()} == {"x"}


@pytest.mark.extended
@pytest.mark.parametrize("partitions", [None, {"y"}, {"x", "z"}, set(), {"x", "y"}, {"z"}, {"x/y"}, {"a b"}])
def test_all_partitions_are_read_where_those_with_something_to_compare_do_not_show_it(
    written, compared_whole, partitions
):
    given = None if partitions is None else frozenset(partitions)
    assert check(written, **{**alike(written), "other_partitions": given}) == check(written, **alike(written))
    assert compared_whole == []
    assert both(written, other_partitions=given, threshold_ms=EPOCH_MS + 6_000)[CONTAINMENT].status == "fail"


@pytest.mark.extended
def test_a_key_that_is_in_rt_alone_and_not_twice(table, compared_whole):
    table.write([row(8, partition="y", at_ms=9_000)], **{"hoodie.index.type": "INMEMORY"})
    found = both(table)
    assert (found[TWICE].status, found[CONTAINMENT].observed["rt_rows"]) == ("pass", 6)
    assert len(compared_whole) == 1  # the one of everything that was asked for


@pytest.mark.extended
def test_keys_of_one_hash_are_looked_at_more_closely(written, compared_whole, monkeypatch):
    monkeypatch.setattr(RoCounts, "from_row", lambda row: RoCounts(**{**row.asDict(), "buckets_with_doubles": 1}))
    assert check(written, **alike(written))[1][TWICE].status == "pass"
    assert compared_whole == []


@pytest.mark.extended
def test_a_window_and_late_rows_are_counted_alike(written):
    both(written, since_ms=EPOCH_MS)
    last = written.completed()[-1][1]
    late = both(written, late_commits=frozenset([last]), threshold_ms=EPOCH_MS + 6_000)[CONTAINMENT]
    assert (late.status, late.observed["late_rows"]) == ("pass", 1)


@pytest.mark.extended
def test_an_update_below_the_threshold_that_ro_lacks_fails_with_its_columns(written, compared_whole):
    found = both(written, threshold_ms=EPOCH_MS + 6_000)[CONTAINMENT]
    assert (found.status, found.observed["different"]) == ("fail", 1)
    assert found.observed["samples"]["different"] == [{"partition": "x", "key": "4", "columns": ["ts", "v"]}]
    assert len(compared_whole) == 2


@pytest.mark.extended
def test_a_key_twice_in_files_that_are_spared(table):
    table.write([row(5, partition="y")], "insert")
    found = both(table)[TWICE]
    assert (found.status, found.observed["duplicate_keys"], found.observed["duplicate_keys_in_rt"]) == ("fail", 1, 1)


@pytest.mark.extended
def test_a_key_in_a_file_that_is_spared_and_in_another_s_log_file(table):
    """The in-memory index finds no key, so that its row goes to a log file of its own."""
    table.write([row(5, partition="y", at_ms=9_000)], **{"hoodie.index.type": "INMEMORY"})
    found = both(table)[TWICE]
    assert (found.status, found.observed["duplicate_keys"], found.observed["duplicate_keys_in_rt"]) == ("fail", 0, 1)


@pytest.mark.extended
def test_a_key_in_the_log_files_of_two_file_groups(table):
    """Each copy in RT finds the one row of RO, so that this is counted twice."""
    table.write([row(4, at_ms=9_000)], **{"hoodie.index.type": "INMEMORY"})
    found = both(table)[TWICE]
    assert (found.status, found.observed["duplicate_keys"], found.observed["duplicate_keys_in_rt"]) == ("fail", 0, 1)


@pytest.mark.extended
def test_a_key_that_moved_to_another_partition(table):
    table.write([row(5, at_ms=9_000)], "insert")
    assert both(table)[TWICE].status == "pass"
    found = both(table, index="global_simple")[TWICE]
    assert (found.status, found.observed["duplicate_keys"], found.observed["duplicate_keys_in_rt"]) == ("fail", 0, 1)


@pytest.mark.extended
def test_a_deleted_row_of_a_file_group_that_is_not_open(written):
    assert both(written)[DELETED].status == "pass"
    spared = alike(written)["same_files"]
    table_without = {"base_files": spared, "same_files": spared}
    assert both(written, **table_without)[BASE_FILE].observed["rows_of_other_files"] == 1


@pytest.mark.extended
def test_a_base_file_that_no_row_says_to_be_of_is_not_spared(written, compared_whole):
    """An empty one, or one that RO does not read: whatever RT has of it is compared."""
    given = alike(written)
    found = check(written, **{**given, "same_files": given["same_files"] | {"unread_0-0-0_1.parquet"}})
    assert (found, compared_whole) == (check(written, **given), [])


@pytest.mark.extended
def test_expectations_of_columns_beside_our_own(written):
    """Each is asked of the rows of RO; what fails shows some of them."""
    columns = (
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "v"}},
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "id", "max_value": 9}},
        {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "v", "value_set": ["a"]}},
        {"type": "expect_column_max_to_be_between", "kwargs": {"column": "id", "max_value": 9}},
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "id", "max_value": 9}},
        {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 5}},
    )
    _, results = GxVerifier(written.spark).check(request_for(written, **alike(written), suite=(*columns, *ROW_SUITE)))
    assert {result.status for result in results} == {"pass"}
    objects = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "v", "value_set": ["b"]}}
    _, (result, *_) = GxVerifier(written.spark).check(
        request_for(written, **alike(written), suite=(objects, *ROW_SUITE))
    )
    assert (result.status, result.observed["unexpected_count"]) == ("fail", 5)
    assert result.observed["partial_unexpected_list"] == ["a"] * 5


NESTED = (
    "k int, m map<string,struct<a:double,n:map<string,int>>>, s array<float>, t timestamp, b binary, v string, "
    "d decimal(9,3), x double, y double"
)
MOMENT = dt.datetime(2026, 3, 29, 1, 30, 0, 1, dt.UTC)
VALUES = (
    (None, None, None, None, None, None, None, None),
    ({}, [], MOMENT, b"", "", 0, 0.0, None),
    ({}, [], MOMENT, b"", "", 0, -0.0, None),
    ({}, [], MOMENT, b"", "", 0, None, 0.0),
    ({}, [], MOMENT, b"", "", 0, float("nan"), 1e-300),
    ({}, [], MOMENT, b"", "", 0, float("nan"), 1e-300),
    ({}, [], MOMENT, b"a", "b", 0, 1.0, 1.0),
    ({}, [], MOMENT, b"", "ab", 0, 1.0, 1.0),
    ({}, [None, 1.0], MOMENT, b"", "ab", 0, 1.0, 1.0),
    ({}, [1.0, None], MOMENT, b"", "ab", 0, 1.0, 1.0),
    ({"a": (0.0, {"x": 1, "y": 2})}, [0.0, float("nan")], MOMENT, b"\0", "null", 1, 1.0, 1.0),
    ({"a": (-0.0, {"y": 2, "x": 1})}, [-0.0, float("nan")], MOMENT, b"\0", "null", 1, 1.0, 1.0),
    ({"a": (None, {"x": 1})}, [None], MOMENT + dt.timedelta(microseconds=1), b"\xff", '"', 1, 1.0, 1.0),
    ({"a": None}, None, MOMENT, None, "\ufffd", None, 1.0, 1.0),
    ({"a": (1e-300, None), "b": None}, [1.5], MOMENT, b"\xfe", "a\u0000", 1, 1.0, 1.0),
)
PAIRS_OF_EQUALS = 3


def test_a_hash_is_equal_where_the_values_are(spark):
    from decimal import Decimal

    from pyspark.sql import functions as F

    rows = [(k, *v[:5], None if v[5] is None else Decimal(v[5]), *v[6:]) for k, v in enumerate(VALUES)]
    frame = spark.createDataFrame(rows, NESTED)
    fields = [field for field in frame.schema.fields if field.name != "k"]
    values = F.struct(*[comparable(F.col(f.name), f.dataType).alias(f.name) for f in fields])
    schema = frame.drop("k").schema
    one = frame.select(F.col("k").alias("k1"), values.alias("v1"), row_hash(schema).alias("h1"))
    other = frame.select(F.col("k").alias("k2"), values.alias("v2"), row_hash(schema).alias("h2"))
    pairs = one.crossJoin(other).selectExpr("k1", "k2", "v1 <=> v2 AS equal", "h1 <=> h2 AS alike").collect()
    assert [(pair.k1, pair.k2) for pair in pairs if pair.equal != pair.alike] == []
    assert sum(pair.equal for pair in pairs) == len(VALUES) + 2 * PAIRS_OF_EQUALS
