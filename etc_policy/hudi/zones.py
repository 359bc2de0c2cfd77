"""The time zone in which the instants of a table are written, and what shows that of its writers' clocks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import InstantFile
from etc_policy.hudi.timeline import Timeline
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.table.zone_evidence import ZoneReading, ZoneSample, judge_zone

#: The zone database has each zone in two more folders, whose names Java does not know.
_OTHER_FORMS = re.compile(r"^(posix|right)/")
#: `TZ` as offsets and rules, such as `CET-1CEST`, without a name.
_OFFSETS = re.compile(r"(<[^>]+>|[A-Za-z]{3,})[+-]?[0-9]")
#: The newest files that are looked at, by their names: more than a day of a busy table, whatever the zone of a name.
_MOST = 300
_WRITES = ("commit", "deltacommit")
_ENDS = (*_WRITES, "replacecommit", "clean", "rollback")


def declared_zone(properties: Mapping[str, str]) -> str:
    """The zone of a table's instants as Hudi names it: `UTC`, or `LOCAL` for that of its writers."""
    declared = properties.get("hoodie.table.timeline.timezone", "LOCAL").upper()
    return "LOCAL" if declared == "LOCAL" else "UTC"


def table_zone(properties: Mapping[str, str]) -> str:
    """The IANA zone of the table's instants; LOCAL is taken to be this machine's (facts: instant-zone)."""
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


def read_zone(properties: Mapping[str, str], timeline: Timeline) -> ZoneReading:
    """The zone of the table's instants, and how sure it is."""
    if declared_zone(properties) == "UTC":
        return ZoneReading("UTC")
    files = sorted((f for found in timeline.files.values() for f in found), key=lambda f: f.name)
    return judge_zone(table_zone(properties), tuple(_samples(timeline, files[-_MOST:])))


def _samples(timeline: Timeline, files: list[InstantFile]) -> Iterator[ZoneSample]:
    """Of files that are written as soon as their instant is known; a service plans for minutes, and etc in the past."""
    listed = timeline.storage.list(timeline.folder)
    for file in files:
        instant, found = _instant(file), listed.get(file.name)
        if instant is not None and found is not None:  # None where it was archived since the listing
            yield ZoneSample(instant, found.modified_ns // 1_000_000)


def _instant(file: InstantFile) -> str | None:
    if file.state == "requested" and file.action in _WRITES:
        return file.requested
    return file.completed if file.state == "completed" and file.action in _ENDS else None
