"""Output files. Links in a path that the user named are followed; below a folder of etc's own files none is."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from etc_policy.storage.safe_files import create_in, folder_of, open_regular, replace_in

#: Names for what this process has open; a file behind such a name goes on being written after this.
_DESCRIPTOR = re.compile(r"/dev/(?P<name>stdout|stderr)|(?:/dev|/proc/self)/fd/(?P<number>\d{1,4})")
_STRAIGHT = os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC
_NUMBERS = {"stdout": 1, "stderr": 2}


def write_named(path: Path, content: bytes) -> None:
    """Write the file at a path that the user named: in one step, or straight to what is not a regular file.

    The target of a link is replaced and the link stays; so do the permissions of a file. An equal file is left as it is.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    own = _DESCRIPTOR.fullmatch(str(path))
    if own or (found is not None and not stat.S_ISREG(found.st_mode)):
        _write_to(os.dup(_number(own)) if own else os.open(path, _STRAIGHT), content)
        return
    real = Path(os.path.realpath(path))
    real.parent.mkdir(parents=True, exist_ok=True)
    with folder_of(real.parent, real.name, make=False) as (folder, name):
        if not _is_equal(folder, name, content):
            replace_in(folder, name, content, like=found)


def append_named(path: Path, content: bytes) -> None:
    """Add to the end of the file at a path that the user named."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        file.write(content)


def write_below(base: Path, name: str, content: bytes) -> None:
    """Write etc's own file `name` below a folder in one step; an equal file is left as it is."""
    base.mkdir(parents=True, exist_ok=True)
    with folder_of(base, name, make=True) as (folder, file):
        if not _is_equal(folder, file, content):
            replace_in(folder, file, content)


def create_below(base: Path, name: str, content: bytes) -> None:
    """Write a new file `name` below a folder; FileExistsError where anything has its name, a link too."""
    base.mkdir(parents=True, exist_ok=True)
    with folder_of(base, name, make=True) as (folder, file):
        create_in(folder, file, content)


def read_below(base: Path, name: str, max_bytes: int) -> bytes:
    """The content of etc's own file `name` below a folder, a regular file of at most `max_bytes`."""
    with (
        folder_of(base, name, make=False) as (folder, file),
        os.fdopen(open_regular(folder, file, os.O_RDONLY), "rb") as opened,
    ):
        content = opened.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(f"`{name}` is bigger than {max_bytes // 1024**2} MiB")
    return content


def names_below(base: Path, name: str) -> list[str]:
    """The names in etc's own folder `name` below a folder."""
    with folder_of(base, f"{name}/file", make=False) as (folder, _):
        return os.listdir(folder)  # noqa: PTH208 - it is no path


def empty_below(base: Path, name: str, max_bytes: int) -> None:
    """Empty etc's own file `name` below a folder where it is larger; whoever adds to its end goes on doing so."""
    with folder_of(base, name, make=False) as (folder, file):
        handle = open_regular(folder, file, os.O_WRONLY)
        try:
            if os.fstat(handle).st_size > max_bytes:
                os.ftruncate(handle, 0)
        finally:
            os.close(handle)


def remove_below(base: Path, name: str) -> None:
    """Remove etc's own file `name` below a folder; one that is missing is no error."""
    with suppress(FileNotFoundError), folder_of(base, name, make=False) as (folder, file):
        os.unlink(file, dir_fd=folder)


def _number(own: re.Match[str]) -> int:
    return _NUMBERS[own["name"]] if own["name"] else int(own["number"])


def _write_to(handle: int, content: bytes) -> None:
    with os.fdopen(handle, "wb") as opened:
        opened.write(content)


def _is_equal(folder: int, name: str, content: bytes) -> bool:
    try:
        handle = open_regular(folder, name, os.O_RDONLY)
    except OSError:
        return False
    with os.fdopen(handle, "rb") as opened:
        return os.fstat(handle).st_size == len(content) and opened.read() == content
