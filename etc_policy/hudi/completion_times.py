"""When the completed instants of a timeline were written, by their files."""

from __future__ import annotations

import time
from datetime import timedelta
from zoneinfo import ZoneInfo

from etc_policy.hudi.layout import METADATA_TABLE
from etc_policy.hudi.properties import properties_of
from etc_policy.hudi.timeline import Timeline, all_ends, all_times, read_timeline
from etc_policy.storage.port import TableReader
from etc_policy.table.completion_times import CompletedFile, TimelineName, WrongTime, find_wrong_times
from etc_policy.table.instants import instant_from_ms, parse_instant

#: Names on the timeline bear completion times from this layout on.
_TIMED_LAYOUT = 2
#: The first instants of a metadata table are numbers, not times.
_FIRST_TIME = "1"
#: The digits of an instant down to tens of minutes; two instants that share them are less than `_LONG` apart.
_TENS, _LONG = 11, timedelta(minutes=10)


def completed_files(timeline: Timeline) -> tuple[CompletedFile, ...]:
    """The completed instants with the times of their files; none on layout 1, which records no completion times.

    Raises:
        FileNotFoundError: one was archived or renamed since the listing.

    """
    if timeline.layout < _TIMED_LAYOUT:
        return ()
    listed = timeline.storage.list(timeline.folder)
    ends = [file for file in all_ends(timeline) if file.completed is not None]
    gone = next((file.name for file in ends if file.name not in listed), None)
    if gone is not None:
        raise FileNotFoundError(gone)
    return tuple(
        CompletedFile(file.requested, file.completed or "", file.action, listed[file.name].modified_ns // 1_000_000)
        for file in ends
    )


def wrong_times(
    name: TimelineName, timeline: Timeline, completed: tuple[CompletedFile, ...], timezone: str
) -> tuple[WrongTime, ...]:
    """The completion times of a timeline that cannot be true."""
    return find_wrong_times(name, completed, all_times(timeline), timezone)


def metadata_timeline(storage: TableReader) -> Timeline | None:
    """The timeline of a table's metadata table; None where it has none."""
    properties = properties_of(storage, METADATA_TABLE)
    return read_timeline(storage, properties, METADATA_TABLE) if properties is not None else None


def read_wrong_times(timeline: Timeline, metadata: Timeline | None, timezone: str) -> tuple[WrongTime, ...]:
    """The completion times of a table and of its metadata table that cannot be true; files are asked only on suspicion.

    `metadata` is the timeline of the metadata table.
    """
    now = instant_from_ms(time.time_ns() // 1_000_000, ZoneInfo(timezone))
    found = wrong_times("table", timeline, completed_files(timeline), timezone) if _is_suspicious(timeline, now) else ()
    if metadata is None or not _is_suspicious(metadata, now):
        return found
    return (*found, *wrong_times("metadata table", metadata, completed_files(metadata), timezone))


def _is_suspicious(timeline: Timeline, now: str) -> bool:
    """Whether a wrong time may be among the completions, by their names: two zones are a quarter of an hour apart at least."""
    return any(
        done < requested or done > now or (done[:_TENS] > requested[:_TENS] and _took_long(requested, done))
        for requested, done in timeline.completions.items()
    )


def _took_long(requested: str, completed: str) -> bool:
    return requested >= _FIRST_TIME and parse_instant(completed) - parse_instant(requested) >= _LONG
