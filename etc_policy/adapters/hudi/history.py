"""A table's past from commit metadata: what was written when, and which compactions by etc ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from etc_policy.adapters.hudi.commits import CommitMetadata
from etc_policy.adapters.hudi.log_facts import LogFacts, Trust, group_writes
from etc_policy.adapters.hudi.plan_file import expected_bytes, planned_reads
from etc_policy.adapters.hudi.timeline import Timeline
from etc_policy.adapters.hudi.values import pairs_of
from etc_policy.plan.commit_metadata import WITHDRAWN, compaction_record
from etc_policy.plan.table_history import GroupWrite, TableHistory
from etc_policy.plan.table_state import CompactionRecord, GroupKey


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
    write = CompletedWrite(
        requested, timeline.completions[requested], action, commit, pairs_of(plan), expected_bytes=expected_bytes(plan)
    )
    return replace(write, reads=tuple(planned_reads(plan))) if write.record is not None else write


def build_history(commits: Sequence[CompletedWrite], timezone: str, trust: Trust, known: LogFacts) -> TableHistory:
    """The history in those commits; of some it may be known already what they wrote."""
    writes: list[GroupWrite] = []
    runs: list[CompactionRecord] = []
    for commit in sorted(commits, key=lambda c: (c.completed, c.requested)):
        runs += [commit.record] if commit.record else []
        found = known.get(commit.requested)
        found = group_writes(commit.requested, commit.completed, commit.metadata, trust) if found is None else found
        writes += found.values()
    disputed = frozenset(commit.requested for commit in commits if commit.is_disputed)
    return TableHistory(timezone, tuple(writes), tuple(runs), disputed)
