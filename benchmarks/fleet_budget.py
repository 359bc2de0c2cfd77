"""500 tables that get 60 % of the IO that they need, simulated: how long they miss their targets, by the order of their runs.

    python -m benchmarks.fleet_budget [--tables 500] [--share 0.6] [--seeds 3] [--json FILE]

Sizes are log-normal, targets between one hour and a day. A table needs what it reads and writes when it is compacted whole, just
before its target breaks. The order and the budget are those of `etc run`; cron's are the same tables in the order of their names,
from the first one again each time or from where it ended. Three days are played in steps of five minutes; the last two count.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.figures import add_json, write_figures
from etc_policy.plan.fleet import Allowance, by_debt
from tests.unit.plan.states import PLAN

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_EVERY_MS, _COUNTED_FROM_MS, _END_MS = 5 * _MINUTE_MS, 24 * _HOUR_MS, 72 * _HOUR_MS
_TARGETS_HOURS, _LATENCIES_MINUTES = (1, 2, 4, 8, 24), (5, 15, 30)


@dataclass
class Table:
    """A table whose base files have so many bytes, all of which a compaction reads and writes."""

    number: int
    size_bytes: float
    target_ms: int
    latency_ms: int
    until_ms: float

    @property
    def needs_an_hour(self) -> float:
        """Bytes an hour if it is compacted just before its target breaks."""
        return 2 * self.size_bytes * _HOUR_MS / (self.target_ms - self.latency_ms - _EVERY_MS)


Order = Callable[[Sequence[Table], int], Sequence[Table]]


def by_name(tables: Sequence[Table], _last: int) -> Sequence[Table]:
    """From the first one each time."""
    return sorted(tables, key=lambda one: one.number)


def by_turns(tables: Sequence[Table], last: int) -> Sequence[Table]:
    """From where the time before ended."""
    return sorted(tables, key=lambda one: (one.number <= last, one.number))


def as_etc_run(tables: Sequence[Table], _last: int) -> Sequence[Table]:
    """Who breaks its target first goes first."""
    named = {f"{one.number:06}": one for one in tables}
    plans = (
        (PLAN.model_copy(update={"policy": name, "watermark_before_ms": round(one.until_ms)}), one.target_ms)
        for name, one in named.items()
    )
    return [named[plan.policy] for plan in by_debt(plans)]


ORDERS: dict[str, Order] = {"cron, by name": by_name, "cron, by turns": by_turns, "etc run": as_etc_run}


def tables_of(count: int, seed: int) -> list[Table]:
    """So many tables, complete up to some time within their targets."""
    chance, tables = random.Random(seed), list[Table]()
    for number in range(count):
        size = chance.lognormvariate(0, 1.5) * 2**30
        target_ms = chance.choice(_TARGETS_HOURS) * _HOUR_MS
        latency_ms = chance.choice(_LATENCIES_MINUTES) * _MINUTE_MS
        tables.append(Table(number, size, target_ms, latency_ms, -chance.random() * target_ms))
    return tables


def play(count: int, share: float, seed: int, order: Order) -> tuple[float, float]:
    """The share of the time in which tables missed their targets, over all of them, and the worst lag in targets."""
    tables = tables_of(count, seed)
    allowance = Allowance(share * sum(one.needs_an_hour for one in tables))
    missed, counted, worst, last = 0, 0, 0.0, -1
    for now_ms in range(0, _END_MS, _EVERY_MS):
        due = [one for one in tables if now_ms + _EVERY_MS - one.until_ms >= one.target_ms]
        for one in order(due, last):
            if allowance.ready_in_ms(now_ms):
                break
            allowance.use(2 * one.size_bytes, now_ms)
            one.until_ms, last = now_ms - one.latency_ms, one.number
        if now_ms >= _COUNTED_FROM_MS:
            lags = [(now_ms - one.until_ms) / one.target_ms for one in tables]
            missed, counted, worst = missed + sum(lag > 1 for lag in lags), counted + len(lags), max(worst, *lags)
    return missed / counted, worst


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=500)
    parser.add_argument("--share", type=float, default=0.6, help="of the IO that the tables need")
    parser.add_argument("--seeds", type=int, default=3)
    add_json(parser)
    given = parser.parse_args()
    found = []
    for name, order in ORDERS.items():
        plays = [play(given.tables, given.share, seed, order) for seed in range(1, given.seeds + 1)]
        missed, worst = sum(one for one, _ in plays) / len(plays), max(one for _, one in plays)
        print(f"{name:<16} targets missed {missed:6.1%} of the time, worst lag {worst:5.1f} targets")
        found.append({"order": name, "missed": missed, "worst_lag_in_targets": worst})
    write_figures(given.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
