"""A merge-on-read table in plain Python: file groups, slices, and what readers must see. No planner code.

See facts: slice-by-completion. Times are epoch milliseconds; `instant_text` prints one the way Hudi names it, in UTC.

- A log file belongs to the newest slice whose base instant is <= its completion time. Slices begin at completed base
  files and at pending compactions (a phantom slice: readers go on to the base file below it). Log files before any
  base file make a log-only slice that begins at the first one's requested instant.
- Log files of a slice merge in requested order, the buffer of all of them first and the base file last.
- Time travel to `t` takes the newest slice that begins at or before `t` and skips log blocks requested after `t`.
- An incremental query builds slices from the files of its commits alone, and phantom slices; the last commit is its `t`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from etc_policy.plan.model import TablePlan

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def instant_text(epoch_ms: int) -> str:
    """The `yyyyMMddHHmmssSSS` text of a time."""
    return f"{EPOCH + timedelta(milliseconds=epoch_ms):%Y%m%d%H%M%S%f}"[:17]


@lru_cache(maxsize=4096)
def instant_time(text: str) -> int:
    """The time of a `yyyyMMddHHmmssSSS` text."""
    moment = datetime.strptime(text + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(milliseconds=1)


class Record(NamedTuple):
    """A record of a log block; a delete by key only has no event time."""

    key: int
    event: int | None
    value: int
    deletes: bool
    commit: int


class Row(NamedTuple):
    """A row of a base file or of a merge."""

    event: int
    value: int
    commit: int


Rows = Mapping[int, Row]


@dataclass(slots=True)
class Base:
    """A base file: `instant` is in its name, and it is visible once that instant has completed."""

    name: str
    instant: int
    rows: dict[int, Row]
    visible: bool


@dataclass(slots=True)
class Log:
    """A log file; `min_event` is what the metadata knows of the whole (commit, file group)."""

    name: str
    requested: int
    sequence: int
    records: tuple[Record, ...]
    min_event: int | None
    completed: int | None = None
    completion_known: bool = True

    @property
    def has_deletes(self) -> bool:
        return any(record.deletes for record in self.records)

    @property
    def known_completion(self) -> int:
        """The completion time as the table's reader gives it: of some archived commits only the request is known."""
        assert self.completed is not None
        return self.completed if self.completion_known else self.requested


@dataclass(slots=True)
class Slice:
    """A slice: `base` is None for log-only slices and for the phantom slice of a pending compaction."""

    start: int
    base: Base | None
    phantom: bool
    logs: list[Log] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """A file group; `replaced_at` is the instant of the clustering that replaced it."""

    file_id: str
    partition: str
    bases: list[Base] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)
    replaced_at: int | None = None


@dataclass(slots=True)
class Commit:
    """An instant of the timeline, of any action."""

    requested: int
    action: str
    completed: int | None = None
    state: str = "inflight"
    file_ids: frozenset[str] | None = None
    archived: bool = False


class Table:
    """Files and timeline of one table; `by_commit` merges by commit time instead of event time."""

    def __init__(self, *, by_commit: bool) -> None:
        self.by_commit = by_commit
        self.groups: dict[str, Group] = {}
        self.timeline: dict[int, Commit] = {}
        self.compactions: dict[int, dict[str, tuple[str | None, tuple[str, ...]]]] = {}

    def slices(self, group: Group, commits: frozenset[int] | None = None) -> list[Slice]:
        """The group's slices, oldest first, each with its completed log files; of files of these commits alone."""
        bases = [base for base in group.bases if base.visible and (commits is None or base.instant in commits)]
        slices = [Slice(base.instant, base, False) for base in bases]
        slices += [Slice(start, None, True) for start, plan in self.compactions.items() if group.file_id in plan]
        slices.sort(key=lambda one: one.start)
        orphans: list[Log] = []
        for log in group.logs:
            if log.completed is not None and (commits is None or log.requested in commits):
                home = next((one for one in reversed(slices) if one.start <= log.completed), None)
                (home.logs if home else orphans).append(log)
        if orphans:
            slices.insert(0, Slice(min(log.requested for log in orphans), None, False, orphans))
        return slices

    def merge(self, base: Rows, logs: Iterable[Log]) -> dict[int, Row]:
        """The rows of a base file and log files, merged in requested order."""
        buffer: dict[int, Record] = {}
        for log in sorted(logs, key=lambda one: (one.requested, one.sequence)):
            for record in log.records:
                held = buffer.get(record.key)
                if held is None or self._supersedes(record, held.event):
                    buffer[record.key] = record
        rows = dict(base)
        for key, record in buffer.items():
            if key in rows and not self._supersedes(record, rows[key].event):
                continue
            if record.deletes:
                rows.pop(key, None)
            else:
                assert record.event is not None
                rows[key] = Row(record.event, record.value, record.commit)
        return rows

    def _supersedes(self, record: Record, held_event: int | None) -> bool:
        if self.by_commit or record.event is None or held_event is None:
            return True
        return record.event >= held_event

    def group_as_of(self, group: Group, at: int, commits: frozenset[int] | None = None) -> dict[int, Row]:
        """What time travel to `at` reads from one group."""
        if group.replaced_at is not None and group.replaced_at <= at:
            return {}
        logs: list[Log] = []
        for one in reversed([one for one in self.slices(group, commits) if one.start <= at]):
            logs += [log for log in one.logs if log.requested <= at]
            if not one.phantom:
                return self.merge(one.base.rows if one.base else {}, logs)
        return self.merge({}, logs)

    def as_of(self, at: int) -> dict[str, dict[int, Row]]:
        """What time travel to `at` reads, by file group."""
        found = {group.file_id: self.group_as_of(group, at) for group in self.groups.values()}
        return {file_id: rows for file_id, rows in found.items() if rows}

    def rt(self) -> dict[str, dict[int, Row]]:
        """What a snapshot query reads, by file group."""
        return self.as_of(2**60)

    def incremental(self, commits: frozenset[int]) -> dict[str, dict[int, Row]]:
        """What an incremental query over the commits reads: their own files alone make the slices (run on 1.2.0)."""
        found: dict[str, dict[int, Row]] = {}
        for group in self.groups.values():
            rows = self.group_as_of(group, max(commits), commits)
            written = {key: row for key, row in rows.items() if row.commit in commits}
            if written:
                found[group.file_id] = written
        return found

    def ro(self) -> dict[str, dict[int, Row]]:
        """What a read-optimized query reads, by file group: the newest completed base files alone."""
        found: dict[str, dict[int, Row]] = {}
        for group in self.live_groups():
            base = self.newest_base(group)
            if base is not None:
                found[group.file_id] = base.rows
        return found

    def live_groups(self) -> list[Group]:
        """Groups that no clustering has replaced."""
        return [group for group in self.groups.values() if group.replaced_at is None]

    def newest_base(self, group: Group) -> Base | None:
        """The newest completed base file."""
        return max((base for base in group.bases if base.visible), key=lambda base: base.instant, default=None)

    def keys_twice(self) -> set[int]:
        """Keys that a snapshot query returns more than once."""
        keys = [key for rows in self.rt().values() for key in rows]
        return {key for key in keys if keys.count(key) > 1}

    def keys_in_two_groups(self) -> set[int]:
        """Keys that stand in files of two groups, also where readers do not see both: in open writes, or deleted."""
        found: list[int] = []
        for group in self.live_groups():
            slices = self.slices(group)
            old = {log.name for one in slices[:-1] for log in one.logs}
            newest = self.newest_base(group)
            bases = [base.rows for base in group.bases if base is newest or not base.visible]
            logs = [log.records for log in group.logs if log.name not in old]
            found += {key for rows in bases for key in rows} | {
                r.key for records in logs for r in records if not r.deletes
            }
        return {key for key in found if found.count(key) > 1}

    def publish(self, instant: int, plan: dict[str, tuple[str | None, tuple[str, ...]]]) -> None:
        """A compaction is pending: per file group the base file and the log files that it will merge."""
        assert instant not in self.timeline
        self.timeline[instant] = Commit(instant, "compaction", state="requested", file_ids=frozenset(plan))
        self.compactions[instant] = plan

    def execute(self, instant: int, completed: int) -> None:
        """The pending compaction completes: new base files from exactly the files that its plan names."""
        made: list[tuple[Group, Base]] = []
        for file_id, (base_name, log_names) in self.compactions.pop(instant).items():
            group = self.groups[file_id]
            bases = {base.name: base.rows for base in group.bases}
            logs = {log.name: log for log in group.logs}
            rows = self.merge(bases[base_name] if base_name else {}, [logs[name] for name in log_names])
            made.append((group, Base(base_file_name(file_id, instant), instant, rows, True)))
        for group, base in made:
            group.bases.append(base)
        commit = self.timeline[instant]
        commit.action, commit.state, commit.completed = "commit", "completed", completed


def base_file_name(file_id: str, instant: int) -> str:
    """The name of a base file."""
    return f"{file_id}_0-1-0_{instant_text(instant)}.parquet"


def log_file_name(file_id: str, requested: int, sequence: int) -> str:
    """The name of a log file."""
    return f".{file_id}_{instant_text(requested)}.log.{sequence}_0-1-0"


def cut_time(plan: TablePlan) -> int:
    """The time of a plan's C."""
    assert plan.instant is not None, "no instant"
    try:
        return instant_time(plan.instant)
    except ValueError as error:
        raise AssertionError(f"C {plan.instant} is not a time") from error


def publish_plan(table: Table, plan: TablePlan) -> int:
    """Publishes our plan on the modelled table and returns its instant C."""
    instant = cut_time(plan)
    table.publish(instant, {op.file_id: (op.base_file, op.log_files_compacted) for op in plan.operations})
    return instant
