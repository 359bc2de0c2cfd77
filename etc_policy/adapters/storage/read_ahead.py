"""Files that are read one after another, fetched side by side before they are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

#: What is under way or waits to be read: so many files, and about so many bytes.
_THREADS, _AHEAD, _AHEAD_BYTES = 32, 64, 64 << 20


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
