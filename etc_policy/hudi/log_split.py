"""Splits a log file by event time: the rows at or before T into one, the later ones into another (facts: split-blocks).

Rows of Avro blocks are copied byte by byte, those of Parquet blocks are written anew, and one block is in memory at a time.
Whatever is not sure to be read alike by Hudi is refused: nothing is known of it, so nobody may take it apart.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, BinaryIO

from etc_policy.hudi import blocks as log_blocks
from etc_policy.hudi.avro_rows import HEAD, RowSchema, row_schema, values_at
from etc_policy.hudi.block_times import TimesWanted, UnknownTimes, avro_times, split_parquet
from etc_policy.hudi.blocks import BadLogFile, Block, OtherLogFile, encode_block, read_blocks
from etc_policy.hudi.footers import can_read_parquet
from etc_policy.hudi.log_forms import OPERATION_COLUMN
from etc_policy.hudi.metadata_values import load_json

#: A larger log file is not one that Hudi writes: offsets in it do not fit an int of Java.
MAX_LOG_BYTES = 2 << 30
_KINDS = {
    log_blocks.COMMAND: "command",
    log_blocks.DELETE: "delete",
    log_blocks.CORRUPT: "corrupt",
    log_blocks.HFILE_DATA: "HFile",
    log_blocks.CDC_DATA: "change data capture",
}
#: Places of records in a base file: rows are missing in a part, and the part's base file is another one.
_POSITIONS = (log_blocks.RECORD_POSITIONS, log_blocks.POSITIONS_BASE_INSTANT)
#: Any other header changes how a block is read.
_KNOWN_HEADERS = frozenset({log_blocks.INSTANT, log_blocks.SCHEMA, log_blocks.IS_PARTIAL, *_POSITIONS})
_DELETED = "_hoodie_is_deleted"
#: How many rows are on one side of T, and the content of their block in pieces.
_Side = tuple[int, list[bytes | memoryview]]
_LENGTH = struct.Struct(">i")


class NotSplittable(Exception):  # noqa: N818 - an answer, not a failure
    """The log file cannot be split; the reason is in the message, as a clause."""


class RepeatsOthers(NotSplittable):
    """A log compaction wrote the file: it holds again the rows of blocks of other files, by the instants of these."""

    def __init__(self, instants: frozenset[str]) -> None:
        super().__init__("a log compaction wrote it, and not all that it repeats is in log files beside it")
        self.instants = instants


@dataclass(slots=True)
class Part:
    """One side of a split: where its blocks are written, and how many rows and bytes they hold."""

    stream: BinaryIO
    rows: int = 0
    size_bytes: int = 0


def split_log_file(
    stream: BinaryIO, size: int, wanted: TimesWanted, threshold_ms: int, early: Part, late: Part
) -> None:
    """Append the rows of a log file of `size` bytes at or before T to `early` and the others to `late`, in their order.

    Headers are kept but for the places of records. A block without a row of a side is not written there.

    Raises:
        RepeatsOthers: a log compaction wrote it.
        NotSplittable: it holds deletes, partial updates, a row without an event time, or what is not data of a known form.
        OSError: it cannot be read, or a part not be written.

    """
    if size > MAX_LOG_BYTES:
        raise NotSplittable(f"it is larger than {MAX_LOG_BYTES >> 30} GiB")
    try:
        for block in read_blocks(stream, size):
            _require_plain(block)
            _split_block(block, wanted, threshold_ms, early, late)
    except (OSError, NotSplittable):
        raise
    except (UnknownTimes, OtherLogFile) as why:
        raise NotSplittable(f"it holds {why}") from why
    except BadLogFile as why:
        raise NotSplittable(f"it is damaged: {why}") from why
    except Exception as why:  # whatever a decoder raises over bytes that are not what they should be
        raise NotSplittable("it is damaged: a block that cannot be decoded") from why


def instants_in(stream: BinaryIO, size: int) -> frozenset[str]:
    """The instants of the blocks of a log file; none where it cannot be read to its end."""
    try:
        return frozenset(block.header.get(log_blocks.INSTANT, b"").decode() for block in read_blocks(stream, size))
    except (OtherLogFile, BadLogFile, ValueError):
        return frozenset()


def _require_plain(block: Block) -> None:
    """Return for a data block of whole rows of which all is known."""
    if repeated := block.header.get(log_blocks.COMPACTED_BLOCK_TIMES):
        raise RepeatsOthers(frozenset(repeated.decode("ascii", "replace").split(",")))
    if block.kind not in (log_blocks.AVRO_DATA, log_blocks.PARQUET_DATA):
        raise NotSplittable(f"it holds a {_KINDS.get(block.kind, 'unknown')} block")
    if block.kind == log_blocks.PARQUET_DATA and not can_read_parquet():
        raise NotSplittable("it holds a Parquet block, and pyarrow 26 or later, which reads it, is not installed")
    if block.header.get(log_blocks.IS_PARTIAL, b"false").lower() != b"false":
        raise NotSplittable("it holds a partial update")
    others = block.header.keys() - _KNOWN_HEADERS
    if others or block.footer:
        what = f"header {min(others)}" if others else "footer"
        raise NotSplittable(f"a block of it has a {what}, which is not known")
    if log_blocks.SCHEMA not in block.header or log_blocks.INSTANT not in block.header:
        raise NotSplittable("a block of it lacks its schema or its instant")
    if _has_operations(block.header[log_blocks.SCHEMA]):
        raise NotSplittable("its rows carry their operation (changelog mode), by which they may delete")
    if any(_may_be_deleted(block)):
        raise NotSplittable("it holds a deleted row, or a Parquet block that may")


@lru_cache(maxsize=16)
def _has_operations(schema_text: bytes) -> bool:
    return any(field["name"] == OPERATION_COLUMN for field in load_json(schema_text)["fields"])


def _may_be_deleted(block: Block) -> Iterator[bool]:
    """Of each row whether it is marked as deleted, which is not looked for in Parquet; nothing where there is no such mark."""
    schema = _delete_mark(block.header[log_blocks.SCHEMA])
    if schema is None:
        return iter(())
    if block.kind == log_blocks.PARQUET_DATA:
        return iter((True,))
    _, count = HEAD.unpack_from(block.content)
    return map(bool, values_at(block.content[HEAD.size :], count, schema, (_DELETED,)))


@lru_cache(maxsize=16)
def _delete_mark(schema_text: bytes) -> RowSchema | None:
    schema: Any = load_json(schema_text)
    has_mark = any(field["name"] == _DELETED for field in schema["fields"])
    return row_schema(schema) if has_mark else None


def _split_block(block: Block, wanted: TimesWanted, threshold_ms: int, early: Part, late: Part) -> None:
    sides = _parquet_sides if block.kind == log_blocks.PARQUET_DATA else _avro_sides
    header = {key: value for key, value in block.header.items() if key not in _POSITIONS}
    for part, (number, pieces) in zip((early, late), sides(block, wanted, threshold_ms), strict=True):
        if number:
            for written in encode_block(block.kind, header, pieces):
                part.stream.write(written)
                part.size_bytes += len(written)
            part.rows += number


def _parquet_sides(block: Block, wanted: TimesWanted, threshold_ms: int) -> list[_Side]:
    """What is all on one side stays as it was written."""
    sides = split_parquet(block, wanted, threshold_ms)
    is_one = not all(rows for rows, _ in sides)
    return [(rows, [block.content if is_one else content]) for rows, content in sides]


def _avro_sides(block: Block, wanted: TimesWanted, threshold_ms: int) -> list[_Side]:
    """Neighbouring rows of one side are one piece, as they stand in the block."""
    version, count = HEAD.unpack_from(block.content)
    times = list(avro_times(block, wanted))
    if None in times:
        raise NotSplittable("it holds a row without an event time")
    if len(times) != count:
        raise BadLogFile("another number of rows than its header says")
    pieces: tuple[list[bytes | memoryview], list[bytes | memoryview]] = ([], [])
    numbers, at = [0, 0], HEAD.size
    for is_late, rows in groupby(time_ms is not None and time_ms > threshold_ms for time_ms in times):
        start, number = at, len(list(rows))
        for _ in range(number):
            at += _LENGTH.size + _LENGTH.unpack_from(block.content, at)[0]
        pieces[is_late].append(block.content[start:at])
        numbers[is_late] += number
    return [(number, [HEAD.pack(version, number), *side]) for number, side in zip(numbers, pieces, strict=True)]
