"""A table's past: every write that completed, what it wrote to which file group, and what compactions by etc promise,
under which names they say something about themselves in their plan and their commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple, get_args

from etc_policy.policy.manifest import EventTime, Policy, digest, event_time_values
from etc_policy.table.state import CompactionRecord, GroupKey, Instant, LogFile, TableState

THRESHOLD = "etc.event_time.threshold"
POLICY = "etc.policy"
FINGERPRINT = "etc.policy_fingerprint"
PLAN_ID = "etc.plan_id"
SEEN_UNTIL = "etc.seen_until"
GRANULARITY = "etc.granularity"
GIT_SHA = "etc.git_sha"
GIT_DIRTY = "etc.git_dirty"
POLICY_VALUES = "etc.policy_values"
VERSION = "etc.version"
LEFT_OUT = "etc.left_out"
WATERMARK_BEFORE = "etc.watermark_before"
WITHDRAWN = "etc.withdrawn"


WriteAction = Literal["deltacommit", "commit", "replacecommit"]
#: Actions that write rows, as completed instants have them.
WRITES: tuple[WriteAction, ...] = get_args(WriteAction)
#: What one commit wrote to one file group: its instant, partition and file id.
WriteKey = tuple[str, str, str]
_COLUMN = "event_time_column."
#: They say which times are believed, not what the times are.
_BELIEF = frozenset({f"{_COLUMN}trust_commit_metadata", f"{_COLUMN}max_ahead"})


class GroupWrite(NamedTuple):
    """What one commit wrote to one file group: the grain at which commits record event times (facts: rolled-over-event-times).

    `log_files` counts those that it wrote, 0 where it wrote a base file alone. `known_min_ms` is the smallest event time
    that is known of them, None without one. Only where `certain` is true can nothing older be in them: then every write stat
    has a time and there are no deletes. `rows` are those written, deletes included; `has_deletes` says that there are deletes
    among them, or may be, `unknown_is_deletes` that all rows but deletes have times. `previous` is the instant of the slice
    that was there before, None for a new file group. `merged_log_files` and `merged_log_bytes` are those that a compaction read.
    `impossible_ms` is the latest event time where it cannot be true: then the smallest is not certain.
    """

    requested: str
    completed: str
    partition: str
    file_id: str
    known_min_ms: int | None
    certain: bool
    rows: int
    has_deletes: bool = False
    unknown_is_deletes: bool = False
    log_files: int = 1
    bytes_written: int = 0
    previous: str | None = None
    merged_log_files: int = 0
    merged_log_bytes: int = 0
    impossible_ms: int | None = None

    @property
    def key(self) -> WriteKey:
        """The commit and the file group."""
        return self.requested, self.partition, self.file_id

    @property
    def certain_min_ms(self) -> int | None:
        """The event time below which nothing can be in it; None where that is not known."""
        return self.known_min_ms if self.certain else None

    @property
    def seen_ms(self) -> int | None:
        """Where that is not known, the smallest event time that is surely in it."""
        return None if self.certain else self.known_min_ms


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed write; `extra` are etc's own pairs in its metadata and in its plan (`etc.*`).

    `replaced` are the (partition, file id) that a replace commit took away. `bytes_written_estimate` is what a compaction's
    plan expected of its base files; None where there is no plan, or it does not say. `record` is what a compaction by etc
    promises. `schema` is that of an archived one, as that of an instant.
    """

    requested: str
    completed: str
    action: WriteAction
    operation: str | None
    groups: tuple[GroupWrite, ...]
    replaced: frozenset[tuple[str, str]] = frozenset()
    extra: Mapping[str, str] = field(default_factory=dict)
    archived: bool = False
    bytes_written_estimate: int | None = None
    record: CompactionRecord | None = None
    schema: str = ""

    @property
    def is_compaction(self) -> bool:
        """Whether it merged log files into base files.

        A `commit` may also be a bulk insert (facts: bulk-insert-commit), or end a plan that etc has withdrawn.
        """
        compacts = self.operation == "COMPACT" or THRESHOLD in self.extra
        return self.action == "commit" and compacts and WITHDRAWN not in self.extra

    @property
    def repeats(self) -> bool:
        """Whether its log files hold what older ones hold, as those of a log compaction (facts: log-compaction-commit)."""
        return self.operation == "LOG_COMPACT"

    @property
    def bytes_written(self) -> int:
        """Bytes of all files that it wrote."""
        return sum(group.bytes_written for group in self.groups)

    @property
    def plan_id(self) -> str | None:
        """The id of the plan that it carried out, if etc made it."""
        return self.extra.get(PLAN_ID)


@dataclass(frozen=True)
class TableHistory:
    """The writes of a table in order of completion, as far back as they were read; `complete` says that none is missing
    before the first. Instants are in the IANA zone `timezone`. `read_times` are the smallest event times that were read of
    all log files of a write, now or before a compaction took them; None where the rows that were read have none.
    `column_since` is as that of a state.
    """

    base_path: str
    table_version: int
    timezone: str
    commits: tuple[Commit, ...] = ()
    complete: bool = False
    read_times: Mapping[WriteKey, int | None] = field(default_factory=dict)
    column_since: str = ""

    @cached_property
    def writes(self) -> tuple[GroupWrite, ...]:
        """What writers wrote to log files; what compactions carry and split off was written before (facts: split-remainder)."""
        by_writers = (commit for commit in self.commits if not commit.is_compaction)
        return tuple(group for commit in by_writers for group in commit.groups if group.log_files)

    @cached_property
    def arrivals(self) -> tuple[GroupWrite, ...]:
        """Those of them that brought what was not there."""
        repeated = {commit.requested for commit in self.commits if commit.repeats}
        return tuple(write for write in self.writes if write.requested not in repeated) if repeated else self.writes

    @cached_property
    def archived_instants(self) -> tuple[Instant, ...]:
        """The archived commits as instants."""
        archived = (one for one in self.commits if one.archived)
        return tuple(
            Instant(one.requested, one.action, "completed", one.completed, schema=one.schema) for one in archived
        )

    @cached_property
    def runs(self) -> tuple[CompactionRecord, ...]:
        """The compactions that carry a threshold."""
        return tuple(commit.record for commit in self.commits if commit.record is not None)


def with_times_of(history: TableHistory, state: TableState) -> TableHistory:
    """The history with the event times that the state has of log files that are not compacted.

    Commits may not record them, or record them wrongly, and the state may know them from the files themselves.
    """
    found: dict[str, dict[GroupKey, list[LogFile]]] = {}
    for file_slice, log_file in state.log_files:
        found.setdefault(log_file.requested, {}).setdefault(file_slice.group, []).append(log_file)
    commits = (
        replace(one, groups=tuple(_with_times(group, found[one.requested]) for group in one.groups))
        if one.requested in found
        else one
        for one in history.commits
    )
    return replace(history, commits=tuple(commits))


def _with_times(write: GroupWrite, found: Mapping[GroupKey, Sequence[LogFile]]) -> GroupWrite:
    """All log files of a write must have their times for it to be certain; what is seen in one of them is in the write."""
    files = found.get((write.partition, write.file_id), ())
    if not files or not write.log_files:
        return write
    recorded_ms, first = write.known_min_ms, files[0]
    is_same = recorded_ms is not None and first.min_event_time_ms == recorded_ms and first.seen_event_time_ms is None
    if is_same and write.certain and len(files) == 1:  # as of most
        return write
    times = (time for one in files for time in (one.min_event_time_ms, one.seen_event_time_ms))
    known = [time for time in (*times, write.known_min_ms) if time is not None]
    is_whole = write.certain or len(files) >= write.log_files
    is_certain = is_whole and all(one.min_event_time_ms is not None for one in files)
    return write._replace(known_min_ms=min(known, default=None), certain=is_certain)


#: Reads a past on to what is archived.
Further = Callable[[], TableHistory]


class TableReading(NamedTuple):
    """The state of a table and its past, from one reading, with the pairs of `hoodie.properties`.

    `further` reads this past on to the newest archived commits.
    """

    state: TableState
    history: TableHistory
    properties: Mapping[str, str]
    further: Further


def promise_of(policy: Policy, state: TableState) -> CompactionRecord | None:
    """The last compaction by etc, where its threshold is one of the policy's event-time column."""
    record = state.last_compaction
    is_own = record is not None and is_of_column(policy.event_time, record, state.column_since)
    return record if is_own else None


def promises_in(policy: Policy, history: TableHistory) -> TableHistory:
    """The history without the thresholds of other event-time columns."""
    event_time, since = policy.event_time, history.column_since
    commits = (
        one if one.record is None or is_of_column(event_time, one.record, since) else replace(one, record=None)
        for one in history.commits
    )
    return replace(history, commits=tuple(commits))


def is_of_column(event_time: EventTime, record: CompactionRecord, since: str = "") -> bool:
    """Whether its threshold is one of this event-time column; what an older version of etc committed counts as one.

    None from before `since` is, when the column's name was another one's.
    """
    then = _column_in(record.policy_values)
    return record.instant >= since and (not then or then == _column_in(event_time_values(event_time)))


def event_time_key(event_time: EventTime, state: TableState) -> str:
    """The same for two policies by which the rows of the table have the same event times; which times are believed does not
    count. Another one since the column's name was another column's, and where another table has this one's path.
    """
    return digest([_column_in(event_time_values(event_time)), state.column_since, state.first_instant])


def subject_key(event_time: EventTime, state: TableState) -> str:
    """What is proved of a table is about this: how event times are read and believed, since when, and of which table."""
    return digest([event_time.model_dump(mode="json"), state.column_since, state.first_instant])


def _column_in(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if key.startswith(_COLUMN) and key not in _BELIEF}
