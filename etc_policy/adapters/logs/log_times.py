"""Smallest event times of log files from their own blocks, where nothing cheaper knows them (FACTS 4.3), and a cache."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from etc_policy.adapters.hudi.properties import read_properties
from etc_policy.adapters.logs.event_times import LogTimes, TimesWanted, read_times
from etc_policy.adapters.logs.parquet import can_read_parquet
from etc_policy.adapters.outputs.files import read_below, write_below
from etc_policy.adapters.storage.door import open_storage
from etc_policy.adapters.storage.port import TableStorage
from etc_policy.compile.manifest import Policy, digest
from etc_policy.plan.formats import count_of, format_bytes
from etc_policy.plan.table_state import FileSlice, LogFile, TableState, UnreadableTime

#: Beyond so many bytes the reading is announced, and again after as many more.
ANNOUNCED_BYTES = 256 * 1024 * 1024
#: Raised when the same bytes may give another answer: earlier caches are then ignored.
RULES_VERSION = 2
_MAX_BYTES = 256 * 1024 * 1024

_ORDERING = ("hoodie.table.ordering.fields", "hoodie.table.precombine.field")

Progress = Callable[[str], None]


def fill_from_logs(
    state: TableState, policy: Policy, cache_dir: Path | None, progress: Progress = lambda _: None
) -> TableState:
    """The state with the event times that the unknown log files themselves hold; which of them delete stays as it was.

    What was read is kept in `cache_dir` for the next time; without one nothing is kept. A file that cannot be read, or
    not in full, stays unknown.
    """
    missing = [(s, f) for s, f in state.log_files if f.min_event_time_ms is None]
    if not missing:
        return state
    storage = open_storage(state.base_path)
    cache = _Cache.load(cache_dir, state.base_path, wanted := _wanted(storage, policy, state))
    unread = [(s, f) for s, f in missing if cache.get(_path(s, f), f.size_bytes) is None]
    announce = _announcer(policy.name, unread, progress)
    for file_slice, log_file in unread:
        announce(log_file)
        path = _path(file_slice, log_file)
        times = _read(storage, path, log_file.size_bytes, wanted)
        if times is not None:
            cache.put(path, log_file.size_bytes, times)
    cache.save({_path(s, f) for s, f in state.log_files})
    slices = tuple(_filled(file_slice, cache) for file_slice in state.slices)
    return replace(state, slices=slices, unreadable_time=_unreadable(missing, cache))


def _unreadable(missing: list[tuple[FileSlice, LogFile]], cache: _Cache) -> UnreadableTime | None:
    """The first log file whose values cannot be read as the policy says."""
    read = ((f.name, cache.get(_path(s, f), f.size_bytes)) for s, f in missing)
    return next((UnreadableTime(name, times.unreadable) for name, times in read if times and times.unreadable), None)


def _path(file_slice: FileSlice, log_file: LogFile) -> str:
    return f"{file_slice.partition}/{log_file.name}" if file_slice.partition else log_file.name


def _filled(file_slice: FileSlice, cache: _Cache) -> FileSlice:
    return replace(
        file_slice, log_files=tuple(_with_time(f, cache, _path(file_slice, f)) for f in file_slice.log_files)
    )


def _with_time(log_file: LogFile, cache: _Cache, path: str) -> LogFile:
    """A row without event time may be a delete in a log file with deletes, so that such a file stays unknown."""
    times = cache.get(path, log_file.size_bytes) if log_file.min_event_time_ms is None else None
    if times is None or times.min_ms is None or (times.has_nulls and log_file.has_deletes):
        return log_file
    return log_file._replace(min_event_time_ms=times.min_ms)


def _wanted(storage: TableStorage, policy: Policy, state: TableState) -> TimesWanted:
    properties = read_properties(storage)
    names = next(filter(None, (properties.get(key) for key in _ORDERING)), "")
    ordering = tuple(name.strip() for name in names.split(",") if name.strip())
    return TimesWanted(policy.event_time, state.event_time_type, ordering)


def _read(storage: TableStorage, path: str, size: int, wanted: TimesWanted) -> LogTimes | None:
    """What the log file holds; None where the file system does not give it as it was listed."""
    try:
        with storage.open(path) as stream:
            if stream.seek(0, os.SEEK_END) != size:
                return None
            stream.seek(0)
            return read_times(stream, size, wanted)
    except OSError:
        return None


def _announcer(name: str, unread: list[tuple[FileSlice, LogFile]], progress: Progress) -> Callable[[LogFile], None]:
    """To be called before each file is read; says so when there is much to read."""
    total, files = sum(f.size_bytes for _, f in unread), count_of(len(unread), "log file")
    done = due = 0

    def announce(log_file: LogFile) -> None:
        nonlocal done, due
        if total > ANNOUNCED_BYTES and done >= due:
            progress(f"{name}: reading event times of {files} ({format_bytes(done)} of {format_bytes(total)} read)")
            due += ANNOUNCED_BYTES
        done += log_file.size_bytes

    return announce


@dataclass
class _Cache:
    """What was read from the log files of one table, by path and size; one JSON file, which may be deleted."""

    path: Path | None
    settings: str
    others: dict[str, dict[str, Any]]
    entries: dict[str, tuple[int, LogTimes]]
    changed: bool = False

    @classmethod
    def load(cls, folder: Path | None, base_path: str, wanted: TimesWanted) -> _Cache:
        """The cache of a table; an empty one if it is missing or not what was written."""
        rules = {**asdict(wanted), "event_time": wanted.event_time.model_dump(), "rules": RULES_VERSION}
        settings = digest({**rules, "parquet": can_read_parquet()})
        path = folder / f"event_times-{digest(base_path)}.json" if folder else None
        others = _load(path)
        entries = {name: entry for name, raw in others.pop(settings, {}).items() if (entry := _entry(raw))}
        return cls(path, settings, others, entries)

    def get(self, path: str, size: int) -> LogTimes | None:
        """What a log file of this path and size holds, None where it was not read."""
        entry = self.entries.get(path)
        return entry[1] if entry is not None and entry[0] == size else None

    def put(self, path: str, size: int, times: LogTimes) -> None:
        """Keep what a log file holds."""
        self.entries[path] = (size, times)
        self.changed = True

    def save(self, present: set[str]) -> None:
        """Write the cache, without log files that are gone; a folder that cannot be written only costs the next reading."""
        own = {
            path: (size, t.min_ms, t.has_nulls, t.unreadable)
            for path, (size, t) in self.entries.items()
            if path in present
        }
        if self.path is None or not (self.changed or len(own) < len(self.entries)):
            return
        others = {
            settings: {path: raw for path, raw in files.items() if path in present}
            for settings, files in self.others.items()
        }
        tables = {settings: files for settings, files in {**others, self.settings: own}.items() if files}
        with suppress(OSError):
            write_below(*_place(self.path), json.dumps(tables, sort_keys=True).encode())


def _place(path: Path) -> tuple[Path, str]:
    """The folder that the cache's own is in, and the path from there: the target folder may be a link, the cache may not."""
    return path.parent.parent, f"{path.parent.name}/{path.name}"


def _load(path: Path | None) -> dict[str, dict[str, Any]]:
    try:
        content = json.loads(read_below(*_place(path), _MAX_BYTES)) if path else {}
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, Mapping):
        return {}
    return {settings: dict(files) for settings, files in content.items() if isinstance(files, Mapping)}


def _entry(raw: Any) -> tuple[int, LogTimes] | None:  # noqa: ANN401 - any JSON value
    """One log file's entry; None where it was not written by this code."""
    match raw:
        case [int(size), int() | None as min_ms, bool(has_nulls), str() | None as unreadable] if min_ms is not True:
            return size, LogTimes(min_ms, has_nulls, unreadable)
    return None
