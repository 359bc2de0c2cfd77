"""TableStorage on local disk and on mounted file systems."""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from etc_policy.adapters.storage.local_tree import LocalTreeLister
from etc_policy.adapters.storage.port import MAX_READ_BYTES, FileInfo
from etc_policy.declare.regular_files import open_regular, read_regular

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalStorage:
    """The files of a table below a folder.

    Reading follows links, as Hudi does. Writing and removing follow none below the table, so that whoever may write there
    can make nobody overwrite a file elsewhere.
    """

    def __init__(self, base: Path) -> None:
        self._base = base

    @property
    def location(self) -> str:
        """The table's folder."""
        return str(self._base)

    def names(self, folder: str) -> Sequence[str]:
        """The names of all that is in a folder; their sizes are not asked for, which takes most of the time of a listing."""
        return os.listdir(self._path(folder))  # noqa: PTH208 - names are enough

    def list(self, folder: str) -> Mapping[str, FileInfo]:
        """The files of a folder; those that are gone before their size was read are left out."""
        found = {}
        with os.scandir(self._path(folder)) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # also a link that leads nowhere
                    if entry.is_file():
                        found[entry.name] = _info(entry.stat())
        return found

    def tree(self) -> LocalTreeLister:
        """Lists the table's folders, in a process of its own if asked to begin before it is read."""
        return LocalTreeLister(str(self._base))

    def info(self, path: str) -> FileInfo | None:
        """A regular file's size and time."""
        try:
            found = Path(self._path(path)).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _info(found) if stat.S_ISREG(found.st_mode) else None

    def read(self, path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
        """A regular file's content; a file without end, or a sparse one, is refused before it is in memory."""
        return read_regular(self._path(path), max_bytes)

    def open(self, path: str) -> BinaryIO:
        """A regular file, opened without waiting for anybody."""
        return open_regular(self._path(path))

    def create(self, path: str, content: bytes) -> None:
        """Write a draft beside it, and give it the name if nobody has it."""
        with self._drafted(path, content) as (folder, draft, name):
            os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)

    def replace(self, path: str, content: bytes) -> None:
        """Write a draft beside it, and give it the name."""
        with self._drafted(path, content) as (folder, draft, name):
            os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)

    def link_or_copy(self, source: str, target: str) -> None:
        """A hard link, else a copy."""
        with self._folder_of(target, make=True) as (folder, name):
            try:
                os.link(self._path(source), name, dst_dir_fd=folder)
                return
            except FileExistsError:
                raise
            except OSError:
                if self.info(source) is None:
                    raise FileNotFoundError(source) from None
        self.create(target, self.read(source))

    def move(self, source: str, target: str) -> None:
        """A second name first, then the old one goes: killed between the two, both are there."""
        self.link_or_copy(source, target)
        self.remove(source)

    def remove(self, path: str) -> None:
        """Remove a file or a link."""
        with suppress(FileNotFoundError), self._folder_of(path, make=False) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def remove_tree(self, folder: str) -> None:
        """Remove a folder; it must not itself be a link."""
        with suppress(FileNotFoundError), self._folder_of(folder, make=False) as (parent, name):
            shutil.rmtree(name, dir_fd=parent)

    @contextmanager
    def _drafted(self, path: str, content: bytes) -> Iterator[tuple[int, str, str]]:
        """The folder of a path, the name of a draft there that holds the content, and the path's own name."""
        with self._folder_of(path, make=True) as (folder, name):
            draft = f".{name}.{uuid.uuid4().hex}"
            try:
                with os.fdopen(os.open(draft, _NEW, 0o644, dir_fd=folder), "wb") as opened:
                    opened.write(content)
                yield folder, draft, name
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=folder)

    @contextmanager
    def _folder_of(self, path: str, *, make: bool) -> Iterator[tuple[int, str]]:
        """The folder of a path, opened without following a link below the table, and the name in it."""
        *folders, name = _parts(path)
        handle = os.open(self._base, _FOLDER & ~os.O_NOFOLLOW)
        try:
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=handle)
                below = os.open(folder, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle, name
        finally:
            os.close(handle)

    def _path(self, path: str) -> str:
        return os.path.join(self._base, *_parts(path)) if path else str(self._base)  # noqa: PTH118 - quicker than a Path


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"`{path}` is not a path below a table")
    return parts


def _info(found: os.stat_result) -> FileInfo:
    return FileInfo(found.st_size, found.st_mtime_ns)
