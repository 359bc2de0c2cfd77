"""What changes on a table after a compaction of it was planned, and makes the plan wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from etc_policy.plan.cut import GUARDS, SERVICE_ACTIONS, WITHOUT_DATA, Cut, archive_limits, compacted
from etc_policy.plan.model import Operation
from etc_policy.plan.refusals import BLOCKING_ACTIONS, Facts
from etc_policy.table.state import CUT_VERSIONS, FileSlice, TableState, find_lacking


def other_properties(facts: Facts) -> Iterator[str]:
    """The table's properties are not those that the plan has seen."""
    if facts.seen is not None and facts.state.properties_fingerprint != facts.seen.properties_fingerprint:
        yield "hoodie.properties changed"


def work_begun(facts: Facts) -> Iterator[str]:
    """A service, or a write on a table version without a cut, that is pending."""
    for pending in facts.state.pending:
        if pending.action in BLOCKING_ACTIONS:
            yield f"a {BLOCKING_ACTIONS[pending.action]} at {pending.requested} is pending"
        elif not facts.is_cut and pending.action in ("commit", "deltacommit"):
            yield f"a writer that began at {pending.requested} is in flight, and this table version has no cut"


def writers_before(facts: Facts) -> Iterator[str]:
    """Writers in flight from before C."""
    for writer in sorted(w for w in facts.state.begun_writes if w < facts.instant):
        yield f"a writer that began at {writer}, before the plan's instant, is still in flight"


def unseen_instants(facts: Facts) -> Iterator[str]:
    """What completed on the chosen file groups, or before C, and the plan has not seen."""
    seen = set(facts.seen.instants_completed) if facts.seen else set()
    chosen = {operation.file_id for operation in facts.operations}
    for done in facts.state.instants:
        if done.state != "completed" or done.requested in seen:
            continue
        if done.action in SERVICE_ACTIONS and (done.file_ids is None or not chosen.isdisjoint(done.file_ids)):
            yield f"a {done.action} at {done.requested} completed on the chosen file groups"
        elif (done.completed or done.requested) < facts.instant and done.action not in WITHOUT_DATA:
            yield f"a {done.action} at {done.requested} completed before the plan's instant, and the plan had not seen it"


def schema_altered(facts: Facts) -> Iterator[str]:
    """Hudi merges by the schema of the last write before C (facts: schema-of-the-cut)."""
    if (lacking := find_lacking(facts.state.instants, facts.instant)) is not None:
        yield f"{lacking.why}, and Hudi would lose values by merging at {facts.instant}"


def later_instants(facts: Facts) -> Iterator[str]:
    """Before table version 8: what came after C, where it may have changed what the plan merges under the same name.

    A slice begins with carried log files: nothing may have been written after it before it is known. And a log file to which
    writers append has its name still (facts: version-6-writer-in-flight, append-schemes).
    """
    if facts.is_cut or not (facts.carries or facts.state.logs_grow):
        return
    named = (one for one in facts.state.instants if facts.carries or one.action not in WITHOUT_DATA)
    last = max((one.requested for one in named), default="")
    if last >= facts.instant:
        yield f"an instant at {last} is not before the plan's"


def cut_moved(facts: Facts) -> Iterator[str]:
    """The guards that would move C now: what came in since planning may need it elsewhere."""
    if not facts.is_cut:
        return
    chosen, state = {operation.group for operation in facts.operations}, facts.state
    slices = tuple(file_slice for file_slice in state.slices if file_slice.group in chosen)
    cut = Cut(slices, state.instants, state.metadata_instants, archive_limits(facts.policy.hudi_options))
    for guard in (guard for guard, is_asked_again in GUARDS.items() if is_asked_again):
        raised = guard(cut, facts.instant)
        if raised is not None:
            yield f"the plan's instant {facts.instant} is no longer valid: {raised.why}"


def changed_slices(operations: Iterable[Operation], state: TableState, instant: str) -> Iterator[str]:
    """Where the operations of a compaction at `instant` are not all that its file slices held then.

    A compaction that leaves out a log file from before its instant loses that file's rows (facts: prefix-not-pick).
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
    """Where the old slices are not as log files were carried, or rows split, from them, or may not stay so."""
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
