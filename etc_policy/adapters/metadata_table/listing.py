"""The files of a table's partitions from its metadata table: a handful of small files instead of a page for each 1,000 names.

It is as right as the table's writers have kept it. So nothing that touches a table relies on it, and where anything about it
is in doubt it says so, and the folders are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO

from etc_policy.adapters.hudi.layout import METADATA_TABLE, DataFileName
from etc_policy.adapters.hudi.properties import metadata_partitions, names_in, properties_of
from etc_policy.adapters.hudi.slices import Listing
from etc_policy.adapters.hudi.timeline import Timeline, read_timeline
from etc_policy.adapters.logs.blocks import DELETE, HFILE_DATA, read_blocks
from etc_policy.adapters.metadata_table.file_records import FileRecords, UnsureListing
from etc_policy.adapters.metadata_table.file_slice import ListingFiles, choose_slice
from etc_policy.adapters.metadata_table.hfile import read_hfile
from etc_policy.adapters.storage.door import is_on_object_store
from etc_policy.adapters.storage.port import TableReader

#: Table versions whose metadata tables were compared with their folders, of tables that were made so (FACTS 14).
_VERSIONS = ("8", "9")
_FILES = "files"
_FOLDER = f"{METADATA_TABLE}/{_FILES}"
#: More than this is not fetched.
_MAX_BYTES = 64 << 20
#: The header of a block with the instant of its commit, by the ordinal of Hudi's enum.
_INSTANT = 0
#: The block that deletes nothing, with which Hudi begins the log of a metadata table.
_NO_DELETES = b"\x00\x00\x00\x03\x00\x00\x00\x01\x00"


class MetadataTableListing:
    """Lists tables on object stores by their metadata tables; `note` is told why one was not relied upon."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def may_have(self, storage: TableReader, properties: Mapping[str, str]) -> bool:
        """Whether it is worth asking, by the table's properties alone."""
        return is_on_object_store(storage.location) and lists_files(properties)

    def read(self, storage: TableReader, properties: Mapping[str, str], timeline: Timeline) -> Listing | None:
        """The files of each partition; None where that is in doubt.

        Raises:
            OSError: the storage does not answer.

        """
        try:
            return read_listing(storage, properties, timeline)
        except UnsureListing as found:
            self.reject(storage, str(found))
            return None

    def reject(self, storage: TableReader, why: str) -> None:
        """Say why the folders of a table are listed after all."""
        self._note(f"listing the folders of {storage.location}: its metadata table is not relied upon ({why})")


def lists_files(properties: Mapping[str, str]) -> bool:
    """Whether a table's properties say that its metadata table lists its files, and writers do it as was tested."""
    begun = names_in(properties.get("hoodie.table.metadata.partitions.inflight"))
    is_on = _FILES in metadata_partitions(properties) and _FILES not in begun
    versions = (properties.get("hoodie.table.version"), properties.get("hoodie.table.initial.version"))
    return is_on and all(version in _VERSIONS for version in versions)


def read_listing(storage: TableReader, properties: Mapping[str, str], timeline: Timeline) -> Listing:
    """The files of each partition by the metadata table; `timeline` is the table's, listed before.

    Raises:
        UnsureListing: they cannot be known for sure.
        OSError: the storage does not answer.

    """
    try:
        own = properties_of(storage, METADATA_TABLE) or {}
        if own.get("hoodie.table.version") != properties["hoodie.table.version"]:
            raise UnsureListing("the metadata table has another version than its table")
        sizes = {name: one.size_bytes for name, one in storage.list(_FOLDER).items()}
        chosen = choose_slice(timeline, read_timeline(storage, own, METADATA_TABLE), sizes)
        return _read_slice(storage, chosen, sizes)
    except UnsureListing:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnsureListing("a file of the metadata table is gone") from error
    except OSError:
        raise
    except Exception as error:  # whatever a decoder raises over bytes that are not what they should be
        raise UnsureListing(f"the metadata table cannot be decoded: {type(error).__name__}: {error}"[:200]) from error


def _read_slice(storage: TableReader, chosen: ListingFiles, sizes: Mapping[str, int]) -> Listing:
    files = [chosen.base, *chosen.logs]
    if sum(sizes[one.name] for one in files) > _MAX_BYTES:
        raise UnsureListing(f"more than {_MAX_BYTES} bytes are to be read")
    storage.expect({f"{_FOLDER}/{one.name}": sizes[one.name] for one in files}, keep=True)
    records = FileRecords()
    for one in files:
        content = storage.read(f"{_FOLDER}/{one.name}")
        if one.is_log:
            _add_log(records, content, one)
        else:
            records.add(read_hfile(content))
    return records.partitions()


def _add_log(records: FileRecords, content: bytes, name: DataFileName) -> None:
    for block in read_blocks(BytesIO(content), len(content)):
        if block.header.get(_INSTANT) != name.instant.encode():
            raise UnsureListing("a block of another instant than its file's")
        if block.kind == HFILE_DATA:
            records.add(read_hfile(bytes(block.content)))
        elif block.kind != DELETE or block.content != _NO_DELETES:
            raise UnsureListing(f"a block of kind {block.kind}")
