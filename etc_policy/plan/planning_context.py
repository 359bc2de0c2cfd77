"""What one table is planned from, and what is left out of its plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from etc_policy.compile.manifest import Policy
from etc_policy.plan.carry import Split, split_slice
from etc_policy.plan.cut import compacted, remaining
from etc_policy.plan.double_keys import SEES_LOG_FILES
from etc_policy.plan.skipped_slices import LeftOut, WrittenTo
from etc_policy.plan.stages import Move
from etc_policy.plan.table_state import FileSlice, LogFile, TableState
from etc_policy.plan.table_versions import WHOLE_SLICE_VERSIONS
from etc_policy.plan.watermark import Watermark, watermark


@dataclass(frozen=True, slots=True)
class Place:
    """Where C is put: where it began, and how guards raised it from there."""

    start: str
    instant: str
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """The policy, the table and the clocks; `left_out` are due slices that are not compacted, beside those `written_to`.

    `merged_up_to_ms` is below T where the budget reaches no further: chosen slices are merged up to there.
    """

    policy: Policy
    state: TableState
    now_ms: int
    clock_ms: int
    written_to: WrittenTo
    left_out: LeftOut
    merged_up_to_ms: int | None = None

    @property
    def zone(self) -> ZoneInfo:
        """The table's."""
        return ZoneInfo(self.state.timezone)

    @property
    def threshold_ms(self) -> int:
        """T, where nothing is left out."""
        return self.now_ms - self.policy.data_latency_ms

    @property
    def due_up_to_ms(self) -> int:
        """The event time up to which the chosen slices have to be merged."""
        return self.threshold_ms if self.merged_up_to_ms is None else min(self.merged_up_to_ms, self.threshold_ms)

    def option(self, key: str, default: int) -> int:
        """A whole-number Hudi option that the policy declares, else Hudi's default."""
        return int(self.policy.hudi_options.get(key, default))

    def is_due(self, file_slice: FileSlice) -> bool:
        """Whether RO up to T needs the slice, or some of its keys could come to exist twice."""
        return self.is_exposed(file_slice) or any(is_due(one, self.threshold_ms) for one in file_slice.log_files)

    def is_exposed(self, file_slice: FileSlice) -> bool:
        """Whether the index does not find what was written to the slice beside a compaction of its deletes."""
        group = file_slice.partition, file_slice.file_id
        return group in self.state.exposed and self.policy.writer.index not in SEES_LOG_FILES

    @property
    def carries(self) -> bool:
        """Whether what stays must be carried into the new slice, for want of a cut."""
        return self.policy.granularity == "log_file" and self.state.table_version in WHOLE_SLICE_VERSIONS

    def split(self, file_slice: FileSlice, instant: str) -> Split:
        """What of a chosen slice a compaction at the instant merges, and what stays."""
        if self.carries:
            return split_slice(file_slice, frozenset(must_merge(self, file_slice)), self.state.instants)
        return compacted(file_slice, instant), remaining(file_slice, instant)

    def leaves_out(self, file_slice: FileSlice) -> bool:
        """Whether the slice is not compacted though it is due."""
        return file_slice in self.written_to or (file_slice.partition, file_slice.file_id) in self.left_out

    def watermark(self, log_files: Iterable[LogFile]) -> Watermark:
        """How far RO is complete without these log files."""
        return watermark(log_files, self.policy.data_latency_ms, self.zone)


def must_merge(context: Context, file_slice: FileSlice) -> Iterator[LogFile]:
    """The log files of a chosen slice that it may not keep behind, the latest first."""
    latest_first = reversed(file_slice.log_files)
    if context.policy.granularity == "file_slice" or context.is_exposed(file_slice):
        return latest_first
    up_to_ms = context.due_up_to_ms
    return (one for one in latest_first if is_due(one, up_to_ms))


def is_due(log_file: LogFile, threshold_ms: int) -> bool:
    """Whether RO up to the threshold needs the log file, or may."""
    return log_file.min_event_time_ms is None or log_file.min_event_time_ms <= threshold_ms
