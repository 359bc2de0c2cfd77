"""Limits for listings: a server may never stop listing, and the client would keep all of it in memory."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

#: What a listing may have: four times the files of a table of 1.3 million, with paths of a hundred characters.
_MOST_ENTRIES, _MOST_CHARACTERS = 5_000_000, 1 << 29
#: The process may grow by so much while one page or folder is waited for: what is read beside it grows more slowly.
_MOST_MEMORY = 1 << 30
#: In times of a request: one page of a listing or one folder, and the whole listing. A request may be made again.
_PAGE_REQUESTS, _WHOLE_REQUESTS = 4, 30
#: So soon Ctrl-C is noticed.
_TICK_SECONDS = 0.2
#: So long what is broken off may take to end.
_LAST_SECONDS = 0.1


class ListingBounds:
    """What one listing may take, whichever threads work at it; `place` is for messages.

    Its methods raise TimeoutError where it takes too long, and OSError (EFBIG) where it is larger than any table's.
    """

    def __init__(self, place: str, request_seconds: float) -> None:
        self._place, self._request_seconds = place, request_seconds
        self._end = time.monotonic() + _WHOLE_REQUESTS * request_seconds
        self._entries = self._characters = 0

    def count(self, paths: Iterable[str]) -> None:
        """Return if the listing may have these entries too."""
        before = self._entries
        for path in paths:
            self._entries += 1
            self._characters += len(path)
        if self._entries > _MOST_ENTRIES or self._characters > _MOST_CHARACTERS:
            raise OSError(errno.EFBIG, f"more than {before:,} files are listed, beyond those of any table", self._place)
        self._require_time(self._end)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work returns or raises; it ends where the caller is interrupted, or the bounds are met."""
        future = asyncio.run_coroutine_threadsafe(work, _loop())
        _UNDER_WAY.add(future)
        end = min(self._end, time.monotonic() + _PAGE_REQUESTS * self._request_seconds)
        most = _memory_bytes() + _MOST_MEMORY
        try:
            while not wait([future], _TICK_SECONDS).done:
                self._require_time(end)
                if _memory_bytes() > most:
                    raise OSError(errno.EFBIG, "the listing takes more memory than that of any table", self._place)
            return future.result()
        finally:
            future.cancel()
            _UNDER_WAY.discard(future)

    def _require_time(self, end: float) -> None:
        if time.monotonic() > end:
            raise TimeoutError(errno.ETIMEDOUT, "the listing does not end", self._place)


#: What the store is asked for now.
_UNDER_WAY = set[Future[Any]]()


def end_listings() -> None:
    """Break off what is under way: a process ends no sooner than its threads, and aborts where Rust answers it afterwards."""
    for future in tuple(_UNDER_WAY):
        future.cancel()
    if _UNDER_WAY:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(_LAST_SECONDS), _loop()).result()


@lru_cache(maxsize=1)
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="listings").start()
    return loop


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_loop.cache_clear)


def _memory_bytes() -> int:
    """What the process holds; 0 where the system does not say."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
