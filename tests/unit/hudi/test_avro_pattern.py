from io import BytesIO

import fastavro
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from etc_policy.hudi.avro_pattern import (
    MAX_ITEMS,
    MAX_STRING_BYTES,
    IrregularError,
    RecordPattern,
    next_long,
    next_size,
    read_long,
    read_text,
)
from tests.nightly import HISTORIES

STRING = {"type": "string", "avro.java.string": "String"}
TIMES = {"type": "record", "name": "Times", "fields": [{"name": "path", "type": ["null", "long"]}]}
STAT = {
    "type": "record",
    "name": "Stat",
    "fields": [
        {"name": "id", "type": ["null", STRING]},
        {"name": "rows", "type": ["null", "long"]},
        {"name": "skipped", "type": ["null", STRING]},
        {"name": "path", "type": STRING},
        {"name": "version", "type": ["int", "null"]},
        {"name": "files", "type": ["null", {"type": "array", "items": STRING}]},
        {"name": "cdc", "type": ["null", {"type": "map", "values": "long"}]},
        {"name": "times", "type": ["null", TIMES]},
        {"name": "is_done", "type": "boolean"},
        {"name": "time", "type": ["null", "long"]},
    ],
}
PARSED = fastavro.parse_schema(STAT)
WANTED = {"path": "string", "id": "string", "rows": "long", "time": "long", "absent": "long"}
PATTERN = RecordPattern(STAT, WANTED)
RECORD = {
    "id": "a", "rows": 1, "skipped": None, "path": "p/a", "version": None, "files": ["f"], "cdc": None, "times": None,
    "is_done": True, "time": None,
}  # fmt: skip

longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=MAX_STRING_BYTES).filter(lambda text: len(text.encode()) <= MAX_STRING_BYTES)
records = st.fixed_dictionaries({
    "id": st.none() | texts,
    "rows": st.none() | longs,
    "skipped": st.none() | texts,
    "path": texts,
    "version": st.none() | st.integers(-(2**31), 2**31 - 1),
    "files": st.none() | st.lists(texts, max_size=MAX_ITEMS),
    "cdc": st.none() | st.just({}),
    "times": st.none() | st.fixed_dictionaries({"path": st.none() | longs}),
    "is_done": st.booleans(),
    "time": st.none() | longs,
})  # fmt: skip


def encoded(*many):
    content = BytesIO()
    for record in many:
        fastavro.schemaless_writer(content, PARSED, record)
    return content.getvalue()


def read(content, start=0, count=1):
    """The records as (path, id, rows, time), and where the last ends."""
    found, end = PATTERN.read(content, start, count)
    texts_and_numbers = (read_text, read_text, read_long, read_long)
    assert all(record[-1] is None for record in found)
    return [
        tuple(None if raw is None else decode(raw) for decode, raw in zip(texts_and_numbers, record, strict=False))
        for record in found
    ], end


@settings(max_examples=max(100, HISTORIES // 50))
@given(st.lists(records, max_size=5), st.binary(max_size=5))
@example([{**RECORD, "files": [""] * MAX_ITEMS}], b"\x00")
def test_records_are_read_as_fastavro_writes_them(many, after):
    content = encoded(*many)
    found, end = read(b"##" + content + after, 2, len(many))
    assert found == [(one["path"], one["id"], one["rows"], one["time"]) for one in many]
    assert end == 2 + len(content)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 127, 128, 191, 192, MAX_STRING_BYTES])
def test_strings_of_every_form_of_length(length):
    assert read(encoded({**RECORD, "path": "x" * length, "skipped": "y" * length}))[0][0][0] == "x" * length


@pytest.mark.parametrize(
    "odd",
    [
        {"path": "x" * (MAX_STRING_BYTES + 1)},
        {"skipped": "x" * 5000},
        {"files": ["f"] * (MAX_ITEMS + 1)},
        {"cdc": {"a": 1}},
    ],
)
def test_what_the_pattern_is_not_made_for_is_left(odd):
    with pytest.raises(IrregularError):
        read(encoded({**RECORD, **odd}))


@settings(max_examples=max(100, HISTORIES // 50))
@given(records, st.data())
def test_what_is_cut_short_is_not_a_record(record, data):
    content = encoded(record)
    with pytest.raises(IrregularError):
        read(content[: data.draw(st.integers(0, len(content) - 1))])


@pytest.mark.parametrize(
    "field",
    [
        {"name": "x", "type": "double"},
        {"name": "x", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
        {"name": "x", "type": {"type": "array", "items": "Stat"}},
        {"name": "rows", "type": ["null", "long", "string"]},
        {"name": "rows", "type": "null"},
        {"name": "rows", "type": "boolean"},
        {"name": "rows", "type": ["null", "string"]},
        {"name": "rows", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
)
def test_a_schema_that_no_pattern_is_made_for(field):
    with pytest.raises(IrregularError):
        RecordPattern({"fields": [field]}, WANTED)


@given(longs, st.binary(max_size=3))
def test_numbers(value, after):
    content = BytesIO()
    fastavro.schemaless_writer(content, "long", value)
    raw = content.getvalue()
    assert (read_long(raw), next_long(b"#" + raw + after, 1)) == (value, (value, 1 + len(raw)))
    with pytest.raises(IrregularError):
        next_long(raw[:-1], 0)
    if value < 0:
        with pytest.raises(IrregularError):
            next_size(raw, 0)
    else:
        assert next_size(raw, 0) == (value, len(raw))


@pytest.mark.parametrize("raw", [b"\xff" * 1_000_000 + b"\x00", b"\x80" * 9 + b"\x02"])
def test_numbers_of_more_than_64_bits_are_none(raw):
    with pytest.raises(IrregularError):
        next_long(raw[:1_000_000] if raw[0] == 0xFF else b"\x80" * 10 + b"\x00", 0)
    with pytest.raises(IrregularError):
        found, _ = RecordPattern({"fields": [{"name": "rows", "type": "long"}]}, WANTED).read(raw, 0, 1)
        read_long(found[0][2])
