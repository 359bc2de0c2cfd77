"""Random histories that are cut by record, read by hudi-rs at each step: RT stays, and RO is the table as of T.

Planning and splitting are etc's; stock Hudi's part, to merge what a plan names into a new base file, is played here.
"""

from __future__ import annotations

import io
import json
import random
import struct
from pathlib import Path

import fastavro

from etc_policy.hudi.blocks import encode_block, read_blocks
from etc_policy.hudi.plan_file import encode_plan
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.plan.split import merged_paths
from etc_policy.policy.manifest import EventTime, Policy, Strategy
from etc_policy.run.carrying import require_carried
from etc_policy.run.ports import Job
from etc_policy.run.table_files import HudiFiles
from tests.unit.hudi.log_file import AVRO, INSTANT
from tests.unit.hudi.log_file import SCHEMA as SCHEMA_HEADER
from tests.unit.hudi.table_folder import COMMIT_SCHEMA, TableFolder, Written, avro, base, commit_metadata

MS, CLOCK_MS = 1_767_225_600_000, 1_767_312_000_000
META = tuple(f"_hoodie_{name}" for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name"))
STRINGS, KEYS = (*META, "id", "p", "v"), "abcdef"
SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        *({"name": name, "type": ["null", "string"], "default": None} for name in STRINGS),
        {"name": "ts", "type": ["null", "long"], "default": None},
    ],
}
#: In Hudi's own schema all may be null, which hudi-rs expects.
COMMIT = {
    **COMMIT_SCHEMA,
    "fields": [
        field if isinstance(field["type"], list) else {**field, "type": ["null", field["type"]]}
        for field in COMMIT_SCHEMA["fields"]
    ],
}
PROPERTIES = {
    "hoodie.table.partition.fields": "p",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.datasource.write.drop.partition.columns": "false",
    "hoodie.table.type": "MERGE_ON_READ",
}


def at(step: int) -> str:
    """An instant so many tenths of a second after the first."""
    return f"20260101{step // 36000:02d}{step // 600 % 60:02d}{step // 10 % 60:02d}{step % 10}00"


class Played:
    """A table of one file group, what was written to it, and the steps so far."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.dice, self.step, self.clock, self.threshold, self.splits = dice, 10, MS + 10_000, MS, 0
        self.table = TableFolder(folder, properties=PROPERTIES)
        self.base, self.writes = folder, [[(key, "v0", MS) for key in KEYS]]
        self.policy = Policy(
            name="p",
            table=str(folder),
            event_time=EventTime(column="ts", unit="ms"),
            data_latency_ms=1000,
            strategy=Strategy(granularity="record"),
        )
        instant = at(self.step)
        self.commit(instant, self.put_base(instant, {key: self.row(instant, key, "v0", MS) for key in KEYS}))

    def row(self, instant, key, value, time_ms):
        names = dict.fromkeys(STRINGS, "x")
        return {
            **names,
            "_hoodie_commit_time": instant,
            "_hoodie_commit_seqno": f"{instant}_0_0",
            "_hoodie_record_key": key,
            "_hoodie_partition_path": "p",
            "id": key,
            "p": "p",
            "v": value,
            "ts": time_ms,
        }

    def put_base(self, instant, rows):
        (self.base / "p").mkdir(exist_ok=True)
        (self.base / "p" / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
        import pyarrow
        import pyarrow.parquet

        columns = pyarrow.schema([*((name, pyarrow.string()) for name in STRINGS), ("ts", pyarrow.int64())])
        whole = pyarrow.Table.from_pylist(list(rows.values()), schema=columns)
        path = self.base / "p" / base("f1").name(instant)
        pyarrow.parquet.write_table(whole, path)
        return Written("f1", log=False, size=path.stat().st_size)

    def commit(self, instant, *written, action="deltacommit", extra=None, kind="UPSERT"):
        """A completed commit of files that are there already."""
        self.step += 5
        pairs = {"schema": json.dumps(SCHEMA), **(extra or {})}
        record = commit_metadata(instant, written, pairs, kind)
        content = avro(COMMIT, record)
        self.table.file(instant, f"_{at(self.step)}.{action}", content)

    def write(self):
        """Updates, some of them late, in one block or two; the commit may not know their event times."""
        self.step += self.dice.randrange(5, 50)
        self.clock += self.dice.randrange(1, 5) * 1000
        instant, rows = at(self.step), []
        for key in self.dice.sample(KEYS, self.dice.randrange(1, 5)):
            late = self.dice.randrange(MS + 5000, self.clock, 1000) if self.clock > MS + 5000 else self.clock
            rows.append((key, f"v{self.step}", late if self.dice.random() < 0.4 else self.clock))
        blocks = [rows[:2], rows[2:]] if self.dice.random() < 0.5 else [rows]
        content = b"".join(self.block(instant, of_block) for of_block in blocks if of_block)
        times, known = [row[2] for row in rows], self.dice.random() < 0.7
        ends = (min(times), max(times)) if known else (None, None)
        written = Written("f1", min_event=ends[0], max_event=ends[1], size=len(content), rows=len(rows))
        (self.base / "p" / written.name(instant)).write_bytes(content)
        for state in ("requested", "inflight"):
            self.table.file(instant, f".deltacommit.{state}")
        self.commit(instant, written)
        self.writes.append(rows)

    def block(self, instant, rows):
        content = struct.pack(">ii", 3, len(rows))
        for key, value, time_ms in rows:
            buffer = io.BytesIO()
            fastavro.schemaless_writer(buffer, fastavro.parse_schema(SCHEMA), self.row(instant, key, value, time_ms))
            content += struct.pack(">i", len(buffer.getvalue())) + buffer.getvalue()
        header = {INSTANT: instant.encode(), SCHEMA_HEADER: json.dumps(SCHEMA).encode()}
        return b"".join(map(bytes, encode_block(AVRO, header, (content,))))

    def state(self):
        return FileTableReader().read(str(self.base), self.policy.event_time)

    def cut(self):
        """T grows. The plan is split, published, merged as Hudi does, and committed."""
        self.threshold = self.dice.randrange(self.threshold, max(self.threshold + 1, self.clock + 3000), 500)
        state, files = self.state(), HudiFiles()
        plan = build_table_plan(self.policy, state, now_ms=self.threshold + 1000, clock_ms=CLOCK_MS)
        assert plan.action != "refused", plan.reason
        if plan.action == "compact":
            extra = extra_metadata(plan, "plan", None)
            job = Job(self.policy, str(self.base), 9, (), plan.instant, plan.operations, extra)
            job = files.split(job, state) if job.splits else job
            self.splits += job.splits
            self.check_rt()
            self.table.file(job.instant, ".compaction.requested", encode_plan(job.operations, job.extra_metadata))
            self.check_rt()
            require_carried(job)
            self.merge(files.pending_job(self.policy, self.state()))
            files.discard_split(job)
            assert not list(self.base.glob(".hoodie/.etc/split/*"))
        self.check_rt()
        early = [[row for row in rows if row[2] <= self.threshold] for rows in self.writes]
        assert self.read("true") == newest(early), "RO is the table as of T"

    def merge(self, job):
        import pyarrow.parquet

        (one,) = job.operations
        rows = {row["id"]: row for row in pyarrow.parquet.read_table(self.base / "p" / one.base_file).to_pylist()}
        for name in merged_paths(one):
            for row in rows_of((self.base / "p" / name).resolve()):
                rows[row["id"]] = max(row, rows[row["id"]], key=lambda found: found["ts"])
        merged = self.put_base(job.instant, rows)
        self.step += 10
        added = [Written("f1", version=0, token="100000-0-0", size=size) for _, size in one.added_log_files]
        self.commit(job.instant, merged, *added, action="commit", extra=job.extra_metadata, kind="COMPACT")
        state = self.state()
        assert (state.orphans, state.uncarried, state.foreign_compaction) == ((), None, None)

    def check_rt(self):
        assert self.read("false") == newest(self.writes), "RT"

    def read(self, read_optimized):
        from hudi import HudiReadOptions, HudiTable

        options = HudiReadOptions().with_hudi_option("hoodie.read.use.read_optimized.mode", read_optimized)
        rows = [row for batch in HudiTable(str(self.base)).read(options) for row in batch.to_pylist()]
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["v"] for row in rows}


def rows_of(path):
    found = []
    for one in read_blocks(io.BytesIO(path.read_bytes()), path.stat().st_size):
        (_, count), at_byte = struct.unpack_from(">ii", one.content), 8
        for _ in range(count):
            (length,) = struct.unpack_from(">i", one.content, at_byte)
            row = io.BytesIO(bytes(one.content[at_byte + 4 : at_byte + 4 + length]))
            found.append(fastavro.schemaless_reader(row, fastavro.parse_schema(SCHEMA)))
            at_byte += 4 + length
    return found


def newest(writes):
    """The value of each key's newest row by event time; of equal times the later row counts."""
    found = {}
    for key, value, time_ms in (row for rows in writes for row in rows):
        if key not in found or time_ms >= found[key][1]:
            found[key] = (value, time_ms)
    return {key: value for key, (value, _) in found.items()}


def play(folder, seed):
    """How many cuts of the history of a seed split log files."""
    dice = random.Random(seed)
    played = Played(folder, dice)
    for _ in range(dice.randrange(3, 8)):
        played.write() if dice.random() < 0.6 else played.cut()
    for _ in range(2):
        played.write()
        played.cut()
    return played.splits


def test_rt_stays_and_ro_is_the_table_as_of_t(tmp_path):
    splits = [play(tmp_path / f"seed_{seed}", seed) for seed in range(20)]
    assert sum(map(bool, splits)) > 15
