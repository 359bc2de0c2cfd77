"""Files over a network: read by ranges, or fetched side by side before they are asked for."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO, cast

#: So large is one request at most: it must end within the time of a request.
MAX_RANGE_BYTES = 8 << 20
#: What is under way or waits to be read: so many files, and about so many bytes.
_THREADS, _AHEAD, _AHEAD_BYTES = 32, 64, 64 << 20


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

    def readinto(self, buffer: Any) -> int:
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


class ReadAhead:
    """Fetches files in the order in which they will be read, no further ahead than fits into memory.

    `fetch` gives None for a file that is better read by whoever asks for it.
    """

    def __init__(self, fetch: Callable[[str], bytes | None]) -> None:
        self._fetch = fetch
        self._left: deque[tuple[str, int]] = deque()
        self._begun: dict[str, tuple[Future[bytes | None], int]] = {}
        self._bytes = 0
        self._pool: ThreadPoolExecutor | None = None

    def expect(self, sizes: Mapping[str, int]) -> None:
        """Begin with these files; what was expected before is forgotten."""
        self._left, self._begun, self._bytes = deque(sizes.items()), {}, 0
        self._begin_more()

    def take(self, path: str) -> bytes | None:
        """A file's content, once; None where it was not fetched. Raises what fetching it has raised."""
        found = self._begun.pop(path, None)
        if found is None:
            return None
        future, size = found
        try:
            return future.result()
        finally:
            self._bytes -= size
            self._begin_more()

    def _begin_more(self) -> None:
        while self._left and len(self._begun) < _AHEAD and (self._bytes < _AHEAD_BYTES or not self._begun):
            path, size = self._left.popleft()
            self._pool = self._pool or ThreadPoolExecutor(_THREADS, thread_name_prefix="reading ahead")
            self._begun[path] = self._pool.submit(self._fetch, path), size
            self._bytes += size
        if not self._left and self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None
