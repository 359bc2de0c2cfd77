"""Writers and table services of the modelled table: tagging by an index, commits, rollback, clean, archive, clustering."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.property.model import Base, Commit, Group, Log, Record, Row, Table, base_file_name, log_file_name

COMMIT_ACTIONS = ("deltacommit", "commit", "replacecommit", "logcompaction")
LOG_INDEXES = ("bucket", "record_index")


class Change(NamedTuple):
    """What a writer is asked to do to a key: an upsert, a delete with event time, or one by key only (no event)."""

    key: int
    event: int | None
    value: int
    deletes: bool

    def __repr__(self) -> str:
        verb = "delete" if self.deletes else f"put {self.value} in"
        return f"{verb} key {self.key} at {'no event time' if self.event is None else self.event % 1000}"


class Style(NamedTuple):
    """How a write lands: small choices that a real writer makes by sizes."""

    tracked: bool
    rolls_over: bool
    small_file: bool
    insert_to_log: bool


@dataclass(slots=True)
class Write:
    """A write that has begun and not completed."""

    commit: Commit
    logs: list[Log] = field(default_factory=list)
    bases: list[Base] = field(default_factory=list)
    inserted: set[int] = field(default_factory=set)
    touched: dict[str, list[Record]] = field(default_factory=dict)


class Writers:
    """Writers of one table that share an index: base-file-only (None, simple, bloom) or log-indexing."""

    def __init__(self, table: Table, index: str | None) -> None:
        self.table, self.index = table, index
        self.indexes_logs = index in LOG_INDEXES
        self.homes: dict[int, str] = {}
        self.open: list[Write] = []
        self._groups_made = 0

    def begin(self, requested: int, changes: list[Change], style: Style) -> Write:
        """Tags the changes by the index and puts their files there, not yet committed."""
        write = Write(Commit(requested, "deltacommit"))
        self.table.timeline[requested] = write.commit
        inserts: dict[str, dict[int, Row]] = {}
        for change in changes:
            record = Record(change.key, change.event, change.value, change.deletes, requested)
            homes = self._tag(change.key)
            if any(self._is_rewritten(file_id) for file_id in homes or [f"bucket{change.key % 4}"]):
                continue
            for file_id in homes:
                write.touched.setdefault(file_id, []).append(record)
            if not homes and not change.deletes and not self._being_inserted(change.key):
                self._insert(write, record, style, inserts)
        for file_id, records in write.touched.items():
            self._append(write, self.table.groups[file_id], records, style)
        for file_id, rows in inserts.items():
            base = Base(base_file_name(file_id, requested), requested, rows, False)
            self.table.groups[file_id].bases.append(base)
            write.bases.append(base)
        write.commit.file_ids = frozenset(write.touched) | frozenset(inserts)
        self.open.append(write)
        return write

    def _tag(self, key: int) -> list[str]:
        if self.indexes_logs:
            # Sticky: a delete does not free the key's place, as in the bucket index.
            return [self.homes[key]] if key in self.homes else []
        found = []
        for group in self.table.live_groups():
            base = self.table.newest_base(group)
            if base is not None and key in base.rows and group.partition == partition_of(key):
                found.append(group.file_id)
        return found

    def _being_inserted(self, key: int) -> bool:
        # Two writers that insert one key at the same time make it twice without any compaction.
        return any(key in write.inserted for write in self.open)

    def _insert(self, write: Write, record: Record, style: Style, inserts: dict[str, dict[int, Row]]) -> None:
        group = self._insert_target(record.key, style, set(inserts))
        write.inserted.add(record.key)
        if self.indexes_logs:
            self.homes[record.key] = group.file_id
            if group.file_id not in inserts and (style.insert_to_log or group.logs or group.bases):
                write.touched.setdefault(group.file_id, []).append(record)
                return
        if group.file_id not in inserts:
            base = self.table.newest_base(group)
            inserts[group.file_id] = dict(base.rows) if base else {}
        assert record.event is not None
        inserts[group.file_id][record.key] = Row(record.event, record.value, record.commit)

    def _insert_target(self, key: int, style: Style, mine: set[str]) -> Group:
        partition = partition_of(key)
        if self.index == "bucket":
            file_id = f"bucket{key % 4}"
            return self.table.groups.setdefault(file_id, Group(file_id, partition))
        if style.small_file:
            for group in self.table.live_groups():
                if group.partition == partition and (group.file_id in mine or self._is_small(group)):
                    return group
        self._groups_made += 1
        group = Group(f"group{self._groups_made}", partition)
        self.table.groups[group.file_id] = group
        return group

    def _is_small(self, group: Group) -> bool:
        """Whether Spark may rewrite the group's base file with inserts: no log file, nothing under way."""
        if any(group.file_id in plan for plan in self.table.compactions.values()) or self.is_busy(group):
            return False
        slices = self.table.slices(group)
        return bool(slices) and slices[-1].base is not None and not slices[-1].logs

    def is_busy(self, group: Group) -> bool:
        """Whether an open write touches the group."""
        return any(write.commit.file_ids and group.file_id in write.commit.file_ids for write in self.open)

    def _is_rewritten(self, file_id: str) -> bool:
        # Stock conflict resolution aborts a writer whose base file another one is writing.
        return any(base.name.startswith(f"{file_id}_") for write in self.open for base in write.bases)

    def _append(self, write: Write, group: Group, records: list[Record], style: Style) -> None:
        events = [record.event for record in records if record.event is not None]
        min_event = min(events) if events and style.tracked else None
        parts = [records]
        if style.rolls_over and len(records) > 1:
            parts = [records[:1], records[1:]]
        for number, part in enumerate(parts, start=1):
            requested = write.commit.requested
            name = log_file_name(group.file_id, requested, number)
            log = Log(name, requested, number, tuple(part), min_event)
            group.logs.append(log)
            write.logs.append(log)

    def complete(self, write: Write, completed: int) -> None:
        """The write commits."""
        self.open.remove(write)
        write.commit.completed, write.commit.state = completed, "completed"
        for log in write.logs:
            log.completed = completed
        for base in write.bases:
            base.visible = True

    def roll_back(self, write: Write, requested: int, completed: int) -> None:
        """The write failed: its files go, and a rollback instant stays."""
        self.open.remove(write)
        del self.table.timeline[write.commit.requested]
        touched = write.commit.file_ids
        self.table.timeline[requested] = Commit(requested, "rollback", completed, "completed", touched)
        for group in list(self.table.groups.values()):
            group.logs = [log for log in group.logs if not any(log is gone for gone in write.logs)]
            group.bases = [base for base in group.bases if not any(base is gone for gone in write.bases)]
            if not group.logs and not group.bases:
                del self.table.groups[group.file_id]
        self.homes = {key: file_id for key, file_id in self.homes.items() if file_id in self.table.groups}
        for key in write.inserted:
            self.homes.pop(key, None)

    def schedule_compaction(self, requested: int) -> bool:
        """A stock compaction of everything that has log files becomes pending; False where there is nothing."""
        plan = {}
        for group in self.table.live_groups():
            slices = self.table.slices(group)
            if slices and slices[-1].logs and not slices[-1].phantom:
                base = slices[-1].base
                plan[group.file_id] = (base.name if base else None, tuple(log.name for log in slices[-1].logs))
        if plan:
            self.table.publish(requested, plan)
        return bool(plan)

    def cluster(self, requested: int, completed: int) -> bool:
        """Clustering merges all idle groups of a partition into a new one; the old ones stay for time travel."""
        chosen = [g for g in self.table.live_groups() if g.partition == "p0" and g.bases and not self.is_busy(g)]
        if not chosen or self.index == "bucket" or self.table.compactions:
            return False
        rows: dict[int, Row] = {}
        for group in chosen:
            rows.update(self.table.group_as_of(group, requested))
            group.replaced_at = requested
        self._groups_made += 1
        made = Group(f"group{self._groups_made}", "p0")
        made.bases.append(Base(base_file_name(made.file_id, requested), requested, rows, True))
        self.table.groups[made.file_id] = made
        touched = frozenset(group.file_id for group in chosen)
        self.table.timeline[requested] = Commit(requested, "replacecommit", completed, "completed", touched)
        moved = {key: made.file_id for key, file_id in self.homes.items() if file_id in touched}
        self.homes.update(moved)
        return True


def partition_of(key: int) -> str:
    """The partition of a key; keys do not move."""
    return f"p{key % 2}"


def clean(table: Table, retained: int) -> None:
    """Removes the slices that no reader at or after `retained` needs."""
    for group in list(table.groups.values()):
        if group.replaced_at is not None and group.replaced_at < retained:
            del table.groups[group.file_id]
            continue
        slices = table.slices(group)
        real = [one for one in slices if not one.phantom]
        keep_from = max((one.start for one in real if one.start <= retained), default=None)
        if keep_from is None:
            continue
        gone = [log for one in slices if one.start < keep_from for log in one.logs]
        group.bases = [base for base in group.bases if not base.visible or base.instant >= keep_from]
        group.logs = [log for log in group.logs if not any(log is old for old in gone)]


def archive(table: Table, keep: int, *, completion_known: bool, keep_services: bool) -> None:
    """Moves old completed instants out of the active timeline: all but `keep` commits, up to the first pending instant.

    Cleans and rollbacks have limits of their own in stock Hudi, so they may stay though later commits have gone.
    """
    active = sorted((c for c in table.timeline.values() if not c.archived), key=lambda commit: commit.requested)
    commits = [commit.requested for commit in active if commit.action in COMMIT_ACTIONS and commit.completed]
    pending = [commit.requested for commit in active if commit.completed is None]
    if len(commits) <= keep:
        return
    first = min(commits[-keep], *pending) if pending else commits[-keep]
    for commit in active:
        if commit.requested < first and (commit.action in COMMIT_ACTIONS or not keep_services):
            commit.archived = True
    for group in table.groups.values():
        for log in group.logs:
            # The archive may be out of reach for the reader: then only what is in the file's name is known.
            is_old = table.timeline[log.requested].archived and log.completed is not None and log.completed < first
            if is_old and not completion_known:
                log.completion_known = False
