"""Blocks of a Hudi log file (table versions 8 and 9), in plain Python.

A block is the magic bytes, the length of what follows, the format version, the kind, a map of headers, the content, a
map of footers, and the length once more.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import SEEK_CUR
from typing import Any, BinaryIO

from etc_policy.hudi.avro import MAX_SCHEMA_BYTES

MAGIC = b"#HUDI#"
_PARQUET_MAGIC = b"PAR1"
FORMAT_VERSION = 1
#: Kinds of blocks, by the ordinals of Hudi's enum.
COMMAND, DELETE, CORRUPT, AVRO_DATA, HFILE_DATA, PARQUET_DATA, CDC_DATA = range(7)
#: Keys of the headers that count here, by the ordinals of Hudi's enum.
INSTANT, TARGET, SCHEMA = 0, 1, 2
COMPACTED_BLOCK_TIMES, RECORD_POSITIONS, IS_PARTIAL, POSITIONS_BASE_INSTANT = 4, 5, 7, 8

#: Hudi ends a block at 256 MiB unless told otherwise; larger ones are not held in memory.
MAX_BLOCK_BYTES = 300 << 20
#: Instants have 17.
_MAX_INSTANT_BYTES = 100
#: Hudi writes eight.
MAX_HEADERS = 64

_INT, _LONG, _PAIR = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">ii")
_HEAD, START = struct.Struct(">6sq"), struct.Struct(">6sqii")


class BadLogFile(Exception):  # noqa: N818 - what a file is, not what went wrong here
    """The bytes are not what a log file has there; the reason is in the message."""


class OtherLogFile(Exception):  # noqa: N818 - what a file is
    """A log file without blocks, as table version 10 has them, or with what is not read; the message says what it holds."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a log file; `values` are a part (`avro_rows`) of all its rows, where they are known already."""

    kind: int
    header: Mapping[int, bytes]
    content: memoryview
    footer: Mapping[int, bytes] = field(default_factory=dict)
    values: Any = None


def read_blocks(stream: BinaryIO, size: int) -> Iterator[Block]:
    """The blocks of a log file of `size` bytes, one in memory at a time.

    Raises:
        OtherLogFile: it holds rows in another form, or a schema larger than Hudi writes.
        BadLogFile: its bytes are not blocks.

    """
    at = 0
    while at < size:
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise BadLogFile("truncated")
        magic, length = _HEAD.unpack(head)
        if not at and magic.startswith(_PARQUET_MAGIC):
            raise OtherLogFile("Parquet rows without blocks, which are not read")
        at += _HEAD.size + length
        if magic != MAGIC or length <= 0 or at > size:
            raise BadLogFile("no block, or one beyond the end of the file")
        if length > MAX_BLOCK_BYTES:
            raise BadLogFile("a block larger than Hudi writes")
        body = stream.read(length)
        if len(body) < length:
            raise BadLogFile("truncated")
        yield _parse_block(memoryview(body))


def read_headers(stream: BinaryIO, size: int) -> Iterator[Mapping[int, bytes]]:
    """Of each block of a log file of `size` bytes that has a schema what of its header says how rows are written.

    What else is in it and its content are passed over.

    Raises:
        BadLogFile: its bytes are not blocks.

    """
    at = 0
    while at < size:
        magic, length, version, _ = START.unpack(_exactly(stream, START.size))
        if magic != MAGIC or version != FORMAT_VERSION or length <= 0:
            raise BadLogFile("no block")
        header = _read_header(stream)
        if SCHEMA in header:
            yield header
        at += _HEAD.size + length
        stream.seek(at)


def _read_header(stream: BinaryIO) -> dict[int, bytes]:
    (count,) = _INT.unpack(_exactly(stream, _INT.size))
    if not 0 <= count <= MAX_HEADERS:
        raise BadLogFile("more headers than there are")
    pairs = {}
    for _ in range(count):
        key, length = _PAIR.unpack(_exactly(stream, _PAIR.size))
        if not 0 <= length <= (MAX_SCHEMA_BYTES if key in (SCHEMA, IS_PARTIAL) else MAX_BLOCK_BYTES):
            raise BadLogFile("a header larger than Hudi writes")
        if key in (SCHEMA, IS_PARTIAL):
            pairs[key] = _exactly(stream, length)
        else:
            stream.seek(length, SEEK_CUR)
    return pairs


def _exactly(stream: BinaryIO, length: int) -> bytes:
    content = stream.read(length)
    if len(content) < length:
        raise BadLogFile("truncated")
    return content


def _parse_block(body: memoryview) -> Block:
    version, kind = _PAIR.unpack_from(body)
    if version != FORMAT_VERSION:
        raise BadLogFile("another format version")
    header, at = _parse_map(body, _PAIR.size)
    (length,) = _LONG.unpack_from(body, at)
    start, at = at + _LONG.size, at + _LONG.size + length
    if length < 0 or at > len(body):
        raise BadLogFile("content beyond the end of its block")
    footer, end = _parse_map(body, at)
    if end + _LONG.size != len(body) or _LONG.unpack_from(body, end)[0] != len(body) + len(MAGIC):
        raise BadLogFile("the block's two lengths differ")
    return Block(kind, header, body[start:at], footer)


def encode_block(
    kind: int, header: Mapping[int, bytes], parts: Iterable[bytes | memoryview]
) -> Iterator[bytes | memoryview]:
    """The bytes of a block without a footer whose content is in parts, which are not copied."""
    content = tuple(parts)
    pairs = b"".join(_PAIR.pack(key, len(value)) + value for key, value in header.items())
    size = sum(map(len, content))
    head = _PAIR.pack(FORMAT_VERSION, kind) + _INT.pack(len(header)) + pairs + _LONG.pack(size)
    length = len(head) + size + _INT.size + _LONG.size
    yield _HEAD.pack(MAGIC, length) + head
    yield from content
    yield _INT.pack(0) + _LONG.pack(len(MAGIC) + length)


def _parse_map(body: memoryview, at: int) -> tuple[dict[int, bytes], int]:
    (count,) = _INT.unpack_from(body, at)
    at += _INT.size
    if not 0 <= count <= MAX_HEADERS:
        raise BadLogFile("more headers than there are")
    pairs = {}
    for _ in range(count):
        key, length = _PAIR.unpack_from(body, at)
        at += _PAIR.size
        if length < 0 or at + length > len(body):
            raise BadLogFile("a header beyond the end of its block")
        if key in (INSTANT, TARGET) and length > _MAX_INSTANT_BYTES:  # they are kept when the block is not
            raise BadLogFile("an instant longer than Hudi writes")
        if key == SCHEMA and length > MAX_SCHEMA_BYTES:
            raise OtherLogFile("a schema larger than Hudi writes")
        pairs[key] = bytes(body[at : at + length])
        at += length
    return pairs, at
