"""Rows of a Parquet file of the archive. Equal values are in memory once, so that few bytes do not become many; needs pyarrow."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO

#: Each row has an instant and metadata of its own, so that honest rows take more.
_BYTES_PER_ROW = 4
#: How far the footer may say that the file's columns are compressed; small files may be compressed at will.
_INFLATED_TIMES, _INFLATED_BYTES = 100, 64 << 20
_BATCH_ROWS = 4_096

#: A column, and the values of it that are wanted.
Wanted = tuple[str, Collection[str]]


class BadArchive(Exception):  # noqa: N818 - what a file is, not what went wrong here
    """The file claims more than it can hold; the reason is in the message."""


def archive_rows(stream: BinaryIO, columns: Sequence[str], wanted: Wanted | None = None) -> Iterator[dict[str, Any]]:
    """The rows of an archive's file whose value in a column is wanted, without one all of them.

    Raises:
        BadArchive: the file claims more than it can hold.
        Exception: pyarrow's own, and KeyError for a column that is not there.

    """
    from pyarrow import parquet

    names = list(dict.fromkeys((*columns, wanted[0]) if wanted else columns))
    file = parquet.ParquetFile(stream, read_dictionary=names)
    _require_modest(file.metadata, stream.seek(0, os.SEEK_END))
    _require_flat(file.schema_arrow, names)
    for group in range(file.num_row_groups):
        if wanted and not _is_in(file, group, *wanted):
            continue
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=names):
            found = [_values(batch.column(name)) for name in names]
            rows = (dict(zip(names, row, strict=True)) for row in zip(*found, strict=True))
            yield from (row for row in rows if wanted is None or row[wanted[0]] in wanted[1])


def _require_modest(metadata: Any, size: int) -> None:  # noqa: ANN401 - pyarrow's metadata of a file
    inflated = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    if metadata.num_rows * _BYTES_PER_ROW > size or inflated > max(_INFLATED_BYTES, _INFLATED_TIMES * size):
        raise BadArchive(f"it claims {metadata.num_rows:,} rows of {inflated:,} bytes, and has {size:,} bytes")


def _require_flat(schema: Any, names: Sequence[str]) -> None:  # noqa: ANN401 - pyarrow's schema
    from pyarrow import types

    for name in names:
        if types.is_nested(schema.field(name).type):
            raise BadArchive(f"its column {name} is of type {schema.field(name).type}")


def _is_in(file: Any, group: int, column: str, values: Collection[str]) -> bool:  # noqa: ANN401 - pyarrow's file
    """Whether a row of the group is wanted: else its metadata need not be read."""
    batches = file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[column])
    return any(value in values for batch in batches for value in _values(batch.column(column)))


def _values(column: Any) -> list[Any]:  # noqa: ANN401 - pyarrow's array
    """The values of a column; of texts and bytes equal ones are one object."""
    from pyarrow import types

    if not types.is_dictionary(column.type):
        found: list[Any] = column.to_pylist()
        return found
    values = column.dictionary.to_pylist()
    return [None if place is None else values[place] for place in column.indices.to_pylist()]
