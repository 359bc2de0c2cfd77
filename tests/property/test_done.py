"""What is sent about partitions, in modelled histories of writers, compactions and runs, against what was really so.

`python -m tests.property.test_done 100000` plays that many, and prints what was sent.

The oracle keeps every row with its true event time and knows when it was in RO. It knows neither slices nor the record's rules.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest

from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.policy.schema import Done, PartitionTime
from etc_policy.table import done as rules
from etc_policy.table import partitions as judging
from etc_policy.table.done import DoneEvent, DoneRecord, PartitionRecord, after_reading, reaches_back
from etc_policy.table.history import Commit, GroupWrite, TableHistory
from etc_policy.table.instants import instant_from_ms
from etc_policy.table.partitions import partitions_freshness
from etc_policy.table.state import FileSlice, Instant, LogFile, TableState
from tests.nightly import HISTORIES
from tests.property.day import MINUTE, START, UTC

LATENCY, HOUR = 20 * MINUTE, 60 * MINUTE
POLICY = Policy(
    name="hours",
    table="/hours",
    event_time=EventTime(column="ts"),
    data_latency_ms=LATENCY,
    partition_time=PartitionTime(pattern="h=%Y-%m-%d %H"),
    done=Done(success_file="_SUCCESS"),
)
ACTIONS = ("success_file", "http")


@dataclass
class Write:
    """What a commit wrote to one hour: its true smallest event time; `known` says whether its commit recorded that."""

    hour: int
    group: int
    requested: int
    event: int
    known: bool
    to_log: bool
    completed: int | None = None
    in_ro: bool = False
    #: When its commit was there to be read.
    shown: int = 0

    @property
    def may_be_before_end(self) -> bool:
        """Whether the row may be about its hour, or an earlier one, as far as anybody can know."""
        return not self.known or self.event < START + (self.hour + 1) * HOUR

    @property
    def recorded(self) -> GroupWrite:
        """What its commit says of it."""
        return GroupWrite(
            *(text(self.requested), text(self.completed or 0), name(self.hour), f"f{self.group}"),
            *(self.event if self.known else None, self.known, 1),
            log_files=0 if self.in_ro else 1,
        )


@dataclass
class World:
    """A table, its writers, and two runs that read it and send events; what each action was sent."""

    source: random.Random
    now: int = START
    writes: list[Write] = field(default_factory=list)
    bases: dict[tuple[int, int], int] = field(default_factory=dict)
    #: How often each hour was deleted or overwritten: its file groups are new ones since.
    replaced: Counter[int] = field(default_factory=Counter)
    commits: list[Commit] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)
    record: DoneRecord = field(default_factory=DoneRecord)
    sent: dict[str, list[DoneEvent]] = field(default_factory=lambda: {name: [] for name in ACTIONS})
    lost: list[DoneEvent] = field(default_factory=list)
    killed: list[DoneEvent] = field(default_factory=list)
    #: What was requested before is archived.
    archived: str = ""
    noted: int = 0
    #: The partitions that the table had as it was last read.
    there: set[str] = field(default_factory=set)
    #: By partition, what came late since it was last said to be done.
    late: dict[str, int] = field(default_factory=dict)
    old_reading: Any = None

    def tick(self, longest: int = 6) -> int:
        self.now += self.source.randint(1, longest) * MINUTE + 7
        return self.now

    def step(self) -> None:
        kind = self.source.randrange(17)
        if kind < 5:
            self.begin()
        elif kind < 9:
            self.end()
        elif kind < 11:
            self.compact()
        elif kind == 11 and len(self.commits) > 6:
            self.archive(self.source.randint(2, 6))
        elif kind == 12:
            self.old_reading = self.seen()  # a run that is slow: it reads now and records later
        elif kind == 13 and self.old_reading is not None:
            self.note(*self.old_reading)
            self.old_reading = None
        elif kind == 14 and self.bases:
            self.replace()
        else:
            self.read()
            self.send()

    def archive(self, kept: int) -> None:
        """All but so many commits, the oldest by request; nothing from one on that is open, or was the last to end."""
        bound = sorted(one.requested for one in self.commits)[-kept]
        last = max(self.commits, key=lambda one: one.completed).requested
        bounds = (bound, last, *(text(one.requested) for one in self.writes if one.completed is None))
        self.archived = max(self.archived, min(bounds))

    def begin(self) -> None:
        """A write begins, in time or late, into its own hour or, as some writers do, into another one."""
        late = self.source.choice((0, 5, 19, 100, 200)) * MINUTE
        event = max(self.now - late, START)
        hour = (event - START) // HOUR if self.source.random() < 0.8 else self.source.randrange(2)
        known, to_log = self.source.random() < 0.8, self.source.random() < 0.7
        group = self.source.randrange(2) + 2 * self.replaced[hour]
        self.writes.append(Write(hour, group, self.tick(12), event, known, to_log))

    def end(self) -> None:
        """An open write commits, or fails and leaves nothing."""
        open_ones = [one for one in self.writes if one.completed is None]
        if not open_ones:
            return
        one = self.source.choice(open_ones)
        if self.source.random() < 0.15:
            self.writes.remove(one)
            return
        one.completed = one.shown = self.tick(6)
        if self.source.random() < 0.15:  # others may have completed after it, and have been seen
            one.completed = self.source.randint(max(one.requested, one.shown - 50 * MINUTE), one.shown)
        one.in_ro = not one.to_log
        key = one.hour, one.group
        if not one.to_log or key not in self.bases:
            one.in_ro = True
            self.bases[key] = one.requested
        self.note_late(one)
        self.commit(one.requested, one.completed, "deltacommit", "UPSERT", (one.recorded,))

    def replace(self) -> None:
        """An hour is deleted, or overwritten by rows that are in RO at once; what is open there fails."""
        hour = self.source.choice(sorted(self.bases))[0]
        self.writes = [one for one in self.writes if one.hour != hour]
        self.bases = {key: base for key, base in self.bases.items() if key[0] != hour}
        self.replaced[hour] += 1
        if name(hour) in self.late:
            self.late[name(hour)] = 0  # what came late is gone
        if self.source.random() < 0.5:
            self.commit(self.tick(), self.tick(), "replacecommit", "DELETE_PARTITION")
            return
        known, event = self.source.random() < 0.8, START + hour * HOUR + self.source.randrange(2 * HOUR)
        one = Write(hour, 2 * self.replaced[hour], self.tick(), event, known, to_log=False, in_ro=True)
        one.completed = one.shown = self.tick()
        self.bases[hour, one.group] = one.requested
        self.writes.append(one)
        self.note_late(one)
        self.commit(one.requested, one.completed, "replacecommit", "INSERT_OVERWRITE", (one.recorded,))

    def commit(
        self, requested: int, completed: int, action: str, operation: str, groups: tuple[GroupWrite, ...] = ()
    ) -> None:
        self.commits.append(Commit(text(requested), text(completed), action, operation, groups))
        self.instants.append(Instant(text(requested), action, "completed", text(completed)))

    def note_late(self, one: Write) -> None:
        if one.may_be_before_end and name(one.hour) in self.late:
            self.late[name(one.hour)] += 1

    def compact(self, least: int = 0) -> None:
        """All that has committed to some groups comes to RO, by etc or by somebody else."""
        groups = sorted(self.bases)
        for key in self.source.sample(groups, max(least, self.source.randint(0, len(groups)))):
            waiting = [one for one in self.writes if (one.hour, one.group) == key and one.completed and not one.in_ro]
            if waiting:
                at = max(one.completed for one in waiting if one.completed) + 1
                self.bases[key] = at
                for one in waiting:
                    one.in_ro = True
                self.commit(at, self.tick(2), "commit", "COMPACT")

    def seen(self) -> tuple[TableState, TableHistory, int, frozenset[str]]:
        """The table as a run reads it now, and which hours really are done now."""
        slices = []
        for (hour, group), base in sorted(self.bases.items()):
            logs = [o for o in self.writes if (o.hour, o.group) == (hour, group) and o.completed and not o.in_ro]
            files = tuple(
                LogFile(
                    f"L{one.requested}",
                    1,
                    text(one.requested),
                    text(one.completed or 0),
                    one.event if one.known else None,
                )
                for one in sorted(logs, key=lambda one: one.completed or 0)
            )
            slices.append(FileSlice(name(hour), f"f{group}", text(base), "base", 1, files))
        active = [one for one in self.instants if one.requested >= self.archived]
        pending = [Instant(text(o.requested), "deltacommit", "inflight") for o in self.writes if o.completed is None]
        state = TableState(
            base_path="/hours",
            table_version=9,
            timezone="UTC",
            metadata_partitions=(),
            properties_fingerprint="",
            event_time_type="long",
            instants=tuple(sorted((*active, *pending), key=lambda one: one.requested)),
            metadata_instants=frozenset(),
            slices=tuple(slices),
        )
        commits = sorted(self.commits, key=lambda one: one.completed)
        whole = TableHistory("/hours", 9, "UTC", tuple(commits), complete=True)
        recent = replace(whole, commits=tuple(one for one in commits if one.requested >= self.archived), complete=False)
        read = recent if reaches_back(self.record, state, recent) else whole
        return state, read, self.now, self.really_done()

    def read(self) -> None:
        self.note(*self.seen())

    def note(self, state: TableState, history: TableHistory, now: int, really_done: frozenset[str]) -> None:
        before = self.record
        if now >= self.noted:
            self.there = {one.partition for one in state.slices}
        found = partitions_freshness(POLICY, state, now)
        self.record = after_reading(before, POLICY, state, history, found, now)
        for partition, one in self.record.partitions.items():
            kept = before.partitions.get(partition)
            for event in one.events:
                if event.number > (kept.last.number if kept else 0):
                    assert now >= self.noted, "a run that has seen less than another had the last word"
                    self.check_found(event, now, really_done)
        self.noted = max(self.noted, now)

    def check_found(self, event: DoneEvent, now: int, really_done: frozenset[str]) -> None:
        """What is found was so when the run read the table, and nothing that came late was passed over."""
        if event.kind == "reopened":
            assert event.partition in self.late, f"{event.partition} was reopened before it was done"
            del self.late[event.partition]
            return
        assert event.partition not in self.late, (
            f"{event.partition} is said to be done again, and not that it was reopened"
        )
        assert event.partition in really_done, f"FALSE DONE: {event}"
        self.late[event.partition] = 0
        for one in self.writes:  # that came after a slow run had read
            if one.shown > now and name(one.hour) == event.partition:
                self.note_late(one)

    def really_done(self) -> frozenset[str]:
        """The hours that are closed and of which RO has every row."""
        closed = range((self.now - LATENCY - START) // HOUR)
        lacking = {one.hour for one in self.writes if one.completed and not one.in_ro and one.may_be_before_end}
        return frozenset(name(hour) for hour in closed if hour not in lacking)

    def send(self) -> None:
        """Each action gets what there is, until it fails or the run is killed: before it was sent, or before that is recorded."""
        for action in ACTIONS:
            for event in self.record.to_send(action):
                assert event.partition in self.there, f"{event.partition} was dropped, and {event.kind} is sent"
                chance = self.source.random()
                if chance < 0.05:
                    return
                self.record = self.record.begun(action, event)
                if chance < 0.1:
                    self.killed.append(event)
                    return
                self.sent[action].append(event)
                if chance < 0.2:
                    self.lost.append(event)
                    return
                self.record = self.record.sent(action, event, ACTIONS)

    def check_sent(self) -> None:
        """By action and partition: done and reopened alternate, in order, each once, unless a run was killed in between."""
        for action in ACTIONS:
            assert not self.record.to_send(action)
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
                if partition not in self.there:
                    continue  # what was not sent when it was dropped is not sent
                last_is_done = one.last.kind == "done"
                assert bool(kinds and kinds[-1] == "done") == last_is_done, "the last thing that was said is not so"


@lru_cache(10_000)
def text(at: int) -> str:
    return instant_from_ms(at, UTC)


@cache
def name(hour: int) -> str:
    return f"h=2026-01-{1 + hour // 24:02} {hour % 24:02}"


def live(seed: int) -> World:
    """A few hours; at the end all is compacted, and all is sent."""
    world = World(random.Random(seed))
    for _ in range(world.source.randint(20, 110)):
        world.step()
    for one in [one for one in world.writes if one.completed is None]:
        world.writes.remove(one)
    world.now += 30 * HOUR
    world.compact(least=len(world.bases))
    world.begin()
    world.end()
    world.read()
    missed = [partition for partition, count in world.late.items() if count]
    assert not missed, f"late data that was never reported: {missed}"
    while any(world.record.to_send(action) for action in ACTIONS):
        world.send()
    world.check_sent()
    lacking = {name(h) for h, _ in world.bases} - {e.partition for e in world.sent["http"]}
    assert not lacking & world.really_done(), f"never sent: {lacking}"
    return world


def play(seeds: Iterable[int]) -> dict[str, int]:
    """How many events of each kind were sent, all of them rightly."""
    seen = {"done": 0, "reopened": 0}
    for seed in seeds:
        try:
            world = live(seed)
        except AssertionError as broken:
            broken.add_note(f"seed {seed}")
            raise
        for event in world.sent["http"]:
            seen[event.kind] += 1
    return seen


def test_nothing_false_is_sent_and_nothing_is_passed_over() -> None:
    seen = play(range(2 * HISTORIES))
    if HISTORIES >= 150:
        assert seen["reopened"] > HISTORIES // 5, seen


real_lacks, real_reading, real_to_send = judging.lacks_before, rules.after_reading, PartitionRecord.to_send


def _without_order(record: DoneRecord, *rest: Any) -> DoneRecord:
    instant = min(record.instant, rest[1].last_completed or "")
    return real_reading(record.model_copy(update={"instant": instant, "read_at_ms": 0}), *rest)


BREAKS: dict[str, tuple[object, str, Any]] = {
    "unknown times count as late ones": (
        judging,
        "lacks_before",
        lambda slices, ends: real_lacks(
            [replace(s, log_files=tuple(f for f in s.log_files if f.min_event_time_ms is not None)) for s in slices],
            ends,
        ),
    ),
    "an event right at the end": (judging, "lacks_before", lambda slices, ends: real_lacks(slices, ends - HOUR)),
    "closed without the latency": (judging, "is_closed", lambda ends, now, latency: ends <= now),
    "late data that was compacted is forgotten": (rules, "_may_be_before", lambda write, ends: False),
    "what a run may have said before it died is forgotten": (DoneRecord, "begun", lambda record, action, event: record),
    "a write that shows itself after a later one is passed over": (
        rules._Late,
        "_is_new",
        lambda late, commit: commit.completed > late._since,
    ),
    "what is archived completed first": (
        rules,
        "reaches_back",
        lambda record, state, history: (
            not record.instant or any(one.completed <= record.instant for one in history.commits)
        ),
    ),
    "what was not sent of a dropped partition is sent": (
        PartitionRecord,
        "to_send",
        lambda one, action: real_to_send(one.model_copy(update={"gone": False}), action),
    ),
    "an overwritten partition is as it was": (rules, "_SERVICES", rules._SERVICES | {"INSERT_OVERWRITE"}),
    "a slow run overwrites a newer one": (rules, "after_reading", _without_order),
}


@pytest.mark.parametrize("rule", BREAKS)
def test_a_broken_rule_is_noticed(rule: str) -> None:
    place, attribute, broken = BREAKS[rule]
    with patch.object(place, attribute, broken), pytest.raises(AssertionError):
        is_here = attribute in ("after_reading", "reaches_back")
        patched = patch(f"{__name__}.{attribute}", broken) if is_here else patch.dict({}, {})
        with patched:
            for seed in range(400):
                live(seed)


if __name__ == "__main__":
    print(play(range(int(sys.argv[1]))))
