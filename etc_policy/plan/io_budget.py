"""Which of the due file slices a run may compact within a budget of bytes: those first whose events are oldest."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from etc_policy.table.state import FileSlice, Slices
from etc_policy.table.write_growth import WriteGrowth, bytes_to_write

BytesOf = Callable[[Slices, int | None], int]
_BEFORE_ALL = -(2**63)


def io_bytes(file_slice: FileSlice, log_bytes: int, growth: WriteGrowth | None) -> tuple[int, int]:
    """The bytes that a compaction of so many bytes of log files reads of a slice and, as estimated, writes."""
    base_bytes = file_slice.base_file_bytes
    return base_bytes + log_bytes, bytes_to_write(growth, base_bytes, log_bytes)


def within_budget(slices: Slices, max_bytes: int, bytes_of: BytesOf, first: Slices = ()) -> tuple[Slices, int | None]:
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
