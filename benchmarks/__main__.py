"""Runs the benchmarks one after the other, and keeps what each prints, its figures and the plots in a folder.

    python -m benchmarks                     # all but the large table
    python -m benchmarks --quick             # most of them, on small tables
    python -m benchmarks planning replay     # some

Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple


class Benchmark(NamedTuple):
    """A module of this package, with its arguments in full and in a quick run; None where a quick run is without it."""

    name: str
    full: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = ()


BENCHMARKS = (
    Benchmark("planning", ("--runs", "2"), ("--quick",)),
    Benchmark("replay", (), ("--quick",)),
    Benchmark("execution", (), ("--rows", "100000", "--runs", "1")),
    Benchmark("record_split", (), ("--rows", "50000", "--commits", "4", "--runs", "1")),
    Benchmark("data_verification", (), None),
    Benchmark("changed_proof", (), None),
    Benchmark("metadata_verification", (), ("--commits", "100", "--runs", "1")),
    Benchmark("log_reading", (), ("--commits", "10", "--runs", "1")),
    Benchmark("many_partitions", ("--partitions", "20000", "--runs", "1"), None),
    Benchmark("start_up", ("--runs", "1"), None),
    Benchmark("parse", (), None),
    Benchmark("simulated_day", (), ("--groups", "50")),
    Benchmark("fleet_budget", (), ("--tables", "50", "--seeds", "1")),
    Benchmark("fleet", ("--runs", "1"), ("--tables", "50", "--runs", "1")),
    Benchmark("done_partitions", (), None),
    Benchmark("small_tables", (), None),
    Benchmark("idle_rounds", ("--minutes", "3"), ("--tables", "4", "--every", "5s", "--minutes", "0.25")),
    Benchmark("object_store", ("--runs", "1"), ("--commits", "10", "--runs", "1", "--no-stock")),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [one.name for one in BENCHMARKS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(names)} (default: all)")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("target/benchmarks"), help="default: %(default)s")
    given = parser.parse_args()
    if unknown := sorted({*given.names} - {*names}):
        parser.error(f"no benchmark is named {', '.join(unknown)}")
    given.folder.mkdir(parents=True, exist_ok=True)
    chosen = [one for one in BENCHMARKS if not given.names or one.name in given.names]
    failed = [one.name for one in chosen if not ran_well(one, given.folder, quick=given.quick)]
    if not failed and {"planning", "replay"} <= {one.name for one in chosen} and importlib.util.find_spec("matplotlib"):
        subprocess.run([sys.executable, "-m", "benchmarks.plots", str(given.folder)], check=True)
    print(f"Figures are in {given.folder}." if not failed else f"Failed: {', '.join(failed)}.")
    return int(bool(failed))


def ran_well(benchmark: Benchmark, folder: Path, *, quick: bool) -> bool:
    """Whether it ended well; what it prints goes on, and to a file too."""
    arguments = benchmark.quick if quick else benchmark.full
    if arguments is None:
        return True
    print(f"\n## {' '.join((benchmark.name, *arguments))}", flush=True)
    command = [sys.executable, "-m", f"benchmarks.{benchmark.name}", *arguments]
    began = time.monotonic()
    command += ["--json", str(folder / f"{benchmark.name}.json")]
    with (
        (folder / f"{benchmark.name}.txt").open("w", encoding="utf-8") as kept,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
    ):
        for line in process.stdout or ():
            print(line, end="", flush=True)
            kept.write(line)
    print(f"({time.monotonic() - began:.0f} s, exit {process.returncode})", flush=True)
    return process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
