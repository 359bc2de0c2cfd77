"""Writing below a folder: no link is followed on the way, drafts have random names, and none is left behind.

All files that etc replaces are written by `drafted`.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: A pipe would block whoever opens it until somebody writes to it.
_SAFELY = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
#: Letters of a file's name in the name of its draft: file systems take 255 bytes.
_NAME_LETTERS = 40


@contextmanager
def folder_of(base: Path, path: str, *, make: bool) -> Iterator[tuple[int, str]]:
    """The folder of a path below `base`, opened without following a link below it, and the name in it."""
    *folders, name = parts_of(path)
    handle = _folder_below(base, folders, make=make)
    try:
        yield handle, name
    finally:
        os.close(handle)


def _folder_below(base: Path, folders: Iterable[str], *, make: bool = False) -> int:
    handle = os.open(base, _FOLDER)
    for folder in folders:
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=handle)
            below = _folder_in(handle, folder, base)
        finally:
            os.close(handle)
        handle = below
    return handle


class FolderOpener:
    """Opens folders below `base` without following a link below it, as a context.

    Where the one before lies in the same folder, that is one step, however deep they are.
    """

    def __init__(self, base: Path) -> None:
        self._base, self._parent, self._handle = base, "", os.open(base, _FOLDER)

    def __enter__(self) -> FolderOpener:
        return self

    def __exit__(self, *_: object) -> None:
        """Close what is still open."""
        os.close(self._handle)

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """A folder's number; the path is one that was found, `base` itself is empty."""
        parent, _, name = path.rpartition("/")
        if parent != self._parent:
            handle = _folder_below(self._base, parent.split("/") if parent else ())
            os.close(self._handle)
            self._parent, self._handle = parent, handle
        number = _folder_in(self._handle, name or ".", self._base)
        try:
            yield number
        finally:
            os.close(number)


def _folder_in(handle: int, name: str, base: Path) -> int:
    """A folder in an open one, which is not a link."""
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
            raise LinkError(f"{base}/.../{name}") from None
        raise


class LinkError(OSError):
    """A link would have to be followed."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, "it is a link, and none is followed there", path)


@contextmanager
def drafted(
    folder: int, name: str, content: bytes, like: os.stat_result | None = None, *, durable: bool = False
) -> Iterator[str]:
    """The name of a new file in an open folder that holds the content; it is gone afterwards, renamed or not.

    It may be read and written by whom the file `like` may be. If `durable`, the content is on disk by now: no loss of power
    leaves an empty file.
    """
    draft = f".{name[:_NAME_LETTERS]}.{os.urandom(16).hex()}"
    try:
        with os.fdopen(os.open(draft, _NEW, 0o666, dir_fd=folder), "wb") as opened:
            if like is not None:
                os.fchmod(opened.fileno(), like.st_mode & 0o777)
            opened.write(content)
            if durable:
                opened.flush()
                os.fsync(opened.fileno())
        yield draft
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)


def replace_in(
    folder: int, name: str, content: bytes, like: os.stat_result | None = None, *, durable: bool = False
) -> None:
    """Write a file of an open folder in one step (`drafted`); what has its name, a link too, is replaced."""
    with drafted(folder, name, content, like, durable=durable) as draft:
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def create_in(folder: int, name: str, content: bytes) -> None:
    """Write a new file of an open folder, where file systems have no links too; FileExistsError where there is one."""
    with os.fdopen(os.open(name, _NEW, 0o666, dir_fd=folder), "wb") as opened:
        try:
            opened.write(content)
            opened.flush()
        except OSError:
            os.unlink(name, dir_fd=folder)
            raise


def copy_in(folder: int, name: str, content: BinaryIO) -> None:
    """Write a new file of an open folder from a stream; FileExistsError where there is one.

    The draft's name follows from the file's, so that the next try overwrites what a killed one left, and no part of it has the
    form of a log file's, so that no reader takes it for one.
    """
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, "the file exists", name)
    draft = copy_draft(name)
    with suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=folder)
    try:
        with os.fdopen(os.open(draft, _NEW, 0o666, dir_fd=folder), "wb") as opened:
            shutil.copyfileobj(content, opened)
            opened.flush()
            os.fsync(opened.fileno())
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        raise


def copy_draft(path: str) -> str:
    """The path of the draft of a copy that gets this path; it has no file's form that Hudi knows."""
    folder, separator, name = path.rpartition("/")
    return f"{folder}{separator}.etc-copy-{crc32(name.encode(errors='surrogateescape')):08x}"


def open_regular(folder: int, name: str, flags: int) -> int:
    """A regular file of an open folder, which is not a link, opened without waiting for anybody."""
    try:
        handle = os.open(name, flags | _SAFELY, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LinkError(name) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"`{name}` is not a regular file")
    return handle


def begins_with_scheme(path: str) -> bool:
    """Whether Hudi goes elsewhere by a path, or nowhere: to `file:/lake`, and to `/f` for a file `f` in a partition `a:b`."""
    return ":" in path and ":" in path.partition("/")[0]


def parts_of(path: str) -> list[str]:
    """The names in a path below a folder; ValueError for one that leads elsewhere (`..`, `file:/lake`)."""
    parts = path.split("/")
    if begins_with_scheme(path) or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"`{path}` is not a path below a table")
    return parts
