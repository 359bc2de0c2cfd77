"""What a table's own timeline says of its past: every write that completed, as far back as its archive goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from etc_policy.plan.commit_metadata import THRESHOLD, WITHDRAWN

WriteAction = Literal["deltacommit", "commit", "replacecommit"]


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What one commit wrote to one file group.

    `log_files` counts those that it wrote, 0 for a new base file. `min_event_time_ms` is None where the commit does not say
    it, and `seen_event_time_ms` then the smallest that it says is there. `previous` is the instant of the slice that was
    there before, None for a new file group. `merged_log_files` and `merged_log_bytes` are those that a compaction read.
    """

    partition: str
    file_id: str
    log_files: int
    bytes_written: int
    min_event_time_ms: int | None = None
    previous: str | None = None
    merged_log_files: int = 0
    merged_log_bytes: int = 0
    seen_event_time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed write; `extra` are etc's own pairs in its metadata and in its plan (`etc.*`).

    `replaced` are the (partition, file id) that a replace commit took away. `bytes_written_estimate` is what a compaction's
    plan expected of its base files; None where there is no plan, or it does not say.
    """

    requested: str
    completed: str
    action: WriteAction
    operation: str | None
    groups: tuple[GroupChange, ...]
    replaced: frozenset[tuple[str, str]] = frozenset()
    extra: Mapping[str, str] = field(default_factory=dict)
    archived: bool = False
    bytes_written_estimate: int | None = None

    @property
    def is_compaction(self) -> bool:
        """Whether it merged log files into base files.

        A `commit` may also be a bulk insert (FACTS 13), or end a plan that etc has withdrawn.
        """
        compacts = self.operation == "COMPACT" or THRESHOLD in self.extra
        return self.action == "commit" and compacts and WITHDRAWN not in self.extra

    @property
    def bytes_written(self) -> int:
        """Bytes of all files that it wrote."""
        return sum(group.bytes_written for group in self.groups)


@dataclass(frozen=True, slots=True)
class CommitLog:
    """The writes of a table in order of completion; `complete` says that none is missing before the first."""

    base_path: str
    table_version: int
    timezone: str
    commits: tuple[Commit, ...]
    complete: bool
