"""The log of commits from the active and the archived timeline: what was written when, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from etc_policy.adapters.hudi.archive import Archive
from etc_policy.adapters.hudi.commits import WriteStat
from etc_policy.adapters.hudi.event_column import column_type_of, trust_of
from etc_policy.adapters.hudi.history import CompletedWrite, completed_write
from etc_policy.adapters.hudi.log_facts import Trust, group_writes
from etc_policy.adapters.hudi.properties import read_properties
from etc_policy.adapters.hudi.stable_reading import read_until_stable
from etc_policy.adapters.hudi.timeline import Timeline, plan_file_of, read_timeline, require_times
from etc_policy.adapters.hudi.zones import table_zone
from etc_policy.adapters.storage.door import open_storage
from etc_policy.adapters.storage.port import TableStorage
from etc_policy.compile.manifest import EventTime
from etc_policy.plan.commit_log import Commit, CommitLog, GroupChange, WriteAction
from etc_policy.plan.table_history import GroupWrite

#: Archived writes that are read at most: the newest.
MAX_ARCHIVED = 5_000

_ACTIONS: tuple[WriteAction, ...] = get_args(WriteAction)
_OWN = "etc."


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
        storage = open_storage(base_path)
        properties = read_properties(storage)
        return read_until_stable(
            storage.location, lambda: self._read(storage, properties, event_time, compactions_only)
        )

    def _read(
        self, storage: TableStorage, properties: Mapping[str, str], event_time: EventTime, compactions_only: bool
    ) -> CommitLog:
        timeline = require_times(read_timeline(storage, properties))
        actions = ("commit",) if compactions_only else _ACTIONS
        writes, cut_short = list(_active(timeline, actions)), False
        if timeline.layout > 1:
            archived, cut_short = Archive(storage, properties).newest_writes(actions, self._max_archived)
            writes += (write for write in archived if write.requested not in timeline.files)
        metadata = {write.requested: write.metadata for write in writes}
        kind = column_type_of(event_time.column, metadata, storage.location)
        trust = trust_of(timeline.layout, properties, event_time, kind)
        return log_of(timeline, properties, writes, trust, is_complete=not (compactions_only or cut_short))


def log_of(
    timeline: Timeline,
    properties: Mapping[str, str],
    writes: Iterable[CompletedWrite],
    trust: Trust,
    *,
    is_complete: bool = True,
) -> CommitLog:
    """The log of these writes; `is_complete` says that they are all, as far as the archive can be read."""
    ordered = sorted(writes, key=lambda write: (write.completed, write.requested))
    return CommitLog(
        base_path=timeline.storage.location,
        table_version=int(properties["hoodie.table.version"]),
        timezone=table_zone(properties),
        commits=tuple(_commit(write, trust) for write in ordered),
        complete=is_complete and not (timeline.layout == 1 and _has_older_archive(timeline)),
    )


def _has_older_archive(timeline: Timeline) -> bool:
    """Whether a table of layout 1 has archived commits, which are not read."""
    try:
        names = timeline.storage.names(f"{timeline.folder}/archived")
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(name.startswith(".commits_") for name in names)


def _active(timeline: Timeline, actions: tuple[str, ...]) -> Iterator[CompletedWrite]:
    ends = [end for end in map(timeline.latest, timeline.files) if end.state == "completed" and end.action in actions]
    plans = (plan_file_of(timeline.files[end.requested]) for end in ends)
    timeline.expect(file for both in zip(plans, ends, strict=True) for file in both if file is not None)
    for end in ends:
        yield completed_write(timeline, end.requested)


def _action(name: str) -> WriteAction:
    return next(action for action in _ACTIONS if action == name)


def _commit(write: CompletedWrite, trust: Trust) -> Commit:
    stats: dict[tuple[str, str], list[WriteStat]] = {}
    for stat in write.metadata.stats:
        stats.setdefault((stat.partition, stat.file_id), []).append(stat)
    logged = group_writes(write.requested, write.completed, write.metadata, trust)
    groups = (_group(key, found, logged.get(key)) for key, found in stats.items())
    return Commit(
        requested=write.requested,
        completed=write.completed,
        action=_action(write.action),
        operation=write.metadata.operation,
        groups=tuple(groups),
        replaced=write.metadata.replaced,
        extra={key: value for key, value in write.extra.items() if key.startswith(_OWN)},
        archived=write.archived,
        bytes_written_estimate=write.expected_bytes,
    )


def _group(key: tuple[str, str], stats: list[WriteStat], logged: GroupWrite | None) -> GroupChange:
    logs = sum(".log." in stat.file_name for stat in stats)
    previous = next((stat.previous for stat in stats if stat.previous), None)
    return GroupChange(
        partition=key[0],
        file_id=key[1],
        log_files=logs,
        bytes_written=sum(stat.size_bytes for stat in stats),
        min_event_time_ms=logged.certain_min_ms if logged else None,
        previous=previous if previous != "null" else None,
        merged_log_files=sum(stat.merged_log_files for stat in stats),
        merged_log_bytes=sum(stat.merged_log_bytes for stat in stats),
        seen_event_time_ms=logged.seen_ms if logged else None,
    )
