"""Many small tables as files, with a project over them: what `python -m benchmarks.fleet` and the tests of the site work on."""

from __future__ import annotations

import random
import time
from datetime import UTC
from pathlib import Path

from etc_policy.table.instants import instant_from_ms
from tests.unit.hudi import log_file
from tests.unit.hudi.table_folder import TableFolder, Written

MINUTE_MS = 60_000
PARTITIONS, GROUPS = 4, 8
#: Of so many tables one has event times in its log files alone.
UNTRACKED = 4
FREQUENCIES = ("hourly", "daily", "often")
PROJECT = "name: fleet\nprofiles:\n  fleet:\n    target: dev\n    targets:\n      dev: {table_root: lake}\n"
POLICY = """  - name: table_{n:03d}_ro
    description: Table {n} of the fleet
    table: table_{n:03d}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 30m
    freshness: {{target: 2h, warn_after: 3h, error_after: 5h}}
    verify: {{level: metadata}}
    writer: {{index: simple, compaction: none}}
    tags: [team_{team:02d}, {frequency}]
"""


def write_fleet(root: Path, tables: int, commits: int) -> None:
    """A project in `root` with a policy for each of `tables` tables, in files of ten, and the tables in `root/lake`."""
    (root / "policies").mkdir(parents=True)
    (root / "etc_project.yml").write_text(PROJECT)
    now_ms = time.time_ns() // 1_000_000
    for first in range(0, tables, 10):
        numbers = range(first, min(first + 10, tables))
        rows = (POLICY.format(n=n, team=n % 20, frequency=FREQUENCIES[n % 3]) for n in numbers)
        (root / "policies" / f"part_{first:04d}.yml").write_text("version: 1\npolicies:\n" + "".join(rows))
        for number in numbers:
            write_table(root / "lake" / f"table_{number:03d}", number, commits, now_ms)


def write_table(folder: Path, number: int, commits: int, now_ms: int, base_file: bytes = b"") -> None:
    """A table of so many delta commits, one each eight minutes up to now, and a compaction somewhere among them.

    Its base files have a content that is given, where somebody reads their footers.
    """
    chance = random.Random(number)
    table = TableFolder(folder)
    groups = [f"{chance.getrandbits(64):016x}-{place}" for place in range(GROUPS)]
    start_ms, tracked = now_ms - (commits + 1) * 8 * MINUTE_MS, number % UNTRACKED > 0
    size = len(base_file) or 1_000
    bases = tuple(_written(group, place, log=False, size=size) for place, group in enumerate(groups))
    table.commit(*_instants(start_ms), *bases)
    compacted_at = chance.randrange(commits)
    for commit in range(1, commits + 1):
        at_ms = start_ms + commit * 8 * MINUTE_MS
        event_ms = at_ms - chance.randint(1, 25) * MINUTE_MS
        chosen = sorted(chance.sample(range(GROUPS), GROUPS // 2))
        _write_logs(table, groups, chosen, at_ms, event_ms, tracked=tracked)
        if commit == compacted_at:
            table.compaction(*_instants(at_ms + 2 * MINUTE_MS), *bases)
    for path in folder.rglob("*.parquet") if base_file else ():
        path.write_bytes(base_file)


def _write_logs(
    table: TableFolder, groups: list[str], chosen: list[int], at_ms: int, event_ms: int, *, tracked: bool
) -> None:
    content = b"" if tracked else log_file.avro([event_ms, event_ms + 1_000], ts="long")  # type: ignore[no-untyped-call]
    size = 10 if tracked else len(content)
    files = tuple(
        _written(groups[place], place, log=True, size=size, event_ms=event_ms if tracked else None) for place in chosen
    )
    instant, completed = _instants(at_ms)
    table.commit(instant, completed, *files)
    for file in () if tracked else files:
        (table.base / file.partition / file.name(instant)).write_bytes(content)


def _written(group: str, place: int, *, log: bool, size: int = 1_000, event_ms: int | None = None) -> Written:
    partition = f"p={place % PARTITIONS}"
    return Written(group, log=log, partition=partition, min_event=event_ms, size=size, rows=20)


def _instants(at_ms: int) -> tuple[str, str]:
    """When it was requested and when it completed."""
    return instant_from_ms(at_ms, UTC), instant_from_ms(at_ms + 3_000, UTC)
