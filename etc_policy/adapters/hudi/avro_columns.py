"""Columns of an Avro record by name; a dotted name leads into structs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from etc_policy.adapters.hudi.values import list_of, mapping_of

Path = tuple[str, ...]


def find_column(fields: Sequence[Mapping[str, Any]], name: str) -> tuple[Path, Any] | None:
    """The field names that lead to a column, and its type; None where there is no such column.

    It leads through structs alone, which may be null: not into lists or maps.
    """
    whole = _field(fields, name)
    if whole is not None:
        return (name,), whole["type"]
    head, _, rest = name.partition(".")
    outer = _field(fields, head)
    inner = find_column(_fields_of(outer["type"]), rest) if outer is not None and rest else None
    return ((head, *inner[0]), inner[1]) if inner is not None else None


def value_at(record: Any, path: Path) -> Any:  # noqa: ANN401 - any Avro value
    """The value at a path; None where a struct on the way is null."""
    for name in path:
        if record is None:
            return None
        record = record[name]
    return record


def _field(fields: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((field for field in fields if mapping_of(field)["name"] == name), None)


def _fields_of(avro_type: Any) -> Sequence[Mapping[str, Any]]:  # noqa: ANN401 - an Avro schema is any JSON value
    """The fields of a record that may be null; none of anything else."""
    if isinstance(avro_type, list):
        others = [option for option in avro_type if option != "null"]
        return _fields_of(others[0]) if len(others) == 1 else ()
    if not isinstance(avro_type, dict) or avro_type.get("type") != "record":
        return ()
    return list_of(avro_type["fields"])
