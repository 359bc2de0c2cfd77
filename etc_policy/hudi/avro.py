"""Avro of other hands, decoded within bounds: what a file can make the reader hold is in proportion to its size.

A decoder follows a schema wherever it leads. One that holds itself ends the process, one whose values take no byte makes
them by the billion. So before anything is decoded, its types are counted, and so are the values that they make of no bytes.
"""

from __future__ import annotations

import sys
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from io import BytesIO
from math import inf
from typing import Any, NamedTuple

from etc_policy.policy.bounded_json import load_json

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
MAX_SCHEMA_BYTES = 1 << 20
#: Hudi does not compress its timeline. What another engine compressed may become so many times as large, or this large; and
#: never larger than the last, as decoded it may take two hundred times as much.
INFLATED_TIMES, INFLATED_BYTES, MAX_INFLATED_BYTES = 30, 1 << 16, 4 << 20

#: Types in types, of which Hudi's own metadata has eight; and types in all, each as often as it is named.
MAX_DEPTH, MAX_TYPES = 32, 100_000
#: Values that a byte may make: more is what no schema of Hudi does.
VALUES_PER_BYTE = 2
#: Values that a whole record may make besides, such as columns of type null.
_SPARE_VALUES = 1_000
#: What one record may take of memory, by what its schema makes of a byte at most.
MAX_MEMORY = 7 << 28
#: Bytes of memory for a byte of a record, one of which is enough for a schema; more are made of none.
_RATES = range(30, 300, 5)
#: What is made of a value of each type by CPython, and of so many bytes; texts of one byte and small numbers are there once.
_MAKES = {"int": (32, 1), "long": (32, 1), "float": (24, 4), "double": (24, 8), "string": (80, 3), "bytes": (48, 3)}
#: An empty list, and what an item takes in it; an empty map, and what an entry takes with its key, which no other has.
_LIST, _ITEM, _MAP, _ENTRY, _KEY_BYTES = 72, 9, 80, 130, 3
_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
#: What of a schema says how values are written. Logical types are left out: to make the number of a decimal takes the square
#: of its bytes.
_KEYS = ("type", "name", "namespace", "fields", "items", "values", "symbols", "size")


class BadAvro(Exception):  # noqa: N818 - what bytes are, not what went wrong here
    """The bytes are not Avro that is read here; the reason is in the message."""


class AvroHeader(NamedTuple):
    """What an Avro file begins with: its schema as text, its codec, its sync marker, and where its first block begins."""

    schema: bytes
    codec: str
    sync: bytes
    end: int


def read_first_record(content: bytes) -> Any:
    """The first record of an Avro file.

    Raises:
        BadAvro: the file has no record, or is not within bounds.
        Exception: fastavro raises almost anything over damaged bytes.

    """
    import fastavro

    header, stream = read_header(content), BytesIO(content)
    schema, rate = _schema_of(header.schema)
    stream.seek(header.end)
    while stream.tell() < len(content):
        block: Any = fastavro.schemaless_reader(stream, _container()[1], None)
        if block["sync"] != header.sync:
            raise BadAvro("a block does not end with the file's marker")
        if block["records"] > 0:
            record = _inflated(block["content"], header.codec)
            require_modest(len(record), rate)
            return fastavro.schemaless_reader(BytesIO(record), schema, None)
    raise BadAvro("the file holds no record")


def read_header(content: bytes) -> AvroHeader:
    """The header of an Avro file.

    Raises:
        BadAvro: it has no schema, or a larger one than Hudi writes.
        Exception: as `read_first_record`.

    """
    import fastavro

    stream = BytesIO(content[: 2 * MAX_SCHEMA_BYTES])
    header: Any = fastavro.schemaless_reader(stream, _container()[0], None)
    schema = header["meta"].get("avro.schema", b"")
    if header["magic"] != MAGIC or not 0 < len(schema) <= MAX_SCHEMA_BYTES:
        raise BadAvro("the file's schema is missing or too large")
    codec = header["meta"].get("avro.codec", b"null").decode("ascii", "backslashreplace")
    return AvroHeader(schema, codec, header["sync"], stream.tell())


@cache
def _container() -> tuple[Any, Any]:
    """An Avro file's header and each of its blocks, as Avro itself describes them."""
    import fastavro

    sync = {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": SYNC_BYTES}}
    magic = {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(MAGIC)}}
    header = [magic, {"name": "meta", "type": {"type": "map", "values": "bytes"}}, sync]
    block = [{"name": "records", "type": "long"}, {"name": "content", "type": "bytes"}, sync]
    part = {"type": "record", "name": "Part"}
    return fastavro.parse_schema({**part, "fields": header}), fastavro.parse_schema({**part, "fields": block})


@lru_cache(maxsize=16)
def _schema_of(text: bytes) -> tuple[Any, int]:
    """A schema by its text, as fastavro decodes by it, and what it makes of a byte.

    Raises:
        Exception: as `parse_schema`, and where the text is not JSON.

    """
    named: dict[str, Any] = {}
    schema = parse_schema(load_json(text), named)
    return schema, memory_rate(schema, named)


def require_modest(length: int, rate: int) -> None:
    """Return if a record of so many bytes takes no more memory than there should be.

    Raises:
        BadAvro: it may take more, by its schema.

    """
    if not _is_modest(length, rate):
        raise BadAvro(f"a record of {length:,} bytes, which by its schema may take {rate} times as much memory")


def is_readable(content: bytes) -> bool:
    """Whether `read_first_record` reads an Avro file of one record that was made here, as that record is not too large."""
    header = read_header(content)
    return _is_modest(len(content) - header.end, _schema_of(header.schema)[1])


def _is_modest(length: int, rate: int) -> bool:
    return length * rate <= MAX_MEMORY


def memory_rate(schema: Any, named: dict[str, Any]) -> int:
    """So many bytes of memory the values of a parsed schema take for each of their own, at most."""
    place = bisect_left(_RATES, True, key=lambda rate: _memory(schema, named, rate) <= MAX_SCHEMA_BYTES)
    return _RATES[min(place, len(_RATES) - 1)]


def _memory(kind: Any, named: dict[str, Any], rate: int) -> float:
    """The most memory that one encoding of a type takes beyond the rate for its bytes; infinite where there is no end to it."""
    below = partial(_memory, named=named, rate=rate)
    if isinstance(kind, list):
        return max(map(below, kind)) - rate
    name = kind["type"] if isinstance(kind, dict) else kind
    if name in _BYTES:
        makes, taken = _MAKES.get(name, (0, _BYTES[name]))
        return max(makes - rate * taken, -rate if name in ("bytes", "string") else -inf)
    if name in ("array", "map"):
        own, each, key = (_LIST, _ITEM, 0) if name == "array" else (_MAP, _ENTRY, _KEY_BYTES)
        item = below(kind["items" if name == "array" else "values"]) + each - rate * key
        return inf if item > 0 else own - rate
    if name not in ("record", "error", "fixed", "enum"):
        return below(named[name])
    if "fields" in kind:
        own = sys.getsizeof(dict.fromkeys(map(str, range(len(kind["fields"]))))) + 24
        return own + sum(below(field["type"]) for field in kind["fields"])
    return 48 - rate * int(kind.get("size", 1))


def _inflated(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise BadAvro(f"the file is compressed by `{codec[:40]}`, which is not read")
    limit = max(INFLATED_BYTES, min(INFLATED_TIMES * len(block), MAX_INFLATED_BYTES))
    inflated = zlib.decompressobj(-zlib.MAX_WBITS).decompress(block, limit)
    if len(inflated) >= limit:
        raise BadAvro("a block becomes far larger when it is inflated")
    return inflated


def parse_schema(schema: Any, named: dict[str, Any] | None = None) -> Any:
    """The schema as fastavro decodes by it; values come as they are stored. Types that have names are added to `named`.

    Raises:
        BadAvro: it holds itself, is too deep, or makes values of no bytes.
        Exception: fastavro raises almost anything over what is no schema.

    """
    import fastavro

    named = {} if named is None else named
    parsed = fastavro.parse_schema(_as_stored(schema), named)
    if _excess(parsed, named, iter(range(MAX_TYPES))) > _SPARE_VALUES:
        raise BadAvro("the schema makes many values of few bytes")
    return parsed


def _as_stored(schema: Any) -> Any:
    """A copy with what counts for decoding alone."""
    if isinstance(schema, dict):
        return {key: _as_stored(schema[key]) for key in _KEYS if key in schema}
    return [_as_stored(part) for part in schema] if isinstance(schema, list) else schema


def _excess(kind: Any, named: dict[str, Any], types: Iterator[int], depth: int = 0) -> int:
    """The most values that one encoding of a parsed type makes beyond those that its bytes may make."""
    if depth > MAX_DEPTH or next(types, None) is None:
        raise BadAvro("the schema holds itself, or is nested too deep")
    below = partial(_excess, named=named, types=types, depth=depth + 1)
    if isinstance(kind, list):
        return max(map(below, kind)) - VALUES_PER_BYTE
    name = kind["type"] if isinstance(kind, dict) else kind
    if name in _BYTES:
        return 1 - VALUES_PER_BYTE * _BYTES[name]
    if name in ("array", "map"):  # each item must be paid for by its own bytes, those of its key with them
        is_map = name == "map"
        if below(kind["values" if is_map else "items"]) - is_map > 0:
            raise BadAvro("a list of the schema has items of no bytes, or of many values for each byte")
        return 1 - VALUES_PER_BYTE
    if name not in ("record", "error", "fixed", "enum"):
        return _excess(named[name], named, types, depth)
    if "fields" in kind:
        return 1 + sum(below(field["type"]) for field in kind["fields"])
    return 1 - VALUES_PER_BYTE * int(kind.get("size", 1))
