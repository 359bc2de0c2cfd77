"""Columns by name in the schemas of tables, also where a type is defined once and named afterwards."""

import json
import tracemalloc

import pytest

from etc_policy.hudi.schemas import _versions_in, find_column, leaf_columns, type_name, unworkable_columns

ROW = {"type": "record", "name": "Row", "namespace": "shop", "fields": [{"name": "ts", "type": "long"}]}
ENVELOPE = [{"name": "before", "type": ["null", ROW]}, {"name": "after", "type": ["null", "shop.Row"]}]


@pytest.mark.parametrize(
    ("fields", "name", "path"),
    [
        (ENVELOPE, "before.ts", ("before", "ts")),
        (ENVELOPE, "after.ts", ("after", "ts")),
        ([{"name": "e", "type": {**ROW, "name": "E", "fields": ENVELOPE}}], "e.after.ts", ("e", "after", "ts")),
        ([*ENVELOPE, {"name": "own", "type": "Row"}], "own.ts", ("own", "ts")),
        ([{"name": "i", "type": {"type": "array", "items": ROW}}, ENVELOPE[1]], "after.ts", ("after", "ts")),
        ([{"name": "i", "type": {"type": "map", "values": ROW}}, ENVELOPE[1]], "after.ts", ("after", "ts")),
    ],
)
def test_a_record_may_be_named_where_another_field_defines_it(fields, name, path):
    assert find_column(fields, name) == (path, "long")


@pytest.mark.parametrize("name", ["after", "after.id", "after.ts.x", "gone.ts", "other.ts"])
def test_what_is_not_there_is_none(name):
    found = find_column([*ENVELOPE, {"name": "other", "type": "shop.Nobody"}], name)
    assert found == ((("after",), ["null", "shop.Row"]) if name == "after" else None)


def test_a_record_of_itself_ends():
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "left", "type": ["null", "Tree"]}]}
    fields = [{"name": "t", "type": tree}]
    assert find_column(fields, "t.left.left.left") == (("t", "left", "left", "left"), ["null", "Tree"])
    assert find_column(fields, "t.left.ts") is None


def test_all_columns_have_their_names_and_types_in_order():
    fields = [{"name": "id", "type": "string"}, *ENVELOPE, {"name": "a.b", "type": ["null", "int"]}]
    columns = [("id", "string"), ("before.ts", "long"), ("after.ts", "long"), ("a.b", ["null", "int"])]
    assert list(leaf_columns(fields)) == columns


def _named_twice(depth):
    """Structs that each hold the one before twice: two to the power of the depth columns."""
    records = [{"type": "record", "name": "R0", "fields": [{"name": "x", "type": "long"}]}]
    for number in range(1, depth):
        fields = [{"name": name, "type": f"R{number - 1}"} for name in "ab"]
        records.append({"type": "record", "name": f"R{number}", "fields": fields})
    return [{"name": f"d{number}", "type": record} for number, record in enumerate(records)]


_LONG = "x" * 100_000


@pytest.mark.parametrize(
    "fields",
    [
        _named_twice(60),
        [{"name": "t", "type": {"type": "record", "name": "T", "fields": [{"name": "t", "type": ["null", "T"]}]}}],
        [{"name": "t", "type": {"type": "record", "name": "T", "fields": [{"name": _LONG, "type": "T"}]}}],
    ],
)
def test_structs_that_make_columns_without_end_are_refused(fields):
    with pytest.raises(ValueError, match="more columns"):
        list(leaf_columns(fields))


def test_a_wide_table_has_its_columns():
    assert len(list(leaf_columns([{"name": f"column_{number}", "type": "int"} for number in range(50_000)]))) == 50_000


@pytest.mark.parametrize("kind", [{"type": {"type": "string"}}, {"type": "int", "logicalType": ["date"]}])
def test_a_type_within_a_type_is_not_written_out(kind):
    assert type_name(kind) == "nested"


def test_a_long_name_does_not_stand_before_the_names_of_many_columns():
    """In one MiB 14,000 times a name of 400,000 characters."""
    below = [{"id": number, "name": f"c{number}", "type": "int"} for number in range(14_000)]
    outer = {"id": 1, "name": "x" * 400_000, "type": {"type": "record", "fields": below}}
    content = json.dumps({"schemas": [{"version_id": 1, "fields": [outer]}]}).encode()
    tracemalloc.start()
    try:
        assert _versions_in(content) is None
        assert tracemalloc.get_traced_memory()[1] < 40 * len(content)
    finally:
        tracemalloc.stop()


TIME = {"type": "int", "logicalType": "time-millis"}


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (["null", TIME], {"c": "time-millis"}),
        ({"type": "long", "logicalType": "time-micros"}, {"c": "time-micros"}),
        ({"type": "array", "items": ["null", TIME]}, {"c": "time-millis"}),
        ({"type": "map", "values": {"type": "array", "items": TIME}}, {"c": "time-millis"}),
        ({"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", TIME]}]}, {"c.x": "time-millis"}),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}, {"c": "a decimal of 39 digits"}),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38}, {}),
        (["null", "int", "string"], {"c": "a union of int and string"}),
        ([TIME, "string"], {"c": "a union of time-millis and string"}),
        (["null", "int", "long", "string"], {"c": "a union of 3 types"}),
        (["null", "int"], {}),
        (["null"], {}),
        ("null", {}),
        ({"type": {"type": "string", "avro.java.string": "String"}}, {}),
        ({"type": "long", "logicalType": "timestamp-micros"}, {}),
        ({"type": "enum", "name": "e", "symbols": ["a"]}, {}),
        (["null", {"type": "record", "name": "n", "fields": [{"name": "n", "type": ["null", "n"]}]}], {}),
    ],
)
def test_columns_that_hudi_on_spark_cannot_compact(kind, found):
    assert dict(unworkable_columns([{"name": "id", "type": "string"}, {"name": "c", "type": kind}])) == found
