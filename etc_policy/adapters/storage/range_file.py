"""A file over a network, read by ranges."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

#: So large is one request at most: it must end within the time of a request.
MAX_RANGE_BYTES = 8 << 20


class _RangeFile(io.RawIOBase):
    """A file as it was when it was opened; `get` as in `open_ranges`."""

    def __init__(self, size: int, get: Callable[[int, int], bytes]) -> None:
        self._size, self._get, self._at = size, get, 0

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
        while part := self._take(MAX_RANGE_BYTES):
            parts.append(part)
        return b"".join(parts)

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        content = self._take(min(len(buffer), MAX_RANGE_BYTES))
        buffer[: len(content)] = content
        return len(content)

    def _take(self, most: int) -> bytes:
        """The next bytes, none at the end."""
        wanted = min(most, self._size - self._at)
        if wanted <= 0:
            return b""
        content = self._get(self._at, self._at + wanted)
        self._at += len(content)
        return content


def open_ranges(size: int, get: Callable[[int, int], bytes], buffer_bytes: int) -> BinaryIO:
    """A file of so many bytes, seekable, of which `get` gives those from a start to an end, or the first of them."""
    return cast(BinaryIO, io.BufferedReader(_RangeFile(size, get), buffer_bytes))
