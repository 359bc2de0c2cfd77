"""The demo: real flights in a table of its own, and what its views and its catalog hold."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from etc_policy.demo.flights import DEMO_DAYS, Batch, StatusEvent, data_folder, demo_batches, read_flights
from etc_policy.demo.played_clock import PlayedClock
from etc_policy.gx.verifier import require_great_expectations
from etc_policy.policy.manifest import Policy
from etc_policy.policy.secrets import with_values
from etc_policy.policy.writers import writer_options
from etc_policy.report.views import AsOfRows, ViewRows
from etc_policy.spark.java_runtime import pyspark_folder, use_java
from etc_policy.spark.local_catalog import spark_sql_command
from etc_policy.table.formats import count_of

TABLE_NAME = "flights"

#: File groups per partition: the first insert is written by this many Spark tasks.
FILE_GROUPS = 1

#: How often etc runs in the time that is played, and how long after a commit.
RUN_EVERY_MS, RUN_AFTER_MS = 6 * 3_600_000, 600_000

#: The table's columns, named as the fields of `StatusEvent`, and their Spark types.
_COLUMNS = {
    "flight_id": "string",
    "day": "string",
    "event_time_ms": "long",
    "status": "string",
    "carrier": "string",
    "flight": "int",
    "tailnum": "string",
    "origin": "string",
    "dest": "string",
    "dep_delay_minutes": "int",
    "arr_delay_minutes": "int",
    "distance": "int",
}

_EVENT_TIME = [*_COLUMNS].index("event_time_ms")
READ_OPTIMIZED = {"hoodie.query.as.ro.table": "true"}

#: `hoodie.table.type` too: without it Hudi 1.2.0 records a bulk insert as `commit`, the action of a finished compaction. The
#: services after each commit have nothing to do in three days.
WRITER_OPTIONS = {
    "hoodie.table.name": TABLE_NAME,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "flight_id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.precombine.field": "event_time_ms",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.payload.event.time.field": "event_time_ms",
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
    "hoodie.datasource.compaction.async.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.bulkinsert.shuffle.parallelism": str(FILE_GROUPS),
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.upsert.shuffle.parallelism": "1",
}


def require_installed() -> None:
    """Return if Spark, Java, Great Expectations and the flights are here; EngineError otherwise. Nothing is started."""
    pyspark_folder()
    use_java()
    require_great_expectations()
    data_folder()


class Sessions(Protocol):
    """Whoever starts Spark for the demo; each property gives the session that fits."""

    @property
    def progress(self) -> Callable[[str], None]:
        """Says what is being done."""

    @property
    def spark(self) -> Any:
        """A session for tables by their paths."""

    @property
    def catalog_spark(self) -> Any:
        """A session with the catalog."""

    @property
    def local_catalog(self) -> Path:
        """The folder of the catalog of this machine."""


@dataclass(frozen=True)
class Demo:
    """The demo's table: some days of real flights, written by the stock writer with the options that the policy asks for.

    They are dated so that the last commit comes at `now_ms`.
    """

    sessions: Sessions
    policy: Policy
    now_ms: int
    days: int

    @property
    def description(self) -> str:
        """What is written."""
        return f"{count_of(self.days, 'day')} of flights out of New York with their real delays (of March 2013, dated up to now)"

    def play(self, run: Callable[[int], None]) -> None:
        """Write all commits but the last, replacing an earlier demo table, with a `run` of etc every few hours.

        Each is at its own time; `run` is called with it (epoch milliseconds). The first commit makes the tables in the catalog.
        """
        names, spark = self._names, self._spark
        drop_tables(spark, names)
        clock = PlayedClock(spark._jvm, self.policy.table)
        first, *others = self._stream[:-1]
        clock.set(first.arrived_until_ms)
        self._write(first, "bulk_insert", {} if names is None else hive_sync_options(*names))
        for batch in others:
            clock.set(batch.arrived_until_ms)
            self._write(batch, "upsert")
            if (self.now_ms - batch.arrived_until_ms) % RUN_EVERY_MS == 0:
                at_ms = batch.arrived_until_ms + RUN_AFTER_MS
                clock.set(at_ms)
                run(at_ms)
        clock.close()

    def go_on(self) -> None:
        """Write the last commit."""
        self._write(self._stream[-1], "upsert")

    def _write(self, batch: Batch, operation: str, more: Mapping[str, str] | None = None) -> None:
        """One commit; a bulk insert replaces the table, and fills base files."""
        self.sessions.progress(f"writing {len(batch.rows):,} events, {batch.name}")
        schema = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        rows = [_values(row) for row in batch.rows]
        frame, mode = self._spark.createDataFrame(rows, schema), "append"
        if operation == "bulk_insert":
            frame, mode = frame.repartition(FILE_GROUPS, "flight_id"), "overwrite"
        options = {
            **WRITER_OPTIONS,
            "hoodie.datasource.write.operation": operation,
            **with_values(writer_options(self.policy), os.environ),
            **(more or {}),
        }
        frame.write.format("hudi").options(**options).mode(mode).save(self.policy.table)

    @cached_property
    def _stream(self) -> list[Batch]:
        return demo_batches(read_flights(DEMO_DAYS), datetime.fromtimestamp(self.now_ms / 1000, UTC), self.days)

    @property
    def _spark(self) -> Any:
        return self.sessions.spark if self._names is None else self.sessions.catalog_spark

    def views(self, threshold_ms: int) -> ViewRows:
        """What RO and RT show now, and how many rows RO lacks of those that RT has at or below the threshold.

        A row counts as shown only when all its values are the same.
        """
        read, columns = self.sessions.spark.read.format("hudi"), list(_COLUMNS)
        rt = read.load(self.policy.table)
        ro = read.options(**READ_OPTIMIZED).load(self.policy.table)
        due = rt.where(rt.event_time_ms <= threshold_ms).select(columns)
        return ViewRows(threshold_ms, _counts(ro), _counts(rt), due.subtract(ro.select(columns)).count())

    def copied(self, policy: Policy) -> Policy:
        """The policy on a copy of the demo's table, beside it, that replaces an earlier one."""
        source = Path(self.policy.table)
        copy = source.with_name(f"{source.name}_{policy.strategy.granularity}")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
        return policy.model_copy(update={"table": str(copy)})

    def as_of(self, table: str, threshold_ms: int) -> AsOfRows:
        """What RO of a table holds beside the demo's commits: of each flight the newest of their rows up to the threshold.

        Of a flight's events in one batch a commit has the newest alone: Hudi merges a batch before it writes it.
        """
        events = (row for batch in self._stream for row in _newest(batch.rows))
        then = {
            row.flight_id: _values(row) for row in _newest(one for one in events if one.event_time_ms <= threshold_ms)
        }
        ro = self.sessions.spark.read.format("hudi").options(**READ_OPTIMIZED).load(table).select(list(_COLUMNS))
        rows = [tuple(row) for row in ro.collect()]
        as_then = len({*rows} & {*then.values()})
        later = sum(row[_EVENT_TIME] > threshold_ms for row in rows)
        return AsOfRows(len(then), len(rows), as_then, later)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """What SQL on the catalog's tables answers."""
        return [tuple(row) for row in self.sessions.catalog_spark.sql(sql).collect()]

    def sql_command(self, sql: str) -> str:
        """A command for the shell that asks the local catalog the same."""
        return spark_sql_command(self.sessions.local_catalog, sql)

    @property
    def _names(self) -> tuple[str, str] | None:
        """Database and table of the catalog, from `db.table_ro` in the policy."""
        if self.policy.sync.ro_table is None:
            return None
        database, table = self.policy.sync.ro_table.split(".")
        return database, table.removesuffix("_ro")


def _newest(events: Iterable[StatusEvent]) -> Iterable[StatusEvent]:
    """The newest event of each flight."""
    return {row.flight_id: row for row in sorted(events, key=attrgetter("event_time_ms"))}.values()


def _values(row: StatusEvent) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in _COLUMNS)


def hive_sync_options(database: str, table: str) -> dict[str, str]:
    """The writer's options for `table`, `table_ro` and `table_rt` in the catalog (facts: hive-sync-modes)."""
    return {
        "hoodie.datasource.meta.sync.enable": "true",
        "hoodie.datasource.hive_sync.enable": "true",
        "hoodie.datasource.hive_sync.mode": "hms",
        "hoodie.datasource.hive_sync.database": database,
        "hoodie.datasource.hive_sync.table": table,
        "hoodie.datasource.hive_sync.partition_fields": WRITER_OPTIONS["hoodie.datasource.write.partitionpath.field"],
    }


def drop_tables(spark: Any, names: tuple[str, str] | None) -> None:
    """Take an earlier demo's tables out of the catalog, so that no property outlives its table; makes the database.

    Spark opens the catalog by this first: Hudi's own client does not make a new one's schema (facts: derby-schema).
    """
    if names is None:
        return
    database, table = names
    spark.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
    for suffix in ("", "_ro", "_rt"):
        spark.sql(f"DROP TABLE IF EXISTS `{database}`.`{table}{suffix}`")


def _counts(frame: Any) -> dict[str, int]:
    return {row["status"]: row["count"] for row in frame.groupBy("status").count().collect()}
