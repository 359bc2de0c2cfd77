"""A small file of etc beside a table that several processes change: none takes back what another has just written."""

from __future__ import annotations

import errno
import fcntl
import time
from collections.abc import Callable
from contextlib import suppress

from etc_policy.storage.open_storage import is_remote, local_path, open_reader, open_remote_storage, open_storage
from etc_policy.storage.port import MAX_VERSION_BYTES, RemoteStorage, StoreRefusedError
from etc_policy.storage.safe_files import folder_of, replace_in

#: The new content of a file, by what it is now (None where it is missing); None leaves it as it is.
Change = Callable[[bytes | None], bytes | None]

#: So often another process may be faster, and so long it may take, before its change is no longer waited for.
_TRIES, _WAIT_SECONDS, _POLL_SECONDS = 20, 5.0, 0.01


def read_shared(location: str, path: str) -> bytes | None:
    """The file of the table at a location; None where it is missing.

    Raises:
        OSError: the storage does not give it.

    """
    if is_remote(location):
        return _latest(open_remote_storage(location), path)[0]
    with suppress(FileNotFoundError, NotADirectoryError):
        return open_reader(location).read(path, MAX_VERSION_BYTES)
    return None


def change_shared(location: str, path: str, change: Change, *, alone: bool = False) -> None:
    """Change the file of the table at a location; `change` is asked again where another process was faster.

    A storage that cannot keep others out is made do with, but for what must be done `alone`.

    Raises:
        OSError: the storage does not give it, or does not take it, or others could change it at the same time.

    """
    if is_remote(location):
        _change_remote(open_remote_storage(location), path, change, alone=alone)
    else:
        _change_local(location, path, change, alone=alone)


def write_shared(location: str, path: str, content: bytes) -> None:
    """Write a file of the table at a location which says the same whoever writes it.

    Raises:
        OSError: the storage does not take it.

    """
    open_storage(location).replace(path, content)


def _change_local(location: str, path: str, change: Change, *, alone: bool) -> None:
    with folder_of(local_path(location), path, make=True) as (folder, name):
        if not _is_locked(folder) and alone:  # it is given back when the folder is closed
            raise OSError(errno.ENOLCK, "its file system gives no lock", location)
        content = change(read_shared(location, path))
        if content is not None:
            replace_in(folder, name, content, durable=True)


def _is_locked(folder: int) -> bool:
    """Wait for others at work there, but not for one that hangs, and not where the file system keeps no such locks."""
    end = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < end:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_POLL_SECONDS)
        except OSError:
            return False
        else:
            return True
    return False


def _change_remote(storage: RemoteStorage, path: str, change: Change, *, alone: bool) -> None:
    for _ in range(_TRIES):
        before, tag = _latest(storage, path)
        content = change(before)
        if content is None or _is_replaced(storage, path, content, tag, alone=alone):
            return
    raise OSError(f"`{storage.location}/{path}` kept changing")


def _is_replaced(storage: RemoteStorage, path: str, content: bytes, tag: str | None, *, alone: bool) -> bool:
    """Whether nobody was faster; a store that knows no conditions is not asked."""
    try:
        return storage.replace_version(path, content, tag) is not None
    except StoreRefusedError:
        if alone:
            raise
        storage.replace(path, content)
        return True


def _latest(storage: RemoteStorage, path: str) -> tuple[bytes | None, str | None]:
    found = storage.version(path)
    return (found.content, found.tag) if found is not None else (None, None)
