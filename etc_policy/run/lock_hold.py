"""The table's lock, held from a plan to its commit: between two writes, where writers never pause (facts: exposed-keys).

No writer that takes the lock to begin can begin meanwhile. That makes progress likely and proves nothing: whatever is asked
before a commit is asked all the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from etc_policy.policy.hudi_options import is_in_process
from etc_policy.policy.manifest import Policy
from etc_policy.run.file_lock import FileLock
from etc_policy.run.lock_holder import LockPlace, lock_place, read_holder

#: How long writers that want to begin are kept out, so that those in flight get to their commits.
_DRAIN_SECONDS = 2.0
#: Longer than a stock writer waits by default until it tries a lock again that it did not get: else none would get it.
_RETRY_SECONDS = 6.0
#: How often the lock is tried: between the end of a write and the next one there is little time.
POLL_SECONDS = 0.02


class LockHold:
    """A lock that was taken, held for so many seconds; then writers go on, and who needs the lock takes it anew."""

    def __init__(self, lock: FileLock, seconds: float) -> None:
        self._lock, self._ended = lock, False
        self._in_use = threading.RLock()
        self._timer = threading.Timer(seconds, self.end)
        self._timer.daemon = True
        self._timer.start()

    @contextmanager
    def borrowed(self) -> Iterator[FileLock | None]:
        """The lock, which is not given back as long as this lasts; None once it was given back, or somebody else took it."""
        with self._in_use:
            if self._lock.lost:
                self.end()
            yield None if self._ended else self._lock

    def end(self) -> None:
        """Give the lock back, once nobody uses it."""
        self._timer.cancel()
        with self._in_use:
            if not self._ended:
                self._ended = True
                self._lock.__exit__()


def hold_place(policy: Policy, base_path: str) -> LockPlace | None:
    """Where the lock lies that may be held for a whole compaction: a declared lock file; None for any other."""
    writer = policy.writer
    if not writer.lock or not writer.hold_ms or is_in_process(writer.lock):
        return None
    return lock_place(writer.lock, base_path)


def take_between_writes(
    new_lock: Callable[[], FileLock], place: LockPlace, in_flight: Callable[[], frozenset[str]], wait_seconds: float
) -> FileLock | None:
    """The lock, taken while no write is in flight; None where writers left no such moment within that time.

    A writer has the lock to commit, so whoever waits for it then has it before that writer's next begin. Where others are in
    flight then, it is kept until they may have got to their commits, and given back for one of them.

    Raises:
        RetryableError: somebody held the lock for longer than the policy waits.

    """
    deadline, before = time.monotonic() + wait_seconds, frozenset[str]()
    while True:
        with ExitStack() as held:
            lock = held.enter_context(new_lock())
            now = in_flight()
            if not now:
                held.pop_all()
                return lock
            if now <= before:  # nobody has begun since
                time.sleep(_DRAIN_SECONDS)
        if time.monotonic() > deadline:
            return None
        before = now
        _await_holder(place)


def _await_holder(place: LockPlace) -> None:
    """Return once somebody has the lock, or nobody seems to want it."""
    until = time.monotonic() + _RETRY_SECONDS
    while read_holder(place.path) is None and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
