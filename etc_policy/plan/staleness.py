"""Whether a saved plan still fits its table: asked under the table's lock, before and after the plan is published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from etc_policy.plan.cut import (
    SERVICE_ACTIONS,
    Cut,
    Guard,
    after_archive,
    archive_limits,
    at_a_free_time,
    closed_in_both_orders,
    compacted,
    no_tombstone_alone,
)
from etc_policy.plan.model import Operation, TablePlan
from etc_policy.plan.refusals import BLOCKING_ACTIONS
from etc_policy.policy.manifest import Policy
from etc_policy.table.evolved_schema import find_lacking
from etc_policy.table.state import FileSlice, TableState
from etc_policy.table.versions import CUT_VERSIONS

#: What must still allow the plan's C; guards 2 and 8 have a finer form below, by what was written since.
_GUARDS_WHEN_PUBLISHED: tuple[Guard, ...] = (
    closed_in_both_orders,
    no_tombstone_alone,
    after_archive,
    at_a_free_time,
)


def find_stale(policy: Policy, table: TablePlan, state: TableState, *, published: bool = False) -> tuple[str, ...]:
    """What changed since planning that makes the plan wrong; empty when it may be published, or may stay `published`.

    A published plan that a stock compaction has begun or completed meanwhile is not stale: it is being carried out.
    """
    if published:
        if any(i.requested == table.instant and i.state == "completed" for i in state.instants):
            return ()
        state = replace(state, instants=tuple(i for i in state.instants if i.requested != table.instant))
    return tuple(_changes(policy, table, state))


def _changes(policy: Policy, table: TablePlan, state: TableState) -> Iterator[str]:
    instant = table.instant or ""
    cuttable = state.table_version in CUT_VERSIONS
    if state.properties_fingerprint != table.seen.properties_fingerprint:
        yield "hoodie.properties changed"
    for pending in state.pending:
        if pending.action in BLOCKING_ACTIONS:
            yield f"a {BLOCKING_ACTIONS[pending.action]} at {pending.requested} is pending"
        elif not cuttable and pending.action in ("commit", "deltacommit"):
            yield f"a writer that began at {pending.requested} is in flight, and this table version has no cut"
    for writer in sorted(w for w in state.living_writers if w < instant):
        yield f"a writer that began at {writer}, before the plan's instant, is still in flight"
    yield from _new_instants(table, state, instant)
    if (lacking := find_lacking(state.instants, instant)) is not None:
        yield f"{lacking.why}, and Hudi would lose values by merging at {instant}"
    if any(operation.carried for operation in table.operations):
        yield from _later(state, instant)
    if cuttable:
        yield from _moved(policy, table, state, instant)
    yield from changed_slices(table.operations, state, instant)


def _moved(policy: Policy, table: TablePlan, state: TableState, instant: str) -> Iterator[str]:
    """The guards that would move C now: what came in since planning may need it elsewhere."""
    chosen = {operation.group for operation in table.operations}
    slices = tuple(file_slice for file_slice in state.slices if file_slice.group in chosen)
    cut = Cut(slices, state.instants, state.metadata_instants, archive_limits(policy.hudi_options))
    for guard in _GUARDS_WHEN_PUBLISHED:
        raised = guard(cut, instant)
        if raised is not None:
            yield f"the plan's instant {instant} is no longer valid: {raised.why}"


def _later(state: TableState, instant: str) -> Iterator[str]:
    """A slice begins with carried log files: nothing may have been written after it before it is known (FACTS 8)."""
    last = max((one.requested for one in state.instants), default="")
    if last >= instant:
        yield f"an instant at {last} is not before the plan's"


def _new_instants(table: TablePlan, state: TableState, instant: str) -> Iterator[str]:
    seen, chosen = set(table.seen.instants_completed), {operation.file_id for operation in table.operations}
    for done in state.instants:
        if done.state != "completed" or done.requested in seen:
            continue
        if done.action in SERVICE_ACTIONS and (done.file_ids is None or not chosen.isdisjoint(done.file_ids)):
            yield f"a {done.action} at {done.requested} completed on the chosen file groups"
        elif (done.completed or done.requested) < instant and done.action not in ("clean", "savepoint", "indexing"):
            yield f"a {done.action} at {done.requested} completed before the plan's instant, and the plan had not seen it"


def changed_slices(operations: Iterable[Operation], state: TableState, instant: str) -> Iterator[str]:
    """Where the operations of a compaction at `instant` are not all that its file slices held then.

    A compaction that leaves out a log file from before its instant loses that file's rows (FACTS 2).
    """
    slices = {file_slice.group: file_slice for file_slice in state.slices}
    by_completion = state.table_version in CUT_VERSIONS
    for operation in operations:
        found = slices.get(operation.group)
        if found is None:
            yield f"file group {operation.file_id} in `{operation.partition}` is gone"
        elif (found.base_file, found.base_instant) != (operation.base_file, operation.base_instant):
            yield f"file group {operation.file_id} in `{operation.partition}` has a new base file"
        elif not _has_as_planned(operation, found, instant, by_completion=by_completion):
            yield f"the log files of file group {operation.file_id} in `{operation.partition}` changed"


def changed_since_carried(operations: Iterable[Operation], state: TableState, instant: str) -> Iterator[str]:
    """Where the old slices of a compaction on table version 6 are not as they were carried from, or may not stay so."""
    for write in state.writes_in_flight:
        if write.may_live and write.requested < instant:
            yield f"a writer that began at {write.requested}, before the compaction's instant, has not ended"
    yield from changed_slices(operations, state, instant)


def _has_as_planned(operation: Operation, found: FileSlice, instant: str, *, by_completion: bool) -> bool:
    """Whether the slice held what the operation merges and carries; what bears C in its name was added to the next one."""
    files = compacted(found, instant) if by_completion else [f for f in found.log_files if f.requested != instant]
    sizes = {log_file.name: log_file.size_bytes for log_file in files}
    if sizes.keys() != {*operation.log_files_compacted, *(one.target for one in operation.carried)}:
        return False
    return all(sizes[one.target] == one.size_bytes for one in operation.carried)
