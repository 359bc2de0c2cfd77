"""Spark columns in forms that can be compared: by `<=>`, which takes no maps, and by a hash of a whole row."""

from __future__ import annotations

from typing import Any

_JSON = {"ignoreNullFields": "false", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}


def comparable(column: Any, data_type: Any) -> Any:
    """The column so that equal values, also in nested maps, are equal by `<=>`; NaN equals NaN, 0.0 equals -0.0."""
    return _mapped(column, data_type, maps_only=True)


def row_values(schema: Any) -> Any:
    """A row's values as one struct, each as `comparable`."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(*[comparable(F.col(f"`{f.name}`"), f.dataType).alias(f.name) for f in _fields(schema)])


def row_hash(schema: Any) -> Any:
    """128 bits of a row's values: equal where `comparable` is equal for each column.

    Spark's hash skips nulls, so each column is hashed together with whether it is null. Arrays, structs and maps are hashed as
    JSON, in which different values have different texts: a string as its bytes, a time as a number of microseconds.
    """
    from pyspark.sql import functions as F  # noqa: N812

    said = [part for field in _fields(schema) for part in _hashable(F.col(f"`{field.name}`"), field.dataType)]
    return F.struct(*hashes(*said))


def hashes(*columns: Any) -> tuple[Any, Any]:
    """Two columns with 64 bits each, the second `other_hash`: together they distinguish rows."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.xxhash64(*columns).alias("hash"), F.xxhash64(F.lit(1), *columns).alias("other_hash")


def _hashable(column: Any, data_type: Any) -> tuple[Any, Any]:
    """What a hash is to be made of, for one column."""
    from pyspark.sql import functions as F  # noqa: N812

    kind = data_type.typeName()
    if kind in ("array", "struct", "map"):
        nested = F.struct(_mapped(column, data_type, maps_only=False).alias("value"))
        return F.to_json(nested, _JSON), column.isNull()
    return _as_one_zero(column, kind), column.isNull()


def _fields(schema: Any) -> list[Any]:
    """The user's columns of a row, in the order of their names."""
    return sorted((f for f in schema.fields if not f.name.startswith("_hoodie_")), key=lambda f: str(f.name))


def _mapped(column: Any, data_type: Any, *, maps_only: bool) -> Any:
    """Maps as sorted entries, also within arrays and structs; unless `maps_only` also leaves in a form that is exact as JSON."""
    from pyspark.sql import functions as F  # noqa: N812

    kind = data_type.typeName()
    if kind not in ("array", "struct", "map"):
        return column if maps_only else _exact(column, kind)
    if maps_only and not _has_map(data_type):
        return column
    if kind == "array":
        return F.transform(column, lambda element: _mapped(element, data_type.elementType, maps_only=maps_only))
    if kind == "struct":
        fields = [
            _mapped(column.getField(f.name), f.dataType, maps_only=maps_only).alias(f.name) for f in data_type.fields
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    return F.array_sort(
        F.transform(
            F.map_entries(column),
            lambda entry: F.struct(
                _mapped(entry["key"], data_type.keyType, maps_only=maps_only).alias("key"),
                _mapped(entry["value"], data_type.valueType, maps_only=maps_only).alias("value"),
            ),
        )
    )


def _exact(column: Any, kind: str) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    if kind == "timestamp":
        return F.unix_micros(column)
    if kind == "string":
        return column.cast("binary")
    return _as_one_zero(column, kind)


def _as_one_zero(column: Any, kind: str) -> Any:
    """The column with one zero: 0.0 equals -0.0."""
    from pyspark.sql import functions as F  # noqa: N812

    return column + F.lit(0).cast(kind) if kind in ("float", "double") else column


def _has_map(data_type: Any) -> bool:
    kind = data_type.typeName()
    if kind == "array":
        return _has_map(data_type.elementType)
    if kind == "struct":
        return any(_has_map(field.dataType) for field in data_type.fields)
    return bool(kind == "map")
