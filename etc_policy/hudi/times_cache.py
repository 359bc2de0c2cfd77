"""What was read from the log files of a table, kept from run to run: a log file is read once in its life."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from etc_policy.hudi.block_times import LogTimes, TimesWanted
from etc_policy.hudi.footers import can_read_parquet
from etc_policy.hudi.layout import parse_data_file
from etc_policy.policy.manifest import digest
from etc_policy.storage.files import read_below, write_below

#: Raised when the same bytes may give another answer: earlier caches are then ignored.
RULES_VERSION = 9
_MAX_BYTES = 256 * 1024 * 1024
#: So many log files that are gone are kept, the newest: how late events come is judged by them too, else by those alone that
#: were early enough not to be compacted yet.
KEPT_GONE = 2_000


@dataclass
class TimesCache:
    """What was read from the log files of one table, by path and size; one JSON file below its checksum, which may be deleted."""

    path: Path | None
    settings: str
    others: dict[str, dict[str, Any]]
    entries: dict[str, tuple[int, LogTimes]]
    changed: bool = False

    @classmethod
    def load(cls, folder: Path | None, base_path: str, wanted: TimesWanted) -> TimesCache:
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
        """Write the cache, of log files that are gone the newest; a folder that cannot be written only costs the next reading."""
        gone = sorted(self.entries.keys() - present, key=lambda path: (_instant_in(path), path), reverse=True)
        kept = present.union(gone[:KEPT_GONE])
        own = {
            path: (size, t.min_ms, t.null_rows, t.unreadable, t.why, t.deletes, t.damaged, t.seen_ms, t.max_ms)
            for path, (size, t) in self.entries.items()
            if path in kept and not t.damaged  # it may be restored, in as many bytes
        }
        if self.path is None or not (self.changed or len(own) < len(self.entries)):
            return
        others = {
            settings: {path: raw for path, raw in files.items() if path in present}
            for settings, files in self.others.items()
        }
        tables = {settings: files for settings, files in {**others, self.settings: own}.items() if files}
        with suppress(OSError):
            content = json.dumps(tables, sort_keys=True).encode()
            write_below(*_place(self.path), b"%08x\n%b" % (crc32(content), content))


def _instant_in(path: str) -> str:
    found = parse_data_file(path.rpartition("/")[2])
    return found.instant if found else ""


def _place(path: Path) -> tuple[Path, str]:
    """The folder that the cache's own is in, and the path from there: the target folder may be a link, the cache may not."""
    return path.parent.parent, f"{path.parent.name}/{path.name}"


def _load(path: Path | None) -> dict[str, dict[str, Any]]:
    try:
        checksum, _, text = read_below(*_place(path), _MAX_BYTES).partition(b"\n") if path else (b"", b"", b"{}")
        content = json.loads(text) if path is None or checksum == b"%08x" % crc32(text) else {}
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, Mapping):
        return {}
    return {settings: dict(files) for settings, files in content.items() if isinstance(files, Mapping)}


def _entry(raw: Any) -> tuple[int, LogTimes] | None:
    """One log file's entry; None where it was not written by this code."""
    match raw:
        case [
            int(size),
            int() | None as min_ms,
            int(null_rows),
            str() | None as unreadable,
            str() | None as why,
            bool(deletes),
            bool(damaged),
            int() | None as seen_ms,
            int() | None as max_ms,
        ] if not any(isinstance(time, bool) for time in (min_ms, null_rows, seen_ms, max_ms)):
            return size, LogTimes(min_ms, null_rows, unreadable, why, deletes, damaged, seen_ms, max_ms)
    return None
