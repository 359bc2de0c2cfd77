"""Which file slices a plan leaves alone, and why: counted by reason, the nearest to being due named.

Of those that are due a run may compact as many as its budget of bytes allows: those first whose events are oldest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from etc_policy.plan.model import SkippedSlice, SkippedSlices, SkipReason
from etc_policy.table.state import FileSlice, GroupKey, Slices
from etc_policy.table.write_growth import WriteGrowth, bytes_to_write

#: So many file slices are named for each reason; a large table has more than anybody reads.
NAMED_SLICES = 10

_REASONS: tuple[SkipReason, ...] = (
    "due_but_written_to",
    "due_but_behind_a_writer",
    "due_but_beyond_hold",
    "due_but_in_other_partitions",
    "due_but_beyond_budget",
    "due_but_not_chosen",
    "due_but_refused",
    "newer_than_threshold",
    "no_log_files",
)


#: Why due slices are left out.
SkipReasons = Mapping[GroupKey, SkipReason]


@dataclass(frozen=True, slots=True)
class ContendedSlices:
    """File slices that writers kept adding to while they were compacted: these groups, or `all_deletes`: all with deletes.

    Where a plan is made while writers are kept out, it may take `hold_bytes` (`plan/hold.py`).
    """

    groups: frozenset[GroupKey] = frozenset()
    all_deletes: bool = False
    hold_bytes: int | None = None

    def __contains__(self, file_slice: FileSlice) -> bool:
        named = file_slice.group in self.groups
        return named or (self.all_deletes and any(log_file.has_deletes for log_file in file_slice.log_files))


def group_skipped_slices(
    slices: Iterable[FileSlice],
    is_due: Callable[[FileSlice], bool],
    contended: ContendedSlices,
    left_out: SkipReasons,
    *,
    refused: bool,
) -> tuple[SkippedSlices, ...]:
    """The slices that are not compacted, by reason; on a `refused` table those that are due are left out too."""
    found: dict[SkipReason, list[FileSlice]] = {reason: [] for reason in _REASONS}
    for file_slice in slices:
        if not file_slice.log_files:
            found["no_log_files"].append(file_slice)
        elif not is_due(file_slice):
            found["newer_than_threshold"].append(file_slice)
        elif file_slice in contended:
            found["due_but_written_to"].append(file_slice)
        elif file_slice.group in left_out:
            found[left_out[file_slice.group]].append(file_slice)
        elif refused:
            found["due_but_refused"].append(file_slice)
    return tuple(_left_out(reason, of_reason) for reason, of_reason in found.items() if of_reason)


def _left_out(reason: SkipReason, slices: list[FileSlice]) -> SkippedSlices:
    named = sorted(map(_slice, slices), key=_nearest)[:NAMED_SLICES] if reason != "no_log_files" else ()
    return SkippedSlices(
        reason=reason,
        file_slices=len(slices),
        log_files=sum(len(one.log_files) for one in slices),
        log_bytes=sum(log_file.size_bytes for one in slices for log_file in one.log_files),
        nearest=tuple(named),
    )


def _slice(file_slice: FileSlice) -> SkippedSlice:
    known = (f.min_event_time_ms for f in file_slice.log_files if f.min_event_time_ms is not None)
    return SkippedSlice(
        partition=file_slice.partition,
        file_id=file_slice.file_id,
        log_files=len(file_slice.log_files),
        log_bytes=sum(log_file.size_bytes for log_file in file_slice.log_files),
        earliest_event_ms=min(known, default=None),
    )


def _nearest(one: SkippedSlice) -> tuple[bool, int, str, str]:
    """Unknown event times first, then the earliest."""
    return one.earliest_event_ms is not None, one.earliest_event_ms or 0, one.partition, one.file_id


BytesOf = Callable[[Slices, int | None], int]
_BEFORE_ALL = -(2**63)


def io_bytes(file_slice: FileSlice, log_bytes: int, growth: WriteGrowth | None) -> tuple[int, int]:
    """The bytes that a compaction of so many bytes of log files reads of a slice and, as estimated, writes."""
    base_bytes = file_slice.base_file_bytes
    return base_bytes + log_bytes, bytes_to_write(growth, base_bytes, log_bytes)


def within_budget(slices: Slices, max_bytes: int, bytes_of: BytesOf, first: Slices) -> tuple[Slices, int | None]:
    """The slices that fit together, one at least, those with the oldest events first, and the first event of the others.

    That is None where all fit. `bytes_of` says what some slices take, merged up to an event time (None: all that is due), which
    is never less for more of them. A slice with an event time that is not known may have the oldest. Those that must come
    `first` are taken whatever they take.
    """
    ordered = tuple(sorted((one for one in slices if one not in first), key=age))
    if not ordered or bytes_of((*first, *ordered), None) <= max_bytes:
        return (*first, *ordered), None
    ages = [age(one)[0] for one in ordered]
    counts = range(1, len(ordered))
    fitting = bisect_right(counts, max_bytes, key=lambda count: bytes_of((*first, *ordered[:count]), ages[count]))
    count = max(fitting, 0 if first else 1)
    return (*first, *ordered[:count]), ages[count] if count < len(ordered) else None


def age(file_slice: FileSlice) -> tuple[int, str, str]:
    """Orders slices by their oldest events; one with an event time that is not known may have the oldest."""
    times = (_BEFORE_ALL if f.min_event_time_ms is None else f.min_event_time_ms for f in file_slice.log_files)
    return min(times), file_slice.partition, file_slice.file_id
