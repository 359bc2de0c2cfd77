"""The policy's event-time column in a table's schema, and whether what its commits record of event times is that column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.avro_columns import find_column
from etc_policy.hudi.commits import CommitMetadata, decode_metadata
from etc_policy.hudi.log_facts import Trust, hides_deletes_of
from etc_policy.hudi.properties import updates_in_part
from etc_policy.hudi.values import list_of, text_of
from etc_policy.hudi.zones import table_zone
from etc_policy.policy.manifest import EventTime

_TIME_TYPES = frozenset(
    {"int", "long", "string", "date", "timestamp-millis", "timestamp-micros"}
    | {"timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros"}
)
_TYPES_OF_KEYS = {"unit": ("int", "long", "string"), "format": ("string",)}
#: Columns that an error names at most.
_NAMED = 50
#: What a streamer writes while it knows of no schema.
_NO_SCHEMA = '"null"'


def trust_of(layout: int, properties: Mapping[str, str], event_time: EventTime, column_type: str | None) -> Trust:
    """How far write stats are to be believed; on layout 1 no commit's event times can be matched to a log file."""
    times = layout >= 2 and _is_tracked(event_time, column_type)
    return Trust(
        times,
        deletes=not hides_deletes_of(properties),
        bounds=not updates_in_part(properties),
        zone=ZoneInfo(table_zone(properties)),
        max_ahead_ms=event_time.ahead_ms,
    )


def _is_tracked(event_time: EventTime, column_type: str | None) -> bool:
    """Whether the event times that the writer recorded are the policy's: it reads 10-digit s or 13-digit ms.

    See facts: commit-event-times. Of micro- or nanoseconds it drops those of today, and misreads some of 1970.
    """
    if not event_time.trust_commit_metadata or event_time.format is not None or event_time.unit == "us":
        return False
    if column_type is not None and column_type.endswith(("-micros", "-nanos")):
        return False
    return column_type != "string" or event_time.unit is not None


def column_type_of(event_time: EventTime, commits: Mapping[str, CommitMetadata], base: str) -> str | None:
    """The Avro type of the event-time column in the newest schema; None where no commit carries a schema."""
    fields = newest_fields(commits, base)
    if fields is None:
        return None
    column = event_time.column
    found = find_column(fields, column)
    if found is not None:
        return _time_type(type_name(found[1]), event_time, base)
    known = [name for name in (text_of(field["name"]) for field in fields) if not name.startswith("_hoodie")]
    names = ", ".join([*known[:_NAMED], *(["..."] if len(known) > _NAMED else [])])
    hint = f"its columns are {names}"
    raise TableError(
        Code.NO_EVENT_TIME_COLUMN, f"table `{base}` has no column `{column}` to take event times from", hint=hint
    )


def newest_fields(commits: Mapping[str, CommitMetadata], base: str) -> list[Any] | None:
    """The columns of the newest schema; None where no commit carries one."""
    for requested in sorted(commits, reverse=True):
        schema = commits[requested].extra.get("schema")
        if schema and schema != _NO_SCHEMA:
            return list_of(decode_metadata(schema.encode(), f"{base}: the schema in {requested}").get("fields"))
    return None


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
        return str(avro_type.get("logicalType") or avro_type["type"])
    return str(avro_type)
