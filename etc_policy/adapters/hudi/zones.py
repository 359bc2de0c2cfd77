"""The time zone in which the instants of a table are written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from etc_policy.codes.registry import Code
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.errors import TableError

#: The zone database has each zone in two more folders, whose names Java does not know.
_OTHER_FORMS = re.compile(r"^(posix|right)/")
#: `TZ` as offsets and rules, such as `CET-1CEST`, without a name.
_OFFSETS = re.compile(r"(<[^>]+>|[A-Za-z]{3,})[+-]?[0-9]")


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
        TableError: it has none, or `TZ` names one that is not known, which the system takes for UTC without a word.

    """
    given = os.environ.get("TZ", "").lstrip(":")
    path = given if given.startswith("/") else "" if given else "/etc/localtime"
    named = _within_zones(os.path.realpath(path)) if path else _OTHER_FORMS.sub("", given)
    try:
        return ZoneInfo(named).key if named else _fixed_zone()
    except (ZoneInfoNotFoundError, ValueError) as error:
        if not given or _OFFSETS.match(given):
            return _fixed_zone()
        near = did_you_mean(given, sorted(zone for zone in available_timezones() if "/" in zone))
        hint = near or "name a zone such as TZ=Europe/Berlin, or unset TZ"
        raise TableError(
            Code.UNNAMED_ZONE, f"`TZ` is `{given[:60]}`, which is no known time zone", hint=hint
        ) from error


def _within_zones(path: str) -> str:
    """The name of the zone that a file of the zone database is for; empty for another path."""
    return _OTHER_FORMS.sub("", path.partition("zoneinfo/")[2])


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
