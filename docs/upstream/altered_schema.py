"""Stock Hudi: a compaction that was scheduled before a table's first ALTER TABLE loses the values of renamed columns."""

from pathlib import Path

from stock import Table, start_spark

ON_READ = {"hoodie.schema.on.read.enable": "true"}
COLUMNS = "id int, v string, n int, ts long"


def play(spark, *statements, altered_before=False, scheduled_before=True):
    """Two commits, a compaction and ALTER TABLE, with the views before and after the compaction."""
    table = Table(spark, **ON_READ)
    table.write((1, "first", 1, 1), (2, "first", 1, 1), operation="insert", columns=COLUMNS)
    if altered_before:
        alter(table, "ALTER COLUMN n COMMENT 'a number'")
    table.write((1, "second", 2, 2), columns=COLUMNS)
    if scheduled_before:
        table.compact("schedule")
    alter(table, *statements)
    table.views()
    table.compact("run" if scheduled_before else "scheduleAndExecute")
    table.views()
    show_base_file(table)


def alter(table, *statements):
    table.spark.sql(f"CREATE TABLE t USING hudi LOCATION '{table.path}'")
    for statement in statements:
        table.spark.sql(f"ALTER TABLE t {statement}")
        print(f"  ALTER TABLE t {statement}", flush=True)
    table.spark.sql("DROP TABLE t")


def show_base_file(table):
    """The newest base file as Parquet has it, without Hudi."""
    newest = max(Path(table.path).glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    frame = table.spark.read.parquet(str(newest))
    shown = frame.select(*(name for name in frame.columns if not name.startswith("_hoodie_")))
    types = ", ".join(f"{name} {kind}" for name, kind in shown.dtypes)
    print(f"  new base file:  {types}: {sorted((tuple(row) for row in shown.collect()), key=str)}\n", flush=True)


if __name__ == "__main__":
    spark = start_spark()
    for key in (*ON_READ, "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"):
        spark.sql(f"SET {key}=true")
    print("right: scheduled after the ALTER TABLE")
    play(spark, "RENAME COLUMN v TO w", scheduled_before=False)
    print("scheduled before a column is renamed")
    play(spark, "RENAME COLUMN v TO w")
    print("scheduled before a column's type is changed")
    play(spark, "ALTER COLUMN n TYPE BIGINT")
    print("scheduled before a column is dropped and another of its name added")
    play(spark, "DROP COLUMN v", "ADD COLUMNS(v STRING)")
    print("right: the table was altered before, so that the last commit before the compaction has a schema to merge by")
    play(spark, "RENAME COLUMN v TO w", altered_before=True)
