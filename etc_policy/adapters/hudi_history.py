"""A table's past from commit metadata: what was written when, which compactions of ours ran, how large files were booked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etc_policy.adapters.hudi_timeline import write_stats
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
        for partition, stat in write_stats(commit.metadata):
            name = _name(stat)
            if name:
                booked[partition, name] = stat.get("fileSizeInBytes") or 0
        runs += [commit.record] if commit.record else []
        writes += _writes(commit, trusted=trusted)
    disputed = frozenset(commit.requested for commit in commits if commit.is_disputed)
    return TableHistory(timezone, tuple(writes), tuple(runs), booked, disputed)


def _writes(commit: Commit, *, trusted: bool) -> Iterator[GroupWrite]:
    """One for each file group whose log the commit wrote; rolled-over log files share their event times (FACTS 4.1)."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for partition, stat in write_stats(commit.metadata):
        if _name(stat).startswith("."):
            groups.setdefault((partition, stat.get("fileId") or ""), []).append(stat)
    for (partition, file_id), stats in groups.items():
        times = [stat.get("minEventTime") if trusted else None for stat in stats]
        deletes = any(stat.get("numDeletes") for stat in stats)
        known = [time for time in times if time is not None]
        yield GroupWrite(
            requested=commit.requested,
            completed=commit.completed,
            partition=partition,
            file_id=file_id,
            min_event_time_ms=min(known, default=None),
            certain=len(known) == len(times) and not deletes,
            rows=sum((stat.get("numWrites") or 0) + (stat.get("numDeletes") or 0) for stat in stats),
        )


def _name(stat: Mapping[str, Any]) -> str:
    return str(stat.get("path") or "").rsplit("/", 1)[-1]
