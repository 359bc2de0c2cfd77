"""The state of a real table by its metadata table beside that by its folders."""

from __future__ import annotations

from etc_policy.adapters.hudi.table import FileTableReader
from etc_policy.adapters.metadata_table.listing import MetadataTableListing, lists_files


class Anywhere(MetadataTableListing):
    """Asked of tables on local disk too."""

    def may_have(self, storage, properties) -> bool:
        return lists_files(properties)


def state_by_metadata_table(location: str, event_time):
    """The state as `etc plan` reads it of a bucket, and why the metadata table was not relied upon."""
    doubts: list[str] = []
    return FileTableReader(known=Anywhere(doubts.append)).read(location, event_time), doubts


def require_same_listing(bench, *, sure: bool = True) -> None:
    """Both are the same, and where `sure` nothing is in doubt."""
    location, event_time = bench.location, bench.policy.event_time
    known, doubts = state_by_metadata_table(location, event_time)
    assert known == FileTableReader().read(location, event_time), "the listing by the metadata table"
    assert not sure or not doubts, doubts
