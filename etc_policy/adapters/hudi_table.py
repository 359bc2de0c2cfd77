"""TableStateReader over a table's own files: properties, timeline, commit metadata and a listing; no JVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from etc_policy.adapters.hudi_archive import Archive
from etc_policy.adapters.hudi_layout import InstantFile, local_path, parse_properties, timeline_folder
from etc_policy.adapters.hudi_slices import CommitFacts, DataFile, build_slices, list_files
from etc_policy.adapters.hudi_timeline import (
    Timeline,
    all_times,
    decode_metadata,
    fingerprint,
    read_timeline,
    table_zone,
    write_stats,
)
from etc_policy.compile.manifest import EventTime
from etc_policy.errors import RetryableError, TableError
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.plan.table_state import CompactionRecord, TableState

#: A timeline file may be archived between the listing and its reading: read again this often.
ATTEMPTS = 4

#: Hudi's default: a beat each minute, and a writer is dead after two that were missed.
WRITER_HEARTBEAT_TOLERANCE_SECONDS = 180

_TIME_TYPES = frozenset(
    {"int", "long", "string", "date", "timestamp-millis", "timestamp-micros"}
    | {"timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros"}
)
_WRITES = ("commit", "deltacommit", "replacecommit")


class FileTableReader:
    """Reads the state of tables on a file system."""

    def read(self, base_path: str, event_time: EventTime) -> TableState:
        """The table's state now.

        Raises:
            TableError: no table there, or one that cannot be handled (each reason has its own code).
            RetryableError: the timeline kept changing while it was read.

        """
        base = local_path(base_path)
        properties = read_properties(base)
        for _ in range(ATTEMPTS):
            try:
                return _read_state(base, properties, event_time)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise TableError("ETC213", f"cannot read the table at `{base}`", cause=str(error)) from error
        raise RetryableError("ETC401", f"the timeline of `{base}` kept changing while it was read", hint="run it again")


def read_properties(base: Path) -> dict[str, str]:
    """The properties of a merge-on-read table that we can handle; raises TableError for any other."""
    path = base / ".hoodie" / "hoodie.properties"
    if not base.is_dir():
        raise TableError(
            "ETC201", f"there is no table at `{base}`: the folder does not exist", hint="check `table` in the policy"
        )
    if not path.is_file():
        raise TableError("ETC202", f"`{base}` is not a Hudi table: it has no .hoodie/hoodie.properties")
    properties = parse_properties(path.read_text("utf-8", errors="replace"))
    kind = properties.get("hoodie.table.type", "COPY_ON_WRITE")
    if kind != "MERGE_ON_READ":
        hint = "its read-optimized and snapshot views are the same: there is nothing to compact"
        raise TableError("ETC203", f"`{base}` is a {kind.lower().replace('_', '-')} table", hint=hint)
    if properties.get("hoodie.bootstrap.base.path"):
        raise TableError("ETC204", f"`{base}` is a bootstrap table, which is not supported")
    if not properties.get("hoodie.table.version", "").isdigit():
        raise TableError("ETC205", f"hoodie.properties of `{base}` names no table version")
    return properties


def _read_state(base: Path, properties: Mapping[str, str], event_time: EventTime) -> TableState:
    timeline = read_timeline(*timeline_folder(base, dict(properties)))
    archive = Archive(base, properties)
    metadata = {f.requested: timeline.metadata(f) for f in map(timeline.latest, timeline.files) if _is_write(f)}
    column_type = _column_type(event_time.column, metadata, base)
    files = list_files(base, timeline, _completion(timeline, archive))
    if timeline.layout >= 2:
        archived = frozenset(file.name.instant for file in files if file.name.is_log) - timeline.files.keys()
        facts = commit_facts(
            {**archive.commit_metadata(archived), **metadata},
            trusted=_tracked(event_time, column_type),
            hides_deletes=_hides_deletes(properties),
        )
    else:
        facts = slice_facts(metadata, files, timeline.first_active or "", hides_deletes=_hides_deletes(properties))
    return TableState(
        base_path=str(base),
        table_name=properties.get("hoodie.table.name", base.name),
        table_version=int(properties["hoodie.table.version"]),
        timezone=table_zone(properties),
        record_key_fields=_names(properties.get("hoodie.table.recordkey.fields")),
        partition_fields=_names(properties.get("hoodie.table.partition.fields")),
        metadata_partitions=_names(properties.get("hoodie.table.metadata.partitions")),
        properties_fingerprint=fingerprint(properties),
        event_time_type=column_type,
        instants=timeline.instants(),
        metadata_instants=_metadata_instants(base),
        slices=build_slices(files, facts, by_name=timeline.layout < 2),
        earliest_commit_to_retain=_retained(timeline),
        last_compaction=_last_compaction(timeline, metadata, archive),
        own_pending=_own_pending(timeline),
        living_writers=_living_writers(base, timeline),
    )


def _tracked(event_time: EventTime, column_type: str | None) -> bool:
    """Whether the event times that the writer recorded are the policy's: it reads 10-digit s or 13-digit ms (FACTS 4.1)."""
    if event_time.format is not None or event_time.unit == "us":
        return False
    return column_type != "string" or event_time.unit is not None


def _completion(timeline: Timeline, archive: Archive) -> Callable[[str], str | None]:
    """Completion time of an instant; None where it has not completed or was rolled back."""

    def completion(instant: str) -> str | None:
        if instant in timeline.completions:
            return timeline.completions[instant]
        if instant in timeline.files or timeline.first_active is None or instant >= timeline.first_active:
            return None
        return archive.completions.get(instant, instant)

    return completion


def _is_write(file: InstantFile) -> bool:
    return file.state == "completed" and file.action in _WRITES


def commit_facts(
    metadata: Mapping[str, Mapping[str, Any]], *, trusted: bool, hides_deletes: bool = False
) -> CommitFacts:
    """Per (commit, file group) the smallest event time over all its write stats, None if any stat lacks one (FACTS 4.1).

    A stat with deletes counts as unknown: deletes by key carry no event time, and the stat does not tell them apart.
    `trusted` is false where the recorded times cannot be the policy's; `hides_deletes` where stats do not count deletes.
    """
    facts: dict[tuple[str, str, str], tuple[int | None, bool]] = {}
    for requested, commit in metadata.items():
        opaque = hides_deletes or commit.get("operationType") in (None, "UNKNOWN", "LOG_COMPACT")
        for partition, stat in write_stats(commit):
            key = (requested, partition, stat.get("fileId") or "")
            deletes = bool(stat.get("numDeletes")) or opaque
            value = stat.get("minEventTime") if trusted and not deletes else None
            before, had_deletes = facts.get(key, (value, False))
            lowest = None if before is None or value is None else min(before, value)
            facts[key] = (lowest, had_deletes or deletes)
    return facts


def slice_facts(
    metadata: Mapping[str, Mapping[str, Any]], files: Iterable[DataFile], first_active: str, *, hides_deletes: bool
) -> CommitFacts:
    """On layout 1, per (base instant, file group): whether its log files may hold deletes; never an event time.

    There a log file is named by its base file's instant, so no commit's event times can be matched to it. Commits on a
    slice that is older than the active timeline may be archived, and are not known.
    """
    facts: dict[tuple[str, str, str], tuple[int | None, bool]] = {
        (file.name.instant, file.partition, file.name.file_id): (None, True)
        for file in files
        if file.name.is_log and (hides_deletes or file.name.instant < first_active)
    }
    for commit in metadata.values():
        for partition, stat in write_stats(commit):
            if stat.get("numDeletes"):
                facts[stat.get("prevCommit") or "", partition, stat.get("fileId") or ""] = (None, True)
    return facts


def _hides_deletes(properties: Mapping[str, str]) -> bool:
    """Custom mergers may delete at merge, and the operation field hides deletes from the write stats (FACTS 3)."""
    custom = properties.get("hoodie.record.merge.mode") == "CUSTOM"
    return custom or properties.get("hoodie.allow.operation.metadata.field") == "true"


def _column_type(column: str, metadata: Mapping[str, Mapping[str, Any]], base: Path) -> str | None:
    for requested in sorted(metadata, reverse=True):
        schema = (metadata[requested].get("extraMetadata") or {}).get("schema")
        if not schema:
            continue
        fields = decode_metadata(schema.encode(), f"{base}: the schema in {requested}").get("fields", [])
        for field in fields:
            if field["name"] == column:
                return _time_type(_type_name(field["type"]), column, base)
        names = ", ".join(field["name"] for field in fields if not field["name"].startswith("_hoodie"))
        hint = f"its columns are {names}"
        raise TableError("ETC209", f"table `{base}` has no column `{column}` to take event times from", hint=hint)
    return None


def _time_type(column_type: str, column: str, base: Path) -> str:
    """The column's type, if its values can be times."""
    if column_type not in _TIME_TYPES:
        hint = "name a column of timestamps, dates, integers or strings in `event_time_column`"
        message = f"column `{column}` of table `{base}` is of type {column_type}, which cannot be read as a time"
        raise TableError("ETC212", message, hint=hint)
    return column_type


def _type_name(avro_type: Any) -> str:  # noqa: ANN401 - an Avro schema is any JSON value
    if isinstance(avro_type, list):
        return _type_name(next(t for t in avro_type if t != "null"))
    if isinstance(avro_type, dict):
        return str(avro_type.get("logicalType") or avro_type["type"])
    return str(avro_type)


def _names(value: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (value or "").split(",") if name.strip())


def _metadata_instants(base: Path) -> frozenset[str]:
    table = base / ".hoodie" / "metadata"
    path = table / ".hoodie" / "hoodie.properties"
    if not path.is_file():
        return frozenset()
    return frozenset(all_times(read_timeline(*timeline_folder(table, parse_properties(path.read_text("utf-8"))))))


def _retained(timeline: Timeline) -> str | None:
    cleans = (f for f in map(timeline.latest, sorted(timeline.files, reverse=True)) if f.action == "clean")
    last = next((f for f in cleans if f.state == "completed"), None)
    return (timeline.metadata(last).get("earliestCommitToRetain") or None) if last else None


def _last_compaction(
    timeline: Timeline, metadata: Mapping[str, Mapping[str, Any]], archive: Archive
) -> CompactionRecord | None:
    """The compaction with a threshold that completed last, told by its commit or, if stock Hudi ran it, by its plan.

    Cuts may complete in another order than their instants. The archive is asked only when the active timeline has none.
    """
    records = []
    for requested, commit in metadata.items():
        if timeline.latest(requested).action == "commit":
            plan = timeline.plan_of(requested) or {}
            extra = {**(plan.get("extraMetadata") or {}), **(commit.get("extraMetadata") or {})}
            records.append(compaction_record(requested, timeline.completions[requested], extra))
    found = [record for record in records if record is not None]
    return max(found, key=lambda record: record.completed) if found else archive.last_compaction()


def _living_writers(base: Path, timeline: Timeline) -> frozenset[str]:
    """Pending writes with a heartbeat no older than Hudi's default tolerance."""
    pending = (
        f.requested for f in map(timeline.latest, timeline.files) if f.state != "completed" and f.action in _WRITES
    )
    return frozenset(requested for requested in pending if _beats(base / ".hoodie" / ".heartbeat" / requested))


def _beats(heartbeat: Path) -> bool:
    try:
        return time.time() - heartbeat.stat().st_mtime <= WRITER_HEARTBEAT_TOLERANCE_SECONDS
    except FileNotFoundError:
        return False


def _own_pending(timeline: Timeline) -> str | None:
    pending: Iterable[str] = (r for r in sorted(timeline.files) if timeline.latest(r).action == "compaction")
    for requested in pending:
        plan = timeline.plan_of(requested) or {}
        if compaction_record(requested, requested, plan.get("extraMetadata") or {}) is not None:
            return requested
    return None
