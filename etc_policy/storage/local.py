"""TableStorage on local disk and on mounted file systems."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from etc_policy.storage.port import MAX_READ_BYTES, OWN_FOLDER, FileInfo, Irregular, too_large
from etc_policy.storage.safe_files import (
    FolderOpener,
    LinkError,
    copy_in,
    drafted,
    folder_of,
    open_regular,
    parts_of,
    replace_in,
)

#: Two contents of one size that are written within a tick of the clock have the same times.
_AT_REST_NS = 2_000_000_000
#: Checksums that Hadoop keeps beside each file on local disk.
_CHECKSUM = ".crc"


class LocalStorage:
    """The files of a table below a folder, which may be a link itself.

    No link below it is followed, so that whoever may write there can make nobody show, overwrite or remove a file elsewhere.
    """

    def __init__(self, base: Path) -> None:
        self._base = base

    @property
    def location(self) -> str:
        """The table's folder."""
        return str(self._base)

    def names(self, folder: str) -> Sequence[str]:
        """The names of all that is in a folder; their sizes are not asked for, which takes most of the time of a listing."""
        with self._opened(folder) as handle:
            return os.listdir(handle)  # noqa: PTH208 - it is no path

    def list(self, folder: str) -> Mapping[str, FileInfo]:
        """The files of a folder; those that are gone before their size was read are left out."""
        found = {}
        with self._opened(folder) as handle, os.scandir(handle) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise LinkError(f"{self._path(folder)}/{entry.name}")
                with suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False):
                        found[entry.name] = _info(entry.stat(follow_symlinks=False))
        return found

    def versions(self, folder: str, among: Collection[str] | None = None) -> Mapping[str, str]:
        """Size, inode and times of each file that has been at rest for a while, as clocks have ticks."""
        latest_ns, found = time.time_ns() - _AT_REST_NS, {}
        with self._opened(folder) as handle:
            for name in os.listdir(handle) if among is None else among:  # noqa: PTH208 - it is no path
                with suppress(FileNotFoundError):
                    one = os.stat(name, dir_fd=handle, follow_symlinks=False)
                    if stat.S_ISREG(one.st_mode) and (version := _version(one, latest_ns)):
                        found[name] = version
        return found

    def below(self, folder: str) -> Iterator[str]:
        """All below a folder that is no folder itself; one that is missing has nothing."""
        return (path for path, _ in self._walk(folder))

    def find(self, folder: str, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """Regular files below a folder."""
        latest_ns = time.time_ns() - _AT_REST_NS
        for path, entry in self._walk(folder):
            if entry.is_symlink():
                raise LinkError(self._path(path))
            if is_wanted(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    yield path, _version(entry.stat(follow_symlinks=False), latest_ns)

    def tree(self) -> LocalTreeLister:
        """Lists the table's folders when it is read."""
        return LocalTreeLister(str(self._base))

    def info(self, path: str) -> FileInfo | None:
        """A regular file's size and time."""
        try:
            with folder_of(self._base, path, make=False) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(found.st_mode):
            raise LinkError(self._path(path))
        return _info(found) if stat.S_ISREG(found.st_mode) else None

    def is_linked(self, path: str) -> bool:
        """Whether the folder of a path cannot be opened without following a link."""
        try:
            with folder_of(self._base, path, make=False):
                return False
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            return True

    def irregular(self, folder: str) -> Iterator[tuple[str, Irregular]]:
        """Links, pipes, sockets and devices below a folder."""
        for path, entry in self._walk(folder):
            if not entry.is_file(follow_symlinks=False):
                yield path, "link" if entry.is_symlink() else "special"

    def _walk(self, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """All below a folder that is no folder itself, with its path; nothing is in a folder that has just been removed."""
        if folder and self.is_linked(f"{folder}/file"):
            raise LinkError(self._path(folder))
        folders = [folder]
        with suppress(FileNotFoundError), FolderOpener(self._base) as opener:
            while folders:
                path = folders.pop()
                with (
                    suppress(FileNotFoundError, NotADirectoryError),
                    opener.opened(path) as number,
                    os.scandir(number) as entries,
                ):
                    for entry in entries:
                        name = f"{path}/{entry.name}" if path else entry.name
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(name)
                        else:
                            yield name, entry

    def read(self, path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
        """A regular file's content; a file without end, or a sparse one, is refused before it is in memory."""
        with self.open(path) as opened:
            if os.fstat(opened.fileno()).st_size <= max_bytes:
                content = opened.read(max_bytes + 1)
                if len(content) <= max_bytes:
                    return content
        raise too_large(max_bytes, self._path(path))

    def open(self, path: str) -> BinaryIO:
        """A regular file, opened without waiting for anybody."""
        with folder_of(self._base, path, make=False) as (folder, name):
            return os.fdopen(open_regular(folder, name, os.O_RDONLY), "rb")

    def expect(self, sizes: Mapping[str, int], *, keep: bool = False) -> None:
        """Nothing is done: the system reads ahead by itself."""

    def create(self, path: str, content: bytes) -> None:
        """Write a draft beside it, and give it the name if nobody has it."""
        with (
            folder_of(self._base, path, make=True) as (folder, name),
            drafted(folder, name, content, durable=True) as draft,
        ):
            os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)

    def create_from(self, path: str, content: BinaryIO, draft: str) -> None:
        """The draft gets a second name when it is whole and on disk, then the first goes: killed between, both are there."""
        self.remove(draft)
        with folder_of(self._base, draft, make=True) as (folder, name):
            copy_in(folder, name, content)
        self.link_or_copy(draft, path)
        self.remove(draft)

    def replace(self, path: str, content: bytes) -> None:
        """Write a draft beside it, and give it the name."""
        with folder_of(self._base, path, make=True) as (folder, name):
            replace_in(folder, name, content, durable=True)

    def hard_link(self, source: str, target: str) -> None:
        """A second name for the same bytes."""
        with (
            folder_of(self._base, source, make=False) as (before, its_name),
            folder_of(self._base, target, make=True) as (folder, name),
        ):
            if stat.S_ISLNK(os.stat(its_name, dir_fd=before, follow_symlinks=False).st_mode):
                raise LinkError(self._path(source))
            os.link(its_name, name, src_dir_fd=before, dst_dir_fd=folder, follow_symlinks=False)

    def copy(self, source: str, target: str) -> None:
        """A draft beside the target that gets its name when it is whole and on disk."""
        with self.open(source) as content, folder_of(self._base, target, make=True) as (folder, name):
            copy_in(folder, name, content)

    def link_or_copy(self, source: str, target: str) -> None:
        """A hard link, else a copy."""
        try:
            self.hard_link(source, target)
        except (FileExistsError, FileNotFoundError):
            raise
        except OSError:
            self.copy(source, target)

    def remove(self, path: str) -> None:
        """Remove a file or a link."""
        with suppress(FileNotFoundError), folder_of(self._base, path, make=False) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def remove_tree(self, folder: str) -> None:
        """Remove a folder; it must not itself be a link."""
        with suppress(FileNotFoundError), folder_of(self._base, folder, make=False) as (parent, name):
            shutil.rmtree(name, dir_fd=parent)

    @contextmanager
    def _opened(self, folder: str) -> Iterator[int]:
        """The number of a folder."""
        with folder_of(self._base, f"{folder}/file" if folder else "file", make=False) as (handle, _):
            yield handle

    def _path(self, path: str) -> str:
        return os.path.join(self._base, *parts_of(path)) if path else str(self._base)  # noqa: PTH118 - quicker than a Path


def _info(found: os.stat_result) -> FileInfo:
    return FileInfo(found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _version(found: os.stat_result, latest_ns: int) -> str:
    """What names this version of a file; empty where it was changed since a time."""
    if max(found.st_mtime_ns, found.st_ctime_ns) > latest_ns:
        return ""
    return f"{found.st_size} {found.st_ino} {found.st_mtime_ns} {found.st_ctime_ns}"


def list_tree(base: str) -> Iterator[tuple[str, dict[str, int]]]:
    """(path below the base, bytes by file name) of every folder but Hudi's own, the base itself with an empty path.

    What is removed meanwhile, as a cleaner does, is left out.

    Raises:
        OSError: a folder cannot be read, or there is a link, which Hudi would follow.

    """
    folders = [""]
    with FolderOpener(Path(base)) as opener:
        while folders:
            path = folders.pop()
            try:
                below, files = _list_folder(base, path, opener)
            except FileNotFoundError:
                if not path:
                    raise
                continue
            folders += below
            yield path, files


def _list_folder(base: str, path: str, opener: FolderOpener) -> tuple[list[str], dict[str, int]]:
    """The folders in a folder, as paths below the base, and the bytes of its files by name."""
    folder, below, files = f"{base}/{path}".rstrip("/"), list[str](), dict[str, int]()
    with opener.opened(path) as number, os.scandir(number) as entries:
        for entry in entries:
            name = entry.name
            try:
                if entry.is_file(follow_symlinks=False):
                    if not name.endswith(_CHECKSUM):
                        files[name] = entry.stat(follow_symlinks=False).st_size
                elif entry.is_dir(follow_symlinks=False):
                    if name != OWN_FOLDER:
                        below.append(f"{path}/{name}" if path else name)
                elif entry.is_symlink():
                    raise LinkError(f"{folder}/{entry.name}")
            except FileNotFoundError:  # it has just been removed
                continue
    return below, files


class LocalTreeLister:
    """Lists a tree, as a context."""

    def __init__(self, base: str) -> None:
        self._base = base

    def __enter__(self) -> LocalTreeLister:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was begun."""

    def begin(self) -> None:
        """Nothing: a disk has nothing to wait for."""

    def read(self) -> Mapping[str, dict[str, int]]:
        """Bytes by file name of each folder.

        Raises:
            OSError: a folder cannot be read.

        """
        return dict(list_tree(self._base))
