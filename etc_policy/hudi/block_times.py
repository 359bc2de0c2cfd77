"""The smallest event time in a Hudi log file, from its blocks.

Everything unexpected makes it unknown: a smallest event time that may be too large is never returned.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, BinaryIO

from etc_policy.hudi import blocks as log_blocks
from etc_policy.hudi.avro_rows import (
    CONTENT_VERSIONS,
    HEAD,
    Path,
    RowSchema,
    ends_of,
    parts_at,
    row_schema,
    values_of,
    values_together,
)
from etc_policy.hudi.blocks import Block, read_blocks
from etc_policy.hudi.delete_blocks import ordering_values
from etc_policy.hudi.event_time_values import TimeOf, kind_of, reads_as_spark, time_reader
from etc_policy.hudi.metadata_values import load_json
from etc_policy.hudi.parquet import NullRows, split_rows, stored_values
from etc_policy.hudi.schemas import find_column
from etc_policy.policy.manifest import EventTime

_SAMPLE = 60
_PARTIAL, _LACKING = "a partial update", "a block without the column"
_OTHER_TYPE = "a block whose column Hudi would repair, or holds no times"
_NO_TIME, _NO_TEXT = "a value that is not a time", "a text that is not a time"
_OF_ANOTHER = "a block of a time when the column's name was another column's"
#: Why the time of a file is unknown that holds rows without one.
ROWS_WITHOUT_TIMES = (_PARTIAL, _LACKING)
#: Why no event times are known that were recorded: of another column than this one.
OTHER_COLUMN = (_LACKING, _OTHER_TYPE, _NO_TIME, _NO_TEXT)
_KINDS = {log_blocks.HFILE_DATA: "HFile", log_blocks.CORRUPT: "corrupt"}


class UnknownTimes(Exception):  # noqa: N818 - an answer, not a failure
    """The smallest event time cannot be known; the reason is in the message."""


class UntimedDelete(UnknownTimes):
    """A delete has no event time; what else is in the file may have one."""


class UnreadableValue(UnknownTimes):
    """A text, or a number without a unit, that is not a time for Spark either, by the policy; `sample` is its beginning."""

    def __init__(self, value: object, why: str) -> None:
        super().__init__(why)
        self.sample = str(value)[:_SAMPLE]


@dataclass(frozen=True, slots=True)
class TimesWanted:
    """Which column to read, its Avro type in the table where that is known, and the table's ordering fields.

    In blocks of an instant before `since` the column's name is that of another one.
    """

    event_time: EventTime
    column_type: str | None = None
    ordering_fields: tuple[str, ...] = ()
    since: str = ""

    @property
    def kind(self) -> str | None:
        """What the table's column holds."""
        return kind_of(self.column_type) if self.column_type else None


@dataclass(frozen=True, slots=True)
class LogTimes:
    """The smallest event time of a log file, None where it is unknown; `null_rows` counts rows that have none.

    `unreadable` is the first value of a file whose texts or numbers are no times as the policy says, `why` says in words why
    the time is unknown, `deletes` that a block of the file deletes rows and the others were understood, `damaged` that its
    bytes are not those of a log file.
    `seen_ms` is the smallest that was read, whatever else is in the file, `max_ms` the latest. `instants` are those of the
    writes whose rows and deletes were seen, `taken_back` those of which a block says that they were rolled back.
    """

    min_ms: int | None
    null_rows: int = 0
    unreadable: str | None = None
    why: str | None = field(default=None, compare=False)
    deletes: bool = field(default=False, compare=False)
    damaged: bool = field(default=False, compare=False)
    seen_ms: int | None = field(default=None, compare=False)
    max_ms: int | None = field(default=None, compare=False)
    instants: frozenset[str] = field(default=frozenset(), compare=False)
    taken_back: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def has_nulls(self) -> bool:
        """Whether a row has no event time."""
        return self.null_rows > 0


def read_times(stream: BinaryIO, size: int, wanted: TimesWanted) -> LogTimes:
    """The smallest event time of the log file of `size` bytes; unknown unless every block of it was understood.

    Raises:
        OSError: the file cannot be read; its times may be known another time.

    """
    return _times_in(read_blocks(stream, size), wanted)


def read_small_files(contents: Sequence[bytes], wanted: TimesWanted) -> Iterator[LogTimes]:
    """The same of each of several log files in memory, whose rows are decoded together where their schemas are the same."""
    files = [_Parsed(content) for content in contents]
    together: dict[bytes, list[tuple[_Parsed, int]]] = {}
    for file in files:
        for number, block in enumerate(file.blocks):
            if block.kind == log_blocks.AVRO_DATA and log_blocks.SCHEMA in block.header:
                together.setdefault(block.header[log_blocks.SCHEMA], []).append((file, number))
    for schema, places in together.items():
        with suppress(Exception):  # whatever it is, it is said of the file that has it
            column = _column_of(schema, wanted)
            rows = [_rows_of(file.blocks[number]) for file, number in places]
            for (file, number), values in zip(places, values_together(rows, column.rows, column.path), strict=True):
                file.blocks[number] = replace(file.blocks[number], values=values)
    for file in files:
        yield _times_in(file, wanted)


class _Parsed:
    """The blocks of a log file in memory, and the error of the first that cannot be read."""

    def __init__(self, content: bytes) -> None:
        self.blocks: list[Block] = []
        self._error: Exception | None = None
        try:
            self.blocks.extend(read_blocks(io.BytesIO(content), len(content)))
        except Exception as error:  # it is raised where a reader comes to it
            self._error = error

    def __iter__(self) -> Iterator[Block]:
        yield from self.blocks
        if self._error is not None:
            raise self._error


def _times_in(blocks: Iterable[Block], wanted: TimesWanted) -> LogTimes:
    found = _Found()
    times = _read_all(found, blocks, wanted)
    return replace(times, instants=frozenset(found.instants), taken_back=frozenset(found.taken_back))


def _read_all(found: _Found, blocks: Iterable[Block], wanted: TimesWanted) -> LogTimes:
    try:
        for block in blocks:
            found.add(block, wanted)
    except OSError:
        raise
    except UnreadableValue as why:
        return found.unknown(str(why), unreadable=why.sample if found.lowest is None else None)
    except (UnknownTimes, log_blocks.OtherLogFile) as why:
        return found.unknown(str(why))
    except log_blocks.BadLogFile as why:
        return found.unknown(f"damaged: {why}", damaged=True)
    except Exception:  # whatever a decoder raises over bytes that are not what they should be
        return found.unknown("damaged: a block that cannot be decoded", damaged=True)
    lowest_ms = None if found.untimed else found.lowest
    return LogTimes(
        lowest_ms, found.null_rows, why=found.untimed, deletes=found.deletes, seen_ms=found.lowest, max_ms=found.highest
    )


@dataclass(slots=True)
class _Found:
    """What was found in the blocks so far; `untimed` says why a delete has no event time."""

    lowest: int | None = None
    highest: int | None = None
    null_rows: int = 0
    deletes: bool = False
    untimed: str | None = None
    instants: set[str] = field(default_factory=set)
    taken_back: set[str] = field(default_factory=set)

    def add(self, block: Block, wanted: TimesWanted) -> None:
        """Look at a block; what was read of it before an error counts."""
        lowest, highest = self.lowest, self.highest
        self.deletes = self.deletes or block.kind == log_blocks.DELETE
        key, named = log_blocks.INSTANT, self.instants
        if block.kind == log_blocks.COMMAND:
            key, named = log_blocks.TARGET, self.taken_back
        named.add(block.header.get(key, b"").decode("ascii", "replace"))
        try:
            for value in _block_times(block, wanted):
                if value is None:
                    self.null_rows += 1
                elif type(value) is NullRows:
                    self.null_rows += value
                elif lowest is None or highest is None:
                    lowest = highest = value
                elif value < lowest:
                    lowest = value
                elif value > highest:
                    highest = value
        except UntimedDelete as why:
            self.untimed = str(why)
        finally:
            self.lowest, self.highest = lowest, highest

    def unknown(self, why: str, *, unreadable: str | None = None, damaged: bool = False) -> LogTimes:
        """The times of a file that was not understood to its end."""
        return LogTimes(None, unreadable=unreadable, why=why, damaged=damaged, seen_ms=self.lowest, max_ms=self.highest)


def _block_times(block: Block, wanted: TimesWanted) -> Iterator[int | None]:
    """The smallest and the latest of the event times in a block, others of them, and None or `NullRows` for rows without one."""
    if block.kind in (log_blocks.COMMAND, log_blocks.CDC_DATA):
        return iter(())
    if block.header.get(log_blocks.INSTANT, b"") < wanted.since.encode():
        raise UnknownTimes(_OF_ANOTHER)
    if block.kind == log_blocks.DELETE:
        return _delete_times(block, wanted)
    if block.header.get(log_blocks.IS_PARTIAL, b"false").lower() != b"false":
        raise UnknownTimes(_PARTIAL)
    if block.kind == log_blocks.AVRO_DATA:
        return _ends_and_gaps(block, wanted)
    if block.kind == log_blocks.PARQUET_DATA:
        return _parquet_times(block, wanted)
    raise UnknownTimes(f"{_KINDS.get(block.kind, 'unknown')} blocks, which are not read")


@dataclass(frozen=True, slots=True)
class _Column:
    """How to read the event-time column of records of one schema."""

    path: Path
    kind: str
    time_of: TimeOf
    rows: RowSchema
    is_text: bool
    has_unit: bool

    def times_of(self, part: Any) -> Iterator[int | None]:
        """The time of each value of a part of a block's rows."""
        for raw in values_of(part):
            yield None if raw is None else _known(raw.decode() if self.kind == "text" else raw, self)

    def ends_in(self, part: Any) -> tuple[int, int] | None:
        """The smallest and the latest of the times, where those of the smallest and the largest value are these.

        Numbers without a unit are read by their digits: the larger one is the later one only among those of one length.
        """
        ends = ends_of(part)
        if ends is None or not (self.has_unit or len(str(ends[0])) == len(str(ends[1]))):
            return None
        first_ms, last_ms = map(self.time_of, ends)
        return None if first_ms is None or last_ms is None else (first_ms, last_ms)


@lru_cache(maxsize=16)
def _column_of(schema_text: bytes, wanted: TimesWanted) -> _Column:
    schema = load_json(schema_text)
    found = find_column(schema["fields"], wanted.event_time.column)
    if found is None:
        raise UnknownTimes(_LACKING)
    path, column_type = found
    kind = kind_of(_type_name(column_type))
    if kind is None or (wanted.kind is not None and kind != wanted.kind):
        raise UnknownTimes(_OTHER_TYPE)
    return _Column(
        path=path,
        kind=kind,
        time_of=time_reader(kind, wanted.event_time),
        rows=row_schema(schema),
        is_text=kind == "text" and reads_as_spark(wanted.event_time.format),
        has_unit=kind != "number" or wanted.event_time.unit is not None,
    )


def _type_name(avro_type: Any) -> str:
    """The name of a type that may be null; `?` for a union of several."""
    if isinstance(avro_type, list):
        others = [option for option in avro_type if option != "null"]
        return _type_name(others[0]) if len(others) == 1 else "?"
    if not isinstance(avro_type, dict):
        return str(avro_type)
    logical, stored = avro_type.get("logicalType"), avro_type["type"]
    return str(logical or stored) if stored in ("int", "long", "string") else "?"


def avro_times(block: Block, wanted: TimesWanted) -> Iterator[int | None]:
    """The event time of each row of an Avro data block in order, None for a row that has none.

    Raises:
        UnknownTimes: a value is not a time, or the block cannot be read as one of these records.
        BadLogFile: its lengths do not add up.

    """
    column = _column_of(block.header[log_blocks.SCHEMA], wanted)
    for part in _parts_of(block, column):
        yield from column.times_of(part)


def _ends_and_gaps(block: Block, wanted: TimesWanted) -> Iterator[int | None]:
    """Of the same the smallest and the latest of many rows, which are known at once, and each None."""
    column = _column_of(block.header[log_blocks.SCHEMA], wanted)
    for part in _parts_of(block, column):
        yield from column.ends_in(part) or column.times_of(part)


def _parts_of(block: Block, column: _Column) -> Iterable[Any]:
    return parts_at(*_rows_of(block), column.rows, column.path) if block.values is None else (block.values,)


def _rows_of(block: Block) -> tuple[memoryview, int]:
    """What the rows of an Avro data block lie in, and how many they are."""
    version, count = HEAD.unpack_from(block.content)
    if version not in CONTENT_VERSIONS:
        raise UnknownTimes("another version of data block")
    return block.content[HEAD.size :], count


def _parquet_times(block: Block, wanted: TimesWanted) -> Iterator[int | None]:
    column = _column_of(block.header[log_blocks.SCHEMA], wanted)
    for raw in stored_values(block.content, column.path, column.kind):
        yield raw if type(raw) is NullRows else _known(raw, column)


def split_parquet(
    block: Block, wanted: TimesWanted, threshold_ms: int
) -> tuple[tuple[int, memoryview], tuple[int, memoryview]]:
    """The rows of a Parquet data block at or before T, and the later ones, each as `split_rows` gives them.

    Raises:
        UnknownTimes: a value is not a time, or a row has none.
        BadLogFile: the block cannot be read, or its rows cannot be written in the same form.

    """
    column = _column_of(block.header[log_blocks.SCHEMA], wanted)

    def is_late(raw: Any) -> bool:
        if raw is None:
            raise UnknownTimes("a row without an event time")
        return _known(raw, column) > threshold_ms

    return split_rows(block.content, column.path, column.kind, is_late)


def _delete_times(block: Block, wanted: TimesWanted) -> Iterator[int | None]:
    """The ordering values of deletes, where the table orders by the event-time column."""
    name, ordering = wanted.event_time.column, wanted.ordering_fields
    if name not in ordering:
        raise UntimedDelete("deletes carry no event time")
    column = _column_of(block.header[log_blocks.SCHEMA], wanted)
    for raw in ordering_values(block.content, column.kind, ordering.index(name), len(ordering)):
        value = None if raw is None else column.time_of(raw)
        if value is None:
            raise UntimedDelete("a delete without event time")
        yield value


def _known(raw: Any, column: _Column) -> int:
    """The time of a value; UnknownTimes where it is not one, UnreadableValue where Spark cannot read it either."""
    value = column.time_of(raw)
    if value is not None:
        return value
    if (column.is_text or not column.has_unit) and str(raw).strip():
        raise UnreadableValue(raw, _NO_TEXT if column.is_text else _NO_TIME)
    raise UnknownTimes(_NO_TIME)
