"""Writes log files the way stock Hudi lays them out, byte by byte: shares no code with the reader but fastavro."""

from __future__ import annotations

import io
import json
import struct

import fastavro

COMMAND, DELETE, CORRUPT, AVRO, HFILE, PARQUET, CDC = range(7)
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
INSTANT, TARGET, SCHEMA, IS_PARTIAL = 0, 1, 2, 7
#: Places in the union of ordering values.
NULL, INT, LONG, STRING, DATE, TIMESTAMP, ARRAY = 0, 2, 3, 7, 8, 11, 12


def schema(ts=MICROS, nullable=True):
    """The schema of a table of an id, a value and the event time, with some fields round it."""
    decimal = {"type": "fixed", "name": "fixed", "namespace": "r.price", "size": 5, "logicalType": "decimal"}
    fields = [
        {"name": "_hoodie_commit_time", "type": ["null", "string"], "default": None},
        {"name": "id", "type": "int"},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "price", "type": ["null", decimal | {"precision": 10, "scale": 2}], "default": None},
        {"name": "ts", "type": ["null", ts] if nullable else ts},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ]
    return {"type": "record", "name": "r", "namespace": "hoodie.t", "fields": fields}


def block(kind, content=b"", header=None, version=1, footer=b"\0\0\0\0"):
    """A block; a header's value is text."""
    pairs = {INSTANT: "20260101000000000", **(header or {})}
    headers = b"".join(struct.pack(">ii", key, len(value.encode())) + value.encode() for key, value in pairs.items())
    body = struct.pack(">iii", version, kind, len(pairs)) + headers
    body += struct.pack(">q", len(content)) + content + footer
    return b"#HUDI#" + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", 14 + len(body))


def avro(values, ts=MICROS, header=None, nullable=True, version=3):
    """An Avro data block of one record per stored value of the event-time column."""
    content = struct.pack(">ii", version, len(values))
    for number, value in enumerate(values):
        bytes_of_record = record(value, ts, nullable, number)
        content += struct.pack(">i", len(bytes_of_record)) + bytes_of_record
    return block(AVRO, content, {SCHEMA: json.dumps(schema(ts, nullable)), **(header or {})})


def record(value, ts, nullable=True, number=1):
    """A record as Avro bytes, with the value as it is stored."""
    plain = json.loads(json.dumps(schema(ts, nullable)).replace('"logicalType"', '"ignored"'))
    buffer = io.BytesIO()
    row = {"id": number, "ts": value, "tags": ["x"] * number, "_hoodie_commit_time": "1", "price": b"12345"}
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(plain), row)
    return buffer.getvalue()


def parquet(array, ts=MICROS, header=None, column="ts"):
    """A Parquet data block whose event-time column is the given Arrow array."""
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"id": list(range(len(array))), column: array}), buffer)
    return block(PARQUET, buffer.getvalue(), {SCHEMA: json.dumps(schema(ts)), **(header or {})})


def deletes(*ordering, ts=MICROS, version=3):
    """A delete block; each delete's ordering value is (place in the union, value)."""
    content = delete_list(*ordering)
    return block(DELETE, struct.pack(">ii", version, len(content)) + content, {SCHEMA: json.dumps(schema(ts))})


def delete_list(*ordering):
    """The Avro bytes of the deletes."""
    items = b"".join(b"\x02\x02k\x02\x02p" + _ordering(*value) for value in ordering)
    return zigzag(len(ordering)) + items + zigzag(0) if ordering else zigzag(0)


def _ordering(place, value=None):
    if place == NULL:
        return zigzag(NULL)
    if place == ARRAY:
        items = b"".join(_ordering(*item) for item in value)
        return zigzag(ARRAY) + zigzag(1) + zigzag(len(value)) + items + zigzag(0)
    text = zigzag(len(value)) + value.encode() if place == STRING else zigzag(value)
    return zigzag(place) + text


def zigzag(number):
    """An Avro int or long."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def with_small_footer(content):
    """A Parquet file whose footer says of each column that it becomes a thousand bytes."""
    from pyarrow import parquet

    metadata = parquet.read_metadata(io.BytesIO(content))
    begin = len(content) - 8 - metadata.serialized_size
    group = metadata.row_group(0)
    sizes = {group.total_byte_size, *(group.column(n).total_uncompressed_size for n in range(group.num_columns))}
    footer = content[begin:]
    for size in filter(lambda size: size > 100_000, sizes):
        honest = zigzag(size)
        small = bytes(byte | 0x80 for byte in zigzag(1_000)) + b"\x80" * 9
        footer = footer.replace(honest, small[: len(honest) - 1] + b"\0")
    return content[:begin] + footer
