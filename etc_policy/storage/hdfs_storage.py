"""TableStorage on HDFS, through hdfs-native.

A NameNode does one change after another, so a rename is one step, and one that may not overwrite is won by one of many.

There is no conditional put. Each version of a document is a file with the next number, which only one can create. A file goes
once there is one with a higher number, so the highest number never falls: whoever was late enough to create a number anew sees
a higher one, and has lost.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from hdfs_native import FileStatus, WriteOptions

from etc_policy.storage.hdfs_client import HdfsClient, open_hdfs_file
from etc_policy.storage.listings import ListingBounds
from etc_policy.storage.object_tree import ObjectTreeLister
from etc_policy.storage.port import (
    MAX_READ_BYTES,
    MAX_VERSION_BYTES,
    FileInfo,
    Irregular,
    StoreUnreachableError,
    TableStorage,
    Version,
    read_at_most,
)
from etc_policy.storage.remote_files import MAX_RANGE_BYTES, ReadAhead
from etc_policy.storage.safe_files import copy_draft, parts_of

if TYPE_CHECKING:
    from hdfs_native._internal import RawFileWriter


#: A version that is replaced while it is read is looked for again so often.
_NUMBER_TRIES = 20


def version(storage: TableStorage, path: str) -> Version | None:
    """The document with the highest number; None without one."""
    folder = versions_folder(path)
    for left in reversed(range(_NUMBER_TRIES)):
        found = _numbered(storage, folder)
        if not found:
            return None
        last = max(found)
        try:
            return Version(storage.read(f"{folder}/{last}", MAX_VERSION_BYTES), str(last), found[last].modified_ns)
        except FileNotFoundError:
            if not left:
                raise
    raise AssertionError("the last try returns or raises")


def replace_version(storage: TableStorage, path: str, content: bytes, tag: str | None) -> str | None:
    """Write the version after that of the tag; its tag, or None where there is another."""
    folder, number = versions_folder(path), int(tag) + 1 if tag is not None else 1
    try:
        storage.create(f"{folder}/{number}", content)
    except (FileExistsError, FileNotFoundError):  # somebody was first, or has replaced ours before its answer came
        return None
    found = _numbered(storage, folder)
    if max(found, default=number) > number:
        storage.remove(f"{folder}/{number}")
        return None
    for older in found.keys() - {number}:
        storage.remove(f"{folder}/{older}")
    return str(number)


def _numbered(storage: TableStorage, folder: str) -> Mapping[int, FileInfo]:
    try:
        listed = storage.list(folder)
    except FileNotFoundError:
        return {}
    return {int(name): info for name, info in listed.items() if name.isascii() and name.isdecimal()}


def versions_folder(path: str) -> str:
    """Where the versions of a document are, each with its number for a name: the tag that it has."""
    return f"{path}.versions"


#: Letters of a file's name in the name of its draft: HDFS takes 255 bytes.
_NAME_LETTERS = 40
#: A folder of which a part goes while it is listed is listed again so often.
_TRIES = 5
#: Larger files are not held in memory before they are asked for.
_MAX_AHEAD_BYTES = 64 << 20


class HdfsStorage:
    """The files of a table below a folder of an HDFS cluster. There are no links, and names have no `:`."""

    def __init__(self, client: HdfsClient, base: str) -> None:
        self._client, self._base = client, base
        self._ahead = ReadAhead(self._whole)

    @property
    def location(self) -> str:
        """The table's base path, with its scheme."""
        return self._client.location

    def names(self, folder: str) -> Sequence[str]:
        """The names of all that is in a folder."""
        return [_name(one) for one in self._entries(folder)]

    def list(self, folder: str) -> Mapping[str, FileInfo]:
        """The files of a folder, with sizes and times from the listing."""
        return {_name(one): _info(one) for one in self._entries(folder) if not one.isdir}

    def versions(self, folder: str, _among: Collection[str] | None = None) -> Mapping[str, str]:
        """Size and time of each file: to write one anew takes longer than the millisecond of which the time is."""
        return {name: f"{one.size_bytes} {one.modified_ns}" for name, one in self.list(folder).items()}

    def below(self, folder: str) -> Iterator[str]:
        """All files below a folder; one that is missing has none."""
        return (path for path, _ in self._files(self._client.bounds(), folder))

    def find(self, folder: str, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """Files below a folder, by one listing; whoever writes one may choose its time."""
        files = self._files(self._client.bounds(), folder)
        return ((path, "") for path, _ in files if is_wanted(path.rpartition("/")[2]))

    def tree(self) -> ObjectTreeLister:
        """Lists the table's folders, side by side."""
        return ObjectTreeLister(self._top, partial(self._files, self._client.bounds()), in_pages=False)

    def info(self, path: str) -> FileInfo | None:
        """A file's size and time; None for a folder."""
        found = self._status(path)
        return _info(found) if found is not None and not found.isdir else None

    def is_linked(self, path: str) -> bool:
        """Never: there are no links."""
        self._place(path)
        return False

    def irregular(self, folder: str) -> Iterator[tuple[str, Irregular]]:
        """None: there are no links, and nothing but files."""
        return iter(())

    def read(self, path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
        """A file's content."""
        with self.open(path) as opened:
            return read_at_most(opened, max_bytes, self._shown(path))

    def open(self, path: str) -> BinaryIO:
        """A file to read by ranges."""
        content = self._ahead.take(path)
        return self._open(path) if content is None else io.BytesIO(content)

    def expect(self, sizes: Mapping[str, int], *, keep: bool = False) -> None:
        """Fetch these files side by side, ahead of their reading."""
        self._ahead.expect({path: size for path, size in sizes.items() if size <= _MAX_AHEAD_BYTES})

    def create(self, path: str, content: bytes) -> None:
        """A hidden draft, and a rename that overwrites nothing."""
        with self._drafted(path, io.BytesIO(content)) as draft:
            self._rename(draft, path)

    def create_from(self, path: str, content: BinaryIO, draft: str) -> None:
        """The draft, and a rename that overwrites nothing."""
        if self._status(path) is not None:
            raise FileExistsError(errno.EEXIST, "the file exists", self._shown(path))
        with self._drafted(path, content, draft):
            folder = self._place(path).rpartition("/")[0]
            self._client.ask(lambda client: client.mkdirs(folder, create_parent=True), path)
            self._rename(draft, path)

    def replace(self, path: str, content: bytes) -> None:
        """A hidden draft, and a rename over what is there."""
        with self._drafted(path, io.BytesIO(content)) as draft:
            self._rename(draft, path, overwrite=True)

    def hard_link(self, source: str, target: str) -> None:
        """There are no links."""
        raise OSError(errno.EOPNOTSUPP, "HDFS has no hard links", self._shown(target))

    def copy(self, source: str, target: str) -> None:
        """A copy by way of this machine. The next try overwrites the draft that a killed one left."""
        with self.open(source) as content:
            self.create_from(target, content, copy_draft(target))

    def link_or_copy(self, source: str, target: str) -> None:
        """A copy."""
        self.copy(source, target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        place = self._place(path)
        with suppress(FileNotFoundError, NotADirectoryError):
            self._client.ask(lambda client: client.delete(place), path)

    def remove_tree(self, folder: str) -> None:
        """Remove a folder, in one step."""
        place = self._place(folder)
        with suppress(FileNotFoundError, NotADirectoryError):
            self._client.ask(lambda client: client.delete(place, True), folder)

    @property
    def orders_writers(self) -> bool:
        """A NameNode does."""
        return True

    def version(self, path: str) -> Version | None:
        """The document with the highest number."""
        return version(self, path)

    def replace_version(self, path: str, content: bytes, tag: str | None) -> str | None:
        """Write the document with the next number, which only one can."""
        return replace_version(self, path, content, tag)

    def remove_versions(self, path: str) -> None:
        """Remove a document with all its numbers."""
        self.remove_tree(versions_folder(path))

    @contextmanager
    def _drafted(self, path: str, content: BinaryIO, draft: str = "") -> Iterator[str]:
        """The path of a new hidden file beside a path, with the content; it is gone afterwards, unless nobody answers."""
        folder, separator, name = path.rpartition("/")
        draft = draft or f"{folder}{separator}.{name[:_NAME_LETTERS]}.{os.urandom(16).hex()}"
        self._place(path)
        try:
            self._client.repeat(lambda: self._write(draft, content))
            yield draft
        except StoreUnreachableError:
            raise
        except BaseException:
            with suppress(OSError):
                self.remove(draft)
            raise

    def _write(self, path: str, content: BinaryIO) -> None:
        """Write a file that nobody else knows, over what an earlier try has left.

        By the raw writer: a FileWriter that was not closed asks the NameNode when it is collected as garbage, in any thread.
        """
        place, options = self._place(path), WriteOptions(overwrite=True, create_parent=True)
        content.seek(0)
        writer = self._client.ask_once(lambda client: client.inner.create(place, options), path)
        while chunk := content.read(MAX_RANGE_BYTES):
            self._client.ask_once(partial(_write_part, writer, chunk), path)
        self._client.ask_once(lambda _: writer.close(), path)

    def _rename(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Rename a file that nobody else touches: it is gone where a rename was done whose answer was lost."""
        old, new = self._place(source), self._place(target)

        def step() -> None:
            try:
                self._client.ask_once(lambda client: client.rename(old, new, overwrite), target)
            except OSError:
                if self._status(source) is not None or self._status(target) is None:
                    raise

        self._client.repeat(step)

    def _open(self, path: str) -> BinaryIO:
        found = self._status(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", self._shown(path))
        if found.isdir:
            raise IsADirectoryError(errno.EISDIR, "it is a folder", self._shown(path))
        return open_hdfs_file(self._client, self._place(path), path, found.length)

    def _whole(self, path: str) -> bytes | None:
        """A file's content; None for a large one, whose size was not known when it was expected."""
        with self._open(path) as opened:
            size = opened.seek(0, io.SEEK_END)
            opened.seek(0)
            return opened.read() if size <= _MAX_AHEAD_BYTES else None

    def _status(self, path: str) -> FileStatus | None:
        place = self._place(path) if path else self._base
        try:
            return self._client.ask(lambda client: client.get_file_info(place), path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _entries(self, folder: str) -> Iterator[FileStatus]:
        place = self._place(folder) if folder else self._base
        for one in self._client.entries(place, folder, self._client.bounds()):
            if one.path == place:
                raise NotADirectoryError(errno.ENOTDIR, "it is a file", self._shown(folder))
            yield one

    def _top(self) -> tuple[Sequence[str], dict[str, int]]:
        entries = [*self._entries("")]
        return [_name(one) for one in entries if one.isdir], {
            _name(one): one.length for one in entries if not one.isdir
        }

    def _files(self, bounds: ListingBounds, folder: str) -> Iterator[tuple[str, int]]:
        """The path and size of each file below a folder; one that is missing has none, and one below it may go meanwhile."""
        place = self._place(folder) if folder else self._base
        for left in reversed(range(_TRIES)):
            try:
                found = self._client.entries(place, folder, bounds, recursive=True)
            except FileNotFoundError:
                if self._status(folder) is None:
                    return
                if not left:
                    raise
            else:
                yield from ((one.path[len(self._base) + 1 :], one.length) for one in found if not one.isdir)
                return

    def _place(self, path: str) -> str:
        return "/".join((self._base, *parts_of(path)))

    def _shown(self, path: str) -> str:
        return f"{self.location}/{path}".rstrip("/")


def _write_part(writer: RawFileWriter, part: bytes, _: object) -> int:
    return writer.write(part)


def _name(status: FileStatus) -> str:
    return status.path.rpartition("/")[2]


def _info(status: FileStatus) -> FileInfo:
    modified_ns = status.modification_time * 1_000_000
    return FileInfo(status.length, modified_ns, modified_ns)
