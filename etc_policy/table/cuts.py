"""Published cuts: which base files RO as of each of them reads, and which of these are still there (pure).

A cut is RO as of the completion of its compaction. As of C it would lack what writers had put straight into base files between C,
which lies in the past, and the plan. Hudi goes by when a write began: what was in flight at the completion is part of the cut
once it has ended (facts: time-travel-by-request).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from etc_policy.table.history import GRANULARITY, Commit, TableHistory
from etc_policy.table.state import CompactionRecord, GroupKey

#: The bytes of each base file that a table has, by its partition, file id and instant.
BaseFiles = Mapping[tuple[str, str, str], int]


class PublishedCut(NamedTuple):
    """What RO reads as of the completion of a compaction that split by record: so many base files, of which `gone` are missing.

    `in_flight` of them are of writes that completed later. `kept_bytes` are those of files that only readers of the past need.
    """

    record: CompactionRecord
    base_files: int
    gone: int
    in_flight: int
    kept_bytes: int


def published_cuts(history: TableHistory, files: BaseFiles) -> tuple[PublishedCut, ...]:
    """The cuts that the history has, the newest first; what was written before its first commit is known by its files alone."""
    files = _of_completed(history, files)
    versions = _versions(history, files)
    latest = {(*group, instants[-1]) for group, instants in versions.items()}
    completed = {one.requested: one.completed for one in history.commits}
    return tuple(
        _cut(one.record, set(_read_as_of(one, versions, history)), files, latest, completed)
        for one in reversed(history.commits)
        if one.record is not None and one.extra.get(GRANULARITY) == "record"
    )


def _cut(
    record: CompactionRecord,
    needed: set[tuple[str, str, str]],
    files: BaseFiles,
    latest: set[tuple[str, str, str]],
    completed: Mapping[str, str],
) -> PublishedCut:
    there = needed & files.keys()
    in_flight = sum(completed.get(instant, "") > record.completed for _, _, instant in needed)
    kept_bytes = sum(files[one] for one in there - latest)
    return PublishedCut(record, len(needed), len(needed) - len(there), in_flight, kept_bytes)


def _of_completed(history: TableHistory, files: BaseFiles) -> BaseFiles:
    """The base files without those of writes that have not completed, which nobody reads."""
    completed = {one.requested for one in history.commits}
    first = min(completed, default="")
    return {key: size for key, size in files.items() if key[2] < first or key[2] in completed}


def _versions(history: TableHistory, files: BaseFiles) -> dict[GroupKey, list[str]]:
    """The instants of each file group's base files, in order: those that commits wrote, and those that are there."""
    found: dict[GroupKey, set[str]] = {}
    for commit in history.commits:
        for one in commit.groups:
            if commit.is_compaction or not one.log_files:  # beside its base file there may be rows that were split off
                found.setdefault((one.partition, one.file_id), set()).add(commit.requested)
    for partition, file_id, instant in files:
        found.setdefault((partition, file_id), set()).add(instant)
    return {group: sorted(instants) for group, instants in found.items()}


def _read_as_of(
    commit: Commit, versions: Mapping[GroupKey, list[str]], history: TableHistory
) -> Iterator[tuple[str, str, str]]:
    """The latest base files that were requested before the commit completed, without those of groups replaced as early."""
    replaced = {group for one in history.commits if one.requested <= commit.completed for group in one.replaced}
    for group, instants in versions.items():
        place = bisect_right(instants, commit.completed)
        if place and group not in replaced:
            yield (*group, instants[place - 1])
