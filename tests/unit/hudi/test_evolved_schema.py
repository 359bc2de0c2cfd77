"""Which writes hide a table's evolved schema: by the versions that Hudi keeps of it beside the timeline."""

import json

import pytest

from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime
from etc_policy.run.table_files import HudiFiles
from etc_policy.table.state import HIDDEN
from tests.unit.hudi.table_folder import at, log

TS = EventTime(column="ts")
NAME = f"{at('10:00:01')}_{at('10:00:02')}.schemacommit"
#: The second commit alters the table, and the third carries no schema.
COMMITS = ({}, {"latest_schema": "one"}, {})
INNER = {"id": 3, "name": "a", "optional": True, "type": "int"}
STRUCT = {"type": "record", "fields": [INNER]}
WIDER = {"type": "record", "fields": [INNER, {**INNER, "id": 7, "name": "b"}]}
OTHER = {"type": "record", "fields": [{**INNER, "name": "b"}]}
LIST = {"type": "array", "element_id": 4, "element_optional": True, "element": "int"}
MAP = {"type": "map", "key_id": 5, "value_id": 6, "value_optional": True, "key": "string", "value": "int"}


def version(number, *columns):
    fields = [{"id": n, "name": name, "optional": True, "type": kind} for n, name, kind in columns]
    return {"max_column_id": 9, "version_id": number, "type": "record", "fields": fields}


def versions_file(table, *versions, name=NAME, text=None):
    folder = table.base / ".hoodie" / ".schema"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"schemas": versions}) if text is None else text)


def commits(table):
    for second, extra in enumerate(COMMITS):
        table.commit(at(f"10:00:0{second}"), at(f"10:00:0{second}"), log("f1", 1), extra=extra)


def last_hides(table):
    instants = FileTableReader().read(str(table.base), TS).instants
    assert (instants[0].schema, instants[1].schema in ("", HIDDEN)) == ("", False)
    why = HudiFiles().wrong_schema(str(table.base), at("10:00:09"))
    assert (why is not None) == (instants[2].schema == HIDDEN)
    return instants[2].schema == HIDDEN


ALTER = int(at("10:00:01"))
OLD = (1, "v", "string")


@pytest.mark.parametrize(
    ("before", "after", "hides"),
    [
        ((OLD,), (OLD, (2, "w", "string")), False),
        ((OLD,), ((2, "first", "int"), OLD), False),
        ((OLD,), ((1, "vv", "string"),), True),
        ((OLD,), ((1, "v", "double"),), True),
        ((OLD,), ((2, "v", "string"),), True),
        ((OLD, (2, "w", "int")), (OLD,), True),
        (
            ((2, "s", STRUCT),),
            ((2, "s", {**STRUCT, "fields": [*STRUCT["fields"], {"id": 7, "name": "b", "type": "int"}]}),),
            False,
        ),
        (((2, "s", STRUCT),), ((2, "s", WIDER),), False),
        (((2, "s", STRUCT),), ((2, "s", OTHER),), True),
        (((2, "l", LIST),), ((2, "l", LIST), OLD), False),
        (((2, "l", LIST),), ((2, "l", {**LIST, "element": "long"}),), True),
        (((2, "l", {**LIST, "element": STRUCT}),), ((2, "l", {**LIST, "element": {**STRUCT, "fields": []}}),), True),
        (((2, "m", MAP),), ((2, "m", MAP), OLD), False),
        (((2, "m", MAP),), ((2, "m", {**MAP, "value": "long"}),), True),
    ],
)
def test_a_write_without_a_schema_hides_what_was_renamed_retyped_or_dropped(table, before, after, hides):
    commits(table)
    versions_file(table, version(ALTER, *after), version(0, *before))
    assert last_hides(table) == hides


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"schemas": [{"version_id": "x"}]}',
        '{"schemas": [{"version_id": 1e999}]}',
        '{"schemas": []}',
        "[" * 100_000,
    ],
)
def test_versions_that_cannot_be_read_are_not_taken_for_harmless(table, text):
    commits(table)
    versions_file(table, text=text)
    assert last_hides(table)


def test_without_versions_nothing_is_hidden(table):
    commits(table)
    assert not last_hides(table)


def test_the_newest_version_of_a_completed_write_counts(table):
    """An ALTER TABLE that failed leaves its own behind; Hudi takes no notice of it either."""
    commits(table)
    versions_file(table, version(ALTER, OLD, (2, "w", "int")), version(0, OLD))
    renamed = version(int(at("10:00:05")), (1, "vv", "string"))
    versions_file(table, renamed, version(0, OLD), name=f"{at('10:00:05')}_{at('10:00:05')}.schemacommit")
    versions_file(table, renamed, version(0, OLD), name=f"{at('10:00:01')}.schemacommit.inflight")
    assert not last_hides(table)


def test_that_of_an_archived_write_counts(table):
    table.commit(at("10:00:00"), at("10:00:00"), log("f1", 1))
    alter = at("09:00:00")
    versions_file(table, version(int(alter), (1, "vv", "string")), version(0, OLD), name=f"{alter}.schemacommit")
    (one,) = FileTableReader().read(str(table.base), TS).instants
    assert one.schema == HIDDEN
