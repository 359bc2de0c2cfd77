"""A small real table with a history, and a plain-Python oracle of what each view must return. Shares no code with etc."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

EPOCH_MS = 1_700_000_000_000
SCHEMA = "id int, p string, v string, ts long"
WRITER = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.compact.inline": "false",
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.payload.event.time.field": "ts",
    "hoodie.payload.ordering.field": "ts",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.delete.shuffle.parallelism": "2",
}
#: For tests that do not look at the writer itself: the same commits, sooner.
QUICK = {
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.simple.index.parallelism": "1",
    "hoodie.finalize.write.parallelism": "1",
    "hoodie.cleaner.parallelism": "1",
}


@dataclass(frozen=True)
class Write:
    """One commit: rows (id, value, event second) to upsert, or keys to delete."""

    rows: tuple[tuple[int, str, int], ...] = ()
    deleted: tuple[int, ...] = ()


def partition_of(key: int) -> str:
    return "abc"[key % 3]


#: Late data (commit 3 brings second 105, 5 brings 150), updates, and deletes by key (commit 4, in partition `c`, which
#: commit 6 leaves alone).
HISTORY = (
    Write(tuple((key, "v0", key) for key in range(12))),
    Write(((1, "v1", 100), (2, "v1", 101), (6, "v1", 102), (4, "v1", 103))),
    Write(((2, "v2", 200), (3, "v2", 201), (7, "v2", 202))),
    Write(((0, "v3", 105), (1, "v3", 300), (10, "v3", 301))),
    Write(deleted=(5, 8)),
    Write(((4, "v5", 400), (9, "v5", 150), (11, "v5", 401))),
    Write(((3, "v6", 500), (7, "v6", 501), (6, "v6", 502))),
)
#: C lies between these commits of it; `test_cut.py` and `random_kills.py` look at all of them.
STRADDLING = range(4, 6)


#: Late updates that lose: key 1 in commit 1 and key 4 in commit 2 come with an event time below that of their row.
LOSING = (
    Write(((1, "v0", 100), (4, "v0", 100), (7, "v0", 100))),
    Write(((1, "lost", 50), (4, "v1", 150))),
    Write(((4, "lost", 120), (7, "v2", 300))),
)


@dataclass
class Oracle:
    """States after each commit under event-time ordering: key -> (value, event second, commit that wrote it)."""

    states: list[dict[int, tuple[str, int, int]]] = field(default_factory=list)
    written: list[dict[int, str]] = field(default_factory=list)
    history: tuple[Write, ...] = ()

    @classmethod
    def of(cls, history: tuple[Write, ...]) -> Oracle:
        oracle, state = cls(history=history), {}
        for number, write in enumerate(history):
            state = {key: row for key, row in state.items() if key not in write.deleted}
            for key, value, second in write.rows:
                if key not in state or second >= state[key][1]:
                    state[key] = (value, second, number)
            oracle.states.append(dict(state))
            oracle.written.append({key: value for key, value, _ in write.rows})
        return oracle

    def as_of(self, number: int) -> dict[int, str]:
        return {key: row[0] for key, row in self.states[number].items()}

    def rt(self) -> dict[int, str]:
        return self.as_of(len(self.states) - 1)

    def incremental(self, number: int) -> dict[int, str]:
        """Of one commit alone, by its own files: a late update that lost is in them too."""
        return self.written[number]

    def incremental_from(self, number: int, *, compacted: bool) -> dict[int, str]:
        """Of the commits from one on. Without a compaction among them they are merged with each other alone.

        A compaction merges with what was there before: rows that lost are gone then.
        """
        if compacted:
            return {key: row[0] for key, row in self.states[-1].items() if row[2] >= number}
        return Oracle.of(self.history[number:]).rt()

    def rt_up_to(self, second: int) -> dict[int, str]:
        return {key: row[0] for key, row in self.states[-1].items() if row[1] <= second}


class CommitOracle(Oracle):
    """States under commit-time ordering: the last write wins."""

    @classmethod
    def of(cls, history: tuple[Write, ...]) -> CommitOracle:
        oracle, state = cls(history=history), {}
        for number, write in enumerate(history):
            state = {key: row for key, row in state.items() if key not in write.deleted}
            state |= {key: (value, second, number) for key, value, second in write.rows}
            oracle.states.append(dict(state))
            oracle.written.append({key: value for key, value, _ in write.rows})
        return oracle


def write_history(spark, base: Path | str, history=HISTORY, options=None, first=0, schema=SCHEMA):
    """Write the commits with the stock writer; the one with number 0 makes the table."""
    for number, write in enumerate(history, start=first):
        rows = [(k, partition_of(k), v, EPOCH_MS + s * 1000) for k, v, s in write.rows]
        rows += [(k, partition_of(k), "", 0) for k in write.deleted]
        operation = "delete" if write.deleted else "upsert"
        spark.createDataFrame(rows, schema).coalesce(1).write.format("hudi").options(
            **{**WRITER, "hoodie.datasource.write.operation": operation, **(options or {})}
        ).mode("append" if number else "overwrite").save(str(base))


#: Options of `Views.read`.
READ_OPTIMIZED = {"hoodie__query__as__ro__table": "true"}
WITHOUT_METADATA_TABLE = {"hoodie__metadata__enable": "false"}


def incremental(after, until=None):
    """Options of an incremental query."""
    end = {"hoodie__datasource__read__end__instanttime": until} if until else {}
    begin = {"hoodie__datasource__read__begin__instanttime": after}
    return {"hoodie__datasource__query__type": "incremental", **begin, **end}


@dataclass
class Views:
    """Readers of one table by Spark and by hudi-rs."""

    spark: object
    base: Path | str
    column: str = "v"

    def frame(self, **options):
        """The rows of a view as Spark reads them, not yet read; `__` in an option's name is a dot."""
        named = {key.replace("__", "."): value for key, value in options.items()}
        return self.spark.read.format("hudi").options(**named).load(str(self.base))

    def read(self, **options):
        return self.read_all({"": self.frame(**options)})[""]

    def read_all(self, frames):
        """The values by key of each of several frames by name, some in one job of Spark: each task is sent all of its job."""
        from pyspark.sql.functions import lit

        parts = [frame.select(lit(name).alias("view"), "id", self.column) for name, frame in frames.items()]
        found = {name: [] for name in frames}
        for first in range(0, len(parts), 4):
            for row in reduce(lambda whole, part: whole.union(part), parts[first : first + 4]).collect():
                found[row.view].append((row.id, row[self.column]))
        for name, rows in found.items():
            assert len(dict(rows)) == len(rows), f"a key stands twice: {name} {sorted(rows)}"
        return {name: dict(rows) for name, rows in found.items()}

    def rt(self):
        return self.read()

    def rt_without_mdt(self):
        return self.read(**WITHOUT_METADATA_TABLE)

    def ro(self):
        return self.read(**READ_OPTIMIZED)

    def as_of(self, completed):
        return self.read(as__of__instant=completed)

    def incremental(self, after, until=None):
        """Of the commits that completed after a time, up to another where one is given."""
        return self.read(**incremental(after, until))

    def rust(self, *, read_optimized=False):
        from hudi import HudiReadOptions, HudiTable

        options = HudiReadOptions()
        if read_optimized:
            options = options.with_hudi_option("hoodie.read.use.read_optimized.mode", "true")
        rows = [
            row
            for batch in HudiTable(str(self.base), self.storage_options()).read(options)
            for row in batch.to_pylist()
        ]
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["v"] for row in rows}

    def storage_options(self):
        """How hudi-rs reaches the table."""
        return {}

    def delta_commits(self):
        """Completion times of the delta commits, oldest first."""
        return sorted(name.split(".")[0].split("_")[1] for name in self.timeline() if name.endswith(".deltacommit"))

    def timeline(self):
        """The names of the instants' files."""
        return [file.name for file in (self.base / ".hoodie" / "timeline").iterdir()]
