"""A table's past from commit metadata: every write that completed, with what the plan of a compaction says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from etc_policy.hudi.commits import CommitMetadata
from etc_policy.hudi.log_facts import NO_TRUST, LogFacts, Trust, group_writes
from etc_policy.hudi.plan_file import expected_bytes, planned_reads, require_full
from etc_policy.hudi.timeline import Timeline
from etc_policy.hudi.values import pairs_of
from etc_policy.hudi.zones import table_zone
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.storage.port import TableReader
from etc_policy.table.commit_keys import WITHDRAWN
from etc_policy.table.history import WRITES, Commit, GroupWrite, TableHistory
from etc_policy.table.state import CompactionRecord, GroupKey

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
        """The threshold that a compaction promises by its commit or, if stock Hudi ran it, by its plan."""
        return compaction_record(self.requested, self.completed, self.extra) if self.action == "commit" else None

    @property
    def is_disputed(self) -> bool:
        """Whether plan and commit both make a promise, and not the same."""
        planned = compaction_record(self.requested, self.completed, self.plan_extra)
        return planned is not None and planned != self.record and WITHDRAWN not in self.metadata.extra


def completed_write(timeline: Timeline, requested: str) -> CompletedWrite:
    """The write that completed at an instant of the active timeline."""
    action, commit = timeline.latest(requested).action, timeline.commit(requested)
    plan = (timeline.plan_of(requested) if action == "commit" else None) or {}
    require_full(plan, f"`{requested}` in `{timeline.storage.location}`")
    write = CompletedWrite(
        requested, timeline.completions[requested], action, commit, pairs_of(plan), expected_bytes=expected_bytes(plan)
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
        is_disputed=write.is_disputed,
    )
