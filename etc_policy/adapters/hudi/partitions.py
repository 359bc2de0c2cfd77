"""Which of a table's folders are partitions."""

from __future__ import annotations

from collections.abc import Mapping

from etc_policy.adapters.storage.port import Tree

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
