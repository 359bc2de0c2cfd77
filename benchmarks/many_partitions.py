"""What `etc freshness --by partition` costs on a table of very many partitions, beside `find`, which lists its files.

    python -m benchmarks.many_partitions [--partitions 100000] [--runs 3]

The table is that of `benchmarks.metadata_verification`: a base file and ten log files in each partition, by eleven commits to all
of them. Prints the processor's seconds of both, their ratio and the peak of memory, medians of some turns. Writing the table of
100,000 partitions takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.figures import add_json, write_figures
from benchmarks.metadata_verification import write_table

COMMITS = 10
POLICY = """version: 1
policies:
  - name: t
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 30m
    verify: {{level: metadata}}
"""


class Cost(NamedTuple):
    """What a process took."""

    seconds: float
    mib: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3, help="how often each is done, in turn")
    add_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="etc-partitions-") as name:
        base, policies = Path(name) / "t", Path(name) / "project" / "policies"
        write_table(base, COMMITS, given.partitions, given.partitions)
        policies.mkdir(parents=True)
        (policies / "t.yml").write_text(POLICY.format(table=base), encoding="utf-8")
        find = ["find", str(base), "-type", "f", "-printf", "%s"]
        etc = [sys.executable, "-m", "etc_policy.cli.main", "freshness", "--by", "partition"]
        cost_of(find, policies.parent)  # the system's cache is warm then
        turns = [(cost_of(find, policies.parent), cost_of(etc, policies.parent)) for _ in range(given.runs)]
    found = {
        "find_seconds": median(one.seconds for one, _ in turns),
        "etc_seconds": median(one.seconds for _, one in turns),
        "ratio": median(etc.seconds / find.seconds for find, etc in turns),
        "etc_mib": max(one.mib for _, one in turns),
    }
    files = given.partitions * (COMMITS + 2)
    print(
        f"{given.partitions:,} partitions, {files:,} files: find {found['find_seconds']:.1f} s of the processor, ",
        end="",
    )
    print(f"etc {found['etc_seconds']:.1f} s, {found['ratio']:.1f} times, at most {found['etc_mib']:.0f} MiB")
    write_figures(given.json, found)


def cost_of(command: list[str], folder: Path) -> Cost:
    """Run a command to its end, whatever it prints."""
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 1)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
