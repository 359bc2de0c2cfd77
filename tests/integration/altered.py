"""Tables that ALTER TABLE has changed, beside compactions. As a process under a bundle it plays them, and prints `passed`.

python -m tests.integration.altered FOLDER [--version-6]
"""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.spark.session import start_spark
from tests.integration.bench import Bench
from tests.integration.history import EPOCH_MS, QUICK, WRITER, Write, partition_of, write_history
from tests.integration.version6_kinds import BY_EVENT_TIME, VERSION_6

ON_READ = {"hoodie.schema.on.read.enable": "true"}
NO_METADATA_TABLE = {"hoodie.metadata.enable": "false"}
#: At second 200 the second and third commits are due, and the last is not.
HISTORY = (
    Write(tuple((key, "v0", key) for key in range(6))),
    Write(((1, "v1", 100), (2, "v1", 101))),
    Write(((1, "v2", 150), (4, "v2", 500))),
    Write(((1, "v3", 600), (5, "v3", 601))),
)
ROWS = [(0, "v0"), (1, "v3"), (2, "v1"), (3, "v0"), (4, "v2"), (5, "v3")]
#: The same once the older values of the column are hidden, and one row is written.
HIDDEN_ROWS = [(0, "new"), *((key, None) for key in range(1, 6))]
WRITTEN_ROWS = [(0, "new"), *ROWS[1:]]
SECOND, LATER = 200, 2000


def alter_table(spark, base, *statements, **options):
    """What someone does by Spark SQL with schema on read, and options of the table's writers."""
    settings = {**ON_READ, "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true", **options}
    for key, value in settings.items():
        spark.sql(f"SET {key}={value}")
    spark.sql(f"CREATE TABLE altered USING hudi LOCATION '{base}'")
    try:
        for statement in statements:
            spark.sql(f"ALTER TABLE altered {statement}")
    finally:
        spark.sql("DROP TABLE altered")
        for key in settings:
            spark.sql(f"RESET {key}")


@dataclass
class Altered(Bench):
    """A table and its steps, `options` being its writers'; log files are carried where there is no cut."""

    options: dict[str, str] = field(default_factory=dict)

    @property
    def policy(self):
        policy = super().policy
        return policy.model_copy(update={"strategy": policy.strategy.model_copy(update={"carry": "auto"})})

    def state(self):
        return fill_from_logs(super().state(), self.policy, None)

    def alter(self, *statements):
        """It lies so far back that a plan made at once may come after it."""
        alter_table(self.spark, self.base, *statements, **self.options)
        time.sleep(MAX_CLOCK_SKEW_MS / 1000)

    def write_row(self, column="vv", *added, **options):
        """One row, with columns that were added; by a writer without schema on read if nothing else is said."""
        row = [(0, partition_of(0), "new", EPOCH_MS + 1_000_000)]
        frame = self.spark.createDataFrame(row, f"id int, p string, {column} string, ts long").coalesce(1)
        frame = frame.selectExpr("*", *(f"'x' AS {one}" for one in added))
        given = {**WRITER, **self.options, "hoodie.datasource.write.operation": "upsert", **options}
        frame.write.format("hudi").options(**given).mode("append").save(str(self.base))

    def compact_by_stock(self, op, options="hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"):
        path = f"path => '{self.base}', options => '{options}'"
        return self.spark.sql(f"CALL run_compaction(op => '{op}', {path})").collect()

    def rows(self, column, **options):
        read = self.spark.read.format("hudi").options(**ON_READ, **options).load(str(self.base))
        return sorted((row.id, row[column]) for row in read.select("id", column).collect())

    def both(self, column="vv"):
        return [self.rows(column), self.rows(column, **NO_METADATA_TABLE)]

    def promised(self, column, second=SECOND):
        """What RO holds of the rows with an event at or below T."""
        read = self.spark.read.format("hudi").options(**ON_READ, **{"hoodie.query.as.ro.table": "true"})
        view = read.load(str(self.base)).where(f"ts <= {EPOCH_MS + second * 1000}")
        return sorted((row.id, row[column]) for row in view.select("id", column).collect())

    def copied(self, name):
        base = shutil.copytree(self.base, self.base.with_name(name))
        return type(self)(self.spark, Path(base), options=self.options)


def make(spark, base, options=None) -> Altered:
    given = {**QUICK, **NO_METADATA_TABLE, **(options or {})}
    write_history(spark, base, HISTORY, options={**given, **ON_READ})
    return Altered(spark, base, options=given)


def play(table: Altered) -> None:
    """Renamed before a compaction, while a plan is pending, and hidden by a later write: all values stay, or come back."""
    table.alter("RENAME COLUMN v TO vv")
    assert table.both() == [ROWS, ROWS]
    pending, hidden = table.copied("pending"), table.copied("hidden")
    plan = table.plan(SECOND)
    assert any(one.carried for one in plan.tables[0].operations) == (table.state().table_version == 6)
    assert table.apply(plan).status == "compacted"
    assert table.both() == [ROWS, ROWS]
    assert [row for row in table.promised("vv") if row[0] in (0, 2, 3)] == [ROWS[0], *ROWS[2:4]]
    table.alter("RENAME COLUMN vv TO vvv")
    assert table.both("vvv") == [ROWS, ROWS]
    table.write_row("vvv", **ON_READ)
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    assert table.apply(table.plan(LATER)).status == "compacted"
    assert table.both("vvv") == [WRITTEN_ROWS, WRITTEN_ROWS] == [table.promised("vvv", LATER)] * 2
    pending.publish(pending.plan(SECOND))
    pending.alter("RENAME COLUMN vv TO vvv")
    assert pending.runner.finish_pending(pending.policy, pending.location) is None
    assert pending.both("vvv") == [ROWS, ROWS]
    hidden.write_row()
    assert hidden.both() == [HIDDEN_ROWS, HIDDEN_ROWS]
    assert hidden.plan(LATER).tables[0].reason_code == "schema_hidden"
    hidden.alter("ADD COLUMNS(w string)")
    assert hidden.both() == [WRITTEN_ROWS, WRITTEN_ROWS]
    assert hidden.apply(hidden.plan(LATER)).status == "compacted"
    assert hidden.both() == [WRITTEN_ROWS, WRITTEN_ROWS] == [hidden.promised("vv", LATER)] * 2


def main(folder: Path, options: dict[str, str]) -> None:
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, folder / "spark.log")
    play(make(spark, folder / "t", options))
    spark.stop()
    print("passed")


if __name__ == "__main__":
    main(Path(sys.argv[1]), {**VERSION_6, **BY_EVENT_TIME} if sys.argv[2:] == ["--version-6"] else {})
