"""The records of an Avro data block, many at a time: to call the decoder costs more than to decode a record."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import fastavro

from etc_policy.hudi.avro import parse_schema
from etc_policy.hudi.blocks import BadLogFile

_LENGTH = struct.Struct(">i")
#: So many records, or bytes, are decoded together.
_MOST, _MOST_BYTES = 1_000, 1 << 20


@dataclass(frozen=True, slots=True)
class RecordSchemas:
    """How to decode records: one alone, and a list of them with their lengths; without a reader the whole record is read."""

    writer: Any
    reader: Any = None
    framed_writer: Any = None
    framed_reader: Any = None


def record_schemas(schema: Mapping[str, Any], field: str) -> RecordSchemas:
    """How to decode that field alone of records of a schema, where other fields can be skipped."""
    writer = parse_schema(schema)
    if not can_skip(schema):
        return RecordSchemas(writer)
    projected = {**schema, "fields": [one for one in schema["fields"] if one["name"] == field]}
    try:
        reader = parse_schema(projected)
    except Exception:  # the field is of a type that another one defines
        return RecordSchemas(writer)
    with suppress(Exception):  # a list of such records may make more values than its bytes allow
        return RecordSchemas(writer, reader, parse_schema(_framed(schema)), parse_schema(_framed(projected)))
    return RecordSchemas(writer, reader)


def can_skip(schema: Any) -> bool:
    """Whether fastavro notices the end of the bytes while it skips any list: it does where items hold a length or a number."""
    if isinstance(schema, list):
        return all(map(can_skip, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "array" and not _has_length(schema["items"]):
        return False
    return all(map(can_skip, schema.values()))


def _has_length(schema: Any) -> bool:
    if isinstance(schema, list):
        return True
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return any(_has_length(field["type"]) for field in schema["fields"])
    return kind in ("int", "long", "string", "bytes", "enum", "array", "map")


def _framed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A list of records as a block holds them, each behind its length."""
    length = {"type": "fixed", "name": "etc_length", "namespace": "etc", "size": _LENGTH.size}
    fields = [{"name": "length", "type": length}, {"name": "record", "type": schema}]
    return {"type": "array", "items": {"type": "record", "name": "etc_framed", "namespace": "", "fields": fields}}


def records_of(content: memoryview, count: int, schemas: RecordSchemas) -> Iterator[Any]:
    """Every one of `count` records; some are in memory at a time.

    Raises:
        BadLogFile: a record is longer or shorter than its length says, or bytes follow the last one.

    """
    at, most = 0, 1 if schemas.framed_writer is None else _MOST
    while count > 0:
        start, lengths = at, list[bytes]()
        while len(lengths) < min(count, most) and at - start < _MOST_BYTES:
            length = content[at : at + _LENGTH.size]
            at += _LENGTH.size + _LENGTH.unpack(length)[0]
            if at < start + _LENGTH.size or at > len(content):
                raise BadLogFile("a record of a length that cannot be")
            lengths.append(bytes(length))
        count -= len(lengths)
        part = content[start:at]
        yield from _together(part, lengths, schemas) if most > 1 else [_alone(part[_LENGTH.size :], schemas)]
    if at != len(content):
        raise BadLogFile("bytes after the last record")


def _alone(content: memoryview, schemas: RecordSchemas) -> Any:
    stream = io.BytesIO(content)
    record = fastavro.schemaless_reader(stream, schemas.writer, schemas.reader)
    if stream.tell() != len(content):
        raise BadLogFile("a record of another length")
    return record


def _together(content: memoryview, lengths: list[bytes], schemas: RecordSchemas) -> Iterator[Any]:
    """The records of a part; where one is decoded in another length, the lengths after it are not what they were."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", len(lengths))
    stream.write(content)
    stream.write(b"\0")
    end = stream.tell()
    stream.seek(0)
    found: Any = fastavro.schemaless_reader(stream, schemas.framed_writer, schemas.framed_reader)
    if stream.tell() != end or [one["length"] for one in found] != lengths:
        raise BadLogFile("a record of another length")
    return (one["record"] for one in found)
