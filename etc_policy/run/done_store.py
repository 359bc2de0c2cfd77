"""Records that processes and machines share: what was sent to whom, and whose turn to send it is now."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar
from uuid import uuid4

from etc_policy.errors import RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.run.lock_holder import Owner
from etc_policy.storage.clocks import note_time, time_at
from etc_policy.storage.open_storage import open_reader, open_storage
from etc_policy.storage.port import TableStorage
from etc_policy.storage.safe_files import parts_of
from etc_policy.storage.shared_file import change_shared, read_shared
from etc_policy.table.done import DoneRecord, SharedRecord, Turn

RECORD = f"{ETC_FOLDER}/done.json"
#: How long another process's turn is waited for.
_WAIT_SECONDS, _POLL_SECONDS = 10.0, 0.1
#: Beyond what a message takes: the times of storages have whole seconds, and their machines' clocks differ a little.
_MARGIN_SECONDS = 60.0
#: No turn of etc ends later from now: one that was written with a wrong clock does not last for ever.
_LONGEST_SECONDS = 86_400.0

R = TypeVar("R", bound=SharedRecord)
Update = Callable[[Callable[[R], R]], R]


class _BusyError(RetryableError):
    """It is another process's turn."""


@dataclass(frozen=True, slots=True)
class RecordStore(ABC, Generic[R]):
    """A record in a file, by its path below a location, which is a folder or a URI."""

    location: str
    path: str

    @abstractmethod
    def parsed(self, kept: bytes | None) -> R:
        """The record of what is kept; a new one where nothing is."""

    def read(self) -> R:
        """What is kept; empty where nothing is.

        Raises:
            TableError: it cannot be read.

        """
        return self.parsed(read_shared(self.location, self.path))

    def update(self, change: Callable[[R], R], *, alone: bool = False) -> R:
        """Keep what the change makes of what is kept right now; returns that. With `alone` never beside another process.

        Raises:
            TableError: it cannot be read.
            OSError: it cannot be written, or the storage cannot promise that.

        """
        made: list[R] = []

        def changed(kept: bytes | None) -> bytes | None:
            before = self.parsed(kept)
            made.append(change(before))
            return None if made[-1] == before else made[-1].as_json(exclude_defaults=True).encode()

        change_shared(self.location, self.path, changed, alone=alone)
        return made[-1]

    @contextmanager
    def turn(self, message_seconds: float) -> Iterator[Update[R]]:
        """While in it no other process sends; what it gives changes the record before each message, and renews the turn.

        A turn that is not renewed for longer than a message takes is over, by the storage's own clock, and so is that of a
        process that has died on this machine.

        Raises:
            RetryableError: another process takes longer than is waited for, or has taken over.

        """
        owner = asdict(Owner(self.location, token=uuid4().hex))
        deadline = time.monotonic() + _WAIT_SECONDS

        def renew(change: Callable[[R], R], is_first: bool = False) -> R:
            def renewed(kept: R) -> R:
                is_ours = kept.turn is not None and kept.turn.owner == owner
                if not is_ours and not (is_first and self._is_over(kept.turn)):
                    raise self._busy()
                lasts_seconds = min(message_seconds + _MARGIN_SECONDS, _LONGEST_SECONDS)
                ends_ms = int((time_at(self.location) + lasts_seconds) * 1000)
                return change(kept).model_copy(update={"turn": Turn(owner=owner, ends_ms=ends_ms)})

            return self.update(renewed, alone=True)

        while not self._is_taken(lambda: renew(lambda kept: kept, is_first=True)):
            if time.monotonic() >= deadline:
                raise self._busy()
            time.sleep(_POLL_SECONDS)
        try:
            self._note_clock()
            yield renew
        finally:
            with suppress(OSError):
                self.update(lambda kept: _without_turn_of(kept, owner))

    def _is_taken(self, take: Callable[[], object]) -> bool:
        """Whether the turn is ours now. One that seems to have ended is looked at by the storage's clock before it is taken."""
        turn = self.read().turn
        if turn is not None and not _is_gone(turn):
            if self._is_over(turn):
                change_shared(self.location, self.path, lambda kept: kept)
                self._note_clock()
            if not self._is_over(turn):
                return False
        with suppress(_BusyError):
            take()
            return True
        return False

    def _is_over(self, turn: Turn | None) -> bool:
        if turn is None or _is_gone(turn):
            return True
        left_seconds = turn.ends_ms / 1000 - time_at(self.location)
        return not 0 < left_seconds <= _LONGEST_SECONDS

    def _note_clock(self) -> None:
        """The record was written just now."""
        found = open_reader(self.location).info(self.path)
        if found is not None:
            note_time(self.location, found.modified_ns / 1e9)

    def _busy(self) -> _BusyError:
        message = f"another process is sending what is new at `{self.location}`"
        return _BusyError(Code.NOT_SENT, message, hint="what it does not send the next run sends")


def _is_gone(turn: Turn) -> bool:
    """Whether it is of a process that has died on this machine; nobody knows it of one that etc did not write."""
    try:
        owner = Owner(**turn.owner)
    except TypeError:
        return False
    return owner.is_sound and owner.is_gone_here


def _without_turn_of(kept: R, owner: dict[str, Any]) -> R:
    is_ours = kept.turn is not None and kept.turn.owner == owner
    return kept.model_copy(update={"turn": None}) if is_ours else kept


def _of_one_table(record: DoneRecord) -> DoneRecord:
    """The record, where each partition lies below the table; ValueError where one does not: any writer of it may forge that."""
    for name, kept in record.partitions.items():
        if name:
            parts_of(name)
        if any(event.partition != name for event in kept.events):
            raise ValueError(f"an event of another partition than `{name}`")
    return record


@dataclass(frozen=True, slots=True)
class DoneStore(RecordStore[DoneRecord]):
    """`done.json` of one table. One that means nothing is an error: a new one would send every event again."""

    path: str = RECORD

    @property
    def files(self) -> TableStorage:
        """The table's files."""
        return open_storage(self.location)

    def known(self) -> DoneRecord | None:
        """What is kept; None where it cannot be read."""
        try:
            return self.read()
        except (TableError, OSError):
            return None

    def parsed(self, kept: bytes | None) -> DoneRecord:
        """The record; TableError where it means nothing."""
        try:
            return DoneRecord() if kept is None else _of_one_table(DoneRecord.of_json(kept))
        except ValueError as error:
            raise self.error("cannot be read") from error

    def error(self, fault: str) -> TableError:
        """The error of a record that nothing can be made of."""
        message = f"the record of partitions that are done {fault}: `{self.location}/{RECORD}`"
        hint = "remove the file to begin anew: each partition that is done is then sent once more"
        return TableError(Code.BAD_DONE_RECORD, message, hint=hint)
