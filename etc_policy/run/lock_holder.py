"""Where the lock file of a table lies, and what it says of who holds it."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from etc_policy.errors import EngineError, TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.policy.bounded_json import load_json
from etc_policy.policy.hudi_options import LOCK_FOLDER, expiry_minutes, is_file_lock, is_in_process
from etc_policy.policy.manifest import Policy
from etc_policy.policy.secrets import with_values
from etc_policy.storage.open_storage import is_remote, local_path
from etc_policy.storage.safe_files import begins_with_scheme, folder_of
from etc_policy.table.formats import format_duration
from etc_policy.verify.diagnosis import HeldLock

#: Of a process that other machines work for, too.
UNKNOWN_BOOT = "-"
_MAX_BYTES = 65_536
#: Minutes after which our own lock, where no writer shares one, may be taken for left behind.
_OWN_EXPIRY_MINUTES = 1
#: Names this process, also among those that have had or will have its number.
PROCESS_TOKEN = uuid4().hex


def boot_id() -> str:
    """What distinguishes this start of this machine from any other; `-` where that is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return UNKNOWN_BOOT


def _runs_here(process: int) -> bool:
    """Whether a process of this machine lives; `/proc` may hide those of other users."""
    if process <= 0:  # a number for whole groups of processes
        return False
    try:
        os.kill(process, 0)  # no signal is sent
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def process_space() -> str:
    """Names the set of processes that can be seen from here: this start of the machine, and its container; `-` if not known."""
    try:
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return UNKNOWN_BOOT
    return UNKNOWN_BOOT if (boot := boot_id()) == UNKNOWN_BOOT else f"{boot} {namespace}"


@dataclass(frozen=True, slots=True)
class LockPlace:
    """A lock file, and after how many minutes it may be removed as left behind; 0 for never."""

    path: Path
    expiry_minutes: int


@dataclass(frozen=True, slots=True)
class Owner:
    """A process of etc that holds a lock: on which table it works, and where it runs; `boot` is its `process_space`."""

    table: str
    host: str = field(default_factory=socket.gethostname)
    boot: str = field(default_factory=process_space)
    process: int = field(default_factory=os.getpid)
    token: str = PROCESS_TOKEN

    def __str__(self) -> str:
        return f"`etc` (process {self.process} on {self.host}, at work on `{self.table}`)"

    @property
    def is_sound(self) -> bool:
        """Whether all is of the kind that etc writes: it may be read from a file that anybody has written."""
        texts = (self.table, self.host, self.boot, self.token)
        is_sound = all(isinstance(text, str) and "\0" not in text for text in texts)
        return is_sound and isinstance(self.process, int)

    @property
    def is_gone_here(self) -> bool:
        """Whether it ran where this process can see it, and has ended.

        Processes of another container cannot be seen from here, nor those of another machine: either may have this host's name.
        """
        is_here = self.boot != UNKNOWN_BOOT and (self.host, self.boot) == (socket.gethostname(), process_space())
        return is_here and not _runs_here(self.process)

    @property
    def ran_since_boot(self) -> bool:
        """Whether it ran on this machine, in whichever container, since the machine was started."""
        return self.boot != UNKNOWN_BOOT and self.boot.split(" ")[0] == boot_id()

    def as_lock_file(self) -> bytes:
        """What is written into the lock file, in the form in which Hudi shows the holder of a lock."""
        now = datetime.now().astimezone().isoformat(" ", "milliseconds")
        text = {"lockCreateTime": now, "lockThreadName": str(self), "lockStacksInfo": [], "etc": asdict(self)}
        return json.dumps(text).encode()


@dataclass(frozen=True, slots=True)
class Holder:
    """What a lock file says: its owner if that is etc, else its text, which stock Hudi leaves empty (facts: lock-file-empty)."""

    path: Path
    identity: tuple[int, int]
    changed: float
    user: str
    text: str
    owner: Owner | None

    @property
    def age_seconds(self) -> float:
        """How long ago the file was last changed."""
        return max(0.0, time.time() - self.changed)

    def __str__(self) -> str:
        content = f": {' '.join(self.text.split())[:100]}" if self.text else ""
        who = str(self.owner) if self.owner else f"a process of user {self.user}{content}"
        return f"{who}, for {format_duration(int(self.age_seconds) * 1000)}"


def lock_place(lock: Mapping[str, str], base_path: str) -> LockPlace | None:
    """Where the file of a declared lock lies, or our own where none is declared; None for one that is no file here, and
    for tables on object stores and HDFS.

    A lock inside one Java process says nothing to another. And the run's own client has such a lock: held round it, the
    client would be refused its own.
    """
    if is_remote(base_path):
        return None
    base = local_path(base_path)
    if not lock or is_in_process(lock):
        return LockPlace(base / ETC_FOLDER / "lock", _OWN_EXPIRY_MINUTES)
    if not is_file_lock(lock):
        return None
    options = with_values(lock, os.environ)
    try:
        folder = local_path(options[LOCK_FOLDER]) if options.get(LOCK_FOLDER) else base / ".hoodie"
    except TableError:  # on a store that only Java reaches
        return None
    return LockPlace(folder.absolute() / "lock", expiry_minutes(options))


@contextmanager
def lock_folder(path: Path, base: Path, *, make: bool) -> Iterator[int]:
    """The folder of a lock, opened. No link below the table is followed: it may lead to the lock of another table.

    Whoever may write there may put one in its place at any time, so all goes by the folder that was opened.
    """
    path, base = path.absolute(), base.absolute()
    below = path.relative_to(base).as_posix() if path.is_relative_to(base) else ".."
    if ".." in below.split("/") or begins_with_scheme(below):  # elsewhere, by the policy's own words
        base, below = path.parent, path.name
        if make:
            base.mkdir(parents=True, exist_ok=True)
    with folder_of(base, below, make=make) as (folder, _):
        yield folder


def holder_of(place: LockPlace, base: Path) -> Holder | None:
    """Who holds the lock of a table; None where nobody does.

    Raises:
        EngineError: its folder may not be looked at, so that nobody knows.

    """
    try:
        with lock_folder(place.path, base, make=False) as folder:
            return read_holder(place.path, folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _cannot_look(place.path, error) from error


def read_holder(path: Path, folder: int | None = None) -> Holder | None:
    """Who holds the lock whose file is `path`, in its folder if that is open; None where nobody does.

    What is no file that may be read says nothing.

    Raises:
        EngineError: its folder may not be looked at, so that nobody knows.

    """
    try:
        found, text = read_lock(path, folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _cannot_look(path, error) from error
    identity = (found.st_dev, found.st_ino)
    return Holder(path, identity, found.st_mtime, _user(found.st_uid), text.strip(), _owner(text))


def _cannot_look(path: Path, error: OSError) -> EngineError:
    hint = "let this user read its folder, or name another in `writer.lock`"
    return EngineError(Code.CANNOT_LOCK, f"cannot look at the lock `{path}`", hint=hint, cause=str(error))


def read_lock(path: Path, folder: int | None = None) -> tuple[os.stat_result, str]:
    """What a lock file is, and its text. A link is not followed: its target is not the lock's, and may be secret."""
    name = path if folder is None else path.name
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO):
            raise
        return os.stat(name, dir_fd=folder, follow_symlinks=False), ""
    with os.fdopen(handle, "rb") as opened:
        found = os.fstat(handle)
        is_file = stat.S_ISREG(found.st_mode)
        return found, opened.read(_MAX_BYTES).decode(errors="replace") if is_file else ""


def held_lock(policy: Policy, base_path: str) -> HeldLock | None:
    """The lock file of a policy's table, if somebody holds it."""
    place = lock_place(policy.writer.lock, base_path)
    holder = holder_of(place, local_path(base_path)) if place else None
    if holder is None:
        return None
    is_left = holder.owner is not None and holder.owner.is_gone_here
    return HeldLock(str(holder.path), str(holder), holder.age_seconds, is_left)


def _owner(text: str) -> Owner | None:
    """The owner that a lock file names; None where it names none of etc, whatever is in it."""
    try:
        owner = Owner(**load_json(text)["etc"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return owner if owner.is_sound else None


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
