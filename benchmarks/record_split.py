"""What `granularity: record` costs beside `file_slice`, on copies of one table, and the splitter beside Spark's reading.

    python -m benchmarks.record_split [--rows 400000] [--file-groups 4] [--commits 10] [--runs 3]

Each commit after the first changes a tenth of the rows, in all file groups, by an hour of event time. T is in the middle of
the last one: of the bytes of all log files one in `--commits` is in files with rows on both sides of T. Both granularities are
run in turn, after a first turn that is not counted; prints medians, and the median of the ratios within each turn. Nothing is
verified. Then the log files of the last commit are split alone, and read by Spark as an incremental query without a sink.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.figures import add_json, environment_in, write_figures
from benchmarks.large_table import EPOCH_MS, WRITER
from etc_policy.api.planning import plan_tables
from etc_policy.hudi.block_times import TimesWanted
from etc_policy.hudi.log_split import Part, split_log_file
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.policy.manifest import EventTime, Granularity, Policy, Strategy, Writer
from etc_policy.wiring import Environment

#: One row of so many is changed by each commit after the first.
CHANGED = 10
HOUR_MS = 3_600_000
EVENT_TIME = EventTime(column="ts", unit="ms")
OPTIONS = {
    **WRITER,
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.payload.event.time.field": "ts",
    "hoodie.payload.ordering.field": "ts",
    "hoodie.upsert.shuffle.parallelism": "4",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}


class Figures(NamedTuple):
    """A run, or the median of several: with the bytes that etc reads and writes besides Hudi."""

    seconds: float
    bytes_read: float
    bytes_written: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--file-groups", type=int, default=4)
    parser.add_argument("--commits", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3, help="how often each is done, in turn")
    add_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with environment_in(folder) as environment:
            write(environment.spark, folder / "t", given.rows, given.file_groups, given.commits)
            time.sleep(MAX_CLOCK_SKEW_MS / 1000)
            now_ms = EPOCH_MS + given.commits * HOUR_MS + HOUR_MS // 2
            found = compare(environment, folder, now_ms, given.runs)
            found |= compare_reading(environment.spark, folder / "t", now_ms, given.runs)
            write_figures(given.json, found)


def write(spark: Any, base: Path, rows: int, file_groups: int, commits: int) -> None:
    """The table: a bulk insert, and upserts that change other rows each, of every file group."""
    from pyspark.sql import functions as F  # noqa: N812

    options = {**OPTIONS, "hoodie.bulkinsert.shuffle.parallelism": str(file_groups)}
    for number in range(commits + 1):
        step, first = (CHANGED, number % CHANGED) if number else (1, 0)
        spark.range(first, rows, step, file_groups).select(
            "id",
            F.lit("p").alias("p"),
            (F.hash("id", F.lit(number)) % (HOUR_MS // 2) + EPOCH_MS + number * HOUR_MS + HOUR_MS // 2).alias("ts"),
            F.sha2(F.concat("id", F.lit(number)), 512).alias("v"),
        ).write.format("hudi").options(
            **options, **{"hoodie.datasource.write.operation": "upsert" if number else "bulk_insert"}
        ).mode("append").save(str(base))


def compare(environment: Environment, folder: Path, now_ms: int, runs: int) -> dict[str, Any]:
    """The figures of both granularities, and the ratios; printed."""
    ways: tuple[Granularity, ...] = ("file_slice", "record")
    turns = [{way: run(environment, folder, way, now_ms) for way in ways} for _ in range(1 + runs)][1:]
    found: dict[str, Any] = {}
    for way in ways:
        values = Figures(*(median(turn[way][place] for turn in turns) for place in range(len(Figures._fields))))
        ratio = median(turn[way].seconds / turn["file_slice"].seconds for turn in turns)
        print(
            f"{way:12}{values.seconds:8.2f} s{values.bytes_read / 2**20:9.1f} MiB read"
            f"{values.bytes_written / 2**20:9.1f} MiB written{ratio:8.2f} of file_slice"
        )
        found[way] = [*values, ratio]
    return found


def policy_of(base: Path, granularity: Granularity) -> Policy:
    return Policy(
        name="t",
        table=str(base),
        event_time=EVENT_TIME,
        data_latency_ms=0,
        strategy=Strategy(granularity=granularity),
        writer=Writer(index="simple", compaction="none"),
    )


def run(environment: Environment, folder: Path, granularity: Granularity, now_ms: int) -> Figures:
    """Plan and apply on a copy of the table."""
    base = folder / "copy"
    shutil.rmtree(base, ignore_errors=True)
    shutil.copytree(folder / "t", base)
    policy, began = policy_of(base, granularity), time.perf_counter()
    plan = plan_tables(environment, [policy], now_ms, read_stats=False)
    (table,) = plan.tables
    outcome = environment.runner().apply(policy, table, plan.plan_id, None)
    seconds = time.perf_counter() - began
    if outcome.status != "compacted":
        raise SystemExit(f"{granularity}: {outcome.status}: {table.reason}")
    split = [[(base / one.partition / name).stat().st_size for name in one.straddling] for one in table.operations]
    late = [base / one.partition / one.remainder for one in table.operations if one.remainder]
    # Of the last log file of each slice there is an extract, and the commit counts the remainders.
    extracts = sum(sizes[-1] for sizes in split if sizes) - sum(path.stat().st_size for path in late)
    return Figures(seconds, outcome.bytes_read + sum(map(sum, split)), outcome.bytes_written + extracts)


def compare_reading(spark: Any, base: Path, now_ms: int, runs: int) -> dict[str, Any]:
    """MiB a second of the last commit's log files, by the splitter and by Spark; printed."""
    timeline = (base / ".hoodie" / "timeline").glob("*.deltacommit")
    (_, before), (instant, _) = sorted(path.name.split(".")[0].split("_") for path in timeline)[-2:]
    logs = [path for path in base.glob(f"p/.*_{instant}.log.*") if path.suffix != ".crc"]
    mib = sum(path.stat().st_size for path in logs) / 2**20
    turns = [
        {"splitter": timed(lambda: split(logs, now_ms)), "Spark": timed(lambda: read(spark, base, before))}
        for _ in range(1 + runs)
    ][1:]
    speeds = {way: mib / median(turn[way] for turn in turns) for way in turns[0]}
    for way, speed in speeds.items():
        print(f"{way:12}{mib:8.1f} MiB of {len(logs)} log files at {speed:.1f} MiB/s")
    return {f"{way} MiB/s": speed for way, speed in speeds.items()}


def split(logs: list[Path], threshold_ms: int) -> None:
    wanted = TimesWanted(EVENT_TIME, "long", (EVENT_TIME.column,))
    for path in logs:
        with path.open("rb") as content, tempfile.TemporaryFile() as early, tempfile.TemporaryFile() as late:
            split_log_file(content, path.stat().st_size, wanted, threshold_ms, Part(early), Part(late))


def read(spark: Any, base: Path, before: str) -> None:
    begin = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": before}
    rows = spark.read.format("hudi").options(**begin, **{"hoodie.metadata.enable": "false"}).load(str(base))
    rows.write.format("noop").mode("overwrite").save()


def timed(act: Any) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
