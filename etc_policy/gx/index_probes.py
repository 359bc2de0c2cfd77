"""Rows of both views asked for by their own values, as a reader's query does it: an index that is wrong leaves them out.

Readers ask the metadata table's indexes which files may hold a row (data skipping). Other checks read without, so that they
see every row; this one reads as users do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from etc_policy.gx.view_rows import FILE_NAME, KEY, with_files
from etc_policy.gx.views import read_view
from etc_policy.hudi.properties import names_in, read_properties
from etc_policy.hudi.stable_reading import table_errors
from etc_policy.hudi.writer_options import (
    COLUMN_STATISTICS,
    RECORD_INDEX,
    IndexDefinition,
    index_definitions,
    indexed_columns,
)
from etc_policy.policy.writers import spark_name, spark_text
from etc_policy.storage.open_storage import open_reader
from etc_policy.table.formats import count_of
from etc_policy.table.state import TableState
from etc_policy.verify.ports import DataCheck
from etc_policy.verify.suites import View

#: A row of so many base files each is asked for, the newest ones first.
_ROWS = 20
#: Columns in one condition.
_MOST_COLUMNS = 30
_SECONDARY, _EXPRESSION = "secondary_index_", ("expr_index_", "func_index_")
_BLOOM_FILTERS = "bloom_filters"
#: Types whose values are equal to themselves in any query.
_EXACT = ("string", "long", "int", "bigint", "short", "byte", "date", "timestamp", "decimal", "boolean")
_FUNCTION, _FORMAT = re.compile(r"[a-z_0-9]+"), re.compile(r"[\w :/.,'-]*")


@dataclass(frozen=True)
class _Probe:
    """An index and the values that it is asked for, as expressions of Spark SQL."""

    index: str
    expressions: tuple[str, ...]


def rows_missed(spark: Any, request: DataCheck, state: TableState) -> tuple[str, ...]:
    """Which rows a query for their own values does not find, a sentence for each view and index.

    Raises:
        EngineError: a view cannot be read.
        RetryableError: its store did not answer.

    """
    indexes = set(state.metadata_partitions) - {"files"}
    files = _newest(state)
    if not indexes or not files:
        return ()
    storage = open_reader(state.base_path)
    with table_errors(state.base_path):
        properties = read_properties(storage)
        definitions = index_definitions(storage, properties)
    seen = read_view(spark, request, "ro", skips_data=False)
    keys = names_in(properties.get("hoodie.table.recordkey.fields"))
    probes = tuple(_probes(seen, indexes, definitions, keys, request.partition_fields))
    if not probes or not set(KEY) <= set(seen.columns):
        return ()
    drawn = _draw(spark, seen, probes, files)
    closed = [row for row in drawn if not _is_open(row[FILE_NAME], state)]
    views: Mapping[View, Sequence[Any]] = {"ro": drawn, "rt": closed}
    return tuple(
        fault
        for view, rows in views.items()
        for place, probe in enumerate(probes)
        for fault in _faults(spark, request, view, rows, place, probe)
    )


def _newest(state: TableState) -> list[str]:
    """Names of base files, the newest first."""
    named = sorted((one.base_instant, one.base_file) for one in state.slices if one.base_file)
    return [name for _, name in reversed(named[-_ROWS:])]


def _is_open(name: str, state: TableState) -> bool:
    """Whether log files may have changed the rows of a base file."""
    return any(one.base_file == name and one.log_files for one in state.slices)


def _probes(
    frame: Any,
    indexes: set[str],
    definitions: Mapping[str, IndexDefinition],
    keys: tuple[str, ...],
    partition_fields: Sequence[str],
) -> Iterator[_Probe]:
    """Readers take the first index that can serve a condition, so each is asked for by itself.

    Partition columns are left out: conditions on them choose partitions by their paths.
    """
    types = {name: kind for name, kind in _columns(frame) if kind.startswith(_EXACT)}
    secondary = {
        name: definitions[name].columns
        for name in sorted(indexes)
        if name.startswith(_SECONDARY) and name in definitions
    }
    apart = {*keys, *partition_fields, *(column for columns in secondary.values() for column in columns)}
    # Columns that are not indexed too: a file that has statistics of one of these and lacks an indexed one is left out.
    asked = [one for one in dict.fromkeys((*indexed_columns(definitions), *types)) if one in types and one not in apart]
    if indexes.intersection(COLUMN_STATISTICS) and asked:
        yield _Probe("column statistics", tuple(spark_name(one) for one in asked[:_MOST_COLUMNS]))
    if indexes.intersection((RECORD_INDEX, _BLOOM_FILTERS)) and len(keys) == 1 and keys[0] in types:
        yield _Probe("record keys", (spark_name(keys[0]),))
    for name, columns in secondary.items():
        if columns and set(columns) <= types.keys():
            yield _Probe(name, tuple(spark_name(one) for one in columns))
    for name in sorted(indexes):
        if name.startswith(_EXPRESSION) and name in definitions:
            expression = _expression(definitions[name])
            if expression is not None:
                yield _Probe(name, (expression,))


def _columns(frame: Any) -> Iterator[tuple[str, str]]:
    """Every column with its type, those within structs by their dotted names; Hudi's own are left out."""

    def below(prefix: str, schema: Any) -> Iterator[tuple[str, str]]:
        for one in schema.fields:
            if hasattr(one.dataType, "fields"):
                yield from below(f"{prefix}{one.name}.", one.dataType)
            else:
                yield f"{prefix}{one.name}", one.dataType.typeName()

    return (item for item in below("", frame.schema) if not item[0].startswith("_hoodie_"))


def _expression(definition: IndexDefinition) -> str | None:
    """The indexed expression as SQL, where it is a function of one column and at most a format."""
    function, form = definition.options.get("expr", ""), definition.options.get("format")
    if len(definition.columns) != 1 or not _FUNCTION.fullmatch(function) or not _FORMAT.fullmatch(form or ""):
        return None
    if set(definition.options) - {"expr", "format"}:
        return None
    column = spark_name(definition.columns[0])
    return f"{function}({column})" if form is None else f"{function}({column}, {spark_text(form)})"


def _draw(spark: Any, frame: Any, probes: Sequence[_Probe], files: Sequence[str]) -> list[Any]:
    """A row of each file: its key, its file, and the values that each probe asks for."""
    from pyspark.sql import functions as F  # noqa: N812

    asked = [
        F.expr(expression).alias(f"v{place}_{number}")
        for place, probe in enumerate(probes)
        for number, expression in enumerate(probe.expressions)
    ]
    rows = with_files(spark, frame, files).groupBy(FILE_NAME)
    return [
        {FILE_NAME: one[FILE_NAME], **one["row"].asDict()}
        for one in rows.agg(F.first(F.struct(*KEY, *asked)).alias("row")).collect()
    ]


def _faults(
    spark: Any,
    request: DataCheck,
    view: View,
    rows: Sequence[Mapping[str, Any]],
    place: int,
    probe: _Probe,
) -> Iterator[str]:
    """The rows of a view that are not found by what one index is asked for."""
    asked = [row for row in rows if any(row[f"v{place}_{n}"] is not None for n in range(len(probe.expressions)))]
    if not asked:
        return
    missed = _not_found(spark, request, view, asked, place, probe, skips_data=True)
    # What is not found without an index either is no fault of one, such as by the raw value of a partition's time.
    if missed:
        lost = _not_found(spark, request, view, missed, place, probe, skips_data=False)
        missed = [row for row in missed if row not in lost]
    if missed:
        first = missed[0]
        yield (
            f"{view.upper()}: {len(missed)} of {count_of(len(asked), 'row')} not found by `{probe.index}`, for example key "
            f"`{first[KEY[1]]}` of {first[FILE_NAME]}"
        )


def _not_found(
    spark: Any,
    request: DataCheck,
    view: View,
    rows: Sequence[Mapping[str, Any]],
    place: int,
    probe: _Probe,
    *,
    skips_data: bool,
) -> list[Mapping[str, Any]]:
    """The rows that a query for their own values does not find."""
    condition = reduce(lambda one, other: one | other, (_condition(row, place, probe) for row in rows))
    frame = read_view(spark, request, view, skips_data=skips_data).where(condition)
    found = {tuple(row) for row in frame.select(*KEY).collect()}
    return [row for row in rows if tuple(row[name] for name in KEY) not in found]


def _condition(row: Mapping[str, Any], place: int, probe: _Probe) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    values = ((one, row[f"v{place}_{number}"]) for number, one in enumerate(probe.expressions))
    equal = [F.expr(one) == F.lit(value) for one, value in values if value is not None]
    return reduce(lambda one, other: one & other, equal)
