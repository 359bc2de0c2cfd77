"""Random lifetimes of tables on disk, of versions 6 and 9, with rollbacks and left-over files: what a commit by etc has merged.

The oracle keeps books of its own: which writes stand, which files are the table's, and which rows each file holds. Compacting
is modelled as Hudi does it: the rows are read as the plan is made inflight, and committed later.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from etc_policy.errors import OvertakenError, RetryableError
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.plan.rules import find_stale
from etc_policy.policy.manifest import EventTime, Policy, Strategy
from etc_policy.run.fence import Fence
from etc_policy.run.ports import Job
from etc_policy.run.refusing import find_spoiled
from etc_policy.run.table_files import HudiFiles
from etc_policy.table.state import TableState
from tests.fakes import MemoryLease, MemoryTable
from tests.nightly import HISTORIES
from tests.unit.hudi.table_folder import (
    COMMIT_SCHEMA,
    ROLLBACK_PLAN,
    TableFolder,
    Written,
    avro,
    base,
    commit_metadata,
    log,
)

NOON_MS, LATENCY_MS = 1_767_268_800_000, 60_000
GROUPS = ("f1", "f2")
#: A row: the write that brought it, and its event time.
Row = tuple[str, int]


@dataclass
class Lifetime:
    """A table, and what the oracle knows of it."""

    folder: Path
    dice: random.Random
    version: int = 9
    has_metadata: bool = False
    appends: bool = False
    seconds: int = 0
    live: set[str] = field(default_factory=set)
    #: Of each log file on disk: its file group, its rows, and whether a commit recorded it.
    files: dict[str, tuple[str, list[Row], bool]] = field(default_factory=dict)
    bases: dict[str, tuple[str, set[Row]]] = field(default_factory=dict)
    writes: dict[str, list[str]] = field(default_factory=dict)
    compacted: str = ""
    pending: tuple[str, frozenset[str]] | None = None
    commits: int = 0

    def __post_init__(self) -> None:
        self.version, self.has_metadata = self.dice.choice((6, 9)), self.dice.random() < 0.5
        self.appends = self.version == 6 and self.dice.random() < 0.5
        listed = {"hoodie.table.metadata.partitions": "files"} if self.has_metadata else {}
        self.table = TableFolder(self.folder, version=self.version, properties=listed)
        first = self.tick()
        self.table.commit(first, self.end(), *(base(group) for group in GROUPS))
        self.bases, self.compacted = {group: (first, set()) for group in GROUPS}, first

    def tick(self) -> str:
        self.seconds += 2
        return self.at(self.seconds)

    def at(self, seconds: int) -> str:
        return f"20260101{12 + seconds // 3600:02}{seconds // 60 % 60:02}{seconds % 60:02}000"

    def end(self) -> str:
        """When what was begun last has completed."""
        return self.at(self.seconds + 1)

    @property
    def now_ms(self) -> int:
        return NOON_MS + (self.seconds + 30) * 1000

    @property
    def policy(self) -> Policy:
        strategy = Strategy(granularity="file_slice" if self.version == 6 else "log_file")
        column = EventTime(column="ts", unit="ms")
        return Policy(
            name="t", table=str(self.folder), event_time=column, data_latency_ms=LATENCY_MS, strategy=strategy
        )

    def read(self) -> TableState:
        return FileTableReader().read(str(self.folder), self.policy.event_time)

    # what others do

    def write(self) -> None:
        instant = self.tick()
        groups = [group for group in GROUPS if self.dice.random() < 0.7] or [GROUPS[0]]
        written = [self._log(group, instant) for group in groups]
        self.table.commit(instant, self.end(), *(one for one, _ in written))
        for one, event_ms in written:
            rows = self.files[one.name(instant)][1] if one.name(instant) in self.files else []
            self.files[one.name(instant)] = one.file_id, [*rows, (instant, event_ms)], True
        self.writes[instant] = [one.name(instant) for one, _ in written]
        self.live.add(instant)

    def _log(self, group: str, instant: str) -> tuple[Written, int]:
        event_ms = NOON_MS + (self.seconds - self.dice.choice((0, 40, 90))) * 1000
        if self.version == 9:
            return log(group, event_ms, max_event=event_ms, rows=1), event_ms
        of = self.pending[0] if self.pending and group in self.pending[1] else self.bases[group][0]
        return self._next(group, of), event_ms

    def _next(self, group: str, base_instant: str) -> Written:
        """The log file to which something is added before version 8: a new one, or the last of the slice, which grows."""
        number = 1 + sum(f"{group}_{base_instant}.log." in name for name in self.files)
        if self.appends and number > 1:
            last = log(group, rows=1, base_instant=base_instant, version=number - 1)
            return replace(last, size=10 + (self.folder / "p" / last.name("")).stat().st_size)
        return log(group, rows=1, base_instant=base_instant, version=number)

    def leave(self) -> None:
        """A task was tried again: its first log file, with other rows, stays beside the one that the commit records.

        Not while a plan is pending: then the file came after all that etc looks at. Nor behind a compaction, which hides it.
        """
        instant = max(self.writes, default="")
        if self.version == 6 or instant <= self.compacted or self.pending:
            return
        name = self.dice.choice(self.writes[instant])
        if instant in self.live and name in self.files:
            left = f"{name.rpartition('_')[0]}_9-{self.seconds}-9"
            (self.folder / "p" / left).write_bytes(b"x" * 10)
            event_ms = NOON_MS + (self.seconds - 120) * 1000
            self.files[left] = self.files[name][0], [(instant, event_ms)], False

    def roll_back(self) -> None:
        """Of the last write, where no compaction came after it; from version 8 on its files go, before that its rows stay."""
        last = max(self.live, default="")
        if last <= self.compacted:
            return
        at, names = self.tick(), self.writes[last]
        requests = [{"partitionPath": "p", "fileId": self.files[name][0], "filesToBeDeleted": []} for name in names]
        plan = {"instantToRollback": {"commitTime": last, "action": "deltacommit"}, "RollbackRequests": requests}
        self.table.file(at, ".rollback.requested", avro(ROLLBACK_PLAN, plan))
        self.table.file(at, ".rollback.inflight")
        if self.version == 9:
            gone = [name for name in self.files if f"_{last}.log." in name]
        else:
            gone = []
            for name in names:
                command = self._next(self.files[name][0], name.split("_")[1].split(".")[0])
                self.table.data("", command)
                self.files.setdefault(command.name(""), (command.file_id, [], True))
        for file in self.table.timeline.glob(f"{last}*"):
            file.unlink()
        for name in gone:
            (self.folder / "p" / name).unlink()
            del self.files[name]
        self.table.rollback(at, self.end(), *(gone or names))
        self.live.discard(last)

    def step(self) -> None:
        self.dice.choice((self.write, self.write, self.write, self.leave, self.roll_back))()

    # what etc does

    def apply(self) -> None:
        """One run of etc; others are at work wherever it can be interrupted."""
        state = self.read()
        if self.pending is None and not self._publish(state):
            return
        job = HudiFiles().pending_job(self.policy, self.read())
        if find_spoiled(HudiFiles(), self.read(), job) is not None:
            self._withdraw(job)
            return
        fence = Fence(FileTableReader(), HudiFiles(), job, MemoryLease(MemoryTable(state)), self.read())
        self.table.file(job.instant, ".compaction.inflight")
        if any(not (self.folder / path).exists() for path in job.log_paths):
            return  # Hudi fails
        merged = {name: self._readable(name) for one in job.operations for name in one.log_files_compacted}
        while self.dice.random() < 0.5:
            self.step()
        try:
            fence.before_lock()
            fence.under_lock()
        except OvertakenError:
            self._withdraw(job)
        except RetryableError:
            return
        else:
            self._commit(job, merged)

    def _publish(self, state: TableState) -> bool:
        plan = build_table_plan(self.policy, state, now_ms=self.now_ms, clock_ms=self.now_ms)
        if plan.action != "compact":
            return False
        self.seconds += 30 if self.version == 6 else 0  # C is the clock's time there
        if self.dice.random() < 0.3:
            self.step()
        if find_stale(self.policy, plan, self.read()):
            return False
        self.table.plan(plan.instant, extra_metadata(plan, "x", None), *plan.operations)
        self.pending = plan.instant, frozenset(one.file_id for one in plan.operations)
        return True

    def _readable(self, name: str) -> list[Row]:
        """Hudi leaves out rows of writes that are not on the timeline."""
        return [row for row in self.files[name][1] if row[0] in self.live]

    def _withdraw(self, job: Job) -> None:
        """Before version 8 that is refused where a writer has added to the slices that the plan begins."""
        if self.version == 6 and any(f"_{job.instant}.log." in name for name in self.files):
            return
        for file in self.table.timeline.glob(f"{job.instant}*"):
            file.unlink()
        self.pending = None

    def _commit(self, job: Job, merged: dict[str, list[Row]]) -> None:
        for name, rows in merged.items():
            assert {write for write, _ in rows} <= self.live, f"{name} holds rows of a write that was rolled back"
            assert all(write < job.instant for write, _ in rows), f"{name} got rows after the compaction's instant"
            assert self.files[name][2] or not self.has_metadata, f"{name} is no file of the table"
        completed = self.tick()
        files = tuple(base(one.file_id) for one in job.operations)
        self.table.data(job.instant, *files)
        record = commit_metadata(job.instant, files, job.extra_metadata, "COMPACT")
        self.table.complete(job.instant, completed, "commit", COMMIT_SCHEMA, record)
        for one in job.operations:
            rows = {row for name in one.log_files_compacted for row in merged[name]}
            self.bases[one.file_id] = job.instant, self.bases[one.file_id][1] | rows
        self.pending, self.compacted, self.commits = None, job.instant, self.commits + 1
        threshold_ms = self.read().last_compaction.threshold_ms
        in_base = set().union(*(rows for _, rows in self.bases.values()))
        for name, (_, rows, is_recorded) in self.files.items():
            for write, event_ms in rows if is_recorded or not self.has_metadata else ():
                is_due = (
                    write in self.live and event_ms <= threshold_ms and write < job.extra_metadata["etc.seen_until"]
                )
                assert not is_due or (write, event_ms) in in_base, f"RO lacks a row of {name}"


def live(seed: int, folder: Path, patch: pytest.MonkeyPatch) -> Lifetime:
    life = Lifetime(folder, random.Random(seed))
    patch.setattr("etc_policy.hudi.table.is_appended_to", lambda _: life.appends)  # a folder stands for such a store
    for _ in range(life.dice.randrange(4, 14)):
        if life.dice.random() < 0.4:
            life.apply()
        else:
            life.step()
    return life


def test_what_is_committed_was_merged_from_the_tables_files_and_stands(tmp_path, monkeypatch):
    commits = {6: 0, 9: 0}
    for seed in range(HISTORIES // 10):
        with TemporaryDirectory(dir=tmp_path) as folder:
            life = live(seed, Path(folder) / "t", monkeypatch)
            commits[life.version] += life.commits
    assert min(commits.values()) > HISTORIES // 100, commits
