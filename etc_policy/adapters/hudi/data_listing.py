"""Where the listing of a table's data files comes from: its folders, or what somebody else knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from etc_policy.adapters.hudi.slices import Listing
from etc_policy.adapters.hudi.timeline import Timeline
from etc_policy.adapters.storage.port import TableReader
from etc_policy.plan.table_state import FileSlice


class KnownListing(Protocol):
    """What is known of a table's files without listing its folders."""

    def may_have(self, storage: TableReader, properties: Mapping[str, str]) -> bool:
        """Whether it is worth asking, by the table's properties alone."""
        ...

    def read(self, storage: TableReader, properties: Mapping[str, str], timeline: Timeline) -> Listing | None:
        """The files of each partition, the timeline listed before; None where that is in doubt."""
        ...

    def reject(self, storage: TableReader, why: str) -> None:
        """What was read contradicts the table, so that its folders are listed after all."""
        ...


def is_as_recorded(slices: Iterable[FileSlice]) -> bool:
    """Whether each file has the size that its commit recorded, as far as one did."""
    for one in slices:
        if one.base_file_recorded_bytes not in (None, 0, one.base_file_bytes):
            return False
        if any(log.recorded_bytes and log.size_bytes < log.recorded_bytes for log in one.log_files):
            return False
    return True
