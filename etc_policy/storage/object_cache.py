"""Copies of files that never change, on this machine: in the user's own folder, which no project and no pull request fills."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from etc_policy.storage.safe_files import folder_of, open_regular, replace_in

#: Larger files are read from the store; when the copies take more than the second, the oldest go.
MAX_FILE_BYTES, MAX_BYTES = 32 << 20, 512 << 20
#: The same for what is kept of tables: that of two million write stats; of a larger table nothing is kept.
MAX_TABLE_BYTES, MAX_TABLES_BYTES = 256 << 20, 1 << 30
#: Disks give space in such pieces at least.
_BLOCK = 4_096
#: What is left then.
_KEPT_SHARE = 0.75
#: Below the folder; what else is kept there is not counted, and stays.
_ENTRIES = "objects"
_TABLES = "tables"
#: The certificates that Java is given, where the folder is the user's default one.
_TRUST_STORES = "trust-*.p12"
_DIGEST = hashlib.sha256
_DIGEST_BYTES = _DIGEST().digest_size
_IS_ENTRY = re.compile(r"/[0-9a-f]{2}/[0-9a-f]{62}$")


def cache_in(folder: Path, server: str = "") -> Cache:
    """The cache in a folder, one for all tables, as far as it is of a server."""
    return _OfServer(_objects_in(folder), server)


def tables_cache_in(folder: Path, server: str = "") -> Cache:
    """The cache for what is kept of tables, one for all, as far as it is of a server."""
    return _OfServer(_tables_in(folder), server)


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """The user's folder for it: the one that `ETC_CACHE` names; None where that is `off`, or where there is no home."""
    chosen = environment.get("ETC_CACHE")
    if chosen:
        return Path(chosen) if chosen != "off" else None
    home = environment.get("XDG_CACHE_HOME") or (f"{environment['HOME']}/.cache" if environment.get("HOME") else None)
    return Path(home) / "etc-policy" if home else None


class KeptFiles(NamedTuple):
    """Files of one kind in the user's folder, with their bytes on disk, and how large all may grow; None without a bound."""

    what: str
    files: tuple[tuple[str, int], ...]
    limit_bytes: int | None = None

    @property
    def size_bytes(self) -> int:
        """That of all."""
        return sum(size for _, size in self.files)


def kept_in(folder: Path) -> tuple[KeptFiles, ...]:
    """What etc keeps in the user's folder; other files there are not its own."""
    stores = (path for path in folder.glob(_TRUST_STORES) if path.is_file() and not path.is_symlink())
    return (
        KeptFiles("copies of files on object stores", tuple(ObjectCache(folder).files()), MAX_BYTES),
        KeptFiles(
            "what commits and log files of tables say", tuple(ObjectCache(folder / _TABLES).files()), MAX_TABLES_BYTES
        ),
        KeptFiles("certificates for Java", tuple((str(path), path.stat().st_size) for path in stores)),
    )


def clear(kept: KeptFiles) -> None:
    """Remove the files; other processes may do the same.

    Raises:
        OSError: one cannot be removed.

    """
    for path, _ in kept.files:
        Path(path).unlink(missing_ok=True)


class Cache(Protocol):
    """Contents by a key that says which version of which object they are of."""

    def get(self, key: str) -> bytes | None:
        """The content that was kept under a key."""

    def put(self, key: str, content: bytes) -> None:
        """Keep a content."""


class MemoryCache(dict[str, bytes]):
    """A cache that lasts as long as the process, at most."""

    def put(self, key: str, content: bytes) -> None:
        """Keep a content."""
        self[key] = content


@dataclass(frozen=True, slots=True)
class _OfServer:
    """What is kept of one server: what another has at the same place, it may call the same version."""

    kept: Cache
    server: str

    def get(self, key: str) -> bytes | None:
        return self.kept.get(f"{self.server}\0{key}")

    def put(self, key: str, content: bytes) -> None:
        self.kept.put(f"{self.server}\0{key}", content)


class ObjectCache:
    """Contents by a key that says which version of which object they are of. What cannot be kept or read is not there.

    An entry begins with the digest of key and content: one that is cut short, or was written for another key, is ignored.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        self._folder, self._max_bytes, self._max_file_bytes = folder, max_bytes, max_file_bytes
        self._bytes: int | None = None

    def get(self, key: str) -> bytes | None:
        """The content that was kept under a key."""
        with suppress(OSError), folder_of(self._folder, _entry(key), make=False) as (folder, name):
            with os.fdopen(open_regular(folder, name, os.O_RDONLY), "rb", buffering=0) as opened:
                found = os.fstat(opened.fileno())
                if (
                    found.st_uid != os.geteuid()
                    or found.st_mode & stat.S_IWOTH
                    or found.st_size > _DIGEST_BYTES + self._max_file_bytes
                ):
                    return None
                digest, content = opened.read(_DIGEST_BYTES), opened.read(found.st_size)
            if digest == _digest(key, content):
                return content
        return None

    def put(self, key: str, content: bytes) -> None:
        """Keep a content, in one step."""
        if len(content) > self._max_file_bytes:
            return
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with folder_of(self._folder, _entry(key), make=True) as (folder, name):
                replace_in(folder, name, _digest(key, content) + content)
            self._bound(-(-len(content) // _BLOCK) * _BLOCK)

    def _bound(self, added: int) -> None:
        """Remove the oldest entries where all take too much; other processes may do the same."""
        if self._bytes is not None:
            self._bytes += added
            if self._bytes <= self._max_bytes:
                return
        found = sorted(self._entries())
        self._bytes = sum(size for _, size, _ in found)
        for _, size, path in found if self._bytes > self._max_bytes else ():
            if self._bytes <= self._max_bytes * _KEPT_SHARE:
                return
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - one of ours
            self._bytes -= size

    def files(self) -> Iterator[tuple[str, int]]:
        """The path and size on disk of each entry."""
        return ((path, size) for _, size, path in self._entries() if _IS_ENTRY.search(path))

    def _entries(self) -> list[tuple[float, int, str]]:
        """The time, size on disk and path of each entry."""
        found = []
        for parent, _, names in os.walk(self._folder / _ENTRIES):
            for name in names:
                with suppress(OSError):
                    path = os.path.join(parent, name)  # noqa: PTH118
                    one = os.lstat(path)
                    found.append((one.st_mtime, max(one.st_size, one.st_blocks * 512), path))
        return found


@cache
def _objects_in(folder: Path) -> ObjectCache:
    return ObjectCache(folder)


@cache
def _tables_in(folder: Path) -> ObjectCache:
    return ObjectCache(folder / _TABLES, MAX_TABLES_BYTES, MAX_TABLE_BYTES)


def _entry(key: str) -> str:
    name = _DIGEST(key.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{_ENTRIES}/{name[:2]}/{name[2:]}"


def _digest(key: str, content: bytes) -> bytes:
    digest = _DIGEST(key.encode("utf-8", "surrogateescape") + b"\0")
    digest.update(content)
    return digest.digest()
