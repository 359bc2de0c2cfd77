"""Avro schemas of other hands: parsed only where decoding by them takes no more than the bytes allow.

A decoder follows a schema wherever it leads. One that holds itself ends the process, one whose values take no byte makes
them by the billion. So before anything is decoded, each type has its excess: the most values that one of its encodings
makes beyond two for each byte.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
