"""A table of hours, its writers, and runs that judge its partitions and send events: what is said of them against what is so.

Beside writes and compactions of both kinds there are rollbacks, overwrites, older copies of the table, archiving, altered
columns, edits of the policy, verifications, slow runs, runs that are killed, and clocks that are wrong.

The oracle keeps every row with its true event times, knows when it was in RO, and which files a verification has looked at. It
knows neither slices nor the record's rules.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, cast

from etc_policy.api import partitions as api_partitions
from etc_policy.policy.manifest import EventTime, Freshness, Level, Policy, VerifyLevel
from etc_policy.policy.schema import Done, PartitionTime
from etc_policy.table import done as rules
from etc_policy.table.apply_state import ApplyState, Proof, with_proof
from etc_policy.table.done import DoneEvent, DoneRecord
from etc_policy.table.history import Commit, GroupWrite, TableHistory
from etc_policy.table.instants import instant_from_ms
from etc_policy.table.partitions import PartitionsFreshness, by_partition, done_since_ms, partitions_freshness, rows_key
from etc_policy.table.state import CompactionRecord, FileSlice, Instant, LogFile, TableState
from tests.property.day import MINUTE, START, UTC

LATENCY, HOUR, GRACE = 20 * MINUTE, 60 * MINUTE, 30 * MINUTE
ACTIONS = ("success_file", "http")
Key = tuple[int, int]


class Rule(NamedTuple):
    """What the policy says now; `since` is an hour, `column` counts its event-time columns."""

    rows: str | None = None
    grace: int | None = None
    proof: str = "metadata"
    freshness: str | None = None
    since: int | None = None
    column: int = 0
    latency: int = LATENCY

    def ends(self, hour: int) -> int:
        return START + (hour + 1) * HOUR + (self.grace or 0)

    def wanted(self, hour: int) -> Level:
        complete = Level[self.freshness or "metadata"]
        return complete if self.since is not None and hour < self.since else max(complete, Level[self.proof])


@lru_cache(1000)
def policy_of(rule: Rule) -> Policy:
    done = {"rows": rule.rows, "proof": rule.proof, "since": None if rule.since is None else name(rule.since)}
    return Policy(
        name="hours",
        table="/hours",
        event_time=EventTime(column=f"ts{rule.column}"),
        data_latency_ms=rule.latency,
        partition_time=PartitionTime(pattern="h=%Y-%m-%d %H", grace_ms=rule.grace),
        done=Done.model_validate({"success_file": "_SUCCESS", **done}),
        freshness=Freshness.model_validate({"proof": rule.freshness}),
    )


@dataclass(eq=False)
class Write:
    """What a commit wrote to one hour: its true event time by each of two columns, and which one its commit records."""

    hour: int
    group: int
    requested: int
    events: tuple[int, int]
    meaning: int
    known: bool
    to_log: bool
    completed: int = 0
    #: When its commit was there to be read.
    shown: int = 0

    def known_event(self, meaning: int) -> int | None:
        return self.events[meaning % 2] if self.known and self.meaning == meaning else None

    def counts(self, rule: Rule, meaning: int) -> bool:
        """Whether it is one of the rows that RO has to hold, as far as anybody can know."""
        event = self.known_event(meaning)
        return rule.rows != "until_end" or event is None or event < rule.ends(self.hour)


@dataclass(eq=False)
class Op:
    """A commit, as the timeline has it: a write, a compaction of one group, or an hour that is deleted or overwritten."""

    requested: int
    completed: int
    action: str
    operation: str
    write: Write | None = None
    key: Key | None = None
    merged: tuple[Write, ...] = ()
    replaced: int | None = None
    by_etc: bool = False


class Contents:
    """What the commits have made of the table."""

    def __init__(self, ops: Iterable[Op]) -> None:
        self.bases: dict[Key, int] = {}
        self.rows: dict[Key, list[Write]] = {}
        self.in_ro: set[Write] = set()
        for op in ops:
            self.apply(op)

    def apply(self, op: Op) -> None:
        if op.replaced is not None:
            for key in [key for key in self.bases if key[0] == op.replaced]:
                del self.bases[key], self.rows[key]
        if op.key is not None:
            self.bases[op.key] = op.requested
            self.in_ro.update(op.merged)
        if (one := op.write) is not None:
            key = one.hour, one.group
            self.rows.setdefault(key, []).append(one)
            if not one.to_log or key not in self.bases:
                self.bases[key] = one.requested
                self.in_ro.add(one)

    def waiting(self, key: Key) -> list[Write]:
        return sorted((one for one in self.rows[key] if one not in self.in_ro), key=lambda one: one.completed)

    @property
    def hours(self) -> frozenset[int]:
        return frozenset(hour for hour, _ in self.bases)

    def of(self, hour: int) -> Iterator[Write]:
        return (one for key, rows in self.rows.items() if key[0] == hour for one in rows)

    def files(self, hour: int) -> frozenset[tuple[object, ...]]:
        bases = {("base", *key, at) for key, at in self.bases.items() if key[0] == hour}
        return frozenset(bases | {("log", one) for one in self.of(hour) if one not in self.in_ro})


class Checked(NamedTuple):
    """What somebody has really looked at, and by which column."""

    level: Level
    until: int
    meaning: int
    files: frozenset[tuple[object, ...]]


@dataclass
class Said:
    """An hour that is done by the record: what it rests on, and when it was last looked at."""

    counted: frozenset[Write]
    looked: int
    rule: Rule
    meaning: int


@dataclass
class Snapshot:
    """A copy of the table at a time."""

    ops: list[Op]
    archived: int
    restores: list[Instant]
    altered: str
    record: DoneRecord
    proofs: tuple[object, tuple[Proof, ...]]
    compared: dict[str, str]
    said: dict[str, Said]
    sent: dict[str, list[DoneEvent]]


@dataclass
class Reading:
    """The table as a run reads it at a time, by its own clock, and what is really so then: by hour that is done the proof."""

    state: TableState
    history: TableHistory
    proofs: tuple[Proof, ...]
    rule: Rule
    meaning: int
    at: int
    clock: int
    hours: frozenset[int]
    done: dict[str, Level]
    lacking: frozenset[str]
    rows: dict[str, frozenset[Write]]
    #: Whether what began before the record's last reading is still there to be read.
    is_whole: bool
    #: All that is on the timeline, also of hours that were deleted since.
    writes: tuple[Write, ...]

    @property
    def policy(self) -> Policy:
        return policy_of(self.rule)


#: What happens, and how often.
_STEPS = {
    "begin": 7,
    "end": 6,
    "compact": 3,
    "archive": 2,
    "read_slowly": 2,
    "replace_hour": 1,
    "take_back": 1,
    "put_back": 1,
    "edit": 1,
    "verify": 1,
    "copy": 1,
    "look": 5,
}


@dataclass
class World:
    """The table, its writers, and the runs; what each action was sent."""

    source: random.Random
    now: int = START
    ops: list[Op] = field(default_factory=list)
    open: list[Write] = field(default_factory=list)
    groups: int = 2
    #: An hour that was deleted or overwritten has other file groups since.
    first_group: dict[int, int] = field(default_factory=dict)
    restores: list[Instant] = field(default_factory=list)
    #: What was requested before is archived.
    archived: int = 0
    rule: Rule = field(default_factory=Rule)
    altered: str = ""
    #: Numbers what the event time was, by the policy's column and since when that has its name.
    meanings: dict[tuple[int, str], int] = field(default_factory=dict)
    record: DoneRecord = field(default_factory=DoneRecord)
    proofs: tuple[object, tuple[Proof, ...]] = (None, ())
    compared: dict[str, str] = field(default_factory=dict)
    checked: list[Checked] = field(default_factory=list)
    said: dict[str, Said] = field(default_factory=dict)
    #: When rows were taken from the table, and which.
    taken: list[tuple[int, str, frozenset[Write]]] = field(default_factory=list)
    sent: dict[str, list[DoneEvent]] = field(default_factory=lambda: {name: [] for name in ACTIONS})
    success_files: set[str] = field(default_factory=set)
    lost: list[DoneEvent] = field(default_factory=list)
    killed: list[DoneEvent] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    slow: Reading | None = None
    #: Since it was last looked at. What is then older than all that is left cannot be told from what is archived.
    is_put_back: bool = False
    seen: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table = Contents(())

    @property
    def meaning(self) -> int:
        return self.meanings.setdefault((self.rule.column, self.altered), len(self.meanings))

    def count(self, what: str) -> None:
        self.seen[what] = self.seen.get(what, 0) + 1

    def tick(self, longest: int = 6) -> int:
        self.now += self.source.randint(1, longest) * MINUTE + 7
        return self.now

    def step(self) -> None:
        """Something happens."""
        (chosen,) = self.source.choices(tuple(_STEPS), tuple(_STEPS.values()))
        getattr(self, chosen)()

    def read_slowly(self) -> None:
        """A run reads the table, or one that has read it before records what it found."""
        if self.slow is None:
            self.slow = self.read(self.source.choice((-20, -10, 0, 0, 10, 20)))
        else:
            self.note(self.slow)
            self.slow = None

    def look(self) -> None:
        """A run at its end: rows are compared where that is wanted, events are found and sent."""
        skew = self.source.choice((0, 0, 0, 0, -10, 10, 20, -180, 180))
        if self.rule.proof == "data" and self.source.random() < 0.8:
            self.compare(self.read(skew))
        reading = self.read(skew)
        found = self.note(reading)
        if found is not None and self.send(reading, found):
            done = {partition for partition, one in self.record.partitions.items() if one.last.kind == "done"}
            left = {one for one in self.success_files - done if one in reading.rows}
            assert not left, f"success files that nobody takes away: {left}"

    # What writers and others do

    def begin(self) -> None:
        """A write begins, in time or late, into its own hour or, as some writers do, into another one."""
        late = self.source.choice((0, 5, 19, 100, 200)) * MINUTE
        event = max(self.now - late, START)
        hour = (event - START) // HOUR if self.source.random() < 0.7 else self.source.randrange(3)
        events = event, max(event - self.source.choice((0, 30, 90)) * MINUTE, START)
        known, to_log = self.source.random() < 0.8, self.source.random() < 0.7
        group = self.first_group.get(hour, 0) + self.source.randrange(2)
        self.open.append(Write(hour, group, self.tick(12), events, self.meaning, known, to_log))

    def end(self) -> None:
        """An open write commits, or fails and leaves nothing."""
        if not self.open:
            return
        one = self.open.pop(self.source.randrange(len(self.open)))
        has_conflict = not one.to_log and self.table.bases.get((one.hour, one.group), 0) > one.requested
        if has_conflict or self.source.random() < 0.15:
            return
        one.completed = one.shown = self.tick(6)
        if self.source.random() < 0.15:  # others may have completed after it, and have been seen
            one.completed = self.source.randint(max(one.requested, one.shown - 50 * MINUTE), one.shown)
        self.commit(Op(one.requested, one.completed, "deltacommit", "UPSERT", one))

    def commit(self, op: Op) -> None:
        self.ops.append(op)
        self.table.apply(op)

    def compact(self, least: int = 0) -> None:
        """What has committed to some groups comes to RO: by somebody else all of it, by etc up to an instant in the past."""
        keys = sorted(self.table.bases)
        by_etc = not least and self.source.random() < 0.5
        for key in self.source.sample(keys, max(least, self.source.randint(0, len(keys)))):
            waiting = self.table.waiting(key)
            if by_etc:
                waiting = waiting[: self.source.randint(1, len(waiting))] if waiting else []
            if waiting and (not by_etc or waiting[-1].completed > self.archived):
                at = waiting[-1].completed + 1 if by_etc else self.tick(2)
                at = max(at, self.table.bases[key] + 1)
                merged = tuple(one for one in self.table.waiting(key) if one.completed < at)
                completed = self.tick(2)
                self.commit(Op(at, completed, "commit", "COMPACT", key=key, merged=merged, by_etc=by_etc))

    def replace_hour(self) -> None:
        """An hour is deleted, or overwritten by rows that are in RO at once; what is open there fails."""
        if not self.table.bases:
            return
        hour = self.source.choice(sorted(self.table.bases))[0]
        self.open = [one for one in self.open if one.hour != hour]
        self.groups += 2
        self.first_group[hour] = self.groups
        before = frozenset(self.table.of(hour))
        self.overwrite(hour)
        self.taken.append((self.now, "dropped", before))

    def overwrite(self, hour: int) -> None:
        if self.source.random() < 0.5:
            self.commit(Op(self.tick(), self.tick(), "replacecommit", "DELETE_PARTITION", replaced=hour))
            return
        event = START + hour * HOUR + self.source.randrange(2 * HOUR)
        known = self.source.random() < 0.8
        one = Write(hour, self.groups, self.tick(), (event, event), self.meaning, known, to_log=False)
        one.completed = one.shown = self.tick()
        self.commit(Op(one.requested, one.completed, "replacecommit", "INSERT_OVERWRITE", one, replaced=hour))

    def archive(self) -> None:
        """All but some commits, the oldest by request; nothing from one on that is open, or was the last to end."""
        kept = self.source.randint(1, 5)
        if len(self.ops) <= kept or self.is_put_back:
            return
        bound = sorted(one.requested for one in self.ops)[-kept]
        last = max(self.ops, key=lambda one: one.completed).requested
        self.archived = max(self.archived, min((bound, last, *(one.requested for one in self.open))))

    def take_back(self) -> None:
        """The last commits are rolled back, and what is open."""
        active = sorted(one.requested for one in self.ops if one.requested >= self.archived)
        if len(active) < 3:
            return
        until = active[-self.source.randint(2, min(4, len(active)))]
        requested, completed = self.tick(), next(one.completed for one in self.ops if one.requested == until)
        kept = [one for one in self.ops if one.requested <= until]
        if self.source.random() < 0.5:  # as Hudi does by its eager policy
            kept = [one for one in self.ops if one.completed <= completed or one.requested < self.archived]
        if self.oldest() not in {one.requested for one in kept}:
            return
        self.keep(kept)
        self.restores.append(Instant(text(requested), "restore", "completed", text(self.tick(2))))
        self.snapshots.clear()

    def oldest(self) -> int:
        """The first request of what is not archived."""
        return min((one.requested for one in self.ops if one.requested >= self.archived), default=0)

    def put_back(self) -> None:
        """The table's folder is put back from a copy, with the record of events or without it."""
        if not self.snapshots:
            return
        copy = self.snapshots.pop(self.source.randrange(len(self.snapshots)))
        if self.oldest() not in {one.requested for one in copy.ops}:
            return
        self.snapshots.clear()
        self.tick()
        self.keep(copy.ops)
        self.archived, self.restores, self.proofs, self.compared = (
            copy.archived,
            copy.restores,
            copy.proofs,
            copy.compared,
        )
        self.altered = copy.altered
        if self.source.random() < 0.5:
            self.record, self.sent, self.said = copy.record, copy.sent, copy.said
            self.count("put back with its record")
        self.slow = None

    def copy(self) -> None:
        """Somebody makes a copy of the table."""
        self.snapshots.append(self.snapshot())

    def snapshot(self) -> Snapshot:
        return Snapshot(
            list(self.ops),
            self.archived,
            list(self.restores),
            self.altered,
            self.record,
            self.proofs,
            dict(self.compared),
            {hour: replace(one) for hour, one in self.said.items()},
            {action: list(events) for action, events in self.sent.items()},
        )

    def keep(self, ops: list[Op]) -> None:
        before = {one for hour in self.table.hours for one in self.table.of(hour)}
        self.ops, self.open, self.table, self.is_put_back = ops, [], Contents(ops), True
        after = {one for hour in self.table.hours for one in self.table.of(hour)}
        self.taken.append((self.now, "rolled_back", frozenset(before - after)))
        self.count("taken back")

    def edit(self) -> None:
        """The policy is changed, or the table's event-time column."""
        choose, kind = self.source.choice, self.source.randrange(8)
        if kind == 0:
            self.rule = self.rule._replace(rows=choose((None, "all", "until_end", "until_end")))
        elif kind == 1:
            self.rule = self.rule._replace(grace=choose((None, GRACE)))
        elif kind == 2:
            self.rule = self.rule._replace(proof=choose(("metadata", "logs", "data")))
        elif kind == 3:
            self.rule = self.rule._replace(freshness=choose((None, "logs", "data")))
        elif kind == 4:
            self.rule = self.rule._replace(since=choose((None, 0, 1, 2)))
        elif kind == 5:
            self.rule = self.rule._replace(column=self.rule.column + 1)
        elif kind == 6:
            self.rule = self.rule._replace(latency=choose((LATENCY, LATENCY, 10 * LATENCY)))
        else:
            self.altered = text(self.tick())

    # What runs of etc do

    @property
    def subject(self) -> object:
        """What a proof is about."""
        last = max((one for one in self.ops if one.by_etc), key=lambda one: one.completed, default=None)
        return last, self.rule.column, self.altered

    def verify(self, level: str = "") -> None:
        """The whole table passes, as far as RO is complete."""
        level = level or self.source.choice(("logs", "data"))
        if not self.ops:
            return
        waiting = [one for key in self.table.bases for one in self.table.waiting(key)]
        until = min((self.now - self.rule.latency, *(min(one.events) - 1 for one in waiting)))
        completed = max((text(one.completed) for one in self.ops), default="")
        completed = max((completed, *(one.completed or "" for one in self.restores)))
        opened = min((text(one.requested) for one in self.open), default=completed)
        proof = Proof(
            level=cast(VerifyLevel, level),
            until_ms=until,
            proved_at_ms=self.now,
            seen_until=completed,
            open_since=opened,
        )
        kept = self.proofs[1] if self.proofs[0] == self.subject else ()
        self.proofs = self.subject, with_proof(kept, proof)
        files = frozenset(one for hour in self.table.hours for one in self.table.files(hour))
        self.checked.append(Checked(Level[level], until, self.meaning, files))

    def compare(self, reading: Reading) -> None:
        """The rows of what lacks nothing but this proof are compared."""
        found = self.found(reading)
        slices = by_partition(reading.state.slices)
        for one in found.partitions if found is not None else ():
            if one.status == "closed" and one.proof and one.ends_ms is not None:
                self.compared[one.partition] = rows_key(
                    reading.policy, reading.state, one.ends_ms, slices[one.partition]
                )
                hour = hour_of(one.partition)
                self.checked.append(Checked(Level.data, one.ends_ms - 1, self.meaning, self.table.files(hour)))

    def read(self, skew: int) -> Reading:
        """The table as it is now, by a clock that is wrong by so many minutes."""
        clock, meaning, rule = self.now + skew * MINUTE, self.meaning, self.rule
        active = [one for one in self.ops if one.requested >= self.archived]
        instants = [Instant(text(o.requested), o.action, "completed", text(o.completed)) for o in active]
        instants += [Instant(text(o.requested), "deltacommit", "inflight") for o in self.open]
        last = cast(Op | None, cast(tuple[Any, ...], self.subject)[0])
        promise = last and CompactionRecord(
            text(last.requested), text(last.completed), clock - self.rule.latency, "hours", ""
        )
        state = TableState(
            base_path="/hours",
            table_version=9,
            timezone="UTC",
            metadata_partitions=(),
            properties_fingerprint="",
            event_time_type="long",
            instants=tuple(sorted((*instants, *self.restores), key=lambda one: one.requested)),
            metadata_instants=frozenset(),
            slices=tuple(self.slices()),
            last_compaction=promise,
            column_since=self.altered,
            apply_state=ApplyState(compared=dict(self.compared)),
        )
        proofs = self.proofs[1] if self.proofs[0] == self.subject else ()
        ends = {name(hour): rule.ends(hour) for hour in self.table.hours}
        rows = {name(hour): frozenset(self.table.of(hour)) for hour in self.table.hours}
        lacking = frozenset(
            hour
            for hour, found in rows.items()
            if any(one.counts(rule, meaning) and one not in self.table.in_ro for one in found)
        )
        proven = {one: self.proven(hour_of(one), ends[one]) for one in rows}
        done = {
            one: proven[one]
            for one in rows
            if one not in lacking and ends[one] + rule.latency <= clock and proven[one] >= rule.wanted(hour_of(one))
        }
        return Reading(
            *(
                state,
                self.history(state),
                proofs,
                rule,
                meaning,
                self.now,
                clock,
                self.table.hours,
                done,
                lacking,
                rows,
            ),
            is_whole=not self.record.open_since
            or any(text(one.requested) <= self.record.open_since for one in self.ops),
            writes=tuple(one.write for one in self.ops if one.write is not None and one.replaced is None),
        )

    def slices(self) -> Iterator[FileSlice]:
        for (hour, group), base in sorted(self.table.bases.items()):
            files = tuple(
                LogFile(f"L{one.requested}", 1, text(one.requested), text(one.completed), one.known_event(self.meaning))
                for one in self.table.waiting((hour, group))
            )
            yield FileSlice(name(hour), f"f{hour}-{group}", text(base), f"b{hour}-{group}-{base}", 1, files)

    def history(self, state: TableState) -> TableHistory:
        commits = sorted(map(self.as_commit, self.ops), key=lambda one: one.completed)
        whole = TableHistory("/hours", 9, "UTC", tuple(commits), complete=True)
        bound = text(self.archived) if self.archived else ""
        recent = replace(whole, commits=tuple(one for one in commits if one.requested >= bound), complete=False)
        return recent if rules.reaches_back(self.record, state, recent) else whole

    def as_commit(self, op: Op) -> Commit:
        times, groups = (text(op.requested), text(op.completed)), list[GroupWrite]()
        if (one := op.write) is not None:
            event = one.known_event(self.meaning)
            to_log = int(one.to_log)
            where = name(one.hour), f"f{one.hour}-{one.group}"
            groups.append(GroupWrite(*times, *where, event, event is not None, 1, log_files=to_log))
        replaced = frozenset() if op.replaced is None else frozenset({(name(op.replaced), "f")})
        kind = cast(Any, op.action), op.operation
        return Commit(*times, *kind, tuple(groups), replaced, archived=op.requested < self.archived)

    def proven(self, hour: int, ends: int) -> Level:
        """The strongest level at which somebody has looked at these very files, up to the hour's end."""
        files = self.table.files(hour)
        own = (one for one in self.checked if one.meaning == self.meaning and one.until >= ends - 1)
        return max((one.level for one in own if files <= one.files), default=Level.metadata)

    def found(self, reading: Reading) -> PartitionsFreshness | None:
        """What the product says of the partitions; None where it knows nothing, as the clock is behind the table."""
        if (reading.state.last_completed or "") > text(reading.clock + MINUTE):
            return None
        return partitions_freshness(reading.policy, reading.state, reading.clock, proofs=reading.proofs)

    def note(self, reading: Reading) -> PartitionsFreshness | None:
        """What the run finds is recorded; None where it is not to send anything."""
        found, before = self.found(reading), self.record
        if found is None or rules.is_ahead(before, UTC, reading.clock):
            return None
        after = rules.after_reading(before, reading.policy, reading.state, reading.history, found, reading.clock)
        if rules.is_overtaken(after, reading.state, reading.history, reading.clock):
            assert after == before, "a run that has seen less than another had the last word"
            return None
        self.record, self.is_put_back = after, False
        for partition, one in after.partitions.items():
            kept = before.partitions.get(partition)
            for event in one.events:
                if event.number > (kept.last.number if kept else 0):
                    self.check_found(event, reading)
        self.check_nothing_passed_over(reading)
        return found

    def check_found(self, event: DoneEvent, reading: Reading) -> None:
        """What is found was so when the run read the table."""
        if event.kind == "reopened":
            assert event.partition in self.said, f"{event.partition} was reopened before it was done"
            assert event.why in self.causes(event.partition, reading), f"{event} is not why"
            self.count(f"reopened: {event.why}")
            del self.said[event.partition]
            return
        assert event.partition not in self.said, f"{event.partition} is done again, and not said to be reopened"
        self.check_done(event, reading)
        rows = reading.rows[event.partition]
        self.said[event.partition] = Said(rows, reading.at, reading.rule, reading.meaning)

    def check_done(self, event: DoneEvent, reading: Reading) -> None:
        proven = reading.done.get(event.partition)
        assert proven is not None, f"FALSE DONE: {event} {reading.rule}"
        assert Level[event.proof or "metadata"] <= proven, f"FALSE PROOF: {event}, and it is {proven}"

    def late(self, partition: str, reading: Reading) -> list[Write]:
        """Rows that came since the hour was last looked at, and count."""
        said = self.said[partition]
        since = (one for one in reading.rows.get(partition, ()) if said.looked < one.shown <= reading.at)
        return [one for one in since if one.counts(reading.rule, reading.meaning)]

    def causes(self, partition: str, reading: Reading) -> set[str]:
        """Why it may be said that an hour is not done any more."""
        said, found = self.said[partition], set[str]()
        since = (one for one in reading.writes if said.looked < one.shown and name(one.hour) == partition)
        if any(one.counts(reading.rule, reading.meaning) for one in since):
            found.add("late_data")
        found |= {
            why
            for at, why, rows in self.taken
            if said.looked < at <= reading.at and (why != "dropped" or rows & said.counted)
        }
        if not reading.is_whole:
            found.add("late_data")  # nobody knows
        if partition not in reading.rows:
            found.add("dropped")
        is_changed = said.rule != reading.rule or said.meaning != reading.meaning
        ends_otherwise = said.rule.grace != reading.rule.grace  # it may be proved up to the end of before alone
        if ends_otherwise or (is_changed and partition not in reading.done):
            found.add("policy")
        return found

    def check_nothing_passed_over(self, reading: Reading) -> None:
        """Of what is still done by the record RO holds all that counts, nothing came late, and nothing was taken away."""
        for partition, said in self.said.items():
            assert partition in reading.rows, f"{partition} was dropped, and nobody is told"
            assert partition not in reading.lacking, f"RO lacks rows of {partition}, and nobody is told"
            assert not self.late(partition, reading), f"{partition}: late data that are not said"
            is_longer = reading.rule.latency > said.rule.latency
            closes = reading.rule.ends(hour_of(partition)) + reading.rule.latency
            assert not is_longer or closes <= reading.clock, f"{partition} is open again, and nobody is told"
            for at, _, rows in self.taken:
                if said.looked < at <= reading.at:
                    gone = rows & said.counted - reading.rows[partition]
                    assert not gone, f"rows of {partition} were taken back, and nobody is told"
            said.counted |= reading.rows[partition]
            said.looked, said.rule, said.meaning = reading.at, reading.rule, reading.meaning

    def send(self, reading: Reading, found: PartitionsFreshness) -> bool:
        """Each action gets what there is, until it fails or the run is killed: before it was sent, or before that is recorded."""
        self.success_files.difference_update(api_partitions._left_files(cast(Any, self), self.record, found))
        for action in ACTIONS:
            for event in self.record.to_send(action, found, done_since_ms(reading.policy)):
                if event.kind == "done":
                    self.check_done(event, reading)
                chance = self.source.random()
                if chance < 0.05:
                    return False
                self.record = self.record.begun(action, event)
                if chance < 0.1:
                    self.killed.append(event)
                    return False
                self.take(action, event)
                if chance < 0.2:
                    self.lost.append(event)
                    return False
                self.record = self.record.sent(action, event, ACTIONS)
        return True

    def take(self, action: str, event: DoneEvent) -> None:
        self.sent[action].append(event)
        self.count(event.kind)
        if action == "success_file" and event.kind == "done":
            self.success_files.add(event.partition)
        elif action == "success_file":
            self.success_files.discard(event.partition)

    def left_in(self, partitions: Iterable[str]) -> list[str]:
        """As the action of success files has it."""
        return [one for one in partitions if one in self.success_files]

    # In the end

    def finish(self) -> None:
        """All is compacted and verified, and all that is to be said is sent."""
        self.open.clear()
        self.now += 30 * HOUR
        self.compact(least=len(self.table.bases))
        self.begin()
        self.end()
        self.verify("data")
        self.tick()
        reading = self.read(0)
        found = self.note(reading)
        assert found is not None, "nothing is said though all is known"
        while not self.send(reading, found) or self.unsent(found, reading):
            pass
        self.check_sent(reading)

    def unsent(self, found: PartitionsFreshness, reading: Reading) -> bool:
        since_ms = done_since_ms(reading.policy)
        return any(self.record.to_send(action, found, since_ms) for action in ACTIONS)

    def check_sent(self, reading: Reading) -> None:
        """By action and partition: done and reopened alternate, in order, each once, unless a run was killed in between."""
        for action in ACTIONS:
            for partition, one in self.record.partitions.items():
                sent = [event for event in self.sent[action] if event.partition == partition]
                keys = [event.key for event in sent]
                again = [key for key in set(keys) if keys.count(key) > 1]
                assert all(any(event.key == key for event in self.lost) for key in again), "sent twice"
                once = list({event.key: event for event in sent}.values())
                assert [event.number for event in once] == sorted(event.number for event in once), "out of order"
                kinds = [event.kind for event in once]
                pairs = list(pairwise(["reopened", *kinds]))
                assert ("done", "done") not in pairs, f"{partition}: it is not said that it was reopened: {kinds}"
                died = any(event.partition == partition for event in self.killed)
                assert died or ("reopened", "reopened") not in pairs, f"{partition}: {kinds}"
                is_over = one.is_passed_over(action, done_since_ms(reading.policy))
                last_is_done = one.last.kind == "done" and not is_over
                assert bool(kinds and kinds[-1] == "done") == last_is_done, "the last thing that was said is not so"
        since = reading.rule.since or 0
        sent = {event.partition for event in self.sent["http"] if event.kind == "done"}
        assert {one for one in reading.done if hour_of(one) >= since} <= sent, "never sent"
        there = {one for one in self.success_files if one in reading.rows}
        assert there <= reading.done.keys(), f"a success file in what is not done: {there - reading.done.keys()}"


@lru_cache(10_000)
def text(at: int) -> str:
    return instant_from_ms(at, UTC)


@cache
def name(hour: int) -> str:
    return f"h=2026-01-{1 + hour // 24:02} {hour % 24:02}"


@cache
def hour_of(partition: str) -> int:
    day, hour = partition.removeprefix("h=2026-01-").split(" ")
    return (int(day) - 1) * 24 + int(hour)


def live(seed: int) -> World:
    """A few hours; at the end all is compacted, verified and sent."""
    world = World(random.Random(seed))
    if world.source.random() < 0.3:
        world.rule = Rule(rows="until_end")
    for _ in range(world.source.randint(20, 110)):
        world.step()
    world.finish()
    return world
