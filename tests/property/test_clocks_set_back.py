"""Clocks that are set back while writers are at work: whoever's rows Hudi's readers lose is objected to, and nobody else.

The model follows every row by Hudi's own rule, which knows names alone: a log file belongs to the newest slice of its file group
that does not begin after its completion, else it begins one at its request. It shares nothing with what etc reads.
"""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.refusals import Facts
from etc_policy.plan.rules import wrong_time
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.table.instants import instant_from_ms
from tests.nightly import HISTORIES
from tests.unit.hudi.table_folder import COMMIT_SCHEMA, TableFolder, base, commit_metadata, log, operation

HOUR_MS = 3_600_000
BERLIN, UTC = ZoneInfo("Europe/Berlin"), ZoneInfo("UTC")
#: When summer time ends in Berlin, 2026.
CHANGE_MS = 1_792_890_000_000
LATENCY_MS = 60_000


@dataclass
class Write:
    """What was written between a request and a completion; `rows` is all that its base file holds, by file group."""

    requested: str
    real_ms: int
    is_compaction: bool = False
    completed: str = ""
    completed_ms: int = 0
    logs: dict[str, str] = field(default_factory=dict)
    merged: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rows: dict[str, frozenset[str]] = field(default_factory=dict)
    previous: dict[str, str] = field(default_factory=dict)


class World:
    """A table with file groups `a` and `b`, its writers, and the clock by which they name instants."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.in_summer = self.random.random() < 0.5
        self.step_ms = HOUR_MS if self.in_summer else self.random.choice((40_000, 700_000, HOUR_MS, 2 * HOUR_MS))
        self.zone = BERLIN if self.in_summer else UTC
        self.real_ms = CHANGE_MS - self.random.choice((HOUR_MS, 20_000, 2 * HOUR_MS))
        self.taken: set[str] = set()
        self.done: list[Write] = []
        self.open: list[Write] = []
        self._first()
        for _ in range(self.random.randrange(4, 14)):
            self.step()
        while self.open:
            self.complete(self.open.pop(0))
        self.real_ms = max(self.real_ms, CHANGE_MS) + self.step_ms + HOUR_MS
        self.complete(self.begin(["z"]))

    def name(self) -> str:
        """The next instant that is nobody else's, as the writers' clock shows it."""
        while True:
            self.real_ms += 1
            ahead_ms = 0 if self.in_summer or self.real_ms >= CHANGE_MS else self.step_ms
            name = instant_from_ms(self.real_ms + ahead_ms, self.zone)
            if name not in self.taken:
                self.taken.add(name)
                return name

    def wait(self) -> None:
        """Now and then until right before the change, so that writes are at work as it comes."""
        if self.real_ms < CHANGE_MS and self.random.random() < 0.4:
            self.real_ms = max(self.real_ms, CHANGE_MS - self.random.randrange(1, 20_000))
            return
        self.real_ms += self.random.choice((1_000, 5_000, 60_000, 900_000, 1_900_000))

    def step(self) -> None:
        self.wait()
        kind = self.random.random()
        if self.open and kind < 0.4:
            self.complete(self.open.pop(self.random.randrange(len(self.open))))
        elif kind < 0.55:
            self.compact()
        elif len(self.open) < 2:
            write = self.begin(self.random.sample(["a", "b"], self.random.randrange(1, 3)))
            if self.random.random() < 0.5:
                self.real_ms += self.random.randrange(1, 20_000)
                self.complete(write)
            else:
                self.open.append(write)

    def _first(self) -> None:
        self.real_ms -= 3 * self.step_ms + HOUR_MS
        write = Write(self.name(), self.real_ms)
        groups = ("a", "b") if self.random.random() < 0.7 else ("a",)
        write.rows = {group: frozenset({f"{group}{write.requested}"}) for group in groups}
        self.complete(write)
        self.real_ms += 2 * self.step_ms + HOUR_MS

    def begin(self, groups: list[str]) -> Write:
        write = Write(self.name(), self.real_ms)
        for group in groups:
            is_busy = any(group in {*one.logs, *one.rows} for one in self.open)
            key, rows, logs = self.latest(group)
            write.previous[group] = key or write.requested
            if not is_busy and not logs and self.random.random() < 0.3:
                write.rows[group] = rows | {f"{group}{write.requested}"}
            elif not any(group in one.rows and not one.is_compaction for one in self.open):
                write.logs[group] = key or write.requested
        return write

    def complete(self, write: Write) -> None:
        if write.logs or write.rows:
            write.completed, write.completed_ms = self.name(), self.real_ms
            self.done.append(write)

    def compact(self) -> None:
        if any(one.is_compaction for one in self.open):
            return
        write = Write(self.name(), self.real_ms, is_compaction=True)
        for group in ("a", "b"):
            if any(group in one.rows for one in self.open):
                continue
            write.previous[group], rows, logs = self.latest(group)
            chosen = [one for one in logs if one.completed < write.requested]
            if chosen:
                write.merged[group] = tuple(one.requested for one in chosen)
                write.rows[group] = rows.union(f"{group}{one.requested}" for one in chosen)
        if write.rows:
            self.open.append(write)

    def latest(self, group: str, extra: Write | None = None) -> tuple[str, frozenset[str], list[Write]]:
        """The beginning of the latest slice, the rows of its base file, and the writes of its log files."""
        done = [*self.done, *([extra] if extra else [])]
        bases = {one.requested: one.rows[group] for one in done if group in one.rows}
        slices: dict[str, list[Write]] = {key: [] for key in bases}
        for one in sorted((one for one in done if group in one.logs), key=lambda one: one.requested):
            key = max((key for key in slices if one.completed >= key), default=one.requested)
            slices.setdefault(key, []).append(one)
        key = max(slices, default="")
        return key, bases.get(key, frozenset()), slices.get(key, [])

    def lost(self, extra: Write | None = None) -> set[str]:
        """Rows that were committed and that no reader sees."""
        found: set[str] = set()
        for group in ("a", "b"):
            writers = (one for one in self.done if not one.is_compaction and group in {*one.logs, *one.rows})
            _, rows, logs = self.latest(group, extra)
            found |= {f"{group}{one.requested}" for one in writers} - rows - {f"{group}{one.requested}" for one in logs}
        return found

    def hurts(self, write: Write) -> bool:
        """Whether rows are lost of the write, or in a file group whose latest slice it has begun."""
        lost = self.lost()
        for group in {*write.logs, *write.rows}:
            if f"{group}{write.requested}" in lost:
                return True
            begins = group in write.rows or self.latest(group)[0] == write.requested
            if begins and any(row.startswith(group) for row in lost):
                return True
        return False

    def must_pass(self, write: Write) -> bool:
        """Whether all that a write did is to add log files, which are seen, to slices that no other begins meanwhile."""
        groups, span = set(write.logs), (write.completed, write.requested)
        begins = {
            group
            for one in self.done
            for group in {*one.rows, *(g for g, key in one.logs.items() if key == one.requested)}
            if any(span[0] <= time <= span[1] for time in (one.requested, one.completed))
        }
        old = all(key <= span[0] for key in write.logs.values())
        return not write.rows and old and begins.isdisjoint(groups) and not self.hurts(write)

    def write_to(self, folder: Path) -> TableFolder:
        zone = "LOCAL" if self.in_summer else "UTC"
        table = TableFolder(folder, properties={"hoodie.table.timeline.timezone": zone})
        for one in self.done:
            logs = [log(g, one.real_ms, previous=key) for g, key in one.logs.items()]
            files = [*(base(group, previous=one.previous.get(group)) for group in one.rows), *logs]
            if one.is_compaction:
                named = (operation(g, None, *(log(g).name(r) for r in merged)) for g, merged in one.merged.items())
                table.plan(one.requested, {}, *named)
            else:
                table.file(one.requested, ".deltacommit.requested")
            table.data(one.requested, *files)
            kind = ("COMPACT", "commit") if one.is_compaction else ("UPSERT", "deltacommit")
            record = commit_metadata(one.requested, tuple(files), kind=kind[0])
            path = table.complete(one.requested, one.completed, kind[1], COMMIT_SCHEMA, record)
            os.utime(path, (one.completed_ms / 1000,) * 2)
        return table


def policy_of(table: TableFolder) -> Policy:
    event_time = EventTime(column="ts", unit="ms")
    return Policy(name="t", table=str(table.base), event_time=event_time, data_latency_ms=LATENCY_MS)


def check(seed: int) -> str:
    """What became of the history, as one word."""
    world = World(seed)
    early = [one for one in world.done if one.completed < one.requested]
    with tempfile.TemporaryDirectory() as folder:
        table = world.write_to(Path(folder) / "t")
        policy = policy_of(table)
        state = FileTableReader().read(str(table.base), policy.event_time)
        found = {one.requested: one for one in state.wrong_times if not one.late}
        assert found.keys() == {one.requested for one in early}
        for one in early:
            assert found[one.requested].set_back
            assert not (world.hurts(one) and found[one.requested].is_harmless), "rows are lost without a word"
            if world.must_pass(one):
                assert found[one.requested].is_harmless, f"a false alarm: {found[one.requested].misplaced}"
        clock_ms = world.real_ms + 10 * HOUR_MS
        objects = wrong_time(Facts(policy, state, clock_ms)) is not None
        assert objects == any(not one.is_harmless for one in found.values())
        now_ms = world.random.choice((clock_ms, world.random.choice(world.done).real_ms + LATENCY_MS))
        plan = build_table_plan(policy, state, now_ms=now_ms, clock_ms=clock_ms)
        if plan.action == "compact":
            check_plan(world, plan)
    if not early:
        return "nothing early"
    return f"early, {'objected' if objects else plan.action}"


def check_plan(world: World, plan) -> None:
    """Carried out, it loses no row, and no reader sees two writes in another order than before."""
    cut = Write(plan.instant, 0, is_compaction=True)
    for one in plan.operations:
        _, rows, logs = world.latest(one.file_id)
        merged = [write for write in logs if log(one.file_id).name(write.requested) in one.log_files_compacted]
        assert len(merged) == len(one.log_files_compacted)
        for write in logs:
            assert {time < plan.instant for time in (write.requested, write.completed)} == {write in merged}
        cut.rows[one.file_id] = rows.union(f"{one.file_id}{write.requested}" for write in merged)
    assert world.lost(cut) == world.lost()


def test_rows_that_are_lost_are_objected_to_and_nothing_else(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    seen = [check(seed) for seed in range(min(HISTORIES // 2, 3_000))]
    assert {"nothing early", "early, objected", "early, compact"} <= set(seen)


def test_without_a_clock_that_is_set_back_the_model_loses_nothing(monkeypatch):
    monkeypatch.setattr(World, "name", _always_later)
    for seed in range(200):
        assert World(seed).lost() == set()


def _always_later(world: World) -> str:
    world.real_ms += 1
    return instant_from_ms(world.real_ms, UTC)
