"""Stock Hudi: no restore to a savepoint that is older than a compaction which ran beside a writer, and then no write."""

from pathlib import Path

from stock import Table, root_cause, start_spark

POLICY = "hoodie.clean.failed.writes.policy"


def play(spark, beside_a_writer):
    """The table after a savepoint, a write, and a compaction: with another write while it is scheduled, or none."""
    table = Table(spark)
    table.write((1, "saved", 1), operation="insert")
    saved = table.last_commit()
    table.call(f"create_savepoint(path => '{table.path}', commit_time => '{saved}')")
    table.write((1, "second", 2))
    table.compact("schedule")
    if beside_a_writer:
        table.write((1, "third", 3))
    table.compact("run")
    return table, saved


def attempt(title, action):
    try:
        action()
    except Exception as error:
        print(f"  {title}: {root_cause(error).splitlines()[0]}", flush=True)


def restore(table, saved):
    attempt(
        "rollback_to_savepoint",
        lambda: table.call(f"rollback_to_savepoint(path => '{table.path}', instant_time => '{saved}')"),
    )


def show_pending(table):
    """The files of rollbacks and restores on the timeline, without their instants."""
    names = [file.name.partition(".")[2] for file in Path(table.path, ".hoodie", "timeline").iterdir()]
    print(f"  on the timeline: {sorted(name for name in names if name.startswith(('rollback', 'restore')))}")


if __name__ == "__main__":
    spark = start_spark()
    print("right: no write between schedule and run")
    table, saved = play(spark, beside_a_writer=False)
    restore(table, saved)
    table.views()
    print("\na write between schedule and run")
    table, saved = play(spark, beside_a_writer=True)
    restore(table, saved)
    show_pending(table)
    attempt("upsert", lambda: table.write((1, "fourth", 4)))
    table.views()
    print(f"\nthe same table, with SET {POLICY}=LAZY")
    spark.sql(f"SET {POLICY}=LAZY")
    restore(table, saved)
    table.views()
    show_pending(table)
    spark.sql(f"RESET {POLICY}")
    table.write((1, "fourth", 4))
    table.views()
