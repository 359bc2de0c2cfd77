"""Columns of an Avro record by name; a dotted name leads into structs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etc_policy.hudi.values import list_of, mapping_of

Path = tuple[str, ...]
Fields = Sequence[Mapping[str, Any]]


def find_column(fields: Fields, name: str) -> tuple[Path, Any] | None:
    """The field names that lead to a column, and its type; None where there is no such column.

    It leads through structs alone, which may be null: not into lists or maps.
    """
    return _find(fields, name, dict(_records_in(fields, "")) if "." in name else {})


def leaf_names(fields: Fields) -> Iterator[str]:
    """The names of all columns that are no structs, with dots where they are within one."""
    return _leaf_names(fields, dict(_records_in(fields, "")))


def _leaf_names(fields: Fields, records: Mapping[str, Fields]) -> Iterator[str]:
    for field in fields:
        name, inner = str(field["name"]), _fields_of(field["type"], records)
        yield from (f"{name}.{below}" for below in _leaf_names(inner, records)) if inner else (name,)


def _find(fields: Fields, name: str, records: Mapping[str, Fields]) -> tuple[Path, Any] | None:
    whole = _field(fields, name)
    if whole is not None:
        return (name,), whole["type"]
    head, _, rest = name.partition(".")
    outer = _field(fields, head)
    inner = _find(_fields_of(outer["type"], records), rest, records) if outer is not None and rest else None
    return ((head, *inner[0]), inner[1]) if inner is not None else None


def _records_in(fields: Fields, space: str) -> Iterator[tuple[str, Fields]]:
    """The fields of every record that is defined in the types of these fields, by its name with and without its namespace."""
    types = [mapping_of(field)["type"] for field in fields]
    while types:
        one = types.pop()
        if isinstance(one, list):
            types += one
        elif isinstance(one, dict) and one.get("type") in ("array", "map"):
            types.append(one.get("items") or one.get("values"))
        elif isinstance(one, dict) and one.get("type") == "record":
            name, own = str(one.get("name")), str(one.get("namespace") or space)
            below = list_of(one["fields"])
            yield from ((name, below), (f"{own}.{name}", below))
            yield from _records_in(below, own)


def value_at(record: Any, path: Path) -> Any:
    """The value at a path; None where a struct on the way is null."""
    for name in path:
        if record is None:
            return None
        record = record[name]
    return record


def _field(fields: Fields, name: str) -> Mapping[str, Any] | None:
    return next((field for field in fields if mapping_of(field)["name"] == name), None)


def _fields_of(avro_type: Any, records: Mapping[str, Fields]) -> Fields:
    """The fields of a record that may be null, defined there or named; none of anything else."""
    if isinstance(avro_type, list):
        others = [option for option in avro_type if option != "null"]
        return _fields_of(others[0], records) if len(others) == 1 else ()
    if isinstance(avro_type, str):
        return records.get(avro_type, ())
    if not isinstance(avro_type, dict) or avro_type.get("type") != "record":
        return ()
    return list_of(avro_type["fields"])
