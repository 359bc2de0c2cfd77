"""What one table is planned from, and what is left out of its plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from etc_policy.plan.carry import Split, split_slice
from etc_policy.plan.cut import compacted, remaining
from etc_policy.plan.model import Move
from etc_policy.plan.pace import Pace, next_due_ms, threshold_in_time
from etc_policy.plan.skipped_slices import ContendedSlices, SkipReasons
from etc_policy.plan.split import is_exact, is_whole, straddling
from etc_policy.plan.stock_choice import stock_choice
from etc_policy.policy.manifest import OTHER_GRANULARITY, Policy
from etc_policy.table.double_keys import sees_log_files
from etc_policy.table.partitions import closing_slices, is_in
from etc_policy.table.state import WHOLE_SLICE_VERSIONS, FileSlice, GroupKey, LogFile, TableState
from etc_policy.table.watermark import Watermark, watermark


@dataclass(frozen=True, slots=True)
class Place:
    """Where C is put: where it began, and how guards raised it from there."""

    start: str
    instant: str
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """The policy, the table and the clocks; `left_out` are due slices that are not compacted, beside those `contended`.

    `threshold_ms` is T, where nothing is left out: slices with an event at or below it are due. They are merged up to
    `merged_up_to_ms`: above T where slices wait for a later run, below it where the budget reaches no further. `exposed` are
    the file groups of the state in which the policy's index does not find every key. `stock` are those that a strategy of
    Hudi's own takes, whatever their event times. `closing` are those of closed partitions that RO lacks some of, with the time
    before which it is to lack nothing: they do not wait for a later run.
    """

    policy: Policy
    state: TableState
    now_ms: int
    clock_ms: int
    contended: ContendedSlices
    left_out: SkipReasons
    exposed: frozenset[GroupKey]
    threshold_ms: int
    merged_up_to_ms: int
    pace: Pace | None = None
    stock: frozenset[GroupKey] = frozenset()
    closing: Mapping[GroupKey, int] = field(default_factory=dict)

    @property
    def zone(self) -> ZoneInfo:
        """The table's."""
        return ZoneInfo(self.state.timezone)

    def merging_up_to(self, up_to_ms: int | None) -> PlanningContext:
        """The context that merges chosen slices no further than that; the same for None."""
        return self if up_to_ms is None else replace(self, merged_up_to_ms=min(up_to_ms, self.merged_up_to_ms))

    def is_due(self, file_slice: FileSlice) -> bool:
        """Whether RO up to T needs the slice, its strategy takes it, or some of its keys could come to exist twice."""
        at_once = self.is_exposed(file_slice) or file_slice.group in self.stock or file_slice.group in self.closing
        return at_once or any(is_due(one, self.threshold_ms) for one in file_slice.log_files)

    def is_exposed(self, file_slice: FileSlice) -> bool:
        """Whether the index does not find what was written to the slice beside a compaction of its deletes."""
        return file_slice.group in self.exposed

    @property
    def carries(self) -> bool:
        """Whether what stays must be carried into the new slice, for want of a cut."""
        return self.policy.strategy.granularity == "log_file" and self.state.table_version in WHOLE_SLICE_VERSIONS

    @property
    def is_exact(self) -> bool:
        """Whether log files are split by record, so that RO is the table as of T."""
        return is_exact(self.policy)

    def straddling(self, file_slice: FileSlice, merged: Iterable[LogFile]) -> tuple[str, ...]:
        """The log files that are split, of those that a chosen slice merges."""
        return straddling(merged, self.threshold_ms) if self.splits(file_slice, merged) else ()

    def splits(self, file_slice: FileSlice, merged: Iterable[LogFile]) -> bool:
        """Whether rows after T of what a chosen slice merges stay in a log file."""
        return self.is_exact and not self.is_whole(file_slice, merged)

    def is_whole(self, file_slice: FileSlice, merged: Iterable[LogFile]) -> bool:
        """Whether nothing of the log files that a chosen slice merges may stay in a log file."""
        return self.is_exposed(file_slice) or is_whole(merged)

    def in_other_granularity(self) -> PlanningContext | None:
        """The context of the policy's other granularity; None for strategies and tables that have no other.

        Tables that have no cut, and whose policy does not carry, have none, and Hudi's own strategies.
        """
        if self.policy.is_stock:
            return None
        if self.state.table_version in WHOLE_SLICE_VERSIONS and self.policy.strategy.carry is None:
            return None
        strategy = self.policy.strategy
        other = strategy.model_copy(update={"granularity": OTHER_GRANULARITY[strategy.granularity]})
        return replace(self, policy=self.policy.model_copy(update={"strategy": other}))

    def split(self, file_slice: FileSlice, instant: str) -> Split:
        """What of a chosen slice a compaction at the instant merges, and what stays."""
        if self.carries:
            return split_slice(file_slice, frozenset(must_merge(self, file_slice)), self.state.instants)
        return compacted(file_slice, instant), remaining(file_slice, instant)

    def leaves_out(self, file_slice: FileSlice) -> bool:
        """Whether the slice is not compacted though it is due."""
        return file_slice in self.contended or file_slice.group in self.left_out

    def watermark(self, log_files: Iterable[LogFile]) -> Watermark:
        """How far RO is complete without these log files."""
        return watermark(log_files, self.policy.longest_latency_ms, self.zone)


def must_merge(context: PlanningContext, file_slice: FileSlice) -> Iterator[LogFile]:
    """The log files of a chosen slice that it may not leave behind, the latest first.

    Where a key may be there more than once these are all (facts: copies-by-position).
    """
    latest_first, policy = reversed(file_slice.log_files), context.policy
    if policy.strategy.granularity == "file_slice" or context.is_exposed(file_slice) or policy.writer.keys_repeated:
        return latest_first
    closing_ms = context.closing.get(file_slice.group)
    up_to_ms = context.merged_up_to_ms if closing_ms is None else max(context.merged_up_to_ms, closing_ms - 1)
    return (one for one in latest_first if is_due(one, up_to_ms))


def is_wanted(context: PlanningContext, file_slice: FileSlice) -> bool:
    """Whether the policy compacts the slice if it is due."""
    if context.policy.is_stock:
        return file_slice.group in context.stock or context.is_exposed(file_slice)
    return is_in(file_slice.partition, context.policy.strategy.partitions) or context.is_exposed(file_slice)


def context_of(
    policy: Policy, state: TableState, now_ms: int, clock_ms: int, contended: ContendedSlices, pace: Pace | None
) -> PlanningContext:
    """The context that leaves out nothing yet."""
    exposed = frozenset() if sees_log_files(policy.writer.index, state.metadata_partitions) else state.exposed
    latency_ms = policy.data_latency_ms
    threshold_ms = latest_ms = policy.latest_ms(now_ms)
    closing = closing_slices(policy, state, now_ms)
    if pace is not None:  # else nothing waits
        threshold_ms = threshold_in_time(pace, state, now_ms, latency_ms, exposed.union(closing))
        latest_ms = pace.latest_ms(now_ms, latency_ms)
    stock = stock_choice(policy, state)
    return PlanningContext(
        policy, state, now_ms, clock_ms, contended, {}, exposed, threshold_ms, latest_ms, pace, stock, closing
    )


def is_due(log_file: LogFile, threshold_ms: int) -> bool:
    """Whether RO up to the threshold needs the log file, or may."""
    return log_file.min_event_time_ms is None or log_file.min_event_time_ms <= threshold_ms


def merging_what_is_due(context: PlanningContext) -> PlanningContext:
    """The context that takes nothing along which could wait; T is no later then than what could not."""
    if context.pace is None:
        return context
    due_ms = context.pace.due_up_to_ms(context.now_ms, context.policy.data_latency_ms)
    return replace(context, threshold_ms=min(due_ms, context.threshold_ms)).merging_up_to(due_ms)


def no_run_before(context: PlanningContext, left: Iterable[tuple[FileSlice, LogFile]]) -> int | None:
    """Until when the policy needs no run, if these log files are left; None without a pace."""
    if context.pace is None:
        return None
    if context.policy.strategy.on_close:  # any partition may close before, also one that is not there yet
        return context.now_ms + context.pace.every_ms
    own = (one for file_slice, one in left if is_in(file_slice.partition, context.policy.strategy.partitions))
    return next_due_ms(context.pace, own, context.now_ms, context.policy.data_latency_ms)
