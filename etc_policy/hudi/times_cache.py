"""What was read from the log files of a table, kept in the user's own folder: each version of a file is read once."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from etc_policy.hudi.block_times import LogTimes, TimesWanted
from etc_policy.hudi.footers import can_read_parquet
from etc_policy.hudi.layout import parse_data_file
from etc_policy.policy.bounded_json import load_json
from etc_policy.policy.manifest import digest
from etc_policy.storage.object_cache import Cache
from etc_policy.storage.port import TableReader
from etc_policy.table.state import path_below

#: Raised when the same bytes may give another answer: earlier caches are then ignored.
RULES_VERSION = 12
#: So many log files that are gone are kept, the newest: how late events come is judged by them too, else by those alone that
#: were early enough not to be compacted yet.
KEPT_GONE = 2_000
#: Partitions that are listed side by side.
_THREADS = 16
#: The version of a file of which the storage names none now, as it was written a moment ago.
_NONE = ""


@dataclass
class TimesCache:
    """What was read from the log files of one table, by path and version of the file; `read` has what was read just now."""

    cache: Cache | None
    key: str
    entries: dict[str, tuple[str, LogTimes]]
    versions: Mapping[str, str] = field(default_factory=dict)
    read: dict[str, LogTimes] = field(default_factory=dict)

    @classmethod
    def load(cls, cache: Cache | None, base_path: str, wanted: TimesWanted) -> TimesCache:
        """The cache of a table; an empty one if it is missing or not what was written."""
        rules = {**asdict(wanted), "event_time": wanted.event_time.model_dump(), "rules": RULES_VERSION}
        key = digest({**rules, "parquet": can_read_parquet(), "log files of": base_path})
        kept = _unpacked(cache.get(key)) if cache is not None else {}
        return cls(cache, key, {path: entry for path, raw in kept.items() if (entry := _entry(raw))})

    def find(self, storage: TableReader, names: Mapping[str, Collection[str]]) -> None:
        """Ask which versions of files are there, by partition; without it nothing that was read before counts."""
        self.versions = {
            path_below(partition, name): versions[name]
            for partition, versions in file_versions(storage, names).items()
            for name in versions.keys() & names[partition]
        }

    def get(self, path: str) -> LogTimes | None:
        """What a log file holds, None where it was not read, or is another one now."""
        if path in self.read:
            return self.read[path]
        version, times = self.entries.get(path, (_NONE, None))
        return times if version != _NONE and version == self.versions.get(path) else None

    def put(self, path: str, times: LogTimes) -> None:
        """Keep what a log file holds."""
        self.read[path] = times
        self.entries[path] = self.versions.get(path, _NONE), times

    def save(self, present: set[str]) -> None:
        """Write the cache, of log files whose names are not `present` the newest; what is not written costs the next reading."""
        gone = [path for path in self.entries if path.rpartition("/")[2] not in present]
        too_old = set(sorted(gone, key=lambda path: (_instant_in(path), path), reverse=True)[KEPT_GONE:])
        own = {
            path: (
                *(version, t.min_ms, t.null_rows, t.unreadable, t.why, t.deletes, t.damaged, t.seen_ms, t.max_ms),
                *(sorted(t.instants), sorted(t.taken_back)),
            )
            for path, (version, t) in self.entries.items()
            if path not in too_old and not t.damaged  # it may be restored
        }
        if self.cache is not None and (self.read or len(own) < len(self.entries)):
            self.cache.put(self.key, json.dumps(own, sort_keys=True).encode())


def file_versions(
    storage: TableReader, partitions: Mapping[str, Collection[str] | None]
) -> dict[str, Mapping[str, str]]:
    """The versions of the files of each partition, at least of those named where names are given, as the storage has them now."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="versions") as pool:
        found = pool.map(partial(_versions, storage), partitions, partitions.values())
        return dict(zip(partitions, found, strict=True))


def _versions(storage: TableReader, partition: str, among: Collection[str] | None) -> Mapping[str, str]:
    with suppress(FileNotFoundError):
        storage.names(partition)  # a store knows the versions of what it has listed
        return storage.versions(partition, among)
    return {}


def _instant_in(path: str) -> str:
    found = parse_data_file(path.rpartition("/")[2])
    return found.instant if found else ""


def _unpacked(content: bytes | None) -> Mapping[str, Any]:
    with suppress(ValueError, RecursionError):
        kept = load_json(content or b"{}")
        return kept if isinstance(kept, Mapping) else {}
    return {}


def _entry(raw: Any) -> tuple[str, LogTimes] | None:
    """One log file's entry; None where it was not written by this code."""
    match raw:
        case [
            str(version),
            int() | None as min_ms,
            int(null_rows),
            str() | None as unreadable,
            str() | None as why,
            bool(deletes),
            bool(damaged),
            int() | None as seen_ms,
            int() | None as max_ms,
            list(instants),
            list(taken_back),
        ] if not any(isinstance(time, bool) for time in (min_ms, null_rows, seen_ms, max_ms)):
            if all(isinstance(one, str) for one in (*instants, *taken_back)):
                of_blocks = frozenset(instants), frozenset(taken_back)
                return version, LogTimes(
                    min_ms, null_rows, unreadable, why, deletes, damaged, seen_ms, max_ms, *of_blocks
                )
    return None
