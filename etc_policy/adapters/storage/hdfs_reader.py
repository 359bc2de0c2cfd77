"""Files on HDFS, read by ranges."""

from __future__ import annotations

import io
import time
from typing import Any, BinaryIO, cast

from hdfs_native import FileReader

from etc_policy.adapters.storage.hdfs_client import HdfsClient
from etc_policy.adapters.storage.store_failures import StoreUnreachableError

_BUFFER_BYTES = 1 << 20
#: So large is one request at most: it must end within the time of a request.
MAX_RANGE_BYTES = 8 << 20
#: So long a file may be shorter for a reader than the NameNode says: its last block is not yet reported.
_SETTLE_SECONDS, _PAUSE_SECONDS = 5.0, 0.1


class _HdfsRanges(io.RawIOBase):
    """A file as it was when it was opened."""

    def __init__(self, client: HdfsClient, reader: FileReader, whole_path: str, path: str, size: int) -> None:
        self._client, self._reader, self._whole_path, self._path = client, reader, whole_path, path
        self._size, self._at = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readall(self) -> bytes:
        """The rest, in few requests: io asks for 8 KiB at a time."""
        parts = []
        while (left := self._size - self._at) > 0:
            parts.append(self.read(min(left, MAX_RANGE_BYTES)))
        return b"".join(part for part in parts if part)

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        start, wanted = self._at, min(len(buffer), self._size - self._at, MAX_RANGE_BYTES)
        if wanted <= 0:
            return 0
        try:
            content = self._client.ask(lambda _: self._reader.read_range(start, wanted), self._path)
        except StoreUnreachableError:
            self._client.ask(lambda one: one.get_file_info(self._whole_path), self._path)  # its blocks go with it
            raise
        if len(content) != wanted:
            raise OSError(f"`{self._client.location}/{self._path}` was cut off while it was read")
        buffer[:wanted] = content
        self._at += wanted
        return wanted


def open_hdfs_file(client: HdfsClient, whole_path: str, path: str, size: int) -> BinaryIO:
    """A file, seekable, of which the NameNode says that it has so many bytes; `path` is for messages.

    hdfs-native leaves out the last block of a file until a DataNode has reported it, and all of a file without one seems empty.
    """
    end = time.monotonic() + _SETTLE_SECONDS
    while True:
        reader = client.ask(lambda one: one.read(whole_path), path)
        if len(reader) >= size:
            break
        if time.monotonic() > end:
            raise OSError(
                f"`{client.location}/{path}` has {size} bytes of which {len(reader)} can be read: it is being written"
            )
        time.sleep(_PAUSE_SECONDS)
        size = client.ask(lambda one: one.get_file_info(whole_path), path).length  # another file may have its name now
    return cast(BinaryIO, io.BufferedReader(_HdfsRanges(client, reader, whole_path, path, len(reader)), _BUFFER_BYTES))
