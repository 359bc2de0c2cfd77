"""A table's past from commit metadata: what was written when, and which compactions of ours ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from etc_policy.adapters.hudi.commits import CommitMetadata
from etc_policy.adapters.hudi.log_facts import LogFacts, Trust, group_writes
from etc_policy.plan.commit_metadata import WITHDRAWN, compaction_record
from etc_policy.plan.table_history import GroupWrite, TableHistory
from etc_policy.plan.table_state import CompactionRecord


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed write; `plan_extra` are the pairs of a compaction's plan, None for what is no compaction."""

    requested: str
    completed: str
    metadata: CommitMetadata
    plan_extra: Mapping[str, str] | None = None

    @property
    def record(self) -> CompactionRecord | None:
        """The threshold that a compaction promises by its commit or, if stock Hudi ran it, by its plan."""
        if self.plan_extra is None:
            return None
        pairs = {**self.plan_extra, **self.metadata.extra}
        return compaction_record(self.requested, self.completed, pairs)

    @property
    def is_disputed(self) -> bool:
        """Whether plan and commit both make a promise, and not the same."""
        planned = compaction_record(self.requested, self.completed, self.plan_extra or {})
        return planned is not None and planned != self.record and WITHDRAWN not in self.metadata.extra


def build_history(commits: Sequence[Commit], timezone: str, trust: Trust, known: LogFacts) -> TableHistory:
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
