"""The demo: real flights in a table of its own, and what its views and its catalog hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from etc_policy.adapters.demo.flights import DEMO_NOW_MS, Batch, demo_batches
from etc_policy.adapters.demo.table import describe_views, drop_tables, write_demo_table
from etc_policy.adapters.spark.local_catalog import spark_sql_command
from etc_policy.compile.manifest import Policy
from etc_policy.compile.writer_options import writer_options
from etc_policy.declare.secrets import with_values
from etc_policy.publish.views import ViewRows


class Sessions(Protocol):
    """Whoever starts Spark for the demo; each property gives the session that fits."""

    @property
    def progress(self) -> Callable[[str], None]:
        """Says what is being done."""

    @property
    def spark(self) -> Any:  # noqa: ANN401 - a SparkSession
        """A session for tables by their paths."""

    @property
    def catalog_spark(self) -> Any:  # noqa: ANN401 - as above
        """A session with the catalog."""

    @property
    def local_catalog(self) -> Path:
        """The folder of the catalog of this machine."""


@dataclass(frozen=True)
class Demo:
    """The demo's table: real flights, written by the stock writer with the options that the policy asks for."""

    sessions: Sessions
    policy: Policy

    @property
    def now_ms(self) -> int:
        """The moment at which the demo plans."""
        return DEMO_NOW_MS

    @property
    def description(self) -> str:
        """What is written."""
        return "status events of the flights out of New York on 2013-01-01 and 02 with their real delays"

    def write(self) -> None:
        """Write the commits, replacing an earlier demo table; the last one makes the tables in the catalog."""

        def on_commit(number: int, total: int, batch: Batch) -> None:
            self.sessions.progress(f"commit {number} of {total}: {len(batch.rows):,} events, {batch.name}")

        options = with_values(writer_options(self.policy), os.environ)
        names = self._names
        spark = self.sessions.spark if names is None else self.sessions.catalog_spark
        drop_tables(spark, names)
        write_demo_table(spark, self.policy.table, demo_batches(), on_commit, options, names)

    def views(self, threshold_ms: int) -> ViewRows:
        """What both views hold now."""
        found = describe_views(self.sessions.spark, self.policy.table, threshold_ms)
        return ViewRows(threshold_ms, found.ro.all_rows, found.rt.all_rows, found.missing_in_ro)

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
