"""Avro schemas of other hands: parsed only where decoding by them takes no more than the bytes allow.

A decoder follows a schema wherever it leads. One that holds itself ends the process, one whose values take no byte makes
them by the billion. So before anything is decoded, each type has its excess: the most values that one of its encodings
makes beyond two for each byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from etc_policy.hudi.values import list_of, mapping_of

#: Types in types; Hudi's own metadata has eight.
MAX_DEPTH = 32
#: Values that a byte may make: more is what no schema of Hudi does.
VALUES_PER_BYTE = 2
#: Values that a whole record may make besides, such as columns of type null.
_SPARE_VALUES = 1_000
_MAX_NESTING = 4 * MAX_DEPTH
_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
#: What of a schema says how values are written. A decimal is left as its bytes: to make its number takes the square of them.
_KEYS = frozenset(("type", "name", "namespace", "fields", "items", "values", "symbols", "size", "logicalType"))


class UnsafeSchemaError(Exception):
    """The schema makes more of a few bytes than anybody needs; the reason is in the message."""


class _Size(NamedTuple):
    """The values that a type makes beyond those allowed for its bytes, and how deep it is."""

    excess: int
    depth: int = 0


def parse_schema(schema: Any) -> Any:
    """The schema as fastavro decodes by it.

    Raises:
        UnsafeSchemaError: it holds itself, is too deep, or makes values of no bytes.
        Exception: fastavro raises almost anything over what is no schema.

    """
    import fastavro

    parsed = fastavro.parse_schema(_plain(schema, 0))
    if _size(parsed, {}).excess > _SPARE_VALUES:
        raise UnsafeSchemaError("the schema makes many values of few bytes")
    return parsed


def can_skip(schema: Any) -> bool:
    """Whether fastavro notices the end of the bytes while it skips any list: it does where items hold a length or a number."""
    if isinstance(schema, list):
        return all(map(can_skip, schema))
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "array" and not _has_length(schema["items"]):
        return False
    return all(map(can_skip, schema.values()))


def _has_length(schema: Any) -> bool:
    if isinstance(schema, list):
        return True
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return any(_has_length(field["type"]) for field in schema["fields"])
    return kind in ("int", "long", "string", "bytes", "enum", "array", "map")


def _plain(schema: Any, depth: int) -> Any:
    """A copy with what counts for decoding alone."""
    if depth > _MAX_NESTING:
        raise UnsafeSchemaError("the schema is nested too deep")
    if isinstance(schema, list):
        return [_plain(part, depth + 1) for part in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = "logicalType" if schema.get("logicalType") == "decimal" else None
    return {key: _plain(part, depth + 1) for key, part in schema.items() if key in _KEYS and key != left_out}


def _size(schema: Any, named: dict[str, _Size | None]) -> _Size:
    """The size of a parsed type; `named` has those of named types so far, None for a record that is not yet complete."""
    if isinstance(schema, list):
        found = [_size(branch, named) for branch in schema]
        return _deeper(max(one.excess for one in found) - VALUES_PER_BYTE, found)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind in _BYTES:
        return _Size(1 - VALUES_PER_BYTE * _BYTES[kind])
    match kind:
        case "fixed" | "enum":
            size = named[schema["name"]] = _Size(1 - VALUES_PER_BYTE * int(schema.get("size", 1)))
            return size
        case "array" | "map":
            return _repeated(schema, named)
        case "record" | "error":
            return _record(schema, named)
    known = named[kind]
    if known is None:
        raise UnsafeSchemaError(f"the record {str(kind)[:100]} of the schema holds itself")
    return known


def _record(schema: Any, named: dict[str, _Size | None]) -> _Size:
    name = schema["name"]
    named[name] = None
    found = [_size(field["type"], named) for field in schema["fields"]]
    size = named[name] = _deeper(1 + sum(one.excess for one in found), found)
    return size


def _repeated(schema: Any, named: dict[str, _Size | None]) -> _Size:
    """An array or a map: each of its items must be paid for by its own bytes, those of its key with them."""
    is_map = schema["type"] == "map"
    item = _size(schema["values" if is_map else "items"], named)
    if item.excess + (1 - VALUES_PER_BYTE) * is_map > 0:
        raise UnsafeSchemaError("a list of the schema has items of no bytes, or of many values for each byte")
    return _deeper(1 - VALUES_PER_BYTE, [item])


def _deeper(excess: int, parts: list[_Size]) -> _Size:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > MAX_DEPTH:
        raise UnsafeSchemaError("the schema is nested too deep")
    return _Size(excess, depth)


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
