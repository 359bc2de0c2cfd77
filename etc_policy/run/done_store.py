"""The record of who was told of which partition, in a file of the table's own folder, and whose turn it is to tell."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from pydantic import ValidationError

from etc_policy.errors import RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.storage.clocks import note_time, time_at
from etc_policy.storage.open_storage import is_remote, local_path, open_remote_storage, open_storage
from etc_policy.storage.port import RemoteStorage, TableStorage
from etc_policy.storage.safe_files import folder_of, open_regular
from etc_policy.storage.shared_file import change_shared, read_shared
from etc_policy.table.done import DoneRecord

RECORD, TURN = f"{ETC_FOLDER}/done.json", f"{ETC_FOLDER}/done.turn"
#: How long another run's turn is waited for.
_WAIT_SECONDS, _POLL_SECONDS = 10.0, 0.1
#: How long a turn holds on a storage that machines share, if it is not renewed: longer than any action may take.
_TURN_SECONDS = 660.0


@dataclass(frozen=True, slots=True)
class DoneStore:
    """`done.json` of one table. One that means nothing is an error: who would make it anew would tell everybody again."""

    base_path: str

    @property
    def files(self) -> TableStorage:
        """The table's files."""
        return open_storage(self.base_path)

    def read(self) -> DoneRecord:
        """What is kept; empty where nothing is.

        Raises:
            TableError: it cannot be read.

        """
        return self._parsed(read_shared(self.base_path, RECORD))

    def update(self, change: Callable[[DoneRecord], DoneRecord]) -> DoneRecord:
        """Keep what the change makes of what is kept right now; returns that.

        Raises:
            TableError: it cannot be read.
            OSError: it cannot be written.

        """
        made: list[DoneRecord] = []

        def changed(kept: bytes | None) -> bytes | None:
            before = self._parsed(kept)
            made.append(change(before))
            return None if made[-1] == before else made[-1].model_dump_json(exclude_defaults=True).encode()

        change_shared(self.base_path, RECORD, changed)
        return made[-1]

    def _parsed(self, kept: bytes | None) -> DoneRecord:
        try:
            return DoneRecord() if kept is None else DoneRecord.model_validate_json(kept)
        except ValidationError as error:
            message = f"the record of partitions that are done cannot be read: `{self.base_path}/{RECORD}`"
            hint = "remove the file to begin anew: each partition that is done is then told once more"
            raise TableError(Code.BAD_DONE_RECORD, message, hint=hint) from error

    @contextmanager
    def turn(self) -> Iterator[Callable[[], None]]:
        """While in it no other process tells of this table; what it gives is to be called before each that is told.

        Raises:
            RetryableError: another process takes longer than is waited for.

        """
        deadline = time.monotonic() + _WAIT_SECONDS
        remote = open_remote_storage(self.base_path) if is_remote(self.base_path) else None
        with self._remote_turn(remote, deadline) if remote else self._local_turn(deadline) as renew:
            yield renew

    @contextmanager
    def _local_turn(self, deadline: float) -> Iterator[Callable[[], None]]:
        """The kernel gives the lock back when its process dies, however it dies."""
        with folder_of(local_path(self.base_path), TURN, make=True) as (folder, name):
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
    def _remote_turn(self, storage: RemoteStorage, deadline: float) -> Iterator[Callable[[], None]]:
        """A document that is renewed; its age is measured by the storage's own clock."""
        tag = self._taken(storage)
        while tag is None:
            self._wait(deadline)
            tag = self._taken(storage)
        held = [tag]

        def renew() -> None:
            new = storage.replace_version(TURN, _document(is_free=False), held[0])
            if new is None:
                raise self._busy()
            held[0] = new

        try:
            yield renew
        finally:
            storage.replace_version(TURN, _document(is_free=True), held[0])

    def _taken(self, storage: RemoteStorage) -> str | None:
        """The tag of our document; None while it is another's turn."""
        found = storage.version(TURN)
        ends = 0.0 if found is None or _is_free(found.content) else found.modified_ns / 1e9 + _TURN_SECONDS
        if ends > time_at(self.base_path):
            return None
        tag = storage.replace_version(TURN, _document(is_free=False), found.tag if found else None)
        if tag is not None and (ours := storage.version(TURN)) is not None:
            note_time(self.base_path, ours.modified_ns / 1e9)
        return tag

    def _wait(self, deadline: float) -> None:
        if time.monotonic() >= deadline:
            raise self._busy()
        time.sleep(_POLL_SECONDS)

    def _busy(self) -> RetryableError:
        message = f"another process is telling of partitions of `{self.base_path}`"
        return RetryableError(Code.NOT_TOLD, message, hint="what it leaves untold the next `etc apply` tells")


def _document(*, is_free: bool) -> bytes:
    return json.dumps({"free": is_free, "nonce": uuid4().hex}).encode()


def _is_free(content: bytes) -> bool:
    try:
        found = json.loads(content)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("free") is True
