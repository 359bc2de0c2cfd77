"""The completeness watermark: how far RO is complete, from metadata alone (facts: completeness-watermark)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo
from itertools import chain
from typing import NamedTuple
from zoneinfo import ZoneInfo

from etc_policy.policy.manifest import Policy
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.state import LogFile, TableState


@dataclass(frozen=True, slots=True)
class Watermark:
    """`value_ms`: RO holds every row with event time up to it; None when no log file is left that could lack there.

    `held_back_by` is the log file with the smallest event time, `assumed` says that this time is not known but bounded
    by the file's completion time less the data latency.
    """

    value_ms: int | None
    held_back_by: str | None
    assumed: bool


#: Right after the first moment that a calendar has.
_BEFORE_ALL_MS = -62_135_596_800_000 + 1


class EventTimeBound(NamedTuple):
    """The smallest event time that a log file can hold; `assumed` says that it is not known, but promised by the latency."""

    ms: int
    assumed: bool


def event_time_bound(log_file: LogFile, data_latency_ms: int, zone: tzinfo) -> EventTimeBound:
    """The smallest event time that the log file can hold under the policy's promise on data latency (facts: unknown-bounded).

    What is seen in it is there, however late it came: beside a delete, or a row without an event time, too.
    """
    if log_file.min_event_time_ms is not None:
        return EventTimeBound(log_file.min_event_time_ms, assumed=False)
    if log_file.may_hold_anything:
        return EventTimeBound(_BEFORE_ALL_MS, assumed=True)
    since = log_file.rows_since or log_file.completed
    return bound_of(instant_to_ms(since, zone) - data_latency_ms, log_file.seen_event_time_ms)


def bound_of(promised_ms: int, seen_ms: int | None) -> EventTimeBound:
    """The earlier of what the latency promises of unknown event times and of what is seen beside them."""
    promised = EventTimeBound(promised_ms, assumed=True)
    return promised if seen_ms is None else min(EventTimeBound(seen_ms, assumed=False), promised)


def watermark(log_files: Iterable[LogFile], data_latency_ms: int, zone: tzinfo) -> Watermark:
    """The watermark over log files that are not compacted; ties go to the name that sorts first."""
    lowest: tuple[int, str, bool] | None = None
    for log_file in log_files:
        known_ms = log_file.min_event_time_ms
        bound = event_time_bound(log_file, data_latency_ms, zone) if known_ms is None else (known_ms, False)
        if lowest is None or bound[0] <= lowest[0]:
            found = bound[0], log_file.name, bound[1]
            lowest = found if lowest is None else min(lowest, found)
    if lowest is None:
        return Watermark(None, None, assumed=False)
    return Watermark(lowest[0] - 1, lowest[1], assumed=lowest[2])


def watermark_of(state: TableState, data_latency_ms: int) -> Watermark:
    """The watermark of a table as it is now."""
    log_files = chain.from_iterable(file_slice.log_files for file_slice in state.slices)
    return watermark(log_files, data_latency_ms, ZoneInfo(state.timezone))


def complete_until_ms(watermark_ms: int | None, observed_at_ms: int, data_latency_ms: int) -> int:
    """What a user may rely on: RO is complete up to here, if the data keeps its promise on latency (facts: complete-until)."""
    promised = observed_at_ms - data_latency_ms
    return promised if watermark_ms is None else min(watermark_ms, promised)


class Completeness(NamedTuple):
    """How far RO is complete, and the watermark that says so."""

    until_ms: int
    watermark: Watermark


def completeness_of(state: TableState, policy: Policy, now_ms: int) -> Completeness:
    """How far RO of a table as it is now is complete: what freshness, claims and verifications all go by."""
    mark = watermark_of(state, policy.longest_latency_ms)
    return Completeness(complete_until_ms(mark.value_ms, now_ms, policy.at(now_ms).data_latency_ms), mark)
