"""Log files that Hudi may not read: what one holds is run by whoever reads it, or keeps its reader at work without an end.

Hudi makes Java objects of any class of delete blocks as releases before 0.14 wrote them (facts: objects-of-a-delete-block). A
block whose content ends before it begins leads back to itself (facts: blocks-that-lead-back).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from os import SEEK_CUR, SEEK_END
from typing import BinaryIO

from etc_policy.hudi.blocks import DELETE, FORMAT_VERSION, MAGIC, MAX_HEADERS, START, BadLogFile

#: Versions of a delete block whose content is a serialized object; Hudi reads every other one as Avro.
_OF_OBJECTS = (1, 2)
#: It takes lengths of blocks for 32 bits.
_MAX_LENGTH = (1 << 31) - 1
#: A file that is broken is searched up to this size, and for so many blocks.
_MAX_BROKEN_BYTES, _MOST_BLOCKS = 2 << 30, 100_000
_CHUNK_BYTES = 1 << 20

_INT, _LONG, _PAIR = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">ii")
#: Where a block may begin, by its magic bytes; the next may begin within what is a block's head.
_BLOCK = re.compile(MAGIC[:1] + rb"(?=" + MAGIC[1:] + rb".{16})", re.DOTALL)


class _NoBlockError(BadLogFile):
    """Hudi reads no block there: the file ends before, or Hudi gives it up."""


def may_do_harm(stream: BinaryIO) -> bool:
    """Whether Hudi may make an object of any class of what a log file holds, or come to no end, whichever way it goes.

    Its ways differ only where a file is not block after block as it is written: there a block may begin at any magic bytes,
    before the place too, as lengths may be negative.
    """
    size = stream.seek(0, SEEK_END)
    try:
        return any(version in _OF_OBJECTS for version in _delete_versions(stream, size))
    except BadLogFile:
        return _may_anywhere(stream, size)


def _delete_versions(stream: BinaryIO, size: int) -> Iterator[int]:
    """The version of each delete block.

    Raises:
        BadLogFile: the file is not block after block, each with lengths that agree.

    """
    at = 0
    while at < size:
        stream.seek(at)
        magic, length, version, kind = START.unpack(_exactly(stream, START.size))
        begin = at + len(MAGIC) + _LONG.size
        end = begin + length - _LONG.size
        if magic != MAGIC or version != FORMAT_VERSION or not 0 < length <= _MAX_LENGTH or begin + length > size:
            raise BadLogFile("no block")
        _skip_map(stream)
        (content,) = _LONG.unpack(_exactly(stream, _LONG.size))
        if not 0 <= content <= end - stream.tell():
            raise BadLogFile("content beyond the end of its block")
        footer = stream.tell() + content
        if kind == DELETE and content >= _INT.size:
            yield _INT.unpack(_exactly(stream, _INT.size))[0]
        stream.seek(footer)
        _skip_map(stream)
        if stream.tell() != end or _LONG.unpack(_exactly(stream, _LONG.size))[0] != len(MAGIC) + length:
            raise BadLogFile("the block's two lengths differ")
        at = begin + length


def _may_anywhere(stream: BinaryIO, size: int) -> bool:
    """Whether a block that does harm may begin anywhere in a file; so it is where that would take too long to know."""
    if size > _MAX_BROKEN_BYTES:
        return True
    places = enumerate(_blocks(stream))
    return any(number == _MOST_BLOCKS or _does_harm(stream, at, size) for number, at in places)


def _blocks(stream: BinaryIO) -> Iterator[int]:
    """All places where a block may begin; the stream may be read between them."""
    at, kept = 0, b""
    while True:
        stream.seek(at + len(kept))
        part = stream.read(_CHUNK_BYTES)
        if not part:
            return
        content = kept + part
        yield from (at + found.start() for found in _BLOCK.finditer(content))
        kept = content[1 - START.size :]
        at += len(content) - len(kept)


def _does_harm(stream: BinaryIO, at: int, size: int) -> bool:
    """Whether what begins at a place may be a delete block of objects, or a block that leads back."""
    stream.seek(at)
    _, whole, form, kind = START.unpack(_exactly(stream, START.size))
    if form != FORMAT_VERSION and 0 <= stream.tell() - _INT.size + _lower(whole) <= at:
        return True  # it has no length of its content
    try:
        _skip_map(stream)
        length = _lower(_LONG.unpack(_exactly(stream, _LONG.size))[0])
        if 0 <= stream.tell() + length <= at:
            return True
        version, data = _PAIR.unpack(_exactly(stream, _PAIR.size)) if kind == DELETE else (0, 0)
    except _NoBlockError:
        return False
    except BadLogFile:
        return True
    # Hudi reads all of the content before it looks into it
    return version in _OF_OBJECTS and 0 <= data <= length - _PAIR.size and stream.tell() + length - _PAIR.size <= size


def _lower(length: int) -> int:
    """The lower half of a length, which Hudi takes for the length."""
    return (length + (1 << 31)) % (1 << 32) - (1 << 31)


def _skip_map(stream: BinaryIO) -> None:
    """As Hudi does, which reads no header where their number is negative."""
    (count,) = _INT.unpack(_exactly(stream, _INT.size))
    for number in range(count):
        if number == MAX_HEADERS:
            raise BadLogFile("more headers than there are")
        key, length = _PAIR.unpack(_exactly(stream, _PAIR.size))
        if not 0 <= key < MAX_HEADERS or length < 0:
            raise _NoBlockError("no header")
        stream.seek(length, SEEK_CUR)


def _exactly(stream: BinaryIO, length: int) -> bytes:
    content = stream.read(length)
    if len(content) < length:
        raise _NoBlockError("truncated")
    return content
