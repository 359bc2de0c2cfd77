"""Where both views can differ: the rows that are not of files which both read alike, and the counts of these."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from etc_policy.gx.ro_counts import RoCounts, count_ro, files_of, has_double_keys
from etc_policy.gx.view_join import Comparison, aggregated, facts, faults_of, joined, paired
from etc_policy.gx.view_rows import HASHED, in_partitions, is_global, ro_rows, rt_rows, with_files, without_files


def count_where_views_can_differ(comparison: Comparison, threshold_ms: int) -> dict[str, Any] | None:
    """The counts where nothing is wrong, None where something is.

    A row whose key is in a file that both views read alike would be there twice: as there is no such key, the rows that
    are left need to be compared with each other alone. Of RO all keys are looked at, of RT those that RO does not have.
    Where keys are repeated on purpose, both views have equal copies in the files that they read alike: those cancel out.
    """
    counted = count_ro(comparison.spark, comparison.ro, comparison.check, threshold_ms)
    if counted.odd_rows:
        return None
    for views in _narrowest_first(comparison, counted):
        counts = _counts(views, threshold_ms, once_in_ro=not counted.buckets_with_doubles)
        seen = counts.pop("partitions")
        is_narrow = views.rt is not comparison.rt
        if counts["ro_rows"] + counted.same_rows == counted.ro_rows and (not is_narrow or _has_all(views, seen)):
            faults = any(counts[name] for name in faults_of(comparison.check))
            wrong = faults or _is_key_twice(comparison, views, counted, only_in_rt=counts["only_in_rt"])
            return None if wrong else counted.added_to(counts)
    return None


def _narrowest_first(comparison: Comparison, counted: RoCounts) -> Iterator[Comparison]:
    """Both views in the partitions alone that have something to compare, then as a whole.

    A base file of which RO shows no row is compared, and nobody knows in which partition it is.
    """
    check = comparison.check
    if counted.same_files < len(check.same_files):
        shown = check.same_files & files_of(comparison.ro)
        if shown != check.same_files:
            yield replace(comparison, check=replace(check, same_files=shown))
            return
    others, is_whole = check.other_partitions, check.policy.verify.where is None and not check.ends
    condition = None
    if others is not None and is_whole:
        condition = in_partitions(comparison.spark, comparison.rt, check.partition_fields, others)
    if condition is not None:
        yield replace(comparison, rt=comparison.rt.where(condition), ro=comparison.ro.where(condition))
    yield comparison


def _counts(views: Comparison, threshold_ms: int, *, once_in_ro: bool) -> dict[str, Any]:
    """The counts of the rows that can differ, and the partitions of those in RT."""
    from pyspark.sql import functions as F  # noqa: N812

    spark, check = views.spark, views.check
    rt, ro = (
        without_files(spark, views.rt, check.same_files),
        with_files(spark, views.ro, check.base_files - check.same_files),
    )
    sides = rt_rows(spark, rt, check, hashed=True), ro_rows(spark, ro, check, hashed=True)
    if check.policy.writer.keys_repeated:
        rows = paired(*sides, threshold_ms, HASHED)
    else:
        rows = joined(*sides, threshold_ms, HASHED, once_in_ro=once_in_ro)
    only_in_rt = F.col("rt_copy").isNotNull() & F.col("ro_copy").isNull()
    return aggregated(rows, {**facts(HASHED), "only_in_rt": only_in_rt})


def _has_all(views: Comparison, partitions: Collection[str]) -> bool:
    """Whether RT was read in each partition that it was to be read in: Hudi reads the whole of a partition, or nothing."""
    return views.check.other_partitions == frozenset(partitions)


def _is_key_twice(whole: Comparison, views: Comparison, counted: RoCounts, *, only_in_rt: int) -> bool:
    """Whether a key may be in a view twice, by a closer look where one hash was, or where RT has keys that RO does not have."""
    if views.check.policy.writer.keys_repeated or not (counted.buckets_with_doubles or only_in_rt):
        return False
    looked_at = whole if counted.buckets_with_doubles or is_global(views.check) else views
    rt = without_files(views.spark, views.rt, views.check.same_files)
    return has_double_keys(views.spark, looked_at.ro, rt, views.check)
