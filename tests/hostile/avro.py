"""Avro files that are small and ask for much: by their schema, their counts, their compression, or their lengths."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

from tests.unit.hudi.log_file import zigzag

#: Raw deflate of a MiB of zeros that ends on a byte, so that it can be repeated.
_DEFLATER = zlib.compressobj(9, zlib.DEFLATED, -15)
_MIB_OF_ZEROS = _DEFLATER.compress(bytes(1 << 20)) + _DEFLATER.flush(zlib.Z_FULL_FLUSH)
_SYNC = b"s" * 16
MANY = (2**29, 2**40, 2**62, -(2**29), 10**6)


def container(schema: Any, block: bytes, *, codec: str = "null", count: int = 1, text: bytes | None = None) -> bytes:
    """An Avro file of one block; `text` is the schema where it is no JSON value."""
    raw = json.dumps(schema).encode() if text is None else text
    pairs = {b"avro.schema": raw, b"avro.codec": codec.encode()}
    meta = b"".join(zigzag(len(key)) + key + zigzag(len(value)) + value for key, value in pairs.items())
    head = b"Obj\x01" + zigzag(len(pairs)) + meta + b"\0" + _SYNC
    return head + zigzag(count) + zigzag(len(block)) + block + _SYNC


def record(name: str, *types: Any) -> dict[str, Any]:
    """A record with a field for each type."""
    return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": one} for i, one in enumerate(types)]}


def array(items: Any) -> dict[str, Any]:
    """An array."""
    return {"type": "array", "items": items}


def recursive(random: Random) -> dict[str, Any]:
    """A record that holds itself."""
    inner = random.choice(
        [
            "r",
            ["null", "r"],
            array("r"),
            {"type": "map", "values": "r"},
            record("s", "r"),
            ["null", record("s", ["null", "r"], "long")],
        ]
    )
    return record("r", inner, *random.choice([(), ("r",), ("long",)]))


def of_no_bytes(random: Random) -> Any:
    """A type whose values take no byte."""
    fixed = {"type": "fixed", "name": "x", "size": 0}
    return random.choice(
        ["null", fixed, record("e"), record("e", *["null"] * random.choice([1, 300])), record("e", fixed)]
    )


def nested(depth: int) -> Any:
    """Records in records."""
    schema: Any = "long"
    for level in range(depth):
        schema = record(f"n{level}", schema)
    return schema


def doubling(levels: int, leaf: str) -> dict[str, Any]:
    """Each record holds the one below twice, by its name."""
    schema = record("d0", leaf, leaf)
    for level in range(1, levels):
        schema = record(f"d{level}", schema, f"d{level - 1}")
    return schema


def _count_of_nothing(random: Random) -> bytes:
    return container(record("r", array(of_no_bytes(random))), zigzag(random.choice(MANY)) + b"\x02\0")


def _counts(random: Random) -> bytes:
    items = random.choice(["boolean", "long", "string", "bytes", ["null", "long"], array("long"), "double"])
    kind = random.choice([array(items), {"type": "map", "values": items}])
    return container(record("r", kind), zigzag(random.choice(MANY)) + bytes(random.randrange(9)))


def _recursion(random: Random) -> bytes:
    return container(
        recursive(random), random.choice([b"\x02", b"\0", b"\x02\x02"]) * random.choice([1, 5_000, 300_000])
    )


def _depth(random: Random) -> bytes:
    return container(nested(random.choice([40, 200, 320])), b"\x02" * 9)


def _deep_arrays(random: Random) -> bytes:
    schema: Any = "long"
    for _ in range(random.choice([100, 450, 900])):
        schema = array(schema)
    return container(record("r", schema), b"\x02" * 2_000)


def _doubling(random: Random) -> bytes:
    return container(doubling(random.choice([20, 27]), random.choice(["null", "boolean", "long"])), b"\0" * 4_000)


def _wide(random: Random) -> bytes:
    wide = record("w", "boolean", *["null"] * random.choice([500, 3_000]))
    return container(record("r", array(wide)), zigzag(200_000) + bytes(200_000) + b"\0")


def _bomb(random: Random) -> bytes:
    bomb = _MIB_OF_ZEROS * random.choice([50, 2_000, 6_000])
    schema = record("r", array(random.choice(["boolean", "long", "null"])), "bytes")
    return container(schema, bomb, codec="deflate")


def _codec(random: Random) -> bytes:
    codec = random.choice(["snappy", "zstandard", "bzip2", "xz", "lz4", "../x", "", "\x1b[2J"])
    return container(record("r", "long"), bytes(40), codec=codec)


def _decimal(random: Random) -> bytes:
    size = random.choice([200_000, 2_000_000])
    shape = {"logicalType": "decimal", "precision": random.choice([10, 10**9]), "scale": random.choice([2, 10**9])}
    return container(record("r", {"type": "bytes", **shape}), zigzag(size) + b"\x7f" * size)


def _logical(random: Random) -> bytes:
    kind = random.choice(["date", "timestamp-millis", "timestamp-micros", "time-millis", "uuid", "decimal", ["x"], {}])
    stored = random.choice(["int", "long", "string", "bytes"])
    return container(record("r", {"type": stored, "logicalType": kind}), zigzag(2**62) + bytes(9))


def _schema_text(random: Random) -> bytes:
    text = random.choice(
        [
            b"[" * 970 + b"]" * 970,
            b"[" * 100_000,
            b"1" + b"0" * 5_000,
            b"null",
            b'"null"',
            b'"unknown"',
            b"{}",
            b"\xff",
            b'{"type": "record"}',
            b'{"type": "record", "name": 1, "fields": {}}',
            b'{"type": "record", "name": "r", "fields": [{"name": "f", "type": "gone"}]}',
            b'{"type": "fixed", "name": "f", "size": ' + b"9" * 30 + b"}",
            b'{"type": "fixed", "name": "f", "size": -1}',
            b'{"type": {"type": {"type": "record"}}}',
            b'{"type": "record", "name": "r", "fields": [], "__fastavro_parsed": true, "__named_schemas": 1}',
            b'{"type": "array", "items": "null", "__fastavro_parsed": true, "__named_schemas": {}}',
            b'{"type": "enum", "name": "e", "symbols": []}',
        ]
    )
    return container(None, zigzag(2**29) + bytes(60), text=text)


def _lengths(random: Random) -> bytes:
    """Lengths of the header or of a value that nothing follows."""
    long = zigzag(random.choice([2**31, 2**62, -1, -(2**62)]))
    return random.choice(
        [
            b"Obj\x01" + long + b"\x16avro.schema",
            b"Obj\x01\x02" + long,
            b"Obj\x01\x02\x16avro.schema" + long + b"{}",
            b"Obj\x01",
            b"Obj\x01\0" + _SYNC,
            b"Obj\x01" + b"\xff" * 4_000,
            container(record("r", "string"), long + b"abc"),
            container(record("r", "bytes"), long),
            container(record("r", ["null", "long"]), long),
            container(record("r", {"type": "enum", "name": "e", "symbols": ["A"]}), long),
            container(record("r", "long"), b"\x02", count=random.choice([0, -1, 2**62])),
        ]
    )


def _pattern(random: Random) -> bytes:
    """Large enough to be read by a pattern of its schema."""
    stat = random.choice(
        [
            record("s", *["string"] * 3_000),
            record("s"),
            {
                "type": "record",
                "name": "s",
                "fields": [{"name": "fileId", "type": "null"}, {"name": "path", "type": "null"}],
            },
            record("s", *[array(array("string"))] * 50),
        ]
    )
    stats = {"name": "partitionToWriteStats", "type": {"type": "map", "values": array(stat)}}
    schema = {"type": "record", "name": "r", "fields": [stats]}
    return container(schema, b"\x02\x02p" + zigzag(2**50) + bytes(1_200_000))


HOSTILE: tuple[Callable[[Random], bytes], ...] = (
    _count_of_nothing,
    _counts,
    _recursion,
    _depth,
    _deep_arrays,
    _doubling,
    _wide,
    _bomb,
    _codec,
    _decimal,
    _logical,
    _schema_text,
    _lengths,
    _pattern,
)


def hostile_avro(random: Random) -> tuple[str, bytes]:
    """One of them, with its kind."""
    make = random.choice(HOSTILE)
    return make.__name__.strip("_"), make(random)


def damaged(random: Random, good: bytes) -> bytes:
    """A good file with a few bytes changed, cut or doubled."""
    data = bytearray(good)
    for _ in range(random.choice([1, 1, 2, 8])):
        place = random.randrange(len(data))
        match random.randrange(4):
            case 0:
                data[place] = random.randrange(256)
            case 1:
                del data[place : place + random.choice([1, 3, 40])]
            case 2:
                data[place:place] = data[place : place + random.choice([1, 20])] + random.randbytes(random.randrange(3))
            case _:
                data[place:place] = zigzag(random.choice(MANY))
        data = data or bytearray(b"x")
    return bytes(data)
