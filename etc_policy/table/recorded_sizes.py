"""Data files whose sizes are not those that their commits recorded: swapped, cut short, or never recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from etc_policy.table.state import TableState
from etc_policy.table.versions import CUT_VERSIONS


class UnlikeRecorded(NamedTuple):
    """A data file of a latest slice; `recorded_bytes` is None where no commit that is known has a write stat of it."""

    name: str
    size_bytes: int
    recorded_bytes: int | None
    instant: str


def not_as_recorded(state: TableState) -> Iterator[UnlikeRecorded]:
    """Every such file. A recorded size of 0 says nothing; before table version 8 log files grow after their commit."""
    has_whole_logs = state.table_version in CUT_VERSIONS
    for file_slice in state.slices:
        size, recorded = file_slice.base_file_bytes, file_slice.base_file_recorded_bytes
        if file_slice.base_file is not None and (recorded is None or recorded not in (0, size)):
            yield UnlikeRecorded(file_slice.base_file, size, recorded, file_slice.base_instant)
        for log_file in file_slice.log_files if has_whole_logs else ():
            if log_file.recorded_bytes is None or log_file.size_bytes < log_file.recorded_bytes:
                yield UnlikeRecorded(log_file.name, log_file.size_bytes, log_file.recorded_bytes, log_file.requested)
