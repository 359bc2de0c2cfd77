"""`etc run` over twenty tables with a writer that goes on, killed twice: is every view right, and does memory stay flat?

    python -m tests.integration.fleet [--minutes 60] [--tables 20] [--target 3m]

The writer is a process with a Spark of its own. After a third and two thirds of the time `etc run` and its Java are killed within
a compaction, and started again; at the end it gets SIGTERM. The next life has to finish or withdraw what the killed one left, and
each life has to compact and verify tables. Then all tables are compacted once more, by `etc apply`: their rows have to be those
that the writer wrote, by its own account, and `etc verify --level data` has to pass.

Memory is sampled throughout. The resident memory of Python and of Java, whose heap is there from the start, and what a full
collection leaves on that heap, may grow from the first third of a life after its warm-up to the last one by a tenth and a little.
Prints all of that; exit 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from etc_policy.api.project import Project
from etc_policy.errors import SeveralErrors
from etc_policy.wiring import Environment
from tests.integration.hudi_tables import StockTable
from tests.integration.kills import REPOSITORY, Table, exit_when_told, java_of, kill, spawn, wait_for_group
from tests.integration.soak_processes import etc

SCHEMA = "id int, p string, v string, ts long"
OPTIONS = {
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.index.type": "SIMPLE",
    "hoodie.clean.automatic": "true",
}
POLICY = """  - name: {name}
    table: lake/{name}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 45s
    freshness: {{target: {target}}}
    verify: {{level: metadata}}
    writer: {{index: simple, compaction: none}}
"""
SPARK = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
WRITER_SPARK = {**SPARK, "spark.master": "local[1]"}
#: All of Java's heap is there from the start, so that its resident memory grows by what is not on the heap alone.
HEAP = {"spark.driver.defaultJavaOptions": "-Xms1g -XX:+AlwaysPreTouch"}
KEYS, CHANGED, PAGE_MIB = 500, 50, os.sysconf("SC_PAGE_SIZE") / 2**20
#: Events are so late when their write begins, which has the rest of `data_latency`; and the writer's pause after each write.
LATE_MS, LATENCY_SECONDS, PAUSE_SECONDS = 10_000, 45, 2.0
#: How long a kill waits for a compaction, how long an end may take, and how often memory is sampled.
WITHIN_SECONDS, STOP_SECONDS, SAMPLE_SECONDS = 180.0, 600.0, 30.0
#: In a shorter life memory has not settled yet, and not all tables are due.
JUDGED_SECONDS = 600.0
#: What memory may grow by.
GROWTH, GROWTH_MIB = 1.1, 16.0
Rows = dict[int, tuple[int, str]]


def rows(chance: random.Random, keys):
    now_ms = time.time_ns() // 1_000_000
    return [(key, f"p{key % 2}", f"{chance.getrandbits(400):x}", now_ms - chance.randrange(LATE_MS)) for key in keys]


def write(lake: Path, tables: int) -> None:
    """Make the tables, and write to one after the other until `stop` is there; `rows.json` is what they hold then, by keys."""
    environment, chance = Environment(lake, lambda _: None, WRITER_SPARK, lake / "writer.log"), random.Random(1)
    try:
        made = rows(chance, range(KEYS))
        StockTable(environment.spark, str(lake / "t000"), SCHEMA, options=OPTIONS).write(made, "bulk_insert")
        for number in range(1, tables):
            shutil.copytree(lake / "t000", lake / f"t{number:03}")
        held: list[Rows] = [{key: (ts, v) for key, _, v, ts in made} for _ in range(tables)]
        (lake / "made").touch()
        while not (lake / "stop").exists():
            number = chance.randrange(tables)
            batch = rows(chance, chance.sample(range(KEYS), CHANGED))
            StockTable(environment.spark, str(lake / f"t{number:03}"), SCHEMA, options=OPTIONS).write(batch)
            for key, _, v, ts in batch:  # the later event wins
                held[number][key] = max(held[number][key], (ts, v))
            time.sleep(PAUSE_SECONDS)
        (lake / "rows.json").write_text(json.dumps(held))
    finally:
        environment.close()


def resident_mib(pid: int | None) -> float:
    """The resident memory of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_MIB
    except (OSError, IndexError):
        return 0.0


def live_heap_mib(java: int | None) -> float | None:
    """What a full collection leaves on the heap; None where Java does not say it."""
    if java is None or shutil.which("jcmd") is None:
        return None
    said = subprocess.run(["jcmd", str(java), "GC.class_histogram"], capture_output=True, text=True)
    total = re.search(r"^Total\s+\d+\s+(\d+)", said.stdout, re.MULTILINE)
    return int(total[1]) / 2**20 if total else None


@dataclass
class Life:
    """One life of `etc run`, in a group of processes of its own; what is wrong with it is added to `faults`."""

    number: int
    project: Path
    tables: tuple[Table, ...]
    faults: list[str]
    samples: list[tuple[float, float]] = field(default_factory=list)
    heap_mib: list[float | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.out, self.err = (self.project / f"life{self.number}.{name}" for name in ("out", "err"))
        self.left = self.pending()
        command = etc("run", "--every", "30s", "--output", "json", "--quiet")
        command += [word for item in {**SPARK, **HEAP}.items() for word in ("--conf", "=".join(item))]
        command += ["--alive", str(self.project / "alive"), "--project-dir", str(self.project)]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True, cwd=REPOSITORY)

    def pending(self) -> set[tuple[str, str]]:
        """The compactions that were begun and not ended, by table and instant."""
        return {(table.base.name, at) for table in self.tables for at in table.incomplete("compaction", "commit")}

    def go_on(self, seconds: float, writer: subprocess.Popen) -> None:
        """Let it and the writer run, and sample its memory."""
        began = said = time.monotonic()
        warm = began + seconds / 4
        while (left := began + seconds - time.monotonic()) > 0:
            time.sleep(min(left, SAMPLE_SECONDS, seconds / 20))
            if self.process.poll() is not None or writer.poll() is not None:
                raise RuntimeError(
                    f"ended: etc run with {self.process.returncode}, the writer with {writer.returncode}"
                )
            java = java_of(self.process.pid)
            if time.monotonic() < warm or java is None:
                continue
            if not self.heap_mib:
                self.heap_mib.append(live_heap_mib(java))
            self.samples.append((resident_mib(self.process.pid), resident_mib(java)))
            if time.monotonic() - said >= 60:
                said = time.monotonic()
                print("  Python {:5.0f} MiB, Java {:5.0f} MiB".format(*self.samples[-1]), flush=True)
        self.heap_mib.append(live_heap_mib(java_of(self.process.pid)))
        self.judge_memory(is_judged=seconds >= JUDGED_SECONDS)

    def judge_memory(self, *, is_judged: bool) -> None:
        """Compare the last third of the samples with the first."""
        third = len(self.samples) // 3
        if not third:
            self.faults += [
                "Java was not sampled"
            ] * is_judged  # in a short life it is there for the compactions at its end
            return
        found = {
            name: tuple(median(one[place] for one in part) for part in (self.samples[:third], self.samples[-third:]))
            for place, name in enumerate(("Python", "Java"))
        }
        first, last = self.heap_mib[0], self.heap_mib[-1]
        if first is not None and last is not None:
            found["Java's live heap"] = first, last
        for name, (before, after) in found.items():
            is_flat = after <= before * GROWTH + GROWTH_MIB
            verdict = "flat" if is_flat else "grew"
            print(f"  {name}: {before:.0f} MiB, then {after:.0f} MiB: {verdict if is_judged else 'too short to judge'}")
            if is_judged and not is_flat:
                self.faults.append(f"{name} grew from {before:.0f} to {after:.0f} MiB")

    def kill(self) -> None:
        """Kill it with its Java, within a compaction."""
        until = time.monotonic() + WITHIN_SECONDS
        while not self.pending() and time.monotonic() < until:
            time.sleep(0.02)
        kill(-self.process.pid)
        self.process.wait()
        wait_for_group(self.process.pid)
        within = self.pending()
        print(f"killed within {sorted(within)}")
        if not within:
            self.faults.append("not killed within a compaction")

    def ask_to_end(self) -> None:
        """Send SIGTERM."""
        self.process.terminate()
        code = self.process.wait(timeout=STOP_SECONDS)
        wait_for_group(self.process.pid)
        print(f"ended with {code}")
        if code or self.pending():
            self.faults.append(f"ended with {code}, and left {sorted(self.pending())}")

    def judge_work(self, *, is_judged: bool) -> None:
        """Print what it did, table by table and round by round, and see that nothing failed or went unverified."""
        lines = self.out.read_text().splitlines(keepends=True)
        rounds = [json.loads(line) for line in lines if line.endswith("}\n")]  # a kill may cut the last one off
        results = [one for each in rounds for one in each["tables"]]
        statuses = Counter(one["status"] for one in results)
        moved = {one["policy"] for one in results if one["status"] in ("compacted", "resumed")}
        errors = Counter(re.findall(r"^error\[(ETC\d+)\]", self.err.read_text(errors="replace"), re.MULTILINE))
        print(f"  {len(rounds)} rounds with work, {dict(statuses)}, errors {dict(errors)}", flush=True)
        self.faults += [
            f"{one['policy']} {one['status']}: {one['reason']}, verification {verdict}"
            for one in results
            if (verdict := (one["verification"] or {}).get("status")) in ("fail", "error")
            or one["status"] == "failed"
            or (one["status"] in ("compacted", "resumed") and verdict is None)
        ]
        if is_judged and len(moved) < len(self.tables):  # of the round in which it is killed nothing is printed
            self.faults.append(f"of {len(self.tables)} tables only {sorted(moved)} were compacted")
        if still := self.left & self.pending():
            self.faults.append(f"left by the life before, and not finished: {sorted(still)}")


def play(project: Path, names: list[str], seconds: float, target: str) -> list[str]:
    """Three lives of so many seconds, and the end; what was wrong."""
    lake, faults = project / "lake", list[str]()
    lake.mkdir()
    (project / "policies").mkdir()
    text = "version: 1\npolicies:\n" + "".join(POLICY.format(name=name, target=target) for name in names)
    (project / "policies" / "all.yml").write_text(text)
    command = [sys.executable, "-m", "tests.integration.fleet", "--write", str(lake), "--tables", str(len(names))]
    writer = spawn(command)
    try:
        while not (lake / "made").exists():
            if writer.poll() is not None:
                raise RuntimeError(f"the writer ended with {writer.returncode}")
            time.sleep(0.5)
        for number in range(3):
            live(Life(number, project, tuple(Table(lake / name) for name in names), faults), seconds, writer)
    finally:
        (lake / "stop").touch()
        code = writer.wait(timeout=STOP_SECONDS)
    time.sleep(LATENCY_SECONDS)
    return [*faults, *(end_problems(project, names) if code == 0 else [f"the writer ended with {code}"])]


def live(life: Life, seconds: float, writer: subprocess.Popen) -> None:
    """One life; whatever goes wrong in it, nothing of it is left running."""
    print(f"life {life.number + 1}, which finds {sorted(life.left)}", flush=True)
    try:
        life.go_on(seconds, writer)
        life.kill() if life.number < 2 else life.ask_to_end()
    except BaseException:
        print(life.err.read_text(errors="replace")[-4000:])
        raise
    finally:
        kill(-life.process.pid)
        life.judge_work(is_judged=seconds >= JUDGED_SECONDS)


def end_problems(project: Path, names: list[str]) -> list[str]:
    """Compact all, and compare the rows with what the writer wrote, and the views with each other."""
    held = json.loads((project / "lake" / "rows.json").read_text())
    problems, compared = [], 0
    with Project(project, spark_confs=SPARK, spark_log=project / "end.log") as last:
        try:
            print(Counter(one.status for one in last.apply().tables))
            verdicts = last.verify(level="data").verdicts
        except SeveralErrors as errors:
            return [issue.message for issue in errors.issues]
        for name, expected in zip(names, held, strict=True):
            reader = last.environment.spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized")
            seen = sorted((row.id, row.ts, row.v) for row in reader.load(str(project / "lake" / name)).collect())
            wanted = sorted((int(key), ts, v) for key, (ts, v) in expected.items())
            compared += len(wanted)
            if seen != wanted:
                wrong = sorted(set(seen) ^ set(wanted))
                problems.append(f"{name}: {len(seen)} rows, {len(wanted)} expected; different: {wrong[:3]}")
    print(f"{compared} rows compared with what was written; {len(verdicts)} tables compared by both views")
    problems += [f"{name}: {verdict.failures}" for name, verdict in verdicts if verdict.status != "pass"]
    return problems if len(verdicts) == len(names) else [*problems, f"only {len(verdicts)} tables were verified"]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--target", default="3m", help="freshness.target; short plays need a short one")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write(given.write, given.tables)
        return 0
    exit_when_told()
    folder = Path(tempfile.mkdtemp(prefix="etc-fleet-"))
    names = [f"t{number:03}" for number in range(given.tables)]
    faults = play(folder, names, given.minutes * 60 / 3, given.target)
    if faults:
        print(f"wrong, see {folder}:", *faults, sep="\n  ")
        return 1
    shutil.rmtree(folder)
    print("all is right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
