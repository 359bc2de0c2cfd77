"""The lock of Hudi's FileSystemBasedLockProvider, taken from Python: its file names its owner from its first moment.

Stock Hudi leaves the file empty, and who gives up waiting removes it under its holder (facts: lock-file-empty,
lock-removed-by-waiter). So nobody could know what a killed run has left from the lock of a living writer, and a lock that
was taken was soon lost.
"""

from __future__ import annotations

import errno
import math
import os
import re
import shlex
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from etc_policy.errors import EngineError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import ETC_FOLDER, HEARTBEATS
from etc_policy.run.lock_holder import PROCESS_TOKEN, Holder, LockPlace, Owner, lock_folder, read_holder, read_lock
from etc_policy.storage.open_storage import local_path
from etc_policy.storage.safe_files import folder_of, open_regular, replace_in
from etc_policy.table.formats import format_duration

#: Whoever may write beside the lock can make nobody write elsewhere.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN_NAME = ".lock.etc."
#: How often a lock that somebody else holds is tried, and ours is looked after.
_POLL_SECONDS, _CARE_SECONDS = 0.1, 0.05
#: Waiting is announced anew this often.
_ANNOUNCE_SECONDS = 10.0
#: Two stock writers, and so a stock writer and we, may make the file at once: the later one empties it.
_SETTLE_SECONDS = 0.05
#: In a table: the tokens of the processes that may have taken its lock. One that gave it back is gone from there.
_TAKERS, _TOKEN, _MOST_TAKERS = f"{ETC_FOLDER}/lock.takers", re.compile(r"[0-9a-f]{32}"), 20

_NO_LINKS = (
    "its file system must have hard links, which mounted buckets (s3fs, gcsfuse) and some shares have not: name the table by "
    "its location in the store (`s3://`, `gs://`, `abfs://`)"
)


class FileLock:
    """A table's lock file, held from `__enter__` to `__exit__`; only who holds the table's lease may take it.

    Before it is taken the table itself notes by whom. So the lease proves that a lock whose owner is noted there was left by
    a run that is dead, whatever the paths by which the table is known. It is kept from expiring for `care_ms` at most: what
    hangs for longer may not keep it from others.
    """

    def __init__(
        self,
        place: LockPlace,
        base_path: str,
        wait_ms: int,
        progress: Callable[[str], None],
        poll_seconds: float = _POLL_SECONDS,
        care_ms: float = math.inf,
    ) -> None:
        self._place, self._base, self._wait_ms, self._progress = place, local_path(base_path), wait_ms, progress
        self._path, self._poll_seconds, self._care_seconds = place.path, poll_seconds, care_ms / 1000
        mark = _mark(PROCESS_TOKEN, self._base)
        self._content = Owner(str(self._base), token=mark).as_lock_file()
        self._name, self._own = place.path.name, f"{_OWN_NAME}{mark}.{uuid4().hex}"
        self._opened, self._folder = ExitStack(), -1
        self._done = threading.Event()
        self._care = threading.Thread(target=self._look_after, daemon=True, name="table lock")
        self.lost = False

    def __enter__(self) -> FileLock:
        """Take the lock, once whoever holds it has given it back.

        Raises:
            RetryableError: it was held longer than the policy waits.
            EngineError: its folder cannot be written.

        """
        try:
            self._folder = self._opened.enter_context(lock_folder(self._path, self._base, make=True))
            _note_takers(self._base, [*_takers(self._base), PROCESS_TOKEN])
            self._write_own()
            self._take_in_time()
            self._sweep()
        except OSError as error:
            self._give_back()
            hint = _NO_LINKS if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS) else None
            message = f"cannot take the lock `{self._path}`"
            raise EngineError(Code.CANNOT_LOCK, message, hint=hint, cause=str(error)) from error
        except BaseException:
            self._give_back()
            raise
        self._care.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give the lock back; one that somebody else has meanwhile is left alone."""
        self._done.set()
        self._care.join()
        self._give_back()

    def _give_back(self) -> None:
        if self._folder < 0:
            return
        with self._opened, suppress(OSError):
            if self._is_ours():
                _unlink(self._name, self._folder)
            _unlink(self._own, self._folder)
            _note_takers(self._base, [one for one in _takers(self._base) if one != PROCESS_TOKEN])
        self._folder = -1

    def require_held(self) -> None:
        """Return while the lock is ours.

        Raises:
            RetryableError: somebody else has it.

        """
        if self.lost or not self._is_held():
            message = (
                f"the lock `{self._path}` was taken over by another process, or has expired; nothing was committed"
            )
            raise RetryableError(
                Code.LOCK_LOST, message, hint="run the same command again; declare an expiry longer than any commit"
            )

    def _take_in_time(self) -> None:
        began, announced = time.monotonic(), float("-inf")
        while not self._take():
            holder = read_holder(self._path, self._folder)
            if holder is None or self._remove_if_left(holder):
                continue
            waited = time.monotonic() - began
            if waited * 1000 >= self._wait_ms:
                raise self._held_too_long(holder)
            if waited - announced >= _ANNOUNCE_SECONDS:
                announced = waited
                self._progress(f"waiting for the lock `{self._path}`, held by {holder}")
            time.sleep(self._poll_seconds)

    def _write_own(self) -> None:
        _unlink(self._own, self._folder)
        with os.fdopen(os.open(self._own, _NEW, 0o666, dir_fd=self._folder), "wb") as opened:
            opened.write(self._content)

    def _take(self) -> bool:
        """Make the lock file with our name in it, in one step; false where there is one."""
        try:
            self._link()
        except FileExistsError:
            return False
        time.sleep(_SETTLE_SECONDS)
        if self._is_ours():
            return True
        self._write_own()  # a new file: the other one is somebody else's lock now
        return False

    def _link(self) -> None:
        os.link(self._own, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)

    def _sweep(self) -> None:
        """Remove what killed runs wrote before they took the lock; the lease says that no other run on this table lives."""
        left = tuple(f"{_OWN_NAME}{_mark(token, self._base)}." for token in _takers(self._base))
        for name in os.listdir(self._folder):  # noqa: PTH208 - it is no path
            if name.startswith(left) and name != self._own:
                _unlink(name, self._folder)

    def _is_held(self) -> bool:
        """Whether others find our lock where they look for it: its folder may have been replaced."""
        try:
            with lock_folder(self._path, self._base, make=False) as folder:
                return os.path.samestat(os.fstat(folder), os.fstat(self._folder)) and self._is_ours()
        except OSError:
            return False

    def _is_ours(self) -> bool:
        """Whether the lock is the file that we made, with what we wrote into it."""
        try:
            found, text = read_lock(self._path, self._folder)
            own = os.stat(self._own, dir_fd=self._folder, follow_symlinks=False)
            return os.path.samestat(found, own) and text.encode() == self._content
        except FileNotFoundError:
            return False

    def _look_after(self) -> None:
        """Keep the file from expiring, and put it back where a stock writer removes it as it gives up waiting.

        Somebody may have had the lock meanwhile, so it counts as lost for whatever has not begun yet. So does one that has
        expired, which others may take.
        """
        until = time.monotonic() + self._care_seconds
        expires = until + (self._place.expiry_minutes * 60 or math.inf)
        while not self._done.wait(_CARE_SECONDS):
            if time.monotonic() > expires:
                self.lost = True
                return
            with suppress(OSError):
                self.lost = self.lost or not self._is_held()
                if time.monotonic() < until:
                    self._renew()
                with suppress(FileExistsError):
                    self._link()

    def _remove_if_left(self, holder: Holder) -> bool:
        """Remove the lock of a dead run of etc on this table, and one that has expired; whether there was one."""
        dead = is_left(holder, self._base)
        limit = self._place.expiry_minutes * 60
        if not dead and not (limit and self._now() - holder.changed > limit):
            return False
        self._progress(f"removing the lock `{self._path}` that {'a killed run' if dead else 'somebody'} has left")
        return remove(holder, self._folder)

    def _renew(self) -> None:
        os.utime(self._own, dir_fd=self._folder, follow_symlinks=False)

    def _now(self) -> float:
        """The time of the lock's file system, which machines may share: the age of a lock is measured by it."""
        self._renew()
        return os.stat(self._own, dir_fd=self._folder, follow_symlinks=False).st_mtime

    def _held_too_long(self, holder: Holder) -> RetryableError:
        waited = format_duration(self._wait_ms)
        message = f"the lock `{self._path}` was not released within {waited}; it is held by {holder}"
        if holder.owner is not None and holder.owner.table != str(self._base):
            hint = (
                f"run `etc apply` for the table `{holder.owner.table}`: it ends, or removes what a killed run has left"
            )
            return RetryableError(Code.LOCK_NOT_GIVEN_BACK, message, hint=hint)
        signs = shlex.join(f"{self._base}/{folder}" for folder in (HEARTBEATS, ".hoodie/timeline"))
        hint = (
            f"check whether its holder is alive: `ls -lt {signs} | head` shows what writers do now; "
            f"if all have ended, `rm {shlex.quote(str(self._path))}` and run this again, else raise `writer.lock_wait`"
        )
        return RetryableError(Code.LOCK_NOT_GIVEN_BACK, message, hint=hint)


def is_left(holder: Holder, base: Path) -> bool:
    """Whether a lock was taken by another process of etc for this table: to whoever has the table's lease, a dead one.

    The table says so, not a path: tables that are written together may share one lock, and others have the same path elsewhere.
    """
    others = (one for one in _takers(base) if one != PROCESS_TOKEN)
    return holder.owner is not None and holder.owner.token in {_mark(one, base) for one in others}


def _mark(token: str, base: Path) -> str:
    """What names a process in the lock of one table: nobody makes it of a token that another table notes.

    A table is known by its folder's number on its file system, which is the same by whatever path.
    """
    with suppress(OSError):
        return sha256(f"{token} {base.stat().st_ino}".encode()).hexdigest()[:32]
    return ""  # there is no table


def _takers(base: Path) -> list[str]:
    """Who may have taken the table's lock and not given it back, as the table notes it; nobody where that cannot be read."""
    try:
        with folder_of(base, _TAKERS, make=False) as (folder, name):
            handle = open_regular(folder, name, os.O_RDONLY)
    except OSError:
        return []
    with os.fdopen(handle, "rb") as opened:
        words = opened.read(_MOST_TAKERS * 40).decode("ascii", "replace").split()
    return [one for one in words if _TOKEN.fullmatch(one)]


def _note_takers(base: Path, tokens: list[str]) -> None:
    """Runs that were killed stay noted, the newest of them: nobody knows which of them left a lock."""
    with folder_of(base, _TAKERS, make=True) as (folder, name):
        if tokens:
            noted = "".join(f"{one}\n" for one in tokens[-_MOST_TAKERS:])
            replace_in(folder, name, noted.encode(), durable=True)
        else:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)


def remove(holder: Holder, folder: int) -> bool:
    """Remove a lock file of an open folder if it is still the one that was read, unchanged; whether it is gone."""
    now = read_holder(holder.path, folder)
    if now is not None and (now.identity, now.changed, now.text) == (holder.identity, holder.changed, holder.text):
        _unlink(holder.path.name, folder)
        _unlink(f".{holder.path.name}.crc", folder)
        return True
    return now is None


def _unlink(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
