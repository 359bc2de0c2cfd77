"""Which of a table's folders are partitions, and what somebody else knows of their files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from etc_policy.adapters.hudi.layout import parse_data_file
from etc_policy.adapters.hudi.slices import Listing, RecordedFile
from etc_policy.adapters.hudi.timeline import Timeline
from etc_policy.adapters.storage.port import TableReader, Tree
from etc_policy.plan.table_state import FileSlice, GroupKey, path_below

_MARKER = ".hoodie_partition_metadata"


def partitions_of(tree: Tree) -> Mapping[str, dict[str, int]]:
    """Bytes by file name of the folders that Hudi has marked as partitions, the marks left out."""
    found = {}
    for folder, files in tree.items():
        marks = [name for name in files if name.startswith(_MARKER)]
        if marks:
            found[folder] = files
            for mark in marks:
                del files[mark]
    return found


def marks_lost(folders: Listing, recorded: Iterable[RecordedFile], replaced: Collection[GroupKey]) -> Iterator[str]:
    """Paths of the marks that unmarked folders lack in which there are files that a commit wrote as those of a partition.

    Readers by the metadata table see them; those that list the folders do not. What was replaced nobody reads.
    """
    there = (one for one in recorded if one.file_name in folders.get(one.partition, ()))
    named = ((one.partition, parse_data_file(one.file_name)) for one in there)
    found = {partition for partition, name in named if name is not None and (partition, name.file_id) not in replaced}
    return (path_below(folder, _MARKER) for folder in sorted(found))


def instants_in(listed: Listing) -> frozenset[str]:
    """The instants in the names of data files."""
    names = (parse_data_file(name) for files in listed.values() for name in files)
    return frozenset(name.instant for name in names if name is not None)


class KnownListing(Protocol):
    """What is known of a table's files without listing its folders."""

    def may_have(self, storage: TableReader, properties: Mapping[str, str]) -> bool:
        """Whether it is worth asking, by the table's properties alone."""

    def read(self, storage: TableReader, properties: Mapping[str, str], timeline: Timeline) -> Listing | None:
        """The files of each partition, the timeline listed before; None where that is in doubt."""

    def reject(self, storage: TableReader, why: str) -> None:
        """What was read contradicts the table, so that its folders are listed after all."""


def is_as_recorded(slices: Iterable[FileSlice]) -> bool:
    """Whether each file has the size that its commit recorded, as far as one did."""
    for one in slices:
        if one.base_file_recorded_bytes not in (None, 0, one.base_file_bytes):
            return False
        if any(log.recorded_bytes and log.size_bytes < log.recorded_bytes for log in one.log_files):
            return False
    return True
