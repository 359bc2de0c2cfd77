"""A day of a table, simulated: bytes rewritten and RO's worst lag, compacted every hour or just in time, by both granularities.

    python -m benchmarks.simulated_day [--groups 500] [--seed 1] [--json FILE]

The plans are those of the real planner; what they say is carried out by moving names about, so nothing is measured but bytes
and times. All strategies keep the same promise: an event is in RO at most `data_latency` + 1 hour + a run after it happened.
Base files stay as large as they are.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from benchmarks.figures import add_json, write_figures
from etc_policy.plan.simulation import Schedule, SimulatedRun, replay
from etc_policy.policy.manifest import Strategy
from tests.property.day import DAY, MINUTE, START, Day, Promise, Written, live, past_of_writes

LATENCY, HOUR, RUN = 30 * MINUTE, 60 * MINUTE, 2 * MINUTE
TARGET = LATENCY + HOUR + RUN
BASE_BYTES, LOG_BYTES = 128 * 2**20, 2**20
COMMITS, TOUCHED = 288, 40
#: How late events come: most at once, few as late as they may.
LATENESS = ((0.8, MINUTE), (0.95, 5 * MINUTE), (1.0, LATENCY))

HOURLY = Promise(LATENCY, TARGET, HOUR, RUN, "log_file", just_in_time=False)
JUST_IN_TIME = Promise(LATENCY, TARGET, 5 * MINUTE, RUN, "log_file")
STRATEGIES = {
    "hourly": HOURLY,
    "every 5 minutes": replace(HOURLY, every=5 * MINUTE),
    "just in time, every 15 minutes": replace(JUST_IN_TIME, every=15 * MINUTE),
    "just in time, every 5 minutes": JUST_IN_TIME,
    "the same, asleep until the next is due": replace(JUST_IN_TIME, sleeps=True),
}

Choose = Callable[[random.Random, int], set[int]]


def uniform(source: random.Random, groups: int) -> set[int]:
    """Every file group is as likely as any other."""
    return set(source.sample(range(groups), min(groups, TOUCHED)))


def skewed(source: random.Random, groups: int) -> set[int]:
    """A few file groups get most of the updates."""
    return {min(groups - 1, int(source.paretovariate(0.6)) - 1) for _ in range(3 * TOUCHED)}


WORKLOADS: dict[str, Choose] = {"uniform updates": uniform, "skewed updates": skewed}


def writes_of(choose: Choose, groups: int, seed: int) -> tuple[Written, ...]:
    """A commit every five minutes, and the log files that it writes."""
    source, found = random.Random(seed), list[Written]()
    for number in range(COMMITS):
        requested = START + number * DAY // COMMITS + source.randint(1, 200) * 1_000 + 137
        completed = requested + source.randint(5, 30) * 1_000
        for group in sorted(choose(source, groups)):
            share = source.random()
            late = source.randint(0, next(bound for part, bound in LATENESS if share <= part))
            event = completed - late
            found.append(Written(f"L{len(found)}", f"f{group:04}", requested, completed, event, size=LOG_BYTES))
    return tuple(found)


def everything_hourly(writes: tuple[Written, ...]) -> dict[str, Any]:
    """What stock scheduling does: each hour every file group with log files is compacted, whatever they hold."""
    unbounded = HOURLY.policy.model_copy(update={"strategy": Strategy(type="unbounded")})
    past, reached, runs = past_of_writes(writes, BASE_BYTES), dict[str, int](), list[SimulatedRun]()
    for run in replay(past, Schedule(unbounded, HOUR, RUN, paced=False)):
        runs.append(run)
        reached.update((one.log_file.name, run.ended_ms) for one in run.merged)
    worst = max(reached[one.name] - one.event for one in writes if one.name in reached)
    return {
        "bytes_rewritten": sum(run.bytes_written for run in runs),
        "worst_lag_ms": worst,
        "runs_that_compact": sum(bool(run.merged) for run in runs),
        "missed": worst > TARGET,
    }


class AsLongAsTheyMay(random.Random):
    """Every run takes as long as is promised."""

    def randint(self, a: int, b: int) -> int:
        return b


def lived(promise: Promise, writes: tuple[Written, ...]) -> dict[str, Any]:
    """What the planner makes of the day."""
    day: Day = live(promise, writes, AsLongAsTheyMay(), base_bytes=BASE_BYTES)
    return {
        "bytes_rewritten": day.bytes_rewritten,
        "worst_lag_ms": day.worst_lag,
        "runs_that_compact": sum(run.plan.action == "compact" for run in day.runs),
        "missed": day.worst_lag > TARGET,
    }


def measure(groups: int, seed: int) -> Iterator[dict[str, Any]]:
    """A row for each workload and strategy; `of_everything` is the ratio to compacting everything every hour."""
    for workload, choose in WORKLOADS.items():
        writes = writes_of(choose, groups, seed)
        whole = everything_hourly(writes)
        rows = [{"strategy": "everything hourly", "granularity": "-", **whole}]
        for strategy, promise in STRATEGIES.items():
            for granularity in ("log_file", "file_slice"):
                found = lived(replace(promise, granularity=granularity), writes)
                rows.append({"strategy": strategy, "granularity": granularity, **found})
        for row in rows:
            yield {"workload": workload, **row, "of_everything": row["bytes_rewritten"] / whole["bytes_rewritten"]}


def main(arguments: list[str] | None = None) -> int:
    """Prints a table; 1 where a promise was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    add_json(parser)
    options = parser.parse_args(arguments)
    began, rows = time.monotonic(), []
    print(
        "| workload | strategy | granularity | GiB rewritten | of everything hourly | worst RO lag | runs that compact |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in measure(options.groups, options.seed):
        rows.append(row)
        lag = f"{row['worst_lag_ms'] / MINUTE:.1f} min{' (missed)' if row['missed'] else ''}"
        print(
            f"| {row['workload']} | {row['strategy']} | {row['granularity']} | {row['bytes_rewritten'] / 2**30:,.0f} | "
            f"{row['of_everything']:.2f} | {lag} | {row['runs_that_compact']} |",
            flush=True,
        )
    print(f"\nPromise: {TARGET / MINUTE:.0f} min. {time.monotonic() - began:.0f} s.")
    write_figures(options.json, {"groups": options.groups, "seed": options.seed, "rows": rows})
    return int(any(row["missed"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
