"""What levels `logs` and `data` cost on a table of many file groups, beside one scan of each of its views, in one run.

    python -m benchmarks.large_table
    python -m benchmarks.large_table --rows 1000000 --file-groups 100 --skip-full

The table is written by stock Hudi: a bulk insert, then upserts to every file group of the last of ten partitions, so that a
tenth of them has log files. A scan reads every column of every row and throws them away. All are done in turn, as often as
`--runs` says, after a first turn that is not counted; prints the median of each, and the median of its ratios to the scan of
RT of its turn.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import add_json, write_figures
from etc_policy.api.verifying import suite_items
from etc_policy.policy.manifest import EventTime, Policy, Strategy, Verify, VerifyLevel
from etc_policy.verify.evidence import Evidence
from etc_policy.verify.prover import claim_of, verify_table
from etc_policy.wiring import Environment

PARTITIONS = 10
EPOCH_MS = 1_700_000_000_000
#: Rows of each file group that the upserts change.
CHANGED = 100
WRITER = {
    "hoodie.table.name": "large",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.parquet.bloom.filter.enabled": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.index.type": "SIMPLE",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "false",
}
#: What a suite of one's own may ask of columns, beside the shipped one.
COLUMNS: tuple[dict[str, Any], ...] = (
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "amount", "min_value": 0}},
    {"type": "expect_column_max_to_be_between", "kwargs": {"column": "n", "max_value": 1_000}},
    {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}},
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--file-groups", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=2, help="how often each is done, in turn; of `full` there is one")
    parser.add_argument("--skip-full", action="store_true")
    add_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(Path(folder), progress=print, spark_log=Path(folder) / "spark.log")
        try:
            base = Path(folder) / "large"
            seconds = timed(lambda: write(environment.spark, base, given.rows, given.file_groups))
            print(f"written in {seconds:.0f} s: {given.rows:,} rows, {given.file_groups:,} file groups")
            write_figures(given.json, measure(environment, base, given.runs, with_full=not given.skip_full))
        finally:
            environment.close()


def write(spark: Any, base: Path, rows: int, file_groups: int) -> None:
    """The table: as many file groups in each partition, each with as many rows."""
    from pyspark.sql import functions as F  # noqa: N812

    def rows_of(ids: Any, value: str, later_ms: int) -> Any:
        return ids.select(
            "id",
            F.concat(F.lit("p"), F.floor(F.col("id") * PARTITIONS / rows)).alias("p"),
            (F.col("id") % 3_600_000 + EPOCH_MS + later_ms).alias("ts"),
            F.concat(F.lit(value), F.col("id") % 1_000).alias("v"),
            (F.col("id") % 977 / 7).alias("amount"),
            (F.col("id") % 100).cast("int").alias("n"),
        )

    def save(frame: Any, operation: str) -> None:
        options = {**WRITER, "hoodie.datasource.write.operation": operation}
        parallelism = {
            "hoodie.bulkinsert.shuffle.parallelism": str(file_groups),
            "hoodie.upsert.shuffle.parallelism": "8",
        }
        frame.write.format("hudi").options(**options, **parallelism).mode("append").save(str(base))

    save(rows_of(spark.range(0, rows, 1, file_groups), "a", 0), "bulk_insert")
    first, each = rows * (PARTITIONS - 1) // PARTITIONS, max(1, rows // file_groups // CHANGED)
    save(rows_of(spark.range(first, rows, each, 2), "b", 7_200_000), "upsert")


def timed(act: Callable[[], Any]) -> float:
    """How many seconds it takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def measure(environment: Environment, base: Path, runs: int, *, with_full: bool) -> dict[str, float]:
    """Seconds of each, printed."""
    policy = Policy(
        name="large",
        table=str(base),
        event_time=EventTime(column="ts", unit="ms"),
        data_latency_ms=0,
        strategy=Strategy(granularity="log_file"),
    )
    now_ms = EPOCH_MS + 24 * 3_600_000

    def verify(level: VerifyLevel, *own: dict[str, Any], full: bool = False) -> None:
        chosen = policy.model_copy(update={"verify": Verify(full=full)})
        state, history = environment.read_table(chosen, all_logs=level == "logs")[:2]
        evidence = Evidence(chosen, state, history, claim_of(chosen, state, now_ms), now_ms)
        items = (*suite_items(environment, chosen), *own)
        found = verify_table(evidence, items, level, environment.data_verifier)
        wrong = [one for one in found.expectations if one.status in ("fail", "error")]
        assert not wrong, wrong

    def scan(*, ro: bool) -> None:
        reader = environment.spark.read.format("hudi").option("hoodie.query.as.ro.table", str(ro).lower())
        reader.load(str(base)).write.format("noop").mode("overwrite").save()

    state = environment.read_state(policy)
    size = sum(one.base_file_bytes for one in state.slices) / 2**20
    logged = sum(bool(one.log_files) for one in state.slices)
    print(f"{len(state.slices):,} file groups, {size:,.0f} MiB of base files; {logged:,} with log files")
    acts: dict[str, Callable[[], None]] = {
        "one scan of RO": lambda: scan(ro=True),
        "one scan of RT": lambda: scan(ro=False),
        "level logs": lambda: verify("logs"),
        "level data": lambda: verify("data"),
        "level data, and 4 expectations of columns": lambda: verify("data", *COLUMNS),
    }
    turns = [{name: timed(act) for name, act in acts.items()} for _ in range(1 + runs)]
    del turns[0]  # Java compiles meanwhile
    found = {}
    for name in acts:
        took = found[name] = median(one[name] for one in turns)
        ratio = median(one[name] / one["one scan of RT"] for one in turns)
        print(f"{name:42} {took:7.2f} s  {ratio:6.2f} x the scan of RT", flush=True)
    if with_full:
        took = found["level data, full"] = timed(lambda: verify("data", full=True))
        print(f"{'level data, full: true':42} {took:7.2f} s, once", flush=True)
    return found


if __name__ == "__main__":
    main()
