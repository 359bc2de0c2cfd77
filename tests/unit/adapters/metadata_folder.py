"""Writes a metadata table's partition `files` the way stock Hudi lays it out: shares no code with the reader but fastavro."""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Iterable, Mapping

import fastavro

from tests.unit.adapters import log_file
from tests.unit.adapters.table_folder import TableFolder

FIRST = "00000000000000000"
#: What a table says whose metadata table lists its files.
LISTED = {"hoodie.table.metadata.partitions": "column_stats,files", "hoodie.table.initial.version": "8"}
GZIP = 1
_INFO = {"type": "record", "name": "HoodieMetadataFileInfo"}
_FILES = {
    "type": "map",
    "values": {**_INFO, "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}]},
}
SCHEMA = {
    "type": "record",
    "name": "HoodieMetadataRecord",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "type", "type": "int"},
        {"name": "filesystemMetadata", "type": ["null", _FILES]},
    ],
}
_PARSED = fastavro.parse_schema(SCHEMA)


def record(files: Mapping[str, int | None], kind: int = 2) -> bytes:
    """A record's Avro bytes: the bytes of each file, None for one that is deleted."""
    entries = {name: {"size": size or 0, "isDeleted": size is None} for name, size in files.items()}
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _PARSED, {"key": "", "type": kind, "filesystemMetadata": entries})
    return buffer.getvalue()


def file_records(listing: Mapping[str, Mapping[str, int | None]]) -> list[tuple[bytes, bytes]]:
    """The records of these partitions, and the one that names them."""
    named = record(dict.fromkeys((partition or "." for partition in listing), 0), kind=1)
    files = ((partition or ".", record(files)) for partition, files in listing.items())
    return [(b"__all_partitions__", named), *((key.encode(), value) for key, value in sorted(files))]


def hfile(
    records: Iterable[tuple[bytes, bytes]],
    *,
    in_block: int = 3,
    codec: int = GZIP,
    entries: int = 0,
    info_offset: int | None = None,
) -> bytes:
    """An HFile of so many records a block, with an index block between; `entries` are added to the number in its trailer.

    `info_offset` is where the trailer says that its information is, instead of where it is.
    """
    rows = [_row(*one) for one in records]
    parts = [b"".join(rows[begin : begin + in_block]) for begin in range(0, len(rows), in_block)]
    content = b"".join(_block(b"DATABLK*", part) + _block(b"IDXLEAF2", b"ignored") for part in parts)
    info = len(content) + len(index := _block(b"IDXROOT2", b"ignored"))
    pair = _field(1, b"schema") + _field(2, json.dumps(SCHEMA).encode())
    pairs = _field(1, pair) + _field(1, _field(1, b"other") + _field(2, b""))
    numbers = {
        1: info if info_offset is None else info_offset,
        2: len(content),
        7: len(rows) + entries,
        9: 0,
        12: codec,
    }
    trailer = b"".join(_varint(key << 3) + _varint(value) for key, value in numbers.items()) + _field(11, b"Comparator")
    end = b'TRABLK"$' + _varint(len(trailer)) + trailer
    information = _block(b"FILEINF2", b"PBUF" + _varint(len(pairs)) + pairs)
    return content + index + information + end.ljust(4092, b"\0") + b"\0\0\0\3"


def _row(key: bytes, value: bytes) -> bytes:
    whole = struct.pack(">H", len(key)) + key + b"\0" + b"\x7f" + b"\xff" * 7 + b"\4"
    return struct.pack(">ii", len(whole), len(value)) + whole + value + b"\0"


def _block(magic: bytes, content: bytes) -> bytes:
    stored, checksums = gzip.compress(content, mtime=0), b"\0\0\0\0"
    sizes = len(stored) + len(checksums), len(content), -1, 0, 16384, 33 + len(stored)
    return struct.pack(">8siiqbii", magic, *sizes) + stored + checksums


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


class MetadataFolder:
    """The metadata table of a table on disk; `table` has said with LISTED that it lists files."""

    def __init__(self, table: TableFolder, version: int = 9) -> None:
        self.own = TableFolder(table.meta / "metadata", version=version)
        self.files = table.meta / "metadata" / "files"
        self.files.mkdir()
        (self.files / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")

    def base(
        self, instant: str, completed: str, listing: Mapping[str, Mapping[str, int]], action: str = "commit"
    ) -> None:
        """A base file of a completed compaction, or of the first commit."""
        self.own.file(instant, f".{'compaction' if action == 'commit' else action}.requested")
        self.own.file(instant, f"_{completed}.{action}")
        (self.files / f"files-0000-0_0-1-2_{instant}.hfile").write_bytes(hfile(file_records(listing)))

    def log(self, instant: str, completed: str | None, listing: Mapping[str, Mapping[str, int | None]]) -> None:
        """The log file of a delta commit."""
        header = {log_file.INSTANT: instant, log_file.SCHEMA: json.dumps(SCHEMA)}
        self.blocks(instant, log_file.block(log_file.HFILE, hfile(file_records(listing)), header))
        self.own.file(instant, ".deltacommit.requested")
        if completed is not None:
            self.own.file(instant, f"_{completed}.deltacommit")

    def blocks(self, instant: str, *blocks: bytes) -> None:
        """A log file of these blocks."""
        (self.files / f".files-0000-0_{instant}.log.1_0-1-0").write_bytes(b"".join(blocks))
