"""A table that keeps a key more than once on purpose: its copies are compared as multisets, and what is wrong is found."""

import pytest

from etc_policy.gx import changed_rows, view_comparison, view_join
from tests.integration.hudi_tables import StockTable
from tests.integration.row_checks import (
    CONTAINMENT,
    DELETED,
    ROW_SUITE,
    TWICE,
    T,
    alike,
    check,
    row,
)

pytestmark = [pytest.mark.spark, pytest.mark.extended]

ROWS = "id int, p string, v string, ts long"
#: An insert into the small base file keeps the rows that are there.
ONE_GROUP = {
    "hoodie.index.type": "SIMPLE",
    "hoodie.merge.allow.duplicate.on.inserts": "true",
    "hoodie.combine.before.insert": "false",
}
#: Each insert makes a file group of its own.
MANY_GROUPS = {**ONE_GROUP, "hoodie.parquet.small.file.limit": "0"}
#: An index that finds no key, so that an upsert writes a further copy into a log file of its own.
NO_INDEX = {"hoodie.index.type": "INMEMORY"}
SUITE = tuple(item for item in ROW_SUITE if item["type"] != TWICE)


def found_by(table, **changes):
    """What is found of all rows, where it is declared that keys are repeated; it is the same by the short way."""
    given = {"suite": SUITE, "keys": "repeated", **alike(table), **changes}
    whole = check(table, **{**given, "same_files": frozenset()})
    assert check(table, **given) == whole
    return whole[1]


def counts(results):
    seen = {**results[CONTAINMENT].observed, **results[DELETED].observed}
    return {name: seen[name] for name in ("missing", "different", "deleted", "deleted_not_yet_compacted")}


def wrong(missing=0, different=0, deleted=0, open_deleted=0):
    return {
        "missing": missing, "different": different, "deleted": deleted, "deleted_not_yet_compacted": open_deleted,
    }  # fmt: skip


@pytest.fixture
def compacted(spark, tmp_path):
    """Key 1 twice in one base file, equal in both views."""
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=ONE_GROUP)
    table.write([row(1, "first"), row(2, "one")], "insert")
    table.write([row(1, "second", 10)], "insert")
    table.write([row(2, "two", 500)])
    table.compact()
    for read_optimized in (False, True):
        rows = table.view(read_optimized=read_optimized).select("id", "v").collect()
        assert sorted(map(tuple, rows)) == [(1, "first"), (1, "second"), (2, "two")]
    return table


def test_copies_are_not_held_against_each_other(compacted):
    """Each was compared with each: `2 different`, where both views have equal rows."""
    results = found_by(compacted)
    assert {name: one.status for name, one in results.items()} == dict.fromkeys(results, "pass")
    observed = results[CONTAINMENT].observed
    assert (observed["promised_rows"], observed["rt_rows"]) == (3, 3)
    assert results[DELETED].observed["ro_rows"] == 3


def test_where_it_is_not_declared_the_key_alone_is_at_fault(compacted):
    results = check(compacted, **alike(compacted))[1]
    assert results[CONTAINMENT].status == "pass"
    assert (results[TWICE].status, results[TWICE].observed["duplicate_keys"]) == ("fail", 1)
    assert "declare `writer.keys: repeated`, else `etc explain deletes`" in results[TWICE].message


def test_a_copy_that_ro_lacks_is_missing_also_if_another_is_equal_to_it(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=MANY_GROUPS)
    table.write([row(1), row(2)], "insert")
    table.write([row(1)], **NO_INDEX)
    results = found_by(table)
    assert counts(results) == wrong(missing=1)
    assert results[CONTAINMENT].observed["samples"]["missing"] == [{"partition": "x", "key": "1"}]


def test_so_it_is_where_it_is_not_declared_and_a_late_copy_is_not_missing(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=MANY_GROUPS)
    table.write([row(1), row(2)], "insert")
    table.write([row(1)], **NO_INDEX)
    undeclared = check(table, **alike(table))[1]
    assert (undeclared[CONTAINMENT].observed["missing"], undeclared[TWICE].status) == (1, "fail")
    late = frozenset([table.completed()[-1][1]])
    assert counts(found_by(table, late_commits=late)) == wrong()


def test_a_copy_that_has_changed_is_one_row_that_differs(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=MANY_GROUPS)
    table.write([row(1, "first"), row(2)], "insert")
    table.write([row(1, "new", 500)])
    table.write([row(1, "second", 10)], "insert")
    results = found_by(table)
    assert counts(results) == wrong(different=1)
    sample = results[CONTAINMENT].observed["samples"]["different"]
    assert sample == [{"partition": "x", "key": "1", "columns": ["ts", "v"]}]
    assert counts(check(table, **alike(table))[1]) == wrong(different=1)
    assert counts(found_by(table, threshold_ms=row(1, at_ms=499)[3])) == wrong()


def test_a_copy_too_many_in_ro_is_deleted_unless_its_file_group_is_open(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=MANY_GROUPS)
    table.write([row(1), row(2)], "insert")
    (old,) = table.file_ids()
    table.write([row(1, at_ms=1)], "delete")
    table.write([row(1)], "insert")
    table.write([row(1)], "insert")
    assert counts(found_by(table)) == wrong(open_deleted=1)
    results = found_by(table, open_groups=frozenset())
    assert counts(results) == wrong(deleted=1)
    assert results[DELETED].observed["samples"]["deleted"] == [{"partition": "x", "key": "1"}]
    assert old in {name.split("_")[0] for name in alike(table)["base_files"]}


def test_a_row_too_many_is_not_excused_by_one_that_nothing_is_promised_of(spark, tmp_path):
    """Both are left over, of two file groups."""
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=MANY_GROUPS)
    table.write([row(1), row(2)], "insert")
    table.write([row(1, at_ms=1)], "delete")
    table.write([row(1, "later", 5_000)], **NO_INDEX)
    assert counts(found_by(table, open_groups=frozenset())) == wrong(deleted=1)


def test_a_sample_looks_up_all_copies(spark, tmp_path):
    """Of two equal copies RO lacks that of the chosen file group: the other one, elsewhere, is not in its place."""
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=MANY_GROUPS)
    table.write([row(1), row(2)], "insert")
    before = table.file_ids()
    table.write([row(1)], **NO_INDEX)
    names = table.view(read_optimized=False).select("_hoodie_file_name").collect()
    (new,) = {name[0].split("_")[0] for name in names} - before
    given = {"suite": SUITE, "keys": "repeated", **alike(table), "same_files": frozenset()}
    assert counts(check(table, **given, file_ids=frozenset([new]))[1]) == wrong(missing=1)
    assert counts(check(table, **given, file_ids=before)[1]) == wrong()


def test_nulls_and_nested_values_of_copies(spark, tmp_path):
    schema = "id int, p string, m map<string,int>, d double, ts long"
    table = StockTable(spark, str(tmp_path / "t"), schema, options=ONE_GROUP)
    rows = [(1, "x", {"a": 1, "b": 2}, 0.0, T), (1, "x", None, float("nan"), T), (1, "x", {}, None, None)]
    table.write([*rows, (2, "x", None, None, T)], "insert")
    table.write([(2, "x", {"c": 1}, None, T + 1)])
    table.compact()
    table.write([(2, "x", {"c": 2}, None, T + 2)])
    results = found_by(table, threshold_ms=T + 1)
    assert (counts(results), results[CONTAINMENT].observed["null_event_times"]) == (wrong(), 1)
    assert counts(found_by(table, threshold_ms=T + 2)) == wrong(different=1)


def test_a_table_whose_keys_are_there_once_pays_for_no_pairing(spark, tmp_path, monkeypatch):
    """Also where something is wrong: a join by key says all."""
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options=MANY_GROUPS)
    table.write([row(1), row(2)], "insert")
    table.write([row(3)], "insert")
    table.write([row(1, "new", 500)])
    made, paired = [], view_join.paired
    for module in (changed_rows, view_comparison):
        monkeypatch.setattr(module, "paired", lambda *given: made.append(given) or paired(*given))
    assert counts(check(table, **alike(table))[1]) == wrong(different=1)
    assert made == []
    assert counts(found_by(table)) == wrong(different=1)
    assert made
