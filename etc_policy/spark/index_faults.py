"""Statistics of columns in a table's metadata table, beside what its base files say of themselves.

A reader leaves out a file whose statistics cannot hold what is asked for, and one that lacks those of a column which the table
indexes while it has others (facts: indexed-columns-missed): rows are missed then, in both views alike.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.hudi.footers import EncryptedParquetError, can_read_parquet, open_parquet
from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.stable_reading import table_errors
from etc_policy.hudi.writer_options import index_definitions, indexed_columns
from etc_policy.policy.bounded_json import load_json
from etc_policy.spark.java_causes import java_causes
from etc_policy.spark.metadata_listing import opened_metadata
from etc_policy.spark.store_outage import raise_store_outage
from etc_policy.storage.open_storage import open_reader
from etc_policy.storage.port import TableReader
from etc_policy.table.state import PARQUET, TableState, path_below

#: The newest base files are looked at, as many as keep the records that are fetched below this.
_MOST_FILES, _MOST_RECORDS = 100, 20_000
_SHOWN_COLUMNS = 5

Range = tuple[Any, Any]


@dataclass
class _File:
    """A base file: the least and greatest value of each column by its footer, and by the metadata table.

    `None` stands for a range that is not comparable here. `singles` are columns of single precision, whose values Java prints
    as the shortest decimals that mean them; `too_long` those with texts so long that Parquet keeps no range of them.
    """

    path: str
    footer: dict[str, Range | None]
    recorded: dict[str, Range | None] = field(default_factory=dict)
    singles: frozenset[str] = frozenset()
    too_long: frozenset[str] = frozenset()


def wrong_statistics(spark: Any, state: TableState) -> tuple[str, ...]:
    """What the column statistics of the newest base files say wrongly, a sentence each; none without pyarrow.

    Raises:
        EngineError: the metadata table cannot be read.
        RetryableError: its store did not answer.

    """
    if "column_stats" not in state.metadata_partitions:
        return ()
    storage = open_reader(state.base_path)
    with table_errors(state.base_path):
        defined = indexed_columns(index_definitions(storage, read_properties(storage)))
        files = _files(storage, state)
    if files:
        _fill(spark, state, files)
    return tuple(
        fault for one in files for fault in (*_lacking(one, files, defined), *_too_narrow(one), *_too_long(one))
    )


def _lacking(one: _File, files: Sequence[_File], defined: Sequence[str]) -> Iterator[str]:
    """Columns that it has no statistics of, though the table indexes them: such a file is left out by readers.

    Hudi keeps none of some types. So it counts where another file has them, or where the file has columns that are not indexed,
    as a client that was not told which are writes.
    """
    elsewhere = {column for other in files for column in other.recorded}
    wanted = set(defined) or elsewhere
    lacks = sorted(
        column for column, span in one.footer.items() if column in wanted and span and column not in one.recorded
    )
    is_foreign = bool(defined) and bool(one.recorded.keys() - set(defined))
    if one.recorded and lacks and (is_foreign or elsewhere.intersection(lacks)):
        named = ", ".join(lacks[:_SHOWN_COLUMNS]) + (", ..." if len(lacks) > _SHOWN_COLUMNS else "")
        yield f"{one.path}: no statistics of the indexed columns {named}"


def _too_narrow(one: _File) -> Iterator[str]:
    for column, recorded in one.recorded.items():
        footer = one.footer.get(column)
        if footer and recorded and type(footer[0]) is type(recorded[0]) and not _holds(recorded, footer):
            yield f"{one.path}: statistics of `{column}` from {recorded[0]} to {recorded[1]}, has {footer[0]} to {footer[1]}"


def _too_long(one: _File) -> Iterator[str]:
    for column in sorted(one.too_long & one.recorded.keys()):
        if one.recorded[column] is None:
            why = "as Parquet keeps none of texts so long: leave the column out of the statistics"
            yield f"{one.path}: no range of `{column}`, {why}"


def _holds(outer: Range, inner: Range) -> bool:
    return bool(outer[0] <= inner[0] and inner[1] <= outer[1])


def _files(storage: TableReader, state: TableState) -> list[_File]:
    """The newest base files with what their footers say."""
    if not can_read_parquet():
        return []
    from pyarrow import ArrowException

    named = [one for one in state.slices if one.base_file and one.base_file.endswith(f".{PARQUET}")]
    newest = sorted(named, key=lambda one: one.base_instant, reverse=True)
    files: list[_File] = []
    for one in newest[:_MOST_FILES]:
        path = path_below(one.partition, one.base_file or "")
        try:
            with storage.open(path) as opened:
                files.append(_file(path, open_parquet(opened).metadata))
        except (ArrowException, FileNotFoundError, EncryptedParquetError):
            continue  # other checks say so, or nobody can
        if sum(len(found.footer) for found in files) > _MOST_RECORDS:
            break
    return files


def _file(path: str, footer: Any) -> _File:
    columns = [
        footer.row_group(group).column(n) for group in range(footer.num_row_groups) for n in range(footer.num_columns)
    ]
    singles = {one.path_in_schema for one in columns if one.physical_type == "FLOAT"}
    too_long = {one.path_in_schema for one in columns if _is_too_long(one)}
    return _File(path, _ranges(footer), singles=frozenset(singles), too_long=frozenset(too_long))


def _is_too_long(column: Any) -> bool:
    """Whether a column's texts have no range though there are some."""
    kept = column.statistics
    is_without = column.physical_type == "BYTE_ARRAY" and (kept is None or not kept.has_min_max)
    return is_without and (kept is None or not kept.has_null_count or kept.null_count < column.num_values)


def _ranges(footer: Any) -> dict[str, Range | None]:
    """The least and greatest value of each column that is no list or map, over all row groups."""
    found: dict[str, Range | None] = {}
    for group in range(footer.num_row_groups):
        for place in range(footer.num_columns):
            column = footer.row_group(group).column(place)
            name, statistics = column.path_in_schema, column.statistics
            if footer.schema.column(place).max_repetition_level or statistics is None:
                continue
            span = _range(*_ends(statistics)) if statistics.has_min_max else None
            found[name] = span if name not in found else _joined(found[name], span)
    return found


def _ends(statistics: Any) -> Range:
    """The least and greatest value; of times in another unit than the microseconds that Hudi keeps, nothing."""
    ends = statistics.min, statistics.max
    is_other = isinstance(ends[0], dt.datetime) and _comparable(ends[0]) != statistics.min_raw
    return (None, None) if is_other else ends


def _joined(one: Range | None, other: Range | None) -> Range | None:
    return (min(one[0], other[0]), max(one[1], other[1])) if one and other else one or other


def _range(least: Any, greatest: Any) -> Range | None:
    ends = _comparable(least), _comparable(greatest)
    return None if None in ends else ends


def _comparable(value: Any) -> Any:
    """Whole numbers, texts, fractions, and times as the whole numbers that Hudi keeps; None for anything else."""
    if isinstance(value, dt.datetime):
        instant = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (instant - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, float):
        return None if math.isnan(value) else value
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _single(value: Any) -> Any:
    """A number as one of single precision, as Parquet's footers have it."""
    is_number = isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool))
    return struct.unpack("f", struct.pack("f", value))[0] if is_number else value


def _fill(spark: Any, state: TableState, files: Sequence[_File]) -> None:
    """What the metadata table records of each file."""
    columns = sorted({column for one in files for column in one.footer})
    by_name = {one.path.rpartition("/")[2]: one for one in files}
    try:
        with opened_metadata(spark, state.base_path) as metadata:
            texts = list(_asked(spark, metadata, files, columns))
    except Exception as error:
        raise_store_outage(state.base_path, error)
        message = f"cannot read the column statistics of `{state.base_path}`"
        raise EngineError(Code.CANNOT_READ_VIEW, message, cause=java_causes(error)) from error
    for record in (record for text in texts for record in _records(load_json(text))):
        one, column = by_name[record["fileName"]], record["columnName"]
        ends = [_value(record.get(end)) for end in ("minValue", "maxValue")]
        one.recorded[column] = _range(*(map(_single, ends) if column in one.singles else ends))


def _asked(spark: Any, metadata: Any, files: Sequence[_File], columns: Sequence[str]) -> Iterator[str]:
    """The records as Java prints them, which is JSON: some calls for all of them; from 1.1 on one call."""
    jvm = spark._jvm
    pairs = jvm.java.util.ArrayList()
    for one in files:
        partition, _, name = one.path.rpartition("/")
        pairs.add(jvm.org.apache.hudi.common.util.collection.Pair.of(partition, name))
    if _takes_columns(metadata):
        wanted = jvm.java.util.ArrayList()
        for column in columns:
            wanted.add(column)
        yield _printed(metadata.getColumnStats(pairs, wanted))
    else:
        for column in columns:
            yield _printed(metadata.getColumnStats(pairs, column))


def _printed(java_map: Any) -> str:
    """Its values in one call: `values` of what py4j makes of a map fetches each by itself."""
    return str(java_map.__getattr__("values")().toString())


def _takes_columns(metadata: Any) -> bool:
    methods = (method for method in metadata.getClass().getMethods() if method.getName() == "getColumnStats")
    return any(method.getParameterTypes()[1].getSimpleName() == "List" for method in methods)


def _records(found: Any) -> Iterator[Mapping[str, Any]]:
    """Records in lists of lists."""
    if isinstance(found, list):
        for one in found:
            yield from _records(one)
    elif found is not None:
        yield found


def _value(wrapped: Any) -> Any:
    return wrapped.get("value") if isinstance(wrapped, dict) else wrapped
