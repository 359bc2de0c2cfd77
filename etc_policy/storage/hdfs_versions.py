"""Documents of which only one of many writers makes the next version, on a storage that has no conditional put.

Each version is a file with the next number, which only one can create. A file goes once there is one with a higher number,
so the highest number never falls: whoever was late enough to create a number anew sees a higher one, and has lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from etc_policy.storage.port import FileInfo, TableStorage, Version

#: A version that is replaced while it is read is looked for again so often.
_TRIES = 20


def version(storage: TableStorage, path: str) -> Version | None:
    """The document with the highest number; None without one."""
    folder = versions_folder(path)
    for left in reversed(range(_TRIES)):
        found = _numbered(storage, folder)
        if not found:
            return None
        last = max(found)
        try:
            return Version(storage.read(f"{folder}/{last}"), str(last), found[last].modified_ns)
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
