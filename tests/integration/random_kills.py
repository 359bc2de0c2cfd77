"""Kills `etc apply` at random moments: `python -m tests.integration.random_kills --count 200 --seed 1`.

Each kill draws the table (with a metadata table, with one that compacts itself often, with a record index, with none), the
granularity, the moment, who dies, and the table's lock (none declared, or Hudi's lock file with or without expiry); one in
four is killed again while it mends. One `etc apply` mends a batch of tables; every view, every file and a later stock write
are looked at.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.integration.history import HISTORY, Oracle, Views, Write, write_history
from tests.integration.kills import (
    EXPIRY,
    LOCK,
    ORDER,
    VICTIMS,
    Project,
    Table,
    check_files,
    check_views,
    exit_when_told,
)
from tests.integration.session import stop_spark

BATCH = 8
SPARK = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
VARIANTS = {
    "metadata table": {},
    "metadata table that compacts": {"hoodie.metadata.compact.max.delta.commits": "2"},
    "record index": {"hoodie.metadata.record.index.enable": "true", "hoodie.index.type": "RECORD_INDEX"},
    "no metadata table": {"hoodie.metadata.enable": "false"},
}
#: The table's lock, which one in a few kills leaves behind.
LOCKS = {"no lock": "", "a lock": LOCK, "a lock that expires": LOCK + EXPIRY}
LATER = Write(((1, "v7", 600), (9, "v7", 601), (2, "v7", 602)))


@dataclass(frozen=True)
class Moment:
    """When a run dies: so long after it has got to a step, or past it."""

    step: str
    delay_seconds: float
    victim: str

    @classmethod
    def draw(cls, dice: random.Random) -> Moment:
        victim = dice.choices(VICTIMS, weights=[6, 2, 2])[0]
        return cls(dice.choice(ORDER), dice.choice([0.0, dice.random() * 0.3, dice.random() * 3]), victim)

    def __str__(self) -> str:
        return f"{self.victim} {self.delay_seconds:.3f} s after `{self.step}`"

    def reached(self, table: Table) -> bool:
        if ORDER.index(table.step) < ORDER.index(self.step):
            return False
        time.sleep(self.delay_seconds)
        return True


@dataclass
class Killed:
    """A table whose run was killed, and how."""

    seed: int
    kind: str
    variant: str
    table: Table
    moments: tuple[Moment, ...]
    steps: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"k{self.seed}"

    def __str__(self) -> str:
        died = ", then ".join(
            f"{moment} (had reached `{step}`)" for moment, step in zip(self.moments, self.steps, strict=True)
        )
        return f"{self.kind}, killed: {died}"


def kill_one(project: Project, sources: Path, seed: int) -> Killed:
    """A run on a fresh table, killed at the moments of a seed."""
    dice = random.Random(seed)
    variant = dice.choice(list(VARIANTS))
    moments = tuple(Moment.draw(dice) for _ in range(dice.choice([1, 1, 1, 2])))
    granularity = dice.choice(["log_file", "log_file", "file_slice"])
    lock = dice.choice(list(LOCKS))
    table = project.add(f"k{seed}", sources / variant.replace(" ", "_"), granularity, lock=LOCKS[lock])
    steps = []
    for moment in moments:
        project.kill_when(lambda moment=moment: moment.reached(table), f"k{seed}", moment.victim)
        steps.append(table.step)
    return Killed(seed, f"{variant}, {lock}", variant, table, moments, tuple(steps))


def check(spark, killed: Killed, result: dict) -> None:
    """Everything about a mended table, and that the stock writer goes on rightly."""
    verification = result["verification"]
    assert verification["status"] in ("pass", "warn"), verification
    assert result["status"] in ("resumed", "compacted", "nothing_due", "already_applied"), result
    assert not killed.table.is_locked
    check_files(killed.table)
    check_views(spark, killed.table, Oracle.of(HISTORY))
    write_history(spark, killed.table.base, (LATER,), VARIANTS[killed.variant], first=len(HISTORY))
    later, views = Oracle.of((*HISTORY, LATER)).rt(), Views(spark, killed.table.base)
    assert views.rt() == views.rt_without_mdt() == views.rust() == later, "RT after a later write"


def write_sources(folder: Path) -> None:
    """One table of each kind."""
    from etc_policy.adapters.spark.session import start_spark

    spark = start_spark(SPARK, folder / "spark.log")
    for variant, options in VARIANTS.items():
        write_history(spark, folder / variant.replace(" ", "_"), options=options)
    stop_spark(spark)


def play(folder: Path, sources: Path, seeds: range) -> tuple[list[Killed], int, list[str]]:
    """Kill a batch, mend it with one run, and check each table; how many failed, and why."""
    from etc_policy.adapters.spark.session import start_spark

    project, failures = Project(folder), []
    killed = [kill_one(project, sources, seed) for seed in seeds]
    try:
        results = project.apply()
    except AssertionError as error:
        again = f"python -m tests.integration.random_kills --count {len(seeds)} --seed {seeds.start}"
        words = f"seeds {seeds.start} to {seeds.stop - 1}: one run does not mend them: {error}\n  again: {again}"
        return killed, len(killed), [words]
    spark = start_spark(SPARK, folder / "spark.log")
    for one in killed:
        try:
            check(spark, one, results[one.name])
        except Exception as error:
            again = f"python -m tests.integration.random_kills --count 1 --seed {one.seed}"
            failures.append(f"seed {one.seed}, {one}\n{type(error).__name__}: {error}\n  again: {again}")
    stop_spark(spark)
    return killed, len(failures), failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sources", type=Path, help="where the tables before the kills are kept, or are to be kept")
    arguments = parser.parse_args()
    exit_when_told()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp())
    sources = arguments.sources or folder / "sources"
    if not sources.exists():
        sources.mkdir(parents=True)
        write_sources(sources)
    reached, failed = Counter(), 0
    last = arguments.seed + arguments.count
    for first in range(arguments.seed, last, BATCH):
        batch = folder / str(first)
        batch.mkdir()
        killed, failed_now, failures = play(batch, sources, range(first, min(first + BATCH, last)))
        reached.update(step for one in killed for step in one.steps)
        failed += failed_now
        print("\n".join([*(f"{one.seed:>5} {one}" for one in killed), *failures]), flush=True)
        if not failures:
            shutil.rmtree(batch)
    kills = ", ".join(
        f"{count} at `{step}`" for step, count in sorted(reached.items(), key=lambda pair: ORDER.index(pair[0]))
    )
    seconds = time.monotonic() - began
    print(f"{arguments.count - failed} passed, {failed} failed; kills: {kills} ({seconds:.0f} s); tables in {folder}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
