"""The rows of both views side by side, by key, and what may hold of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from etc_policy.gx.view_rows import NAMED, copy_in_ro, copy_of
from etc_policy.verify.ports import DataCheck

TWICE = ("duplicate_keys", "duplicate_keys_in_rt")
SAMPLED = ("missing", "different", "deleted", *TWICE, "rows_of_other_files", "null_event_times_not_in_ro")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both views (DataFrames, as Hudi reads them) and what is to be checked of them."""

    spark: Any
    rt: Any
    ro: Any
    check: DataCheck


def faults_of(check: DataCheck) -> tuple[str, ...]:
    """The counts that must be zero."""
    return tuple(name for name in SAMPLED if not (check.policy.writer.keys_repeated and name in TWICE))


def aggregated(rows: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """How many rows each fact holds of, the range of their event times, and the partitions of those that are in RT.

    Rows are counted by which facts hold of them, as bits of one number: that is one count for Spark, not one for each fact.
    """
    from pyspark.sql import functions as F  # noqa: N812

    bits = [F.when(fact, F.lit(1 << place)).otherwise(F.lit(0)) for place, fact in enumerate(known.values())]
    marked = rows.select(
        reduce(lambda all_bits, bit: all_bits.bitwiseOR(bit), bits).alias("facts"),
        F.when(F.col("rt_copy").isNotNull(), F.col("partition")).alias("partition"),
        F.least("event_ms", "ro_event_ms").alias("earliest"),
        F.greatest("event_ms", "ro_event_ms").alias("latest"),
    )
    ends = F.min("earliest").alias("earliest"), F.max("latest").alias("latest")
    # A set among the first counts would have Spark count row by row, without code of its own.
    of_partitions = marked.groupBy("facts", "partition").agg(F.count(F.lit(1)).alias("rows"), *ends)
    of_facts = of_partitions.groupBy("facts").agg(F.sum("rows").alias("rows"), *ends, F.collect_set("partition"))
    found = of_facts.collect()
    counts: dict[str, Any] = {
        name: sum(one["rows"] for one in found if one["facts"] >> place & 1) for place, name in enumerate(known)
    }
    return counts | {
        "unreadable_sample": _unreadable(rows, known) if counts["unreadable_event_times"] else None,
        "earliest_event_ms": min((one["earliest"] for one in found if one["earliest"] is not None), default=None),
        "latest_event_ms": max((one["latest"] for one in found if one["latest"] is not None), default=None),
        "partitions": frozenset(partition for one in found for partition in one[-1]),
        "samples": {},
    }


def _unreadable(rows: Any, known: Mapping[str, Any]) -> str | None:
    """A value of the event-time column that cannot be read as a time."""
    from pyspark.sql import functions as F  # noqa: N812

    sample: str | None = rows.where(known["unreadable_event_times"]).agg(F.max("unreadable")).first()[0]
    return sample


def joined(
    rt: Any,
    ro: Any,
    threshold_ms: int,
    found_by: tuple[str, str] = NAMED,
    *,
    once_in_ro: bool = False,
) -> Any:
    """Both sides by key, copies of one key numbered from 1; the windows' shuffle and sort serve the join too.

    Where it is known that no key is in RO twice, copies are not numbered: one that is in RT twice makes more rows of RO than
    there are, or is in RT alone. Each copy of RT meets each of RO: `paired` says which belong together.
    """
    from pyspark.sql import functions as F  # noqa: N812

    rt = _with_promise(rt, threshold_ms).withColumn("rt_copy", F.lit(1) if once_in_ro else copy_of(*found_by))
    rt = rt if "rt_place" in rt.columns else rt.withColumn("rt_place", F.col("rt_copy"))
    ro = ro.withColumn("ro_copy", F.lit(1) if once_in_ro else copy_in_ro(*found_by))
    ro = ro.withColumn("ro_place", F.col("ro_copy"))
    return rt.join(ro.drop(*set(NAMED).difference(found_by)), list(found_by), "full_outer")


def _with_promise(rt: Any, threshold_ms: int) -> Any:
    """RT and what is promised of it; rows that nothing is promised for go without their values, to keep the shuffle small."""
    from pyspark.sql import functions as F  # noqa: N812

    promised = F.coalesce(F.col("event_ms") <= threshold_ms, F.lit(False)) & F.col("rt_inside")
    compared = F.col("promised") | F.col("event_ms").isNull()
    return rt.withColumn("promised", promised).withColumn("rt_values", F.when(compared, F.col("rt_values")))


def paired(rt: Any, ro: Any, threshold_ms: int, found_by: tuple[str, str] = NAMED) -> Any:
    """Both sides as `joined`, but each row once: copies of one key are two multisets, whose equal rows are pairs.

    Only what is left over is missing, different or deleted. A file group's base file is all that RO can show of its rows, so
    that rows of one group are paired first, and unequal ones nowhere else: a row too many stays alone.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    rt = _with_promise(rt, threshold_ms).withColumns({
        "in_ro": F.lit(False), "rt_copy": F.lit(1), "hash": F.col("rt_hash"), "group": F.col("rt_group"),
        "left_last": F.col("late"),
    })  # fmt: skip
    ro = ro.withColumns({
        "in_ro": F.lit(True), "ro_copy": F.lit(1), "hash": F.col("ro_hash"), "group": F.col("ro_group"),
        "left_last": ~F.col("open"),
    })  # fmt: skip
    both = rt.unionByName(ro, allowMissingColumns=True).repartition(*found_by)
    place = copy_of(*found_by, "in_ro", order=(F.col("open"), F.col("written").desc()))
    both = both.withColumn("place", place).withColumn("pair", F.lit(None).cast("string"))
    rt_place = F.col("rt_place") if "rt_place" in rt.columns else F.when(~F.col("in_ro"), F.col("place"))
    both = both.withColumns({"rt_place": rt_place, "ro_place": F.when(F.col("in_ro"), F.col("place"))})
    for level, agree in enumerate((("hash", "group"), ("hash",), ("group",))):
        alike = (*found_by, *agree, F.col("pair").isNull())
        number = copy_of(*alike, "in_ro", order=(F.col("left_last"),))
        of_ro = F.sum(F.col("in_ro").cast("int")).over(Window.partitionBy(*alike))
        of_rt = F.sum((~F.col("in_ro")).cast("int")).over(Window.partitionBy(*alike))
        both = both.withColumns({"number": number, "pairs": F.least(of_ro, of_rt)})
        named = F.to_json(F.struct(F.lit(level).alias("level"), *agree, "number"))
        both = both.withColumn("pair", F.coalesce("pair", F.when(F.col("number") <= F.col("pairs"), named)))
    alone = F.concat_ws("/", F.col("in_ro").cast("string"), F.col("place").cast("string"))
    both = both.withColumn("pair", F.coalesce("pair", alone))
    own = [name for name in both.columns if name not in (*found_by, "pair")]
    return both.groupBy(*found_by, "pair").agg(*[F.first(name, ignorenulls=True).alias(name) for name in own])


def facts(found_by: tuple[str, str] = NAMED) -> dict[str, Any]:
    """What may hold of a joined row, by the name of its count."""
    from pyspark.sql import functions as F  # noqa: N812

    in_rt, in_ro, promised = F.col("rt_copy").isNotNull(), F.col("ro_copy").isNotNull(), F.col("promised")
    differs = ~F.col("rt_values").eqNullSafe(F.col("ro_values"))
    left_open = F.col("open") & (F.col("ro_copy") > 1)
    unequal = promised & in_ro & differs & ~left_open
    absent = promised & ~in_ro
    ghost = in_ro & ~in_rt & F.col("ro_inside")
    null_time = in_rt & F.col("event_ms").isNull() & F.col("unreadable").isNull()
    held_back = null_time & ~F.col("late") & (~in_ro | differs)
    first_pairing = F.coalesce(F.col("rt_copy"), F.lit(1)) == 1
    return {
        "rt_rows": in_rt & (F.coalesce(F.col("ro_copy"), F.lit(1)) == 1),
        "ro_rows": in_ro & first_pairing,
        "promised_rows": promised & (F.coalesce(F.col("ro_copy"), F.lit(1)) == 1),
        "null_event_times": null_time,
        "null_event_times_not_in_ro": held_back & ~F.col("waits"),
        "null_event_times_waiting": held_back & F.col("waits"),
        "unreadable_event_times": F.col("unreadable").isNotNull(),
        "rows_without_key": reduce(or_, (F.col(name).isNull() for name in found_by)),
        "missing": absent & ~F.col("late"),
        "different": unequal & ~F.col("late"),
        "late_rows": (absent | unequal) & F.col("late"),
        "deleted": ghost & ~F.col("open") & ~F.col("newer"),
        "deleted_not_yet_compacted": ghost & F.col("open") & ~F.col("newer"),
        "newer_than_pinned": ghost & F.col("newer"),
        "rows_of_other_files": F.col("stranger") & first_pairing,
        "duplicate_keys": (F.col("ro_place") == 2) & ~F.col("open") & first_pairing,
        "duplicate_keys_not_yet_compacted": (F.col("ro_place") == 2) & F.col("open") & first_pairing,
        "duplicate_keys_in_rt": (F.col("rt_place") == 2) & (F.coalesce(F.col("ro_copy"), F.lit(1)) == 1),
    }
