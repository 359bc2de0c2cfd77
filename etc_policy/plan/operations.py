"""What a compaction at an instant does to a chosen file slice."""

from __future__ import annotations

from operator import attrgetter, lt

from etc_policy.plan.carry import carried_files, log_order
from etc_policy.plan.io_budget import io_bytes
from etc_policy.plan.model import Operation
from etc_policy.plan.planning_context import PlanningContext
from etc_policy.table.state import FileSlice, LogFile

_MERGE_ORDER = attrgetter("requested", "completed", "name")


def operation_of(context: PlanningContext, file_slice: FileSlice, instant: str) -> Operation:
    """What is merged of the slice and what stays, in bytes and event times."""
    merged, left = context.split(file_slice, instant)
    log_bytes = size_of(merged)
    known_ms = [log_file.min_event_time_ms for log_file in merged if log_file.min_event_time_ms is not None]
    unknown, due_ms = len(merged) - len(known_ms), min(context.threshold_ms, context.merged_up_to_ms)
    bytes_read, bytes_written = io_bytes(file_slice, log_bytes, context.state.write_growth)
    return Operation(
        partition=file_slice.partition,
        file_id=file_slice.file_id,
        base_instant=file_slice.base_instant,
        base_file=file_slice.base_file,
        log_files_compacted=_merge_order(merged),
        log_files_remaining=_merge_order(left),
        bytes_read=bytes_read,
        bytes_written_estimate=bytes_written,
        log_bytes_compacted=log_bytes,
        due_log_files=unknown + sum(time_ms <= due_ms for time_ms in known_ms),
        unknown_log_files=unknown,
        oldest_event_ms=min(known_ms, default=None),
        remaining_from_ms=_earliest(left),
        carried=carried_files(file_slice, left, instant) if context.carries else (),
    )


def size_of(log_files: tuple[LogFile, ...]) -> int:
    """The bytes of log files."""
    return sum(log_file.size_bytes for log_file in log_files)


def _earliest(log_files: tuple[LogFile, ...]) -> int | None:
    """The smallest known event time."""
    return min((f.min_event_time_ms for f in log_files if f.min_event_time_ms is not None), default=None)


def _merge_order(log_files: tuple[LogFile, ...]) -> tuple[str, ...]:
    """By instant; before table version 8 all log files of a slice bear one, and are in the order of their versions."""
    requested = [one.requested for one in log_files]
    if all(map(lt, requested, requested[1:])):  # as they mostly are, and looking is cheaper than sorting
        return tuple(one.name for one in log_files)
    ordered = sorted(log_files, key=_MERGE_ORDER)
    if ordered[0].requested == ordered[-1].requested:
        ordered.sort(key=lambda one: log_order(one.name))
    return tuple(one.name for one in ordered)
