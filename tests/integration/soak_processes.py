"""The processes of a soak: stock writers and runs of `etc apply`, started, driven and killed at moments that dice draw."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.integration.kills import ORDER, TIMEOUT_SECONDS, Table, java_of, kill, spawn, wait_for_group
from tests.integration.soak_batches import Batch, Batches, Cleanings, Journal
from tests.integration.soak_timeline import Timeline

#: A writer lives so many batches at least and at most, and dies in the one after them.
LIFE_BATCHES = (0, 30)
NEVER = float("inf")
ERROR = re.compile(r"^error\[(ETC\d+)\]", re.MULTILINE)
APPLY_CONFS = ("spark.driver.memory=1g", "spark.sql.shuffle.partitions=2", "spark.default.parallelism=2")


class BrokenPromiseError(Exception):
    """Something that must never happen; the soak ends and keeps the table."""


def kill_group(process: subprocess.Popen, victim: str) -> None:
    """Kill a Python process, its Java, or both, and wait until neither is left."""
    pids = {"both": -process.pid, "python": process.pid, "java": java_of(process.pid)}
    kill(pids[victim] or -process.pid)
    process.wait(timeout=TIMEOUT_SECONDS)
    wait_for_group(process.pid)


@dataclass
class Writer:
    """One writer: gets a batch, is waited for, dies at times, and starts again."""

    batches: Batches | Cleanings
    command: list[str]
    journal_path: Path
    timeline: Timeline
    dice: random.Random
    may_be_killed: Callable[[subprocess.Popen], bool]
    victims: tuple[str, ...]
    patience_seconds: float
    counts: Counter = field(default_factory=Counter)
    reasons: Counter = field(default_factory=Counter)
    process: subprocess.Popen | None = None
    under_way: Batch | None = None
    ready: bool = False
    waits_until: float = 0.0
    since: float = 0.0
    dies_at: float = NEVER
    lives_batches: int = 0
    usual_seconds: float = 3.0

    def __post_init__(self) -> None:
        self._journal = Journal(self.journal_path)

    @property
    def at_rest(self) -> bool:
        return self.process is None or (self.ready and self.under_way is None)

    def start(self) -> None:
        with self.journal_path.with_suffix(".err").open("ab") as errors:
            self.process = spawn(self.command, stdin=subprocess.PIPE, stdout=errors, stderr=errors)
        self.ready, self.since = False, time.monotonic()
        self.lives_batches = self.dice.randint(*LIFE_BATCHES) if self.timeline.batches else LIFE_BATCHES[1]
        self.dies_at = NEVER

    def tick(self, *, paused: bool) -> bool:
        """Look at what the writer did, and give it the next batch, or kill it when its time has come: then True."""
        self._read_journal()
        now = time.monotonic()
        if self.process is None:
            if not paused:
                self.start()
            return False
        if self.process.poll() is not None:
            raise BrokenPromiseError(f"writer {self.batches.writer} ended by itself; see {self.journal_path}")
        if not self.at_rest and now - self.since > self.patience_seconds:
            raise BrokenPromiseError(f"writer {self.batches.writer} has hung for {self.patience_seconds:.0f} s")
        if self.under_way and now > self.dies_at and self.may_be_killed(self.process):
            self._die()
            return True
        if not paused and self.at_rest and now > self.waits_until:
            self._send(self.batches.draw())
        return False

    def _send(self, batch: Batch) -> None:
        assert self.process and self.process.stdin
        fields = asdict(batch)
        self.process.stdin.write((json.dumps(fields) + "\n").encode())
        self.process.stdin.flush()
        self.under_way, self.since = batch, time.monotonic()
        self.lives_batches -= 1
        if self.lives_batches < 0:
            self.dies_at = self.since + self.dice.random() * self.usual_seconds

    def _read_journal(self) -> None:
        for entry in self._journal.entries():
            self.ready = self.ready or entry["what"] == "ready"
            if entry["what"] in ("acknowledged", "failed"):
                self.counts[entry["what"]] += 1
                self.usual_seconds = max(1.0, time.monotonic() - self.since)
                self._settle(acknowledged=entry["what"] == "acknowledged")
                self.waits_until = time.monotonic() + self.dice.choice([0.0, 0.3, self.dice.random() * 2])
            if entry["what"] == "failed":
                self.reasons[re.sub(r"[0-9a-f-]{8,}|\d{5,}", "#", entry["reason"])[:300]] += 1

    def _settle(self, *, acknowledged: bool) -> bool:
        """The batch under way is in the table, or not: by its commit."""
        batch, self.under_way = self.under_way, None
        assert batch
        if isinstance(self.batches, Cleanings):
            return acknowledged
        self.timeline.poll()
        there = batch.name in self.timeline.batches
        if there:
            self.batches.contents.commit(batch)
        elif acknowledged:
            raise BrokenPromiseError(f"batch {batch.name} was acknowledged and has no commit")
        return there

    def _die(self) -> None:
        assert self.process
        kill_group(self.process, self.dice.choice(self.victims))
        self.process, self.ready = None, False
        self._read_journal()
        self.counts["kills"] += 1
        if self.under_way:
            self.counts["there" if self._settle(acknowledged=False) else "absent"] += 1

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            kill(-self.process.pid)
            self.process.wait()


def at_any_time(_: subprocess.Popen) -> bool:
    """A writer may be killed whatever it does."""
    return True


def never_holds(lock: Path) -> Callable[[subprocess.Popen], bool]:
    """Whether a writer may be killed now: one that is stopped while the lock does not exist cannot leave it behind."""

    def look(process: subprocess.Popen) -> bool:
        os.killpg(process.pid, signal.SIGSTOP)
        if lock.exists():
            os.killpg(process.pid, signal.SIGCONT)
            return False
        return True

    return look


@dataclass
class Apply:
    """One run of `etc apply`, which dies at the moment that was drawn for it."""

    number: int
    folder: Path
    patience_seconds: float
    table: Table
    timeline: Timeline
    confs: Mapping[str, str]
    moment: tuple[str, float] | None = None
    victim: str = "both"
    killed_at: str | None = None

    def start(self) -> Apply:
        self.folder.mkdir()
        self.before = self.timeline.plans()
        command = [*etc("apply", "--yes", "--output", "json"), "--project-dir", str(self.folder.parents[1])]
        command += ["--target-dir", str(self.folder / "target")]
        command += [part for conf in (*APPLY_CONFS, *map("=".join, self.confs.items())) for part in ("--conf", conf)]
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as err:
            self.process = spawn(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.began, self.reached_at = time.monotonic(), None
        return self

    @property
    def step(self) -> str:
        """How far this run's own compaction has got; one that it found pending counts too."""
        plans = self.timeline.plans()
        newest = max(plans, default="")
        if newest in self.before and self.timeline.completed(newest):
            return "nothing"
        return self.table.step

    def tick(self) -> bool:
        """Kill the run when its moment has come; whether it has ended."""
        if self.process.poll() is not None:
            wait_for_group(self.process.pid)
            return True
        if time.monotonic() - self.began > self.patience_seconds:
            kill(-self.process.pid)
            raise BrokenPromiseError(
                f"apply {self.number} has hung for {self.patience_seconds:.0f} s, see {self.folder}"
            )
        if self.moment and self._due():
            self.killed_at = self.step
            kill_group(self.process, self.victim)
            return True
        return False

    def _due(self) -> bool:
        assert self.moment
        step, delay_seconds = self.moment
        if self.reached_at is None and ORDER.index(self.step) >= ORDER.index(step):
            self.reached_at = time.monotonic()
        return self.reached_at is not None and time.monotonic() >= self.reached_at + delay_seconds

    @property
    def outcome(self) -> str:
        """How it ended: killed and where, else its exit code with what it did or the codes of its errors."""
        if self.killed_at:
            return f"killed at `{self.killed_at}`"
        words = (self.folder / "stderr").read_text()
        codes = sorted(set(ERROR.findall(words)))
        status = "" if codes else " " + " ".join(one["status"] for one in self.result["tables"])
        return f"exit {self.process.returncode}{status} {' '.join(codes)}".strip()

    @property
    def result(self) -> dict:
        return json.loads((self.folder / "stdout").read_text())


def etc(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "etc_policy.cli.main", *arguments]


def draw_moment(dice: random.Random, usual_seconds: float, *, mends: bool) -> tuple[tuple[str, float], str]:
    """When an apply dies, and which of its processes: at any time of its run, or close to a step of its commit.

    Of one that `mends` what another has begun the table's files do not show the step.
    """
    victim = dice.choices(["both", "python", "java"], weights=[6, 2, 2])[0]
    if dice.random() < 0.4 or mends:
        return ("nothing", dice.random() * usual_seconds), victim
    return (dice.choice(ORDER[1:]), dice.choice([0.0, dice.random() * 0.3, dice.random() * 3])), victim
