"""Stock Hudi: a delete that is compacted away from a later upsert of its key leads to two rows of one key.

No failure, no retry and no second writer: one writer, and a compaction that is scheduled, then run later.
"""

from stock import Table, start_spark

COMPACT_ALL = "options => 'hoodie.compact.inline.max.delta.commits=1'"


def play(spark, **options):
    """The table after the steps, and how often key 1 is in it."""
    table = Table(spark, **options)
    table.write((1, "first", 1), (2, "other", 1), operation="insert")
    table.write((1, "", 2), operation="delete")
    (scheduled,) = table.call(f"run_compaction(op => 'schedule', path => '{table.path}', {COMPACT_ALL})")
    table.write((1, "again", 3))
    table.call(f"run_compaction(op => 'run', path => '{table.path}', timestamp => {scheduled[0]})")
    table.show("snapshot, right")
    table.write((1, "once more", 4))
    return table, rows_of_key_1(table.show("snapshot"))


def mend(table):
    """Deletes the key, compacts the delete into every base file, and only then inserts the row that is right."""
    print("mended: compacted, deleted, compacted again, inserted", flush=True)
    compact = f"run_compaction(op => 'scheduleAndExecute', path => '{table.path}', {COMPACT_ALL})"
    table.call(compact)
    table.write((1, "", 5), operation="delete")
    table.call(compact)
    table.show("snapshot without the key")
    table.write((1, "once more", 6))
    return rows_of_key_1(table.show("snapshot"))


def rows_of_key_1(rows):
    return sum(row.id == 1 for row in rows)


if __name__ == "__main__":
    spark = start_spark()
    found = {}
    for index in ("SIMPLE", "BLOOM"):
        print(f"hoodie.index.type={index}")
        table, found[index] = play(spark, **{"hoodie.index.type": index})
    found["BLOOM, mended"] = mend(table)
    print("hoodie.index.type=RECORD_INDEX, which indexes log files too")
    indexed = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}
    table, found["RECORD_INDEX"] = play(spark, **indexed)
    for index, count in found.items():
        print(f"{index}: key 1 has {count} row{'s' if count > 1 else ''}, 1 is right")
