"""RT against RO: what is missing, different, doubled or a ghost, counted in one join of the rows that can differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.gx.changed_rows import count_where_views_can_differ
from etc_policy.gx.event_time_sql import event_time_ms
from etc_policy.gx.view_join import TWICE, Comparison, aggregated, facts, faults_of, joined, paired
from etc_policy.gx.view_rows import no_meta_columns, require_meta_columns, ro_rows, rt_rows, sampled
from etc_policy.table.formats import format_time
from etc_policy.table.impossible_times import fitting_unit, unit_advice
from etc_policy.table.unknown_times import unreadable_advice
from etc_policy.verify.ports import DataCheck

SAMPLE_SIZE = 20
#: Counts of rows that are alone in the file groups that were looked at.
_ALONE = ("missing", "deleted", "null_event_times_not_in_ro", "late_rows")
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


def count_differences(comparison: Comparison, threshold_ms: int, sample_size: int) -> dict[str, Any]:
    """Every count of the comparison; samples of the offending keys by a second pass, only where there are any.

    Rows of files that both views read alike are not compared with themselves. Where that finds anything wrong, all rows are
    compared by their values, for exact counts and samples.
    """
    check = comparison.check
    counts = count_where_views_can_differ(comparison, threshold_ms) if check.same_files else None
    counts = counts or _count_all(comparison, threshold_ms, sample_size)
    earliest_ms = counts["earliest_event_ms"]
    is_possible = earliest_ms is None or fitting_unit_of_all(check, earliest_ms) is None
    return {**counts, "earliest_impossible_ms": None if is_possible else earliest_ms}


def fitting_unit_of_all(check: DataCheck, earliest_ms: int) -> str | None:
    """The unit that fits where even the earliest event time is later than the table's last commit can have written.

    Where only some partitions are read their earliest one is not the table's.
    """
    event_time, last_ms = check.policy.event_time, check.last_commit_ms
    if check.partitions is not None or last_ms is None or earliest_ms <= last_ms + event_time.ahead_ms:
        return None
    return fitting_unit(event_time, earliest_ms, last_ms + event_time.ahead_ms)


def _count_all(comparison: Comparison, threshold_ms: int, sample_size: int) -> dict[str, Any]:
    """All rows, or those of a sample, compared by their values.

    Within a sample a key that is alone is looked up in the whole of the other view before it counts: it may have
    moved to a file group that was not chosen. Of keys that are repeated all copies are looked up then.
    """
    spark, check = comparison.spark, comparison.check
    whole_rt, whole_ro = rt_rows(spark, comparison.rt, check), ro_rows(spark, comparison.ro, check)
    if check.file_ids is None:
        return _counts(whole_rt, whole_ro, check, threshold_ms, sample_size)
    rt = rt_rows(spark, sampled(spark, comparison.rt, check), check)
    ro = ro_rows(spark, sampled(spark, comparison.ro, check), check)
    counts = _counts(rt, ro, check, threshold_ms, sample_size)
    if not any(counts[name] for name in _ALONE):
        return counts
    key = ["partition", "key"]
    if check.policy.writer.keys_repeated:
        keys = rt.select(key).union(ro.select(key))
        return _counts(_only(whole_rt, keys, key), _only(whole_ro, keys, key), check, threshold_ms, sample_size)
    all_ro = ro.unionByName(_only(whole_ro, rt, key).join(ro.select(key), key, "left_anti"))
    all_rt = rt.unionByName(_only(whole_rt, ro, key).join(rt.select(key), key, "left_anti"))
    return _counts(all_rt, all_ro, check, threshold_ms, sample_size)


def _only(frame: Any, wanted: Any, key: list[str]) -> Any:
    return frame.join(wanted.select(key).distinct(), key, "left_semi")


def _counts(rt: Any, ro: Any, check: DataCheck, threshold_ms: int, sample_size: int) -> dict[str, Any]:
    """The counts and samples of two sides; where a key is there twice its copies are paired, else a join by key says all."""
    are_repeated, known = check.policy.writer.keys_repeated, facts()
    rows = (paired if are_repeated else joined)(rt, ro, threshold_ms)
    counts = aggregated(rows, known)
    if not are_repeated and any(counts[name] for name in TWICE):
        rows = paired(rt, ro, threshold_ms)
        counts = aggregated(rows, known)
    del counts["partitions"]
    wanted = [name for name in faults_of(check) if counts[name]]
    counts["samples"] = samples_of(rows, known, wanted, sample_size) if wanted and sample_size else {}
    if "duplicate_keys_in_rt" in counts["samples"]:
        counts["samples"]["duplicate_keys_in_rt"] = with_file_groups(rt, counts["samples"]["duplicate_keys_in_rt"])
    return counts


def require_readable(counts: Mapping[str, Any], check: DataCheck, type_name: str) -> None:
    """Raises TableError where rows had no key, or values of the event-time column are no times, or of another unit."""
    column = check.policy.event_time.column
    if counts.get("rows_without_key"):
        raise no_meta_columns()
    earliest_ms = counts.get("earliest_impossible_ms")
    if earliest_ms is not None and (fitting := fitting_unit_of_all(check, earliest_ms)):
        raise TableError(
            Code.WRONG_UNIT,
            f"every event time of column `{column}` is later than the table's last commit, the first "
            f"{format_time(earliest_ms)} in the unit `{check.policy.event_time.unit}`",
            hint=unit_advice(fitting, column),
        )
    if counts.get("unreadable_event_times"):
        raise TableError(
            Code.UNREADABLE_TIMES,
            f"{counts['unreadable_event_times']} values of event-time column `{column}` (type `{type_name}`) cannot be "
            f"read as times, for example `{counts['unreadable_sample']}`",
            hint=unreadable_advice(check.policy.event_time, str(counts["unreadable_sample"])),
        )


def samples_of(joined: Any, facts: dict[str, Any], wanted: list[str], size: int) -> dict[str, list[dict[str, Any]]]:
    """Up to `size` keys of each wanted kind, in the order of their keys; different rows name the columns."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    kinds = F.array_compact(F.array(*[F.when(facts[name], F.lit(name)) for name in wanted]))
    rows = joined.withColumn("kind", F.explode(kinds)).select("kind", "partition", "key", _columns_that_differ(joined))
    order = Window.partitionBy("kind").orderBy("partition", "key")
    chosen = rows.withColumn("place", F.row_number().over(order)).where(F.col("place") <= size)
    samples: dict[str, list[dict[str, Any]]] = {name: [] for name in wanted}
    for row in chosen.orderBy("kind", "place").collect():
        sample = {"partition": row["partition"], "key": row["key"]}
        samples[row["kind"]].append({**sample, "columns": row["columns"]} if row["kind"] == "different" else sample)
    return samples


def _columns_that_differ(joined: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    rt_type, ro_type = joined.schema["rt_values"].dataType, joined.schema["ro_values"].dataType
    rt, ro = F.col("rt_values"), F.col("ro_values")
    common = [name for name in rt_type.names if name in ro_type.names]
    unequal = [F.when(~rt.getField(n).eqNullSafe(ro.getField(n)), F.lit(n)) for n in common]
    return F.array_compact(F.array(*unequal)).alias("columns")


def with_file_groups(rt: Any, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples, each with all file groups that have a row of its key."""
    from pyspark.sql import functions as F  # noqa: N812

    keys = [sample["key"] for sample in samples]
    rows = rt.where(F.col("key").isin(keys)).select("partition", "key", "rt_group").distinct().collect()
    across = "rt_place" in rt.columns
    return [
        {
            **sample,
            "file_groups": sorted(
                row["rt_group"]
                for row in rows
                if row["key"] == sample["key"] and (across or row["partition"] == sample["partition"])
            ),
        }
        for sample in samples
    ]
