"""A pending plan of etc on the table's own timeline, its markers and its rollbacks, made by somebody else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from tests.hostile.avro import damaged
from tests.hostile.tables import Case
from tests.unit.hudi.table_folder import at, avro, base, log, operation

_PATHS = (
    "../outside", "../../outside/secret.yml", "/etc/passwd", "file:///etc", "file:/etc",
    "p/../../../outside", "..", ".", "", "p//q", "p\0",
    ".hoodie", "\x1b[2J", "a\n::warning::b", "x" * 5_000, "\u202e", "s3://bucket/x", ".hoodie/metadata", "p/" * 2_000,
)  # fmt: skip
_ROLLBACK = {
    "type": "record",
    "name": "P",
    "fields": [
        {"name": "instantToRollback", "type": {"type": "map", "values": "string"}},
        {
            "name": "RollbackRequests",
            "type": {"type": "array", "items": {"type": "map", "values": {"type": "array", "items": "string"}}},
        },
    ],
}


def pending(case: Case) -> None:
    """A plan that would be good, and then one thing in it or beside it or a few."""
    random, instant = case.random, at("12:00:00")
    names: list[Any] = ["p", "f1", base("f1").name(case.first), log("f1").name(case.second)]
    for _ in range(random.choice([0, 1, 1, 2])):
        place, path = random.randrange(4), random.choice(_PATHS)
        names[place] = random.choice([path, f"{path}/{names[place]}", f"{names[place]}{path}"])
        case.say(f"{place} = {names[place]}")
    partition, file_id, base_file, log_file = names
    planned = operation(file_id, base_file, log_file, partition=partition)
    extra = {
        "etc.event_time.threshold": random.choice(["1000", "9" * 400, "-1", "x", ""]),
        "etc.policy": random.choice(_PATHS),
    }
    plan = case.table.plan(instant, extra, *[planned] * random.choice([1, 1, 2]))
    if random.random() < 0.2:
        case.say("damaged")
        plan.write_bytes(damaged(random, plan.read_bytes()))
    for step in random.sample(_STEPS, random.choice([0, 1, 2])):
        case.say(step.__name__)
        step(case, instant)
    old = time.time() - 86_400
    traces = (*case.table.base.rglob(f"*{instant}*"), *case.table.meta.glob(".temp/*/*"))
    for path in traces:  # else a run that made them just now may be alive, and is waited for
        os.utime(path, (old, old), follow_symlinks=False)


def _inflight(case: Case, instant: str) -> None:
    case.table.file(instant, ".compaction.inflight")


def _markers(case: Case, instant: str) -> None:
    folder = case.table.meta / ".temp" / instant
    if folder.is_symlink():
        folder.unlink()
    folder.mkdir(parents=True)
    path = case.random.choice(_PATHS)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (folder / "MARKERS0").write_text(f"{path}/f1_0-1-0_{instant}.parquet.marker.CREATE\n{path}.marker.CREATE\n")


def _linked_markers(case: Case, instant: str) -> None:
    (case.table.meta / ".temp").mkdir(exist_ok=True)
    place = case.table.meta / ".temp" / instant
    if not place.exists():
        place.symlink_to(case.random.choice(["..", "../../..", "../../../../outside", instant]))


def _rollback(case: Case, instant: str) -> None:
    request = {"filesToBeDeleted": [case.random.choice(_PATHS)]}
    content = avro(_ROLLBACK, {"instantToRollback": {"commitTime": instant}, "RollbackRequests": [request]})
    case.table.file(at("12:00:02"), ".rollback.requested", content)


def _linked_partition(case: Case, instant: str) -> None:
    outside = case.table.base.parents[1] / "outside"
    (case.table.base / "q").symlink_to(outside)
    case.table.data(instant, base("f1"))


def _lock(case: Case, instant: str) -> None:
    (case.table.meta / ".etc").mkdir(exist_ok=True)
    name = case.random.choice(["lock", "apply.lease", "java.lease", "memory.json"])
    (case.table.meta / ".etc" / name).write_bytes(
        case.random.choice([b"", b"\xff" * 999, f"{instant} a b 1".encode(), b"9" * 5_000])
    )


_STEPS: tuple[Callable[[Case, str], None], ...] = (
    _inflight,
    _markers,
    _linked_markers,
    _rollback,
    _linked_partition,
    _lock,
)
