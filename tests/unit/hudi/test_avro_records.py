"""Records that are decoded many at a time are those that are decoded alone, and as strictly."""

import io
import struct
from dataclasses import replace

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.hudi.avro_records import record_schemas, records_of
from etc_policy.hudi.blocks import BadLogFile

SCHEMA = {
    "type": "record",
    "name": "r",
    "namespace": "hoodie.t",
    "fields": [
        {"name": "id", "type": ["null", "string"]},
        {"name": "ts", "type": ["null", "long"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
ROWS = st.lists(st.tuples(st.none() | st.text(max_size=9), st.none() | st.integers(-(2**62), 2**62)), max_size=40)


def content_of(rows):
    parsed, content = fastavro.parse_schema(SCHEMA), b""
    for key, ts in rows:
        record = io.BytesIO()
        fastavro.schemaless_writer(record, parsed, {"id": key, "ts": ts, "tags": ["x"]})
        content += struct.pack(">i", record.tell()) + record.getvalue()
    return content


def times(content, count, *, together=True):
    schemas = record_schemas(SCHEMA, "ts")
    assert schemas.framed_writer is not None
    schemas = schemas if together else replace(schemas, framed_writer=None, framed_reader=None)
    return [record["ts"] for record in records_of(memoryview(content), count, schemas)]


def test_a_field_of_a_type_that_another_one_defines():
    """Alone it cannot be read, as then its type is not known."""
    money = {"type": "fixed", "name": "Money", "size": 4}
    fields = [{"name": "tax", "type": money}, {"name": "total", "type": "Money"}]
    schema, record = {"type": "record", "name": "r", "fields": fields}, io.BytesIO()
    fastavro.schemaless_writer(record, fastavro.parse_schema(schema), {"tax": b"0001", "total": b"0012"})
    content = struct.pack(">i", record.tell()) + record.getvalue()
    (found,) = records_of(memoryview(content), 1, record_schemas(schema, "total"))
    assert found["total"] == b"0012"


@given(ROWS)
def test_together_and_alone_are_the_same(rows):
    content = content_of(rows)
    assert times(content, len(rows)) == times(content, len(rows), together=False) == [ts for _, ts in rows]


def test_more_than_are_decoded_at_once():
    rows = [("k", number) for number in range(2_500)]
    assert times(content_of(rows), 2_500) == list(range(2_500))


def test_lengths_that_agree_in_sum_alone():
    """Both records are decoded whole, and neither in its own length."""
    content = bytearray(content_of([("k", 1), ("kk", 2)]))
    first = struct.unpack_from(">i", content)[0]
    content[0:4], content[4 + first : 8 + first] = struct.pack(">i", first + 1), struct.pack(">i", first)
    for together in (True, False):
        with pytest.raises(BadLogFile):
            times(bytes(content), 2, together=together)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("count", "end"), [(1, None), (3, None), (2, -1)])
def test_another_number_of_records_or_of_bytes(count, end, together):
    with pytest.raises((BadLogFile, struct.error)):
        times(content_of([("k", 1), ("kk", 2)])[:end], count, together=together)


def test_a_list_of_records_of_no_bytes_is_decoded_one_by_one():
    """Many values of few bytes are allowed once, not for each of many records."""
    empty = {**SCHEMA, "fields": [*SCHEMA["fields"], *({"name": f"n{n}", "type": "null"} for n in range(99))]}
    assert record_schemas(empty, "ts").framed_writer is None
