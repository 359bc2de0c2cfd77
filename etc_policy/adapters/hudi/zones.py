"""The time zone in which the instants of a table are written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from etc_policy.codes.registry import Code
from etc_policy.errors import TableError


def declared_zone(properties: Mapping[str, str]) -> str:
    """The zone of a table's instants as Hudi names it: `UTC`, or `LOCAL` for that of its writers."""
    declared = properties.get("hoodie.table.timeline.timezone", "LOCAL").upper()
    return "LOCAL" if declared == "LOCAL" else "UTC"


def table_zone(properties: Mapping[str, str]) -> str:
    """The IANA zone of the table's instants; LOCAL is taken to be this machine's (FACTS 1)."""
    return "UTC" if declared_zone(properties) == "UTC" else local_zone()


def local_zone() -> str:
    """The IANA name of this machine's zone: `TZ`, else the link of /etc/localtime.

    Raises:
        TableError: it has none.

    """
    named = os.environ.get("TZ", "").lstrip(":") or _linked_zone()
    try:
        return ZoneInfo(named).key if named else _fixed_zone()
    except (ZoneInfoNotFoundError, ValueError):
        return _fixed_zone()


def _linked_zone() -> str:
    target = os.path.realpath("/etc/localtime")
    return target.split("zoneinfo/", 1)[1] if "zoneinfo/" in target else ""


def _fixed_zone() -> str:
    """UTC where this machine keeps it all the year without naming a zone; an offset alone would not show summer time."""
    year = datetime.now().astimezone().year
    if any(datetime(year, month, 1).astimezone().utcoffset() for month in (1, 7)):
        hint = "set TZ to the zone of the table's writers, such as TZ=Europe/Berlin"
        raise TableError(
            Code.UNNAMED_ZONE,
            "the table's instants are in local time, and this machine does not name its zone",
            hint=hint,
        )
    return "UTC"
