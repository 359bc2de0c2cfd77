"""The files of each partition, as the records of a metadata table say it one after another."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from etc_policy.adapters.hudi.avro_file import MAX_SCHEMA_BYTES, schema_of
from etc_policy.adapters.hudi.values import is_long, text_of
from etc_policy.adapters.metadata_table.hfile import MAX_INFLATED_BYTES, HFile
from etc_policy.adapters.storage.below import parts_of
from etc_policy.adapters.storage.port import OWN_FOLDER

#: The key of the record that names the partitions, and that of a table without any.
_ALL_PARTITIONS, _NO_PARTITION = "__all_partitions__", "."
#: All records of a file slice are at most so large: the names of a million files.
MAX_DECODED_BYTES = MAX_INFLATED_BYTES
#: What records are of: the names of partitions, the files of one.
_PARTITIONS, _FILES = 1, 2


class UnsureListing(Exception):  # noqa: N818 - an answer, not a failure
    """The metadata table cannot be relied upon here; the reason is in the message."""


class FileRecords:
    """Records laid over each other as Hudi does: what is deleted goes, and of two sizes of one file the larger counts."""

    def __init__(self) -> None:
        self._by_key: dict[str, dict[str, int]] = {}
        self._left = MAX_DECODED_BYTES

    def add(self, file: HFile) -> None:
        """Lay the records of a file over what is known.

        Raises:
            UnsureListing: a record is of another kind, or all together are too large.
            Exception: fastavro raises almost anything over damaged bytes.

        """
        text = file.info.get(b"schema", b"")
        if len(text) > MAX_SCHEMA_BYTES:
            raise UnsureListing("a schema that is too large")
        self._left -= sum(len(value) for _, value in file.records)
        if self._left < 0:
            raise UnsureListing(f"more than {MAX_DECODED_BYTES} bytes are to be decoded")
        if not file.records:
            return
        import fastavro

        schema = schema_of(text)
        for key, value in file.records:
            self._add(key.decode(), fastavro.schemaless_reader(BytesIO(value), schema, None))

    def _add(self, key: str, record: Any) -> None:  # noqa: ANN401 - any Avro value
        if record["type"] != (_PARTITIONS if key == _ALL_PARTITIONS else _FILES):
            raise UnsureListing(f"a record of type {record['type']} at the key `{key[:60]}`")
        known = self._by_key.setdefault(key, {})
        for name, one in record["filesystemMetadata"].items():
            size, is_deleted = one["size"], one["isDeleted"]
            if not is_long(size) or size < 0 or not isinstance(is_deleted, bool):
                raise UnsureListing(f"a file `{name[:60]}` without a size")
            if is_deleted:
                known.pop(name, None)
            else:
                known[text_of(name)] = max(size, known.get(name, 0))

    def partitions(self) -> dict[str, dict[str, int]]:
        """Bytes by file name of each partition, by its path; that of a table without partitions is empty.

        Raises:
            UnsureListing: files are known of a partition that is not, or one is no folder that a listing finds.

        """
        named = self._by_key.get(_ALL_PARTITIONS)
        if named is None:
            raise UnsureListing("no record names the partitions")
        for key, files in self._by_key.items():
            if files and key != _ALL_PARTITIONS and key not in named:
                raise UnsureListing(f"files of `{key[:60]}`, which is not one of the partitions")
        for name in named:
            if name != _NO_PARTITION and not _is_folder(name):
                raise UnsureListing(f"a partition `{name[:60]}`, that is not a folder of the table")
        return {"" if name == _NO_PARTITION else name: dict(self._by_key.get(name, {})) for name in named}


def _is_folder(partition: str) -> bool:
    """Whether a listing of the table's folders would find it."""
    try:
        return OWN_FOLDER not in parts_of(partition)
    except ValueError:
        return False
