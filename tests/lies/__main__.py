"""`python -m tests.lies --count 500`: as many lies about as many honest tables, and which level catches each.

Prints a Markdown table of lie by level; ends with 1 where a lie that does harm is missed, or an honest table raises an alarm.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict

from tests.lies.kinds import KINDS
from tests.lies.telling import COLUMNS, MISSED, alarm, tell


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.lies", description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", choices=sorted({f"{lie.target}: {lie.name}" for lie in KINDS}))
    parser.add_argument("--show", action="store_true", help="print what each lie was, and what was said of it")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.count)
    only = next((lie for lie in KINDS if f"{lie.target}: {lie.name}" == arguments.kind), None)
    found, wrong = defaultdict(Counter), 0
    for seed in seeds:
        one = tell(seed, only or KINDS[seed % len(KINDS)])
        found[one.lie][one.outcome] += 1
        wrong += one.outcome == MISSED
        if arguments.show or one.outcome == MISSED:
            print(f"{seed}: {one.lie.name}: {one.said}: {one.outcome} {one.why}", file=sys.stderr, flush=True)
    alarms = [(seed, said) for seed in seeds if (said := alarm(seed)) is not None]
    for seed, said in alarms:
        print(f"{seed}: a false alarm: {said}", file=sys.stderr, flush=True)
    print(_table(found))
    print(f"\n{len(seeds)} lies, {wrong} missed; {len(seeds)} honest tables, {len(alarms)} false alarms")
    return min(wrong + len(alarms), 1)


def _table(found) -> str:
    lines = [f"| about | corruption | {' | '.join(COLUMNS)} |", f"|---|---|{'---|' * len(COLUMNS)}"]
    for lie in KINDS:
        if lie in found:
            counts = " | ".join(str(found[lie][column] or "") for column in COLUMNS)
            lines.append(f"| {lie.target} | {lie.name} | {counts} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
