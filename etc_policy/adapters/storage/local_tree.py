"""The files of a folder on local disk and of those below it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from etc_policy.adapters.storage.port import OWN_FOLDER

#: Checksums that Hadoop keeps beside each file on local disk.
_CHECKSUM = ".crc"


def list_tree(base: str) -> Iterator[tuple[str, dict[str, int]]]:
    """(path below the base, bytes by file name) of every folder but Hudi's own, the base itself with an empty path.

    What is removed meanwhile, as a cleaner does, is left out.
    """
    folders, followed = [""], set[str]()
    while folders:
        path = folders.pop()
        try:
            below, files = _list_folder(base, path, followed)
        except FileNotFoundError:
            if not path:
                raise
            continue
        folders += below
        yield path, files


def _list_folder(base: str, path: str, followed: set[str]) -> tuple[list[str], dict[str, int]]:
    """The folders in a folder, as paths below the base, and the bytes of its files by name."""
    folder, below, files = f"{base}/{path}", list[str](), dict[str, int]()
    with _open_folder(folder) as number, os.scandir(number) as entries:
        for entry in entries:
            name = entry.name
            try:
                if entry.is_file(follow_symlinks=False):
                    if not name.endswith(_CHECKSUM):
                        files[name] = entry.stat(follow_symlinks=False).st_size
                elif _is_folder(entry, folder, base, followed):
                    if name != OWN_FOLDER:
                        below.append(f"{path}/{name}" if path else name)
                elif entry.is_file() and not name.endswith(_CHECKSUM):
                    files[name] = entry.stat().st_size
            except FileNotFoundError:  # it has just been removed
                continue
    return below, files


@contextmanager
def _open_folder(path: str) -> Iterator[int]:
    """A folder's number: files are found sooner by it than by their whole paths."""
    number = os.open(path, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)


def _is_folder(entry: os.DirEntry[str], folder: str, base: str, followed: set[str]) -> bool:
    """Hudi follows links to folders; a link to a place in the table itself only shows again what is listed anyway.

    What a link leads to is listed once: links in a circle have paths without end.
    """
    if not entry.is_dir():
        return False
    if not entry.is_symlink():
        return True
    table, target = os.path.realpath(base), os.path.realpath(f"{folder}/{entry.name}")
    if target in followed or os.path.commonpath([table, target]) == table:
        return False
    followed.add(target)
    return True


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
