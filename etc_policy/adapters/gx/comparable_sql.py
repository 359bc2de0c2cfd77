"""Spark columns in a form that `<=>` can compare: maps, which Spark cannot compare, become sorted entries."""

from __future__ import annotations

from typing import Any


def comparable(column: Any, data_type: Any) -> Any:  # noqa: ANN401 - Spark Column and DataType
    """The column so that equal values, also in nested maps, are equal by `<=>`; NaN equals NaN, 0.0 equals -0.0."""
    from pyspark.sql import functions as F  # noqa: N812

    if not _has_map(data_type):
        return column
    kind = data_type.typeName()
    if kind == "array":
        return F.transform(column, lambda element: comparable(element, data_type.elementType))
    if kind == "struct":
        fields = [comparable(column.getField(f.name), f.dataType).alias(f.name) for f in data_type.fields]
        return F.when(column.isNotNull(), F.struct(*fields))
    return F.array_sort(
        F.transform(
            F.map_entries(column),
            lambda entry: F.struct(entry["key"].alias("key"), comparable(entry["value"], data_type.valueType)),
        )
    )


def _has_map(data_type: Any) -> bool:  # noqa: ANN401
    kind = data_type.typeName()
    if kind == "array":
        return _has_map(data_type.elementType)
    if kind == "struct":
        return any(_has_map(field.dataType) for field in data_type.fields)
    return bool(kind == "map")
