"""Histories: bytes in, a table with a past and the planner's inputs out. The same bytes give the same history.

Left out on purpose (facts: key-delete-reinsert): in event-time ordering, a delete by key only that is followed by a record
of the key with a LOWER event time than the key ever had. There stock Hudi's own snapshot depends on when a compaction
ran, so no oracle can be right about it: after such a delete, events of the key never go below the highest one seen.
"""

from __future__ import annotations

from etc_policy.policy.manifest import EventTime, Granularity, Policy, Strategy, Writer
from etc_policy.table.state import HIDDEN, FileSlice, Instant, InstantState, LogFile, TableState
from tests.property.model import Commit, Slice, Table, instant_text
from tests.property.writers import Change, Style, Write, Writers, archive, clean

LATENCY_MS = 1_800_000
CLOCK_SKEW_MS = 200
EVENTS = 24
#: Ten milliseconds before a year's end: short steps cross every carry of the clock, and `...59999` + 1 is no time.
START_MS = 1_798_761_599_990
#: Near the first completion less the latency, which bounds event times that are not known.
EVENT_ZERO_MS = 1_798_759_800_000
INDEXES = (None, "simple", "bloom", "bucket", "record_index", None)
#: Instants are wall-clock times of the table's zone: how far that is ahead of UTC.
ZONES = (("UTC", 0), ("UTC", 0), ("UTC", 0), ("Asia/Kolkata", 19_800_000), ("America/Bogota", -18_000_000))
SERVICES = ("compaction", "logcompaction", "clustering", "restore", "indexing")


class Choices:
    """Small numbers read off a string of bytes; zeros once it is used up, so that shorter means simpler."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def used_up(self) -> bool:
        return self._at >= len(self._data)

    def below(self, bound: int) -> int:
        if self.used_up:
            return 0
        self._at += 1
        return self._data[self._at - 1] % bound

    def one_in(self, bound: int) -> bool:
        """False when used up."""
        return self.below(bound) == bound - 1


class History:
    """A table that has lived through the operations that its bytes spell out."""

    def __init__(self, data: bytes) -> None:
        self.choices = choices = Choices(data)
        self.trace: list[str] = []
        self.granularity: Granularity = "file_slice" if choices.one_in(4) else "log_file"
        self.table = Table(by_commit=choices.one_in(4))
        self.writers = Writers(self.table, INDEXES[choices.below(len(INDEXES))])
        self.options = self._archive_options() if choices.one_in(6) else {}
        self.zone, self.offset_ms = ZONES[choices.below(len(ZONES))]
        self.table_version = 8 if choices.one_in(4) else 9
        self.keys = 2 + choices.below(6)
        self.now = START_MS
        self.metadata: set[int] = set()
        self.altered: list[int] = []
        self.old_schema: dict[int, bool] = {}
        self.retained: int | None = None
        self._highest: dict[int, int] = {}
        self._deleted_by_key: set[int] = set()
        self._values = 0
        self.initial_write()
        limit = 3 + choices.below(14)
        while limit and not choices.used_up:
            limit -= 1
            self.step()
        if self.table.compactions and not choices.one_in(8):
            self.run_compaction()
        self.threshold = EVENT_ZERO_MS + choices.below(EVENTS + 2) - 1
        self.clock = self.now + (60_000, 60_000, 201, 250, 200, 1_000, 199, 0)[choices.below(8)]
        self._forget_schema()

    def _archive_options(self) -> dict[str, str]:
        keep_min = 2 + self.choices.below(4)
        keep_max = keep_min + 1 + self.choices.below(3)
        return {"hoodie.keep.min.commits": str(keep_min), "hoodie.keep.max.commits": str(keep_max)}

    def tick(self) -> int:
        """The next free millisecond, now and then much later."""
        self.now += (1, 1, 1, 2, 3, 1, 150, 61_000)[self.choices.below(8)]
        while self.now in self.table.timeline:
            self.now += 1
        return self.now

    def initial_write(self) -> None:
        """A first commit, so that there is something to update."""
        changes = [self._change(key, deletes=False) for key in range(self.keys)]
        style = Style(True, False, self.choices.one_in(2), self.choices.one_in(2))
        self.writers.complete(self._begin(changes, style), self.tick())

    def step(self, *, services: bool = True) -> None:
        """One operation of a writer or a table service."""
        kind = self.choices.below(32)
        if kind < 13 or not services:
            write = self.begin()
            if len(self.writers.open) > 2 or not self.choices.one_in(8):
                self.complete(write)
        elif kind < 16:
            self.begin()
        elif kind < 21:
            self._finish_one()
        elif kind < 24:
            self._compact()
        else:
            self._service(kind)

    def begin(self) -> Write:
        """A write of one to three keys begins."""
        mode, changes = self.choices.below(8), []
        # One record a key: the stock writer combines them before it writes.
        for key in dict.fromkeys(self.choices.below(self.keys) for _ in range(1 + self.choices.below(3))):
            deletes = mode == 7 or (mode == 6 and self.choices.one_in(2))
            changes.append(self._change(key, deletes=deletes))
        tracked, other = self.choices.below(10) != 9, self.choices.below(8)
        return self._begin(changes, Style(tracked, bool(other & 1), bool(other & 2), bool(other & 4)))

    def rewrite(self, key: int) -> Write:
        """A plain upsert of one key begins."""
        return self._begin([self._change(key, deletes=False)], Style(True, False, False, False))

    def _begin(self, changes: list[Change], style: Style) -> Write:
        write = self.writers.begin(self.tick(), changes, style)
        self._say(f"write {write.commit.requested - START_MS} to {sorted(write.commit.file_ids or ())}: {changes}")
        return write

    def _change(self, key: int, *, deletes: bool) -> Change:
        event: int | None = EVENT_ZERO_MS + self.choices.below(EVENTS)
        assert event is not None
        if deletes and self.choices.one_in(2):
            event = None
            self._deleted_by_key.add(key)
        elif key in self._deleted_by_key:
            event = max(event, self._highest[key])
        self._highest[key] = max(self._highest.get(key, 0), event or 0)
        self._values += 1
        return Change(key, event, self._values, deletes)

    def complete(self, write: Write) -> None:
        """A write commits."""
        self.writers.complete(write, self.tick())
        self._say(f"commit {write.commit.requested - START_MS} at {self.now - START_MS}")

    def fail(self, write: Write) -> None:
        """A write is rolled back."""
        self.writers.roll_back(write, self.tick(), self.tick())
        self._say(f"roll back {write.commit.requested - START_MS} at {self.now - START_MS}")

    def _finish_one(self) -> None:
        if self.writers.open:
            write = self.writers.open[self.choices.below(len(self.writers.open))]
            if self.choices.one_in(4):
                self.fail(write)
            else:
                self.complete(write)

    def _compact(self) -> None:
        """A stock compaction is scheduled, or a scheduled one runs; writers may come between."""
        if self.table.compactions:
            self.run_compaction()
        elif self.writers.schedule_compaction(self.tick()):
            self._say(f"stock compaction scheduled at {self.now - START_MS}")
            if not self.choices.one_in(6):
                self.run_compaction()

    def run_compaction(self) -> None:
        """The pending stock compaction completes."""
        instant = min(self.table.compactions)
        self.table.execute(instant, self.tick())
        self._say(f"stock compaction {instant - START_MS} done at {self.now - START_MS}")

    def _service(self, kind: int) -> None:
        choice, timeline = self.choices.below(8), self.table.timeline
        if kind == 24 and not self.table.compactions:
            commits = sorted(c.requested for c in timeline.values() if c.completed and c.action != "clean")
            self.retained = commits[choice * len(commits) // 8]
            clean(self.table, self.retained)
            self._foreign("clean", 1)
        elif kind in (25, 26):
            keep = 1 + choice % 3
            archive(self.table, keep, completion_known=choice < 6, keep_services=choice % 2 == 1)
            self._say(f"archive all but {keep} commits")
        elif kind == 27 and self.writers.cluster(self.tick(), self.tick()):
            self._say(f"clustering at {self.now - START_MS}")
        elif kind == 28 and choice == 7:
            self._pending_service()
        elif kind == 28 and choice > 4:
            self._alter()
        elif kind == 29:
            self._foreign(("savepoint", "clean", "rollback", "logcompaction")[choice % 4], 1 + choice // 4)
        elif kind >= 30:
            # Where the cut will want to stand: right after the last completion.
            self.metadata |= {self.now + offset for offset in (1, 2) if choice & offset}
            self._say(f"MDT instants after {self.now - START_MS}: {choice & 3}")

    def _foreign(self, action: str, wait: int) -> None:
        requested, completed = self.tick(), self.tick() + wait
        self.now = completed
        touched = frozenset({"nobody"}) if action == "rollback" else None
        if action == "logcompaction":  # what it merged reads the same; only when it ended counts
            touched = frozenset(sorted(self.table.groups)[: 1 + self.choices.below(2)])
        self.table.timeline[requested] = Commit(requested, action, completed, "completed", touched)
        self._say(f"{action} {requested - START_MS} done at {completed - START_MS}")

    def _alter(self) -> None:
        """ALTER TABLE: a commit without files, and with another schema, which the writes after it carry on."""
        requested = self.tick()
        self.altered.append(requested)
        self.table.timeline[requested] = Commit(requested, "deltacommit", self.tick(), "completed", frozenset())
        self._say(f"schema altered at {requested - START_MS}")

    def _forget_schema(self) -> None:
        """Writers that knew nothing of an ALTER TABLE, which renamed columns: their commits carry an older schema, or none."""
        since = [c.requested for c in self.table.timeline.values() if c.action == "deltacommit" and c.completed]
        since = sorted(at for at in since if self.altered and at > self.altered[0] and at not in self.altered)
        for _ in range(2):
            if since and self.choices.one_in(2):
                at, older = since[self.choices.below(len(since))], self.choices.one_in(3)
                self.old_schema[at] = older
                self._say(f"write {at - START_MS} carries {'an older' if older else 'no'} schema")

    def _pending_service(self) -> None:
        action = SERVICES[self.choices.below(len(SERVICES))]
        state = ("requested", "inflight")[self.choices.below(2)]
        requested = self.tick()
        self.table.timeline[requested] = Commit(requested, action, None, state)
        self._say(f"{action} {requested - START_MS} {state}")

    def _say(self, text: str) -> None:
        self.trace.append(text)

    def policy(self) -> Policy:
        """The policy that the history is planned under."""
        return Policy(
            name="history",
            table="/table",
            event_time=EventTime(column="ts"),
            data_latency_ms=LATENCY_MS,
            strategy=Strategy(granularity=self.granularity),
            writer=Writer(index=self.writers.index),
            hudi_options=self.options,
        )

    def _schema_at(self, requested: int) -> str:
        """What names the schema that a write carries."""
        number, older = sum(at <= requested for at in self.altered), self.old_schema.get(requested)
        return HIDDEN if older is False else str(number - bool(older) or "")

    def state(self) -> TableState:
        """The table as the reader of its metadata would describe it."""
        active = [commit for commit in self.table.timeline.values() if not commit.archived]
        active.sort(key=lambda commit: commit.requested)
        slices = []
        for group in self.table.live_groups():
            found = self.table.slices(group)
            if found:
                slices.append(_slice_of(group.partition, group.file_id, found[-1]))
        return TableState(
            base_path="/table",
            table_version=self.table_version,
            timezone=self.zone,
            metadata_partitions=("files", "record_index") if self.writers.index == "record_index" else ("files",),
            properties_fingerprint="same",
            event_time_type="long",
            instants=tuple(_instant_of(commit, self._schema_at(commit.requested)) for commit in active),
            metadata_instants=frozenset(instant_text(t) for t in self.metadata | {c.requested for c in active}),
            slices=tuple(sorted(slices, key=lambda one: (one.partition, one.file_id))),
            earliest_commit_to_retain=instant_text(self.retained) if self.retained else None,
        )


def _slice_of(partition: str, file_id: str, found: Slice) -> FileSlice:
    logs = sorted(found.logs, key=lambda log: (log.known_completion, log.requested, log.sequence))
    return FileSlice(
        partition=partition,
        file_id=file_id,
        base_instant=instant_text(found.start),
        base_file=found.base.name if found.base else None,
        base_file_bytes=100 * len(found.base.rows) if found.base else 0,
        log_files=tuple(
            LogFile(
                name=log.name,
                size_bytes=10 * len(log.records),
                requested=instant_text(log.requested),
                completed=instant_text(log.known_completion),
                min_event_time_ms=log.min_event,
                has_deletes=log.has_deletes,
                unknown_is_deletes=log.min_event is None and all(record.event is None for record in log.records),
            )
            for log in logs
        ),
    )


def _instant_of(commit: Commit, schema: str) -> Instant:
    state: InstantState = "completed" if commit.completed is not None else "inflight"
    if commit.completed is None and commit.state == "requested":
        state = "requested"
    completed = instant_text(commit.completed) if commit.completed is not None else None
    return Instant(instant_text(commit.requested), commit.action, state, completed, commit.file_ids, schema=schema)
