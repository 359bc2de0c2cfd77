"""`python -m tests.lies.rows --count 100`: as many lies about the rows of real tables, and which level catches each.

One Spark session; it ends with 1 where a lie that does harm is missed, or an honest table raises an alarm.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random

from etc_policy.spark.session import start_spark
from tests.integration.session import stop_spark
from tests.lies.about_rows import LIES
from tests.lies.lie import Lie
from tests.lies.real_table import LEVELS, RealTables
from tests.lies.telling import HARMLESS, MISSED, NO_CHECK, Outcome

COLUMNS = (*LEVELS, HARMLESS, NO_CHECK)


def tell(tables: RealTables, seed: int, lie: Lie, *, full: bool = False, rests: bool = False) -> Outcome:
    """A lie about a copy of the table of a seed, or of the next that gives occasion to it."""
    random = Random(f"rows {seed}")
    while True:
        found = replace(tables.copy(seed, random, rests=rests), full=full)
        told = lie.tell(found, random)
        try:
            if told is not None:
                return _judge(found, lie, told.said)
        finally:
            shutil.rmtree(found.bench.base.parent)


def _judge(found, lie: Lie, said: str) -> Outcome:
    harm = False
    for level in LEVELS:
        seen = found.look(level)
        if seen.caught:
            return Outcome(lie, level, said, seen.caught)
        harm = harm or found.is_false(seen)
    if not harm:
        return Outcome(lie, HARMLESS, said)
    return Outcome(lie, NO_CHECK, said, lie.needs) if lie.needs else Outcome(lie, MISSED, said)


def alarm(tables: RealTables, seed: int) -> str | None:
    """What level `data` says against an honest table, or where what it says is not true; None where all is well."""
    found = tables.copy(seed, Random(f"rows {seed}"))
    seen = found.look("data")
    wrong = seen.caught or ("a claim that is not true" if found.is_false(seen) else None)
    shutil.rmtree(found.bench.base.parent)
    return wrong


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.lies.rows", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--honest", type=int, default=20, help="how many honest tables are looked at besides")
    parser.add_argument("--show", action="store_true", help="print what each lie was, and what was said of it")
    parser.add_argument("--full", action="store_true", help="compare all rows of both views (`full: true`)")
    parser.add_argument(
        "--rests", action="store_true", help="all rows were compared before, and the proof rests on that"
    )
    given = parser.parse_args()
    found, missed, alarms = defaultdict(Counter), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        spark = start_spark({"spark.sql.shuffle.partitions": "2"}, Path(folder) / "spark.log")
        tables = RealTables(spark, Path(folder))
        try:
            for seed in range(given.first, given.first + given.count):
                one = tell(tables, seed, LIES[seed % len(LIES)], full=given.full, rests=given.rests)
                found[one.lie][one.outcome] += 1
                missed += one.outcome == MISSED
                if given.show or one.outcome == MISSED:
                    print(f"{seed}: {one.lie.name}: {one.said}: {one.outcome} {one.why}", file=sys.stderr, flush=True)
            for seed in range(given.first, given.first + given.honest):
                said = alarm(tables, seed)
                alarms += said is not None
                if said:
                    print(f"{seed}: a false alarm: {said}", file=sys.stderr, flush=True)
        finally:
            stop_spark(spark)
    print(_table(found))
    print(f"\n{given.count} lies, {missed} missed; {given.honest} honest tables, {alarms} false alarms")
    return min(missed + alarms, 1)


def _table(found) -> str:
    lines = [f"| corruption | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    told = (lie for lie in LIES if lie in found)
    lines += (f"| {lie.name} | {' | '.join(str(found[lie][one] or '') for one in COLUMNS)} |" for lie in told)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
