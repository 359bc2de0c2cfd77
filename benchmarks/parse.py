"""Parse and compile of 1,000 policies in 100 files, beside `dbt parse` of 1,000 sources with freshness.

    python -m benchmarks.parse

Makes both projects and an environment for dbt (dbt-core and dbt-duckdb, kept in the folder that `--workdir` names), then
runs both commands in turn as processes of their own, from a cold start each: dbt with `--no-partial-parse`, so that it
reads every file, as etc does. `etc parse` reads, checks and compiles all policies and writes nothing; `etc compile`
writes the manifest and seven files for each policy besides, of which it leaves those alone that are right already.
Prints the median of each and the ratio of this run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from benchmarks.figures import add_json, write_figures
from benchmarks.variables import COMPILED_ONCE

FILES, PER_FILE = 100, 10
BUDGET_SECONDS = 1.5
#: From 1.12 on dbt-core wants a parser that is no wheel on PyPI.
DBT = ("dbt-core>=1.10,<1.12", "dbt-duckdb")

POLICY = """  - name: table_{n:04d}_ro
    description: Table {n} of the lake
    table: "{{{{ var('lake') }}}}/tables/table_{n:04d}"
    event_time_column: {{column: event_time_ms, unit: ms}}
    data_latency: 30m
    log_file_max_size: 16 MiB
    freshness: {{target: 1h, warn_after: 90m, error_after: 3h}}
    writer: {{index: simple, compaction: none}}
    tags: [hourly, lake]
"""
SOURCE = """      - name: table_{n:04d}
        description: Table {n} of the lake
        loaded_at_field: event_time_ms
        freshness: {{warn_after: {{count: 90, period: minute}}, error_after: {{count: 3, period: hour}}}}
        tags: [hourly, lake]
"""
DBT_PROJECT = "name: lake\nversion: '1.0'\nprofile: lake\nmodel-paths: [models]\n"
DBT_PROFILES = "lake:\n  target: dev\n  outputs:\n    dev: {type: duckdb, path: lake.duckdb, threads: 2}\n"


def write_etc(root: Path) -> None:
    """A project of etc: 100 files of 10 policies, with variables."""
    (root / "policies").mkdir(parents=True)
    (root / "etc_project.yml").write_text("name: lake\nvars: {lake: s3a://lake}\n")
    for file in range(FILES):
        rows = (POLICY.format(n=file * PER_FILE + place) for place in range(PER_FILE))
        (root / "policies" / f"part_{file:03d}.yml").write_text("version: 1\npolicies:\n" + "".join(rows))


def write_dbt(root: Path) -> None:
    """A project of dbt: 100 files of 10 source tables, each with its freshness."""
    (root / "models").mkdir(parents=True)
    (root / "dbt_project.yml").write_text(DBT_PROJECT)
    (root / "profiles.yml").write_text(DBT_PROFILES)
    for file in range(FILES):
        rows = (SOURCE.format(n=file * PER_FILE + place) for place in range(PER_FILE))
        head = f"version: 2\nsources:\n  - name: lake_{file:03d}\n    tables:\n"
        (root / "models" / f"part_{file:03d}.yml").write_text(head + "".join(rows))


def dbt_environment(folder: Path) -> Path:
    """The `dbt` of an environment of its own, made if it is not there."""
    program = folder / "bin" / "dbt"
    if not program.exists():
        print(f"installing dbt-core and dbt-duckdb into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True)
        install = [str(folder / "bin" / "pip"), "install", "--quiet", "--only-binary", ":all:", *DBT]
        subprocess.run(install, check=True)
    return program


def seconds(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds of one run.

    Raises:
        CalledProcessError: the command failed.

    """
    before = os.times()
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    took = time.perf_counter() - began
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return took, cpu


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs of each, in turn")
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()) / "etc-benchmark")
    add_json(parser)
    arguments = parser.parse_args()
    dbt = dbt_environment(arguments.workdir / "dbt")
    with tempfile.TemporaryDirectory() as folder:
        etc_project, dbt_project = Path(folder) / "etc", Path(folder) / "dbt"
        write_etc(etc_project)
        write_dbt(dbt_project)
        quiet = {**os.environ, **COMPILED_ONCE, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DO_NOT_TRACK": "1"}
        commands = {
            "etc compile": ([sys.executable, "-m", "etc_policy.cli.main", "compile", "--output", "json"], etc_project),
            "etc parse": ([sys.executable, "-m", "etc_policy.cli.main", "parse"], etc_project),
            "dbt parse": ([str(dbt), "parse", "--no-partial-parse", "--profiles-dir", "."], dbt_project),
        }
        quiet["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(arguments.runs + 1):
            for name, (command, project) in commands.items():
                taken[name] += [seconds(command, project, quiet)] if number else []
                if not number:
                    seconds(command, project, quiet)  # byte code is compiled once
    medians = {name: [statistics.median(run[kind] for run in runs) for kind in (0, 1)] for name, runs in taken.items()}
    for name, (wall, cpu) in medians.items():
        print(f"{name:<12} {wall:6.2f} s wall  {cpu:6.2f} s CPU   median of {arguments.runs}")
    wall, cpu = (medians["dbt parse"][kind] / medians["etc parse"][kind] for kind in (0, 1))
    print(f"dbt parse takes {wall:.1f} times as long as etc parse, and {cpu:.1f} times its CPU, in this run")
    print(f"etc parse has {BUDGET_SECONDS} s")
    write_figures(
        arguments.json, {name: {"wall_seconds": one[0], "cpu_seconds": one[1]} for name, one in medians.items()}
    )
    return 0 if medians["etc parse"][0] <= BUDGET_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
