"""How far `etc apply` gets beside writers that never pause: `python -m tests.integration.liveness --index simple --minutes 5`.

Two stock writers of the soak write batch after batch, each begun as soon as the one before has ended, and nobody is killed; `etc
apply` begins every minute. Printed are the share of runs that compact or have nothing due, how old the T is that the last
compaction published, how the runs ended, the writers' duty, how long their batches took, how long etc held their lock and at
which steps: a writer waits as long at a time, and until it tries again. At the end the writers rest, and the views are compared
with their journals as in the soak: exit 1 and the table's folder on any difference. With `--stock` a process of stock Hudi
compacts the table instead of etc, again and again; the keys that RT shows wrongly at the end are counted then.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from etc_policy.run.lock_holder import read_holder
from tests.integration.kills import exit_when_told, kill, spawn
from tests.integration.soak import SPARK, TICK_SECONDS, Soak, outcome
from tests.integration.soak_batches import Batches
from tests.integration.soak_checks import Expected, in_ms, read_views
from tests.integration.soak_places import place_of, start_spark_at
from tests.integration.soak_processes import Apply
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


@dataclass
class Liveness(Soak):
    """The soak without pauses, kills and company; times are in seconds.

    Each of `holds` says for how long etc held the lock at each step of its run (`Table.step`).
    """

    deletes: tuple[str, ...] = ()
    every: float = 60.0
    ages: list[float] = field(default_factory=list)
    batch_seconds: list[float] = field(default_factory=list)
    holds: list[Counter[str]] = field(default_factory=list)
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
            writer.batches.deletes = self.deletes
            writer.may_be_killed = lambda _: False

    def play(self, spark) -> None:
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
        self.runs = dict(self.outcomes)
        self.checkpoint(spark)

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

    def figures(self) -> str:
        """What the play is for."""
        runs = sum(self.runs.values())
        moved = sum(count for outcome, count in self.runs.items() if outcome.startswith(DONE))
        ages = f"p50 {median(self.ages):.0f} s, worst {max(self.ages):.0f} s" if self.ages else "never known"
        duty = self.busy / (self.seconds * len(self.writers))
        without = [hold.total() for hold in self.holds if not hold.keys() - {BEFORE}]
        others = [hold for hold in self.holds if hold.keys() - {BEFORE}]
        steps = ", ".join(f"{step} {held:.1f} s" for step, held in sum(others, Counter()).most_common())
        return (
            f"{moved} of {runs} runs compacted or had nothing due; T is older than now by {ages} (data_latency "
            f"{self.setting.latency_seconds} s); writers wrote {duty:.0%} of the time, a batch took p50 "
            f"{median(self.batch_seconds):.1f} s, worst {max(self.batch_seconds):.1f} s; etc held their lock for "
            f"{sum(hold.total() for hold in self.holds) / self.seconds:.1%} of the time: {_spread(without)} without a plan, "
            f"{_spread([hold.total() for hold in others])} with one ({steps or 'no step'})"
        )


def _spread(seconds: list[float]) -> str:
    worst = f", p50 {median(seconds):.1f} s, worst {max(seconds):.1f} s" if seconds else ""
    return f"{len(seconds)} times{worst}"


@dataclass
class StockLiveness(Liveness):
    """The same writers beside a process of stock Hudi that compacts whatever is there."""

    compactor: subprocess.Popen | None = None
    wrong: set[int] = field(default_factory=set)
    written: int = 0

    def _wants_apply(self, now: float) -> bool:
        return False

    def _make_table(self) -> None:
        super()._make_table()
        command = [sys.executable, "-m", "tests.integration.stock_compactor", self.place.location]
        command += [str(self.setting.folder / "stock.log"), json.dumps(dict(self.place.lock))]
        self.compactor = spawn(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def _until(self, newest: Compaction) -> int | None:
        return in_ms(newest.instant)  # it takes all that had completed by then

    def checkpoint(self, spark) -> None:
        while not all(writer.at_rest for writer in self.workers):
            self._tick_writers(paused=True)
            time.sleep(TICK_SECONDS)
        assert self.compactor is not None
        said, _ = self.compactor.communicate("end\n")
        self.runs = Counter(said.split())
        self.timeline.poll()
        expected = Expected.of([writer.journal_path for writer in self.writers], self.timeline)
        self.wrong = expected.wrong_keys(read_views(spark, self.place.location)["RT"])
        self.written = len(expected.contents.living) + len(expected.contents.deleted)

    def stop(self) -> None:
        super().stop()
        if self.compactor is not None and self.compactor.poll() is None:
            kill(-self.compactor.pid)

    def figures(self) -> str:
        return (
            f"stock Hudi: {dict(self.runs)}; {len(self.wrong)} of {self.written} keys wrong in RT; {super().figures()}"
        )


def retries(seconds: float) -> dict[str, str]:
    """How often a writer tries the lock file, for five minutes."""
    options = {"wait_time_ms_between_retry": f"{seconds * 1000:.0f}", "num_retries": f"{300 / seconds:.0f}"}
    return {f"hoodie.write.lock.client.{name}": value for name, value in options.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--index", choices=INDEXES, default="simple")
    parser.add_argument("--deletes", choices=DELETES, default="both")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writers", type=int, choices=(1, 2), default=2)
    parser.add_argument(
        "--every", type=float, default=60, help="seconds from the begin of a run to that of the next one"
    )
    parser.add_argument("--hold", default="30s", help="`writer.hold` of the policy")
    parser.add_argument(
        "--retry", type=float, default=5, help="seconds until a writer tries a lock again (default: Hudi's)"
    )
    parser.add_argument("--no-lock", action="store_true", help="the policy does not name the writers' lock")
    parser.add_argument("--stock", action="store_true", help="stock Hudi compacts instead of etc")
    given = parser.parse_args()
    exit_when_told()
    folder = Path(tempfile.mkdtemp(prefix="liveness-")).resolve()
    lengths, times = (given.minutes, 0), (1e9, 240.0)
    setting = Setting(
        folder,
        given.index,
        given.seed,
        *lengths,
        given.writers,
        0,
        *times,
        "disk",
        0.0,
        False,
        not given.no_lock,
        given.hold,
    )
    with place_of("disk", folder, 0) as place:
        place = replace(place, writer_options=retries(given.retry))
        spark = start_spark_at(place.location, SPARK, folder / "look.log")
        soak = (StockLiveness if given.stock else Liveness)(
            setting, place, deletes=DELETES[given.deletes], every=given.every
        )
        broken = outcome(soak, spark)
    if broken:
        print(f"BROKEN: {broken}\n  everything is kept in {folder}")
        return 1
    print(soak.figures())
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
