"""A stock writer of the soak in a process of its own: writes the batches that it is given, and keeps a journal."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from tests.integration.history import QUICK, WRITER
from tests.integration.soak_batches import Batch, partition_of
from tests.integration.soak_places import start_spark_at
from tests.integration.stock_writer import reason

SCHEMA = "id int, p string, v string, ts long, _hoodie_is_deleted boolean"
SPARK = {
    "spark.master": "local[1]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
}
INDEXES = {
    "simple": {"hoodie.index.type": "SIMPLE"},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "global_simple": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "global_bloom": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "bucket": {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.bucket.index.hash.field": "id",
    },
    "record": {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"},
}
SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.client.heartbeat.interval_in_ms": "3000",
    "hoodie.client.heartbeat.tolerable.misses": "3",
}


def services(seed: int, *, cleans: bool) -> dict[str, str]:
    """Cleaning, archiving and compaction of the metadata table, as often as Hudi lets them; one writer alone cleans.

    Two that carry out one pending clean break the metadata table of stock Hudi (facts: two-cleaning-writers). Column
    statistics, which have no part in this and double a batch's time, are kept for every fourth seed.
    """
    statistics = "true" if seed % 4 == 0 else "false"
    return {
        "hoodie.metadata.index.column.stats.enable": statistics,
        "hoodie.metadata.index.partition.stats.enable": statistics,
        "hoodie.clean.automatic": "true" if cleans else "false",
        "hoodie.clean.commits.retained": str(1 + seed % 2),
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "6",
        "hoodie.metadata.compact.max.delta.commits": str(3 + seed % 3),
        "hoodie.embed.timeline.server": "true" if seed % 4 >= 2 else "false",
    }


def options(index: str, seed: int, *, cleans: bool) -> dict[str, str]:
    return {**WRITER, **QUICK, **SHARED, **services(seed, cleans=cleans), **INDEXES[index]}


def clean(spark, location: str, chosen: dict[str, str]) -> None:
    """The stock cleaner, once, by a process that writes nothing."""
    spark.sql(f"CREATE TABLE IF NOT EXISTS cleaned USING hudi LOCATION '{location}'")
    wanted = {**SHARED, **chosen, "hoodie.clean.automatic": "true"}
    given = ",".join(f"{key}={value}" for key, value in wanted.items() if key.startswith("hoodie."))
    retained = chosen["hoodie.clean.commits.retained"]
    spark.sql(f"CALL run_clean(table => 'cleaned', retain_commits => {retained}, options => '{given}')").collect()


def save(spark, location: str, batch: Batch, chosen: dict[str, str], writers: int) -> None:
    """One stock write; its name goes into the commit's metadata."""
    rows = [(row.key, partition_of(row.key, writers), row.value, row.event_ms, row.deleted) for row in batch.rows]
    rows += [(key, partition_of(key, writers), "", 0, False) for key in batch.deleted_keys]
    operation = "delete" if batch.deleted_keys else "upsert"
    spark.createDataFrame(rows, SCHEMA).coalesce(1).write.format("hudi").options(
        **{**chosen, "hoodie.datasource.write.operation": operation, "_batch": batch.name}
    ).mode("append").save(location)


def first_and_last(error: Exception) -> str:
    """What Hudi said first, and the last of its causes."""
    causes = [
        line.removeprefix("Caused by: ")[:200] for line in str(error).splitlines() if line.startswith("Caused by")
    ]
    return " < ".join((reason(error), *causes[-1:]))


class JournalWriter:
    """Appends entries that are on disk when the call returns; what a killed predecessor cut short stays a line of its own."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def append(self, what: str, **fields) -> None:
        os.write(self._handle, (json.dumps({"what": what, **fields}) + "\n").encode())
        os.fsync(self._handle)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("location")
    parser.add_argument("journal", type=Path)
    parser.add_argument("--index", choices=INDEXES, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--writers", type=int, required=True)
    parser.add_argument("--cleans", action="store_true")
    parser.add_argument("--options", type=json.loads, required=True, help="more for Hudi, its lock among them")
    parser.add_argument("--confs", type=json.loads, required=True, help="more for Spark")
    arguments = parser.parse_args()
    chosen = {**options(arguments.index, arguments.seed, cleans=arguments.cleans), **arguments.options}
    confs = {**SPARK, **arguments.confs}
    spark = start_spark_at(arguments.location, confs, arguments.journal.with_suffix(".log"))
    journal = JournalWriter(arguments.journal)
    journal.append("ready")
    for line in sys.stdin:
        fields = json.loads(line)
        journal.append("attempt", batch=fields)
        try:
            batch = Batch.of(fields)
            if batch.cleans:
                clean(spark, arguments.location, chosen)
            else:
                save(spark, arguments.location, batch, chosen, arguments.writers)
        except Exception as error:
            journal.append("failed", name=fields["name"], reason=first_and_last(error))
        else:
            journal.append("acknowledged", name=fields["name"])
    spark.stop()


if __name__ == "__main__":
    main()
