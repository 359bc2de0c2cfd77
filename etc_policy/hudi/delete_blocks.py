"""Delete blocks of a Hudi log file: the ordering value of each delete, as far as it can be an event time."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

import fastavro

from etc_policy.hudi.blocks import BadLogFile

_PAIR = struct.Struct(">ii")
_VERSION = 3  # before that a block is a serialized Java object
#: Keys and ordering values of a delete have less.
_MOST_BYTES = 1 << 20
#: The wrappers of `HoodieDeleteRecord.orderingVal` in the order of its union; 1.0 ends before the array.
_WRAPPED = {
    "BooleanWrapper": "boolean",
    "IntWrapper": "int",
    "LongWrapper": "long",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
    "BytesWrapper": "bytes",
    "StringWrapper": "string",
    "DateWrapper": "int",
    "DecimalWrapper": "bytes",
    "TimeMicrosWrapper": "long",
    "TimestampMicrosWrapper": "long",
}
_MICROS = ("timestamp-micros", "local-timestamp-micros")
#: Wrappers that hold a column's value as it is stored in records, by what the column holds.
_STORED = {
    "number": ("IntWrapper", "LongWrapper"),
    "text": ("StringWrapper",),
    "date": ("DateWrapper", "LocalDateWrapper", "IntWrapper"),
    **dict.fromkeys(_MICROS, ("LongWrapper", "TimestampMicrosWrapper")),
}


def ordering_values(content: memoryview, kind: str, place: int, fields: int) -> Iterator[Any]:
    """The value that each delete has in the ordering field at `place` of so many; None for a delete by key alone.

    A value is what records of the same block store for a column that holds `kind`; None too where that is not sure.

    Raises:
        BadLogFile: these are not the bytes of a delete block of version 3.

    """
    version, length = _PAIR.unpack_from(content)
    if version != _VERSION or length != len(content) - _PAIR.size:
        raise BadLogFile("another version of delete block, or another length")
    deletes = _Deletes(content[_PAIR.size :])
    for _ in deletes.items():
        yield _stored(deletes.read(_schema(), return_record_name=True)["orderingVal"], kind, place, fields)
    if deletes.at != length:
        raise BadLogFile("bytes after the last delete")


class _Deletes:
    """Reads an Avro array item by item, so that only one is in memory, of which no more is seen than it may have.

    Of a byte it makes more than a hundred where it is one of many ordering values.
    """

    def __init__(self, content: memoryview) -> None:
        self._content, self._begin, self._part = content, 0, io.BytesIO(content[: 2 * _MOST_BYTES])

    @property
    def at(self) -> int:
        """How far it is read."""
        return self._begin + self._part.tell()

    def items(self) -> Iterator[int]:
        """One step for each item, which the caller reads."""
        while count := self.read("long"):
            if count < 0:  # its size in bytes follows
                self.read("long")
            yield from range(abs(count))

    def read(self, schema: Any, **options: Any) -> Any:
        """The next value."""
        if self._part.tell() > _MOST_BYTES:
            self._begin = self.at
            self._part = io.BytesIO(self._content[self._begin : self._begin + 2 * _MOST_BYTES])
        return fastavro.schemaless_reader(self._part, schema, None, **options)


def _stored(wrapped: tuple[str, dict[str, Any]] | None, kind: str, place: int, fields: int) -> Any:
    if wrapped is None:
        return None
    name, record = wrapped
    if fields > 1:  # a delete by key has no array there
        values = record.get("wrappedValues") or ()
        return _stored(values[place], kind, 0, 1) if len(values) == fields else None
    wrapper = name.rpartition(".")[2]
    is_default = wrapper == "IntWrapper" and record["value"] == 0  # what Hudi writes for a delete by key
    return record["value"] if wrapper in _STORED.get(kind, ()) and not is_default else None


@cache
def _schema() -> Any:
    """An item of `HoodieDeleteRecordList`, without logical types."""
    wrappers = [_record(name, [{"name": "value", "type": avro_type}]) for name, avro_type in _WRAPPED.items()]
    items: list[Any] = ["null", *_WRAPPED, _record("LocalDateWrapper", [{"name": "value", "type": "int"}])]
    several = {"name": "wrappedValues", "type": ["null", {"type": "array", "items": items}]}
    fields: list[dict[str, Any]] = [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": ["null", *wrappers, _record("ArrayWrapper", [several])]},
    ]
    return fastavro.parse_schema(_record("HoodieDeleteRecord", fields))


def _record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}
