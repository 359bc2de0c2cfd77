"""How far `etc apply` gets beside writers that never pause: `python -m tests.integration.liveness simple record,no-lock`.

A cell is the writers' index, and words after commas: `no-lock` (the policy does not name their lock), `1` (one writer instead of
two), `apart` (the two share no partition), `run` (`etc run` compacts, whose Java stays), `stock` (stock Hudi compacts, again and
again, in a process of its own). Without cells all indexes are played with and without the lock, and some with `stock`.

Stock writers of the soak write batch after batch, each begun as soon as the one before has ended, and nobody is killed; `etc
apply` begins every minute. At the end of a cell the writers rest, and the views and what each compaction promised are held
against their journals as in the soak; with `stock` the keys are counted that RT shows wrongly. On any difference the table's
folder is kept, the next cell is played all the same, and the command ends with 1.

A line of JSON for each cell, also added to the file of `--figures`: how the runs ended, and how many `moved`, so compacted or had
nothing due; how old the T is that the last compaction published; the share of the time in which writers wrote, and how long their
batches took; for how long etc held their lock at a time, with a plan and without, and at which of its steps; for how long writers
waited for the lock, by what Hudi says when it is not free (one writer alone waits for etc only).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any

from etc_policy.run.lock_holder import read_holder
from tests.integration.kills import Table, exit_when_told, kill, spawn
from tests.integration.session import stop_spark
from tests.integration.soak import SPARK, TICK_SECONDS, Soak, outcome
from tests.integration.soak_batches import Batches
from tests.integration.soak_checks import Expected, in_ms, read_views
from tests.integration.soak_places import Place, file_lock, start_spark_at
from tests.integration.soak_processes import APPLY_CONFS, Apply, etc
from tests.integration.soak_setting import Setting
from tests.integration.soak_timeline import Compaction
from tests.integration.soak_writer import INDEXES

DELETES = {"none": (), "key": ("key",), "ordered": ("ordered",), "both": ("key", "ordered")}
#: How runs begin to say that they compacted, or had nothing due: those of etc, and those of stock Hudi.
DONE = ("exit 0", "compacted", "nothing")
#: From one look at how old T is to the next one.
LOOK_SECONDS = 1.0
#: What `Table.step` says before a run has published its plan.
NO_PLAN, BEFORE = ("nothing", "locked", "committed"), "before the plan"
#: What a writer's log says of a lock that is not free: the time in a row, and how long the writer waits.
LOCK_IS_TAKEN = re.compile(r"Task \[acquire lock\] failed\. current retry number (\d+), will retry after (\d+) ms")
#: What the words of a cell change.
WORDS = {
    "no-lock": {"declares_lock": False},
    "1": {"writers": 1},
    "apart": {"shares": False},
    "run": {"by": "run"},
    "stock": {"by": "stock"},
}
MATRIX = [f"{index}{more}" for index in INDEXES for more in ("", ",no-lock")]
MATRIX += [f"{index},stock" for index in ("simple", "bucket", "record")]


@dataclass(frozen=True)
class Cell:
    """Who writes, and who compacts."""

    name: str
    index: str
    declares_lock: bool = True
    writers: int = 2
    shares: bool = True
    by: str = "apply"

    @classmethod
    def of(cls, name: str) -> Cell:
        """That of an index and words; raises ArgumentTypeError for others."""
        index, *words = name.split(",")
        if index not in INDEXES or not WORDS.keys() >= set(words):
            raise argparse.ArgumentTypeError(f"{name}: one of {', '.join(INDEXES)}, then any of {', '.join(WORDS)}")
        return cls(name, index, **{key: value for word in words for key, value in WORDS[word].items()})


@dataclass
class Liveness(Soak):
    """The soak without pauses, kills and company; times are in seconds.

    Each of `holds` says for how long etc held the lock at each step of its run (`Table.step`). The writers of the play that
    follows start while this one is looked at.
    """

    shares: bool = True
    deletes: tuple[str, ...] = ()
    every: float = 60.0
    following: Liveness | None = None
    runs: Counter[str] = field(default_factory=Counter)
    ages: list[float] = field(default_factory=list)
    batch_seconds: list[float] = field(default_factory=list)
    holds: list[Counter[str]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    busy: float = 0.0
    seconds: float = 1.0
    hold: Counter[str] | None = None
    begun: float | None = None
    looked_at_lock: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.killed_share = 0.0
        for writer in self.writers:
            assert isinstance(writer.batches, Batches)
            writer.batches.deletes, writer.batches.shares = self.deletes, self.shares
            writer.may_be_killed = lambda _: False

    def start_writers(self) -> None:
        """Start those that have not started."""
        for writer in self.writers:
            if writer.process is None:
                writer.start()

    def play(self, spark) -> None:
        self.start_writers()
        self.began = time.monotonic()
        self._make_table()
        looked = begun = time.monotonic()
        ends = begun + self.setting.minutes * 60
        while time.monotonic() < ends or self.apply:
            self._tick_writers(paused=False)
            self._tick_applies(starting=time.monotonic() < ends)
            now = time.monotonic()
            self._look_at_lock(now)
            if now > looked + LOOK_SECONDS:
                self.busy += (now - looked) * sum(writer.under_way is not None for writer in self.writers)
                newest = self.timeline.compactions[-1:]
                self.ages += [
                    time.time() - until_ms / 1000 for one in newest if (until_ms := self._until(one)) is not None
                ]
                looked = now
            time.sleep(TICK_SECONDS)
        self.seconds = time.monotonic() - begun
        self.waits = [wait for writer in self.writers for wait in lock_waits(writer.journal_path.with_suffix(".log"))]
        self.runs = Counter(self.outcomes)
        if self.following is not None:
            self.following.start_writers()
        self.checkpoint(spark)

    def checkpoint(self, spark) -> None:
        """Once nobody writes, look at the table as it is."""
        self._rest()
        self.counts["checkpoints"] += 1
        self._look(spark, {}, "at the end")

    def _rest(self) -> None:
        while not self._is_at_rest:
            self._tick_writers(paused=True)
            time.sleep(TICK_SECONDS)

    def _until(self, newest: Compaction) -> int | None:
        """How far RO is complete by the newest compaction."""
        return newest.threshold_ms

    def _look_at_lock(self, now: float) -> None:
        holder = read_holder(self.table.meta / "lock")
        since, self.looked_at_lock = self.looked_at_lock, now
        if holder is None or holder.owner is None:
            self.hold = None
        elif self.hold is None:
            self.hold = Counter()
            self.holds.append(self.hold)
        else:
            step = self.table.step
            self.hold[BEFORE if step in NO_PLAN else step] += now - since

    @property
    def _is_pause(self) -> bool:
        return False

    def _wants_apply(self, now: float) -> bool:
        return self.begun is None or now > self.begun + self.every

    def _start(self, moment: tuple[str, float] | None = None, victim: str = "both") -> Apply:
        self.begun = time.monotonic()
        return super()._start(moment, victim)

    def _tick_writers(self, *, paused: bool) -> None:
        for writer in self.writers:
            began, before = writer.since, writer.under_way
            writer.tick(paused=paused)
            if before and writer.under_way is None:
                self.batch_seconds.append(time.monotonic() - began)
            writer.waits_until = 0.0
            if before and writer.under_way is None and not paused:
                writer.tick(paused=False)

    def _end(self, apply: Apply, kind: str) -> None:
        super()._end(apply, kind)
        errors = (apply.folder / "stderr").read_text().splitlines()
        for line in errors:
            if line.startswith("error[") or "planning again" in line or "left for" in line or "moment" in line:
                self.say(f"    {line[:240]}")

    def figures(self) -> dict[str, Any]:
        """What the play is for."""
        without = [hold.total() for hold in self.holds if not hold.keys() - {BEFORE}]
        others = [hold for hold in self.holds if hold.keys() - {BEFORE}]
        steps = sum(others, Counter())
        return {
            "seconds": round(self.seconds),
            "runs": sum(self.runs.values()),
            "moved": sum(count for outcome, count in self.runs.items() if outcome.startswith(DONE)),
            "outcomes": self.runs,
            "latency_seconds": self.setting.latency_seconds,
            "age_of_t_seconds": _spread(self.ages),
            "writers_wrote": round(self.busy / (self.seconds * len(self.writers)), 2),
            "batches_failed": sum(writer.counts["failed"] for writer in self.writers),
            "batch_seconds": _spread(self.batch_seconds),
            "lock_held": round(sum(hold.total() for hold in self.holds) / self.seconds, 3),
            "held_without_plan_seconds": _spread(without),
            "held_with_plan_seconds": _spread([hold.total() for hold in others]),
            "waited_for_lock": round(sum(self.waits) / (self.seconds * len(self.writers)), 3),
            "lock_wait_seconds": _spread(self.waits),
            "held_at_step_seconds": {step: round(held, 1) for step, held in steps.most_common()},
        }


def lock_waits(log: Path) -> list[float]:
    """How many seconds a writer waited each time that its lock was not free."""
    waits: list[float] = []
    for number, wait_ms in LOCK_IS_TAKEN.findall(log.read_text(errors="replace")):
        if int(number) == 1 or not waits:
            waits.append(0)
        waits[-1] += int(wait_ms) / 1000
    return waits


def _spread(values: list[float]) -> dict[str, float]:
    found = {"p50": median(values), "worst": max(values)} if values else {}
    return {"times": len(values), **{name: round(value, 1) for name, value in found.items()}}


@dataclass
class ProcessLiveness(Liveness):
    """The same writers beside one process that compacts again and again, and prints how each time ended: `etc run`."""

    process: subprocess.Popen | None = None

    def _wants_apply(self, now: float) -> bool:
        return False

    def _make_table(self) -> None:
        super()._make_table()
        with (self.setting.folder / "process.err").open("wb") as errors:
            self.process = spawn(
                self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def _command(self) -> list[str]:
        confs = [part for conf in APPLY_CONFS for part in ("--conf", conf)]
        return [*etc("run", "--every", f"{self.every:.0f}s", "--project-dir", str(self.setting.folder)), *confs]

    def _said(self) -> list[str]:
        """How each time ended; the process has ended then."""
        assert self.process is not None
        self.process.terminate()
        return [line.split("  ")[-1].removeprefix("1 ") for line in self.process.communicate()[0].splitlines()]

    def _rest(self) -> None:
        super()._rest()
        self.runs = Counter(self._said())

    def stop(self) -> None:
        super().stop()
        if self.process is not None and self.process.poll() is None:
            kill(-self.process.pid)


@dataclass
class StockLiveness(ProcessLiveness):
    """The same writers beside a process of stock Hudi that compacts whatever is there."""

    wrong: set[int] = field(default_factory=set)
    written: int = 0

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "tests.integration.stock_compactor", self.place.location]
        return [*command, str(self.setting.folder / "stock.log"), json.dumps(dict(self.place.lock))]

    def _said(self) -> list[str]:
        assert self.process is not None
        return self.process.communicate("end\n")[0].split()

    def _until(self, newest: Compaction) -> int | None:
        return in_ms(newest.instant)  # it takes all that had completed by then

    def checkpoint(self, spark) -> None:
        self._rest()
        self.timeline.poll()
        expected = Expected.of([writer.journal_path for writer in self.writers], self.timeline)
        self.wrong = expected.wrong_keys(read_views(spark, self.place.location)["RT"])
        self.written = len(expected.contents.living) + len(expected.contents.deleted)

    def figures(self) -> dict[str, Any]:
        return {**super().figures(), "keys": self.written, "wrong_in_rt": len(self.wrong)}


#: Who compacts, by the word for it.
BY = {"apply": Liveness, "run": ProcessLiveness, "stock": StockLiveness}


def retries(seconds: float) -> dict[str, str]:
    """How often a writer tries the lock file, for five minutes."""
    options = {"wait_time_ms_between_retry": f"{seconds * 1000:.0f}", "num_retries": f"{300 / seconds:.0f}"}
    return {f"hoodie.write.lock.client.{name}": value for name, value in options.items()}


def liveness(cell: Cell, given: argparse.Namespace) -> Liveness:
    """The play of a cell."""
    folder = Path(tempfile.mkdtemp(prefix="liveness-")).resolve()
    setting = Setting(
        folder,
        cell.index,
        given.seed,
        given.minutes,
        batches=0,
        writers=cell.writers,
        expire_minutes=0,
        checkpoint_seconds=1e9,
        patience_seconds=240.0,
        where="disk",
        beside_share=0.0,
        has_cleaner=False,
        declares_lock=cell.declares_lock,
        hold=given.hold,
        target="15s" if cell.by == "run" else "1h",  # `etc run` compacts just in time for it
    )
    base = folder / "lake" / "t"
    place = Place(Table(base), str(base), file_lock(0), writer_options=retries(given.retry))
    return BY[cell.by](setting, place, shares=cell.shares, deletes=DELETES[given.deletes], every=given.every)


def figures_of(cell: Cell, play: Liveness, spark) -> dict[str, Any]:
    """What came of a cell; `broken` says what was wrong, and where the table is kept."""
    print(f"--- {cell.name}", flush=True)
    try:
        broken: Exception | None = outcome(play, spark)
    except Exception as error:  # the next cell is played all the same
        traceback.print_exc()
        broken = error
    if broken is None:
        shutil.rmtree(play.setting.folder)
    return {"cell": cell.name, "broken": broken and f"{broken!r} in {play.setting.folder}", **play.figures()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*", type=Cell.of, help="the index of writers, and words after commas")
    parser.add_argument("--figures", type=Path, help="a file to which a line is added for each cell")
    parser.add_argument("--minutes", type=float, default=5, help="of each cell; to begin and to end takes one more")
    parser.add_argument("--deletes", choices=DELETES, default="both")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--every", type=float, default=60, help="seconds from the begin of a run to that of the next one"
    )
    parser.add_argument("--hold", default="30s", help="`writer.hold` of the policy")
    parser.add_argument(
        "--retry", type=float, default=5, help="seconds until a writer tries a lock again (default: Hudi's)"
    )
    given = parser.parse_args()
    os.environ["ETC_SPARK_LOG_LEVEL"] = "WARN"  # Hudi says so of a lock that is not free
    exit_when_told()
    cells = given.cells or [Cell.of(name) for name in MATRIX]
    plays = [liveness(cell, given) for cell in cells]
    for play, following in zip_longest(plays, plays[1:]):
        play.following = following
    plays[0].start_writers()
    spark, broken = start_spark_at("", SPARK, plays[0].setting.folder / "look.log"), 0
    for cell, play in zip(cells, plays, strict=True):
        figures = figures_of(cell, play, spark)
        broken += figures["broken"] is not None
        line = json.dumps(figures)
        print(line, flush=True)
        if given.figures:
            with given.figures.open("a") as file:
                file.write(f"{line}\n")
    stop_spark(spark)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
