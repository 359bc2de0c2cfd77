"""A day replayed on real tables, compacted by stock Hudi's strategies and by etc: bytes written, seconds, RO's lag.

    python -m benchmarks.replay [--workload uniform] [--way "every 4 hours"] [--json FILE]
    python -m benchmarks.replay --quick

Three workloads, a commit every hour of a simulated day: updates of file groups that are all as likely, of some that get most,
and the flights of the demo with their real lateness; the last two by five of the ways to compact. Each way has a copy of the
table, which stock Hudi writes and compacts; etc's plans are carried out by stock Hudi too. After each run RO is read, and
which written rows it lacks is found from what was written, not from what etc says. RO's lag is how long ago the oldest of them
happened; rows that came later than the declared latency do not count, but in the last column. A run is taken to last two
minutes. The last run of the day is of stock Hudi in all ways, and compacts what they have left.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import quantiles
from typing import Any

from benchmarks.execution import java_seconds
from benchmarks.figures import add_json, environment_in, write_figures
from benchmarks.workloads import MINUTE, START, STEP, Row, Workload, flights, skewed, uniform, updates
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.plan.model import make_plan
from etc_policy.plan.pace import pace_of
from etc_policy.policy.manifest import EventTime, Freshness, Granularity, Policy, Strategy, Writer
from etc_policy.wiring import Environment

STEPS, QUICK_STEPS, WARM_UP_STEPS = 24, 6, 2
COLUMNS = (
    *("workload", "way", "MiB written", "runs", "seconds", "CPU", "lag p50", "p99", "worst"),
    *("minutes above the target", "with late rows"),
)
RUN = 2 * MINUTE
#: What stock Hudi keeps by compacting everything each third commit, whenever events happen: three hours, the latency, and a
#: run. A commit more is within it where each commit has the events of the hour before it alone.
STOCK_PERIOD = 3
_STRATEGY = "org.apache.hudi.table.action.compact.strategy."
_WRITER = {
    "hoodie.table.name": "replay",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "version",
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.parquet.bloom.filter.enabled": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.index.type": "SIMPLE",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.simple.index.parallelism": "1",
    "hoodie.finalize.write.parallelism": "1",
}
_SCHEMA = "id string, day string, ts long, version int, payload string"


@dataclass(frozen=True)
class Way:
    """A way to compact: who, how, and after how many commits."""

    name: str
    every: int
    act: Callable[[Replay, int], None]


@dataclass
class Replay:
    """A copy of a workload's table, and what RO lacked at each moment of the day."""

    environment: Environment
    base: Path
    workload: Workload

    def write(self, number: int) -> None:
        """The commit of a step."""
        if rows := self.workload.commits[number]:
            write(self.environment.spark, self.base, rows, "upsert", 1)
            time.sleep(MAX_CLOCK_SKEW_MS / 1000)

    def base_files(self) -> dict[Path, int]:
        """The bytes of each."""
        return {path: path.stat().st_size for path in self.base.rglob("*.parquet")}

    def versions(self) -> dict[str, int]:
        """The version of each key in RO."""
        frame = self.environment.spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized")
        return {row.id: row.version for row in frame.load(str(self.base)).select("id", "version").collect()}

    def target_ms(self) -> int:
        """The lag that everything each `STOCK_PERIOD` commits keeps."""
        return STOCK_PERIOD * STEP + self.workload.latency_ms + RUN


def by_stock(strategy: str, **options: object) -> Callable[[Replay, int], None]:
    """Stock Hudi's procedure, by one of its strategies."""
    chosen = {"hoodie.compact.inline.max.delta.commits": 1, "hoodie.compaction.strategy": f"{_STRATEGY}{strategy}"}
    chosen |= {name.replace("__", "."): value for name, value in options.items()}
    text = ",".join(f"{name}={value}" for name, value in chosen.items())

    def act(replay: Replay, now_ms: int) -> None:
        for operation in ("schedule", "run"):
            call = f"CALL run_compaction(op => '{operation}', path => '{replay.base}', options => '{text}')"
            replay.environment.spark.sql(call).collect()

    return act


def by_etc(granularity: Granularity, every: int, *, just_in_time: bool) -> Callable[[Replay, int], None]:
    """A plan of etc's, published and carried out."""

    def act(replay: Replay, now_ms: int) -> None:
        policy = Policy(
            name="replay",
            table=str(replay.base),
            event_time=EventTime(column="ts", unit="ms"),
            data_latency_ms=replay.workload.latency_ms,
            strategy=Strategy(granularity=granularity, every_ms=every * STEP if just_in_time else None),
            freshness=Freshness(target_ms=replay.target_ms() if just_in_time else None),
            writer=Writer(index="simple", compaction="none"),
        )
        state = replay.environment.read_state(policy)
        published = state.last_compaction.threshold_ms if state.last_compaction else None
        pace = pace_of(policy, None, RUN, published)
        table = build_table_plan(policy, state, now_ms=now_ms, clock_ms=time.time_ns() // 1_000_000, pace=pace)
        if table.action == "nothing_due":
            return
        plan = make_plan("2013-01-01T00:00:00Z", (table,), None)
        outcome = replay.environment.runner().apply(policy, plan.tables[0], plan.plan_id, None)
        if outcome.status != "compacted":
            raise SystemExit(f"etc: {table.action}, {outcome.status}: {outcome.reason or table.reason}")

    return act


WAYS = (
    Way("stock: unbounded, every hour", 1, by_stock("UnBoundedCompactionStrategy")),
    Way("stock: unbounded, every 3 hours", STOCK_PERIOD, by_stock("UnBoundedCompactionStrategy")),
    Way("stock: unbounded, every 4 hours", STOCK_PERIOD + 1, by_stock("UnBoundedCompactionStrategy")),
    Way("etc: log_file, just in time", 1, by_etc("log_file", 1, just_in_time=True)),
    Way("etc: file_slice, just in time", 1, by_etc("file_slice", 1, just_in_time=True)),
    Way(
        "stock: log_file_size of 32 KB, every hour",
        1,
        by_stock("LogFileSizeBasedCompactionStrategy", hoodie__compaction__logfile__size__threshold=32_000),
    ),
    Way(
        "stock: bounded_io of 8 MB, every hour",
        1,
        by_stock("BoundedIOCompactionStrategy", hoodie__compaction__target__io=8),
    ),
    Way(
        "stock: day_based of 2 days, every hour",
        1,
        by_stock("DayBasedCompactionStrategy", hoodie__compaction__daybased__target__partitions=2),
    ),
    Way("etc: log_file, every 2 hours", 2, by_etc("log_file", 2, just_in_time=False)),
    Way("etc: file_slice, every 2 hours", 2, by_etc("file_slice", 2, just_in_time=False)),
)

#: The ways of all but the uniform workload: what compacts at once, what keeps the target, and just in time.
FEW = WAYS[:5]


def write(spark: Any, base: Path, rows: tuple[Row, ...], operation: str, slices: int) -> None:
    """One commit of stock Hudi's."""
    from hashlib import sha256

    found = [
        (row.key, row.partition, row.event_ms, row.version, sha256(f"{row.key} {row.version}".encode()).hexdigest())
        for row in rows
    ]
    rows_of_tasks = spark.sparkContext.parallelize(found, slices) if slices > 1 else found
    frame = spark.createDataFrame(rows_of_tasks, _SCHEMA)
    frame = frame if slices > 1 else frame.coalesce(1)
    options = {**_WRITER, "hoodie.datasource.write.operation": operation}
    frame.write.format("hudi").options(**options).mode("append").save(str(base))


def replayed(replay: Replay, way: Way) -> dict[str, Any]:
    """What a way made of the day."""
    newest = replay.versions()
    bytes_written, runs, seconds, used = 0, 0, 0.0, 0.0
    lags, lags_with_late = list[int](), list[int]()
    pending: list[Row] = []
    for number in range(1, len(replay.workload.commits)):
        now = START + number * STEP
        replay.write(number)
        pending += replay.workload.commits[number]
        before = replay.base_files()
        is_last = number == len(replay.workload.commits) - 1
        if number % way.every == 0 or is_last:
            began, java = time.perf_counter(), java_seconds()
            (WAYS[0] if is_last else way).act(replay, now)
            seconds, used = seconds + time.perf_counter() - began, used + java_seconds() - java
        lags += lags_of(in_time(pending, replay.workload), now, now + RUN)
        lags_with_late += lags_of(pending, now, now + RUN)
        written = sum(size for path, size in replay.base_files().items() if path not in before)
        if written:
            bytes_written, runs, newest = bytes_written + written, runs + 1, replay.versions()
            pending = [row for row in pending if newest[row.key] < row.version]
        lags += lags_of(in_time(pending, replay.workload), now + RUN, now + STEP)
        lags_with_late += lags_of(pending, now + RUN, now + STEP)
    found = {"bytes_written": bytes_written, "runs": runs, "seconds": seconds, "java_seconds": used}
    missed = lag_figures(lags_with_late, replay.target_ms())["minutes_missed"]
    return found | lag_figures(lags, replay.target_ms()) | {"minutes_missed_with_late_rows": missed}


def in_time(rows: list[Row], workload: Workload) -> list[Row]:
    """Those that came within the declared latency."""
    return [row for row in rows if row.waited_ms <= workload.latency_ms]


def lags_of(pending: list[Row], from_ms: int, to_ms: int) -> list[int]:
    """RO's lag from a moment on to another, every minute, in ms."""
    oldest = min((row.event_ms for row in pending), default=None)
    return [0 if oldest is None else moment - oldest for moment in range(from_ms + MINUTE, to_ms + 1, MINUTE)]


def lag_figures(lags: list[int], target_ms: int) -> dict[str, Any]:
    """The distribution of the lag of each minute."""
    parts = quantiles(lags, n=100, method="inclusive")
    missed = sum(lag > target_ms for lag in lags)
    return {"lag_p50_ms": parts[49], "lag_p99_ms": parts[98], "lag_max_ms": max(lags), "minutes_missed": missed}


def measure(
    environment: Environment, folder: Path, workload: Workload, ways: tuple[Way, ...]
) -> Iterator[dict[str, Any]]:
    """A row for each way; Java compiles in the first hours, which are replayed once more."""
    first = folder / workload.name
    rows = tuple(sorted(workload.commits[0], key=lambda row: (row.partition, row.key)))
    write(environment.spark, first, rows, "bulk_insert", workload.file_groups)
    begun = replace(workload, commits=workload.commits[: 1 + WARM_UP_STEPS])
    for day, way in ((begun, WAYS[0]), *((workload, way) for way in ways)):
        base = folder / "copy"
        shutil.rmtree(base, ignore_errors=True)
        shutil.copytree(first, base)
        found = replayed(Replay(environment, base, day), way)
        if day is workload:
            yield {"workload": workload.name, "way": way.name, **found}


def workloads(steps: int, seed: int) -> dict[str, Callable[[], Workload]]:
    """By name."""
    return {
        "uniform": lambda: updates("uniform", uniform, steps, seed),
        "skewed": lambda: updates("skewed", skewed, steps, seed),
        "flights": lambda: flights(steps),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", choices=tuple(workloads(0, 0)), help="default: all")
    parser.add_argument("--way", default="", help="only ways with this in their names")
    parser.add_argument("--quick", action="store_true", help="six hours of the uniform updates, by five ways")
    parser.add_argument("--seed", type=int, default=1)
    add_json(parser)
    given = parser.parse_args(arguments)
    made = workloads(QUICK_STEPS if given.quick else STEPS, given.seed)
    names = given.workload or (["uniform"] if given.quick else list(made))
    few = {name: FEW if given.quick or name != "uniform" else WAYS for name in names}
    ways = {name: tuple(way for way in of_name if given.way in way.name) for name, of_name in few.items()}
    found, began = [], time.monotonic()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with environment_in(folder) as environment:
            for workload in names:
                for row in measure(environment, folder, made[workload](), ways[workload]):
                    found.append(row)
                    print(line(row), flush=True)
                    write_figures(given.json, {"seed": given.seed, "rows": found})
    print(f"\n{time.monotonic() - began:.0f} s.")
    return int(any(row["minutes_missed"] for row in found if "just in time" in row["way"]))


def line(row: dict[str, Any]) -> str:
    """A line of the table."""
    lags = " | ".join(f"{row[name] / MINUTE:.0f} min" for name in ("lag_p50_ms", "lag_p99_ms", "lag_max_ms"))
    return (
        f"| {row['workload']} | {row['way']} | {row['bytes_written'] / 2**20:,.1f} | {row['runs']} | {row['seconds']:.1f} | "
        f"{row['java_seconds']:.1f} | {lags} | {row['minutes_missed']} | "
        f"{row['minutes_missed_with_late_rows']} |"
    )


if __name__ == "__main__":
    sys.exit(main())
