"""Which of a table's folders are partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from etc_policy.hudi.layout import parse_data_file
from etc_policy.hudi.slices import Listing, RecordedFile
from etc_policy.storage.port import Tree
from etc_policy.table.state import GroupKey, path_below

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
