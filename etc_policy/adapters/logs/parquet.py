"""Parquet data blocks of a Hudi log file: the event-time column as it is stored; needs pyarrow."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

from etc_policy.adapters.logs.blocks import BadLogFile

_TIMESTAMPS = {"ms": "millis", "us": "micros", "ns": "nanos"}


def can_read_parquet() -> bool:
    """Whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def stored_values(content: memoryview, path: tuple[str, ...], kind: str) -> Iterator[Any]:
    """The different values of the column at a path, with None where a row has none, as an Avro block would store them.

    `kind` is what the column holds by the schema in the block's header.

    Raises:
        BadLogFile: the Parquet file's own schema has no such column, or says that it holds something else.

    """
    import pyarrow
    from pyarrow import compute, parquet

    try:
        values = parquet.ParquetFile(pyarrow.BufferReader(content)).read(columns=[".".join(path)]).column(path[0])
        values = compute.struct_field(values, list(path[1:])) if path[1:] else values
    except (OSError, KeyError) as error:  # pyarrow's own errors; nothing is read from disk here
        raise BadLogFile("no Parquet file, or one without the column") from error
    if not _agree(values.type, kind):
        raise BadLogFile("the two schemas of the block differ")
    if pyarrow.types.is_timestamp(values.type) or pyarrow.types.is_int32(values.type):
        values = values.cast(pyarrow.int64())
    elif pyarrow.types.is_date32(values.type):
        values = values.cast(pyarrow.int32())
    return iter(compute.unique(values).to_pylist())


def _agree(arrow_type: Any, kind: str) -> bool:  # noqa: ANN401 - pyarrow's type
    """Parquet files may lack the logical type of an integer; then the header's says what it is."""
    from pyarrow import types

    if types.is_int64(arrow_type) or types.is_int32(arrow_type):
        return kind != "text"
    if types.is_timestamp(arrow_type):
        return kind.removeprefix("local-") == f"timestamp-{_TIMESTAMPS.get(arrow_type.unit)}"
    return kind == {"string": "text", "large_string": "text", "date32[day]": "date"}.get(str(arrow_type))
