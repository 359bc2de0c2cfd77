"""The record of which events of partitions were sent, in a file of the table's own folder, and the lock of who sends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.run.send_lock import SendLock
from etc_policy.storage.open_storage import open_storage
from etc_policy.storage.port import TableStorage
from etc_policy.storage.shared_file import change_shared, read_shared
from etc_policy.table.done import DoneRecord

RECORD, LOCK = f"{ETC_FOLDER}/done.json", f"{ETC_FOLDER}/done.lock"


@dataclass(frozen=True, slots=True)
class DoneStore:
    """`done.json` of one table. One that means nothing is an error: a new one would send every event again."""

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

    def known(self) -> DoneRecord | None:
        """What is kept; None where it cannot be read."""
        try:
            return self.read()
        except (TableError, OSError):
            return None

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
            return None if made[-1] == before else made[-1].as_json(exclude_defaults=True).encode()

        change_shared(self.base_path, RECORD, changed)
        return made[-1]

    def _parsed(self, kept: bytes | None) -> DoneRecord:
        try:
            return DoneRecord() if kept is None else DoneRecord.of_json(kept)
        except ValueError as error:
            raise self.error("cannot be read") from error

    def error(self, fault: str) -> TableError:
        """The error of a record that nothing can be made of."""
        message = f"the record of partitions that are done {fault}: `{self.base_path}/{RECORD}`"
        hint = "remove the file to begin anew: each partition that is done is then sent once more"
        return TableError(Code.BAD_DONE_RECORD, message, hint=hint)

    def send_lock(self) -> AbstractContextManager[Callable[[], None]]:
        """While in it no other process sends events of this table (`SendLock.held`)."""
        return SendLock(self.base_path, LOCK).held()
