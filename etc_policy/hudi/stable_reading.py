"""A reading of a table that is asked again where the table changes under it."""

from __future__ import annotations

import errno
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from time import monotonic, sleep
from traceback import clear_frames
from typing import TypeVar

from etc_policy.errors import EtcError, RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.metadata_values import UNKNOWN_FORM, unknown_form
from etc_policy.plan.fleet import Allowance
from etc_policy.storage.safe_files import LinkError

_LOCK = Lock()
#: One for each that is inside, in any thread: whether Python looked for garbage when it came.
_INSIDE: list[bool] = []


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Reading and planning make objects by the million and no cycles: looking for those takes up to a third of the time.

    It is one switch for all threads: the last that leaves puts it back to what the first has found.
    """
    with _LOCK:
        _INSIDE.append(_INSIDE[0] if _INSIDE else gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _LOCK:
            was_enabled = _INSIDE.pop()
            if was_enabled and not _INSIDE:
                gc.enable()


#: A file may be archived or cleaned between the listing and its reading: read again this often.
ATTEMPTS = 4
#: Hudi 0.x writes timeline files in place: one that cannot be read may be whole a moment later.
WRITTEN_SECONDS = 0.2
#: So many seconds an hour all tables of a process wait for that together: somebody may make a thousand damaged ones.
_WAITS = Allowance(an_hour=60.0)

Result = TypeVar("Result")


def read_until_stable(location: str, read: Callable[[], Result]) -> Result:
    """What `read` returns; it is asked again when a file was archived or cleaned under it, or is being written.

    Raises:
        RetryableError: that went on.
        TableError: the table cannot be read.

    """
    for attempt in range(ATTEMPTS):
        if attempt:
            _wait()
        try:
            with suppress(FileNotFoundError), table_errors(location), no_garbage_collection():
                return read()
        except TableError as error:
            if error.code != Code.DAMAGED_TIMELINE or attempt == ATTEMPTS - 1:
                raise
    raise RetryableError(
        Code.TIMELINE_KEEPS_CHANGING,
        f"files of `{location}` were removed again and again while it was read",
        hint="run it again",
    )


def _wait() -> None:
    now_ms = round(monotonic() * 1000)
    with _LOCK:
        is_left = not _WAITS.ready_in_ms(now_ms)
        if is_left:
            _WAITS.use(WRITTEN_SECONDS, now_ms)
    if is_left:
        sleep(WRITTEN_SECONDS)


@contextmanager
def table_errors(location: str) -> Iterator[None]:
    """Whatever is wrong with a table's files is one error of the table; that a file has gone is left to who reads it.

    Raises:
        TableError: something in the block failed.

    """
    try:
        yield
    except (FileNotFoundError, EtcError):
        raise
    except OSError as error:
        message = f"cannot read the table at `{location}`"
        code = Code.TOO_LARGE if error.errno == errno.EFBIG else Code.CANNOT_READ_TABLE
        code = Code.BEHIND_A_LINK if isinstance(error, LinkError) else code
        raise TableError(code, message, hint=reading_hint(error), cause=str(error)) from error
    except UNKNOWN_FORM as error:
        clear_frames(error.__traceback__)  # they hold all that was read so far
        raise unknown_form(f"the metadata of the table at `{location}` is", error) from error


#: What to look at where the system denies something to this user.
PERMISSIONS = "look at the permissions there, and as which user etc runs"
_NO_LINKS = "put the file or folder itself there, or mount the folder: a link could lead to what is not the table's"


def reading_hint(error: OSError) -> str | None:
    """What to look at where the system denies something to this user, or a link is in the way; None for any other error."""
    if isinstance(error, LinkError):
        return _NO_LINKS
    return PERMISSIONS if isinstance(error, PermissionError) else None
