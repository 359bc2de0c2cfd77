"""Event time as epoch milliseconds in plain Python: the rule of `event_time_sql` for values taken from files.

Where Spark reads a value as a time, the same time comes out here or None; None means that nobody may rely on it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from etc_policy.policy.manifest import EventTime
from etc_policy.table.instants import DAY_MS

#: Factor and divisor from each unit to milliseconds.
PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000)}
#: Hudi reads undeclared numbers by their length too.
UNIT_OF_DIGITS = {10: "s", 13: "ms", 16: "us"}
#: Day, time and zone of the ISO 8601 texts that are read without a pattern.
ISO = r"^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?(Z|[+-]\d{2}(?::?\d{2})?)?)?$"

TimeOf = Callable[[Any], int | None]

_LONGS = range(-(2**63), 2**63)
_MAX_OFFSET_MINUTES = 18 * 60
_PER_LOGICAL = {"date": (DAY_MS, 1)} | {
    f"{prefix}timestamp-{unit}": (1, divisor)
    for prefix in ("", "local-")
    for unit, divisor in (("millis", 1), ("micros", 1000), ("nanos", 1_000_000))
}
_ISO = re.compile(ISO, re.ASCII)
_DIGITS = re.compile(r"\d{1,18}", re.ASCII)
_ZONE = re.compile(r"(?P<sign>[+-])(?P<hours>\d{2})(?::?(?P<minutes>\d{2}))?", re.ASCII)
#: The letters of a pattern in the order in which each needs those before it, with what Spark puts where one is missing.
_FIELDS = (("yyyy", 1970), ("MM", 1), ("dd", 1), ("HH", 0), ("mm", 0), ("ss", 0))
#: Java lets a year take all digits that follow but those of fields of fixed width, so Spark reads no such text.
_GREEDY_YEAR = re.compile("yyyy[A-Za-z]*S")
_TOKEN = re.compile(r"'(?P<quoted>[^']+)'|(?P<letters>([A-Za-z])\3*)|(?P<literal>[^A-Za-z'\[\]{}#])")


def kind_of(type_name: str) -> str | None:
    """What an Avro type (its logical type where it has one) holds: `number`, `text`, a logical type of times, or None."""
    if type_name in ("int", "long"):
        return "number"
    if type_name == "string":
        return "text"
    return type_name if type_name in _PER_LOGICAL else None


def time_reader(kind: str, event_time: EventTime) -> TimeOf:
    """The function from a raw value (the integer or the text as stored) to epoch milliseconds; None for no time."""
    if kind == "number":
        return lambda number: number_ms(number, event_time.unit)
    if kind == "text":
        pattern = event_time.format
        return (lambda text: format_ms(text, pattern)) if pattern else (lambda text: text_ms(text, event_time.unit))
    factor, divisor = _PER_LOGICAL[kind]
    return lambda raw: raw * factor // divisor


def number_ms(number: int, unit: str | None) -> int | None:
    """An integer in its unit, an undeclared one by its 10, 13 or 16 digits; a product beyond 64 bits is no time."""
    if unit is None:
        unit = UNIT_OF_DIGITS.get(len(str(number))) if number > 0 else None
        if unit is None:
            return None
    factor, divisor = PER_MS[unit]
    product = number * factor
    return product // divisor if product in _LONGS else None


def text_ms(text: str, unit: str | None) -> int | None:
    """A text without a pattern: digits as numbers are read, else ISO 8601, without a zone in UTC."""
    text = text.strip(" ")
    if _DIGITS.fullmatch(text):
        return number_ms(int(text), unit)
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    day, time, zone = match.groups()
    offset_minutes = _offset_minutes(zone or "Z")
    clock, _, fraction = (time or "00:00").partition(".")
    hours, minutes, *seconds = clock.split(":")
    if offset_minutes is None:
        return None
    return _epoch_ms([*day.split("-"), hours, minutes, *(seconds or ["0"])], fraction, offset_minutes)


def format_ms(text: str, pattern: str) -> int | None:
    """A text by a Spark pattern of `yyyy MM dd HH mm ss S XXX` and literals; None for any other pattern."""
    compiled = _compiled(pattern)
    match = compiled.fullmatch(text) if compiled else None
    if match is None:
        return None
    parts = match.groupdict()
    offset_minutes = _offset_minutes(parts.get("XXX") or "Z")
    if offset_minutes is None:
        return None
    values = [parts.get(letters) or str(missing) for letters, missing in _FIELDS]
    return _epoch_ms(values, parts.get("S") or "", offset_minutes)


def reads_as_spark(pattern: str | None) -> bool:
    """Whether this module reads the same texts as Spark does: without a pattern, and with each one that it supports."""
    return pattern is None or _compiled(pattern) is not None


def _epoch_ms(fields: list[str], fraction: str, offset_minutes: int) -> int | None:
    year, month, day, hours, minutes, seconds = map(int, fields)
    try:
        moment = dt.datetime(year, month, day, hours, minutes, seconds, tzinfo=dt.UTC)
    except ValueError:
        return None
    whole = (moment.toordinal() - dt.date(1970, 1, 1).toordinal()) * DAY_MS
    clock = ((hours * 60 + minutes - offset_minutes) * 60 + seconds) * 1000
    return whole + clock + int(f"{fraction:0<3}"[:3])


def _offset_minutes(zone: str) -> int | None:
    """Minutes east of UTC; None beyond the 18 hours that Java allows."""
    match = _ZONE.fullmatch(zone)
    if match is None:
        return 0 if zone == "Z" else None
    minutes = int(match["minutes"] or 0)
    total = int(match["hours"]) * 60 + minutes
    if minutes > 59 or total > _MAX_OFFSET_MINUTES:
        return None
    return -total if match["sign"] == "-" else total


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern as a regular expression; None where a letter is not supported, appears twice, or lacks a larger unit."""
    parts, names, at = [], [], 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        at = token.end()
        if letters := token["letters"]:
            names.append("S" if letters[0] == "S" else letters)
            parts.append(_expression(letters))
        else:
            parts.append(re.escape(token["quoted"] or token["literal"]))
    order = [letters for letters, _ in _FIELDS] + ["S"]
    dated = [name for name in order if name in names]
    if (
        None in parts
        or _GREEDY_YEAR.search(pattern)
        or len(set(names)) < len(names)
        or not dated
        or dated != order[: len(dated)]
    ):
        return None
    return re.compile("".join(part for part in parts if part is not None), re.ASCII)


def _expression(letters: str) -> str | None:
    if letters[0] == "S":  # Spark reads one digit up to as many as there are letters
        return rf"(?P<S>\d{{1,{len(letters)}}})"
    if letters == "XXX":
        return r"(?P<XXX>Z|[+-]\d{2}:\d{2})"
    return rf"(?P<{letters}>\d{{{len(letters)}}})" if letters in dict(_FIELDS) else None
