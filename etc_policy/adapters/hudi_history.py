"""A table's past from commit metadata: what was written when, which compactions of ours ran, how large files were booked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etc_policy.adapters.hudi_timeline import file_name, write_stats
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.plan.table_history import GroupWrite, TableHistory
from etc_policy.plan.table_state import CompactionRecord


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed write; `plan_extra` are the pairs of a compaction's plan, None for what is no compaction."""

    requested: str
    completed: str
    metadata: Mapping[str, Any]
    plan_extra: Mapping[str, str] | None = None

    @property
    def record(self) -> CompactionRecord | None:
        """The threshold that a compaction promises by its commit or, if stock Hudi ran it, by its plan."""
        if self.plan_extra is None:
            return None
        pairs = {**self.plan_extra, **(self.metadata.get("extraMetadata") or {})}
        return compaction_record(self.requested, self.completed, pairs)

    @property
    def is_disputed(self) -> bool:
        """Whether plan and commit both make a promise, and not the same."""
        planned = compaction_record(self.requested, self.completed, self.plan_extra or {})
        return planned is not None and planned != self.record


def build_history(commits: Sequence[Commit], timezone: str, *, trusted: bool) -> TableHistory:
    """The history in those commits; `trusted` is false where the recorded event times cannot be the policy's."""
    writes: list[GroupWrite] = []
    runs: list[CompactionRecord] = []
    booked: dict[tuple[str, str], int] = {}
    for commit in sorted(commits, key=lambda c: (c.completed, c.requested)):
        groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for partition, stat in write_stats(commit.metadata):
            name = file_name(stat)
            if name:
                booked[partition, name] = stat.get("fileSizeInBytes") or 0
            if name.startswith("."):
                groups.setdefault((partition, stat.get("fileId") or ""), []).append(stat)
        runs += [commit.record] if commit.record else []
        writes += [_write(commit, *group, stats, trusted=trusted) for group, stats in groups.items()]
    disputed = frozenset(commit.requested for commit in commits if commit.is_disputed)
    return TableHistory(timezone, tuple(writes), tuple(runs), booked, disputed)


def _write(
    commit: Commit, partition: str, file_id: str, stats: Sequence[Mapping[str, Any]], *, trusted: bool
) -> GroupWrite:
    """What the commit wrote to a file group's log; rolled-over log files share their event times (FACTS 4.1)."""
    lowest, certain, rows = None, trusted, 0
    for stat in stats:
        time, deletes = stat.get("minEventTime") if trusted else None, stat.get("numDeletes")
        if time is None or deletes:
            certain = False
        if time is not None and (lowest is None or time < lowest):
            lowest = time
        rows += (stat.get("numWrites") or 0) + (deletes or 0)
    return GroupWrite(commit.requested, commit.completed, partition, file_id, lowest, certain, rows)
