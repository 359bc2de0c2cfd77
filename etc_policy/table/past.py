"""A table's past as it can be replayed: which log files came when, into which file groups, beside which base files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple
from zoneinfo import ZoneInfo

from etc_policy.table.history import Commit, GroupWrite, TableHistory
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.state import CompactionRecord, GroupKey, LogFile, TableState
from etc_policy.table.write_growth import MergedSlice, learned_from


class Arrival(NamedTuple):
    """What one commit wrote to the log of one file group, as one log file; `rows` are all that it wrote, deletes included."""

    group: GroupKey
    log_file: LogFile
    requested_ms: int
    completed_ms: int
    rows: int = 0


class BaseChange(NamedTuple):
    """A base file that a write made and no compaction, by its size; None where the file group was replaced."""

    completed_ms: int
    group: GroupKey
    instant: str
    base_bytes: int | None


class PastCompaction(NamedTuple):
    """A compaction as it was: it merged the log files of these groups that had completed before it began.

    What it split off from them, or carried, is `left` to later ones.
    """

    began_ms: int
    ended_ms: int
    groups: frozenset[GroupKey]
    bytes_read: int
    bytes_written: int
    left: tuple[Arrival, ...] = ()


@dataclass(frozen=True)
class Past:
    """What completed from `begin_ms` to `end_ms`, in that order; at its beginning RO is taken to hold all that was written.

    `state` is the table as it is now. `bases` are the sizes of the base files at the beginning; one that no commit records is
    taken to be as large as the next one that is known. `whole` says that the table's first write is in it.
    """

    state: TableState
    arrivals: tuple[Arrival, ...]
    begin_ms: int
    end_ms: int
    bases: Mapping[GroupKey, int] = field(default_factory=dict)
    changes: tuple[BaseChange, ...] = ()
    compactions: tuple[PastCompaction, ...] = ()
    whole: bool = False

    @property
    def zone(self) -> ZoneInfo:
        """The table's."""
        return ZoneInfo(self.state.timezone)

    @cached_property
    def commit_times_ms(self) -> list[int]:
        """When each write that brought log files had completed."""
        return sorted({one.completed_ms for one in self.arrivals})

    def since(self, begin_ms: int) -> Past:
        """The part from then on; the same where it begins later."""
        if begin_ms <= self.begin_ms:
            return self
        bases = dict(self.bases)
        for one in self.changes:
            if one.completed_ms <= begin_ms:
                bases[one.group] = one.base_bytes or 0
        return replace(
            self,
            begin_ms=begin_ms,
            whole=False,
            bases=bases,
            arrivals=tuple(one for one in self.arrivals if one.completed_ms > begin_ms),
            changes=tuple(one for one in self.changes if one.completed_ms > begin_ms),
            compactions=tuple(one for one in self.compactions if one.ended_ms > begin_ms),
        )


def past_of(state: TableState, history: TableHistory) -> Past | None:
    """The past of a table as far back as its history goes; None where that is no time, or nothing was written to a log file.

    What earlier compactions wrote teaches how base files grow, where the state does not say it.
    """
    zone, reader = ZoneInfo(history.timezone), _Reader(history)
    for commit in history.commits:
        reader.take(commit, zone)
    if not reader.arrivals or history.commits[0].completed == history.commits[-1].completed:
        return None
    return Past(
        state=replace(state, write_growth=state.write_growth or learned_from(reader.merged)),
        arrivals=tuple(reader.arrivals),
        begin_ms=instant_to_ms(history.commits[0].completed, zone),
        end_ms=instant_to_ms(history.commits[-1].completed, zone),
        bases=reader.first_bases({one.group: one.base_file_bytes for one in state.slices}),
        changes=tuple(reader.changes),
        compactions=tuple(reader.compactions),
        whole=history.complete,
    )


class _Reader:
    """Takes commits in the order of completion."""

    def __init__(self, history: TableHistory) -> None:
        self._history = history
        self._born: dict[GroupKey, bool] = {}
        self._first: dict[GroupKey, int] = {}
        self._known: dict[GroupKey, int] = {}
        self.arrivals: list[Arrival] = []
        self.changes: list[BaseChange] = []
        self.compactions: list[PastCompaction] = []
        self.merged: list[list[MergedSlice]] = []

    def take(self, commit: Commit, zone: ZoneInfo) -> None:
        times = instant_to_ms(commit.requested, zone), instant_to_ms(commit.completed, zone)
        if commit.is_compaction:
            self._compaction(commit, *times)
            return
        if commit.repeats:
            return
        for write in commit.groups:
            group = write.partition, write.file_id
            self._born.setdefault(group, write.previous is None)
            if write.log_files:
                self.arrivals.append(Arrival(group, self._log_file(write), *times, write.rows))
            else:
                self.changes.append(BaseChange(times[1], group, commit.requested, write.bytes_written))
                self._wrote(group, write.bytes_written)
        self.changes += [BaseChange(times[1], group, commit.requested, None) for group in sorted(commit.replaced)]

    def _compaction(self, commit: Commit, began_ms: int, ended_ms: int) -> None:
        merged, bytes_read = list[MergedSlice](), 0
        for write in commit.groups:
            group = write.partition, write.file_id
            before = self._known.get(group, 0 if self._born.setdefault(group, False) else write.bytes_written)
            bytes_read += before + write.merged_log_bytes
            if group in self._known or self._born[group]:
                merged.append(MergedSlice(before, write.merged_log_bytes, write.bytes_written))
            self._wrote(group, write.bytes_written)
        groups = frozenset((write.partition, write.file_id) for write in commit.groups)
        left = tuple(
            Arrival((one.partition, one.file_id), self._left(one, commit.record), began_ms, ended_ms, one.rows)
            for one in commit.groups
            if one.log_files
        )
        self.compactions.append(PastCompaction(began_ms, ended_ms, groups, bytes_read, commit.bytes_written, left))
        self.merged.append(merged)

    def _wrote(self, group: GroupKey, base_bytes: int) -> None:
        self._first.setdefault(group, base_bytes)
        self._known[group] = base_bytes

    def first_bases(self, now: Mapping[GroupKey, int]) -> dict[GroupKey, int]:
        """The base files that were there before the first commit; those that are born later come with it."""
        old = (group for group, is_born in self._born.items() if not is_born)
        return {group: self._first.get(group, now.get(group, 0)) for group in old}

    def _left(self, write: GroupWrite, record: CompactionRecord | None) -> LogFile:
        """What a compaction left to later ones is after its threshold, where more is not known."""
        file = self._log_file(write)
        if record is None or file.seen_event_time_ms is not None:
            return file
        return file._replace(seen_event_time_ms=record.threshold_ms + 1)

    def _log_file(self, write: GroupWrite) -> LogFile:
        """One log file for all that the write brought to the group."""
        read_ms = self._history.read_times.get(write.key)
        return LogFile(
            f".{write.file_id}_{write.requested}.log.1_0-0-0",
            write.bytes_written,
            write.requested,
            write.completed,
            read_ms if write.certain_min_ms is None else write.certain_min_ms,
            write.has_deletes,
            write.bytes_written,
            write.seen_ms,
            write.unknown_is_deletes,
            impossible_ms=write.impossible_ms,
        )
