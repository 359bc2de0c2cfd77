"""Parquet files and blocks: the event-time column as it is stored, and rows on two sides; needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import accumulate, islice
from typing import Any, BinaryIO

from etc_policy.hudi.blocks import BadLogFile
from etc_policy.hudi.footers import open_parquet, require_modest

#: Each row has a key of its own, so that honest rows take more.
MAX_ROWS_PER_BYTE = 64
#: So many rows pyarrow gives at once.
_BATCH_ROWS = 65_536


class NullRows(int):
    """So many rows that have no value: of nulls there may be many in a byte."""


_TIMESTAMPS = {"ms": "millis", "us": "micros", "ns": "nanos"}


def stored_values(content: memoryview, path: tuple[str, ...], kind: str) -> Iterator[Any]:
    """The values of the column at a path, as an Avro block would store them, and how many rows have none.

    Equal ones come once or a few times; a few thousand rows are in memory at a time, and each text once.

    `kind` is what the column holds by the schema in the block's header.

    Raises:
        BadLogFile: the Parquet file's own schema has no such column, or says that it holds something else.

    """
    name = ".".join(path)
    try:
        opened = _opened(content, (name,), read_dictionary=[name])
        for batch in opened.iter_batches(columns=[name]):
            yield from _values_of(batch.column(path[0]), path, kind)
    except (OSError, KeyError) as error:  # pyarrow's own errors; nothing is read from disk here
        raise BadLogFile("no Parquet file, or one without the column") from error


def least_by(
    stream: BinaryIO,
    by: str,
    path: tuple[str, ...],
    kind: str,
    time_of: Callable[[Any], int | None],
    most: tuple[int, int],
) -> dict[Any, int]:
    """For each value of the column `by` the least time of the column at a path in the same rows; each text is made once.

    Row groups are read as far as both columns take no more than so many bytes, and so many rows of them.

    Raises:
        BadLogFile: no Parquet file, or one without these columns.

    """
    import pyarrow

    name, found = ".".join(path), dict[Any, int]()
    try:
        opened = open_parquet(stream, read_dictionary=[by, name])
        sizes = accumulate(_bytes_of(opened.metadata.row_group(n), (by, name)) for n in range(opened.num_row_groups))
        groups = [number for number, size in enumerate(sizes) if size <= most[0]]
        require_modest(stream, opened.metadata, groups, (by, name))
        for batch in islice(opened.iter_batches(row_groups=groups, columns=[by, name]), most[1] // _BATCH_ROWS):
            keys, values = _encoded(batch.column(by)), _encoded(_stored(batch.column(path[0]), path, kind))
            times = pyarrow.array(map(time_of, values.dictionary.to_pylist()), pyarrow.int64()).take(values.indices)
            least = (
                pyarrow.table({"by": keys.indices, "time": times})
                .drop_null()
                .group_by("by")
                .aggregate([("time", "min")])
            )
            for row in least.to_pylist():
                key = keys.dictionary[row["by"]].as_py()
                found[key] = min(row["time_min"], found.get(key, row["time_min"]))
    except (pyarrow.ArrowException, OSError, KeyError) as error:
        raise BadLogFile("no Parquet file, or one without the columns") from error
    return found


def _encoded(values: Any) -> Any:
    from pyarrow import types

    return values if types.is_dictionary(values.type) else values.dictionary_encode()


def _bytes_of(group: Any, names: Collection[str]) -> int:
    columns = map(group.column, range(group.num_columns))
    return sum(one.total_compressed_size for one in columns if one.path_in_schema in names)


def _opened(content: memoryview, names: Collection[str] | None = None, **options: Any) -> Any:
    """The Parquet file, of which these columns are read."""
    import pyarrow

    stream = pyarrow.BufferReader(content)
    opened = open_parquet(stream, **options)
    if opened.metadata.num_rows > MAX_ROWS_PER_BYTE * len(content):
        raise BadLogFile("more rows than its bytes can hold keys of")
    require_modest(stream, opened.metadata, range(opened.num_row_groups), names)
    return opened


def split_rows(
    content: memoryview, path: tuple[str, ...], kind: str, is_late: Callable[[Any], bool]
) -> tuple[tuple[int, memoryview], tuple[int, memoryview]]:
    """How many rows of the Parquet file are early and how many late, each with a Parquet file of them, in their order.

    `is_late` is asked with each value of the column at the path as an Avro block would store it, None where a row has none.

    Raises:
        BadLogFile: as `stored_values`; or the file's rows cannot be written in the same form.

    """
    import pyarrow
    from pyarrow import compute

    try:
        opened = _opened(content)
        rows = opened.read()
        values = _stored(rows.column(path[0]).combine_chunks(), path, kind).to_pylist()
        late = pyarrow.array([is_late(value) for value in values], pyarrow.bool_())
        early_rows, late_rows = rows.filter(compute.invert(late)), rows.filter(late)
        return _written(early_rows, opened), _written(late_rows, opened)
    except (pyarrow.ArrowException, OSError, KeyError) as error:
        raise BadLogFile("no Parquet file, or one without the column") from error


def _written(rows: Any, like: Any) -> tuple[int, memoryview]:
    """The rows as a Parquet file of the same schema and with the same pairs in its footer."""
    import pyarrow
    from pyarrow import parquet

    footer = like.metadata
    codec = footer.row_group(0).column(0).compression if footer.num_row_groups else "none"
    sink, codec = pyarrow.BufferOutputStream(), codec.lower().replace("uncompressed", "none")
    with parquet.ParquetWriter(sink, rows.schema, compression=codec, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(footer.metadata or {})
    content = sink.getvalue()
    if not parquet.read_metadata(pyarrow.BufferReader(content)).schema.equals(footer.schema):
        raise BadLogFile("a Parquet block whose schema cannot be written alike")
    return rows.num_rows, memoryview(content)


def _values_of(values: Any, path: tuple[str, ...], kind: str) -> Iterator[Any]:
    from pyarrow import compute

    stored = _stored(values, path, kind)
    yield NullRows(stored.null_count)
    yield from compute.unique(stored.drop_null()).to_pylist()


def _stored(values: Any, path: tuple[str, ...], kind: str) -> Any:
    """The values as integers or texts, as they are stored."""
    import pyarrow
    from pyarrow import compute, types

    values = compute.struct_field(values, list(path[1:])) if path[1:] else values
    stored = values.type.value_type if types.is_dictionary(values.type) else values.type
    if not _agree(stored, kind):
        raise BadLogFile("the two schemas of the block differ")
    if types.is_timestamp(stored) or types.is_int32(stored):
        return values.cast(pyarrow.int64())
    return values.cast(pyarrow.int32()) if types.is_date32(stored) else values


def _agree(arrow_type: Any, kind: str) -> bool:
    """Parquet files may lack the logical type of an integer; then the header's says what it is."""
    from pyarrow import types

    if types.is_int64(arrow_type) or types.is_int32(arrow_type):
        return kind != "text"
    if types.is_timestamp(arrow_type):
        return kind.removeprefix("local-") == f"timestamp-{_TIMESTAMPS.get(arrow_type.unit)}"
    return kind == {"string": "text", "large_string": "text", "date32[day]": "date"}.get(str(arrow_type))
