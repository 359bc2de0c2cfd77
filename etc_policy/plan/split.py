"""Exact split by record: the rows at or before T go into the new base file, and the later ones into one new log file.

See facts: split-is-possible. Of a log file that holds both, stock Hudi is given an extract of the rows at or before T, in a
folder that no reader lists. The later rows of a slice go into its remainder, a log file that bears C in its name: it counts
from the compaction's commit on and comes first in the new slice (facts: split-remainder).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pydantic import TypeAdapter

from etc_policy.plan.carry import TRIED_PARTITIONS, carried_name, log_instant
from etc_policy.plan.model import LaterRows, Operation, SplitInput, SplitSlice
from etc_policy.policy.locations import S3_SCHEMES, is_local
from etc_policy.policy.manifest import Frozen, Policy
from etc_policy.table.state import FileSlice, LogFile, RowGroup, TableState, path_below

#: The pair of a compaction's metadata that says what was split.
SPLIT = "etc.split"
#: The extracts, in a folder for each C; nobody looks for partitions there (facts: split-hidden-folder).
SPLIT_FOLDER = ".hoodie/.etc/split"
#: Columns whose values are in the order of the times that they are.
_ORDERED_TYPES = ("date", "timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
_EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"


def is_exact(policy: Policy) -> bool:
    """Whether the policy splits by record, so that RO is the table as of T."""
    return policy.strategy.type == "event_time" and policy.strategy.granularity == "record"


def is_whole(merged: Iterable[LogFile]) -> bool:
    """Whether log files must be merged whole: what is compacted with a delete may leave nothing behind.

    See facts: split-deletes.
    """
    return any(one.has_deletes for one in merged)


def straddling(merged: Iterable[LogFile], threshold_ms: int) -> tuple[str, ...]:
    """The names of the log files that hold rows after T, or of which nobody knows that they hold none."""
    latest = ((one.name, one.max_event_time_ms) for one in merged)
    return tuple(name for name, max_ms in latest if max_ms is None or max_ms > threshold_ms)


def remainder_name(file_slice: FileSlice, instant: str) -> str:
    """The name of the log file for the rows after T of a slice."""
    return carried_name(file_slice.file_id, instant, 0)


def extract_path(operation: Operation, name: str) -> str:
    """The path below the table of the rows at or before T of a log file."""
    instant = log_instant(operation.remainder or "")
    return f"{SPLIT_FOLDER}/{instant}/{path_below(operation.partition, name)}"


def merged_paths(operation: Operation) -> tuple[str, ...]:
    """What Hudi merges, as a plan names it: paths from the operation's partition on."""
    if operation.split is None:
        return operation.log_files_compacted
    up = "../" * (operation.partition.count("/") + 1) if operation.partition else ""
    return tuple(
        one.name if one.extract_bytes is None else up + extract_path(operation, one.name)
        for one in operation.split.inputs
    )


def made_files(operation: Operation) -> Iterator[tuple[str, int]]:
    """The paths below the table of the files that a split has made, and their sizes in bytes."""
    if operation.split is None:
        return
    for one in operation.split.inputs:
        if one.extract_bytes is not None:
            yield extract_path(operation, one.name), one.extract_bytes
    if operation.remainder and operation.split.remainder_bytes:
        yield path_below(operation.partition, operation.remainder), operation.split.remainder_bytes


def later_rows(state: TableState, known: Mapping[str, tuple[RowGroup, ...]], threshold_ms: int) -> LaterRows:
    """How much the table's base files hold after T, by their row groups as far as these are known."""
    paths = [path_below(one.partition, one.base_file) for one in state.slices if one.base_file]
    later = {
        path: sum(one.rows for one in known[path] if one.latest_ms is not None and one.latest_ms > threshold_ms)
        for path in paths
        if path in known
    }
    rows = [count for count in later.values() if count]
    return LaterRows(base_files=len(rows), rows_at_most=sum(rows), unknown_base_files=len(paths) - len(later))


class _Trace(Frozen):
    """What was split of one slice, as the plan and the commit record it."""

    partition: str
    file_id: str
    log_files: tuple[str, ...]
    merged: tuple[SplitInput, ...]
    remainder: str
    remainder_bytes: int


_TRACES = TypeAdapter(tuple[_Trace, ...])


def split_text(operations: Iterable[Operation]) -> str:
    """What was split, for the plan's metadata and the commit's."""
    traces = tuple(
        _Trace(
            partition=one.partition,
            file_id=one.file_id,
            log_files=one.log_files_compacted,
            merged=one.split.inputs,
            remainder=one.remainder or "",
            remainder_bytes=one.split.remainder_bytes,
        )
        for one in operations
        if one.split is not None
    )
    return _TRACES.dump_json(traces).decode()


def remainders_in(extra: Mapping[str, str]) -> Iterator[tuple[tuple[str, str], str]]:
    """The file group and the name of each log file of rows after T that a compaction has made.

    Raises:
        ValueError: the metadata has another form.

    """
    return (((one.partition, one.file_id), one.remainder) for one in _traces(extra) if one.remainder_bytes)


def split_groups(extra: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """The file groups that a compaction has not merged whole.

    Raises:
        ValueError: the metadata has another form.

    """
    return frozenset((one.partition, one.file_id) for one in _traces(extra))


def with_split(operations: Iterable[Operation], extra: Mapping[str, str]) -> tuple[Operation, ...]:
    """The operations of a plan file as they were split.

    Raises:
        ValueError: its metadata has another form, or the plan names other files than follow from it.

    """
    traces = {(one.partition, one.file_id): one for one in _traces(extra)}
    found = tuple(_as_split(one, traces.pop(one.group, None)) for one in operations)
    if traces:
        raise ValueError("the plan splits a file group that it does not compact")
    return found


def _traces(extra: Mapping[str, str]) -> tuple[_Trace, ...]:
    return _TRACES.validate_json(extra[SPLIT]) if SPLIT in extra else ()


def _as_split(operation: Operation, trace: _Trace | None) -> Operation:
    if trace is None:
        return operation
    split = SplitSlice(inputs=trace.merged, remainder_bytes=trace.remainder_bytes)
    changes = {"log_files_compacted": trace.log_files, "remainder": trace.remainder, "split": split}
    found = operation.model_copy(update=changes)
    if merged_paths(found) != operation.log_files_compacted or not {one.name for one in split.inputs} <= {
        *trace.log_files
    }:
        raise ValueError("the plan merges other log files than it says to have split")
    return found


def find_split_obstacle(policy: Policy, state: TableState) -> tuple[str, str] | None:
    """Why a table may not be split by record, and what to do; None where it may."""
    coarser = "set `granularity: log_file`"
    if not state.is_cut:
        reason = f"log files of table version {state.table_version} cannot be split: there is no cut"
        return reason, "upgrade the table to version 8 or later, or set `granularity: file_slice`"
    if policy.writer.compaction != "none":
        reason = f"its writers compact on their own (`{policy.writer.compaction}`) and would leave the rows after T out"
        return (
            reason,
            f"give the writers the options that `etc compile` writes and declare `compaction: none`, or {coarser}",
        )
    if policy.writer.keys_repeated:  # facts: copies-by-position
        return (
            "a key may be there more than once (`keys: repeated`), and rows after T would update one copy alone",
            coarser,
        )
    if state.foreign_compaction is not None:
        reason = f"the compaction at {state.foreign_compaction} is not etc's; whoever made it would leave the rows after T out"
        return reason, f"see that nobody else compacts the table; until that instant is archived, {coarser}"
    if state.merge_mode != _EVENT_TIME_ORDERING or state.updates_in_part:
        mode = "updates rows in part" if state.updates_in_part else f"merges by {state.merge_mode or 'an unknown mode'}"
        return f"the table {mode}, and only whole rows merged by {_EVENT_TIME_ORDERING} can be split", coarser
    if state.ordering_fields != (policy.event_time.column,):
        fields = ", ".join(f"`{name}`" for name in state.ordering_fields) or "nothing"
        reason = f"rows are ordered by {fields}, not by the event-time column `{policy.event_time.column}` alone"
        return reason, coarser
    older = next((one for _, one in state.log_files if one.requested < state.column_since), None)
    if older is not None:
        column = policy.event_time.column
        return f"`{column}` was another column's name when log file {older.name} was written", f"{coarser} for one run"
    if not _is_ordered(policy, state):
        reason = f"values of `{policy.event_time.column}` ({state.event_time_type}) are not in the order of their times"
        return reason, f"for integers declare `unit`; for texts {coarser}"
    untried = sorted(set(state.metadata_partitions) - TRIED_PARTITIONS)
    if untried:
        return f"splitting was not tried with `{untried[0]}` in the metadata table", coarser
    if not (is_local(state.base_path) or state.base_path.startswith(S3_SCHEMES)):
        return "splitting was tried on file systems and S3, and not on other stores", coarser
    if state.has_cdc:
        return "splitting was not tried on tables that keep their changes (CDC)", coarser
    return None


def _is_ordered(policy: Policy, state: TableState) -> bool:
    if state.event_time_type in ("int", "long"):
        return policy.event_time.unit is not None
    return state.event_time_type in _ORDERED_TYPES
