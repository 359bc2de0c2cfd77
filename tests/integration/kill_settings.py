"""Where `random_kills.py` kills: tables on local disk, of version 6 with carried log files, and in a bucket."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from tests.faulty_proxy import FaultyProxy
from tests.integration.cut_checks import EXACT
from tests.integration.history import HISTORY, Oracle, Views, Write, partition_of, write_history
from tests.integration.kill_checks import check_files, check_views
from tests.integration.kills import (
    EXPIRY,
    LOCK,
    ORDER,
    SECOND,
    TIMEOUT_SECONDS,
    VICTIMS,
    Project,
    Table,
)
from tests.integration.version6 import Table6
from tests.integration.version6_kinds import OF_HUDI_0, WRITES, Kind
from tests.s3_servers import S3Server

VARIANTS = {
    "metadata table": {},
    "metadata table that compacts": {"hoodie.metadata.compact.max.delta.commits": "2"},
    "record index": {"hoodie.metadata.record.index.enable": "true", "hoodie.index.type": "RECORD_INDEX"},
    "no metadata table": {"hoodie.metadata.enable": "false"},
}
#: The table's lock, which one in a few kills leaves behind.
LOCKS = {"no lock": "", "a lock": LOCK, "a lock that expires": LOCK + EXPIRY}
LATER = Write(((1, "v7", 600), (9, "v7", 601), (2, "v7", 602)))


class OnDisk:
    """Tables on local disk."""

    variants: Mapping[str, Mapping[str, str]] = VARIANTS
    locks: Mapping[str, str] = LOCKS
    order: tuple[str, ...] = ORDER
    #: How the rows are verified by etc, and the commits whose views are looked at (all).
    level: str = "data"
    numbers: range | None = None
    #: Whether a dead run's lock may outlive the one that finds nothing left to do.
    may_stay_locked: bool = False
    #: Who dies, and how often.
    victims: Mapping[str, int] = dict(zip(VICTIMS, (6, 2, 2), strict=True))

    def write(self, spark: object, base: Path, variant: str) -> None:
        """A table before the kills."""
        write_history(spark, base, options=self.variants[variant])

    def add(self, project: Project, name: str, source: Path, granularity: str, lock: str, dice: random.Random) -> Table:
        """A copy of a table with a policy for it."""
        return project.add(name, source, granularity, self.level, lock)

    def kill_when(self, reached: Callable[[], bool], project: Project, name: str, victim: str) -> None:
        """Run `etc apply` on the table until something is reached, and let the victim die then."""
        project.kill_when(reached, name, victim)

    def check(self, spark: object, table: Table, variant: str) -> None:
        """Everything about a mended table, and that the stock writer goes on rightly."""
        check_files(table)
        check_views(spark, table, Oracle.of(HISTORY), self.numbers)
        write_history(spark, table.base, (LATER,), self.variants[variant], first=len(HISTORY))
        later, views = Oracle.of((*HISTORY, LATER)).rt(), Views(spark, table.base)
        assert views.rt() == views.rt_without_mdt() == views.rust() == later, "RT after a later write"


class Version6Table(Table):
    """A table of version 6: no completion times, commits in JSON, and log files that are carried once a plan is published."""

    order: ClassVar[tuple[str, ...]] = (*ORDER[:3], "carrying", *ORDER[3:])
    timeline_folder: ClassVar[str] = ".hoodie"
    completed: ClassVar[str] = "{}"

    @property
    def step(self) -> str:
        found = super().step
        return "carrying" if found == "published" and self.glob("*/.*.log.0_1?????-0-0") else found

    def write_stats(self, commit: Path) -> Mapping[str, list[dict]]:
        return json.loads(commit.read_text())["partitionToWriteStats"] or {}


class SplitTable(Table):
    """A table whose log files are split by record before a plan is published."""

    order: ClassVar[tuple[str, ...]] = (*ORDER[:2], "splitting", *ORDER[2:])

    @property
    def step(self) -> str:
        found = super().step
        is_splitting = found in ("nothing", "locked") and self.glob(".hoodie/.etc/split/*")
        return "splitting" if is_splitting else found


class ByRecord(OnDisk):
    """Tables on local disk that are split by record."""

    variants: Mapping[str, Mapping[str, str]] = {
        name: options for name, options in VARIANTS.items() if name != "record index"
    }
    order: tuple[str, ...] = SplitTable.order

    def add(self, project: Project, name: str, source: Path, granularity: str, lock: str, dice: random.Random) -> Table:
        return SplitTable(project.add(name, source, "record", self.level, lock).base)

    def check(self, spark: object, table: Table, variant: str) -> None:
        assert not table.glob(".hoodie/.etc/split/*"), "extracts are left"
        ro = Views(spark, table.base).ro()
        assert {key: ro[key] for key in ro if partition_of(key) in "ab"} == EXACT, "RO is not the table as of T"
        super().check(spark, table, variant)


class OfVersion6(OnDisk):
    """Tables of version 6 on local disk, of which nobody but etc compacts; log files are linked or copied."""

    kinds: Mapping[str, Kind] = {
        "metadata table": Kind(),
        "metadata table that compacts": Kind(),
        "no metadata table": Kind(mdt=False),
        **({} if OF_HUDI_0 else {"by commit time": Kind(by_event_time=False)}),
    }
    variants: Mapping[str, Mapping[str, str]] = {
        name: {**kind.options, **VARIANTS.get(name, {})} for name, kind in kinds.items()
    }
    order: tuple[str, ...] = Version6Table.order

    def write(self, spark: object, base: Path, variant: str) -> None:
        write_history(spark, base, WRITES, self.variants[variant])

    def add(self, project: Project, name: str, source: Path, granularity: str, lock: str, dice: random.Random) -> Table:
        table, carry = project.copy(name, source), dice.choice(["hard_link", "copy"])
        strategy = f"granularity: {granularity}" + (f", carry: {carry}" if granularity == "log_file" else "")
        project.declare(name, str(table), strategy, self.level, (lock or "    writer:\n") + "      compaction: none\n")
        return Version6Table(table)

    def check(self, spark: object, table: Table, variant: str) -> None:
        check_files(table)
        mended = Table6(spark, table.base, kind=self.kinds[variant], history=WRITES)
        mended.check("mended")
        mended.check_ro(SECOND)
        mended.write(LATER)
        mended.check("written to later", len(mended.history) - 1)


@dataclass(frozen=True)
class BucketTable(Table):
    """A table in a bucket, seen without etc; `base` is its folder there."""

    server: S3Server
    bucket: str

    @property
    def location(self) -> str:
        return f"s3a://{self.bucket}/{self.base}"

    @property
    def is_locked(self) -> bool:
        """Whether somebody holds the lease that lies beside the table."""
        key = f"{self.base}/.hoodie/.etc/lease.json"
        is_there = key in self.server.keys(self.bucket, key)
        return is_there and not json.loads(self.server.content(self.bucket, key))["released"]

    @property
    def step(self) -> str:
        return self._listed().step

    def glob(self, pattern: str) -> list[Path]:
        return self._listed().glob(pattern)

    def content(self, path: Path) -> bytes:
        try:
            return self.server.content(self.bucket, str(path))
        except self.server.client.exceptions.NoSuchKey as error:
            raise FileNotFoundError(str(path)) from error

    def timeline(self, pattern: str) -> list[Path]:
        return self._listed(f"{self.timeline_folder}/").timeline(pattern)

    def _listed(self, folder: str = "") -> Table:
        """The table as it is now, or a folder of it."""
        return _Listed(self.base, tuple(self.server.keys(self.bucket, f"{self.base}/{folder}")), self)


@dataclass(frozen=True)
class _Listed(Table):
    """What a table in a bucket was at one moment."""

    keys: tuple[str, ...]
    table: BucketTable

    @property
    def is_locked(self) -> bool:
        return self.table.is_locked

    def glob(self, pattern: str) -> list[Path]:
        found = [Path(key) for key in self.keys]
        return [path for path in found if PurePosixPath(path).match(f"{self.base}/{pattern}")]


class InBucket(OnDisk):
    """Tables in buckets of an S3 server; of some runs no process dies, but for a while what lies before the server fails."""

    locks: Mapping[str, str] = {"its lease": ""}
    may_stay_locked: bool = True  # a lease ends by itself
    victims: Mapping[str, int] = {**OnDisk.victims, "network": 6}
    every_seconds = 0.4  # to look is work for the server
    faults = ("cut before", "cut after", "cut in body", "busy", "error after")

    def __init__(self, server: S3Server, folder: Path, proxy: FaultyProxy | None = None) -> None:
        self.server, self.folder, self.proxy = server, folder, proxy

    def add(self, project: Project, name: str, source: Path, granularity: str, lock: str, dice: random.Random) -> Table:
        bucket = self.server.make_bucket()
        self.server.upload(source, bucket, "t")
        table = BucketTable(Path("t"), self.server, bucket)
        project.declare(name, table.location, f"granularity: {granularity}", self.level, lock)
        self.dice = dice
        return table

    def kill_when(self, reached: Callable[[], bool], project: Project, name: str, victim: str) -> None:
        if victim != "network":
            project.kill_when(reached, name, victim, self.every_seconds)
            return
        process = project.start("apply", "--yes", "--select", name)
        while process.poll() is None and not reached():
            time.sleep(self.every_seconds)
        fault, share = self.dice.choice(self.faults), self.dice.choice([0.3, 1.0])
        seconds = self.dice.choice([1, 5, 20])
        assert self.proxy is not None
        self.proxy.spoil = lambda method, path: fault if random.random() < share else ""
        time.sleep(seconds)
        self.proxy.always("")
        code = process.wait(timeout=2 * TIMEOUT_SECONDS)
        assert code in (0, 4), f"exit {code} after {fault} of {share} for {seconds} s: {project.stderr}"
        assert "Traceback" not in project.stderr, project.stderr

    def check(self, spark: object, table: Table, variant: str) -> None:
        assert isinstance(table, BucketTable)
        folder = self.folder / table.bucket
        super().check(spark, Table(self.server.download(table.bucket, str(table.base), folder)), variant)
        shutil.rmtree(folder)
