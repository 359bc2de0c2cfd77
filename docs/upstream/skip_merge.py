"""Stock Hudi: a compaction takes over `skip_merge`, a way of reading, and writes every version of a key into base files."""

from stock import Table, start_spark

SKIP = {"hoodie.datasource.merge.type": "skip_merge"}


def play(spark, **compaction):
    """Three versions of a key, compacted."""
    table = Table(spark)
    table.write((1, "first", 1), (2, "other", 1), operation="insert")
    table.write((1, "second", 2))
    table.write((1, "third", 3))
    table.views()
    table.compact(**compaction)
    table.views()
    return table


if __name__ == "__main__":
    spark = start_spark()
    print("right: nothing set")
    play(spark)
    (setting,) = (f"{key}={value}" for key, value in SKIP.items())
    print(f"\n{setting} in the options of the compaction")
    table = play(spark, **SKIP)
    print("\nthe same table, after an upsert and a compaction without the option")
    table.write((1, "fourth", 4))
    table.compact()
    table.views()
    print("\nmended: deleted, compacted, inserted")
    table.write((1, "", 5), operation="delete")
    table.compact()
    table.write((1, "fifth", 6))
    table.views()
    print(f"\nSET {setting} in the session")
    spark.sql(f"SET {setting}")
    play(spark)
    print("\nright: the same, with payload_combine in the options of the compaction")
    table = Table(spark)
    table.write((1, "first", 1), (2, "other", 1), operation="insert")
    table.write((1, "second", 2))
    table.compact(**{"hoodie.datasource.merge.type": "payload_combine"})
    spark.sql("RESET hoodie.datasource.merge.type")
    table.views()
    print(f"\n{setting} in the options of a writer that compacts inline")
    table = Table(spark)
    table.write((1, "first", 1), (2, "other", 1), operation="insert")
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    table.write((1, "second", 2), **inline, **SKIP)
    table.views()
