"""Kills `etc apply` at any step, runs it again and looks at the tables.

The killed command is the real one, in a process group of its own, and dies by SIGKILL. When to kill is told by the table's
files alone, so the product has no hooks for it. `random_kills.py` draws the moment.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import fastavro

from tests.integration.history import EPOCH_MS

REPOSITORY = Path(__file__).resolve().parents[2]
#: The threshold of the plans, in seconds of event time, and the moment at which they are made.
SECOND = 210
LATENCY_SECONDS = 10
NOW_MS = EPOCH_MS + (SECOND + LATENCY_SECONDS) * 1000
POLICY = """  - name: {name}
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: {latency}s
    strategy: {{type: event_time, {strategy}}}
    verify: {{level: {level}}}
"""
#: The lock of the table's writers where the policy declares one: Hudi's default place, and no expiry unless told.
LOCK = """    writer:
      lock_wait: 3s
      lock:
        hoodie.write.lock.provider: org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider
"""
EXPIRY = """        hoodie.write.lock.filesystem.expire: "1"
"""
#: The Java of these short runs: a quick start is worth more than fast code.
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"}
TIMEOUT_SECONDS = 240
ATTEMPTS = 4
DATA_ACTIONS = ("commit", "deltacommit", "replacecommit")


#: The values of `Table.step` in the order of an apply.
ORDER = (
    *("nothing", "locked", "published", "begun", "executing"),
    *("committing to the metadata table", "committed to the metadata table", "committed"),
)


@dataclass(frozen=True)
class Table:
    """A table's folder as files; `step` is how far a compaction by etc has got."""

    base: Path
    #: The values of `step`, in the order of an apply.
    order: ClassVar[tuple[str, ...]] = ORDER
    timeline_folder: ClassVar[str] = ".hoodie/timeline"
    #: The names of completed instants, without what they did.
    completed: ClassVar[str] = "{}_*"

    @property
    def meta(self) -> Path:
        return self.base / ".hoodie"

    @property
    def is_locked(self) -> bool:
        """Whether somebody holds the lock, declared or not."""
        return (self.meta / "lock").exists() or (self.meta / ".etc" / "lock").exists()

    def glob(self, pattern: str) -> list[Path]:
        """The table's files of a pattern below its folder."""
        return sorted(self.base.glob(pattern))

    def content(self, path: Path) -> bytes:
        """A file's bytes. Raises FileNotFoundError for one that is gone."""
        return path.read_bytes()

    def timeline(self, pattern: str) -> list[Path]:
        return self.glob(f"{self.timeline_folder}/{pattern}")

    def done(self, action: str, instant: str = "*") -> list[Path]:
        """The files of completed instants of an action."""
        return self.timeline(f"{self.completed.format(instant)}.{action}")

    def incomplete(self, action: str, ends_as: str | None = None) -> set[str]:
        """The instants of an action that were requested and have not completed; a compaction ends as a commit."""
        requested = {path.name.split(".")[0] for path in self.timeline(f"*.{action}.requested")}
        return requested - {path.name.split(".")[0].split("_")[0] for path in self.done(ends_as or action)}

    @property
    def step(self) -> str:
        plans = self.timeline("*.compaction.requested")
        if not plans:
            return "locked" if self.is_locked else "nothing"
        instant = plans[-1].name.split(".")[0]
        if self.done("commit", instant):
            return "committed"
        if in_metadata_table := self.metadata_step(instant):
            return in_metadata_table
        if self.glob(f"*/*_{instant}.parquet"):
            return "executing"
        return "begun" if self.timeline(f"{instant}.compaction.inflight") else "published"

    @property
    def metadata_timeline(self) -> str:
        return f".hoodie/metadata/{self.timeline_folder}"

    def metadata_step(self, instant: str) -> str | None:
        """How far the commit of an instant to the metadata table has got; None where it has not begun."""
        if self.glob(f"{self.metadata_timeline}/{self.completed.format(instant)}.deltacommit"):
            return "committed to the metadata table"
        if self.glob(f"{self.metadata_timeline}/{instant}.deltacommit.inflight"):
            return "committing to the metadata table"
        return None

    @property
    def rolls_back_metadata(self) -> bool:
        """Whether a rollback in the metadata table has begun and not ended."""
        begun, ended = (
            self.glob(f"{self.metadata_timeline}/{name}") for name in ("*.rollback.inflight", "*_*.rollback")
        )
        return len(begun) > len(ended)

    def commits(self) -> list[str]:
        """Completion times of the delta commits, oldest first."""
        return sorted(path.name.split(".")[0].split("_")[1] for path in self.done("deltacommit"))

    def write_stats(self, commit: Path) -> Mapping[str, list[dict]]:
        """The write stats of a commit's file, by partition."""
        with commit.open("rb") as handle:
            return next(iter(fastavro.reader(handle)))["partitionToWriteStats"] or {}

    def orphans(self) -> set[str]:
        """Data files on disk that no completed commit names: what a half-done run may leave, and a view might show."""
        named = set()
        for action in DATA_ACTIONS:
            for path in self.done(action):
                named |= {stat["path"] for of_partition in self.write_stats(path).values() for stat in of_partition}
        found = {
            f"{path.parent.name}/{path.name}"
            for path in self.base.glob("[!.]*/*")
            if path.suffix != ".crc" and path.name != ".hoodie_partition_metadata"
        }
        return found - named


#: Who is killed: the whole process group, or one process, whose partner then finds itself alone.
VICTIMS = ("both", "python", "java")


@dataclass(frozen=True)
class Project:
    """A project's folder with one policy for each of its tables."""

    folder: Path
    timeout_seconds: float = TIMEOUT_SECONDS

    def add(self, name: str, source: Path, granularity: str = "log_file", level: str = "data", lock: str = "") -> Table:
        """A copy of a table and a policy for it, which `lock` ends."""
        table = self.copy(name, source)
        self.declare(name, str(table), f"granularity: {granularity}", level, lock)
        return Table(table)

    def copy(self, name: str, source: Path) -> Path:
        """A copy of a table."""
        return Path(shutil.copytree(source, self.folder / "tables" / name))

    def declare(self, name: str, location: str, strategy: str, level: str = "data", more: str = "") -> None:
        """A policy for a table, which `more` ends."""
        policies = self.folder / "policies"
        policies.mkdir(exist_ok=True)
        text = POLICY.format(name=name, table=location, latency=LATENCY_SECONDS, strategy=strategy, level=level)
        (policies / f"{name}.yml").write_text(f"version: 1\npolicies:\n{text}{more}")

    def start(self, *arguments: str) -> subprocess.Popen:
        """`etc` with these arguments, in a process group of its own; its output goes to files."""
        command = [sys.executable, "-m", "etc_policy.cli.main", *arguments, "--project-dir", str(self.folder)]
        command += ["--target-dir", str(self.folder / "target"), "--at", str(NOW_MS)]
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("wb") as err:
            return spawn(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def apply(self, *arguments: str) -> dict[str, dict]:
        """Run `etc apply` to its end; each policy's result, by name."""
        process = self.start("apply", "--yes", "--output", "json", *arguments)
        code = process.wait(timeout=self.timeout_seconds)
        assert code == 0, f"exit {code}: {self.stderr}"
        tables = json.loads((self.folder / "stdout").read_text())["tables"]
        assert len({table["policy"] for table in tables}) == len(tables), "one result per policy"
        return {table["policy"]: table for table in tables}

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def kill_when(
        self, reached: Callable[[], bool], name: str, victim: str = "both", every_seconds: float = 0.001
    ) -> None:
        """Run `etc apply` on one table and kill it as soon as `reached`, or let it end; returns when all is gone."""
        process = self.start("apply", "--yes", "--select", name)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while process.poll() is None and not reached():
            assert time.monotonic() < deadline, self.stderr
            time.sleep(every_seconds)
        pids = {"both": -process.pid, "python": process.pid, "java": java_of(process.pid)}
        kill(pids[victim] or -process.pid)
        process.wait(timeout=TIMEOUT_SECONDS)
        wait_for_group(process.pid)


def spawn(command: list[str], **streams) -> subprocess.Popen:
    """A process in a group of its own, which does not outlive this one unless this one is killed too."""
    environment = {**os.environ, **QUICK_JAVA}
    process = subprocess.Popen(command, start_new_session=True, cwd=REPOSITORY, env=environment, **streams)
    atexit.register(lambda: process.poll() is None and kill(-process.pid))
    return process


def exit_when_told() -> None:
    """Makes SIGTERM an orderly exit, so that nothing that was started stays behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def kill(pid: int) -> None:
    """SIGKILL to a process, or to the group of `-pid`; one that is gone is no error."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def java_of(pid: int) -> int | None:
    """The Java process that a Python process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if Path(f"/proc/{pid}").exists() else []
    return next((int(child) for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "java"), None)


def wait_for_group(pid: int) -> None:
    """Returns when no process of the group is left."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.005)
    raise AssertionError("a process outlives its killed partner")


def kill_holding(project: Project, name: str, source: Path, step: str, lock: str, victim: str = "both") -> Table:
    """A table whose `etc apply` was killed while it held the lock, at or after this step; tried afresh as in `kill_at`."""
    for _ in range(ATTEMPTS):
        table = project.add(name, source, level="metadata", lock=lock)
        project.kill_when(
            lambda table=table: table.is_locked and ORDER.index(table.step) >= ORDER.index(step), name, victim
        )
        if table.is_locked:
            return table
        shutil.rmtree(table.base)
    raise AssertionError(f"no run could be killed holding the lock after `{step}`\n{project.stderr}")


def kill_at(project: Project, name: str, source: Path, step: str, victim: str = "both", level: str = "data") -> Table:
    """A table whose `etc apply` was killed at this step; a run that had moved on when it died is tried afresh."""
    for _ in range(ATTEMPTS):
        table = project.add(name, source, level=level)
        project.kill_when(lambda table=table: table.step == step, name, victim)
        if table.step == step or (victim != "both" and ORDER.index(table.step) > ORDER.index(step)):
            return table  # a partner that finds itself alone may still go on for a while
        passed, message = table.step, project.stderr
        shutil.rmtree(table.base)
    raise AssertionError(f"no run could be stopped at `{step}`, the last had reached `{passed}`\n{message}")


def kill_while_it_rolls_back(project: Project, name: str, source: Path) -> Table:
    """A table whose run died within its commit to the metadata table, and the next one while it rolled that back there."""
    for _ in range(ATTEMPTS):
        table = kill_at(project, name, source, "committing to the metadata table", level="metadata")
        project.kill_when(lambda table=table: table.rolls_back_metadata, name)
        if table.rolls_back_metadata:
            return table
        shutil.rmtree(table.base)
    raise AssertionError(f"no run could be stopped while it rolled back\n{project.stderr}")
