"""The schemas of a table's rows, as its commits carry them: which columns there are, and what they were before.

A table with schema on read has an evolved schema besides, which commits carry on, and by which Hudi reads and merges (facts:
schema-of-the-cut). Beside the timeline Hudi keeps all versions of it, in which a column has one number under all its names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.archive import Archive
from etc_policy.hudi.commits import CommitMetadata, decode_metadata
from etc_policy.hudi.metadata_values import MAX_PATH, list_of, load_json, mapping_of, text_of
from etc_policy.hudi.timeline import Timeline
from etc_policy.policy.manifest import EventTime, digest
from etc_policy.table.state import HIDDEN, UNION, Instant, Lacking, find_lacking

Path = tuple[str, ...]
Fields = Sequence[Mapping[str, Any]]

_TIME_TYPES = frozenset(
    {"int", "long", "string", "date", "timestamp-millis", "timestamp-micros"}
    | {"timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros"}
)
#: What Spark reads from no base file that says it, and from log files as a number.
TIMES_OF_DAY = ("time-millis", "time-micros")
#: Of a decimal of Spark.
_MOST_DIGITS = 38
_TYPES_OF_KEYS = {"unit": ("int", "long", "string"), "format": ("string",)}
#: Columns that an error names at most.
_NAMED = 50
#: So long the names of all columns may be together, where each counts as so many characters at least.
_MOST_CHARACTERS, _FEWEST_CHARACTERS = 4_000_000, 40
#: What a streamer writes while it knows of no schema.
_NO_SCHEMA = '"null"'


def newest_fields(timeline: Timeline) -> list[Any] | None:
    """The columns of the newest schema that a completed write carries; None without one."""
    for requested in sorted(timeline.written, reverse=True):
        schema = timeline.commit(requested).extra.get("schema")
        if schema and schema != _NO_SCHEMA:
            return _decoded(schema, f"{timeline.storage.location}: the schema in {requested}")
    return None


@lru_cache(maxsize=4)
def _decoded(schema: str, place: str) -> list[Any]:
    """The columns of a schema, which a reading asks for several times."""
    return list_of(decode_metadata(schema.encode(), place).get("fields"))


def type_of_column(timeline: Timeline, name: str) -> str | None:
    """The Avro type of a column in the newest schema; None where that has none of this name."""
    found = find_column(newest_fields(timeline) or (), name)
    return None if found is None else type_name(found[1])


def columns_fingerprint(timeline: Timeline) -> str:
    """Another text once the columns are others, or their types, in whatever order; empty where no commit says them."""
    fields = [mapping_of(field) for field in newest_fields(timeline) or ()]
    types = {text_of(field["name"]): type_name(field["type"]) for field in fields}
    return digest({name: kind for name, kind in types.items() if not name.startswith("_hoodie")}) if types else ""


def column_type_of(event_time: EventTime, timeline: Timeline) -> str | None:
    """The Avro type of the event-time column in the newest schema; None where no commit carries a schema."""
    fields, base, column = newest_fields(timeline), timeline.storage.location, event_time.column
    if fields is None:
        return None
    found = find_column(fields, column)
    if found is not None:
        return _time_type(type_name(found[1]), event_time, base)
    known = [name for name in (text_of(field["name"]) for field in fields) if not name.startswith("_hoodie")]
    names = ", ".join([*known[:_NAMED], *(["..."] if len(known) > _NAMED else [])])
    message = f"table `{base}` has no column `{column}` to take event times from"
    raise TableError(Code.NO_EVENT_TIME_COLUMN, message, hint=f"its columns are {names}")


def _time_type(column_type: str, event_time: EventTime, base: str) -> str:
    """The column's type, if its values can be times, and can be read as the policy says."""
    said = f"column `{event_time.column}` of table `{base}` is of type {column_type}"
    if column_type not in _TIME_TYPES:
        hint = "name a column of timestamps, dates, integers or strings in `event_time_column`"
        raise TableError(Code.NOT_A_TIME_COLUMN, f"{said}, which cannot be read as a time", hint=hint)
    for key, types in _TYPES_OF_KEYS.items():
        if getattr(event_time, key) is not None and column_type not in types:
            message = f"{said}, and `{key}` is for columns of type {', '.join(types)}"
            raise TableError(Code.NOT_A_TIME_COLUMN, message, hint=f"remove `{key}` from `event_time_column`")
    return column_type


def type_name(avro_type: Any) -> str:
    """The name of a column's Avro type: its logical type where it has one."""
    if isinstance(avro_type, list):
        return type_name(next((t for t in avro_type if t != "null"), "null"))
    if isinstance(avro_type, dict):
        named = avro_type.get("logicalType") or avro_type["type"]
        return named if isinstance(named, str) else "nested"  # a text of it may be as long as the schema
    return str(avro_type)


def unworkable_columns(fields: Fields) -> Iterator[tuple[str, str]]:
    """The columns that Spark has no type for, or reads from no base file, each with what it is.

    See facts: types-not-compacted.
    """
    waiting = [(text_of(field["name"]), field["type"]) for field in map(mapping_of, fields)]
    while waiting:
        name, kind = waiting.pop()
        options = [one for one in kind if one != "null"] if isinstance(kind, list) else [kind]
        if len(options) > 1:
            both = " and ".join(map(type_name, options)) if len(options) == 2 else f"{len(options)} types"
            yield name, f"{UNION} {both}"
            continue
        kind = options[0] if options else "null"
        if not isinstance(kind, dict):
            continue  # a record that is named was looked at where it is defined
        logical, inner = kind.get("logicalType"), kind.get("type")
        if logical in TIMES_OF_DAY:
            yield name, str(logical)
        elif logical == "decimal" and int(kind.get("precision", 0)) > _MOST_DIGITS:
            yield name, f"a decimal of {kind['precision']} digits"
        elif inner == "record":
            below = map(mapping_of, list_of(kind["fields"]))
            waiting += ((f"{name}.{field['name']}", field["type"]) for field in below)
        elif inner in ("array", "map"):
            waiting.append((name, kind.get("items", kind.get("values"))))
        elif isinstance(inner, (dict, list)):
            waiting.append((name, inner))


def find_column(fields: Fields, name: str) -> tuple[Path, Any] | None:
    """The field names that lead to a column, and its type; None where there is no such column.

    It leads through structs alone, which may be null: not into lists or maps.
    """
    return _find(fields, name, dict(_records_in(fields, "")) if "." in name else {})


def _find(fields: Fields, name: str, records: Mapping[str, Fields]) -> tuple[Path, Any] | None:
    whole = _field(fields, name)
    if whole is not None:
        return (name,), whole["type"]
    head, _, rest = name.partition(".")
    outer = _field(fields, head)
    inner = _find(_fields_of(outer["type"], records), rest, records) if outer is not None and rest else None
    return ((head, *inner[0]), inner[1]) if inner is not None else None


def _field(fields: Fields, name: str) -> Mapping[str, Any] | None:
    return next((field for field in fields if mapping_of(field)["name"] == name), None)


def leaf_columns(fields: Fields) -> Iterator[tuple[str, Any]]:
    """The names of all columns that are no structs, with dots where they are within one, and their types.

    Raises:
        ValueError: there are far more than tables have: a few structs that are named again and again are any number.

    """
    records, left = dict(_records_in(fields, "")), _MOST_CHARACTERS
    waiting = [("", iter(fields))]
    while waiting:
        above, fields_left = waiting[-1]
        field = next(fields_left, None)
        if field is None:
            waiting.pop()
            continue
        name, inner = f"{above}{field['name']}", _fields_of(field["type"], records)
        left -= max(len(name), _FEWEST_CHARACTERS)
        if left < 0:
            raise ValueError("more columns than a table has")
        if inner:
            waiting.append((f"{name}.", iter(inner)))
        else:
            yield name, field["type"]


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


def _fields_of(avro_type: Any, records: Mapping[str, Fields]) -> Fields:
    """The fields of a record that may be null, defined there or named; none of anything else."""
    if isinstance(avro_type, list):
        others = [option for option in avro_type if option != "null"]
        return _fields_of(others[0], records) if len(others) == 1 else ()
    if isinstance(avro_type, str):
        return records.get(avro_type, ())
    is_record = isinstance(avro_type, dict) and avro_type.get("type") == "record"
    return list_of(avro_type["fields"]) if is_record else ()


#: The pair of a commit's metadata by which tables with schema on read know names and types that columns had before.
EVOLVED_SCHEMA = "latest_schema"
#: Where a version says the number of a column, of the elements of a list and of the keys and values of a map.
_NUMBERS = {"fields": "id", "element": "element_id", "key": "key_id", "value": "value_id"}


def evolved_schema_before(timeline: Timeline, instant: str) -> str:
    """The schema that the last completed write requested before an instant carries; empty where it carries none."""
    before = max((one for one in timeline.written if one < instant), default=None)
    return timeline.commit(before).extra.get(EVOLVED_SCHEMA, "") if before is not None else ""


def with_schemas(timeline: Timeline) -> tuple[Instant, ...]:
    """All instants, where completed writes have the names of the schemas that they carry."""
    names = schema_names(timeline, {one: timeline.commit(one) for one in timeline.written})
    return tuple(replace(one, schema=names.get(one.requested, "")) for one in timeline.instants())


def lacking_at(timeline: Timeline, instant: str) -> Lacking | None:
    """Why a compaction at an instant would not merge by the table's schema, of what was requested since and the last before."""
    writes = sorted(one for one in timeline.written if one != instant)
    last = sum(one < instant for one in writes) - 1
    seen = writes[max(last, 0) :]
    timeline.expect(timeline.latest(one) for one in seen)
    names = schema_names(timeline, {one: timeline.commit(one) for one in seen})
    return find_lacking((Instant(one, "commit", "completed", schema=names[one]) for one in seen), instant)


def schema_names(timeline: Timeline, commits: Mapping[str, CommitMetadata]) -> dict[str, str]:
    """The name of the schema that each of the commits carries: HIDDEN for none where that loses values, else empty."""
    names = {one: _name_of(commit.extra.get(EVOLVED_SCHEMA, "")) for one, commit in commits.items()}
    altered = _altered_from(timeline) if "" in names.values() else None
    if altered is None:
        return names
    return {one: name or (HIDDEN if one > altered else "") for one, name in names.items()}


@lru_cache(maxsize=256)
def _name_of(schema: str) -> str:
    """A short text that is another one for another schema: mostly all commits carry the same."""
    return hashlib.sha256(schema.encode(errors="surrogatepass")).hexdigest()[:16] if schema else ""


def _altered_from(timeline: Timeline) -> str | None:
    """The instant of the first version of a schema that has lost or changed columns since; None where columns were only added."""
    found = timeline.schema_versions
    if found is None:
        return None
    versions = _versions_in(found[1])
    if versions is None:
        return found[0]
    newest = versions[max(versions)]
    if all(one.items() <= newest.items() for one in versions.values()):
        return None
    return str(min((version for version in versions if version), default=found[0]))


def column_since(timeline: Timeline, archive: Archive, column: str) -> str:
    """When the name of the column had become its own, if it was another one's before; empty where it never was.

    In blocks that were begun before that, the name is of that other column: Hudi reads by numbers (facts: schema-reused-names).
    """
    found = timeline.schema_versions
    if found is None:
        return ""
    newest, content = found
    versions = _versions_in(content)
    if versions is None:
        return _altered_at(timeline, archive, newest, newest)
    numbers = {version: of_version.get(f".{column}", (None,))[0] for version, of_version in versions.items()}
    own = numbers[max(numbers)]
    last_of_other = max((one for one, number in numbers.items() if number not in (None, own)), default=None)
    if last_of_other is None:
        return ""
    return _altered_at(timeline, archive, str(min(one for one in numbers if one > last_of_other)), newest)


def _altered_at(timeline: Timeline, archive: Archive, instant: str, newest: str) -> str:
    """When an ALTER TABLE had ended; where nobody knows that of an older one, when the newest had."""
    if timeline.layout < 2:
        return instant
    ends = timeline.completions.get(instant) or archive.completions.get(instant)
    if ends is None and instant != newest:
        return _altered_at(timeline, archive, newest, newest)
    return ends or instant


@lru_cache(maxsize=4)
def _versions_in(content: bytes) -> Mapping[int, Mapping[str, tuple[int, str]]] | None:
    """The columns of all versions of a schema as Hudi keeps them; None where these have another form."""
    try:
        return {int(one["version_id"]): _columns(one) for one in load_json(content)["schemas"]} or None
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None


def _columns(kind: Any, path: str = "") -> dict[str, tuple[int, str]]:
    """Number and type by path of each column, also within others."""
    found: dict[str, tuple[int, str]] = {}
    for part, number in _NUMBERS.items():
        inner = kind.get(part) if isinstance(kind, dict) else None
        for one in inner if isinstance(inner, list) else [{**kind, "type": inner, "name": part}] if inner else ():
            below, own = f"{path}.{one['name']}", one["type"]
            if len(below) > MAX_PATH:  # it stands before the names of all columns within it
                raise ValueError("the name of a column is too long")
            found[below] = int(one[number]), own if isinstance(own, str) else str(own["type"])
            found |= _columns(own, below)
    return found
