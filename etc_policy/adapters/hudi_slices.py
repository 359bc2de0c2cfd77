"""The latest file slices of a table, from a listing of its partitions and the timeline."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etc_policy.adapters.hudi_layout import DataFileName, parse_data_file
from etc_policy.adapters.hudi_timeline import Timeline, file_name, write_stats
from etc_policy.plan.table_state import FileSlice, LogFile

#: What commit metadata tells of one (requested instant, partition, file id): smallest event time, and whether it deleted.
#: The partition counts: with non-blocking concurrency a bucket has the same file id in every partition.
CommitFacts = Mapping[tuple[str, str, str], tuple[int | None, bool]]

_PARTITION_MARKER = ".hoodie_partition_metadata"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a completed commit: where it lies, its bytes, and when its commit completed."""

    partition: str
    name: DataFileName
    size_bytes: int
    completed: str


def list_partitions(base: Path) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """(partition path, [(file name, bytes)]) of every partition folder below a table."""
    folders = [""]
    while folders:
        partition = folders.pop()
        files, marked = [], False
        with os.scandir(base / partition) as entries:
            for entry in entries:
                if entry.name.startswith(_PARTITION_MARKER):
                    marked = True
                elif _is_folder(entry, base):
                    if not entry.name.startswith("."):
                        folders.append(f"{partition}/{entry.name}" if partition else entry.name)
                elif not (entry.name.endswith(".crc") or _is_dangling(entry)):
                    files.append((entry.name, entry.stat().st_size))
        if marked:
            yield partition, files


def _is_folder(entry: os.DirEntry[str], base: Path) -> bool:
    """Hudi follows links to folders; a link to a place in the table itself only shows again what is listed anyway."""
    if not entry.is_symlink():
        return entry.is_dir()
    return entry.is_dir() and not Path(entry.path).resolve().is_relative_to(base.resolve())


def _is_dangling(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() and not Path(entry.path).exists()


def list_files(base: Path, timeline: Timeline, completion: Callable[[str], str | None]) -> list[DataFile]:
    """Every data file of a commit that completed, less the file groups that were replaced.

    `completion` gives the completion time of an instant, archived ones included, and None where it never completed.
    """
    found = []
    for partition, files in list_partitions(base):
        for name, size in files:
            parsed = parse_data_file(name)
            if parsed is not None and (partition, parsed.file_id) not in timeline.replaced:
                completed = completion(parsed.instant) or _begun(parsed, timeline)
                if completed is not None:
                    found.append(DataFile(partition, parsed, size, completed))
    return found


def _begun(name: DataFileName, timeline: Timeline) -> str | None:
    """Before table version 8 a log file may be named by a compaction that is still pending, and holds committed blocks."""
    return name.instant if timeline.layout < 2 and name.is_log and name.instant in timeline.files else None


def build_slices(files: Iterable[DataFile], facts: CommitFacts, *, by_name: bool) -> tuple[FileSlice, ...]:
    """The latest slice of every file group.

    A log file belongs to the newest base file at or below its completion time (FACTS 1); with `by_name`, before table
    version 8, the base instant in its name decides (FACTS 8).
    """
    groups: dict[tuple[str, str], list[DataFile]] = defaultdict(list)
    for file in files:
        groups[file.partition, file.name.file_id].append(file)
    return tuple(_latest_slice(groups[key], facts, by_name=by_name) for key in sorted(groups))


def find_missing(
    metadata: Mapping[str, Mapping[str, Any]], files: Iterable[DataFile], timeline: Timeline
) -> tuple[str, ...]:
    """Paths of the data files that completed commits say they wrote, that belong to a latest slice and are not there.

    What a newer base file has merged, and what lies in a file group that was replaced, may have been cleaned.
    """
    present: set[tuple[str, str]] = set()
    newest: dict[tuple[str, str], str] = defaultdict(str)
    for file in files:
        present.add((file.partition, file.name.name))
        if not file.name.is_log:
            group = file.partition, file.name.file_id
            newest[group] = max(newest[group], file.name.instant)
    return tuple(
        sorted(
            f"{partition}/{name.name}".lstrip("/")
            for partition, name, completed in _booked(metadata, timeline, but=present)
            if (partition, name.file_id) not in timeline.replaced
            and (completed if name.is_log else name.instant) >= newest[partition, name.file_id]
        )
    )


def _booked(
    metadata: Mapping[str, Mapping[str, Any]], timeline: Timeline, *, but: Container[tuple[str, str]]
) -> Iterator[tuple[str, DataFileName, str]]:
    """(partition, data file, completion time) of what completed commits say they wrote; empty files are not written."""
    for requested, commit in metadata.items():
        for partition, stat in write_stats(commit):
            name = file_name(stat)
            if (partition, name) in but or not stat.get("fileSizeInBytes"):
                continue
            parsed = parse_data_file(name)
            if parsed is not None:
                yield partition, parsed, timeline.completions[requested]


def _latest_slice(group: list[DataFile], facts: CommitFacts, *, by_name: bool) -> FileSlice:
    bases = [file for file in group if not file.name.is_log]
    logs = [file for file in group if file.name.is_log]
    newest = max((file.name.instant for file in bases), default="")
    base = max((file for file in bases if file.name.instant == newest), key=lambda file: file.name.name, default=None)
    own = [file for file in logs if (file.name.instant if by_name else file.completed) >= newest]
    own.sort(key=lambda file: (file.completed, file.name.instant, file.name.version, file.name.name))
    return FileSlice(
        partition=group[0].partition,
        file_id=group[0].name.file_id,
        base_instant=newest or min((file.name.instant for file in own), default=""),
        base_file=base.name.name if base else None,
        base_file_bytes=base.size_bytes if base else 0,
        log_files=tuple(_log_file(file, facts, unknown=(None, not by_name)) for file in own),
    )


def _log_file(file: DataFile, facts: CommitFacts, unknown: tuple[None, bool]) -> LogFile:
    """The log file with its commit's facts; one that no commit speaks of may hold deletes."""
    event_time_ms, deletes = facts.get((file.name.instant, file.partition, file.name.file_id), unknown)
    return LogFile(file.name.name, file.size_bytes, file.name.instant, file.completed, event_time_ms, deletes)
