"""How far RO was complete at each moment of a table's past, replayed from its history (facts: completeness-watermark)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from zoneinfo import ZoneInfo

from etc_policy.table.history import Commit, GroupWrite, TableHistory
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.state import CUT_VERSIONS, CompactionRecord
from etc_policy.table.watermark import EventTimeBound, bound_of

Group = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CompletenessPoint:
    """What held from the completion of one commit until the next; times are epoch milliseconds.

    `watermark_ms` is None where no log file held RO back, or where it is not known (`known` is false): there log files
    may have been open that were written before the history begins. `assumed` says that it is bounded by when a log file
    was written, not by known event times. `threshold_ms` is that of the last completed compaction by etc.
    `late_groups` counts the file groups in which this commit wrote events at or below the threshold of the last plan
    that had not seen it, `late_by_ms` how far below the smallest of them lies.
    """

    at_ms: int
    instant: str
    compaction: bool
    watermark_ms: int | None
    known: bool
    assumed: bool
    threshold_ms: int | None
    open_log_files: int
    late_groups: int = 0
    late_by_ms: int = 0


@dataclass(slots=True, eq=False)
class _Open:
    """A log write that no compaction has taken yet."""

    completed: str
    bound_ms: int
    assumed: bool
    log_files: int
    merged: bool = False


def replay_completeness(history: TableHistory, data_latency_ms: int) -> tuple[CompletenessPoint, ...]:
    """One point per commit, in order of completion; an event time that nobody knows counts as `data_latency_ms` before it."""
    return tuple(_Replay(history, data_latency_ms).points())


class CompactionRecords:
    """The compactions by etc in a history."""

    def __init__(self, history: TableHistory) -> None:
        self.by_instant = {record.instant: record for record in history.runs}
        self._by_seen = sorted(self.by_instant.values(), key=lambda record: record.saw_until)

    def not_seeing(self, commit: Commit) -> CompactionRecord | None:
        """The latest compaction whose plan had not seen a write of rows: to it, what the write brought may be late."""
        if commit.is_compaction or commit.repeats:
            return None
        index = bisect_left(self._by_seen, commit.completed, key=lambda record: record.saw_until)
        return self._by_seen[index - 1] if index else None


class _Replay:
    def __init__(self, history: TableHistory, latency_ms: int) -> None:
        self._history, self._latency_ms = history, latency_ms
        self._zone = ZoneInfo(history.timezone)
        self._open: dict[Group, list[_Open]] = {}
        self._lowest: list[tuple[int, int, _Open]] = []  # a heap; what was merged leaves it late
        self._order = count()
        self._log_files = 0
        self._unseen: set[Group] = set() if history.complete else _groups_from_before(history)
        self._records = CompactionRecords(history)
        self._record: CompactionRecord | None = None

    def points(self) -> Iterator[CompletenessPoint]:
        before: CompletenessPoint | None = None
        for commit in self._history.commits:
            late = self._late(commit)
            for group in commit.groups:
                self._write(commit, group)
            for key in commit.replaced:
                self._merge(key, None)
            self._record = self._records.by_instant.get(commit.requested, self._record)
            if before is not None:
                yield self._as_its_plan_knew(before, commit)
            before = self._point(commit, late)
        if before is not None:
            yield before

    def _as_its_plan_knew(self, point: CompletenessPoint, commit: Commit) -> CompletenessPoint:
        """The point before a compaction by etc: its plan may have read event times in log files that are gone now."""
        record = self._records.by_instant.get(commit.requested)
        mark = record.watermark_before_ms if record is not None else None
        if mark is None or not point.known or (point.watermark_ms is not None and point.watermark_ms <= mark):
            return point
        return replace(point, watermark_ms=mark)

    def _write(self, commit: Commit, group: GroupWrite) -> None:
        """Log files wait for compaction; a base file at C takes in what completed before C (facts: slice-by-completion).

        Before table version 8 that is the whole slice, and a compaction's own log files are carried ones that wait on
        (facts: version-6-slices).
        """
        key = (group.partition, group.file_id)
        if commit.is_compaction:
            self._merge(key, commit.requested)
        if group.log_files:
            bound_ms, assumed = self._bound(commit, group)
            one = _Open(commit.completed, bound_ms, assumed, group.log_files)
            self._open.setdefault(key, []).append(one)
            heappush(self._lowest, (bound_ms, next(self._order), one))
            self._log_files += group.log_files
        elif not commit.is_compaction:
            self._merge(key, commit.requested)

    def _merge(self, key: Group, before: str | None) -> None:
        """Take away what completed before an instant, or all of a file group."""
        waiting = self._open.pop(key, [])
        for one in waiting:
            one.merged = before is None or one.completed < before
            self._log_files -= one.log_files if one.merged else 0
        if left := [one for one in waiting if not one.merged]:
            self._open[key] = left
        self._unseen.discard(key)

    def _bound(self, commit: Commit, group: GroupWrite) -> EventTimeBound:
        if group.certain_min_ms is not None:
            return EventTimeBound(group.certain_min_ms, assumed=False)
        # Before version 8 a log file is named by its base file, and its state is bounded by that: so is its past.
        written = commit.completed if self._history.table_version in CUT_VERSIONS else group.previous
        promised_ms = instant_to_ms(written or commit.completed, self._zone) - self._latency_ms
        seen_ms = group.seen_ms
        if seen_ms is None and commit.is_compaction and commit.record is not None:
            seen_ms = commit.record.threshold_ms + 1  # rows that were split off, or carried, are later than that
        return bound_of(promised_ms, seen_ms)

    def _late(self, commit: Commit) -> list[int]:
        """How far below its threshold each group's smallest event lies, where that is known."""
        record = self._records.not_seeing(commit)
        if record is None:
            return []
        bounds = (self._bound(commit, group) for group in commit.groups if group.log_files)
        return [
            record.threshold_ms - bound for bound, assumed in bounds if not assumed and bound <= record.threshold_ms
        ]

    def _point(self, commit: Commit, late: list[int]) -> CompletenessPoint:
        while self._lowest and self._lowest[0][2].merged:
            heappop(self._lowest)
        lowest = self._lowest[0][2] if self._lowest else None
        return CompletenessPoint(
            at_ms=instant_to_ms(commit.completed, self._zone),
            instant=commit.requested,
            compaction=commit.is_compaction,
            watermark_ms=None if lowest is None or self._unseen else lowest.bound_ms - 1,
            known=not self._unseen,
            assumed=lowest is not None and lowest.assumed,
            threshold_ms=self._record.threshold_ms if self._record else None,
            open_log_files=self._log_files,
            late_groups=len(late),
            late_by_ms=max(late, default=0),
        )


def _groups_from_before(history: TableHistory) -> set[Group]:
    """File groups whose slice is older than the history, so that it may have had log files that nobody lists here."""
    first = min((commit.requested for commit in history.commits), default="")
    return {
        (group.partition, group.file_id)
        for commit in history.commits
        for group in commit.groups
        if group.previous is not None and group.previous < first
    }
