"""The footers of Parquet files, and how large their pages become: no row is read. Needs pyarrow."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from etc_policy.storage.port import MAX_READ_BYTES, TableReader

#: How a file ends: the length of its footer, and these bytes where that is encrypted.
_TAIL, _ENCRYPTED = struct.Struct("<i4s"), b"PARE"
#: Earlier releases of pyarrow follow a schema to any depth, which ends the process.
_FIRST_OF_PYARROW = 26

#: How large the pages of a file's columns may become: so many times the file, small files at will.
INFLATED_TIMES, INFLATED_BYTES = 100, 64 << 20
#: As long a footer is read, which takes some twenty times as much memory: that of 2,000 columns in 100 row groups has 10 MiB.
MAX_FOOTER_BYTES = 16 << 20
#: Fields of a page's header, and the kinds of values that one has in Thrift's compact protocol.
_INFLATED, _COMPRESSED, _DATA, _DATA_2 = 2, 3, 5, 8
_TRUE, _FALSE, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LIST, _STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, 9, 12
#: Of a file's footer the row groups, of each of them the columns, and of a column what it holds, by the ids of their fields.
_GROUPS, _COLUMNS, _COLUMN = 4, 1, 3
_TYPE, _CODEC, _STATISTICS, _SIZES, _ENDS = 1, 4, 12, 16, (1, 2, 5, 6)
#: Bytes of a value of each type, in the order of their numbers, at least; of the last it is the column's own.
_TYPES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 0}
_FIXED, _MOST_CODEC = "FIXED_LEN_BYTE_ARRAY", 7
#: Each value is the one before with another end, so that a few bytes are many. Hudi's writers do not write it.
_DELTA_BYTE_ARRAY = 7


class EncryptedParquetError(OSError):
    """A Parquet file that is encrypted, in whole or in some columns."""


def can_read_parquet() -> bool:
    """Whether pyarrow is installed, of a release that no schema ends."""
    try:
        return _is_safe(version("pyarrow"))
    except PackageNotFoundError:
        return False


def _is_safe(release: str) -> bool:
    return int(release.partition(".")[0]) >= _FIRST_OF_PYARROW


def read_footer(storage: TableReader, path: str) -> Any | None:
    """The footer of a file; None without pyarrow, or where it cannot be read, as that of an encrypted file."""
    if not can_read_parquet():
        return None
    import pyarrow

    try:
        with storage.open(path) as opened:
            return open_parquet(opened).metadata
    except (pyarrow.ArrowException, OSError):
        return None


def is_encrypted(storage: TableReader, path: str) -> bool:
    """Whether a file is encrypted; without pyarrow only a footer that is encrypted too shows it.

    Raises:
        OSError: the file cannot be read.

    """
    with storage.open(path) as opened:
        if _tail(opened)[1] == _ENCRYPTED or not can_read_parquet():
            return _tail(opened)[1] == _ENCRYPTED
        import pyarrow

        try:
            open_parquet(opened)
        except EncryptedParquetError:
            return True
        except (pyarrow.ArrowException, OSError):  # it is no Parquet file
            return False
        return False


def open_parquet(stream: Any, **options: Any) -> Any:
    """A Parquet file by pyarrow, which ends the process where somebody asks for a column that is encrypted.

    A plain footer of such a file is signed: the signature is beyond what of the footer is read (facts: encrypted-footers).

    Raises:
        EncryptedParquetError: it is encrypted.
        OSError: it is no Parquet file, as pyarrow says it, or cannot be read.

    """
    from pyarrow import __version__, parquet

    if not _is_safe(__version__):
        raise OSError(f"pyarrow {__version__} is older than {_FIRST_OF_PYARROW}")
    length, magic = _tail(stream)
    if magic == _ENCRYPTED:
        raise EncryptedParquetError("the footer is encrypted")
    if not 0 < length <= MAX_FOOTER_BYTES:
        raise OSError(f"it has a footer of {length:,} bytes")
    opened = parquet.ParquetFile(stream, **options)
    if opened.metadata.serialized_size != length:
        raise EncryptedParquetError("columns are encrypted")
    _require_sound(stream, length, opened.metadata)
    return opened


def _require_sound(stream: Any, length: int, metadata: Any) -> None:
    """Return if pyarrow can be asked about each column: what it does not expect there ends the process.

    Raises:
        OSError: it cannot.

    """
    stream.seek(-length - _TAIL.size, os.SEEK_END)
    leaves = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    try:
        groups = _read_struct(stream.read(length), 0)[0].get(_GROUPS, ())
        pairs = (pair for group in groups for pair in zip(group[_COLUMNS], leaves, strict=True))
        is_sound = all(_is_sound(chunk[_COLUMN], leaf) for chunk, leaf in pairs)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise OSError("a footer that is not understood") from error
    if not is_sound:
        raise OSError("a column that is not as the schema says")


def _is_sound(column: Mapping[int, Any], leaf: Any) -> bool:
    """Whether type, compression, and the sizes of statistics and histograms are those of a column of the schema."""
    kind, kept, sizes = leaf.physical_type, column.get(_STATISTICS, {}), column.get(_SIZES, {})
    least = leaf.length if kind == _FIXED else _TYPES[kind]
    histograms = (sizes.get(2, ()), leaf.max_repetition_level), (sizes.get(3, ()), leaf.max_definition_level)
    return (
        column[_TYPE] == (*_TYPES, _FIXED).index(kind)
        and 0 <= column[_CODEC] <= _MOST_CODEC
        and all(kept[end] >= least for end in _ENDS if end in kept)
        and (1 not in sizes or kind == "BYTE_ARRAY")
        and all(len(found) in (0, level + 1) for found, level in histograms)
    )


def _tail(stream: Any) -> tuple[int, bytes]:
    """The length of the footer and the last bytes; nothing of a file that is shorter."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _TAIL.size))
    tail = stream.read(_TAIL.size)
    stream.seek(0)
    return _TAIL.unpack(tail) if len(tail) == _TAIL.size else (0, b"")


def require_modest(stream: Any, metadata: Any, groups: Collection[int], names: Collection[str] | None = None) -> None:
    """Return if the pages of these columns, without names of all of them, become no more than honest ones.

    The footer says how large they become, and whoever made the file wrote it; so the pages' own headers are read, which a
    reader goes by.

    Raises:
        OSError: they become larger, or are not written as Hudi writes them.

    """
    left = max(INFLATED_BYTES, INFLATED_TIMES * stream.seek(0, os.SEEK_END))
    for group in map(metadata.row_group, groups):
        for column in map(group.column, range(group.num_columns)):
            path = column.path_in_schema
            if names is None or any(path == name or path.startswith(f"{name}.") for name in names):
                left -= _inflated(stream, column)
    if left < 0:
        raise OSError("its pages become far larger than the file")


def _inflated(stream: Any, column: Any) -> int:
    """How large the pages of a column of a row group become."""
    begin, first = column.data_page_offset, column.dictionary_page_offset
    if column.has_dictionary_page and first is not None and 0 < first < begin:
        begin = first
    if begin < 0 or not 0 <= column.total_compressed_size <= MAX_READ_BYTES:
        raise OSError("a column before the file's begin, or one that is larger than what is read")
    stream.seek(begin)
    pages, at, inflated = stream.read(column.total_compressed_size), 0, 0
    while at < len(pages):
        try:
            header, at = _read_struct(pages, at)
            inflated += header[_INFLATED]
            at += header[_COMPRESSED]
        except (IndexError, KeyError, TypeError, RecursionError) as error:
            raise OSError("a page whose header is not understood") from error
        encodings = header.get(_DATA, {}).get(2), header.get(_DATA_2, {}).get(4)
        if min(header[_INFLATED], header[_COMPRESSED]) < 0 or _DELTA_BYTE_ARRAY in encodings:
            raise OSError("a page that Hudi does not write")
    return inflated


def _read_struct(content: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The values of a struct by the ids of its fields, each once, and where it ends; of bytes how many there are."""
    found: dict[int, Any] = {}
    field = 0
    while kind := content[at]:
        at += 1
        if kind >> 4:
            field += kind >> 4
        else:
            field, at = _integer(content, at)
        if field in found:
            raise KeyError(field)
        found[field], at = _read_value(content, at, kind & 15)
    return found, at + 1


def _read_value(content: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in _INTEGERS:
        return _integer(content, at)
    if kind == _STRUCT:
        return _read_struct(content, at)
    if kind == _LIST:
        return _read_list(content, at)
    if kind == _BINARY:
        length, at = _varint(content, at)
        return length, at + length
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    raise KeyError(kind)


def _read_list(content: bytes, at: int) -> tuple[list[Any], int]:
    count, kind, at = content[at] >> 4, content[at] & 15, at + 1
    if count == 15:  # or more
        count, at = _varint(content, at)
    found = []
    for _ in range(count):
        value, at = (content[at], at + 1) if kind in (_TRUE, _FALSE) else _read_value(content, at, kind)
        found.append(value)
    return found, at


def _integer(content: bytes, at: int) -> tuple[int, int]:
    number, at = _varint(content, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift <= 63:
        byte = content[at]
        number, shift, at = number | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return number, at
    raise IndexError(at)
