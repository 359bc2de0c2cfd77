"""A table's past from commit metadata: every write that completed, with what the plan of a compaction says;
and which compactions etc planned, which others did, and whether what was carried is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

from etc_policy.hudi.commit_writes import NO_TRUST, LogFacts, Trust, group_writes
from etc_policy.hudi.commits import CommitMetadata
from etc_policy.hudi.metadata_values import pairs_of
from etc_policy.hudi.plan_file import expected_bytes, planned_reads, require_full
from etc_policy.hudi.timeline import Timeline
from etc_policy.hudi.zones import table_zone
from etc_policy.plan.carry import carried_in
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.plan.split import remainders_in
from etc_policy.storage.port import TableReader
from etc_policy.table.history import WITHDRAWN, WRITES, Commit, GroupWrite, TableHistory
from etc_policy.table.state import CompactionRecord, GroupKey
from etc_policy.table.write_growth import LEARNED_FROM, MergedSlice, WriteGrowth, learned_from

#: Archived writes that are read at most where nobody asks for all of them: the newest.
MAX_ARCHIVED = 5_000
_OWN = "etc."


@dataclass(frozen=True, slots=True)
class CompletedWrite:
    """A write that completed, as the active or the archived timeline has it.

    `plan_extra` are the pairs of a compaction's plan, empty for what has none. `expected_bytes` is what that plan expected of
    its base files, None where it does not say. `reads` is what the plan of a compaction on the active timeline with a threshold
    reads of each file group: its bytes, and those of log files among them.
    """

    requested: str
    completed: str
    action: str
    metadata: CommitMetadata
    plan_extra: Mapping[str, str]
    archived: bool = False
    expected_bytes: int | None = None
    reads: tuple[tuple[GroupKey, int, int], ...] = ()

    @property
    def extra(self) -> dict[str, str]:
        """The pairs of its plan and of its commit, which win."""
        return {**self.plan_extra, **self.metadata.extra}

    @property
    def record(self) -> CompactionRecord | None:
        """The threshold that a compaction promises by its commit or, if stock Hudi ran it, by its plan.

        It is disputed where both make a promise, and not the same.
        """
        if self.action != "commit":
            return None
        said = compaction_record(self.requested, self.completed, self.extra)
        planned = compaction_record(self.requested, self.completed, self.plan_extra)
        is_disputed = planned is not None and planned != said
        return replace(said, is_disputed=True) if said is not None and is_disputed else said


def completed_write(timeline: Timeline, requested: str) -> CompletedWrite:
    """The write that completed at an instant of the active timeline."""
    action, commit = timeline.latest(requested).action, timeline.commit(requested)
    write = CompletedWrite(requested, timeline.completions[requested], action, commit, {})
    plan = timeline.plan_of(requested) if action == "commit" else None
    if plan is None:
        return write
    require_full(plan, f"`{requested}` in `{timeline.storage.location}`")
    write = replace(
        write, plan_extra=timeline.kept_pairs(requested, pairs_of(plan)), expected_bytes=expected_bytes(plan)
    )
    return replace(write, reads=tuple(planned_reads(plan))) if write.record is not None else write


def table_history(
    writes: Iterable[CompletedWrite],
    storage: TableReader,
    properties: Mapping[str, str],
    trust: Trust,
    known: LogFacts,
    *,
    is_complete: bool,
) -> TableHistory:
    """The history in those writes; of some it may be known already what they wrote to each file group."""
    ordered = sorted(writes, key=lambda write: (write.completed, write.requested))
    commits = (commit_of(write, trust, known.get(write.requested)) for write in ordered)
    version = int(properties["hoodie.table.version"])
    return TableHistory(storage.location, version, table_zone(properties), tuple(commits), is_complete)


def commit_of(
    write: CompletedWrite, trust: Trust = NO_TRUST, known: Mapping[GroupKey, GroupWrite] | None = None
) -> Commit:
    """A completed write, as far as its event times and deletes can be trusted."""
    groups = group_writes(write.requested, write.completed, write.metadata, trust) if known is None else known
    return Commit(
        requested=write.requested,
        completed=write.completed,
        action=next(action for action in WRITES if action == write.action),
        operation=write.metadata.operation,
        groups=tuple(groups.values()),
        replaced=write.metadata.replaced,
        extra={key: value for key, value in write.extra.items() if key.startswith(_OWN)},
        archived=write.archived,
        bytes_written_estimate=write.expected_bytes,
        record=write.record,
    )


class CompletedCompactions(NamedTuple):
    """The latest on the active timeline that etc did not plan, and one of etc's whose commit lacks what its plan carries."""

    foreign: str | None
    uncarried: str | None


def compactions_by_whom(timeline: Timeline, writes: Iterable[CompletedWrite]) -> CompletedCompactions:
    """What matters where etc adds log files to slices: a plan of that is only right if its commit records them."""
    foreign = uncarried = None
    for write in sorted(writes, key=lambda one: one.requested):
        has_plan = timeline.requested_file(write.requested, "compaction") is not None
        if write.action != "commit" or not (has_plan or write.metadata.operation == "COMPACT"):
            continue  # a `commit` may also be a bulk insert (facts: bulk-insert-commit)
        if write.record is None:
            foreign = foreign if WITHDRAWN in write.metadata.extra else write.requested
        elif not records_added(write):
            uncarried = write.requested
    return CompletedCompactions(foreign, uncarried)


def records_added(write: CompletedWrite) -> bool:
    """Whether a commit records the log files that its plan carries, or has split off."""
    carried = ((group, one.name) for group, files in carried_in(write.extra).items() for one in files)
    added = [*carried, *remainders_in(write.extra)]
    stats = write.metadata.stats
    return not added or set(zip(stats.groups, stats.file_names, strict=True)).issuperset(added)


def plan_extra(timeline: Timeline, requested: str) -> dict[str, str] | None:
    """The pairs of a completed compaction's plan; None for what is not a compaction."""
    if timeline.latest(requested).action != "commit":
        return None
    return pairs_of(timeline.plan_of(requested) or {})


def write_growth(writes: Iterable[CompletedWrite]) -> WriteGrowth | None:
    """What the last compactions with a threshold among these wrote; None without one."""
    own = [(record.completed, record.instant, write) for write in writes if (record := write.record) is not None]
    own.sort(key=itemgetter(0, 1))
    return learned_from(list(_merged(write)) for _, _, write in own[-LEARNED_FROM:])


def _merged(write: CompletedWrite) -> Iterator[MergedSlice]:
    """The slices that a compaction merged, with the sizes that its plan and its commit record."""
    stats = write.metadata.stats
    columns = zip(stats.groups, stats.file_names, stats.sizes_bytes, strict=True)
    written = {group: size for group, name, size in columns if ".log." not in name}
    for group, read_bytes, log_bytes in write.reads:
        yield MergedSlice(max(0, read_bytes - log_bytes), log_bytes, written.get(group, 0))


def own_pending(timeline: Timeline) -> str | None:
    """The instant of a compaction that etc has published and nobody has completed; None without one."""
    pending: Iterable[str] = (r for r in sorted(timeline.files) if timeline.latest(r).action == "compaction")
    for requested in pending:
        plan = timeline.plan_of(requested) or {}
        if compaction_record(requested, requested, pairs_of(plan)) is not None:
            return requested
    return None
