"""Event time as epoch milliseconds: a Spark expression for each type that a column of times may have."""

from __future__ import annotations

import re
from typing import Any

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.event_time_values import ISO, PER_MS, UNIT_OF_DIGITS
from etc_policy.policy.manifest import EventTime
from etc_policy.table.instants import DAY_MS

_QUOTED = re.compile(r"'[^']*'")


def event_time_ms(schema: Any, event_time: EventTime) -> tuple[Any, Any]:
    """The event-time column of a schema and its value in epoch milliseconds (None where it cannot be read as a time).

    Times without a zone are read as UTC, whatever the session's zone is. Fractions of a millisecond are cut off.

    Raises:
        TableError: there is no such column, or no times can be read from its type.

    """
    column, data_type = _find(schema, event_time.column)
    type_name = data_type.typeName()
    if type_name in {"byte", "short", "integer", "long"} or (type_name == "decimal" and data_type.scale == 0):
        return column, _from_number(column.cast("bigint"), event_time.unit)
    if type_name == "string":
        return column, _from_format(column, event_time.format) if event_time.format else _from_text(column, event_time)
    readers = {"timestamp": _from_timestamp, "timestamp_ntz": _from_wall_clock, "date": _from_date}
    if type_name not in readers:
        raise TableError(
            Code.NO_TIMES,
            f"event-time column `{event_time.column}` is of type `{data_type.simpleString()}`, which holds no times",
            hint="use a timestamp, a date, an integer (with `unit`) or a string (with `format`)",
        )
    return column, readers[type_name](column)


def _find(schema: Any, name: str) -> tuple[Any, Any]:
    """The column and its type; a dotted name may lead into structs."""
    from pyspark.sql import functions as F  # noqa: N812

    fields = {field.name: field.dataType for field in schema.fields}
    if name in fields:
        return F.col(f"`{name}`"), fields[name]
    head, *rest = name.split(".")
    data_type, column = fields.get(head), F.col(f"`{head}`")
    for part in rest:
        fields = {field.name: field.dataType for field in getattr(data_type, "fields", ())}
        data_type, column = fields.get(part), column.getField(part)
    if data_type is None:
        columns = ", ".join(field.name for field in schema.fields if not field.name.startswith("_hoodie_"))
        raise TableError(
            Code.MISSING_TIME_COLUMN, f"the table has no event-time column `{name}`", hint=f"its columns: {columns}"
        )
    return column, data_type


def _from_timestamp(column: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return F.unix_millis(column)


def _from_date(column: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return F.unix_date(column).cast("bigint") * DAY_MS


def _from_wall_clock(column: Any) -> Any:
    """By way of text: every direct cast would read it in the session's zone, where an hour a year does not exist."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.unix_millis(F.try_to_timestamp(F.concat(column.cast("string"), F.lit("Z"))))


def _from_number(number: Any, unit: str | None) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    def scaled(unit: str) -> Any:
        factor, divisor = PER_MS[unit]
        product = F.try_multiply(number, F.lit(factor).cast("bigint"))
        return product if divisor == 1 else F.floor(product.cast("decimal(20,0)") / divisor).cast("bigint")

    if unit is not None:
        return scaled(unit)
    readings = [F.when(number.between(10 ** (n - 1), 10**n - 1), scaled(u)) for n, u in UNIT_OF_DIGITS.items()]
    return F.coalesce(*readings)


def _from_format(column: Any, pattern: str) -> Any:
    """A pattern without a zone is given one, so that the session's zone does not count."""
    from pyspark.sql import functions as F  # noqa: N812

    if re.search("[VzOXxZ]", _QUOTED.sub("", pattern)):
        return F.unix_millis(F.try_to_timestamp(column, F.lit(pattern)))
    return F.unix_millis(F.try_to_timestamp(F.concat(column, F.lit(" +00:00")), F.lit(f"{pattern} XXX")))


def _from_text(column: Any, event_time: EventTime) -> Any:
    """Digits as numbers are read, else ISO 8601."""
    from pyspark.sql import functions as F  # noqa: N812

    text = F.trim(column)
    digits = F.when(text.rlike(r"^\d{1,18}$"), text.cast("bigint"))
    day, time, zone = (F.regexp_extract(text, ISO, group) for group in (1, 2, 3))
    # Spark takes a zone only after seconds.
    time = (
        F.when(time == "", "00:00:00")
        .when(F.length(time) == len("00:00"), F.concat(time, F.lit(":00")))
        .otherwise(time)
    )
    zone = F.when(zone == "", "Z").otherwise(zone)
    iso = F.when(text.rlike(ISO), F.unix_millis(F.try_to_timestamp(F.concat(day, F.lit("T"), time, zone))))
    return F.coalesce(_from_number(digits, event_time.unit), iso)
