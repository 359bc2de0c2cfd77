"""CommitLogReader over the active and the archived timeline: what was written when, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from etc_policy.adapters.attempts import attempt
from etc_policy.adapters.hudi_archive import Archive, ArchivedWrite
from etc_policy.adapters.hudi_facts import commit_facts, hides_deletes_of
from etc_policy.adapters.hudi_layout import local_path, timeline_folder
from etc_policy.adapters.hudi_properties import read_properties
from etc_policy.adapters.hudi_table import column_type_of, tracked
from etc_policy.adapters.hudi_timeline import (
    Timeline,
    file_name,
    read_timeline,
    replaced_groups,
    require_times,
    table_zone,
    write_stats,
)
from etc_policy.compile.manifest import EventTime
from etc_policy.plan.commit_log import Commit, CommitLog, GroupChange, WriteAction

#: Archived writes that are read at most: the newest.
MAX_ARCHIVED = 5_000

_ACTIONS: tuple[WriteAction, ...] = get_args(WriteAction)
_OURS = "etc."


@dataclass(frozen=True, slots=True)
class _Write:
    """A completed write as it stands on either timeline."""

    requested: str
    completed: str
    action: WriteAction
    metadata: Mapping[str, Any]
    plan: Mapping[str, Any]
    archived: bool


class FileCommitLogReader:
    """Reads the history of tables on a file system."""

    def __init__(self, max_archived: int = MAX_ARCHIVED) -> None:
        self._max_archived = max_archived

    def read_commit_log(self, base_path: str, event_time: EventTime, *, compactions_only: bool = False) -> CommitLog:
        """The table's history now.

        Raises:
            TableError: no table there, or one that cannot be handled.
            RetryableError: the timeline kept changing while it was read.

        """
        base = local_path(base_path)
        properties = read_properties(base)
        return attempt(base, lambda: self._read(base, properties, event_time, compactions_only))

    def _read(
        self, base: Path, properties: Mapping[str, str], event_time: EventTime, compactions_only: bool
    ) -> CommitLog:
        folder, layout = timeline_folder(base, dict(properties))
        timeline = require_times(read_timeline(folder, layout))
        actions = ("commit",) if compactions_only else _ACTIONS
        active = list(_active(timeline, actions))
        known = {write.requested for write in active}
        rows, cut_short = Archive(base, properties).writes(actions, self._max_archived) if layout > 1 else ((), False)
        writes = [*active, *(_archived(row) for row in rows if row.requested not in known)]
        writes.sort(key=lambda write: (write.completed, write.requested))
        metadata = {write.requested: write.metadata for write in writes}
        kind = column_type_of(event_time.column, metadata, base)
        facts = commit_facts(
            metadata,
            trusted=layout > 1 and tracked(event_time, kind),
            hides_deletes=hides_deletes_of(properties),
        )
        older_archive = layout == 1 and any((folder / "archived").glob(".commits_*"))
        return CommitLog(
            base_path=str(base),
            table_version=int(properties["hoodie.table.version"]),
            timezone=table_zone(properties),
            commits=tuple(_commit(write, facts) for write in writes),
            complete=not (compactions_only or cut_short or older_archive),
        )


def _active(timeline: Timeline, actions: tuple[str, ...]) -> Iterator[_Write]:
    for requested in timeline.files:
        end = timeline.latest(requested)
        if end.state == "completed" and end.action in actions:
            plan = timeline.plan_of(requested) or {}
            completed = timeline.completions[requested]
            yield _Write(requested, completed, _action(end.action), timeline.metadata(end), plan, archived=False)


def _archived(row: ArchivedWrite) -> _Write:
    return _Write(
        row.requested, row.completed or row.requested, _action(row.action), row.metadata, row.plan, archived=True
    )


def _action(name: str) -> WriteAction:
    return next(action for action in _ACTIONS if action == name)


def _commit(write: _Write, facts: Mapping[tuple[str, str, str], tuple[int | None, bool]]) -> Commit:
    stats: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for partition, stat in write_stats(write.metadata):
        stats.setdefault((partition, stat.get("fileId") or ""), []).append(stat)
    groups = (_group(key, found, facts.get((write.requested, *key), (None, False))[0]) for key, found in stats.items())
    extra = {**(write.plan.get("extraMetadata") or {}), **(write.metadata.get("extraMetadata") or {})}
    return Commit(
        requested=write.requested,
        completed=write.completed,
        action=write.action,
        operation=write.metadata.get("operationType"),
        groups=tuple(groups),
        replaced=frozenset(replaced_groups(write.metadata)),
        extra={key: str(value) for key, value in extra.items() if key.startswith(_OURS)},
        archived=write.archived,
    )


def _group(key: tuple[str, str], stats: list[Mapping[str, Any]], min_event_time_ms: int | None) -> GroupChange:
    logs = sum(".log." in file_name(stat) for stat in stats)
    previous = next((str(stat["prevCommit"]) for stat in stats if stat.get("prevCommit")), None)
    return GroupChange(
        partition=key[0],
        file_id=key[1],
        log_files=logs,
        bytes_written=sum(stat.get("fileSizeInBytes") or 0 for stat in stats),
        min_event_time_ms=min_event_time_ms if logs else None,
        previous=previous if previous not in (None, "null", "") else None,
        merged_log_files=sum(stat.get("totalLogFilesCompacted") or 0 for stat in stats),
        merged_log_bytes=sum(stat.get("totalLogSizeCompacted") or 0 for stat in stats),
    )
