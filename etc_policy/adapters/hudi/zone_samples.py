"""When the files that bear a timeline's instants were written: what shows the zone of the writers' clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from etc_policy.adapters.hudi.layout import InstantFile
from etc_policy.adapters.hudi.timeline import Timeline
from etc_policy.adapters.hudi.zones import declared_zone, table_zone
from etc_policy.plan.zone_evidence import ZoneReading, ZoneSample, judge_zone

#: The newest files that are looked at, by their names: more than a day of a busy table, whatever the zone of a name.
_MOST = 300
_WRITES = ("commit", "deltacommit")
_ENDS = (*_WRITES, "replacecommit", "clean", "rollback")


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
