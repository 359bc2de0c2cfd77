"""Where two rows of one key can have arisen, judged from metadata alone (facts: delete-rule).

An index that looks keys up in base files treats a key as new if it is in a log file only. A compaction leads to that
which merged the delete of a key while a later log file of the same slice, which it did not merge, writes the key again: the
writer of that file still found the key in the old base file. The next compaction of that file puts the key back into the base
file: where nobody wrote in between, no harm is done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from etc_policy.table.history import GroupWrite
from etc_policy.table.state import FileSlice, GroupKey, Instant, path_below

#: Indexes that find a key in log files too.
SEES_LOG_FILES = frozenset({"bucket", "record_index", "global_record_index"})


def sees_log_files(index: str | None, metadata_partitions: Collection[str]) -> bool:
    """Whether writers with this index find a key in log files too, in a table whose metadata table has these partitions.

    Where there is no record index they take one over base files instead (facts: record-index-falls-back).
    """
    return index in SEES_LOG_FILES and (index == "bucket" or "record_index" in metadata_partitions)


class Merged(NamedTuple):
    """A completed compaction, and the ids of the file groups that it merged."""

    requested: str
    completed: str
    file_ids: frozenset[str]


class Written(NamedTuple):
    """A write that may look keys up: when it began, and when it completed, None while it is in flight."""

    requested: str
    completed: str | None


class Exposed(NamedTuple):
    """A file group in which a compaction merged deletes and left a later write behind; `write` is that write's instant."""

    partition: str
    file_id: str
    compaction: str
    write: str

    @property
    def file_group(self) -> str:
        """The file group as a path below the table."""
        return path_below(self.partition, self.file_id)


def find_exposed(
    compactions: Iterable[Merged], writes: Iterable[GroupWrite], beside: Iterable[Written] = ()
) -> tuple[Exposed, ...]:
    """The file groups in which a key may exist twice since, the oldest compaction first, each with its latest one.

    `beside` are all writes of the table: without one of them in between, the group's next compaction has mended it.
    """
    by_group: dict[GroupKey, list[GroupWrite]] = {}
    for write in writes:
        by_group.setdefault((write.partition, write.file_id), []).append(write)
    found = {one.file_group: one for one in _exposed(sorted(compactions), by_group, frozenset(beside))}
    return tuple(sorted(found.values(), key=lambda one: (one.compaction, one.file_group)))


def _exposed(
    compactions: list[Merged], by_group: Mapping[GroupKey, list[GroupWrite]], beside: frozenset[Written]
) -> Iterator[Exposed]:
    for (partition, file_id), writes in by_group.items():
        before, of_group = "", [one for one in compactions if file_id in one.file_ids]
        for compaction, following in zip_longest(of_group, of_group[1:]):
            merged = [one for one in writes if before <= one.completed < compaction.requested]
            left = [
                one for one in writes if one.completed >= compaction.requested and one.requested < compaction.completed
            ]
            is_exposed = left and any(one.has_deletes for one in merged)
            if is_exposed and not _is_mended(compaction, left, following, beside):
                yield Exposed(partition, file_id, compaction.requested, left[0].requested)
            before = compaction.requested


def _is_mended(
    compaction: Merged, left: list[GroupWrite], following: Merged | None, beside: frozenset[Written]
) -> bool:
    """Whether the keys of `left` are in the base file again, and nobody can have looked for them while they were not."""
    if following is None or any(one.completed >= following.requested for one in left):
        return False
    known, end = {one.requested for one in left}, following.completed
    return all(
        one.requested in known or one.requested > end or (one.completed or end) <= compaction.completed
        for one in beside
    )


def exposed_in(instants: Iterable[Instant], writes: Iterable[GroupWrite]) -> tuple[Exposed, ...]:
    """Those of a timeline, by its own compactions and writes."""
    known = tuple(instants)
    return find_exposed(merged_by(known), writes, written_by(known))


def still_exposed(
    left: Mapping[GroupKey, str], since: Mapping[GroupKey, str], writes: Iterable[GroupWrite]
) -> frozenset[GroupKey]:
    """Of the file groups with a write that the compaction of their base file left behind those in which it merged deletes: to be
    compacted at once. `since` is when their slices before it began.
    """
    deletes = (((one.partition, one.file_id), one.completed) for one in writes if one.has_deletes)
    return frozenset(key for key, completed in deletes if key in left and since[key] <= completed < left[key])


def left_behind(slices: Iterable[FileSlice], compactions: Iterable[Merged]) -> dict[GroupKey, str]:
    """The file groups with a log file whose write began before the compaction of their base file ended, and its instant."""
    ends = {one.requested: one.completed for one in compactions}
    return {
        one.group: one.base_instant
        for one in slices
        if one.base_instant in ends and any(f.requested < ends[one.base_instant] for f in one.log_files)
    }


def written_by(instants: Iterable[Instant]) -> Iterator[Written]:
    """The writes among the instants."""
    return (Written(one.requested, one.completed) for one in instants if one.action == "deltacommit")


def merged_by(instants: Iterable[Instant]) -> tuple[Merged, ...]:
    """The completed compactions among them whose file groups are known; bulk inserts among them do no harm."""
    return tuple(
        Merged(one.requested, one.completed, one.file_ids)
        for one in instants
        if one.action == "commit" and one.completed is not None and one.file_ids is not None
    )
