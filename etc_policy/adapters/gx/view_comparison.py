"""RT against RO: what is missing, different, doubled or a ghost, counted in one join of the rows that can differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from etc_policy.adapters.gx.event_time_sql import event_time_ms
from etc_policy.adapters.gx.ro_counts import RoCounts, files_of, has_double_keys
from etc_policy.adapters.gx.view_rows import (
    copy_in_ro,
    copy_of,
    no_meta_columns,
    require_meta_columns,
    ro_rows,
    rt_rows,
    sampled,
    without_files,
)
from etc_policy.adapters.gx.view_samples import samples_of, with_file_groups
from etc_policy.codes.registry import Code
from etc_policy.errors import TableError
from etc_policy.verify.ports import DataCheck

SAMPLE_SIZE = 20
#: Counts of rows that are alone in the file groups that were looked at.
_ALONE = ("missing", "deleted", "null_event_times_not_in_ro", "late_rows")
_TWICE = ("duplicate_keys", "duplicate_keys_in_rt")
_SAMPLED = ("missing", "different", "deleted", *_TWICE, "rows_of_other_files", "null_event_times_not_in_ro")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both views (DataFrames, as Hudi reads them) and what is to be checked of them."""

    spark: Any
    rt: Any
    ro: Any
    check: DataCheck


_COMPARISONS: dict[str, Comparison] = {}


@contextmanager
def named(name: str, comparison: Comparison) -> Iterator[None]:
    """The comparison as one that `comparison_of` finds by its name: Great Expectations hands texts on, not frames.

    Raises:
        TableError: the event-time column is missing or of a type that holds no times, or there are no meta columns.

    """
    require_meta_columns(comparison.rt, comparison.ro)
    event_time_ms(comparison.rt.schema, comparison.check.policy.event_time)
    _COMPARISONS[name] = comparison
    try:
        yield
    finally:
        del _COMPARISONS[name]


def comparison_of(name: str) -> Comparison:
    """The comparison that has a name."""
    return _COMPARISONS[name]


def count_differences(
    comparison: Comparison, base_rows: RoCounts | None, threshold_ms: int, sample_size: int
) -> dict[str, Any]:
    """Every count of the comparison; samples of the offending keys by a second pass, only where there are any.

    With `base_rows`, the counts over RO, rows of files that both views read alike are not compared with themselves. Where
    that finds anything wrong, all rows are compared by their values, for exact counts and samples.
    """
    if base_rows is not None:
        counts = _count_where_views_can_differ(comparison, base_rows, threshold_ms)
        if counts is not None:
            return counts
    return _count_all(comparison, threshold_ms, sample_size)


def _count_where_views_can_differ(
    comparison: Comparison, base_rows: RoCounts, threshold_ms: int
) -> dict[str, Any] | None:
    """The counts where nothing is wrong, None where something is.

    A row whose key is in a file that both views read alike would be there twice: as there is no such key, the rows that
    are left need to be compared with each other alone.
    """
    spark, check = comparison.spark, comparison.check
    if base_rows.rows_of_other_files:
        return None
    if base_rows.same_files < len(check.same_files):
        check = replace(check, same_files=check.same_files & files_of(comparison.ro))
    rt, ro = (without_files(spark, frame, check.same_files) for frame in (comparison.rt, comparison.ro))
    joined = _joined(rt_rows(spark, rt, check, hashed=True), ro_rows(spark, ro, check, hashed=True), threshold_ms)
    counts = _aggregated(joined, _facts())
    if any(counts[name] for name in _SAMPLED) or has_double_keys(spark, comparison.ro, rt, check):
        return None
    return base_rows.added_to(counts)


def _count_all(comparison: Comparison, threshold_ms: int, sample_size: int) -> dict[str, Any]:
    """All rows, or those of a sample, compared by their values.

    Within a sample a key that is alone is looked up in the whole of the other view before it counts: it may have
    moved to a file group that was not chosen.
    """
    spark, check = comparison.spark, comparison.check
    whole_rt, whole_ro = rt_rows(spark, comparison.rt, check), ro_rows(spark, comparison.ro, check)
    if check.file_ids is None:
        return _counts(whole_rt, whole_ro, threshold_ms, sample_size)
    rt = rt_rows(spark, sampled(spark, comparison.rt, check), check)
    ro = ro_rows(spark, sampled(spark, comparison.ro, check), check)
    counts = _counts(rt, ro, threshold_ms, sample_size)
    if not any(counts[name] for name in _ALONE):
        return counts
    key = ["partition", "key"]
    all_ro = ro.unionByName(_only(whole_ro, rt, key).join(ro.select(key), key, "left_anti"))
    all_rt = rt.unionByName(_only(whole_rt, ro, key).join(rt.select(key), key, "left_anti"))
    return _counts(all_rt, all_ro, threshold_ms, sample_size)


def _only(frame: Any, wanted: Any, key: list[str]) -> Any:  # noqa: ANN401
    return frame.join(wanted.select(key).distinct(), key, "left_semi")


def _counts(rt: Any, ro: Any, threshold_ms: int, sample_size: int) -> dict[str, Any]:  # noqa: ANN401
    joined, facts = _joined(rt, ro, threshold_ms), _facts()
    counts = _aggregated(joined, facts)
    wanted = [name for name in _SAMPLED if counts[name]]
    counts["samples"] = samples_of(joined, facts, wanted, sample_size) if wanted and sample_size else {}
    if "duplicate_keys_in_rt" in counts["samples"]:
        counts["samples"]["duplicate_keys_in_rt"] = with_file_groups(rt, counts["samples"]["duplicate_keys_in_rt"])
    return counts


def _aggregated(joined: Any, facts: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    from pyspark.sql import functions as F  # noqa: N812

    row = joined.agg(
        *[F.count(F.when(fact, 1)).alias(name) for name, fact in facts.items()],
        F.max(F.when(facts["unreadable_event_times"], F.col("source_time"))).alias("unreadable_sample"),
        F.min(F.least("event_ms", "ro_event_ms")).alias("earliest_event_ms"),
        F.max(F.greatest("event_ms", "ro_event_ms")).alias("latest_event_ms"),
    ).first()
    return {**row.asDict(), "samples": {}}


def require_readable(counts: Mapping[str, Any], column: str, type_name: str) -> None:
    """Raises TableError where rows had no key or values of the event-time column could not be read as times."""
    if counts.get("rows_without_key"):
        raise no_meta_columns()
    if counts.get("unreadable_event_times"):
        raise TableError(
            Code.UNREADABLE_TIMES,
            f"{counts['unreadable_event_times']} values of event-time column `{column}` (type `{type_name}`) cannot be "
            f"read as times, for example `{counts['unreadable_sample']}`",
            hint="set `unit` (s, ms, us) or `format` (a Spark datetime pattern) of the policy's `event_time_column`",
        )


def _joined(rt: Any, ro: Any, threshold_ms: int) -> Any:  # noqa: ANN401
    """Both sides by key, copies of one key numbered from 1; the windows' shuffle and sort serve the join too.

    RT rows that nothing is promised for go without their values, to keep the shuffle small.
    """
    from pyspark.sql import functions as F  # noqa: N812

    promised = F.coalesce(F.col("event_ms") <= threshold_ms, F.lit(False)) & F.col("rt_inside")
    compared = F.col("promised") | F.col("event_ms").isNull()
    rt = rt.withColumn("promised", promised).withColumn("rt_values", F.when(compared, F.col("rt_values")))
    rt = rt.withColumn("rt_copy", copy_of("partition", "key"))
    rt = rt if "rt_place" in rt.columns else rt.withColumn("rt_place", F.col("rt_copy"))
    return rt.join(ro.withColumn("ro_copy", copy_in_ro()), ["partition", "key"], "full_outer")


def _facts() -> dict[str, Any]:
    """What may hold of a joined row, by the name of its count."""
    from pyspark.sql import functions as F  # noqa: N812

    in_rt, in_ro, promised = F.col("rt_copy").isNotNull(), F.col("ro_copy").isNotNull(), F.col("promised")
    differs = ~F.col("rt_values").eqNullSafe(F.col("ro_values"))
    left_open = F.col("open") & (F.col("ro_copy") > 1)
    unequal = promised & in_ro & differs & ~left_open
    absent = promised & ~in_ro
    ghost = in_ro & ~in_rt & F.col("ro_inside")
    null_time = in_rt & F.col("source_time").isNull()
    first_pairing = F.coalesce(F.col("rt_copy"), F.lit(1)) == 1
    return {
        "rt_rows": in_rt & (F.coalesce(F.col("ro_copy"), F.lit(1)) == 1),
        "ro_rows": in_ro & first_pairing,
        "promised_rows": promised & (F.coalesce(F.col("ro_copy"), F.lit(1)) == 1),
        "null_event_times": null_time,
        "null_event_times_not_in_ro": null_time & ~F.col("late") & (~in_ro | differs),
        "unreadable_event_times": in_rt & F.col("source_time").isNotNull() & F.col("event_ms").isNull(),
        "rows_without_key": F.col("key").isNull() | F.col("partition").isNull(),
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
