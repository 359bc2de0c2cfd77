"""Writers that are at work on a table: their pending writes, what these say of themselves, their heartbeats and markers.

Markers are what Hudi notes in `.hoodie/.temp/<instant>` of each data file before it makes it, and removes the file by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from etc_policy.errors import TableError
from etc_policy.hudi.completion_times import metadata_timeline
from etc_policy.hudi.layout import HEARTBEATS, InstantFile
from etc_policy.hudi.timeline import Timeline
from etc_policy.policy.schema import Writer
from etc_policy.storage.clocks import time_at
from etc_policy.storage.port import TableReader
from etc_policy.table.history import WRITES
from etc_policy.table.state import WRITE_ACTIONS, GroupKey, WriteInFlight

#: By Hudi's default a writer beats each minute, and is dead after two beats that were missed.
HEARTBEAT_EXPIRY_MS = Writer().heartbeat_expiry_ms
#: A marker is an empty file, or a line of a file of many where a timeline server keeps them.
_CHECKSUM = re.compile(r"(?:^|/)\.[^/]*\.crc$")
_MARKER, _LISTING = ".marker", "MARKERS"
#: No such file is larger: it has a line for each of so many data files.
_MAX_BYTES = 64 << 20


def living_writers(storage: TableReader, timeline: Timeline, heartbeat_expiry_ms: int) -> frozenset[str]:
    """Pending writes whose heartbeat has not expired."""
    pending = (
        f.requested for f in map(timeline.latest, timeline.files) if f.state != "completed" and f.action in WRITES
    )
    return frozenset(requested for requested in pending if _beats(storage, requested, heartbeat_expiry_ms))


def writes_in_flight(storage: TableReader, timeline: Timeline, heartbeat_expiry_ms: int) -> Iterator[WriteInFlight]:
    """Pending writes; one without a heartbeat file may be that of a writer alone on its table, who keeps none."""
    for file in map(timeline.latest, sorted(timeline.files)):
        if file.state != "completed" and file.action in WRITES:
            expired = _beats(storage, file.requested, heartbeat_expiry_ms) is False
            yield WriteInFlight(file.requested, _groups_added_to(file, timeline), may_live=not expired)


def open_in_metadata_table(storage: TableReader, timeline: Timeline, heartbeat_expiry_ms: int) -> tuple[str, ...]:
    """Pending instants of writers that may live and have a commit to the metadata table open.

    A client that does not stream to that table rolls them back there (facts: streaming-writers).
    """
    metadata = metadata_timeline(storage)
    if metadata is None:
        return ()
    begun = (metadata.files.keys() - metadata.completions.keys()) & (
        timeline.files.keys() - timeline.completions.keys()
    )
    writes = (one for one in sorted(begun) if timeline.latest(one).action in WRITE_ACTIONS)
    return tuple(one for one in writes if _beats(storage, one, heartbeat_expiry_ms) is not False)


def _groups_added_to(file: InstantFile, timeline: Timeline) -> frozenset[GroupKey] | None:
    """The file groups with keys that the write has found, which it notes when it becomes inflight; None before that."""
    if (file.state, file.action) != ("inflight", "deltacommit"):
        return None
    try:
        groups = timeline.commit(file.requested).stats.groups
    except TableError:  # it is being written
        return None
    return frozenset(group for group in groups if group[1]) if groups else None


def _beats(storage: TableReader, instant: str, expiry_ms: int) -> bool | None:
    """Whether a heartbeat is fresh; None if it is missing."""
    heartbeat = storage.info(f"{HEARTBEATS}/{instant}")
    if heartbeat is None:
        return None
    return time_at(storage.location) - heartbeat.modified_ns / 1e9 <= expiry_ms / 1000


def marker_files(storage: TableReader, instant: str) -> Iterator[str]:
    """The files in an instant's folder of markers, as paths below the table, without those that Hadoop hides: its checksums."""
    return (path for path in storage.below(f".hoodie/.temp/{instant}") if not _CHECKSUM.search(path))


def announced_by(storage: TableReader, path: str) -> Iterator[str]:
    """The data files that a file of markers announces, as it names them: paths below the table, unless somebody else wrote it."""
    name, below = path.rpartition("/")[2], path.split("/", 3)[-1]
    lines = _lines_of(storage, path) if name.startswith(_LISTING) else [below]
    files = (line.partition(_MARKER)[0] for line in lines if _MARKER in line)  # as Hudi does, which cuts at the first
    return (file.removeprefix("/") if file.count("/") == 1 else file for file in files)


def _lines_of(storage: TableReader, path: str) -> list[str]:
    try:
        return storage.read(path, _MAX_BYTES).decode("utf-8", errors="replace").replace("\r", "\n").split("\n")
    except FileNotFoundError:
        return []
