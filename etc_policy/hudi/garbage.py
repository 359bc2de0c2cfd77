"""When Python looks for garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_LOCK = Lock()
#: One for each that is inside, in any thread: whether Python looked for garbage when it came.
_INSIDE: list[bool] = []


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Reading and planning make objects by the million and no cycles: looking for those takes up to a third of the time.

    It is one switch for all threads: the last that leaves puts it back to what the first has found.
    """
    with _LOCK:
        _INSIDE.append(_INSIDE[0] if _INSIDE else gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _LOCK:
            was_enabled = _INSIDE.pop()
            if was_enabled and not _INSIDE:
                gc.enable()
