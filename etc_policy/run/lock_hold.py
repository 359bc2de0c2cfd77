"""The table's lock, held from a plan to its commit: between two writes, where writers never pause (facts: exposed-keys).

No writer that takes the lock to begin can begin meanwhile. That makes progress likely and proves nothing: whatever is asked
before a commit is asked all the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Literal

from etc_policy.policy.hudi_options import is_in_process
from etc_policy.policy.manifest import Policy
from etc_policy.run.file_lock import FileLock
from etc_policy.run.lock_holder import LockPlace, lock_place, read_holder

#: How long writers that want to begin are kept out, at least and at most, so that those in flight get to their commits.
_DRAIN_SECONDS, LONGEST_DRAIN_SECONDS = 1.0, 10.0
#: Longer than a stock writer waits by default until it tries a lock again that it did not get: else none would get it.
_RETRY_SECONDS = 6.0
#: How often the lock is tried: between the end of a write and the next one there is little time.
POLL_SECONDS = 0.02
#: A write commits so long after its first files, if it has not failed (facts: files-before-commit).
_COMMITS_AFTER_SECONDS, _FAILED_AFTER_SECONDS = 0.75, 10.0
#: How often files are looked for, which reads a folder.
_LOOK_SECONDS = 0.1


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
    new_lock: Callable[[], FileLock],
    place: LockPlace,
    in_flight: Callable[[], frozenset[str]],
    seconds_since_files: Callable[[Iterable[str]], Iterable[float | None]],
    wait_seconds: float,
    drain_seconds: float = LONGEST_DRAIN_SECONDS,
) -> FileLock | None:
    """The lock, taken while no write is in flight; None where writers left no such moment within that time.

    A writer has the lock to commit, so whoever waits for it then has it before that writer's next begin. Where others are in
    flight then, it is kept until one of them makes its files, for `drain_seconds` at most, and given back for its commit.

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
                _await_commit(partial(seconds_since_files, now), drain_seconds)
        if time.monotonic() > deadline:
            return None
        before = now
        _await_holder(place)


def _await_commit(seconds_since_files: Callable[[], Iterable[float | None]], longest_seconds: float) -> None:
    """Return once a write is near its commit, or none of them is on the way to it."""
    until = time.monotonic() + longest_seconds
    time.sleep(min(_DRAIN_SECONDS, longest_seconds))
    while time.monotonic() < until:
        stages = {_stage(seconds) for seconds in seconds_since_files()}
        if "commits" in stages or "works" not in stages:
            return
        time.sleep(_LOOK_SECONDS)


def _stage(seconds_since_files: float | None) -> Literal["works", "commits", "failed"]:
    if seconds_since_files is None or seconds_since_files < _COMMITS_AFTER_SECONDS:
        return "works"
    return "commits" if seconds_since_files < _FAILED_AFTER_SECONDS else "failed"


def _await_holder(place: LockPlace) -> None:
    """Return once somebody has the lock, or nobody seems to want it."""
    until = time.monotonic() + _RETRY_SECONDS
    while read_holder(place.path) is None and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
