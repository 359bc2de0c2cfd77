"""Markers: what Hudi notes in `.hoodie/.temp/<instant>` of each data file before it makes it, and removes the file by."""

from __future__ import annotations

from collections.abc import Iterator

from etc_policy.adapters.storage.port import TableReader

#: A marker is an empty file, or a line of a file of many where a timeline server keeps them.
_MARKER, _LISTING = ".marker.", "MARKERS"


def marker_files(storage: TableReader, instant: str) -> Iterator[str]:
    """The files in an instant's folder of markers, as paths below the table, without Hadoop's checksum files beside them."""
    return (path for path in storage.below(f".hoodie/.temp/{instant}") if not path.endswith(".crc"))


def announced_by(storage: TableReader, path: str) -> Iterator[str]:
    """The data files that a file of markers announces, as it names them: paths below the table, unless somebody else wrote it."""
    name, below = path.rpartition("/")[2], path.split("/", 3)[-1]
    lines = _lines(storage, path) if name.startswith(_LISTING) else [below]
    return (line.rsplit(_MARKER, 1)[0].lstrip("/") for line in lines if _MARKER in line)


def _lines(storage: TableReader, path: str) -> list[str]:
    try:
        return storage.read(path).decode("utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
