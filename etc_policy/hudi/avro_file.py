"""Avro files of a timeline, decoded within bounds: what a file can make the reader hold is in proportion to its size."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any

from etc_policy.hudi.avro_pattern import IrregularError, next_long, next_size
from etc_policy.hudi.avro_schema import parse_schema

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
MAX_SCHEMA_BYTES = 1 << 20
#: Hudi does not compress its timeline. What another engine compressed may become so many times as large, or this large.
INFLATED_TIMES, INFLATED_BYTES = 10, 1 << 20


class BadAvroFile(Exception):  # noqa: N818 - what a file is, not what went wrong here
    """The bytes are not an Avro file that is read here; the reason is in the message."""


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """What an Avro file begins with: its schema as text, its codec, its sync marker, and where its first block begins."""

    schema: bytes
    codec: str
    sync: bytes
    end: int


def read_first_record(content: bytes) -> Any:
    """The first record of an Avro file.

    Raises:
        BadAvroFile: the file has no record, or is not within bounds.
        Exception: fastavro raises almost anything over damaged bytes.

    """
    import fastavro

    header = read_header(content)
    schema, at = schema_of(header.schema), header.end
    while at < len(content):
        records, at = next_size(content, at)
        length, at = next_size(content, at)
        block, at = content[at : at + length], at + length + SYNC_BYTES
        if content[at - SYNC_BYTES : at] != header.sync:
            raise BadAvroFile("a block does not end with the file's marker")
        if records:
            return fastavro.schemaless_reader(BytesIO(_inflated(block, header.codec)), schema, None)
    raise BadAvroFile("the file holds no record")


def read_header(content: bytes) -> AvroHeader:
    """The header of an Avro file.

    Raises:
        BadAvroFile: it is cut short, or has no schema.

    """
    try:
        pairs, at = _read_pairs(content, len(MAGIC))
    except IrregularError as error:
        raise BadAvroFile("the file's header is cut short") from error
    end = at + SYNC_BYTES
    if content[: len(MAGIC)] != MAGIC or end > len(content):
        raise BadAvroFile("the file's header is cut short")
    schema = pairs.get(b"avro.schema", b"")
    if not 0 < len(schema) <= MAX_SCHEMA_BYTES:
        raise BadAvroFile("the file's schema is missing or too large")
    codec = pairs.get(b"avro.codec", b"null").decode("ascii", "backslashreplace")
    return AvroHeader(schema, codec, content[at:end], end)


def _read_pairs(content: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    pairs: dict[bytes, bytes] = {}
    count, at = next_long(content, at)
    while count:
        if count < 0:  # its size in bytes follows
            _, at = next_long(content, at)
        for _ in range(abs(count)):
            key, at = _read_bytes(content, at)
            pairs[key], at = _read_bytes(content, at)
        count, at = next_long(content, at)
    return pairs, at


def _read_bytes(content: bytes, at: int) -> tuple[bytes, int]:
    length, at = next_size(content, at)
    if at + length > len(content):
        raise IrregularError
    return content[at : at + length], at + length


@lru_cache(maxsize=16)
def schema_of(text: bytes) -> Any:
    """A schema by its text, as fastavro decodes by it.

    Raises:
        Exception: as `parse_schema`, and where the text is not JSON.

    """
    return parse_schema(json.loads(text))


def _inflated(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise BadAvroFile(f"the file is compressed by `{codec[:40]}`, which is not read")
    limit = max(INFLATED_BYTES, INFLATED_TIMES * len(block))
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    inflated = inflater.decompress(block, limit)
    if len(inflated) >= limit:
        raise BadAvroFile("a block becomes far larger when it is inflated")
    return inflated
