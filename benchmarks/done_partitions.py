"""How long a job waits: from the commit that completes its partition to the start of the program that `done` names.

    python -m benchmarks.done_partitions [--partitions 6] [--rows 20000] [--level data]

A stock writer fills one partition after the other of a real table, and updates rows of each by a commit about its end. `etc run
--every 1m` works beside it, in a process with a Spark of its own. Partitions are 75 s long, so that they end at different times
between two runs. Printed are seconds from the completion of that commit, and from the time at which the partition closes.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import add_json, environment_in, write_figures
from benchmarks.large_table import WRITER

LENGTH, LATENCY = 75, 20
#: The closing commit begins so long before its partition ends.
BEFORE_END = 5
POLICY = """version: 1
policies:
  - name: orders
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: {latency}s
    partition_time: {{from: "%s", length: {length}s}}
    verify: {{level: {level}}}
    writer: {{index: simple, compaction: none}}
    done: {{command: [sh, -c, 'date +%s%3N > {started}/$ETC_EVENT_PARTITION']}}
"""
TRACKED = {"hoodie.write.track.event.time.watermark": "true", "hoodie.payload.event.time.field": "ts"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--rows", type=int, default=20_000, help="of a partition; a tenth of them is updated")
    parser.add_argument("--level", default="data", help="of verification (default: %(default)s)")
    add_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="etc-done-") as name:
        folder = Path(name)
        started = folder / "started"
        for each in (started, folder / "project" / "policies"):
            each.mkdir(parents=True)
        text = POLICY.format(table=folder / "t", latency=LATENCY, length=LENGTH, level=given.level, started=started)
        (folder / "project" / "policies" / "orders.yml").write_text(text, encoding="utf-8")
        with environment_in(folder) as environment:
            found = measure(environment.spark, folder, given.partitions, given.rows)
    report("from the commit", [one["from_commit"] for one in found])
    report("from the close", [one["from_close"] for one in found])
    write_figures(given.json, found)


def report(what: str, seconds: list[float]) -> None:
    """Print median and range."""
    print(f"{what:16} median {median(seconds):5.1f} s, {min(seconds):.1f} to {max(seconds):.1f} s")


def measure(spark: Any, folder: Path, partitions: int, rows: int) -> list[dict[str, float]]:
    """Seconds from the closing commit, and from the time at which it can be done, of each partition."""
    committed: dict[int, int] = {}
    begins = int(time.time())
    write(spark, folder / "t", begins, rows, 1, "bulk_insert")
    run = subprocess.Popen(
        [sys.executable, "-c", "from etc_policy.cli.main import main; main()", "run", "--every", "1m", "--quiet"],
        cwd=folder / "project",
        stdout=subprocess.DEVNULL,
    )
    try:
        for number in range(partitions):
            if number:
                write(spark, folder / "t", begins, rows, 1, "bulk_insert")
            time.sleep(max(0.0, begins + LENGTH - BEFORE_END - time.time()))
            committed[begins] = write(spark, folder / "t", begins, rows, 10, "upsert")
            begins += LENGTH
        return [waited(folder / "started", partition, at_ms) for partition, at_ms in committed.items()]
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(timeout=300)


def write(spark: Any, base: Path, begins: int, rows: int, every: int, operation: str) -> int:
    """One commit to the partition that begins then, of one row in `every`; returns when it completed (epoch ms)."""
    from pyspark.sql import functions as F  # noqa: N812

    shown = spark.range(0, rows, every, 1).select(
        F.concat(F.lit(f"{begins}-"), F.col("id").cast("string")).alias("id"),
        F.lit(str(begins)).alias("p"),
        (F.lit(begins * 1000) + F.col("id") % (LENGTH * 1000)).alias("ts"),
        F.lit(operation).alias("v"),
    )
    options = {**WRITER, **TRACKED, "hoodie.datasource.write.operation": operation}
    parallelism = {"hoodie.bulkinsert.shuffle.parallelism": "1", "hoodie.upsert.shuffle.parallelism": "2"}
    shown.write.format("hudi").options(**options, **parallelism).mode("append").save(str(base))
    return max(file.stat().st_mtime_ns for file in (base / ".hoodie/timeline").glob("*commit")) // 10**6


def waited(started: Path, partition: int, committed_ms: int) -> dict[str, float]:
    """How long the program of a partition waited, in seconds; it is waited for here."""
    path = started / str(partition)
    deadline = time.time() + 300
    while not path.exists() or not path.read_text(encoding="utf-8").strip():
        if time.time() > deadline:
            raise SystemExit(f"partition {partition} was not done")
        time.sleep(0.2)
    at_ms, closes_ms = int(path.read_text(encoding="utf-8")), (partition + LENGTH + LATENCY) * 1000
    return {"from_commit": (at_ms - committed_ms) / 1000, "from_close": (at_ms - max(closes_ms, committed_ms)) / 1000}


if __name__ == "__main__":
    main()
