"""When the completed instants of a timeline were written, by their files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from etc_policy.hudi.layout import METADATA_TABLE
from etc_policy.hudi.metadata_values import texts_in
from etc_policy.hudi.properties import properties_of
from etc_policy.hudi.timeline import CLUSTERING, Timeline, all_ends, all_times, read_timeline
from etc_policy.storage.port import TableReader
from etc_policy.table.completion_times import CompletedFile, TimelineName, WrongTime, find_wrong_times
from etc_policy.table.history import WRITES
from etc_policy.table.instants import instant_from_ms, parse_instant
from etc_policy.table.state import AT_THE_END, GroupKey

#: Services with a plan that names the files which they merge.
_PLANNED = ("compaction", "clustering", "replacecommit")
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
    found = find_wrong_times(name, completed, all_times(timeline), timezone)
    return tuple(
        replace(one, misplaced=_misplaced(timeline, one))
        if one.set_back
        else replace(one, no_renaming=_no_renaming(timeline, one))
        for one in found
    )


def _no_renaming(timeline: Timeline, wrong: WrongTime) -> str:
    """Why the file of a commit may not be renamed to its true time; empty where it may.

    A slice that was begun since has merged its log files, or has not, by the time that is wrong (facts: renamed-behind-base).
    """
    if wrong.right is None or wrong.action not in WRITES:
        return ""
    if (timeline.first_active or "") > wrong.right:
        return "what was begun since is archived"
    until, own = wrong.completed if wrong.late else AT_THE_END, _written(timeline, wrong.requested)
    for requested in sorted(timeline.written):
        if wrong.right < requested < until and requested != wrong.requested:
            write = _written(timeline, requested)
            merges_logs = any(file.action == "logcompaction" for file in timeline.files[requested])
            if not own.groups.isdisjoint(write.groups if merges_logs else write.begun):
                return f"the write at {requested} began a file slice of the same file group since"
    return ""


def _misplaced(timeline: Timeline, wrong: WrongTime) -> str:
    """Why readers may not see what a commit wrote whose clock was set back meanwhile, or others beside it; empty where they do.

    A log file belongs to the newest slice that was begun no later than its completion (facts: set-back-while-writing). One
    that was begun in the time that comes twice may have been there before; one begun later hides it, unless its plan says that
    it merges it. A slice that the commit began hides in the same way what others had completed by then.
    """
    if wrong.action not in WRITES:
        return ""
    if (timeline.first_active or "") > wrong.completed:
        return "what was written in that time is archived"
    own, merged = _written(timeline, wrong.requested), frozenset(_planned(timeline, wrong.requested))
    later: dict[str, _Written] = {}
    for requested in sorted({*timeline.written} - {wrong.requested}):
        write = _written(timeline, requested)
        if wrong.completed < requested <= wrong.requested and not own.groups.isdisjoint(write.begun):
            return f"the write at {requested} began a file slice beside it"
        if any(
            own.begun.get(group, AT_THE_END) <= timeline.completions[requested] <= wrong.requested
            and name not in merged
            for group, name in write.log_files
        ):
            return f"the file slice that it began may hide what the write at {requested} wrote"
        if requested > wrong.requested:
            later[requested] = write
    return _hidden_later(timeline, own, later)


def _hidden_later(timeline: Timeline, own: _Written, later: Mapping[str, _Written]) -> str:
    """Why log files may be hidden by slices that were begun later; what a write overwrote nobody misses."""
    merged = frozenset(name for requested in later for name in _planned(timeline, requested))
    gone = frozenset(group for write in later.values() for group in write.overwritten)
    for requested, write in later.items():
        for group, name in own.log_files:
            if group in write.begun and group not in gone and name not in merged:
                return f"the file slice that the write at {requested} began may hide its log file {name}"
    return ""


class _Written(NamedTuple):
    """What a commit wrote: its log files, and the file groups in which it began a slice, with the beginning of the one before.

    That is empty where it is not known. `overwritten` are the file groups that it took away, but for those of a clustering.
    """

    log_files: tuple[tuple[GroupKey, str], ...]
    begun: Mapping[GroupKey, str]
    overwritten: frozenset[GroupKey]

    @property
    def groups(self) -> frozenset[GroupKey]:
        """All the file groups that it touched."""
        return frozenset(self.begun).union(group for group, _ in self.log_files)


def _written(timeline: Timeline, requested: str) -> _Written:
    commit = timeline.commit(requested)
    stats, begun = commit.stats, dict.fromkeys(commit.replaced, timeline.completions[requested])
    logs = []
    for group, name, previous in zip(stats.groups, stats.file_names, stats.previous, strict=True):
        is_log, is_known = name.startswith("."), previous.isdecimal() and previous < requested
        if is_log:
            logs.append((group, name))
        if not is_log or not is_known:
            begun[group] = previous if is_known else ""
    overwritten = frozenset(commit.replaced) if commit.operation != CLUSTERING else frozenset()
    return _Written(tuple(logs), begun, overwritten)


def _planned(timeline: Timeline, requested: str) -> Iterator[str]:
    """The names of the files that the plan of a service names."""
    plan = timeline.requested_file(requested, *_PLANNED)
    return (path.rpartition("/")[2] for path in texts_in(timeline.metadata(plan))) if plan is not None else iter(())


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
    """Whether a wrong time may be among the completions, by their names."""
    return any(
        done < requested or done > now or may_be_shifted(requested, done)
        for requested, done in timeline.completions.items()
    )


def may_be_shifted(requested: str, completed: str) -> bool:
    """Whether a completion time may be that of a clock that is ahead: two zones are a quarter of an hour apart at least."""
    return completed[:_TENS] > requested[:_TENS] and _took_long(requested, completed)


def _took_long(requested: str, completed: str) -> bool:
    return requested >= _FIRST_TIME and parse_instant(completed) - parse_instant(requested) >= _LONG
