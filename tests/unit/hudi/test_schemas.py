"""Columns by name in the schemas of tables, also where a type is defined once and named afterwards."""

import pytest

from etc_policy.hudi.schemas import find_column

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
