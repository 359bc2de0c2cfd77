"""One column of the rows of an Avro data block.

Where there are many rows and numpy is installed they are decoded side by side: each field of the schema moves the places of all
rows at once. That answers only where every byte is accounted for; whatever it does not know is left to the decoder, a row at a
time. Of 20 columns that takes 18 us of the processor a row. Side by side it is 2 us where a block has 20,000 rows, 5 us of 300,
and no less than by the decoder of fewer than 80; numpy itself takes as long to load as the decoder for some 5,000.
"""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count as numbers
from typing import Any, NamedTuple

import fastavro

from etc_policy.hudi.avro import memory_rate, parse_schema, require_modest
from etc_policy.hudi.blocks import BadLogFile

#: From so many rows on it pays to decode them side by side, and to load numpy for it.
_MANY, _WORTH_LOADING = 100, 1_000
#: So many rows are decoded together.
_TOGETHER = 20_000
#: To pass a field of all rows, or an item of their lists, takes as long as the decoder needs for so many bytes: when so much of
#: it is spent, long lists among others, the rest is the decoder's. A few fields are always passed.
_BYTES_A_STEP, _FEWEST_STEPS = 100, 200
#: What a data block begins with: the version of its content, of which these are read, and how many rows it has.
HEAD, CONTENT_VERSIONS = struct.Struct(">ii"), (1, 2, 3)
_LENGTH = struct.Struct(">i")
_SIZES = {"boolean": 1, "float": 4, "double": 8}
_PLAIN = frozenset({"null", "int", "long", "bytes", *_SIZES})
_LONG_BITS = 63

#: Names of fields, the outermost first.
Path = tuple[str, ...]


class RowSchema(NamedTuple):
    """How rows of a block are decoded: texts stay bytes, and a map is a list of pairs; `named` has the types that have names.

    A byte of a row may take `rate` bytes of memory.
    """

    record: Any
    named: dict[str, Any]
    rate: int


def row_schema(schema: Any) -> RowSchema:
    """How rows of a block with this schema are decoded.

    Raises:
        Exception: as `parse_schema`.

    """
    named: dict[str, Any] = {}
    record = parse_schema(_as_bytes(schema, numbers()), named)
    return RowSchema(record, named, memory_rate(record, named))


def _as_bytes(schema: Any, number: Iterator[int]) -> Any:
    if isinstance(schema, list):
        return [_as_bytes(part, number) for part in schema]
    if not isinstance(schema, dict):
        return "bytes" if schema == "string" else schema
    if schema.get("type") == "map":
        fields = [{"name": "key", "type": "bytes"}, {"name": "value", "type": _as_bytes(schema["values"], number)}]
        pair = {"type": "record", "name": f"etc_pair_{next(number)}", "fields": fields}
        return {"type": "array", "items": pair}
    kinds = {key: _as_bytes(schema[key], number) for key in ("type", "items") if key in schema}
    if "fields" in schema:
        kinds["fields"] = [{**field, "type": _as_bytes(field["type"], number)} for field in schema["fields"]]
    return {**schema, **kinds}


def values_at(content: memoryview, count: int, schema: RowSchema, path: Path) -> Iterator[Any]:
    """The value at a path of each of `count` rows, None where a struct on the way is null.

    Raises:
        BadLogFile: a row is longer or shorter than its length says, or bytes follow the last one.
        Exception: fastavro raises almost anything over damaged bytes.

    """
    at, pays = 0, _pays(count)
    while pays and count > 0:
        values, at = side_by_side(content, at, min(count, _TOGETHER), schema, path)
        pays, count = bool(values), count - len(values)
        yield from values
    yield from one_by_one(content[at:], count, schema, path)


def values_together(blocks: Sequence[tuple[memoryview, int]], schema: RowSchema, path: Path) -> list[list[Any] | None]:
    """The same of each of several blocks with so many rows, decoded as one; None of those that are left to `values_at`."""
    content, bounds, at = memoryview(b"".join(content for content, _ in blocks)), list[tuple[int, int]](), 0
    rows = list[tuple[int, int]]()
    for one, count in blocks:
        found, at = _rows_from(content, at, count), at + len(one)
        if found and found[-1][1] == at:
            bounds.append((len(rows), len(rows) + count))
            rows += found
        else:
            bounds.append((0, 0))
    values = _decoded(content, rows, schema, path) if _pays(len(rows)) else []
    return [values[first:end] if values and end else None for first, end in bounds]


def _pays(count: int) -> bool:
    return count >= (_MANY if "numpy" in sys.modules else _WORTH_LOADING) and _numpy() is not None


@cache
def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def one_by_one(content: memoryview, count: int, schema: RowSchema, path: Path) -> Iterator[Any]:
    """The same by the decoder."""
    at = 0
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(content, at)
        start, at = at + _LENGTH.size, at + _LENGTH.size + length
        if length < 0 or at > len(content):
            raise BadLogFile("a record of a length that cannot be")
        require_modest(length, schema.rate)
        stream = io.BytesIO(content[start:at])
        value: Any = fastavro.schemaless_reader(stream, schema.record, None)
        if stream.tell() != length:
            raise BadLogFile("a record of another length")
        for name in path:
            value = None if value is None else value[name]
        yield value
    if at != len(content):
        raise BadLogFile("bytes after the last record")


def side_by_side(content: memoryview, at: int, count: int, schema: RowSchema, path: Path) -> tuple[list[Any], int]:
    """The same of so many rows from a place on, and where they end; no values where it is not known that these are such rows."""
    rows = _rows_from(content, at, count)
    values = _decoded(content, rows or [], schema, path)
    return (values, rows[-1][1]) if values and rows else ([], at)


def _rows_from(content: memoryview, at: int, count: int) -> list[tuple[int, int]] | None:
    """Where so many rows from a place on begin and end, each behind its length; None where one is not within the content."""
    rows, end = list[tuple[int, int]](), at
    try:
        for _ in range(count):
            start = end + _LENGTH.size
            end = start + _LENGTH.unpack_from(content, end)[0]
            if not start <= end <= len(content):
                return None
            rows.append((start, end))
    except struct.error:
        return None
    return rows


def _decoded(content: memoryview, rows: Sequence[tuple[int, int]], schema: RowSchema, path: Path) -> list[Any]:
    """The values of rows that lie so, decoded side by side; none where it is not known that these are such rows."""
    if not rows:
        return []
    try:
        places = _numpy().array(rows)
        steps = _FEWEST_STEPS + (rows[-1][1] - rows[0][0]) // _BYTES_A_STEP
        values, ends = _Rows(content, schema, steps).read(schema.record, places[:, 0].copy(), path)
    except (_UnknownRowsError, LookupError):
        return []
    return list(values) if (ends == places[:, 1]).all() else []


class _UnknownRowsError(Exception):
    """The rows are left to the decoder."""


class _Rows:
    """Passes over fields of many rows at once, each at a place in the content of its own.

    Places only go on, so that one that has left its row does not end where that row does.
    """

    def __init__(self, content: memoryview, schema: RowSchema, steps: int) -> None:
        self._np, self._content, self._named = _numpy(), content, schema.named
        self._bytes, self._steps_left = self._np.frombuffer(content, self._np.uint8), steps

    def read(self, kind: Any, places: Any, path: Path | None = None) -> tuple[Any, Any]:
        """The values at a path below a type, None without a path, and the places behind the type."""
        self._steps_left -= 1
        if isinstance(kind, str) and kind not in _PLAIN:
            kind = self._named[kind]
        name = "union" if isinstance(kind, list) else kind if isinstance(kind, str) else kind["type"]
        if (path and name not in ("null", "union", "record")) or self._steps_left < 0:
            raise _UnknownRowsError
        match name:
            case "union":
                return self._union(kind, places, path)
            case "record" | "error":
                return self._record(kind, places, path)
            case "null":
                return self._none(places, path), places
            case "int" | "long":
                values, places = self._longs(places)
                return None if path is None else values.astype(object), places
            case "bytes":
                sizes, places = self._sizes(places)
                if path is not None:  # no text is in another: only those of whole rows are made
                    self._require(sizes.sum() <= len(self._content))
                return None if path is None else self._texts(places, places + sizes), places + sizes
            case "boolean":
                return None if path is None else self._bytes[places].astype(bool).astype(object), places + 1
        if path is not None:
            raise _UnknownRowsError
        return None, self._behind(kind, name, places)

    def _behind(self, kind: Any, name: str, places: Any) -> Any:
        """The places behind a type that nobody asks for."""
        match name:
            case "array":
                return self._array(kind["items"], places)
            case "enum":
                numbers, places = self._longs(places)
                self._require((numbers >= 0) & (numbers < len(kind["symbols"])))
                return places
            case "fixed" if not 0 <= kind["size"] <= len(self._content):
                raise _UnknownRowsError
        return places + (kind["size"] if name == "fixed" else _SIZES[name])

    def _record(self, kind: Any, places: Any, path: Path | None) -> tuple[Any, Any]:
        values = None
        for field in kind["fields"]:
            below = path[1:] if path and field["name"] == path[0] else None
            found, places = self.read(field["type"], places, below)
            values = values if below is None else found
        if path is not None and values is None:
            raise _UnknownRowsError
        return values, places

    def _union(self, kinds: Sequence[Any], places: Any, path: Path | None) -> tuple[Any, Any]:
        branches, places = self._longs(places)
        self._require((branches >= 0) & (branches < len(kinds)))
        values = self._none(places, path)
        for number, kind in enumerate(kinds):
            rows = self._np.flatnonzero(branches == number)
            if len(rows) == len(places):
                return self.read(kind, places, path)
            if len(rows):
                found, places[rows] = self.read(kind, places[rows], path)
                if values is not None:
                    values[rows] = found
        return values, places

    def _array(self, items: Any, places: Any) -> Any:
        """Behind a list in blocks, each with its count, which is negative where the block's bytes follow; the last has none."""
        places, rows = places.copy(), self._np.arange(len(places))
        while len(rows):
            counts, places[rows] = self._longs(places[rows])
            sized = rows[counts < 0]
            places[sized] = self._longs(places[sized])[1]
            rows, counts = rows[counts != 0], abs(counts[counts != 0])
            left = rows
            while len(left):
                _, places[left] = self.read(items, places[left])
                counts = counts - 1
                left, counts = left[counts > 0], counts[counts > 0]
        return places

    def _longs(self, places: Any) -> tuple[Any, Any]:
        """Numbers of seven bits a byte, the sign in the lowest bit; of the tenth byte only one bit is left."""
        np = self._np
        found = self._bytes[places]
        values, places = (found & 0x7F).astype(np.uint64), places + 1
        more, shift = np.flatnonzero(found > 0x7F), 7
        while len(more):
            found = self._bytes[places[more]]
            self._require((found <= 1) | (shift < _LONG_BITS))
            values[more] |= (found & 0x7F).astype(np.uint64) << np.uint64(shift)
            places[more] += 1
            more, shift = more[found > 0x7F], shift + 7
        return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64), places

    def _sizes(self, places: Any) -> tuple[Any, Any]:
        sizes, places = self._longs(places)
        self._require((sizes >= 0) & (sizes <= len(self._content)))
        return sizes, places

    def _texts(self, starts: Any, ends: Any) -> Any:
        places = zip(starts.tolist(), ends.tolist(), strict=True)
        return self._np.fromiter((bytes(self._content[start:end]) for start, end in places), object, len(starts))

    def _none(self, places: Any, path: Path | None) -> Any:
        return None if path is None else self._np.full(len(places), None, object)

    def _require(self, all_of: Any) -> None:
        if not self._np.all(all_of):
            raise _UnknownRowsError
