"""Honest tables of every kind: real timelines, real log files, compacted as etc's own planner says."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.policy.manifest import EventTime, Policy, Writer
from etc_policy.storage.object_cache import Cache
from tests.unit.hudi import log_file
from tests.unit.hudi.table_folder import COMMIT_SCHEMA, TableFolder, at, base, commit_metadata
from tests.unit.hudi.table_folder import log as log_of
from tests.unit.plan.plan_cases import epoch_ms

BASE, COMPACTED, COMPACTED_DONE = at("08:00:00"), at("12:01:00"), at("12:02:00")
PLANNED, NOW = epoch_ms("12:00:30"), epoch_ms("12:10:00")
HOUR_MS = 3_600_000


@dataclass
class Kind:
    """What an honest table is made of."""

    version: int
    partitions: tuple[str, ...]
    log_format: str
    column: str

    @property
    def avro_type(self):
        return "long" if self.column == "ms" else log_file.MICROS

    def __str__(self) -> str:
        folders = {("",): "unpartitioned", ("p",): "one partition"}.get(self.partitions, "two partitions")
        return f"version {self.version}, {folders}, {self.log_format} logs, {self.column}"


@dataclass
class LogTruth:
    """A log file as it was written: which events are in it, whatever anybody says of it later."""

    path: Path
    partition: str
    instant: str
    completed: str
    min_ms: int
    deletes: bool = False


@dataclass
class Honest:
    """An honest table; `logs` are its log files that are not compacted, as the generator knows them."""

    table: TableFolder
    kind: Kind
    policy: Policy
    logs: list[LogTruth] = field(default_factory=list)
    commits: dict[str, Path] = field(default_factory=dict)
    compaction: str | None = None
    cache: Cache | None = None

    @property
    def compaction_commit(self) -> Path:
        (path,) = self.table.timeline.glob(f"{self.compaction}_*.commit")
        return path

    @property
    def compaction_plan(self) -> Path:
        return self.table.timeline / f"{self.compaction}.compaction.requested"

    def state(self):
        state = FileTableReader().read(str(self.table.base), self.policy.event_time)
        return fill_from_logs(state, self.policy, None)


def kind_of(random: Random) -> Kind:
    return Kind(
        version=random.choice([9, 9, 9, 8, 8, 6]),
        partitions=random.choice([("p",), ("p", "q"), ("",)]),
        log_format=random.choice(["Avro", "Avro", "Parquet"]),
        column=random.choice(["ms", "ms", "ms", "micros"]),
    )


def honest_table(folder: Path, random: Random) -> Honest:
    """A table with base files, some delta commits, most often a compaction by etc, and what came after it."""
    kind = kind_of(random)
    ordering = {"hoodie.table.ordering.fields": "ts"}
    table = TableFolder(folder, version=kind.version, properties=ordering)
    unit = "ms" if kind.column == "ms" else None
    policy = Policy(
        name="orders",
        table=str(folder),
        event_time=EventTime(column="ts", unit=unit),
        data_latency_ms=HOUR_MS,
        writer=Writer(index="bucket"),
    )
    found = Honest(table, kind, policy)
    groups = [(partition, f"f{n}") for partition in kind.partitions for n in range(random.randint(1, 3))]
    files = [base(file_id, partition=partition) for partition, file_id in groups]
    table.commit(BASE, at("08:00:05"), *files, extra=_schema(kind))
    for number in range(random.randint(2, 6)):
        _write(found, random, groups, f"{10 + number // 4:02d}:{10 * (number % 4) + 10:02d}", number + 1)
    if kind.version >= 8 and random.random() < 0.75:
        _compact(found)
    if random.random() < 0.5:
        _write(found, random, groups, "12:05", 9)
    return found


def _schema(kind: Kind) -> dict[str, str]:
    fields = [{"name": "id", "type": "long"}, {"name": "ts", "type": ["null", kind.avro_type]}]
    return {"schema": json.dumps({"type": "record", "name": "r", "fields": fields})}


def _write(found: Honest, random: Random, groups, clock: str, number: int) -> None:
    """A delta commit to the logs of some file groups; events come up to 50 minutes late."""
    instant, completed = at(f"{clock}:00"), at(f"{clock}:05")
    written_ms, files, contents = epoch_ms(f"{clock}:00"), [], []
    for partition, file_id in random.sample(groups, random.randint(1, len(groups))):
        times = [written_ms - random.randrange(3_000_000) for _ in range(random.randint(1, 4))]
        deletes = random.random() < 0.15
        content = block(found.kind, times) + (_deletes(found.kind, times[0] + 1) if deletes else b"")
        is_recorded = found.kind.version >= 8 and found.kind.column == "ms"
        named = {"base_instant": BASE} if found.kind.version < 8 else {}
        file = log_of(file_id, min(times) if is_recorded else None, partition=partition, version=number, **named)
        files.append(replace(file, size=len(content), deletes=int(deletes), rows=len(times)))
        contents.append((content, min(times), deletes))
    path = found.table.commit(instant, completed, *files, extra=_schema(found.kind))
    found.commits[instant] = path
    for file, (content, min_ms, deletes) in zip(files, contents, strict=True):
        place = found.table.base / file.partition / file.name(instant)
        place.write_bytes(content)
        found.logs.append(LogTruth(place, file.partition, instant, completed, min_ms, deletes))


def block(kind: Kind, times) -> bytes:
    """A data block with rows of these event times."""
    stored = [time if kind.column == "ms" else time * 1000 for time in times]
    if kind.log_format == "Avro":
        return log_file.avro(stored, kind.avro_type)
    import pyarrow

    arrow_type = pyarrow.int64() if kind.column == "ms" else pyarrow.timestamp("us", tz="UTC")
    return log_file.parquet(pyarrow.array(stored, arrow_type), kind.avro_type)


def _deletes(kind: Kind, time_ms: int) -> bytes:
    stored = time_ms if kind.column == "ms" else time_ms * 1000
    return log_file.deletes((log_file.LONG, stored), ts=kind.avro_type)


def _compact(found: Honest) -> None:
    """What the planner plans, done: its plan and its commit on the timeline, with new base files."""
    plan = build_table_plan(found.policy, found.state(), now_ms=PLANNED, clock_ms=PLANNED)
    if plan.action != "compact" or plan.instant is None:
        return
    extra, instant = extra_metadata(plan, "0123456789abcdef", None), plan.instant
    found.table.plan(instant, extra, *plan.operations)
    found.table.file(instant, ".compaction.inflight")
    written = [base(one.file_id, partition=one.partition, previous=one.base_instant) for one in plan.operations]
    found.table.data(instant, *written)
    record = commit_metadata(instant, tuple(written), {**_schema(found.kind), **extra}, "COMPACT")
    found.table.complete(instant, COMPACTED_DONE, "commit", COMMIT_SCHEMA, record)
    merged = {(one.partition, name) for one in plan.operations for name in one.log_files_compacted}
    found.logs = [one for one in found.logs if (one.partition, one.path.name) not in merged]
    found.compaction = instant
