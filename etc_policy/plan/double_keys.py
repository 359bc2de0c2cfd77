"""Where two rows of one key can have arisen, judged from metadata alone (FACTS 3).

An index that looks keys up in base files treats a key as new if it is in a log file only. A compaction leads to that
which merged the delete of a key while a later log file of the same slice, which it did not merge, writes the key again: the
writer of that file still found the key in the old base file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from etc_policy.plan.table_history import GroupWrite
from etc_policy.plan.table_state import TableState

#: Indexes that find a key in log files too.
SEES_LOG_FILES = frozenset({"bucket", "record_index", "global_record_index"})


class Merged(NamedTuple):
    """A completed compaction, and the ids of the file groups that it merged."""

    requested: str
    completed: str
    file_ids: frozenset[str]


class Exposed(NamedTuple):
    """A file group in which a compaction merged deletes and left a later write behind; `write` is that write's instant."""

    partition: str
    file_id: str
    compaction: str
    write: str

    @property
    def file_group(self) -> str:
        """The file group as a path below the table."""
        return f"{self.partition}/{self.file_id}".lstrip("/")


def find_exposed(compactions: Iterable[Merged], writes: Iterable[GroupWrite]) -> tuple[Exposed, ...]:
    """The file groups in which a key may exist twice since, the oldest compaction first, each with its latest one."""
    by_group: dict[tuple[str, str], list[GroupWrite]] = {}
    for write in writes:
        by_group.setdefault((write.partition, write.file_id), []).append(write)
    ordered = sorted(compactions)
    found = {one.file_group: one for one in _exposed(ordered, by_group)}
    return tuple(sorted(found.values(), key=lambda one: (one.compaction, one.file_group)))


def _exposed(compactions: list[Merged], by_group: Mapping[tuple[str, str], list[GroupWrite]]) -> Iterator[Exposed]:
    for (partition, file_id), writes in by_group.items():
        before = ""
        for compaction in compactions:
            if file_id not in compaction.file_ids:
                continue
            merged = [one for one in writes if before <= one.completed < compaction.requested]
            left = [
                one for one in writes if one.completed >= compaction.requested and one.requested < compaction.completed
            ]
            if left and any(one.has_deletes for one in merged):
                yield Exposed(partition, file_id, compaction.requested, left[0].requested)
            before = compaction.requested


def compactions_of(state: TableState) -> tuple[Merged, ...]:
    """The completed compactions of the active timeline whose file groups are known; bulk inserts among them do no harm."""
    return tuple(
        Merged(one.requested, one.completed, one.file_ids)
        for one in state.instants
        if one.action == "commit" and one.completed is not None and one.file_ids is not None
    )
