"""Lease over files of the table: one `etc apply` at a time, and no run beside another that may still be alive."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress

from etc_policy.errors import EngineError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.hudi.pending_writes import HEARTBEAT_EXPIRY_MS
from etc_policy.hudi.stable_reading import reading_hint
from etc_policy.policy.manifest import Policy
from etc_policy.run.file_lock import is_left, remove
from etc_policy.run.lease_document import FILE_LEASE, MAX_LEASE_BYTES, LeaseDocument, read_document
from etc_policy.run.lock_holder import UNKNOWN_BOOT, Owner, holder_of, lock_folder, lock_place, read_holder
from etc_policy.run.ports import Lease
from etc_policy.run.run_signs import HEARTBEAT_TOLERANCE_SECONDS, Progress, RunSigns, warn_of_clock
from etc_policy.storage.clocks import note_time
from etc_policy.storage.open_storage import is_remote, local_path, open_remote_storage, open_storage
from etc_policy.storage.safe_files import folder_of, open_regular

#: Locked by the Java process while it works on the table: it may outlive the Python process that started it.
JAVA_LEASE = "java.lease"

#: What a run needs at most from its mark to its inflight file; a stock writer waits longer before it takes a plan over.
_BEGINNING_SECONDS = 15.0


class FileLease:
    """An advisory lock on a file of the table: the kernel gives it back when its process dies, however it dies.

    The file's content is the document of the last run. `local` says that all work is done by this machine, so that nothing of it
    can outlive the two processes. Once `goes_on` says no, nothing is waited for.
    """

    def __init__(
        self,
        base_path: str,
        *,
        local: bool = False,
        progress: Progress = lambda _: None,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self._local = local
        self._base, self._storage = local_path(base_path), open_storage(base_path)
        self._signs, self._progress = RunSigns(self._storage, progress, goes_on), progress
        self._path = self._base / FILE_LEASE
        self._handle = -1
        self._last: LeaseDocument | None = None
        self._document: LeaseDocument | None = None
        self._inflight_found = ""

    def __enter__(self) -> FileLease:
        """Take the lease, and clear the table lock that a killed run of etc may have left in its own folder.

        Raises:
            RetryableError: another `etc apply` works on this table, or the Java process that one has left.
            EngineError: the file system keeps no locks, or a file of etc cannot be written.

        """
        try:
            self._handle = self._open(self._path.name)
        except OSError as error:
            message, hint = f"cannot write to `{self._path.parent}`", reading_hint(error)
            raise EngineError(Code.CANNOT_LOCK, message, hint=hint, cause=str(error)) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._require_no_java()
            self._last = read_document(self._read())
            self._storage.remove(f"{ETC_FOLDER}/lock")
        except BlockingIOError as error:
            os.close(self._handle)
            message = f"another `etc apply` is working on `{self._base}`"
            raise RetryableError(Code.TABLE_IN_USE, message, hint="wait for it to end, then run this again") from error
        except OSError as error:
            os.close(self._handle)
            hint = "its file system must keep locks (flock and POSIX), and its files must be writable"
            raise EngineError(Code.CANNOT_LOCK, f"cannot lock `{self._path}`", hint=hint, cause=str(error)) from error
        return self

    def _open(self, name: str) -> int:
        """A file of etc in the table, made if it is missing; an error where somebody has put a link or a pipe there."""
        with folder_of(self._base, f"{ETC_FOLDER}/{name}", make=True) as (folder, file):
            return open_regular(folder, file, os.O_CREAT | os.O_RDWR)

    def _require_no_java(self) -> None:
        """No Java process of an earlier run lives; raises BlockingIOError where one does."""
        handle = self._open(JAVA_LEASE)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            warn_of_clock(note_time(self._storage.location, _clock_of(handle)), self._progress)
        except PermissionError as error:  # POSIX allows either
            raise BlockingIOError(str(error)) from error
        finally:
            os.close(handle)

    def __exit__(self, *_: object) -> None:
        """Give the lease back; a run that has ended, well or not, leaves nothing to wait for."""
        if self._document is not None and self._read() == self._document.as_bytes():
            self._write(self._document.renewed(ended=True))
        os.close(self._handle)

    def has_left_lock(self, policy: Policy) -> bool:
        """Whether another process of etc holds the table's lock: left behind, if this lease can be taken."""
        place = lock_place(policy.writer.lock, str(self._base))
        holder = holder_of(place, self._base) if place else None
        return holder is not None and is_left(holder, self._base)

    def remove_left_lock(self, policy: Policy) -> bool:
        """Remove the table's lock that a killed run of etc has left, under this lease; whether there was one."""
        place = lock_place(policy.writer.lock, str(self._base))
        if place is None:
            return False
        with suppress(OSError), lock_folder(place.path, self._base, make=False) as folder:
            holder = read_holder(place.path, folder)
            return holder is not None and is_left(holder, self._base) and remove(holder, folder)
        return False

    def mark(self, instant: str) -> None:
        """Write the instant into the lease: should this process die, the next holder knows whose traces it finds."""
        owner = Owner(str(self._base)) if self._local else Owner(str(self._base), boot=UNKNOWN_BOOT)
        self._write(LeaseDocument(owner, instant=instant, found=self._inflight_found))

    def note_inflight(self, instant: str) -> None:
        """Write into the lease when our inflight file was made: whoever takes the plan over makes another."""
        if self._document is not None:
            self._write(self._document.renewed(made=self._signs.inflight_made(instant)))

    def wait_for_dead_run(self, instant: str, heartbeat_expiry_ms: int = HEARTBEAT_EXPIRY_MS) -> None:
        """Return once a run of `instant` has shown no sign of life for long enough; one that advances is alive.

        Signs are the heartbeat and, because a stock writer alone on its table keeps none, the files that a run makes.
        A run of etc beats often, and its lease is free, so it is dead: a short wait will do, and none if it ran on
        this machine. A stock writer that has taken the plan, perhaps over from a dead run of etc, beats less often.

        Raises:
            RetryableError: the run is alive.

        """
        self._inflight_found = self._signs.inflight_made(instant)
        if self._ended(instant) or self._died_here(instant):
            self._signs.remove_beat(instant)
            return
        is_ours = self._was_ours(instant)
        tolerance = HEARTBEAT_TOLERANCE_SECONDS if is_ours else heartbeat_expiry_ms / 1000
        self._signs.wait_until_silent(instant, tolerance)

    def require_alive(self, instant: str) -> None:
        """Return while the lease is ours, the inflight file the one that we made, and our heartbeat fresh.

        Raises:
            EngineError: one of them is lost, so another run may have taken over.

        """
        if self._document is None or not self._holds(self._document):
            hint = "another `etc apply` has taken over; run the same command again"
            raise EngineError(
                Code.RUN_TAKEN_OVER, f"this run's lease of `{self._base}` was lost; nothing was committed", hint=hint
            )
        note_time(self._storage.location, _clock_of(self._handle))  # this machine's may have been set meanwhile
        self._signs.require_own(instant, self._document.made or "")

    def _holds(self, document: LeaseDocument) -> bool:
        """Whether the lease's file is still the one that we have locked, with our document in it."""
        try:
            same = os.path.samestat(self._path.stat(), os.fstat(self._handle))
        except FileNotFoundError:
            return False
        return same and self._read() == document.as_bytes()

    def _read(self) -> bytes:
        return os.pread(self._handle, MAX_LEASE_BYTES, 0)

    def _write(self, document: LeaseDocument) -> None:
        """Whoever finds half of it knows of no run, and waits the longer."""
        self._document = document
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, document.as_bytes(), 0)

    def _ended(self, instant: str) -> bool:
        """Whether the last run of `instant` was ours and came to an end, and nobody has begun another since."""
        if self._last is None or self._last.instant != instant or not self._last.ended:
            return False
        return self._after_mark_seconds <= 0

    def _died_here(self, instant: str) -> bool:
        """Whether the last run of `instant` was ours, on this machine since it booted.

        Its lease and its Java process's are free: both are dead.
        """
        is_here = self._local and self._last is not None and self._last.owner.ran_since_boot
        return is_here and self._was_ours(instant)

    def _was_ours(self, instant: str) -> bool:
        """Whether the last run of `instant` was ours, and nobody has begun another since.

        One that died before it noted its inflight file has made it right after its mark, or has died before that: then there
        is the one that it had found, of another dead run.
        """
        last, made = self._last, self._inflight_found
        if last is None or last.instant != instant or last.is_of(instant, made):
            return last is not None and last.instant == instant
        return not (last.made or last.ended) and 0 <= self._after_mark_seconds <= _BEGINNING_SECONDS

    @property
    def _after_mark_seconds(self) -> float:
        """How long after the last change of the lease the inflight file was made that was found; 0 without one."""
        made = self._inflight_found
        return int(made) / 1e9 - os.fstat(self._handle).st_mtime if made else 0.0


def _clock_of(handle: int) -> float:
    """The time that the file system notes when an open file is touched now, in seconds since the epoch."""
    os.utime(handle)
    return os.fstat(handle).st_mtime


def lease_of(
    base_path: str, *, local: bool, progress: Callable[[str], None], goes_on: Callable[[], bool] = lambda: True
) -> Lease:
    """The lease of the table at a base path; `local` says that this machine does all work on it.

    Once `goes_on` says no, nothing is waited for.

    Raises:
        TableError: the table lies where etc cannot reach it.

    """
    if not is_remote(base_path):
        return FileLease(base_path, local=local, progress=progress, goes_on=goes_on)
    from etc_policy.run.store_lease import StoreLease

    return StoreLease(open_remote_storage(base_path), progress=progress, goes_on=goes_on)
