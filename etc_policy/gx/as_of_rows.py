"""RO as of the last cut against the table as of its T, which Spark works out from all rows that were there, unmerged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from etc_policy.gx.comparable_sql import row_hash
from etc_policy.gx.event_time_sql import event_time_ms
from etc_policy.gx.view_join import Comparison
from etc_policy.gx.view_rows import KEY, file_group, inside, is_one_of, sampled
from etc_policy.gx.views import read_view
from etc_policy.table.instants import add_ms
from etc_policy.verify.catalog import HIDDEN_BY_LATER
from etc_policy.verify.ports import DataCheck

#: Counts that must be zero.
FAULTS = ("missing", "different", "too_many")
_ROW = ("partition", "key", "hash")


def count_as_of(comparison: Comparison, threshold_ms: int, sample_size: int) -> dict[str, Any]:
    """How RO as of the last compaction by etc, which there must be, differs from the table as of T.

    Of each key the rows with the largest event time at or before T are right, any of those with the same one. They are taken
    from the files that were there before the compaction, which the cleaner must have left. Deletes are not among them, so that
    file groups that were merged whole for them are left out. Where RO had a later row of a key before, that is no fault.
    """
    from pyspark.sql import functions as F  # noqa: N812

    spark, check = comparison.spark, comparison.check
    if check.before_etc is None:
        raise ValueError("there is no compaction by etc")
    as_of_cut = replace(check, pinned_instant=add_ms(check.before_etc, 1))
    before = replace(check, pinned_instant=check.before_etc)
    ro, right = _rows(spark, read_view(spark, as_of_cut, "ro"), check), _right(spark, before, threshold_ms)
    is_later = F.coalesce(F.col("event_ms") > threshold_ms, F.lit(False))
    fault = (
        F.when(F.col("hash").isNull(), "missing")
        .when(F.col("right").isNull(), F.when(F.col("event_ms") <= threshold_ms, "too_many"))
        .when(is_later, HIDDEN_BY_LATER)
        .when(~F.array_contains("right", F.col("hash")), "different")
    )
    both = ro.join(right, ["partition", "key"], "full_outer")  # without a condition, for which files could be left out
    judged = both.select(
        *_ROW, fault.alias("fault"), is_later.alias("later"), F.col("right").isNotNull().alias("as_of")
    )
    groups = judged.groupBy("fault", "later", "as_of").agg(F.count(F.lit(1)).alias("rows")).collect()
    found = {name: sum(one["rows"] for one in groups if one["fault"] == name) for name in (*FAULTS, HIDDEN_BY_LATER)}
    if found[HIDDEN_BY_LATER]:
        judged = _with_new_ones_missing(spark, judged, before)
        new = judged.where(F.col("fault") == "missing").count() - found["missing"]
        found |= {"missing": found["missing"] + new, HIDDEN_BY_LATER: found[HIDDEN_BY_LATER] - new}
    return {
        "as_of_rows": sum(one["rows"] for one in groups if one["as_of"]),
        **found,
        "rows_after_t": sum(one["rows"] for one in groups if one["later"]),
        "merged_whole": len(check.merged_whole),
        "samples": {name: _sample(judged, name, sample_size) for name in FAULTS if found[name]},
    }


def _right(spark: Any, before: DataCheck, threshold_ms: int) -> Any:
    """The hashes of the rows of each key that are right: those with its largest event time up to T."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    latest = Window.partitionBy("partition", "key").orderBy(F.col("event_ms").desc())
    written = _rows(spark, read_view(spark, before, "rt", merged=False), before)
    up_to = written.where(F.col("event_ms") <= threshold_ms).withColumn("place", F.rank().over(latest))
    return up_to.where("place = 1").groupBy("partition", "key").agg(F.collect_set("hash").alias("right"))


def _with_new_ones_missing(spark: Any, judged: Any, before: DataCheck) -> Any:
    """The rows; a key whose later row RO did not have before the compaction is missing, as that should have stayed."""
    from pyspark.sql import functions as F  # noqa: N812

    then = _rows(spark, read_view(spark, before, "ro"), before).select(*_ROW, F.lit(True).alias("then")).distinct()
    fault = F.when((F.col("fault") == HIDDEN_BY_LATER) & F.col("then").isNull(), "missing").otherwise(F.col("fault"))
    return judged.join(then, [*_ROW], "left").withColumn("fault", fault)


def _rows(spark: Any, view: Any, check: DataCheck) -> Any:
    """The rows that are looked at, less those of file groups that may have been merged whole."""
    from pyspark.sql import functions as F  # noqa: N812

    partition, key = (F.col(name).alias(alias) for name, alias in zip(KEY, _ROW, strict=False))
    event_ms = event_time_ms(view.schema, check.policy.event_time)[1]
    whole = frozenset("/".join(one) for one in check.merged_whole)
    rows = sampled(spark, view, check).where(~is_one_of(spark, file_group(), whole)).where(inside(event_ms, check))
    return rows.select(partition, key, event_ms.alias("event_ms"), row_hash(view.schema).alias("hash"))


def _sample(judged: Any, fault: str, size: int) -> list[dict[str, Any]]:
    rows = judged.where(judged["fault"] == fault).orderBy("partition", "key").limit(size).collect()
    return [{"partition": row["partition"], "key": row["key"]} for row in rows]
