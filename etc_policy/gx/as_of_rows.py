"""RO as of the last cut against the table as of its T, which Spark works out from all rows that were there, unmerged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from etc_policy.gx.comparable_sql import row_hash
from etc_policy.gx.event_time_sql import event_time_ms
from etc_policy.gx.view_join import Comparison
from etc_policy.gx.view_rows import KEY
from etc_policy.gx.views import read_view
from etc_policy.table.instants import add_ms

#: Counts that must be zero.
FAULTS = ("missing", "different", "too_many")


def count_as_of(comparison: Comparison, threshold_ms: int, sample_size: int) -> dict[str, Any]:
    """How RO as of the last compaction by etc differs from the table as of T; nothing is counted without such a compaction.

    Of each key the rows with the largest event time at or before T are right, any of those with the same one. They are taken
    from the files that were there before the compaction, which the cleaner must have left. Deletes are not among them.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    spark, check = comparison.spark, comparison.check
    if check.before_etc is None:
        return {**dict.fromkeys(("as_of_rows", *FAULTS, "rows_after_t"), 0), "samples": {}}
    as_of_cut = replace(check, pinned_instant=add_ms(check.before_etc, 1))
    before = replace(check, pinned_instant=check.before_etc)
    ro = _rows(read_view(spark, as_of_cut, "ro"), check.policy.event_time)
    written = _rows(read_view(spark, before, "rt", merged=False), check.policy.event_time)
    latest = Window.partitionBy("partition", "key").orderBy(F.col("event_ms").desc())
    newest = (
        written.where(F.col("event_ms") <= threshold_ms).withColumn("place", F.rank().over(latest)).where("place = 1")
    )
    right = newest.groupBy("partition", "key").agg(F.collect_set("hash").alias("right"))
    both = ro.where(F.col("event_ms") <= threshold_ms).join(right, ["partition", "key"], "full_outer")
    fault = (
        F.when(F.col("hash").isNull(), "missing")
        .when(F.col("right").isNull(), "too_many")
        .when(~F.array_contains("right", F.col("hash")), "different")
    )
    judged = both.select("partition", "key", fault.alias("fault"), F.col("right").isNotNull().alias("as_of"))
    counted = judged.groupBy("fault").agg(
        F.count(F.lit(1)).alias("rows"), F.sum(F.col("as_of").cast("int")).alias("as_of")
    )
    found = counted.collect()
    counts = {name: sum(one["rows"] for one in found if one["fault"] == name) for name in FAULTS}
    return {
        "as_of_rows": sum(one["as_of"] for one in found),
        **counts,
        "rows_after_t": ro.where(F.col("event_ms") > threshold_ms).count(),
        "samples": {name: _sample(judged, name, sample_size) for name in FAULTS if counts[name]},
    }


def _rows(view: Any, event_time: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    partition, key = (F.col(name).alias(alias) for name, alias in zip(KEY, ("partition", "key"), strict=True))
    event_ms = event_time_ms(view.schema, event_time)[1].alias("event_ms")
    return view.select(partition, key, event_ms, row_hash(view.schema).alias("hash"))


def _sample(judged: Any, fault: str, size: int) -> list[dict[str, Any]]:
    rows = judged.where(judged["fault"] == fault).orderBy("partition", "key").limit(size).collect()
    return [{"partition": row["partition"], "key": row["key"]} for row in rows]
