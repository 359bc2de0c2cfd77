"""How long planning takes on tables of many log files, each as a process of its own: stock Hudi's schedule, and `etc plan`.

    python -m benchmarks.planning                       # 10,000, 100,000 and 1,000,000 log files
    python -m benchmarks.planning --commits 1000 --file-groups 10 --no-stock
    python -m benchmarks.planning --quick

Every slice of the tables is due, and both plan them all. `cold` is the first `etc plan`, which keeps what it decoded, `off`
one that keeps nothing (`ETC_CACHE=off`), and `warm` the next after it. Seconds are those of the fastest of some runs, of the
wall and of the processors; of stock Hudi's run, which is made once, those of the wall: its Java starts without the archive of
classes that `etc apply` keeps.
Tables are those of `benchmarks.metadata_verification`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import add_json, write_figures
from benchmarks.metadata_verification import write_table
from benchmarks.variables import COMPILED_ONCE

POLICY = """version: 1
policies:
  - name: big
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 5h
    strategy: {{granularity: log_file}}
    writer: {{index: simple, compaction: none}}
"""
#: Delta commits and file groups.
TABLES = ((100, 100), (1000, 100), (1000, 1000))
_OPTIONS = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"


class Cost(NamedTuple):
    """What a process took."""

    wall_seconds: float
    cpu_seconds: float
    peak_mib: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int)
    parser.add_argument("--file-groups", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-stock", action="store_true")
    parser.add_argument("--quick", action="store_true", help="10,000 log files alone, one run")
    add_json(parser)
    parser.add_argument("--schedule", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.schedule:
        schedule(given.schedule)
        return
    tables = ((given.commits, given.file_groups),) if given.commits else TABLES[:1] if given.quick else TABLES
    runs = 1 if given.quick else given.runs
    found = [measure(commits, groups, runs, stock=not given.no_stock) for commits, groups in tables]
    write_figures(given.json, found)


def measure(commits: int, file_groups: int, runs: int, *, stock: bool) -> dict[str, object]:
    """The figures of one table, printed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_project(root, commits, file_groups)
        plan(root, "off")  # so that modules are compiled
        costs = {name: min(run() for _ in range(times)) for name, run, times in _kinds(root, runs, stock=stock)}
    print(f"{commits * file_groups:,} log files of {commits:,} delta commits, the fastest of {runs} runs")
    stock_seconds = costs["stock"].wall_seconds if "stock" in costs else None
    for name, cost in costs.items():
        text = f"  {name:<6} {cost.wall_seconds:7.2f} s wall"
        if name != "stock":  # of whose JVM nothing but its time is known
            text += f" {cost.cpu_seconds:7.2f} s CPU {cost.peak_mib:6,} MiB"
            text += f"  {stock_seconds / cost.wall_seconds:5.1f} times as fast" if stock_seconds else ""
        print(text)
    return {"commits": commits, "file_groups": file_groups, **{name: cost._asdict() for name, cost in costs.items()}}


def write_project(root: Path, commits: int, file_groups: int) -> None:
    """A project with one policy and its table."""
    write_table(root / "t", commits, file_groups)
    (root / "policies").mkdir()
    (root / "etc_project.yml").write_text("name: bench\n")
    (root / "policies" / "p.yml").write_text(POLICY.format(table=root / "t"))


def _kinds(root: Path, runs: int, *, stock: bool) -> list[tuple[str, Callable[[], Cost], int]]:
    cache = root / "cache"

    def cold() -> Cost:
        subprocess.run(["rm", "-rf", str(cache)], check=True)
        return plan(root, str(cache))

    kinds = [("stock", lambda: _stock(root / "t"), 1)] if stock else []
    return [
        *kinds,
        ("off", lambda: plan(root, "off"), runs),
        ("cold", cold, runs),
        ("warm", lambda: plan(root, str(cache)), runs),
    ]


def plan(root: Path, cache: str) -> Cost:
    """What `etc plan` of a project takes; `cache` is where it keeps what it decoded, or `off`."""
    command = [sys.executable, "-m", "etc_policy.cli.main", "plan", "--quiet", "--project-dir", str(root)]
    return _cost(command, {"ETC_CACHE": cache})


def _stock(table: Path) -> Cost:
    cost = _cost([sys.executable, "-m", "benchmarks.planning", "--schedule", str(table)], {"ETC_CACHE": "off"})
    plans = list((table / ".hoodie" / "timeline").glob("*.compaction.requested"))
    if len(plans) != 1:
        raise RuntimeError("stock Hudi scheduled nothing")
    plans[0].unlink()
    return cost


def _cost(command: list[str], variables: Mapping[str, str]) -> Cost:
    began = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, **COMPILED_ONCE, **variables}, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024)


def schedule(table: str) -> None:
    """Schedule a compaction of all slices with stock Hudi's procedure."""
    from etc_policy.policy.project_schema import StorageSettings
    from etc_policy.spark.session import start_spark
    from etc_policy.spark.store_confs import s3_packages, s3a_confs

    confs = {"spark.driver.memory": "3g"}
    if "://" in table:
        confs = s3a_confs(StorageSettings(), os.environ, confs)
    spark = start_spark(confs, None, None, s3_packages(confs, ()) if "://" in table else ())
    spark.sql(f"CALL run_compaction(op => 'schedule', path => '{table}', options => '{_OPTIONS}')").collect()
    spark.stop()


if __name__ == "__main__":
    main()
