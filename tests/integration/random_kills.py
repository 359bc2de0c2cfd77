"""Kills `etc apply` at random moments: `python -m tests.integration.random_kills --count 200 --seed 1 [--where version-6]`.

Each kill draws the table (with a metadata table, with one that compacts itself often, with a record index, with none), the
granularity, the moment, who dies, and the table's lock (none declared, or Hudi's lock file with or without expiry); one in
four is killed again while it mends. One `etc apply` mends a batch of tables; every view, every file and a later stock write
are looked at. `--where` plays it on tables of version 6, on tables that are split by record, or in the buckets of an S3
server, where the network fails too.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faulty_proxy import faulty_proxy
from tests.integration.bucket_cut import variables
from tests.integration.kill_settings import ByRecord, InBucket, OfVersion6, OnDisk
from tests.integration.kills import Project, Table, exit_when_told
from tests.integration.session import stop_spark
from tests.s3_servers import S3Server, running

BATCH = 8
SPARK = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
ON_THIS_MACHINE = {"disk": OnDisk, "version-6": OfVersion6, "record": ByRecord}
PLACES = ("disk", "version-6", "record", "moto", "versitygw")


@dataclass(frozen=True)
class Moment:
    """When a run dies: so long after it has got to a step, or past it."""

    step: str
    delay_seconds: float
    victim: str

    @classmethod
    def draw(cls, dice: random.Random, setting: OnDisk) -> Moment:
        victim = dice.choices(list(setting.victims), weights=list(setting.victims.values()))[0]
        return cls(dice.choice(setting.order), dice.choice([0.0, dice.random() * 0.3, dice.random() * 3]), victim)

    def __str__(self) -> str:
        return f"{self.victim} {self.delay_seconds:.3f} s after `{self.step}`"

    def reached(self, table: Table) -> bool:
        if table.order.index(table.step) < table.order.index(self.step):
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


def kill_one(setting: OnDisk, project: Project, sources: Path, seed: int) -> Killed:
    """A run on a fresh table, killed at the moments of a seed."""
    dice = random.Random(seed)
    variant = dice.choice(list(setting.variants))
    moments = tuple(Moment.draw(dice, setting) for _ in range(dice.choice([1, 1, 1, 2])))
    granularity = dice.choice(["log_file", "log_file", "file_slice"])
    lock = dice.choice(list(setting.locks))
    source = sources / variant.replace(" ", "_")
    table = setting.add(project, f"k{seed}", source, granularity, setting.locks[lock], dice)
    steps = []
    for moment in moments:
        setting.kill_when(lambda moment=moment: moment.reached(table), project, f"k{seed}", moment.victim)
        steps.append(table.step)
    return Killed(seed, f"{variant}, {granularity}, {lock}", variant, table, moments, tuple(steps))


def check(setting: OnDisk, spark, killed: Killed, result: dict) -> None:
    """Everything about a mended table, and that the stock writer goes on rightly."""
    verification = result["verification"]
    assert verification["status"] in ("pass", "warn"), verification
    assert result["status"] in ("resumed", "compacted", "nothing_due", "already_applied"), result
    assert setting.may_stay_locked or not killed.table.is_locked, "the lock is still held"
    setting.check(spark, killed.table, killed.variant)


def write_sources(setting: OnDisk, folder: Path) -> None:
    """One table of each kind."""
    from etc_policy.spark.session import start_spark

    spark = start_spark(SPARK, folder / "spark.log")
    for variant in setting.variants:
        setting.write(spark, folder / variant.replace(" ", "_"), variant)
    stop_spark(spark)


def play(setting: OnDisk, folder: Path, sources: Path, seeds: Sequence[int]) -> tuple[list[Killed], int, list[str]]:
    """Kill a batch, mend it with one run, and check each table; how many failed, and why."""
    from etc_policy.spark.session import start_spark

    project, killed, failures = Project(folder, timeout_seconds=BATCH * 60), [], []
    for seed in seeds:
        try:
            killed.append(kill_one(setting, project, sources, seed))
        except AssertionError as error:
            failures.append(f"seed {seed}: {error}")
    try:
        results = project.apply()
    except AssertionError as error:
        words = f"seeds {seeds[0]} to {seeds[-1]}: one run does not mend them: {error}"
        return killed, len(seeds), [*failures, words]
    spark = start_spark(SPARK, folder / "spark.log")
    for one in killed:
        try:
            check(setting, spark, one, results[one.name])
        except Exception as error:
            failures.append(f"seed {one.seed}, {one}\n{type(error).__name__}: {error}")
    stop_spark(spark)
    return killed, len(failures), failures


@contextmanager
def setting_of(place: str, folder: Path) -> Iterator[OnDisk]:
    """Where it is played; with a server and a proxy before it where that is a bucket."""
    if place in ON_THIS_MACHINE:
        yield ON_THIS_MACHINE[place]()
        return
    (folder / "server").mkdir()
    with running(place, folder / "server") as server, faulty_proxy(server.endpoint) as proxy:
        os.environ.update(variables(S3Server(proxy.endpoint)))
        yield InBucket(server, folder, proxy)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sources", type=Path, help="where the tables before the kills are kept, or are to be kept")
    parser.add_argument("--where", choices=PLACES, default="disk")
    arguments = parser.parse_args()
    exit_when_told()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp())
    reached, failed = Counter(), 0
    last = arguments.seed + arguments.count
    with setting_of(arguments.where, folder) as setting:
        sources = arguments.sources or folder / "sources"
        if not sources.exists():
            sources.mkdir(parents=True)
            write_sources(setting, sources)
        for first in range(arguments.seed, last, BATCH):
            batch = folder / str(first)
            batch.mkdir()
            seeds = range(first, min(first + BATCH, last))
            killed, failed_now, failures = play(setting, batch, sources, seeds)
            reached.update(step for one in killed for step in one.steps)
            failed += failed_now
            print("\n".join([*(f"{one.seed:>5} {one}" for one in killed), *failures]), flush=True)
            if failures:
                again = f"--where {arguments.where} --seed {seeds[0]} --count {len(seeds)}"
                print(f"  again: python -m tests.integration.random_kills {again}", flush=True)
            else:
                shutil.rmtree(batch)
    kills = ", ".join(f"{reached[step]} at `{step}`" for step in setting.order if reached[step])
    seconds = time.monotonic() - began
    print(f"{arguments.count - failed} passed, {failed} failed; kills: {kills} ({seconds:.0f} s); tables in {folder}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
