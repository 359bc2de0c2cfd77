"""What `etc apply` takes to compact, beside stock Hudi's `run_compaction` on the same operations, in one Spark session.

    python -m benchmarks.execution [--rows 1000000] [--file-groups 16] [--runs 3]

The table has a log file in each of its file groups. Every run has a copy of it: etc plans, publishes, compacts and commits;
stock Hudi runs a plan that it made before, and, timed apart, makes it and runs it. All are done in turn, after a first turn that
is not counted; prints medians, and medians of the ratios within each turn. Nothing is verified. At last, what a scan of each
view takes, before and after.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import add_json, environment_in, write_figures
from benchmarks.large_table import EPOCH_MS, PARTITIONS, WRITER
from etc_policy.api.planning import plan_tables
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.policy.manifest import EventTime, Policy, Strategy, Writer
from etc_policy.wiring import Environment

#: One row of so many is changed after the first commit.
CHANGED = 10
NOW_MS = EPOCH_MS + 24 * 3_600_000
STOCK = "hoodie.compact.inline.max.delta.commits=1,hoodie.compaction.strategy={}".format(
    "org.apache.hudi.table.action.compact.strategy.UnBoundedCompactionStrategy"
)
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--file-groups", type=int, default=16)
    parser.add_argument("--runs", type=int, default=3, help="how often each is done, in turn")
    add_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with environment_in(folder) as environment:
            write(environment.spark, folder / "t", given.rows, given.file_groups)
            time.sleep(MAX_CLOCK_SKEW_MS / 1000)
            found = measure(environment, folder, given.runs)
            found |= measure_queries(environment, folder, given.runs)
            write_figures(given.json, found)


def write(spark: Any, base: Path, rows: int, file_groups: int) -> None:
    """The table: a bulk insert, and an upsert that changes rows of every file group."""
    from pyspark.sql import functions as F  # noqa: N812

    options = {
        **WRITER,
        "hoodie.bulkinsert.shuffle.parallelism": str(file_groups),
        "hoodie.upsert.shuffle.parallelism": "8",
    }
    for step, value, operation in ((1, "a", "bulk_insert"), (CHANGED, "b", "upsert")):
        spark.range(0, rows, step, file_groups).select(
            "id",
            F.concat(F.lit("p"), F.floor(F.col("id") * min(PARTITIONS, file_groups) / rows)).alias("p"),
            (F.col("id") % 3_600_000 + EPOCH_MS + step).alias("ts"),
            F.concat(F.lit(value), F.sha2(F.col("id").cast("string"), 512)).alias("v"),
        ).write.format("hudi").options(**options, **{"hoodie.datasource.write.operation": operation}).mode(
            "append"
        ).save(str(base))


def measure(environment: Environment, folder: Path, runs: int) -> dict[str, list[float]]:
    """Seconds of the wall and of Java's processor that each takes, and the ratios of both; printed."""
    found = {}
    turns = [{name: one(environment, folder, way) for name, way in WAYS.items()} for _ in range(1 + runs)][1:]
    log_files = {found[2] for turn in turns for found in turn.values()}
    if len(log_files) != 1:
        raise SystemExit(f"not the same operations: {log_files} log files")
    print(f"{log_files.pop()} log files, {size_of(folder / 't') / 2**20:,.0f} MiB")
    stock = "stock run"
    print(f"{'':28}{'wall':>9}{'CPU':>9}   of {stock}: wall, CPU")
    for name in WAYS:
        wall, used = (median(turn[name][of] for turn in turns) for of in (0, 1))
        ratios = [median(turn[name][of] / turn[stock][of] for turn in turns) for of in (0, 1)]
        print(f"{name:28}{wall:7.2f} s{used:7.2f} s{ratios[0]:12.2f}{ratios[1]:8.2f}", flush=True)
        found[name] = [wall, used, *ratios]
    return found


def measure_queries(environment: Environment, folder: Path, runs: int) -> dict[str, list[float]]:
    """Seconds of a scan of each view, of the table and of the copy that was compacted last, and the ratio; printed."""
    found = {}
    places = {"before": folder / "t", "after": folder / "copy"}
    views = {(when, view): (base, view) for when, base in places.items() for view in ("RO", "RT")}
    turns = [{name: scan(environment, *of) for name, of in views.items()} for _ in range(1 + runs)][1:]
    for when, view in views:
        seconds = median(turn[when, view] for turn in turns)
        ratio = median(turn[when, view] / turn["before", "RT"] for turn in turns)
        print(f"scan of {view} {when + ' compaction':20}{seconds:6.2f} s{ratio:10.2f} of RT before")
        found[f"scan of {view} {when}"] = [seconds, ratio]
    return found


def scan(environment: Environment, base: Path, view: str) -> float:
    """Seconds of reading every column of every row."""
    began = time.perf_counter()
    reader = environment.spark.read.format("hudi").option("hoodie.query.as.ro.table", str(view == "RO").lower())
    reader.load(str(base)).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def size_of(base: Path) -> int:
    """The bytes of a table's data files."""
    return sum(path.stat().st_size for path in base.glob("p*/*") if path.is_file())


Way = Callable[[Environment, Path], Callable[[], None]]


def one(environment: Environment, folder: Path, way: Way) -> tuple[float, float, int]:
    """Seconds, the processor's seconds of Java, and log files of a run on a copy of the table."""
    base = folder / "copy"
    shutil.rmtree(base, ignore_errors=True)
    shutil.copytree(folder / "t", base)
    act = way(environment, base)
    began, used = time.perf_counter(), java_seconds()
    act()
    seconds, used = time.perf_counter() - began, java_seconds() - used
    left = environment.read_state(policy_of(base))
    before = environment.read_state(policy_of(folder / "t"))
    return seconds, used, len(list(before.log_files)) - len(list(left.log_files))


def policy_of(base: Path) -> Policy:
    """A policy by which every log file is due."""
    event_time, writer = EventTime(column="ts", unit="ms"), Writer(index="simple", compaction="none")
    return Policy(
        name="t",
        table=str(base),
        event_time=event_time,
        data_latency_ms=0,
        strategy=Strategy(granularity="log_file"),
        writer=writer,
    )


def by_etc(environment: Environment, base: Path) -> Callable[[], None]:
    policy = policy_of(base)

    def act() -> None:
        plan = plan_tables(environment, [policy], NOW_MS, read_stats=False)
        outcome = environment.runner().apply(policy, plan.tables[0], plan.plan_id, None)
        if outcome.status != "compacted":
            raise SystemExit(f"etc: {outcome.status}: {plan.tables[0].reason}")

    return act


def by_stock(environment: Environment, base: Path) -> Callable[[], None]:
    call(environment, base, "schedule")
    return lambda: call(environment, base, "run")


def by_stock_with_schedule(environment: Environment, base: Path) -> Callable[[], None]:
    def act() -> None:
        call(environment, base, "schedule")
        call(environment, base, "run")

    return act


def call(environment: Environment, base: Path, operation: str) -> None:
    """Stock Hudi's procedure."""
    text = f"CALL run_compaction(op => '{operation}', path => '{base}', options => '{STOCK}')"
    environment.spark.sql(text).collect()


def java_seconds() -> float:
    """What the session's Java has used of the processor."""
    from pyspark import SparkContext

    process: Any = getattr(SparkContext._gateway, "proc", None)
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


WAYS: dict[str, Way] = {
    "etc: plan, publish, run": by_etc,
    "stock run": by_stock,
    "stock schedule and run": by_stock_with_schedule,
}

if __name__ == "__main__":
    main()
