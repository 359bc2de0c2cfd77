"""The delete rule at the commit: what may still make a compaction with deletes wrong after its plan was made.

See facts: delete-rule-until-commit. The plan leaves no log file behind where it compacts deletes. A writer can add one while
the compaction runs. Then a key that was deleted and written again would be in a log file only, where most indexes do not
look: the next upsert makes a second row of it. So this is asked again right before the commit, under the table's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from etc_policy.plan.model import Operation
from etc_policy.policy.manifest import Policy
from etc_policy.table.double_keys import sees_log_files
from etc_policy.table.state import FileSlice, GroupKey, TableState, WriteInFlight


@dataclass(frozen=True, slots=True)
class Overtaken:
    """A chosen file slice that compacts deletes and that a writer has added to, or may be about to add to (`waits`)."""

    group: GroupKey
    why: str
    waits: bool


def find_overtaken(policy: Policy, operations: Iterable[Operation], state: TableState) -> tuple[Overtaken, ...]:
    """The slices for which a compaction of `operations` may not be committed now; none where it may."""
    logs_are_seen = sees_log_files(policy.writer.index, state.metadata_partitions)
    if logs_are_seen and not state.is_cut:
        return ()
    writes = () if logs_are_seen else tuple(write for write in state.writes_in_flight if write.may_live)
    slices = {one.group: one for one in state.slices}
    found = (
        _overtaken(operation, slices[group], writes) for operation in operations if (group := operation.group) in slices
    )
    return tuple(one for one in found if one is not None)


def writes_beside(
    policy: Policy, groups: frozenset[GroupKey], known: frozenset[str], after: TableState, completed: str
) -> tuple[str, ...]:
    """Writes to `groups` that are not `known` and began before the compaction completed: nobody has judged them.

    No writer that takes the table's lock can begin there. Before table version 8 it completed at its instant as far as anybody
    knows, and a log file bears that of its slice: all since then count, as the table is read right after the commit.
    """
    if not groups or sees_log_files(policy.writer.index, after.metadata_partitions):
        return ()
    found = {w.requested for w in after.writes_in_flight if w.groups is None or not groups.isdisjoint(w.groups)}
    named = {f.requested for s, f in after.log_files if s.group in groups}
    if after.is_cut:
        return tuple(sorted(one for one in found | named if one not in known and one <= completed))
    if completed in named:
        found |= {one.requested for one in after.instants if (one.action, one.state) == ("deltacommit", "completed")}
    return tuple(sorted(found - known))


def groups_with_deletes(operations: Iterable[Operation], state: TableState) -> frozenset[GroupKey]:
    """The file groups of which the operations compact deletes, or may."""
    slices = {one.group: one for one in state.slices}
    return frozenset(
        group for operation in operations if (group := operation.group) in slices and _deletes(operation, slices[group])
    )


def _overtaken(operation: Operation, file_slice: FileSlice, writes: Iterable[WriteInFlight]) -> Overtaken | None:
    if not _deletes(operation, file_slice):
        return None
    group, name = operation.group, f"file group {operation.file_id} in `{operation.partition}`"
    planned = set(operation.log_files_compacted)
    added = next((one.name for one in file_slice.log_files if one.name not in planned), None)
    if added is not None:
        why = f"the log file {added} was added to {name}, of which the plan compacts deletes"
        return Overtaken(group, why, waits=False)
    for write in writes:
        if write.groups is None or group in write.groups:
            how = "may write" if write.groups is None else "writes"
            why = f"a writer that began at {write.requested} {how} to {name}, of which the plan compacts deletes"
            return Overtaken(group, why, waits=True)
    return None


def _deletes(operation: Operation, file_slice: FileSlice) -> bool:
    """Whether the compacted log files hold deletes; one that is not in the slice any more may hold some."""
    known = {log_file.name: log_file.has_deletes for log_file in file_slice.log_files}
    return any(known.get(name, True) for name in operation.log_files_compacted)
