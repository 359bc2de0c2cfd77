"""Documents of which only one of many writers makes the next version, on a storage that has no conditional put.

Each version is a file with the next number, which only one can create. A file goes once there is one with a higher number,
so the highest number never falls: whoever was late enough to create a number anew sees a higher one, and has lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from etc_policy.adapters.storage.port import FileInfo, TableStorage, Version

#: A version that is replaced while it is read is looked for again so often.
_TRIES = 20


class HdfsVersions:
    """The documents of a storage; the tag of a version is its number."""

    def __init__(self, storage: TableStorage) -> None:
        self._storage = storage

    def version(self, path: str) -> Version | None:
        """The document with the highest number; None where there is none."""
        folder = _folder(path)
        for left in reversed(range(_TRIES)):
            found = self._numbered(folder)
            if not found:
                return None
            last = max(found)
            try:
                return Version(self._storage.read(f"{folder}/{last}"), str(last), found[last].modified_ns)
            except FileNotFoundError:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def replace_version(self, path: str, content: bytes, tag: str | None) -> str | None:
        """Write the version after that of the tag; its tag, or None where there is another."""
        folder, number = _folder(path), int(tag) + 1 if tag is not None else 1
        try:
            self._storage.create(f"{folder}/{number}", content)
        except (FileExistsError, FileNotFoundError):  # somebody was first, or has replaced ours before its answer came
            return None
        found = self._numbered(folder)
        if max(found, default=number) > number:
            self._storage.remove(f"{folder}/{number}")
            return None
        for older in found.keys() - {number}:
            self._storage.remove(f"{folder}/{older}")
        return str(number)

    def remove_versions(self, path: str) -> None:
        """Remove a document with all its numbers."""
        self._storage.remove_tree(_folder(path))

    def _numbered(self, folder: str) -> Mapping[int, FileInfo]:
        try:
            listed = self._storage.list(folder)
        except FileNotFoundError:
            return {}
        return {int(name): info for name, info in listed.items() if name.isascii() and name.isdecimal()}


def _folder(path: str) -> str:
    return f"{path}.versions"
