"""HFiles as Hudi writes them for its metadata table, read whole: every record, in their order.

A file is a row of blocks: first the data blocks, each a row of records, then what a look-up by key needs, and at the end a
trailer of fixed size, which says what there is. The indexes are not read, as nothing is looked up.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

#: All blocks of a file become at most so large, or so many times as large as the file: the names of a million files.
MAX_INFLATED_BYTES, INFLATED_TIMES, _SMALL_BYTES = 128 << 20, 30, 1 << 20

_TRAILER_BYTES = 4096
_TRAILER, _DATA, _FILE_INFO, _PROTOBUF = b'TRABLK"$', b"DATABLK*", b"FILEINF2", b"PBUF"
#: Blocks that may lie between those of data: indexes and bloom filters.
_PASSED_OVER = frozenset((b"IDXLEAF2", b"IDXINTE2", b"BLMFBLK2", b"METABLKc"))
_VERSION = 3
_GZIP = 1
#: Numbers of the fields of a trailer.
_INFO_OFFSET, _LOAD_OFFSET, _ENTRIES, _FIRST_DATA, _CODEC = 1, 2, 7, 9, 12
#: Magic, bytes on disk and inflated, both without this header, the block before, checksums, bytes on disk without checksums.
_HEAD = struct.Struct(">8siiqbii")
_LENGTHS, _SHORT, _INT = struct.Struct(">ii"), struct.Struct(">H"), struct.Struct(">i")
_WITH_GZIP_HEADER = zlib.MAX_WBITS | 16
#: A key ends with a time and the kind of the record, which is that of a put.
_TIME_BYTES, _PUT = 8, 4


class BadHFile(Exception):  # noqa: N818 - what a file is, not what went wrong here
    """The bytes are not an HFile of the kind that Hudi writes; the reason is in the message."""


class HFile(NamedTuple):
    """The records of a file, each with its key, and what the file says about itself."""

    records: list[tuple[bytes, bytes]]
    info: dict[bytes, bytes]


class _Trailer(NamedTuple):
    info_offset: int
    load_offset: int
    entries: int


def read_hfile(content: bytes) -> HFile:
    """An HFile's records and information.

    Raises:
        BadHFile: it is no HFile, is damaged, or has something in it that Hudi does not write.

    """
    try:
        trailer = _trailer(content)
        blocks = _Blocks(content)
        records = [record for block in blocks.data(trailer.load_offset) for record in _records(block)]
        info = _pairs(blocks.one(trailer.info_offset, _FILE_INFO))
    except (struct.error, IndexError, zlib.error, ValueError) as error:
        raise BadHFile(f"cut short or damaged: {error}") from error
    if len(records) != trailer.entries:
        raise BadHFile(f"{len(records)} records, and {trailer.entries} by its trailer")
    return HFile(records, info)


class _Blocks:
    """The blocks of a file, inflated within bounds."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._left = min(MAX_INFLATED_BYTES, max(_SMALL_BYTES, INFLATED_TIMES * len(content)))

    def data(self, end: int) -> Iterator[bytes]:
        """The data blocks from the begin of the file to an offset."""
        at = 0
        while at < end:
            magic, on_disk, *_ = _HEAD.unpack_from(self._content, at)
            if on_disk < 0:
                raise BadHFile("a block of negative size")
            if magic == _DATA:
                yield self.one(at, _DATA)
            elif magic not in _PASSED_OVER:
                raise BadHFile(f"a block of the kind {magic!r}")
            at += _HEAD.size + on_disk
        if at != end:
            raise BadHFile("data blocks that do not end where the trailer says")

    def one(self, at: int, kind: bytes) -> bytes:
        """The block at an offset, which must be of that kind."""
        magic, with_checksums, size, _, _, _, on_disk = _HEAD.unpack_from(self._content, at)
        if magic != kind or size < 0 or at + on_disk > len(self._content):
            raise BadHFile(f"no block of the kind {kind!r} at {at}")
        if not _HEAD.size <= on_disk <= _HEAD.size + with_checksums:  # else each block could be read to the file's end
            raise BadHFile("a block that is read beyond its end")
        self._left -= size
        if self._left < 0:
            raise BadHFile("blocks that become far larger when they are inflated")
        stored = self._content[at + _HEAD.size : at + on_disk]
        content = _inflated(stored, size)
        if len(content) != size:
            raise BadHFile("a block of another size than its header says")
        return content


def _inflated(stored: bytes, size: int) -> bytes:
    """The content; gzip's own checksum is checked at its end, so none of the block's need be."""
    inflater = zlib.decompressobj(_WITH_GZIP_HEADER)
    content = inflater.decompress(stored, size + 1)
    if not inflater.eof:
        raise BadHFile("a block that does not end")
    return content


def _trailer(content: bytes) -> _Trailer:
    trailer = content[-_TRAILER_BYTES:]
    if len(trailer) < _TRAILER_BYTES or not trailer.startswith(_TRAILER):
        raise BadHFile("no trailer")
    if _INT.unpack_from(trailer, _TRAILER_BYTES - _INT.size)[0] & 0xFFFFFF != _VERSION:
        raise BadHFile("another version")
    length, at = _varint(trailer, len(_TRAILER))
    fields = dict(_fields(trailer[at : at + length]))
    numbers = [fields.get(number, 0) for number in (_INFO_OFFSET, _LOAD_OFFSET, _ENTRIES, _CODEC, _FIRST_DATA)]
    info_offset, load_offset, entries, codec, first = (one if isinstance(one, int) else -1 for one in numbers)
    if codec != _GZIP or first or not 0 <= load_offset <= info_offset < len(content):
        raise BadHFile("a trailer of another form")
    return _Trailer(info_offset, load_offset, entries)


def _records(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each record: a row, no column, a time, the kind, the value and the number of a version, which is 0."""
    at = 0
    while at < len(block):
        key_bytes, value_bytes = _LENGTHS.unpack_from(block, at)
        begin = at + _LENGTHS.size
        (row_bytes,) = _SHORT.unpack_from(block, begin)
        value = begin + key_bytes
        end = value + value_bytes
        # an empty family and an empty name of a column: a byte that says so
        plain = (
            key_bytes == _SHORT.size + row_bytes + 1 + _TIME_BYTES + 1 and not block[begin + _SHORT.size + row_bytes]
        )
        if not plain or value_bytes < 0 or block[value - 1] != _PUT or block[end]:
            raise BadHFile("a record of another form")
        yield block[begin + _SHORT.size : begin + _SHORT.size + row_bytes], block[value:end]
        at = end + 1


def _pairs(block: bytes) -> dict[bytes, bytes]:
    """The pairs of a file's information."""
    if not block.startswith(_PROTOBUF):
        raise BadHFile("information of another form")
    length, at = _varint(block, len(_PROTOBUF))
    pairs = {}
    for _, pair in _fields(block[at : at + length]):
        if isinstance(pair, int):
            raise BadHFile("information of another form")
        fields = dict(_fields(pair))
        key, value = fields.get(1, b""), fields.get(2, b"")
        if isinstance(key, bytes) and isinstance(value, bytes):
            pairs[key] = value
    return pairs


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a Protobuf message that has numbers, texts and messages alone."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        value, at = _varint(message, at)
        if tag & 7 == 0:
            yield tag >> 3, value
        elif tag & 7 == 2 and at + value <= len(message):
            yield tag >> 3, message[at : at + value]
            at += value
        else:
            raise BadHFile("a message of another form")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and where it ends; of ten bytes at most."""
    value = 0
    for place, byte in enumerate(content[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise BadHFile("a number that does not end")
