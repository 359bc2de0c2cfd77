"""The completeness watermark: how far RO is complete, from metadata alone (FACTS 6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo
from itertools import chain
from zoneinfo import ZoneInfo

from etc_policy.plan.instants import instant_to_ms
from etc_policy.plan.table_state import LogFile, TableState


@dataclass(frozen=True, slots=True)
class Watermark:
    """`value_ms`: RO holds every row with event time up to it; None when no log file is left that could lack there.

    `held_back_by` is the log file with the smallest event time, `assumed` says that this time is not known but bounded
    by the file's completion time less the data latency.
    """

    value_ms: int | None
    held_back_by: str | None
    assumed: bool


def event_time_bound_ms(log_file: LogFile, data_latency_ms: int, zone: tzinfo) -> int:
    """The smallest event time that the log file can hold under the policy's promise on data latency (FACTS 4)."""
    if log_file.min_event_time_ms is not None:
        return log_file.min_event_time_ms
    return instant_to_ms(log_file.completed, zone) - data_latency_ms


def watermark(log_files: Iterable[LogFile], data_latency_ms: int, zone: tzinfo) -> Watermark:
    """The watermark over log files that are not compacted; ties go to the name that sorts first."""
    lowest: tuple[int, str, bool] | None = None
    for log_file in log_files:
        known_ms = log_file.min_event_time_ms
        bound_ms = event_time_bound_ms(log_file, data_latency_ms, zone) if known_ms is None else known_ms
        if lowest is None or bound_ms <= lowest[0]:
            found = bound_ms, log_file.name, log_file.min_event_time_ms is None
            lowest = found if lowest is None else min(lowest, found)
    if lowest is None:
        return Watermark(None, None, assumed=False)
    return Watermark(lowest[0] - 1, lowest[1], assumed=lowest[2])


def watermark_of(state: TableState, data_latency_ms: int) -> Watermark:
    """The watermark of a table as it is now."""
    log_files = chain.from_iterable(file_slice.log_files for file_slice in state.slices)
    return watermark(log_files, data_latency_ms, ZoneInfo(state.timezone))


def complete_until_ms(watermark_ms: int | None, observed_at_ms: int, data_latency_ms: int) -> int:
    """What a user may rely on: RO is complete up to here, if the data keeps its promise on latency (FACTS 6)."""
    promised = observed_at_ms - data_latency_ms
    return promised if watermark_ms is None else min(watermark_ms, promised)
