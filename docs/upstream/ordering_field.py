"""Stock Hudi before 1.1: a compaction merges by a column named `ts`, whatever the table's ordering field is."""

from stock import Table, start_spark

ORDERED = {
    "hoodie.datasource.write.precombine.field": "seq",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
}


def play(spark, other, **compaction):
    """A table ordered by `seq`, with another column: 2 wins by `seq` alone, 3 loses by `seq` alone."""
    table, columns = Table(spark, **ORDERED), f"id int, v string, {other} long, seq long"
    table.write((1, "old", 1, 1), (2, "old", 9, 1), (3, "old", 1, 9), operation="insert", columns=columns)
    table.write((1, "new", 2, 2), (2, "new", 2, 2), (3, "late", 2, 2), columns=columns)
    table.views()
    table.compact(**compaction)
    table.views()
    print(flush=True)


if __name__ == "__main__":
    spark = start_spark()
    print("ordered by seq, with a column ts")
    play(spark, "ts")
    print("ordered by seq, with no column ts")
    play(spark, "other")
    print("right: the ordering field is an option of the compaction")
    play(spark, "ts", **{"hoodie.payload.ordering.field": "seq"})
