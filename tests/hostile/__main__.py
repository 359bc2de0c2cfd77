"""`python -m tests.hostile --count 5000`: as many commands over as many hostile tables and projects, and how they ended."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.hostile.running import COMMANDS, KINDS, run_case


def main() -> int:
    """The command: 0 where every promise was kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, help="end after these, whatever is left")
    parser.add_argument("--kind", choices=sorted(KINDS))
    parser.add_argument("--command", choices=COMMANDS)
    parser.add_argument("--show", action="store_true", help="print what each command says")
    arguments = parser.parse_args()
    began, codes, slowest, broken, runs = time.monotonic(), Counter[str](), 0.0, 0, 0
    for seed in range(arguments.first, arguments.first + arguments.count):
        if arguments.minutes and time.monotonic() - began > arguments.minutes * 60:
            break
        runs += 1
        said, ended, promise = run_case(seed, arguments.kind, arguments.command)
        codes.update(ended.codes or ["no error"])
        slowest = max(slowest, ended.seconds)
        if promise is not None:
            broken += 1
            print(f"{seed}: {promise}\n  {ended.command}: {said}", flush=True)
        if arguments.show:
            print(f"{seed}: {ended.command}: {said}\n{ended.out}\n{ended.err}", flush=True)
    seconds = time.monotonic() - began
    found = ", ".join(f"{code} {number}" for code, number in codes.most_common())
    print(f"{runs} runs in {seconds:.0f} s, slowest {slowest:.1f} s, broken promises: {broken}; {found}")
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
