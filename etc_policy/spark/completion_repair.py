"""The files of a repair: what it is planned from, and the renaming of a completed instant."""

from __future__ import annotations

from etc_policy.errors.codes import Code
from etc_policy.hudi.archive import Archive
from etc_policy.hudi.completion_times import completed_files, metadata_timeline, wrong_times
from etc_policy.hudi.history import own_pending
from etc_policy.hudi.properties import metadata_partitions, read_properties
from etc_policy.hudi.stable_reading import read_until_stable
from etc_policy.hudi.timeline import Timeline, read_timeline
from etc_policy.hudi.zones import table_zone
from etc_policy.plan.repair import RepairFacts, SetCompletion, TimelineFacts
from etc_policy.spark import metadata_renewal
from etc_policy.storage.open_storage import open_reader, open_storage
from etc_policy.storage.port import TableReader, TableStorage, os_errors_as
from etc_policy.table.completion_times import TimelineName

_SERVICES = ("compaction", "logcompaction")


class HudiRepairFiles:
    """Reads the timelines of a table and of its metadata table, and renames files on them."""

    def facts(self, base_path: str) -> RepairFacts:
        """What is on both timelines now.

        Raises:
            TableError: the table cannot be read.
            RetryableError: it kept changing.

        """
        storage = open_reader(base_path)
        return read_until_stable(storage.location, lambda: _facts(storage))

    def set_completion(self, base_path: str, step: SetCompletion) -> None:
        """Rename a completed instant's file; the checksum of its old name goes first.

        A run that was killed may have left both names: then the old one goes.

        Raises:
            EngineError: the file is not there, or another one of the new name is.
            RetryableError: the table's store does not answer.

        """
        storage = open_storage(base_path)
        folder = _timeline(storage, step.timeline).folder
        old, new = (f"{step.requested}_{time}.{step.action}" for time in (step.completed, step.right))
        message = f"`{old}` in `{storage.location}/{folder}` cannot be renamed to `{new}`"
        with os_errors_as(Code.CANNOT_RENAME, message):
            storage.remove(f"{folder}/.{old}.crc")
            _move(storage, f"{folder}/{old}", f"{folder}/{new}")


def _move(storage: TableStorage, old: str, new: str) -> None:
    try:
        storage.move(old, new)
    except FileExistsError:
        if storage.read(old) != storage.read(new):
            raise
        storage.remove(old)


def _facts(storage: TableReader) -> RepairFacts:
    properties = read_properties(storage)
    timeline, metadata, zone = _timeline(storage, "table"), metadata_timeline(storage), table_zone(properties)
    partitions = metadata_partitions(properties)
    archived = Archive(storage, properties).completions
    return RepairFacts(
        base_path=storage.location,
        table_version=int(properties["hoodie.table.version"]),
        timezone=zone,
        table=_timeline_facts("table", timeline, zone),
        metadata=_timeline_facts("metadata table", metadata, zone) if metadata else None,
        metadata_partitions=partitions,
        owed=metadata_renewal.owed(storage.location, partitions),
        own_pending=own_pending(timeline),
        archived=tuple(sorted(requested for requested, completed in archived.items() if completed < requested)),
    )


def _timeline_facts(name: TimelineName, timeline: Timeline, timezone: str) -> TimelineFacts:
    completed = completed_files(timeline)
    return TimelineFacts(
        completed=completed,
        pending=tuple(sorted(timeline.files.keys() - timeline.completions.keys())),
        wrong=wrong_times(name, timeline, completed, timezone),
        services=frozenset(r for r, files in timeline.files.items() if any(f.action in _SERVICES for f in files)),
    )


def _timeline(storage: TableReader, name: TimelineName) -> Timeline:
    if name == "table":
        return read_timeline(storage, read_properties(storage))
    metadata = metadata_timeline(storage)
    if metadata is None:
        raise FileNotFoundError(f"{storage.location} has no metadata table")
    return metadata
