"""What planning knows of a table: its properties, its timeline and its latest file slices, read without a JVM.

And what follows from it alone: files whose sizes are not those recorded, and whether a compaction merges by an evolved schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from operator import attrgetter
from typing import Literal, NamedTuple, Protocol

from etc_policy.policy.manifest import EventTime
from etc_policy.policy.writers import TableShape
from etc_policy.table.apply_state import ApplyState
from etc_policy.table.completion_times import WrongTime
from etc_policy.table.write_growth import WriteGrowth
from etc_policy.table.zone_evidence import ZoneReading

#: A log file's completion time decides its slice: a slice can be cut between two of its log files (facts: slice-by-completion).
CUT_VERSIONS = (8, 9)
#: The base instant in a log file's name decides its slice: only whole slices can be compacted (facts: version-6-slices).
WHOLE_SLICE_VERSIONS = (6,)


#: The kind of base files that Hudi makes by default, as their names end.
PARQUET = "parquet"
#: How it begins what a column is that has several types, in `unworkable`.
UNION = "a union of"
InstantState = Literal["requested", "inflight", "completed"]
#: Instants that write data; the first active one is where the timeline's archive begins.
WRITE_ACTIONS = frozenset({"commit", "deltacommit", "replacecommit", "compaction", "logcompaction", "clustering"})
#: The schema of a write that carries none, in a table of which columns were renamed, retyped or dropped.
HIDDEN = "hidden"
#: A file group by partition and file id: with non-blocking concurrency a bucket has the same file id in every partition.
GroupKey = tuple[str, str]


def path_below(partition: str, name: str) -> str:
    """The path below its table of a file, or of a file group, in a partition; a table without partitions has the empty one."""
    return f"{partition}/{name}".lstrip("/")


class WriterOption(NamedTuple):
    """An option that the table's writers have, and where the table shows it."""

    option: str
    value: str
    source: str


class _HasBaseFile(Protocol):
    @property
    def partition(self) -> str: ...
    @property
    def base_instant(self) -> str: ...
    @property
    def base_file(self) -> str | None: ...


def newest_base_file(slices: Iterable[_HasBaseFile]) -> str | None:
    """The path below the table of the newest base file among slices, or operations; None where none has one."""
    newest = max((one for one in slices if one.base_file), key=attrgetter("base_instant"), default=None)
    return None if newest is None else path_below(newest.partition, newest.base_file or "")


class LogFile(NamedTuple):
    """A log file of a slice; instants are `yyyyMMddHHmmssSSS`."""

    name: str
    size_bytes: int
    #: The instant in its name, and the completion time of that instant; where an archived one's is not known, the same.
    requested: str
    completed: str
    #: No row in it is earlier; None where nobody knows. From a commit it is that commit's minimum over the whole file group: a
    #: log file that rolled over records its events on its predecessor (facts: rolled-over-event-times).
    min_event_time_ms: int | None
    has_deletes: bool = False
    #: Its size by its commit's write stat, 0 if that has none; None where no commit that is known has a stat.
    recorded_bytes: int | None = None
    #: Where the smallest is not known: the smallest of those that are, or what a plan says of a carried file.
    seen_event_time_ms: int | None = None
    #: Of what is unknown nothing is the time of a row: deletes by key have none.
    unknown_is_deletes: bool = False
    #: None of its rows was written before, where they may be older than `completed`; empty where nobody knows.
    rows_since: str | None = None
    #: The latest event time in it where that cannot be true (`table/impossible_times.py`): then the smallest is not known.
    impossible_ms: int | None = None
    #: Rows without an event time, counted where the file was read because its time is unknown.
    null_rows: int = 0
    #: The latest as its blocks were read, None where they were not: a commit's leaves some values out (facts: dropped-maximum).
    max_event_time_ms: int | None = None
    #: Before table version 8, where its name says nothing of that: all of its rows were committed between these times.
    written: tuple[str, str] | None = None

    @property
    def committed(self) -> tuple[str, str]:
        """Between which times its rows were committed, both included."""
        return self.written or (self.completed, self.completed)

    @property
    def may_hold_anything(self) -> bool:
        """Whether nothing at all is known of the event times of its rows, not even since when they can have come."""
        return self.rows_since == "" and self.min_event_time_ms is None and not self.unknown_is_deletes


_EVENT_TIME, _IMPOSSIBLE = attrgetter("min_event_time_ms"), attrgetter("impossible_ms")


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The latest slice of a file group: a base file (None for log-only slices) and its log files in completion order.

    `base_file_recorded_bytes` is as a log file's `recorded_bytes`, `base_completed` is when its commit completed;
    empty where none is known. `updates_in_part` says that a log file has parts of rows, which log files give each other before
    they meet the base file: no event time bounds what any of them changes (facts: partial-merge-order).
    """

    partition: str
    file_id: str
    base_instant: str
    base_file: str | None
    base_file_bytes: int
    log_files: tuple[LogFile, ...]
    base_file_recorded_bytes: int | None = None
    base_completed: str = field(default="", compare=False)
    updates_in_part: bool = False

    @property
    def group(self) -> GroupKey:
        """Its file group: partition and file id."""
        return self.partition, self.file_id


Slices = tuple[FileSlice, ...]


@dataclass(frozen=True, slots=True)
class Instant:
    """An instant of the active timeline; `action` is `deltacommit`, `commit`, `compaction`, `clean`, ...

    A log compaction is a `logcompaction` also when it has completed, though its file is then a delta commit's.
    `file_ids` are the file groups a completed compaction, replace or rollback touched; None when that is not known.
    `is_bulk_insert` says of a completed `commit` that it brought rows, and is no compaction.
    `has_savepoint` says that archiving may have gone beyond it and left it behind. `schema` names the evolved schema that a
    completed write carries, as those of tables with schema on read do; it is empty where it carries none and nothing is
    lost by that, and HIDDEN where it carries none since columns were renamed, retyped or dropped.
    """

    requested: str
    action: str
    state: InstantState
    completed: str | None = None
    file_ids: frozenset[str] | None = None
    has_savepoint: bool = False
    schema: str = ""
    is_bulk_insert: bool = False


@dataclass(frozen=True, slots=True)
class WriteInFlight:
    """A write that has begun and not completed; `groups` are the file groups to which it adds, None while nobody knows.

    `may_live` is false where its heartbeat has expired: Hudi does not let such a writer commit, unless it only stalled
    (facts: heartbeat-revives).
    """

    requested: str
    groups: frozenset[GroupKey] | None
    may_live: bool = True


class RowGroup(NamedTuple):
    """A row group of a base file by its footer: the latest event time in it, None where no row has one, and how many rows."""

    latest_ms: int | None
    rows: int


class UnreadableTime(NamedTuple):
    """A value of the event-time column that is not a time as the policy says to read it, and the file that holds it."""

    file: str
    value: str


class BaseTimes(NamedTuple):
    """The earliest and the latest event time in a base file, as the policy says to read them."""

    file: str
    first_ms: int
    last_ms: int


class LogWitness(NamedTuple):
    """What the blocks of a log file say, beside what its commit recorded of it; `path` is below the table.

    `found_ms` is the smallest event time in the file, None where it holds none or where that cannot be known: then `why`
    says why. `has_nulls` says that a row in it has no event time, `damaged` that its bytes are not those of a log file.
    `is_read_anew` tells it from one that an earlier run has read, in the very same version.
    """

    path: str
    size_bytes: int
    recorded_ms: int | None
    found_ms: int | None
    why: str | None = None
    has_nulls: bool = False
    damaged: bool = False
    is_read_anew: bool = False


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """A compaction by etc as its commit or its plan file records it: what was promised when.

    `seen_until` is the last completion time that its plan had seen; what completed later is late data to it.
    `policy_values` are the policy's values then, by dotted key; empty where they were not committed. `left_out` counts
    file slices that were due and left out; then the threshold is below what they may hold. `watermark_before_ms` is how far
    RO was complete before, as far as its plan knew. `is_disputed` says that its plan promised something else.
    """

    instant: str
    completed: str
    threshold_ms: int
    policy: str
    plan_id: str
    seen_until: str = ""
    policy_values: Mapping[str, str] = field(default_factory=dict, hash=False)
    left_out: int = 0
    watermark_before_ms: int | None = None
    is_disputed: bool = False

    @property
    def saw_until(self) -> str:
        """`seen_until`, or the instant where that was not committed."""
        return self.seen_until or self.instant


@dataclass(frozen=True, slots=True)
class TableState:
    """Facts seen in one reading of a table; equal readings of an unchanged table are equal.

    `timezone` is the IANA name of the zone in which instants are written, and `zone` says how sure that is. `own_pending` is
    the instant of a pending compaction that carries etc's own plan. `living_writers` are pending writes whose heartbeat is
    fresh: several writers at once keep heartbeats, and one writer alone has at most its latest write in flight.
    `last_compaction` is the latest completed one that carries a threshold. `missing_files` are data files of the latest
    slices that a commit of the active timeline wrote and that are not there, `unclear_files` base files of one file group and
    instant of which no commit says which one counts, `stray_files` those beside one that a commit recorded.
    `unrecorded_files` are those that no commit recorded, in a table with a metadata table, which leaves them out where it was
    there then (facts: unrecorded-files, rolled-back-files-shown); of log files of table version 6 that is known only where these
    were read, and so is `hidden_blocks` but for names: the instants of archived writes behind a commit that is not archived, each
    with a file that has rows of it. `unseen_files` are files that a write added to a file group which was replaced without them:
    no reader sees their rows (facts: deleted-partition-write, clustered-beside-a-write).
    `time_partition_fields` are the partition columns whose times a key generator writes as it likes.
    `exposed` are file groups with a log file that was written beside a compaction of deletes: some indexes do not find its
    keys (facts: exposed-keys). `wrong_times` are completion times, of the table and of its metadata table, that cannot be
    true. `unreadable_time` is known only where log files were read; where none shows a value, and etc has not compacted by this
    column, the newest base file is looked at in their place, and `base_times` are its numbers. Where none is left `left_times`
    are when commits began, each with the earliest event time of its rows in the newest base files. `witnesses` are known only
    where all that are not compacted were read. `foreign_compaction` is the latest one on the active timeline that etc did not
    plan, `uncarried` one of etc's, or the last one where it is archived, whose commit lacks log files that its plan carries
    (table version 6) or has split off.
    `orphans` are paths of such log files whose compaction is not on the timeline. `has_cdc` says that the table keeps its
    changes, `merges_otherwise` that it is not known that RT is the same whichever log files are compacted first.
    `lacks_meta_columns` says that rows do not carry
    their keys, `has_unsure_keys` that it is not known which they have in delete blocks.
    `base_file_format` is such as `parquet`. `unworkable` is a column that Hudi on Spark cannot compact, and what it is.
    `updates_in_part` says that a row may change one with an earlier event time, so that no event time bounds what a log file
    changes. `write_growth` is what the last compactions by etc on
    the active timeline wrote, None without one. `merge_mode` is Hudi's, None where the table names none, `ordering_fields`
    the columns by which the rows of a key are ordered; `merging` says in words how the rows of a key are merged, and
    `release` which release of Hudi's bundle is to compact the table; both are empty where nobody has looked.
    `metadata_of_1_0` says that the last commits to the metadata table are of Hudi 1.0 alone (facts: later-metadata-schema),
    `logs_grow` that writers may append to log files after these were planned (before table version 8). `column_since` is
    when the event-time column got its name, if that was another column's before; empty where it was not. `first_instant` is
    the first one of the table, archived or not, and empty where archives are not read. `in_changelog_mode` says that rows in log
    files carry their operation, by which they may delete (facts: changelog-mode). `schema_fingerprint` is another one once its
    columns are, empty where no commit says them. `apply_state` is what earlier runs keep
    beside the table, as it was read right after it; empty where it was not.
    """

    base_path: str
    table_version: int
    timezone: str
    metadata_partitions: tuple[str, ...]
    properties_fingerprint: str
    event_time_type: str | None
    instants: tuple[Instant, ...]
    metadata_instants: frozenset[str]
    slices: tuple[FileSlice, ...]
    earliest_commit_to_retain: str | None = None
    last_compaction: CompactionRecord | None = None
    own_pending: str | None = None
    living_writers: frozenset[str] = frozenset()
    writes_in_flight: tuple[WriteInFlight, ...] = ()
    partition_fields: tuple[str, ...] = ()
    time_partition_fields: tuple[str, ...] = ()
    missing_files: tuple[str, ...] = ()
    unclear_files: tuple[str, ...] = ()
    stray_files: tuple[str, ...] = ()
    unrecorded_files: tuple[str, ...] = ()
    hidden_blocks: tuple[tuple[str, str], ...] = ()
    unseen_files: tuple[str, ...] = ()
    exposed: frozenset[GroupKey] = frozenset()
    wrong_times: tuple[WrongTime, ...] = ()
    zone: ZoneReading | None = None
    unreadable_time: UnreadableTime | None = None
    base_times: BaseTimes | None = None
    left_times: tuple[tuple[int, int], ...] = ()
    witnesses: tuple[LogWitness, ...] | None = None
    foreign_compaction: str | None = None
    uncarried: str | None = None
    has_cdc: bool = False
    merges_otherwise: bool = False
    updates_in_part: bool = False
    merging: str = ""
    merge_mode: str | None = None
    ordering_fields: tuple[str, ...] = ()
    release: str | None = None
    metadata_of_1_0: bool = False
    lacks_meta_columns: bool = False
    has_unsure_keys: bool = False
    logs_grow: bool = False
    base_file_format: str = PARQUET
    unworkable: tuple[str, str] | None = None
    orphans: tuple[str, ...] = ()
    write_growth: WriteGrowth | None = None
    column_since: str = ""
    first_instant: str = ""
    in_changelog_mode: bool = False
    schema_fingerprint: str = ""
    apply_state: ApplyState = field(default_factory=ApplyState)

    @property
    def zone_fault(self) -> str | None:
        """Why no lag can be told, as in `ZoneReading.fault`."""
        return self.zone.fault if self.zone else None

    @property
    def shape(self) -> TableShape:
        """What decides which options its writers need."""
        return TableShape(self.table_version, self.merge_mode, self.event_time_type)

    @property
    def pending(self) -> tuple[Instant, ...]:
        """Instants that have not completed, oldest first."""
        return tuple(instant for instant in self.instants if instant.state != "completed")

    @property
    def begun_writes(self) -> frozenset[str]:
        """The writes in flight that may live: those with a fresh heartbeat, and those of writers that keep none.

        C is before all of them. That of a writer alone on its table began after all that has completed, but for rollbacks.
        """
        return self.living_writers.union(write.requested for write in self.writes_in_flight if write.may_live)

    @property
    def data_bytes(self) -> int:
        """How large the files are that the views read now."""
        return sum(one.base_file_bytes + sum(log_file.size_bytes for log_file in one.log_files) for one in self.slices)

    @property
    def log_files(self) -> Iterator[tuple[FileSlice, LogFile]]:
        """Every log file that is not compacted, with its slice."""
        return chain.from_iterable(zip(repeat(one), one.log_files, strict=False) for one in self.slices)

    def with_log_files(self, known: Callable[[FileSlice, LogFile], LogFile]) -> TableState:
        """The state with what is `known` of each log file besides."""
        slices = (replace(one, log_files=tuple(known(one, file) for file in one.log_files)) for one in self.slices)
        return replace(self, slices=tuple(slices))

    @property
    def is_cut(self) -> bool:
        """Whether a log file belongs to one commit alone: before table version 8 it grows after its commit."""
        return self.table_version in CUT_VERSIONS

    @property
    def lacks_event_times(self) -> bool:
        """Whether the smallest event time of some log file that is not compacted is unknown."""
        return any(None in map(_EVENT_TIME, one.log_files) for one in self.slices)

    @property
    def knows_event_times(self) -> bool:
        """Whether any event time is known of a log file that is not compacted, also one that cannot be true."""
        return any(
            not (f.min_event_time_ms is f.seen_event_time_ms is f.impossible_ms is None) for _, f in self.log_files
        )

    @property
    def log_files_ahead(self) -> tuple[LogFile, ...]:
        """Those that are not compacted and hold an event time which cannot be true."""
        found = (filter(_IMPOSSIBLE, one.log_files) for one in self.slices)
        return tuple(chain.from_iterable(found))

    @property
    def partitions_with_logs(self) -> tuple[str, ...]:
        """The partitions that have log files, in the order of their names."""
        return tuple(sorted({one.partition for one in self.slices if one.log_files}))

    @property
    def last_completed(self) -> str | None:
        """The latest completion time on the active timeline."""
        return max((i.completed or i.requested for i in self.instants if i.state == "completed"), default=None)


class TableStateReader(Protocol):
    """Reads a table's state. Raises TableError for a table that is missing or of a kind that is not handled."""

    def read(self, base_path: str, event_time: EventTime, heartbeat_expiry_ms: int) -> TableState:
        """The table's state now; the event-time column must be a column of the table.

        A write in flight whose heartbeat is older than `heartbeat_expiry_ms` is that of a dead writer.
        """


class UnlikeRecorded(NamedTuple):
    """A data file of a latest slice; `recorded_bytes` is None where no commit that is known has a write stat of it."""

    name: str
    size_bytes: int
    recorded_bytes: int | None
    instant: str


def not_as_recorded(state: TableState) -> Iterator[UnlikeRecorded]:
    """Every such file. A recorded size of 0 says nothing; before table version 8 log files grow after their commit."""
    has_whole_logs = state.is_cut
    for file_slice in state.slices:
        size, recorded = file_slice.base_file_bytes, file_slice.base_file_recorded_bytes
        if file_slice.base_file is not None and (recorded is None or recorded not in (0, size)):
            yield UnlikeRecorded(file_slice.base_file, size, recorded, file_slice.base_instant)
        for log_file in file_slice.log_files if has_whole_logs else ():
            if log_file.recorded_bytes is None or log_file.size_bytes < log_file.recorded_bytes:
                yield UnlikeRecorded(log_file.name, log_file.size_bytes, log_file.recorded_bytes, log_file.requested)


#: Later than every instant.
AT_THE_END = "~"


class Lacking(NamedTuple):
    """The write whose schema a compaction would not merge by, or that hides the schema from it; and why, as a clause."""

    requested: str
    why: str


def find_lacking(instants: Iterable[Instant], instant: str = AT_THE_END, own: str | None = None) -> Lacking | None:
    """Why a compaction at an instant does not merge by its table's schema; None where it does.

    Hudi merges by what the last completed write requested before C carries, which is `own` where that is known. A later write
    that carries another schema has altered the table. One that carries none matters before C alone: Hudi then merges
    by none, and columns that were renamed are lost; behind C it changes nothing of what is merged.
    """
    done = sorted((one for one in instants if _is_done(one)), key=attrgetter("requested"))
    before = [one for one in done if one.requested < instant]
    known = own if own is not None else before[-1].schema if before else ""
    other = next((one for one in done[len(before) :] if one.schema not in ("", HIDDEN, known)), None)
    if other is not None:
        return Lacking(other.requested, f"the table's schema was altered at {other.requested}")
    if known != HIDDEN or not before:
        return None
    last = before[-1].requested
    return Lacking(last, f"the write at {last} does not carry on the schema that ALTER TABLE made")


def _is_done(one: Instant) -> bool:
    """Whether it is a completed write, of rows or of a service."""
    return one.action in WRITE_ACTIONS and one.state == "completed"
