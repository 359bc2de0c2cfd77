"""TableStateReader over a table's own files: properties, timeline, commit metadata and a listing; no JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from etc_policy.adapters.hudi.archive import Archive, completions_of
from etc_policy.adapters.hudi.avro_columns import find_column
from etc_policy.adapters.hudi.commits import CommitMetadata, decode_metadata, pairs_of
from etc_policy.adapters.hudi.completion_times import read_wrong_times
from etc_policy.adapters.hudi.history import Commit, build_history
from etc_policy.adapters.hudi.layout import METADATA_TABLE, InstantFile
from etc_policy.adapters.hudi.log_facts import LogFacts, Trust, group_writes, hides_deletes_of, slice_facts
from etc_policy.adapters.hudi.partitions import partitions_of
from etc_policy.adapters.hudi.properties import properties_of, read_properties
from etc_policy.adapters.hudi.slices import FileGroups, data_files
from etc_policy.adapters.hudi.stable_reading import Result, read_until_stable
from etc_policy.adapters.hudi.timeline import (
    Timeline,
    all_times,
    fingerprint,
    plan_file_of,
    read_timeline,
    require_times,
    table_zone,
)
from etc_policy.adapters.hudi.values import text_of
from etc_policy.adapters.hudi.writers import WRITES, living_writers, writes_in_flight
from etc_policy.adapters.hudi.zone_samples import read_zone
from etc_policy.adapters.storage.door import open_storage
from etc_policy.adapters.storage.port import TableStorage, TreeLister
from etc_policy.codes.registry import Code
from etc_policy.compile.manifest import EventTime
from etc_policy.errors import TableError
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.plan.table_history import TableHistory
from etc_policy.plan.table_state import CompactionRecord, FileSlice, TableState

_TIME_TYPES = frozenset(
    {"int", "long", "string", "date", "timestamp-millis", "timestamp-micros"}
    | {"timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros"}
)
#: From so many on the files are listed while their commits are read.
_MANY_INSTANTS = 100
#: Columns that an error names at most.
_NAMED = 50
#: What a streamer writes while it knows of no schema.
_NO_SCHEMA = '"null"'


class FileTableReader:
    """Reads the state of tables on a file system."""

    def read(self, base_path: str, event_time: EventTime) -> TableState:
        """The table's state now.

        Raises:
            TableError: no table there, or one that cannot be handled (each reason has its own code).
            RetryableError: the timeline kept changing while it was read.

        """
        return _read(base_path, event_time, _state)

    def read_with_history(
        self, base_path: str, event_time: EventTime, *, archived: bool = False
    ) -> tuple[TableState, TableHistory]:
        """The table's state now and its past, from one reading; with `archived` also commits that were archived.

        Raises:
            TableError: as for `read`.
            RetryableError: as for `read`.

        """
        return _read(base_path, event_time, lambda commits: (_state(commits), _history(commits, archived=archived)))


@dataclass(frozen=True, slots=True)
class _Commits:
    """One reading of a table's timeline; `metadata` is that of every completed write, `writes` what they wrote to logs."""

    storage: TableStorage
    properties: Mapping[str, str]
    timeline: Timeline
    archive: Archive
    metadata: Mapping[str, CommitMetadata]
    column_type: str | None
    trust: Trust
    writes: LogFacts
    tree: TreeLister


def _read(base_path: str, event_time: EventTime, finish: Callable[[_Commits], Result]) -> Result:
    """What `finish` makes of a reading, as often as it takes to get one that nothing changed under."""
    storage = open_storage(base_path)
    properties = read_properties(storage)

    def read() -> Result:
        with storage.tree() as tree:
            return finish(_read_commits(storage, properties, event_time, tree))

    return read_until_stable(storage.location, read)


def _read_commits(
    storage: TableStorage, properties: Mapping[str, str], event_time: EventTime, tree: TreeLister
) -> _Commits:
    timeline = require_times(read_timeline(storage, properties))
    if len(timeline.files) >= _MANY_INSTANTS:
        tree.begin()
    writes = [file for file in map(timeline.latest, timeline.files) if is_write(file)]
    timeline.expect(writes)
    metadata = {file.requested: timeline.commit(file.requested) for file in writes}
    column_type = column_type_of(event_time.column, metadata, storage.location)
    trust = trust_of(timeline.layout, properties, event_time, column_type)
    logged = {
        requested: group_writes(requested, timeline.completions[requested], commit, trust)
        for requested, commit in metadata.items()
    }
    archive = Archive(storage, properties)
    return _Commits(storage, properties, timeline, archive, metadata, column_type, trust, logged, tree)


def _slices(commits: _Commits) -> tuple[tuple[FileSlice, ...], tuple[str, ...]]:
    """The latest slices, and paths of files that are missing in them."""
    timeline, archive = commits.timeline, commits.archive
    listed, groups = partitions_of(commits.tree.read()), FileGroups(timeline)
    recorded = groups.add_recorded(listed, commits.metadata, commits.writes)
    rest = list(data_files(listed, timeline, completions_of(timeline, archive)))
    named = {(file.name.instant, file.group) for file in rest if file.name.is_log}
    if timeline.layout < 2:
        facts = slice_facts(commits.metadata.values(), named, timeline.first_active or "", commits.trust)
    else:
        archived = archive.commit_metadata(frozenset(instant for instant, _ in named) - timeline.files.keys())
        facts = {**commits.writes, **{i: group_writes(i, i, commit, commits.trust) for i, commit in archived.items()}}
    groups.add(rest, recorded, facts)
    return groups.slices(), groups.missing(recorded)


def _state(commits: _Commits) -> TableState:
    storage, properties, timeline = commits.storage, commits.properties, commits.timeline
    slices, missing_files = _slices(commits)
    timeline.expect(_read_besides_writes(timeline))
    zone = read_zone(properties, timeline)
    return TableState(
        base_path=storage.location,
        table_name=properties.get("hoodie.table.name") or storage.location.rpartition("/")[2],
        table_version=int(properties["hoodie.table.version"]),
        timezone=zone.timezone,
        metadata_partitions=_names(properties.get("hoodie.table.metadata.partitions")),
        properties_fingerprint=fingerprint(properties),
        event_time_type=commits.column_type,
        instants=timeline.instants(),
        metadata_instants=_metadata_instants(storage),
        slices=slices,
        earliest_commit_to_retain=_retained(timeline),
        last_compaction=_last_compaction(timeline, commits.metadata, commits.archive),
        own_pending=own_pending(timeline),
        living_writers=living_writers(storage, timeline),
        writes_in_flight=tuple(writes_in_flight(storage, timeline)),
        partition_fields=_partition_fields(properties),
        missing_files=missing_files,
        wrong_times=read_wrong_times(storage, timeline, zone.timezone),
        zone=zone,
    )


def _read_besides_writes(timeline: Timeline) -> Iterator[InstantFile]:
    """The completed rollbacks, and the plans of the compactions."""
    for end in map(timeline.latest, sorted(timeline.files)):
        plan = plan_file_of(timeline.files[end.requested])
        if end.state == "completed" and end.action == "rollback":
            yield end
        elif end.action == "commit" and plan is not None:
            yield plan


def _plan_extra(timeline: Timeline, requested: str) -> dict[str, str] | None:
    """The pairs of a completed compaction's plan; None for what is no compaction."""
    if timeline.latest(requested).action != "commit":
        return None
    return pairs_of(timeline.plan_of(requested) or {})


def _history(commits: _Commits, *, archived: bool) -> TableHistory:
    timeline = commits.timeline
    known = [
        Commit(requested, timeline.completions[requested], metadata, _plan_extra(timeline, requested))
        for requested, metadata in commits.metadata.items()
    ]
    if archived and timeline.layout >= 2:
        known += [c for c in commits.archive.commits() if c.requested not in timeline.files]
    return build_history(known, table_zone(commits.properties), commits.trust, commits.writes)


def trust_of(layout: int, properties: Mapping[str, str], event_time: EventTime, column_type: str | None) -> Trust:
    """How far write stats are to be believed; on layout 1 no commit's event times can be matched to a log file."""
    return Trust(times=layout >= 2 and _is_tracked(event_time, column_type), deletes=not hides_deletes_of(properties))


def _is_tracked(event_time: EventTime, column_type: str | None) -> bool:
    """Whether the event times that the writer recorded are the policy's: it reads 10-digit s or 13-digit ms (FACTS 4.1).

    Of micro- or nanoseconds it drops those of today, and misreads some of 1970.
    """
    if not event_time.trust_commit_metadata or event_time.format is not None or event_time.unit == "us":
        return False
    if column_type is not None and column_type.endswith(("-micros", "-nanos")):
        return False
    return column_type != "string" or event_time.unit is not None


def is_write(file: InstantFile) -> bool:
    """Whether it is that of a completed write, of rows or of a service."""
    return file.state == "completed" and file.action in WRITES


def column_type_of(column: str, commits: Mapping[str, CommitMetadata], base: str) -> str | None:
    """The Avro type of the event-time column in the newest schema; None where no commit carries a schema."""
    for requested in sorted(commits, reverse=True):
        schema = commits[requested].extra.get("schema")
        if not schema or schema == _NO_SCHEMA:
            continue
        fields = decode_metadata(schema.encode(), f"{base}: the schema in {requested}").get("fields", [])
        found = find_column(fields, column)
        if found is not None:
            return _time_type(_type_name(found[1]), column, base)
        known = [text_of(field["name"]) for field in fields if not field["name"].startswith("_hoodie")]
        names = ", ".join([*known[:_NAMED], *(["..."] if len(known) > _NAMED else [])])
        hint = f"its columns are {names}"
        raise TableError(
            Code.NO_EVENT_TIME_COLUMN, f"table `{base}` has no column `{column}` to take event times from", hint=hint
        )
    return None


def _time_type(column_type: str, column: str, base: str) -> str:
    """The column's type, if its values can be times."""
    if column_type not in _TIME_TYPES:
        hint = "name a column of timestamps, dates, integers or strings in `event_time_column`"
        message = f"column `{column}` of table `{base}` is of type {column_type}, which cannot be read as a time"
        raise TableError(Code.NOT_A_TIME_COLUMN, message, hint=hint)
    return column_type


def _type_name(avro_type: Any) -> str:  # noqa: ANN401 - an Avro schema is any JSON value
    if isinstance(avro_type, list):
        return _type_name(next((t for t in avro_type if t != "null"), "null"))
    if isinstance(avro_type, dict):
        return str(avro_type.get("logicalType") or avro_type["type"])
    return str(avro_type)


def _names(value: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (value or "").split(",") if name.strip())


def _partition_fields(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The partition columns; a custom key generator has the kind of each behind a colon."""
    return tuple(name.split(":", 1)[0] for name in _names(properties.get("hoodie.table.partition.fields")))


def _metadata_instants(storage: TableStorage) -> frozenset[str]:
    properties = properties_of(storage, METADATA_TABLE)
    if properties is None:
        return frozenset()
    return frozenset(all_times(read_timeline(storage, properties, METADATA_TABLE)))


def _retained(timeline: Timeline) -> str | None:
    cleans = (f for f in map(timeline.latest, sorted(timeline.files, reverse=True)) if f.action == "clean")
    last = next((f for f in cleans if f.state == "completed"), None)
    return (text_of(timeline.metadata(last).get("earliestCommitToRetain")) or None) if last else None


def _last_compaction(
    timeline: Timeline, metadata: Mapping[str, CommitMetadata], archive: Archive
) -> CompactionRecord | None:
    """The compaction with a threshold that completed last, told by its commit or, if stock Hudi ran it, by its plan.

    Cuts may complete in another order than their instants. The archive is asked only when the active timeline has none.
    """
    records = []
    for requested, commit in metadata.items():
        if timeline.latest(requested).action == "commit":
            extra = {**(_plan_extra(timeline, requested) or {}), **commit.extra}
            records.append(compaction_record(requested, timeline.completions[requested], extra))
    found = [record for record in records if record is not None]
    return max(found, key=lambda record: record.completed) if found else archive.last_compaction()


def own_pending(timeline: Timeline) -> str | None:
    """The instant of a compaction that etc has published and nobody has completed; None without one."""
    pending: Iterable[str] = (r for r in sorted(timeline.files) if timeline.latest(r).action == "compaction")
    for requested in pending:
        plan = timeline.plan_of(requested) or {}
        if compaction_record(requested, requested, pairs_of(plan)) is not None:
            return requested
    return None
