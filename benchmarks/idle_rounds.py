"""What `etc run` takes of the processor while nothing is due and nothing happens on its tables.

    python -m benchmarks.idle_rounds [--tables 20] [--every 1m] [--minutes 10]

The tables are files as stock Hudi lays them out, the first of 6 commits and each next one of 10 more, of 4 log files each; every
fourth has its event times in its log files alone. Counted are whole minutes after the first two rounds, which look at all tables.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import add_json, write_figures
from benchmarks.fleet_tables import PROJECT, write_table
from benchmarks.start_up import ETC, used_seconds
from etc_policy.policy.quantities import parse_duration_ms

POLICY = """  - name: {name}
    table: {name}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 30d
    verify: {{level: metadata}}
    writer: {{index: simple, compaction: none}}
"""
FIRST_COMMITS, MORE_COMMITS = 6, 10


def write_project(root: Path, tables: int) -> None:
    """The tables in `root/lake`, with a policy for each."""
    (root / "policies").mkdir()
    (root / "etc_project.yml").write_text(PROJECT)
    names, now_ms = [f"t{number:03}" for number in range(tables)], time.time_ns() // 1_000_000
    text = "".join(POLICY.format(name=name) for name in names)
    (root / "policies" / "all.yml").write_text(f"version: 1\npolicies:\n{text}")
    for number, name in enumerate(names):
        write_table(root / "lake" / name, number, FIRST_COMMITS + MORE_COMMITS * number, now_ms)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--every", default="1m")
    parser.add_argument("--minutes", type=float, default=10)
    add_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="etc-idle-") as folder:
        write_project(Path(folder), given.tables)
        command = [sys.executable, "-c", ETC, "run", "--every", given.every, "--project-dir", folder, "--quiet"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(2):
                process.stdout.readline()
            time.sleep(parse_duration_ms(given.every) / 2000)  # between two rounds
            began, before = time.monotonic(), used_seconds(process.pid)
            time.sleep(given.minutes * 60)
            seconds, used = time.monotonic() - began, used_seconds(process.pid) - before
            process.terminate()
    print(
        f"{given.tables} tables, every {given.every}: {used:.2f} s CPU in {seconds:.0f} s, {used / seconds:.2%} of a core"
    )
    write_figures(given.json, {"every": given.every, "cpu_seconds": used, "wall_seconds": seconds})
    return 0


if __name__ == "__main__":
    sys.exit(main())
