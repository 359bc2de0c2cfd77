"""`etc run` over twenty tables with a writer that goes on, killed twice: is every view right, and does memory stay flat?

    python -m tests.integration.fleet [--minutes 60] [--tables 20]

The writer is a process with a Spark of its own. After a third and two thirds of the time `etc run` and its Java are killed and
started again; at the end it gets SIGTERM. Then all tables are compacted once more, and their rows compared. Prints what each life
of `etc run` did and how much memory it had, minute by minute.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from etc_policy.api.project import Project
from etc_policy.wiring import Environment
from tests.integration.hudi_tables import StockTable

SCHEMA = "id int, p string, v string, ts long"
OPTIONS = {
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.index.type": "SIMPLE",
    "hoodie.clean.automatic": "true",
}
POLICY = """  - name: {name}
    table: lake/{name}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 20s
    freshness: {{target: 4m}}
    verify: {{level: metadata}}
    writer: {{index: simple, compaction: none}}
"""
_ETC = "import sys; from etc_policy.cli.main import main; sys.exit(main())"
KEYS, CHANGED, PAGE_MIB = 500, 50, os.sysconf("SC_PAGE_SIZE") / 2**20


def rows(chance: random.Random, keys):
    now_ms = time.time_ns() // 1_000_000
    return [(key, f"p{key % 2}", f"{chance.getrandbits(400):x}", now_ms - chance.randrange(15_000)) for key in keys]


def write(lake: Path, tables: int, stop: Path) -> None:
    """Make the tables, and write to one after the other until the file is there."""
    environment, chance = Environment(lake, progress=lambda _: None, spark_log=lake / "writer.log"), random.Random(1)
    try:
        first = StockTable(environment.spark, str(lake / "t000"), SCHEMA, options=OPTIONS)
        first.write(rows(chance, range(KEYS)), "bulk_insert")
        for number in range(1, tables):
            shutil.copytree(lake / "t000", lake / f"t{number:03}")
        (lake / "made").touch()
        while not stop.exists():
            base = lake / f"t{chance.randrange(tables):03}"
            table = StockTable(environment.spark, str(base), SCHEMA, options=OPTIONS)
            table.write(rows(chance, chance.sample(range(KEYS), CHANGED)))
    finally:
        environment.close()


def memory_mib(pid: int) -> tuple[float, float]:
    """Resident MiB of a process, and of all below it."""
    found, tree, below = {}, {pid}, 0.0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(entry.parent.name)] = int(fields[1]), int(fields[21]) * PAGE_MIB
    while more := {one for one, (parent, _) in found.items() if parent in tree} - tree:
        tree, below = tree | more, below + sum(found[one][1] for one in more)
    return found.get(pid, (0, 0.0))[1], below


class Life:
    """One life of `etc run`, in a group of processes of its own."""

    def __init__(self, project: Path) -> None:
        self.out = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        command = [sys.executable, "-c", _ETC, "run", "--every", "30s", "--output", "json", "--quiet"]
        command += ["--alive", str(project / "alive"), "--project-dir", str(project)]
        self.process = subprocess.Popen(command, stdout=self.out, stderr=subprocess.DEVNULL, start_new_session=True)

    def go_on(self, seconds: float) -> None:
        """Let it run, and print its memory each minute."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(max(0.0, min(60.0, until - time.monotonic())))
            if self.process.poll() is not None:
                raise SystemExit(f"etc run ended with {self.process.returncode}")
            python, java = memory_mib(self.process.pid)
            print(f"  etc {python:5.0f} MiB, Java {java:5.0f} MiB", flush=True)

    def end(self, *, kill: bool) -> None:
        """Kill it with its Java, or ask it to end; print what it did."""
        if kill:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.terminate()
        code = self.process.wait(timeout=300)
        self.out.seek(0)
        rounds = [json.loads(line) for line in self.out if line.endswith("}\n")]
        tables = [table for one in rounds for table in one["tables"]]
        done = sum(table["status"] in ("compacted", "resumed") for table in tables)
        bad = [
            (table["policy"], table["status"], table.get("reason"))
            for table in tables
            if table["status"] == "failed" or (table["verification"] or {}).get("status") in ("fail", "error")
        ]
        print(
            f"{'killed' if kill else f'ended with {code}'}: {len(rounds)} rounds, {done} compactions, failures: {bad}"
        )
        if bad or not (kill or code == 0):
            raise SystemExit("failed")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write(given.write, given.tables, given.write / "stop")
        return
    with tempfile.TemporaryDirectory(prefix="etc-fleet-") as folder:
        play(Path(folder), given.tables, given.minutes * 60 / 3)


def play(project: Path, tables: int, seconds: float) -> None:
    """Three lives of so many seconds."""
    lake = project / "lake"
    lake.mkdir()
    (project / "policies").mkdir()
    names = [f"t{number:03}" for number in range(tables)]
    text = "version: 1\npolicies:\n" + "".join(POLICY.format(name=name) for name in names)
    (project / "policies" / "all.yml").write_text(text)
    command = [sys.executable, "-m", "tests.integration.fleet", "--write", str(lake), "--tables", str(tables)]
    with subprocess.Popen(command) as writer:
        try:
            while not (lake / "made").exists() and writer.poll() is None:
                time.sleep(0.5)
            for life in range(3):
                run = Life(project)
                try:
                    run.go_on(seconds)
                finally:
                    run.end(kill=life < 2)
        finally:
            (lake / "stop").touch()
    if writer.returncode:
        raise SystemExit(f"the writer ended with {writer.returncode}")
    time.sleep(20)  # as long as events may be late
    with Project(project) as last:
        results = last.apply()
        verdicts = last.verify(level="data").verdicts
    print(
        {
            status: sum(one.status == status for one in results.tables)
            for status in {one.status for one in results.tables}
        }
    )
    wrong = [(name, verdict.failures) for name, verdict in verdicts if verdict.status != "pass"]
    print(f"{len(verdicts)} tables compared by their rows, wrong: {wrong}")
    if wrong or len(verdicts) != tables:
        raise SystemExit("failed")


if __name__ == "__main__":
    main()
