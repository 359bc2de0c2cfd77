"""Every index of Hudi, kept by a compaction of etc as by one of the writers' own client. As a command, on each table version:

python -m tests.integration.index_play [--version 9 8 6] [--predicates 200]
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import operator
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from pathlib import Path

from etc_policy.spark.bundles import release_of
from etc_policy.spark.hudi_client import takes_write_metadata
from etc_policy.spark.session import start_spark
from tests.integration.bench import Bench
from tests.integration.history import EPOCH_MS, QUICK, partition_of
from tests.integration.session import stop_spark

#: More columns than Hudi keeps statistics of where nobody chooses (32), so that those that are chosen are not among them.
NUMBERS = [f"c{number}" for number in range(40)]
SCHEMA = (
    "id int, p string, ts long, "
    + ", ".join(f"{name} long" for name in NUMBERS)
    + ", name string, amount decimal(12,2), day date, at timestamp, ratio double, s struct<x: int, y: string>"
)
CHOSEN = ("c38", "name", "amount", "day", "at", "s.x")
#: Columns with and without statistics, and the key, for which there is a record index.
OF_STATISTICS = (*CHOSEN, "c0", "c20", "c39", "ratio", "s.y")
QUERIED = ("id", *OF_STATISTICS)
#: What the writers decide alone: which columns have statistics, codec, and kind and size of bloom filters.
WRITER = {
    **QUICK,
    "hoodie.embed.timeline.server": "true",
    "hoodie.table.name": "indexed",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "1000",
    "hoodie.parquet.compression.codec": "zstd",
}
#: An expression index by bloom filters is not among them: with log files stock writers of 1.2.0 fail after it
#: (facts: expression-bloom-index).
SQL_INDEXES = (
    "CREATE INDEX by_name ON indexed (name)",
    "CREATE INDEX day_of_ts ON indexed USING column_stats(ts) OPTIONS(expr='from_unixtime', format='yyyy-MM-dd')",
)
KEYS = range(30)
#: Which rows each write has, and by how much it moves their values.
FIRST, LATER = (range(0, 30, 2), 3_000), (range(1, 30, 3), 9_000)

_OF_NAMES = re.compile(r"_[0-9]+-[0-9]+-[0-9]+_20[0-9]{15}|20[0-9]{15}")
#: What of an index record is about names, times and sizes.
_LEFT_OUT = ("key", "type", "timestamp", "instantTime", "size", "totalSize", "totalUncompressedSize")
_TESTS: Mapping[str, Callable] = {"=": operator.eq, "<=": operator.le, ">=": operator.ge}


def row_of(key: int, moved: int) -> tuple:
    """A row of the table; its values differ from those of other rows and writes."""
    second = key * 7 + moved
    day = dt.date(2024, 1, 1) + dt.timedelta(days=second % 300)
    at = dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=second)
    numbers = tuple(second * 100 + number for number in range(len(NUMBERS)))
    struct = (second % 17, f"y{second}")
    others = (f"Name-{second % 50}", Decimal(second) / 4, day, at, second / 3, struct)
    return (key, partition_of(key), EPOCH_MS + second * 1000, *numbers, *others)


@dataclass
class IndexedTable:
    """A table whose writers have indexes of every kind."""

    spark: object
    base: Path
    version: int = 9
    sql: tuple[str, ...] = ()
    options: dict = field(default_factory=dict)

    @property
    def writer(self) -> dict[str, str]:
        older = {"hoodie.write.table.version": str(self.version), "hoodie.write.auto.upgrade": "false"}
        return {**WRITER, **self._chosen, **(older if self.version < 9 else {}), **self.options}

    @property
    def _chosen(self) -> dict[str, str]:
        """Which columns have statistics: a writer of 1.0 fails on those of a struct (facts: stats-of-struct-fields)."""
        is_old = str(release_of(self.spark._jvm)).startswith("1.0.")
        chosen = [name for name in CHOSEN if not (is_old and "." in name)]
        return {"hoodie.metadata.index.column.stats.column.list": ",".join(chosen)}

    @property
    def bench(self) -> Bench:
        return Bench(self.spark, self.base, "file_slice", index="simple")

    def write(self, keys, moved, **options) -> None:
        frame = self.spark.createDataFrame([row_of(key, moved) for key in keys], SCHEMA).coalesce(1)
        frame.write.format("hudi").options(**{**self.writer, **options}).mode("append").save(str(self.base))

    def make(self) -> None:
        """Base files, the indexes, and log files."""
        self.write(KEYS, 0)
        if self.sql:
            self._index_by_sql()
        self.write(*FIRST)

    def _index_by_sql(self) -> None:
        self.spark.sql(f"CREATE TABLE indexed USING hudi LOCATION '{self.base}'")
        lock = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
        self.spark.sql(f"SET hoodie.write.lock.provider={lock}")
        try:
            for statement in self.sql:
                self.spark.sql(statement)
        finally:
            self.spark.sql("RESET hoodie.write.lock.provider")
            self.spark.sql("DROP TABLE indexed")

    def compact(self) -> None:
        """By etc; what was written just now is too young for a plan."""
        time.sleep(0.5)
        plan = self.bench.plan(second=1_000_000)
        assert plan.tables[0].action == "compact", plan.tables[0].reason
        assert self.bench.apply(plan).status == "compacted"

    def compact_by_stock(self, options: Mapping[str, str] | None = None) -> None:
        """By a stock client, with the writers' own options or others."""
        jvm, given = self.spark._jvm, self.spark._jvm.java.util.HashMap()
        chosen = self.writer if options is None else options
        for key, value in {**chosen, "hoodie.compact.inline.max.delta.commits": "1"}.items():
            given.put(key, value)
        none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
        create = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
        client = create(self.spark._jsparkSession, str(self.base), jvm.PythonUtils.toScalaMap(given), none)
        empty = jvm.org.apache.hudi.common.util.Option.empty()
        try:
            instant = client.scheduleCompaction(empty).get()
            result = client.compact(instant)
            client.commitCompaction(
                instant, result if takes_write_metadata(client) else result.getCommitMetadata().get(), empty
            )
        finally:
            client.close()

    def copy(self, target: Path) -> IndexedTable:
        shutil.copytree(self.base, target)
        return IndexedTable(self.spark, target, self.version, self.sql, self.options)

    def index_records(self) -> dict[int, list[str]]:
        """What the metadata table says, by kind of record (3: column statistics, 4: bloom filters), without names and times."""
        found: dict[int, list[str]] = {}
        for row in self.spark.read.format("hudi").load(f"{self.base}/.hoodie/metadata").collect():
            said = {name: value for name, value in row.asDict(recursive=True).items() if not name.startswith("_hoodie")}
            found.setdefault(said["type"], []).append(json.dumps(_plain(said), sort_keys=True, default=str))
        return {kind: sorted(records) for kind, records in found.items()}

    def view(self, kind: str, *, skips_data: bool):
        reader = self.spark.read.format("hudi").option("hoodie.datasource.query.type", kind)
        return reader.option("hoodie.enable.data.skipping", str(skips_data).lower()).load(str(self.base))

    def faults_of_skipping(self, predicates: int, seed: int, columns: tuple[str, ...] = QUERIED) -> list[str]:
        """Predicates drawn from the rows for which data skipping finds other keys than there are."""
        from pyspark.sql import functions as F

        rng = random.Random(seed)
        faults = []
        for kind in ("snapshot", "read_optimized"):
            rows = [row.asDict(recursive=True) for row in self.view(kind, skips_data=False).collect()]
            drawn = [_predicate(rng, rows, columns) for _ in range(predicates)]
            for first in range(0, predicates, 25):
                part = list(enumerate(drawn[first : first + 25], first))
                frames = [
                    self.view(kind, skips_data=True)
                    .where(reduce(operator.and_, (_column(*term) for term in terms)))
                    .select("id", F.lit(number).alias("n"))
                    for number, terms in part
                ]
                found = {(row.n, row.id) for row in reduce(lambda a, b: a.union(b), frames).collect()}
                for number, terms in part:
                    expected = {row["id"] for row in rows if all(_holds(row, *term) for term in terms)}
                    got = {key for n, key in found if n == number}
                    if got != expected:
                        faults.append(f"{kind}: {terms}: {sorted(got)} instead of {sorted(expected)}")
        return faults


def _plain(value):
    if isinstance(value, dict):
        return {_plain(name): _plain(one) for name, one in value.items() if name not in _LEFT_OUT and one is not None}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return f"{len(value)} bytes {hashlib.sha256(bytes(value)).hexdigest()[:8]}"
    return _OF_NAMES.sub("_X", value) if isinstance(value, str) else value


def _predicate(rng: random.Random, rows, columns) -> list[tuple[str, str, object]]:
    """One to three conditions that hold of a row."""
    row = rng.choice(rows)
    return [
        (one, rng.choice(("=", "=", "<=", ">=")), _value(row, one)) for one in rng.sample(columns, rng.randint(1, 3))
    ]


def _value(row, column):
    head, _, rest = column.partition(".")
    return row[head][rest] if rest else row[head]


def _holds(row, column, test, value) -> bool:
    return _TESTS[test](_value(row, column), value)


def _column(column, test, value):
    from pyspark.sql import functions as F

    return _TESTS[test](F.col(column), F.lit(value))


def play(spark, root: Path, version: int, predicates: int) -> list[str]:
    """What goes wrong on a table of a version, from before a compaction by etc to after later writes."""
    table = IndexedTable(spark, root / f"version-{version}", version, SQL_INDEXES if version >= 8 else ())
    table.make()
    faults = [f"before: {one}" for one in table.faults_of_skipping(predicates, seed=1)]
    definitions = table.base / ".hoodie" / ".index_defs" / "index.json"
    defined, properties = definitions.read_text(), table.bench.properties()
    control = table.copy(root / f"control-{version}")
    control.compact_by_stock()
    table.compact()
    if (definitions.read_text(), table.bench.properties()) != (defined, properties):
        faults.append("index definitions or properties have changed")
    ours, stock = table.index_records(), control.index_records()
    faults += [
        f"records of kind {kind} differ: {set(ours.get(kind, ())) ^ set(stock.get(kind, ()))}"[:2_000]
        for kind in sorted({*ours, *stock})
        if ours.get(kind) != stock.get(kind)
    ]
    faults += [f"after: {one}" for one in table.faults_of_skipping(predicates, seed=2)]
    table.write(*LATER)
    faults += [f"after a later write: {one}" for one in table.faults_of_skipping(predicates, seed=3)]
    return faults


def main() -> int:
    """Plays every version; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", type=int, nargs="+", default=[9, 8, 6])
    parser.add_argument("--predicates", type=int, default=200)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="indexes-"))
    spark, wrong = start_spark({"spark.sql.shuffle.partitions": "2"}, root / "spark.log"), 0
    try:
        for version in given.version:
            began = time.monotonic()
            faults = play(spark, root, version, given.predicates)
            wrong += len(faults)
            print(
                f"version {version}: {len(faults) or 'no'} faults, {time.monotonic() - began:.0f} s",
                *faults[:20],
                sep="\n  ",
                flush=True,
            )
    finally:
        stop_spark(spark)
        shutil.rmtree(root, ignore_errors=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
