"""A reading of a table that is asked again where the table changes under it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from etc_policy.codes.registry import Code
from etc_policy.errors import RetryableError, TableError

#: A timeline file may be archived between the listing and its reading: read again this often.
ATTEMPTS = 4

Result = TypeVar("Result")


def read_until_stable(location: str, read: Callable[[], Result]) -> Result:
    """What `read` returns; it is asked again when a timeline file was archived under it.

    Raises:
        RetryableError: the timeline kept changing.
        TableError: the table cannot be read.

    """
    for _ in range(ATTEMPTS):
        try:
            with _no_garbage_collection():
                return read()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise TableError(
                Code.CANNOT_READ_TABLE, f"cannot read the table at `{location}`", cause=str(error)
            ) from error
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            message = f"the metadata of the table at `{location}` is not in a form that this version of etc knows"
            hint = f"it may be from a later version of Hudi, or damaged ({type(error).__name__}: {str(error)[:200]})"
            raise TableError(Code.UNKNOWN_METADATA, message, hint=hint, cause=repr(error)) from error
    raise RetryableError(
        Code.TIMELINE_KEEPS_CHANGING,
        f"the timeline of `{location}` kept changing while it was read",
        hint="run it again",
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A reading makes objects by the million and no cycles: looking for those takes a third of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
