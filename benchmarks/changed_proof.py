"""What a proof by data costs after a run that changed 1 % of the file groups, beside that run and the proof of all rows.

    python -m benchmarks.changed_proof [--partitions 100] [--groups 10] [--rows 10000000] [--runs 3]

The file groups of one partition get a log file each, and etc compacts these. Then rows are compared in three ways, in turn: what
changed, all, and nothing at all (no partition has changed), which is what Spark and Great Expectations take by themselves.
Bytes are what the processes of Java and Python have read; prints medians, and ratios of the same run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.execution import CHANGED, NOW_MS, policy_of
from benchmarks.figures import add_json, environment_in, write_figures
from benchmarks.large_table import EPOCH_MS, WRITER
from etc_policy.api.planning import plan_tables
from etc_policy.api.verifying import verify_tables
from etc_policy.policy.manifest import Policy, Verify
from etc_policy.verify.ports import RestsOn
from etc_policy.wiring import Environment

#: What was written longer ago can be told from what is written over it, and no clock is that far ahead.
AT_REST_SECONDS = 3


class Cost(NamedTuple):
    """Seconds of the wall, and bytes read."""

    seconds: float
    bytes_read: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--groups", type=int, default=10, help="file groups of each partition")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3, help="how often each is done, in turn")
    add_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, environment_in(Path(name)) as environment:
        base = Path(name) / "t"
        write(environment.spark, base, given.rows, given.partitions, given.groups)
        write_figures(given.json, measure(environment, base, given.rows, given.partitions, given.groups, given.runs))


def write(spark: Any, base: Path, rows: int, partitions: int, groups: int) -> None:
    """A bulk insert of so many file groups in each partition."""
    options = {**WRITER, "hoodie.bulkinsert.shuffle.parallelism": str(partitions * groups)}
    save(rows_of(spark, 0, rows, 1, partitions * groups, rows // partitions), base, options, "bulk_insert")


def rows_of(spark: Any, first: int, end: int, step: int, tasks: int, in_partition: int) -> Any:
    """Rows with these numbers; so many of them that follow each other are in one partition."""
    from pyspark.sql import functions as F  # noqa: N812

    return spark.range(first, end, step, tasks).select(
        "id",
        F.concat(F.lit("p"), F.floor(F.col("id") / in_partition)).alias("p"),
        (F.col("id") % 3_600_000 + EPOCH_MS + step).alias("ts"),
        F.sha2(F.concat(F.col("id").cast("string"), F.lit(str(step))), 512).alias("v"),
    )


def save(rows: Any, base: Path, options: dict[str, str], operation: str) -> None:
    writer = rows.write.format("hudi").options(**options, **{"hoodie.datasource.write.operation": operation})
    writer.mode("append").save(str(base))


def measure(environment: Environment, base: Path, rows: int, partitions: int, groups: int, runs: int) -> dict[str, Any]:
    """What the compaction and each proof read and took, and their ratios; printed."""
    policy, in_partition = policy_of(base), rows // partitions
    all_anew = policy.model_copy(update={"verify": Verify(full_every_ms=1)})
    time.sleep(AT_REST_SECONDS)
    prove(environment, policy, None)
    turns = []
    for turn in range(1 + runs):  # the first is not counted
        first = turn * in_partition
        updates = rows_of(environment.spark, first, first + in_partition, CHANGED, 4, in_partition)
        save(updates, base, {**WRITER, "hoodie.upsert.shuffle.parallelism": "4"}, "upsert")
        time.sleep(AT_REST_SECONDS)
        compaction = cost(lambda: compact(environment, policy))
        time.sleep(AT_REST_SECONDS)
        changed = cost(lambda: prove(environment, policy, groups))
        nothing = cost(lambda: prove(environment, policy, 0))
        whole = cost(lambda: prove(environment, all_anew, None))
        turns.append({"compaction": compaction, "what changed": changed, "nothing": nothing, "all": whole})
    return figures(turns[1:], partitions * groups, groups, rows)


def figures(turns: list[dict[str, Cost]], all_groups: int, groups: int, rows: int) -> dict[str, Any]:
    """The medians and ratios, printed."""
    print(f"{all_groups:,} file groups of {rows:,} rows, {groups} of them changed")
    found: dict[str, Any] = {}
    for name in turns[0]:
        seconds, read = (median(turn[name][of] for turn in turns) for of in (0, 1))
        print(f"{name:14}{seconds:8.2f} s{read / 2**20:10.1f} MiB", flush=True)
        found[name] = [seconds, read]

    def ratio(of: Callable[[dict[str, Cost]], float]) -> float:
        return round(median(of(turn) for turn in turns), 3)

    def alone(turn: dict[str, Cost], name: str) -> float:
        return turn[name].seconds - turn["nothing"].seconds

    found["ratios"] = {
        "bytes of what changed, of the compaction": ratio(
            lambda t: t["what changed"].bytes_read / t["compaction"].bytes_read
        ),
        "seconds of what changed, of all": ratio(lambda t: t["what changed"].seconds / t["all"].seconds),
        "the same less those of nothing": ratio(lambda t: alone(t, "what changed") / alone(t, "all")),
    }
    for name, value in found["ratios"].items():
        print(f"{name:44}{value:8.3f}")
    return found


def compact(environment: Environment, policy: Policy) -> None:
    plan = plan_tables(environment, [policy], NOW_MS, read_stats=False)
    outcome = environment.runner().apply(policy, plan.tables[0], plan.plan_id, None)
    if outcome.status != "compacted":
        raise SystemExit(f"etc: {outcome.status}: {plan.tables[0].reason}")


def prove(environment: Environment, policy: Policy, compared: int | None) -> None:
    """`etc verify --level data`; so many file groups are to be compared, None for all."""
    found = verify_tables(environment, [policy], NOW_MS).tables[0].verification
    rests_on: RestsOn | None = found.rests_on
    if found.status != "pass" or (rests_on and rests_on.file_groups_compared) != compared:
        raise SystemExit(f"{found.status}: {found.failures} {rests_on}, not {compared}")


def cost(act: Callable[[], None]) -> Cost:
    """What an act takes and reads."""
    began, read = time.perf_counter(), bytes_read()
    act()
    return Cost(time.perf_counter() - began, bytes_read() - read)


def bytes_read() -> int:
    """What Java and Python have read so far, of files above all."""
    from pyspark import SparkContext

    process: Any = getattr(SparkContext._gateway, "proc", None)
    paths = (Path(f"/proc/{one}/io") for one in ("self", process.pid))
    return sum(int(path.read_text().split()[1]) for path in paths)


if __name__ == "__main__":
    main()
