"""The rows of both views side by side, by key, and what may hold of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from etc_policy.adapters.gx.view_rows import NAMED, copy_in_ro, copy_of
from etc_policy.verify.ports import DataCheck

_TWICE = ("duplicate_keys", "duplicate_keys_in_rt")
SAMPLED = ("missing", "different", "deleted", *_TWICE, "rows_of_other_files", "null_event_times_not_in_ro")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both views (DataFrames, as Hudi reads them) and what is to be checked of them."""

    spark: Any
    rt: Any
    ro: Any
    check: DataCheck


def is_wrong(counts: Mapping[str, Any]) -> bool:
    """Whether there is a row among them that may not be there."""
    return any(counts[name] for name in SAMPLED)


def aggregated(rows: Any, known: Mapping[str, Any], *also: Any) -> dict[str, Any]:  # noqa: ANN401
    """How many rows each fact holds of, the range of their event times, and whatever else is asked of all of them."""
    from pyspark.sql import functions as F  # noqa: N812

    row = rows.agg(
        *[F.count(F.when(fact, 1)).alias(name) for name, fact in known.items()],
        F.max(F.when(known["unreadable_event_times"], F.col("unreadable"))).alias("unreadable_sample"),
        F.min(F.least("event_ms", "ro_event_ms")).alias("earliest_event_ms"),
        F.max(F.greatest("event_ms", "ro_event_ms")).alias("latest_event_ms"),
        *also,
    ).first()
    return {**row.asDict(), "samples": {}}


def joined(
    rt: Any,  # noqa: ANN401 - DataFrames
    ro: Any,  # noqa: ANN401
    threshold_ms: int,
    found_by: tuple[str, str] = NAMED,
    *,
    once_in_ro: bool = False,
) -> Any:  # noqa: ANN401
    """Both sides by key, copies of one key numbered from 1; the windows' shuffle and sort serve the join too.

    RT rows that nothing is promised for go without their values, to keep the shuffle small. Where it is known that no key is
    in RO twice, copies are not numbered: one that is in RT twice makes more rows of RO than there are, or is in RT alone.
    """
    from pyspark.sql import functions as F  # noqa: N812

    promised = F.coalesce(F.col("event_ms") <= threshold_ms, F.lit(False)) & F.col("rt_inside")
    compared = F.col("promised") | F.col("event_ms").isNull()
    rt = rt.withColumn("promised", promised).withColumn("rt_values", F.when(compared, F.col("rt_values")))
    rt = rt.withColumn("rt_copy", F.lit(1) if once_in_ro else copy_of(*found_by))
    rt = rt if "rt_place" in rt.columns else rt.withColumn("rt_place", F.col("rt_copy"))
    ro = ro.withColumn("ro_copy", F.lit(1) if once_in_ro else copy_in_ro(*found_by))
    return rt.join(ro.drop(*set(NAMED).difference(found_by)), list(found_by), "full_outer")


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
    first_pairing = F.coalesce(F.col("rt_copy"), F.lit(1)) == 1
    return {
        "rt_rows": in_rt & (F.coalesce(F.col("ro_copy"), F.lit(1)) == 1),
        "ro_rows": in_ro & first_pairing,
        "promised_rows": promised & (F.coalesce(F.col("ro_copy"), F.lit(1)) == 1),
        "null_event_times": null_time,
        "null_event_times_not_in_ro": null_time & ~F.col("late") & (~in_ro | differs),
        "unreadable_event_times": F.col("unreadable").isNotNull(),
        "rows_without_key": reduce(or_, (F.col(name).isNull() for name in found_by)),
        "missing": absent & ~F.col("late"),
        "different": unequal & ~F.col("late"),
        "late_rows": (absent | unequal) & F.col("late"),
        "deleted": ghost & ~F.col("open") & ~F.col("newer"),
        "deleted_not_yet_compacted": ghost & F.col("open") & ~F.col("newer"),
        "newer_than_pinned": ghost & F.col("newer"),
        "rows_of_other_files": F.col("stranger") & first_pairing,
        "duplicate_keys": (F.col("ro_copy") == 2) & ~F.col("open") & first_pairing,
        "duplicate_keys_not_yet_compacted": (F.col("ro_copy") == 2) & F.col("open") & first_pairing,
        "duplicate_keys_in_rt": (F.col("rt_place") == 2) & (F.coalesce(F.col("ro_copy"), F.lit(1)) == 1),
    }
