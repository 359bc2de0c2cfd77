"""The partitions of a table in words, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from etc_policy.table.formats import count_of, format_bytes, format_time
from etc_policy.table.partitions import PartitionFreshness, PartitionsFreshness

#: So many partitions are shown one by one.
SHOWN = 20


def partition_lines(table: PartitionsFreshness | None) -> Iterator[tuple[str, str]]:
    """How many there are of each kind, then a line for each of the worst; nothing where nobody asked for them."""
    if table is None:
        return
    total = len(table.partitions)
    counts = ", ".join(f"{count:,} {status}" for status, count in table.counts().items() if count)
    yield "partitions", f"{total:,}{f': {counts}' if counts else ''}"
    if table.unparsed:
        said = f"{count_of(table.unparsed, 'partition')} without a time by `partition_time.from`"
        yield "", f"{said}, such as `{table.unparsed_example}`"
    if table.same_time is not None:
        yield "", f"`{table.same_time[0]}` and `{table.same_time[1]}` are about the same time"
    for one in table.partitions[:SHOWN]:
        yield "", f"{one.status or '':<7}{one.partition or '(no partitions)'}: {_figures(one)}".strip()
    if total > SHOWN:
        yield "", f"and {total - SHOWN:,} more; `--output json` has them all"


def _figures(one: PartitionFreshness) -> str:
    reopened = f"; late data reopened it {count_of(one.reopened, 'time')}" if one.reopened else ""
    return f"{_log_files(one)}{reopened}"


def _log_files(one: PartitionFreshness) -> str:
    if not one.log_files:
        return "no log file is left to compact"
    files = f"{count_of(one.log_files, 'log file')} ({format_bytes(one.log_bytes)})"
    unknown = f", {one.unknown_log_files:,} without a known event time" if one.unknown_log_files else ""
    held = f"held back by `{one.held_back_by}`"
    return f"RO complete until {format_time(one.complete_until_ms)}; {files}{unknown}, {held}"
