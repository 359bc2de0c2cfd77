"""`etc plan` and `etc freshness` over many small tables: seconds and lines, with one table at a time and with the default.

    python -m benchmarks.fleet
    python -m benchmarks.fleet --tables 100 --latency-ms 5

The tables are files as stock Hudi lays them out, 40 delta commits in 8 file groups each; every fourth has its event times in
its log files alone. Each command is a process of its own; the ways take turns, after one run that warms the caches. With
`--latency-ms` each access to a table's files takes so much longer, as where they are far away.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import add_json, write_figures
from benchmarks.fleet_tables import write_fleet
from benchmarks.variables import COMPILED_ONCE

COMMANDS = ("plan", "freshness")
JOBS: tuple[tuple[str, tuple[str, ...]], ...] = (("1 job", ("--jobs", "1")), ("the default", ()))
#: What of a table's storage goes to the file system once.
_ACCESSES = ("names", "list", "info", "read", "open")


def etc_with_latency(milliseconds: float, arguments: Sequence[str]) -> int:
    """The command line, with slow access to tables."""
    from etc_policy.cli.main import main as etc
    from etc_policy.storage.local import LocalStorage

    def slow(access: Any) -> Any:
        def wrapped(*given: Any, **named: Any) -> Any:
            time.sleep(milliseconds / 1000)
            return access(*given, **named)

        return wrapped

    for name in _ACCESSES if milliseconds else ():
        setattr(LocalStorage, name, slow(getattr(LocalStorage, name)))
    return etc(arguments)


def measure(project: Path, latency_ms: float, arguments: Sequence[str]) -> tuple[float, float, int]:
    """Wall seconds, seconds of the processor, and lines of stdout of one run."""
    environment = {**os.environ, **COMPILED_ONCE, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    command = [sys.executable, "-m", "benchmarks.fleet", "--etc", "--latency-ms", str(latency_ms), *arguments]
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    took, after = time.perf_counter() - began, os.times()
    if done.returncode not in (0, 1):  # tables beyond their limit are what freshness reports
        raise RuntimeError(done.stderr)
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return took, cpu, len(done.stdout.splitlines())


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--commits", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3, help="runs of each, in turn")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--etc", action="store_true", help=argparse.SUPPRESS)
    add_json(parser)
    arguments, rest = parser.parse_known_args()
    if arguments.etc:
        return etc_with_latency(arguments.latency_ms, rest)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        write_fleet(project, arguments.tables, arguments.commits)
        print(f"{arguments.tables} tables of {arguments.commits} commits, {arguments.latency_ms:g} ms an access")
        found = []
        for command in COMMANDS:
            ways = {name: (command, "--project-dir", str(project), *more) for name, more in JOBS}
            measure(project, 0.0, ways["the default"])
            runs = [
                {name: measure(project, arguments.latency_ms, way) for name, way in ways.items()}
                for _ in range(arguments.runs)
            ]
            for name in ways:
                wall, cpu, lines = (median(run[name][place] for run in runs) for place in range(3))
                print(f"etc {command:<10} {name:<12} {wall:7.2f} s wall  {cpu:6.2f} s CPU  {lines:g} lines")
                found.append(
                    {"command": command, "jobs": name, "wall_seconds": wall, "cpu_seconds": cpu, "lines": lines}
                )
        write_figures(arguments.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
