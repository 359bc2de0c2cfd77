"""Files on HDFS, read by ranges."""

from __future__ import annotations

import time
from typing import BinaryIO

from etc_policy.adapters.storage.hdfs_client import HdfsClient
from etc_policy.adapters.storage.range_file import open_ranges
from etc_policy.adapters.storage.store_failures import StoreUnreachableError

_BUFFER_BYTES = 1 << 20
#: So long a file may be shorter for a reader than the NameNode says: its last block is not yet reported.
_SETTLE_SECONDS, _PAUSE_SECONDS = 5.0, 0.1


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

    def get(start: int, stop: int) -> bytes:
        try:
            content = client.ask(lambda _: reader.read_range(start, stop - start), path)
        except StoreUnreachableError:
            client.ask(lambda one: one.get_file_info(whole_path), path)  # its blocks go with it
            raise
        if len(content) != stop - start:
            raise OSError(f"`{client.location}/{path}` was cut off while it was read")
        return content

    return open_ranges(len(reader), get, _BUFFER_BYTES)
