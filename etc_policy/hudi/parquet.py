"""Parquet data blocks of a Hudi log file: the event-time column as it is stored; needs pyarrow."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

from etc_policy.hudi.blocks import BadLogFile

#: Each row has a key of its own, so that honest rows take more.
MAX_ROWS_PER_BYTE = 64

_TIMESTAMPS = {"ms": "millis", "us": "micros", "ns": "nanos"}


def can_read_parquet() -> bool:
    """Whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def stored_values(content: memoryview, path: tuple[str, ...], kind: str) -> Iterator[Any]:
    """The values of the column at a path, with None where a row has none, as an Avro block would store them.

    Equal ones come once or a few times; a few thousand rows are in memory at a time, and each text once.


    `kind` is what the column holds by the schema in the block's header.

    Raises:
        BadLogFile: the Parquet file's own schema has no such column, or says that it holds something else.

    """
    import pyarrow
    from pyarrow import parquet

    name = ".".join(path)
    try:
        opened = parquet.ParquetFile(pyarrow.BufferReader(content), read_dictionary=[name])
        if opened.metadata.num_rows > MAX_ROWS_PER_BYTE * len(content):
            raise BadLogFile("more rows than its bytes can hold keys of")
        for batch in opened.iter_batches(columns=[name]):
            yield from _values_of(batch.column(path[0]), path, kind)
    except (OSError, KeyError) as error:  # pyarrow's own errors; nothing is read from disk here
        raise BadLogFile("no Parquet file, or one without the column") from error


def _values_of(values: Any, path: tuple[str, ...], kind: str) -> Iterator[Any]:
    import pyarrow
    from pyarrow import compute, types

    values = compute.struct_field(values, list(path[1:])) if path[1:] else values
    stored = values.type.value_type if types.is_dictionary(values.type) else values.type
    if not _agree(stored, kind):
        raise BadLogFile("the two schemas of the block differ")
    if types.is_timestamp(stored) or types.is_int32(stored):
        values = values.cast(pyarrow.int64())
    elif types.is_date32(stored):
        values = values.cast(pyarrow.int32())
    return iter(compute.unique(values).to_pylist())


def _agree(arrow_type: Any, kind: str) -> bool:
    """Parquet files may lack the logical type of an integer; then the header's says what it is."""
    from pyarrow import types

    if types.is_int64(arrow_type) or types.is_int32(arrow_type):
        return kind != "text"
    if types.is_timestamp(arrow_type):
        return kind.removeprefix("local-") == f"timestamp-{_TIMESTAMPS.get(arrow_type.unit)}"
    return kind == {"string": "text", "large_string": "text", "date32[day]": "date"}.get(str(arrow_type))
