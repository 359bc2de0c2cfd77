"""One process sends at a time what several know of: a lock on disks, a document on storages that machines share."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from etc_policy.errors import RetryableError
from etc_policy.errors.codes import Code
from etc_policy.storage.clocks import note_time, time_at
from etc_policy.storage.open_storage import is_remote, local_path, open_remote_storage
from etc_policy.storage.port import RemoteStorage
from etc_policy.storage.safe_files import folder_of, open_regular

#: How long another run's lock is waited for.
_WAIT_SECONDS, _POLL_SECONDS = 10.0, 0.1
#: How long the lock is held on a storage that machines share, if it is not renewed: longer than any action may take.
_HOLD_SECONDS = 660.0


@dataclass(frozen=True, slots=True)
class SendLock:
    """The lock that a file is, at a location: a folder or a URI."""

    base_path: str
    path: str

    @contextmanager
    def held(self) -> Iterator[Callable[[], None]]:
        """While in it no other process sends; what it gives is to be called before each message.

        Raises:
            RetryableError: another process takes longer than is waited for.

        """
        deadline = time.monotonic() + _WAIT_SECONDS
        remote = open_remote_storage(self.base_path) if is_remote(self.base_path) else None
        with self._remote_lock(remote, deadline) if remote else self._local_lock(deadline) as renew:
            yield renew

    @contextmanager
    def _local_lock(self, deadline: float) -> Iterator[Callable[[], None]]:
        """The kernel gives the lock back when its process dies, however it dies."""
        with folder_of(local_path(self.base_path), self.path, make=True) as (folder, name):
            handle = open_regular(folder, name, os.O_CREAT | os.O_RDWR)
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    self._wait(deadline)
            yield lambda: None
        finally:
            os.close(handle)

    @contextmanager
    def _remote_lock(self, storage: RemoteStorage, deadline: float) -> Iterator[Callable[[], None]]:
        """A document that is renewed; its age is measured by the storage's own clock."""
        tag = self._taken(storage)
        while tag is None:
            self._wait(deadline)
            tag = self._taken(storage)
        held = [tag]

        def renew() -> None:
            new = storage.replace_version(self.path, _document(is_free=False), held[0])
            if new is None:
                raise self._busy()
            held[0] = new

        try:
            yield renew
        finally:
            storage.replace_version(self.path, _document(is_free=True), held[0])

    def _taken(self, storage: RemoteStorage) -> str | None:
        """The tag of our document; None while another process holds the lock."""
        found = storage.version(self.path)
        ends = 0.0 if found is None or _is_free(found.content) else found.modified_ns / 1e9 + _HOLD_SECONDS
        if ends > time_at(self.base_path):
            return None
        tag = storage.replace_version(self.path, _document(is_free=False), found.tag if found else None)
        if tag is not None and (ours := storage.version(self.path)) is not None:
            note_time(self.base_path, ours.modified_ns / 1e9)
        return tag

    def _wait(self, deadline: float) -> None:
        if time.monotonic() >= deadline:
            raise self._busy()
        time.sleep(_POLL_SECONDS)

    def _busy(self) -> RetryableError:
        message = f"another process is sending what is new at `{self.base_path}`"
        return RetryableError(Code.NOT_SENT, message, hint="what it does not send the next run sends")


def _document(*, is_free: bool) -> bytes:
    return json.dumps({"free": is_free, "nonce": uuid4().hex}).encode()


def _is_free(content: bytes) -> bool:
    try:
        found = json.loads(content)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("free") is True
