"""Readings of a table by its own files, without a JVM: its state and its past, its compactions alone, and its shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from etc_policy.hudi.archive import Archive
from etc_policy.hudi.commit_writes import NO_TRUST
from etc_policy.hudi.commits import CommitFacts, CommitMetadata, KeptFacts
from etc_policy.hudi.completed_writes import (
    MAX_ARCHIVED,
    compactions_by_whom,
    completed_write,
    own_pending,
    records_added,
    table_history,
    write_growth,
)
from etc_policy.hudi.completion_times import metadata_timeline, read_wrong_times
from etc_policy.hudi.file_slices import latest_slices
from etc_policy.hudi.footers import read_footer
from etc_policy.hudi.layout import InstantFile, parse_data_file, timeline_folder
from etc_policy.hudi.log_forms import is_metadata_of_1_0
from etc_policy.hudi.metadata_values import partition_of, text_of
from etc_policy.hudi.pending_writes import HEARTBEAT_EXPIRY_MS, living_writers, writes_in_flight
from etc_policy.hudi.properties import (
    PROPERTIES,
    fingerprint,
    has_unsure_keys,
    lacks_meta_columns,
    merges_in_any_order,
    merging_of,
    metadata_partitions,
    names_in,
    ordering_fields,
    read_properties,
    updates_in_part,
)
from etc_policy.hudi.schemas import (
    TIMES_OF_DAY,
    column_type_of,
    columns_fingerprint,
    newest_fields,
    schema_names,
    type_of_column,
    unworkable_columns,
    with_schemas,
)
from etc_policy.hudi.stable_reading import Result, read_until_stable
from etc_policy.hudi.table_commits import TableCommits, read_commits
from etc_policy.hudi.timeline import (
    Timeline,
    all_times,
    read_timeline,
    require_times,
)
from etc_policy.hudi.zones import read_zone
from etc_policy.policy.locations import is_appended_to
from etc_policy.policy.manifest import EventTime, digest
from etc_policy.policy.writers import MERGE_MODE, TableShape
from etc_policy.storage.object_cache import Cache
from etc_policy.storage.open_storage import open_reader
from etc_policy.storage.port import TableReader
from etc_policy.table.completion_times import WrongTime
from etc_policy.table.cuts import BaseFiles
from etc_policy.table.double_keys import Merged, left_behind, merged_by, still_exposed
from etc_policy.table.history import WRITES, Further, TableHistory, TableReading
from etc_policy.table.state import PARQUET, FileSlice, GroupKey, Instant, TableState, path_below

_ACTIONS = ("commit",)


class FileTableReader:
    """Reads the state of tables; with a cache, what their commits say is kept there, so that it is decoded once.

    Each state that is read is given to `seen`.
    """

    def __init__(self, cache: Cache | None = None, seen: Callable[[TableState], None] = lambda _: None) -> None:
        self._cache, self._seen = cache, seen

    def read(self, base_path: str, event_time: EventTime, heartbeat_expiry_ms: int = HEARTBEAT_EXPIRY_MS) -> TableState:
        """The table's state now.

        Raises:
            TableError: no table there, or one that cannot be handled (each reason has its own code).
            RetryableError: the timeline kept changing while it was read.

        """
        state, _ = self._read(base_path, event_time, heartbeat_expiry_ms, lambda _: None)
        return state

    def read_with_history(
        self,
        base_path: str,
        event_time: EventTime,
        heartbeat_expiry_ms: int = HEARTBEAT_EXPIRY_MS,
        *,
        archived: int | None = 0,
    ) -> TableReading:
        """The table's state now and its past, with so many archived commits, the newest; None for all.

        Raises:
            TableError: as for `read`.
            RetryableError: as for `read`.

        """

        def past(commits: TableCommits) -> tuple[TableHistory, Mapping[str, str], Further]:
            def further() -> TableHistory:
                archive = Archive(commits.storage, commits.properties)  # its files may be others by now
                return _history(replace(commits, archive=archive), MAX_ARCHIVED)

            on = partial(read_until_stable, commits.storage.location, further)
            return _history(commits, archived), commits.properties, on

        state, of_past = self._read(base_path, event_time, heartbeat_expiry_ms, past)
        return TableReading(state, *of_past)

    def _read(
        self,
        base_path: str,
        event_time: EventTime,
        heartbeat_expiry_ms: int,
        besides: Callable[[TableCommits], Result],
    ) -> tuple[TableState, Result]:
        """The state, and what is wanted besides, of a reading that is tried until nothing changed under it."""
        storage = open_reader(base_path)
        properties = read_properties(storage)
        facts = CommitFacts() if self._cache is None else KeptFacts(self._cache, storage, properties)

        def read() -> tuple[TableState, Result]:
            with storage.tree() as tree:
                commits = read_commits(storage, properties, event_time, tree, facts)
                return _state(commits, heartbeat_expiry_ms), besides(commits)

        state, found = read_until_stable(storage.location, read)
        facts.save()
        self._seen(state)
        return state, found


def _state(commits: TableCommits, heartbeat_expiry_ms: int) -> TableState:
    storage, properties, timeline = commits.storage, commits.properties, commits.timeline
    found = latest_slices(commits)
    slices, missing_files, orphans, unseen_files, unclear_files, stray_files, unrecorded, hidden, changelog = found
    for partition in {one.partition for one in slices}:
        partition_of(partition)  # raises where it is outside of the table
    timeline.expect(_read_besides_writes(timeline))
    zone, instants = read_zone(properties, timeline), with_schemas(timeline)
    compactions = compactions_by_whom(timeline, commits.completed)
    metadata = metadata_timeline(storage)
    wrong_times = read_wrong_times(timeline, metadata, zone.timezone)
    slices = tuple(_since_true_times(slices, wrong_times))
    return TableState(
        base_path=storage.location,
        table_version=int(properties["hoodie.table.version"]),
        timezone=zone.timezone,
        metadata_partitions=metadata_partitions(properties),
        properties_fingerprint=fingerprint(properties),
        event_time_type=commits.column_type,
        instants=instants,
        metadata_instants=frozenset(all_times(metadata)) if metadata is not None else frozenset(),
        slices=slices,
        earliest_commit_to_retain=_retained(timeline),
        last_compaction=commits.own.last,
        own_pending=own_pending(timeline),
        living_writers=living_writers(storage, timeline, heartbeat_expiry_ms),
        writes_in_flight=tuple(writes_in_flight(storage, timeline, heartbeat_expiry_ms)),
        partition_fields=_partition_fields(properties),
        time_partition_fields=_time_partition_fields(properties),
        missing_files=missing_files,
        unclear_files=unclear_files,
        stray_files=stray_files,
        unrecorded_files=unrecorded,
        hidden_blocks=hidden,
        unseen_files=unseen_files,
        exposed=_exposed(commits, slices, instants),
        wrong_times=wrong_times,
        zone=zone,
        foreign_compaction=compactions.foreign,
        uncarried=compactions.uncarried or _uncarried_in_archive(commits),
        has_cdc=properties.get("hoodie.table.cdc.enabled") == "true",
        merges_otherwise=not merges_in_any_order(properties),
        updates_in_part=updates_in_part(properties),
        merging=merging_of(properties, changelog),
        in_changelog_mode=bool(changelog),
        schema_fingerprint=columns_fingerprint(timeline),
        unworkable=_unworkable(storage, timeline, slices),
        metadata_of_1_0=is_metadata_of_1_0(storage, properties, timeline.facts),
        merge_mode=properties.get(MERGE_MODE),
        ordering_fields=ordering_fields(properties),
        logs_grow=timeline.layout < 2 and (is_appended_to(storage.location) or _have_grown(commits.metadata)),
        lacks_meta_columns=lacks_meta_columns(properties),
        has_unsure_keys=has_unsure_keys(properties, partial(type_of_column, timeline)),
        base_file_format=properties.get("hoodie.table.base.file.format", PARQUET).lower(),
        orphans=orphans,
        write_growth=write_growth(commits.completed),
        column_since=commits.column_since,
        first_instant=_first_instant(timeline, commits.archive),
    )


def _unworkable(storage: TableReader, timeline: Timeline, slices: Sequence[FileSlice]) -> tuple[str, str] | None:
    """The first column that Hudi on Spark compacts in no file that is there, with what it is."""
    for name, kind in unworkable_columns(newest_fields(timeline) or ()):
        if kind not in TIMES_OF_DAY or any(_says_times_of_day(storage, one) for one in slices if one.log_files):
            return name, kind
    return None


def _says_times_of_day(storage: TableReader, file_slice: FileSlice) -> bool:
    """Whether a slice's base file says it of a column. One that Spark wrote has plain numbers, which Spark reads."""
    name = file_slice.base_file
    footer = (
        read_footer(storage, path_below(file_slice.partition, name)) if name and name.endswith(".parquet") else None
    )
    columns = map(footer.schema.column, range(footer.num_columns)) if footer is not None else ()
    return any(one.logical_type.type == "TIME" for one in columns)


def _uncarried_in_archive(commits: TableCommits) -> str | None:
    """The last compaction by etc, where it is archived and its commit lacks what its plan has split off."""
    last = commits.own.last
    if last is None or last.instant in commits.timeline.files:
        return None
    writes = commits.archive.writes_at(frozenset({last.instant}))
    return None if all(map(records_added, writes)) else last.instant


def _exposed(
    commits: TableCommits, slices: tuple[FileSlice, ...], instants: tuple[Instant, ...]
) -> frozenset[GroupKey]:
    """The file groups to be compacted at once, whether what their last compaction merged is archived or not."""
    ends, known = commits.archive.ends if commits.timeline.layout > 1 else {}, commits.timeline.files
    bases = {one.base_instant for one in slices if one.log_files} - known.keys()
    archived = [
        Merged(one, ends[one].completed, frozenset()) for one in bases & ends.keys() if ends[one].action == "commit"
    ]
    left = left_behind(slices, [*merged_by(instants), *archived])
    if not left:
        return frozenset()
    since = _slices_before(left, commits)
    first, last = min(since.values()), max(left.values())
    merged = (one for one, end in ends.items() if end.action == "deltacommit" and first <= end.completed < last)
    return still_exposed(left, since, commits.log_writes_at((*commits.metadata, *merged)))


def _slices_before(left: Mapping[GroupKey, str], commits: TableCommits) -> dict[GroupKey, str]:
    """When the slices began that these compactions merged: by their commits, or by active ones of the file groups before."""
    since = dict.fromkeys(left, "")
    merges = (one.requested for one in commits.completed if one.action == "commit")
    for instant, commit in sorted(commits.commits_at({*left.values(), *merges}).items()):
        for group, previous in zip(commit.stats.groups, commit.stats.previous, strict=True):
            if instant < left.get(group, ""):
                since[group] = max(since[group], instant)
            elif instant == left.get(group) and previous != "null":
                since[group] = max(since[group], previous)
    return since


def _first_instant(timeline: Timeline, archive: Archive) -> str:
    if timeline.layout == 1:
        return ""
    return min((*timeline.completions, *filter(None, (archive.first_instant,))), default="")


def _since_true_times(slices: Iterable[FileSlice], wrong_times: Iterable[WrongTime]) -> Iterator[FileSlice]:
    """The slices, where a completion time that is too late bounds nothing: the true one does, else the request."""
    late = {one.requested: one.right or one.requested for one in wrong_times if one.late and one.timeline == "table"}
    for one in slices:
        if not late or late.keys().isdisjoint(log_file.requested for log_file in one.log_files):
            yield one
            continue
        bounded = (
            file._replace(rows_since=late.get(file.requested)) if file.rows_since is None else file
            for file in one.log_files
        )
        yield replace(one, log_files=tuple(bounded))


def _read_besides_writes(timeline: Timeline) -> Iterator[InstantFile]:
    """The completed rollbacks, and the plans of the compactions."""
    for end in map(timeline.latest, sorted(timeline.files)):
        plan = timeline.requested_file(end.requested, "compaction")
        if end.state == "completed" and end.action == "rollback":
            yield end
        elif end.action == "commit" and plan is not None:
            yield plan


def _history(commits: TableCommits, max_archived: int | None) -> TableHistory:
    """The past, with so many archived commits, or those that the last compaction by etc is about."""
    timeline, is_complete = commits.timeline, False
    if timeline.layout > 1 and max_archived == 0:
        archived = commits.since_compaction
    else:
        archived, has_older = commits.archive.archived_writes(timeline, WRITES, max_archived)
        is_complete = not has_older and not (timeline.layout == 1 and _has_older_archive(timeline))
    of_table = commits.storage, commits.properties, commits.trust, commits.writes
    found = table_history([*archived, *commits.completed], *of_table, is_complete=is_complete)
    names = schema_names(timeline, {one.requested: one.metadata for one in archived})
    known = tuple(replace(one, schema=names[one.requested]) if one.archived else one for one in found.commits)
    return replace(found, commits=known, column_since=commits.column_since)


def _has_older_archive(timeline: Timeline) -> bool:
    """Whether a table of layout 1 has archived commits, which are not read."""
    try:
        names = timeline.storage.names(f"{timeline.folder}/archived")
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(name.startswith(".commits_") for name in names)


def _partition_fields(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The partition columns; a custom key generator has the kind of each behind a colon."""
    return tuple(name.split(":", 1)[0] for name in names_in(properties.get("hoodie.table.partition.fields")))


def _time_partition_fields(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The partition columns whose times a key generator writes in a form of its own; all where kinds are unknown."""
    generator = properties.get("hoodie.table.keygenerator.class", "").rpartition(".")[2]
    kind = properties.get("hoodie.table.keygenerator.type", "") or generator
    fields = [name.partition(":") for name in names_in(properties.get("hoodie.table.partition.fields"))]
    if kind.upper().startswith("TIMESTAMP"):
        return tuple(name for name, _, _ in fields)
    is_custom = kind.upper().startswith("CUSTOM")
    return tuple(name for name, _, said in fields if said.lower() == "timestamp" or (is_custom and not said))


def _have_grown(commits: Mapping[str, CommitMetadata]) -> bool:
    """Whether two commits wrote to one log file: whatever its path here, writers reach it where they can append."""
    seen: set[tuple[GroupKey, str]] = set()
    for commit in commits.values():
        files = zip(commit.stats.groups, commit.stats.file_names, strict=True)
        named = {file for file in files if file[1].startswith(".")}
        if seen & named:
            return True
        seen |= named
    return False


def _retained(timeline: Timeline) -> str | None:
    cleans = (f for f in map(timeline.latest, sorted(timeline.files, reverse=True)) if f.action == "clean")
    last = next((f for f in cleans if f.state == "completed"), None)
    return (text_of(timeline.metadata(last).get("earliestCommitToRetain")) or None) if last else None


def read_shape(base_path: str, event_time: EventTime) -> TableShape | None:
    """The table's shape; None where there is no table yet.

    Raises:
        TableError: the table cannot be read, or lacks the event-time column.
        RetryableError: the timeline kept changing while it was read.

    """
    storage = open_reader(base_path)
    return read_until_stable(storage.location, lambda: _shape_of(storage, event_time))


def _shape_of(storage: TableReader, event_time: EventTime) -> TableShape | None:
    if storage.info(PROPERTIES) is None:
        return None
    properties = read_properties(storage)
    timeline = read_timeline(storage, properties)
    column_type = column_type_of(event_time, timeline)
    return TableShape(int(properties["hoodie.table.version"]), properties.get(MERGE_MODE), column_type)


def read_compactions(base_path: str) -> TableHistory:
    """The commits that merged log files, among which may be bulk inserts; those archived too, as far as they can be read.

    Raises:
        TableError: no table there, or one that cannot be handled.
        RetryableError: the timeline kept changing while it was read.

    """
    storage = open_reader(base_path)
    properties = read_properties(storage)
    return read_until_stable(storage.location, lambda: _compactions_of(storage, properties))


def _compactions_of(storage: TableReader, properties: Mapping[str, str]) -> TableHistory:
    timeline = require_times(read_timeline(storage, properties))
    latest = map(timeline.latest, timeline.files)
    ends = [end for end in latest if end.state == "completed" and end.action in _ACTIONS]
    plans = (timeline.requested_file(end.requested, "compaction") for end in ends)
    timeline.expect(file for both in zip(plans, ends, strict=True) for file in both if file is not None)
    writes = [completed_write(timeline, end.requested) for end in ends]
    archived, _ = Archive(storage, properties).archived_writes(timeline, _ACTIONS, MAX_ARCHIVED)
    return table_history([*writes, *archived], storage, properties, NO_TRUST, {}, is_complete=False)


def read_mark(base_path: str) -> str:
    """A hash of the table's properties and of the names on its timeline: another one once anything began or ended on it.

    Raises:
        TableError: no table there, or one that cannot be handled.
        OSError: a folder cannot be read.

    """
    storage = open_reader(base_path)
    properties = read_properties(storage)
    folder, _ = timeline_folder(properties, storage.location)
    return digest([dict(properties), sorted(storage.names(folder))])


def read_base_files(base_path: str) -> BaseFiles:
    """The bytes of each base file in the table's folders, those of the past too.

    Raises:
        OSError: a folder cannot be read.

    """
    with open_reader(base_path).tree() as tree:
        named = (
            (partition, parse_data_file(name), size) for partition, f in tree.read().items() for name, size in f.items()
        )
        return {
            (part, one.file_id, one.instant): size for part, one, size in named if one is not None and not one.is_log
        }
