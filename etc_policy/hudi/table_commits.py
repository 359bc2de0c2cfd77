"""One reading of a table's timeline with the commits on it, from which its state and its past are made.

It says what type the event-time column has, whether the times that commits recorded are of it, and which schema is evolved:
that which commits of tables with schema on read carry on, and by which Hudi reads and merges.
See facts: schema-of-the-cut. Beside the timeline Hudi keeps all versions of it, in which a column has one number under all its
names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.archive import Archive
from etc_policy.hudi.avro_schema import find_column
from etc_policy.hudi.commit_writes import CommitWrites, Trust, hides_deletes_of
from etc_policy.hudi.commits import CommitFacts, CommitMetadata, decode_metadata
from etc_policy.hudi.history import MAX_ARCHIVED, CompletedWrite, completed_write
from etc_policy.hudi.layout import InstantFile
from etc_policy.hudi.properties import updates_in_part
from etc_policy.hudi.timeline import Timeline, read_once, read_timeline, require_one_end, require_times
from etc_policy.hudi.values import list_of, load_json, text_of
from etc_policy.hudi.writer_form import with_log_forms
from etc_policy.hudi.zones import table_zone
from etc_policy.policy.manifest import EventTime
from etc_policy.storage.port import TableReader, Tree, TreeLister
from etc_policy.table.history import WRITES, GroupWrite, is_of_column
from etc_policy.table.state import AT_THE_END, HIDDEN, CompactionRecord, Instant, Lacking, find_lacking

_TIME_TYPES = frozenset(
    {"int", "long", "string", "date", "timestamp-millis", "timestamp-micros"}
    | {"timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros"}
)
_TYPES_OF_KEYS = {"unit": ("int", "long", "string"), "format": ("string",)}
#: Columns that an error names at most.
_NAMED = 50
#: What a streamer writes while it knows of no schema.
_NO_SCHEMA = '"null"'


def trust_of(
    layout: int,
    properties: Mapping[str, str],
    event_time: EventTime,
    column_type: str | None,
    since: str,
    recorded: RecordedTimes,
) -> Trust:
    """How far write stats are to be believed; on layout 1 no commit's event times can be matched to a log file."""
    times = layout >= 2 and _is_tracked(event_time, column_type)
    return Trust(
        times,
        deletes=not hides_deletes_of(properties),
        bounds=not updates_in_part(properties),
        zone=ZoneInfo(table_zone(properties)),
        max_ahead_ms=event_time.ahead_ms,
        since=since,
        is_of_column=recorded.is_of_column,
    )


def _is_tracked(event_time: EventTime, column_type: str | None) -> bool:
    """Whether the event times that the writer recorded are the policy's: it reads 10-digit s or 13-digit ms.

    See facts: commit-event-times. Of micro- or nanoseconds it drops those of today, and misreads some of 1970.
    """
    if not event_time.trust_commit_metadata or event_time.format is not None or event_time.unit == "us":
        return False
    if column_type is not None and column_type.endswith(("-micros", "-nanos")):
        return False
    return column_type != "string" or event_time.unit is not None


def column_type_of(event_time: EventTime, commits: Mapping[str, CommitMetadata], base: str) -> str | None:
    """The Avro type of the event-time column in the newest schema; None where no commit carries a schema."""
    fields = newest_fields(commits, base)
    if fields is None:
        return None
    column = event_time.column
    found = find_column(fields, column)
    if found is not None:
        return _time_type(type_name(found[1]), event_time, base)
    known = [name for name in (text_of(field["name"]) for field in fields) if not name.startswith("_hoodie")]
    names = ", ".join([*known[:_NAMED], *(["..."] if len(known) > _NAMED else [])])
    hint = f"its columns are {names}"
    raise TableError(
        Code.NO_EVENT_TIME_COLUMN, f"table `{base}` has no column `{column}` to take event times from", hint=hint
    )


def newest_fields(commits: Mapping[str, CommitMetadata], base: str) -> list[Any] | None:
    """The columns of the newest schema; None where no commit carries one."""
    for requested in sorted(commits, reverse=True):
        schema = commits[requested].extra.get("schema")
        if schema and schema != _NO_SCHEMA:
            return list_of(decode_metadata(schema.encode(), f"{base}: the schema in {requested}").get("fields"))
    return None


def _time_type(column_type: str, event_time: EventTime, base: str) -> str:
    """The column's type, if its values can be times, and can be read as the policy says."""
    said = f"column `{event_time.column}` of table `{base}` is of type {column_type}"
    if column_type not in _TIME_TYPES:
        hint = "name a column of timestamps, dates, integers or strings in `event_time_column`"
        raise TableError(Code.NOT_A_TIME_COLUMN, f"{said}, which cannot be read as a time", hint=hint)
    for key, types in _TYPES_OF_KEYS.items():
        if getattr(event_time, key) is not None and column_type not in types:
            message = f"{said}, and `{key}` is for columns of type {', '.join(types)}"
            raise TableError(Code.NOT_A_TIME_COLUMN, message, hint=f"remove `{key}` from `event_time_column`")
    return column_type


def type_name(avro_type: Any) -> str:
    """The name of a column's Avro type: its logical type where it has one."""
    if isinstance(avro_type, list):
        return type_name(next((t for t in avro_type if t != "null"), "null"))
    if isinstance(avro_type, dict):
        return str(avro_type.get("logicalType") or avro_type["type"])
    return str(avro_type)


class OwnCompactions:
    """The compactions with a threshold, archived ones too, the last completed first; read as far back as somebody asks."""

    def __init__(self, found: Iterator[CompactionRecord]) -> None:
        self._rest, self._seen = found, list[CompactionRecord]()

    def __iter__(self) -> Iterator[CompactionRecord]:
        yield from self._seen
        for record in self._rest:
            self._seen.append(record)
            yield record

    @property
    def last(self) -> CompactionRecord | None:
        """The one that completed last; None without any."""
        return next(iter(self), None)


class RecordedTimes:
    """Which commits recorded event times of this column, as far as the compactions by etc show.

    Those that were requested before a plan for another column, or before the first for this one had been made, may be of that
    other: no commit names its column. A plan is older than its compaction's completion, and may not show the writers in flight.
    """

    def __init__(self, event_time: EventTime, own: OwnCompactions) -> None:
        self._event_time, self._own = event_time, iter(own)
        self._since, self._is_over = AT_THE_END, False

    def is_of_column(self, requested: str) -> bool:
        """Whether a compaction by this column had completed before the commit began, and none by another one since."""
        while requested < self._since and not self._is_over:
            record = next(self._own, None)
            if record is None:
                self._since = ""
            elif is_of_column(self._event_time, record):
                self._since = min(self._since, max(record.saw_until, record.completed))
            else:
                self._is_over = True
        return requested >= self._since


@dataclass(frozen=True)
class TableCommits:
    """One reading of a table's timeline; `metadata` is that of every completed write, `writes` what they wrote.

    `completed` has each of these with what its plan says. `own` are the compactions by etc. `column_since` is as that of a state.
    `tree` is what is in the table's folders.
    """

    storage: TableReader
    properties: Mapping[str, str]
    event_time: EventTime
    timeline: Timeline
    archive: Archive
    metadata: Mapping[str, CommitMetadata]
    completed: tuple[CompletedWrite, ...]
    own: OwnCompactions
    column_type: str | None
    column_since: str
    trust: Trust
    writes: CommitWrites
    tree: Tree

    def commits_at(self, instants: Iterable[str]) -> dict[str, CommitMetadata]:
        """What the commits at these instants say, archived ones too, and what is there of their log files shows."""
        wanted = frozenset(instants)
        archived = self.archive.commit_metadata(wanted - self.metadata.keys())
        archived = {**archived, **with_log_forms(self.storage, self.timeline.layout, archived, self.tree)}
        return {**archived, **{one: self.metadata[one] for one in wanted & self.metadata.keys()}}

    def log_writes_at(self, instants: Iterable[str]) -> Iterator[GroupWrite]:
        """What these commits, archived ones too, wrote to log files."""
        found = self.commits_at(instants)
        ends = {one: self.archive.completions.get(one, one) for one in found.keys() - self.timeline.completions.keys()}
        archived = CommitWrites(found, {**self.timeline.completions, **ends}, self.trust)
        groups = (self.writes[one] if one in self.writes else archived[one] for one in found)
        return (write for of_commit in groups for write in of_commit.values() if write.log_files)

    @read_once
    def since_compaction(self) -> list[CompletedWrite]:
        """The archived writes from the last one before the last compaction by etc on, with all that it had not seen.

        None where these are more than anybody wants to read.
        """
        record, known = self.own.last, self.timeline.files
        if record is None:
            return []
        ends = {one: end for one, end in self.archive.ends.items() if end.action in WRITES and one not in known}
        before = max((one for one in (*ends, *self.metadata) if one < record.instant), default=record.instant)
        since = min((one for one, end in ends.items() if end.completed > record.saw_until), default=before)
        wanted = frozenset(one for one in ends if one >= min(since, before))
        return self.archive.writes_at(wanted) if 0 < len(wanted) <= MAX_ARCHIVED else []


def read_commits(
    storage: TableReader,
    properties: Mapping[str, str],
    event_time: EventTime,
    tree: TreeLister,
    facts: CommitFacts,
) -> TableCommits:
    """The timeline as listed now, with every completed write on it.

    Raises:
        TableError: a commit cannot be read, or the event-time column is not in the table's schema.
        FileNotFoundError: a commit was archived since the listing.

    """
    timeline = require_one_end(require_times(read_timeline(storage, properties, "", facts)), WRITES)
    tree.begin()  # not before: a write that ended meanwhile would be complete, without its files
    facts.find(timeline.folder)
    writes = [file for file in map(timeline.latest, timeline.files) if is_write(file)]
    timeline.expect(writes)
    metadata = {file.requested: timeline.commit(file.requested) for file in writes}
    metadata |= _formed(timeline, metadata, found := tree.read())
    column_type = column_type_of(event_time, metadata, storage.location)
    completed = tuple(completed_write(timeline, requested) for requested in metadata)
    archive = Archive(storage, properties)
    records = [record for one in completed if (record := one.record) is not None]
    own = OwnCompactions(archive.own_compactions(records, timeline.files))
    since = column_since(timeline, archive, event_time.column)
    recorded = RecordedTimes(event_time, own)
    trust = trust_of(timeline.layout, properties, event_time, column_type, since, recorded)
    trust = replace(trust, of_unseen=not any(commit.log_form == "operations" for commit in metadata.values()))
    logged = CommitWrites(metadata, timeline.completions, trust)
    of_table = storage, properties, event_time, timeline, archive, metadata, completed, own
    return TableCommits(*of_table, column_type, since, trust, logged, found)


def _formed(timeline: Timeline, commits: Mapping[str, CommitMetadata], tree: Tree) -> dict[str, CommitMetadata]:
    """Commits with log files, with what these show; the timeline knows it from then on."""
    found = with_log_forms(timeline.storage, timeline.layout, commits, tree)
    for requested, commit in found.items():
        if commit is not commits[requested]:
            timeline.keep(requested, commit)
    return found


def is_write(file: InstantFile) -> bool:
    """Whether it is that of a completed write, of rows or of a service."""
    return file.state == "completed" and file.action in WRITES


#: The pair of a commit's metadata by which tables with schema on read know names and types that columns had before.
EVOLVED_SCHEMA = "latest_schema"
#: Where a version says the number of a column, of the elements of a list and of the keys and values of a map.
_NUMBERS = {"fields": "id", "element": "element_id", "key": "key_id", "value": "value_id"}


def evolved_schema_before(timeline: Timeline, instant: str) -> str:
    """The schema that the last completed write requested before an instant carries; empty where it carries none."""
    before = max((one for one in _writes(timeline) if one < instant), default=None)
    return timeline.commit(before).extra.get(EVOLVED_SCHEMA, "") if before is not None else ""


def with_schemas(timeline: Timeline) -> tuple[Instant, ...]:
    """All instants, where completed writes have the names of the schemas that they carry."""
    names = schema_names(timeline, {one: timeline.commit(one) for one in _writes(timeline)})
    return tuple(replace(one, schema=names.get(one.requested, "")) for one in timeline.instants())


def lacking_at(timeline: Timeline, instant: str) -> Lacking | None:
    """Why a compaction at an instant would not merge by the table's schema, of what was requested since and the last before."""
    writes = sorted(one for one in _writes(timeline) if one != instant)
    last = sum(one < instant for one in writes) - 1
    seen = writes[max(last, 0) :]
    timeline.expect(timeline.latest(one) for one in seen)
    names = schema_names(timeline, {one: timeline.commit(one) for one in seen})
    return find_lacking((Instant(one, "commit", "completed", schema=names[one]) for one in seen), instant)


def _writes(timeline: Timeline) -> Iterator[str]:
    return (one for one in timeline.completions if is_write(timeline.latest(one)))


def schema_names(timeline: Timeline, commits: Mapping[str, CommitMetadata]) -> dict[str, str]:
    """The name of the schema that each of the commits carries: HIDDEN for none where that loses values, else empty."""
    names = {one: _name_of(commit.extra.get(EVOLVED_SCHEMA, "")) for one, commit in commits.items()}
    altered = _altered_from(timeline) if "" in names.values() else None
    if altered is None:
        return names
    return {one: name or (HIDDEN if one > altered else "") for one, name in names.items()}


@lru_cache(maxsize=256)
def _name_of(schema: str) -> str:
    """A short text that is another one for another schema: mostly all commits carry the same."""
    return hashlib.sha256(schema.encode(errors="surrogatepass")).hexdigest()[:16] if schema else ""


def _altered_from(timeline: Timeline) -> str | None:
    """The instant of the first version of a schema that has lost or changed columns since; None where columns were only added."""
    found = timeline.schema_versions
    if found is None:
        return None
    versions = _versions_in(found[1])
    if versions is None:
        return found[0]
    newest = versions[max(versions)]
    if all(one.items() <= newest.items() for one in versions.values()):
        return None
    return str(min((version for version in versions if version), default=found[0]))


def column_since(timeline: Timeline, archive: Archive, column: str) -> str:
    """When the name of the column had become its own, if it was another one's before; empty where it never was.

    In blocks that were begun before that, the name is of that other column: Hudi reads by numbers (facts: schema-reused-names).
    """
    found = timeline.schema_versions
    if found is None:
        return ""
    newest, content = found
    versions = _versions_in(content)
    if versions is None:
        return _altered_at(timeline, archive, newest, newest)
    numbers = {version: of_version.get(f".{column}", (None,))[0] for version, of_version in versions.items()}
    own = numbers[max(numbers)]
    last_of_other = max((one for one, number in numbers.items() if number not in (None, own)), default=None)
    if last_of_other is None:
        return ""
    return _altered_at(timeline, archive, str(min(one for one in numbers if one > last_of_other)), newest)


def _altered_at(timeline: Timeline, archive: Archive, instant: str, newest: str) -> str:
    """When an ALTER TABLE had ended; where nobody knows that of an older one, when the newest had."""
    if timeline.layout < 2:
        return instant
    ends = timeline.completions.get(instant) or archive.completions.get(instant)
    if ends is None and instant != newest:
        return _altered_at(timeline, archive, newest, newest)
    return ends or instant


@lru_cache(maxsize=16)
def _versions_in(content: bytes) -> Mapping[int, Mapping[str, tuple[int, str]]] | None:
    """The columns of all versions of a schema as Hudi keeps them; None where these have another form."""
    try:
        return {int(one["version_id"]): _columns(one) for one in load_json(content)["schemas"]} or None
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None


def _columns(kind: Any, path: str = "") -> dict[str, tuple[int, str]]:
    """Number and type by path of each column, also within others."""
    found: dict[str, tuple[int, str]] = {}
    for part, number in _NUMBERS.items():
        inner = kind.get(part) if isinstance(kind, dict) else None
        for one in inner if isinstance(inner, list) else [{**kind, "type": inner, "name": part}] if inner else ():
            below, own = f"{path}.{one['name']}", one["type"]
            found[below] = int(one[number]), own if isinstance(own, str) else str(own["type"])
            found |= _columns(own, below)
    return found
