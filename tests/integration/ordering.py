"""Run as a process of its own under a bundle: compaction of a table that orders by another column than `ts`. Prints `passed`.

The clients of Hudi before 1.1 merge by an option of their own, and not by the table's ordering field. If it is not set that is
`ts` in 0.15.0, and no column in 1.0.2.
"""

import sys
import time
from pathlib import Path

from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.spark.session import start_spark
from tests.integration.bench import SECOND, Bench
from tests.integration.history import EPOCH_MS, QUICK, WRITER

WAYS = {
    **WRITER,
    **QUICK,
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.precombine.field": "seq",
    "hoodie.payload.ordering.field": "seq",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.metadata.enable": "false",
}
#: Rows are (id, partition, value, event second, seq): 2 wins by seq though its time is earlier, 3 loses though it is later.
FIRST = ((1, "b", "old", 100, 1), (2, "b", "old", 150, 1), (3, "b", "old", 100, 9))
SECOND_WRITE = ((1, "b", "new", 150, 2), (2, "b", "new", 120, 2), (3, "b", "lost", 140, 3))
RIGHT = {1: "new", 2: "new", 3: "old"}


def write(spark, base: Path, rows) -> None:
    told = [(key, part, value, EPOCH_MS + second * 1000, seq) for key, part, value, second, seq in rows]
    frame = spark.createDataFrame(told, "id int, p string, v string, ts long, seq long").coalesce(1)
    frame.write.format("hudi").options(**WAYS).mode("append" if base.exists() else "overwrite").save(str(base))


def view(spark, base: Path, **options) -> dict:
    rows = spark.read.format("hudi").options(**options).load(str(base)).select("id", "v").collect()
    return {row.id: row.v for row in rows}


def main(base: Path) -> None:
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, base.parent / "spark.log")
    for rows in (FIRST, SECOND_WRITE):
        write(spark, base, rows)
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    bench = Bench(spark, base, granularity="file_slice")
    assert view(spark, base) == RIGHT
    plan = bench.plan(SECOND)
    assert plan.tables[0].action == "compact"
    assert bench.apply(plan).status == "compacted"
    assert view(spark, base) == RIGHT, view(spark, base)
    assert view(spark, base, **{"hoodie.datasource.query.type": "read_optimized"}) == RIGHT
    spark.stop()
    print("passed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
