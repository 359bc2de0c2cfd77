"""RT against RO in one pass over both: what is missing, different, doubled or a ghost, counted in a single join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from etc_policy.adapters.gx.comparable_sql import comparable
from etc_policy.adapters.gx.event_time_sql import event_time_ms
from etc_policy.adapters.gx.view_samples import samples_of, with_file_groups
from etc_policy.codes.registry import Code
from etc_policy.errors import TableError
from etc_policy.verify.ports import DataCheck

SAMPLE_SIZE = 20
_KEY = ("_hoodie_partition_path", "_hoodie_record_key")
_META = (*_KEY, "_hoodie_commit_time", "_hoodie_file_name")
_LATE, _OPEN, _BASE, _CHOSEN, _MEMBER = "__etc_late", "__etc_open", "__etc_base", "__etc_chosen", "__etc_member"
_PARTS = ("rt", "ro", "whole_rt", "whole_ro")
_UNPAIRED = ("missing", "deleted", "null_event_times_not_in_ro", "late_rows")
_TWICE = ("duplicate_keys", "duplicate_keys_in_rt")
_SAMPLED = ("missing", "different", "deleted", *_TWICE, "rows_of_other_files", "null_event_times_not_in_ro")


@dataclass(frozen=True, slots=True)
class Views:
    """RT and RO (DataFrames) as the comparison needs them; with a sample also the whole of both, to look keys up in."""

    rt: Any
    ro: Any
    whole_rt: Any = None
    whole_ro: Any = None


def prepare_views(spark: Any, rt: Any, ro: Any, check: DataCheck) -> Views:  # noqa: ANN401 - DataFrames
    """Both views with just what the comparison needs: key, values, and facts about the row.

    Raises:
        TableError: the event-time column is missing or of a type that holds no times, or there are no meta columns.

    """
    if not set(_META) <= set(rt.columns) & set(ro.columns):
        raise _no_meta_columns()
    whole_rt, whole_ro = _prepared_rt(spark, rt, check), _prepared_ro(spark, ro, check)
    if check.file_ids is None:
        return Views(whole_rt, whole_ro)
    return Views(
        _prepared_rt(spark, sampled(spark, rt, check), check),
        _prepared_ro(spark, sampled(spark, ro, check), check),
        whole_rt,
        whole_ro,
    )


@contextmanager
def named_views(spark: Any, name: str, views: Views) -> Iterator[None]:  # noqa: ANN401
    """The views as temporary ones that `load_views` finds by `name`; they hold a plan and no data."""
    frames = {f"{name}_{part}": frame for part in _PARTS if (frame := getattr(views, part)) is not None}
    for view, frame in frames.items():
        frame.createOrReplaceTempView(view)
    try:
        yield
    finally:
        for view in frames:
            spark.catalog.dropTempView(view)


def load_views(spark: Any, name: str) -> Views:  # noqa: ANN401
    """The views that have a name."""
    return Views(*(spark.table(view) if spark.catalog.tableExists(view := f"{name}_{p}") else None for p in _PARTS))


def sampled(spark: Any, frame: Any, check: DataCheck) -> Any:  # noqa: ANN401
    """The rows of a view that lie in the chosen file groups; all of them where none were chosen."""
    from pyspark.sql import functions as F  # noqa: N812

    if check.file_ids is None:
        return frame
    return _flag(spark, frame, _file_id(), check.file_ids, _CHOSEN).where(F.col(_CHOSEN)).drop(_CHOSEN)


def _prepared_rt(spark: Any, rt: Any, check: DataCheck) -> Any:  # noqa: ANN401
    from pyspark.sql import functions as F  # noqa: N812

    source, event_ms = event_time_ms(rt.schema, check.policy.event_time)
    columns = {
        "event_ms": event_ms,
        "source_time": source.cast("string"),
        "rt_inside": _inside(event_ms, check),
        "late": F.col(_LATE) | (F.col("_hoodie_commit_time") > check.seen_until),
        "rt_values": _values(rt.schema),
        "rt_group": F.concat_ws("/", "_hoodie_partition_path", _file_id()),
    }
    keyed = _keyed(_flag(spark, rt, F.col("_hoodie_commit_time"), check.late_commits, _LATE), columns)
    return keyed.withColumn("rt_place", _copy("key")) if _is_global(check) else keyed


def _prepared_ro(spark: Any, ro: Any, check: DataCheck) -> Any:  # noqa: ANN401
    from pyspark.sql import functions as F  # noqa: N812

    _, event_ms = event_time_ms(ro.schema, check.policy.event_time)
    columns = {
        "ro_event_ms": event_ms,
        "ro_inside": _inside(event_ms, check),
        "newer": F.col(_LATE) | (F.col("_hoodie_commit_time") > check.seen_until),
        "open": F.col(_OPEN),
        "stranger": ~F.col(_BASE),
        "ro_values": _values(ro.schema),
    }
    ro = _flag(spark, ro, F.col("_hoodie_commit_time"), check.late_commits, _LATE)
    group = F.concat_ws("/", "_hoodie_partition_path", _file_id())
    ro = _flag(spark, ro, group, frozenset("/".join(one) for one in check.open_groups), _OPEN)
    return _keyed(_flag(spark, ro, F.col("_hoodie_file_name"), check.base_files, _BASE), columns)


def _is_global(check: DataCheck) -> bool:
    """Whether a key may be in one partition only."""
    return (check.policy.writer.index or "").startswith("global_")


def _copy(*columns: str) -> Any:  # noqa: ANN401
    """The number of a row among those that agree in the columns, from 1."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    return F.row_number().over(Window.partitionBy(*columns).orderBy(F.lit(1)))


def _file_id() -> Any:  # noqa: ANN401
    """The file group of a row: the name of its base file begins with it, and a log file's rows have it alone."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.substring_index("_hoodie_file_name", "_", 1)


def _inside(event_ms: Any, check: DataCheck) -> Any:  # noqa: ANN401
    """Whether a row lies in the window of the check; without a window every row does."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.lit(True) if check.since_ms is None else F.coalesce(event_ms > check.since_ms, F.lit(False))


def count_differences(views: Views, threshold_ms: int, sample_size: int) -> dict[str, Any]:
    """Every count of the comparison; samples of the offending keys by a second pass, only where there are any.

    Within a sample a key that is alone is looked up in the whole of the other view before it counts: it may have
    moved to a file group that was not chosen.
    """
    counts = _counts(views.rt, views.ro, threshold_ms, sample_size)
    if views.whole_rt is None or not any(counts[name] for name in _UNPAIRED):
        return counts
    key = ["partition", "key"]
    ro = views.ro.unionByName(_only(views.whole_ro, views.rt, key).join(views.ro.select(key), key, "left_anti"))
    rt = views.rt.unionByName(_only(views.whole_rt, views.ro, key).join(views.rt.select(key), key, "left_anti"))
    return _counts(rt, ro, threshold_ms, sample_size)


def _only(frame: Any, wanted: Any, key: list[str]) -> Any:  # noqa: ANN401
    return frame.join(wanted.select(key).distinct(), key, "left_semi")


def _counts(rt: Any, ro: Any, threshold_ms: int, sample_size: int) -> dict[str, Any]:  # noqa: ANN401
    from pyspark.sql import functions as F  # noqa: N812

    joined = _joined(rt, ro, threshold_ms)
    facts = _facts()
    row = joined.agg(
        *[F.count(F.when(fact, 1)).alias(name) for name, fact in facts.items()],
        F.max(F.when(facts["unreadable_event_times"], F.col("source_time"))).alias("unreadable_sample"),
        F.min(F.least("event_ms", "ro_event_ms")).alias("earliest_event_ms"),
        F.max(F.greatest("event_ms", "ro_event_ms")).alias("latest_event_ms"),
    ).first()
    counts: dict[str, Any] = row.asDict()
    wanted = [name for name in _SAMPLED if counts[name]]
    counts["samples"] = samples_of(joined, facts, wanted, sample_size) if wanted and sample_size else {}
    if "duplicate_keys_in_rt" in counts["samples"]:
        counts["samples"]["duplicate_keys_in_rt"] = with_file_groups(rt, counts["samples"]["duplicate_keys_in_rt"])
    return counts


def require_readable(counts: Mapping[str, Any], column: str, type_name: str) -> None:
    """Raises TableError where rows had no key or values of the event-time column could not be read as times."""
    if counts.get("rows_without_key"):
        raise _no_meta_columns()
    if counts.get("unreadable_event_times"):
        raise TableError(
            Code.UNREADABLE_TIMES,
            f"{counts['unreadable_event_times']} values of event-time column `{column}` (type `{type_name}`) cannot be "
            f"read as times, for example `{counts['unreadable_sample']}`",
            hint="set `unit` (s, ms, us) or `format` (a Spark datetime pattern) of the policy's `event_time_column`",
        )


def _no_meta_columns() -> TableError:
    hint = "set `verify.level: metadata` for this policy"
    return TableError(
        Code.NO_META_COLUMNS, "the table has no meta columns (`hoodie.populate.meta.fields` is false)", hint=hint
    )


def _values(schema: Any) -> Any:  # noqa: ANN401
    from pyspark.sql import functions as F  # noqa: N812

    fields = sorted((f for f in schema.fields if not f.name.startswith("_hoodie_")), key=lambda f: str(f.name))
    return F.struct(*[comparable(F.col(f"`{f.name}`"), f.dataType).alias(f.name) for f in fields])


def _flag(spark: Any, frame: Any, value: Any, members: frozenset[str], name: str) -> Any:  # noqa: ANN401
    """The frame with a column that says whether `value` is a member; many members travel as a broadcast table."""
    from pyspark.sql import functions as F  # noqa: N812

    if not members:
        return frame.withColumn(name, F.lit(False))
    listed = spark.createDataFrame([(member,) for member in sorted(members)], f"{_MEMBER} string")
    joined = frame.join(F.broadcast(listed), value == F.col(_MEMBER), "left")
    return joined.withColumn(name, F.col(_MEMBER).isNotNull()).drop(_MEMBER)


def _keyed(frame: Any, columns: dict[str, Any]) -> Any:  # noqa: ANN401
    from pyspark.sql import functions as F  # noqa: N812

    partition, key = (F.col(name) for name in _KEY)
    return frame.select(partition.alias("partition"), key.alias("key"), *[c.alias(n) for n, c in columns.items()])


def _joined(rt: Any, ro: Any, threshold_ms: int) -> Any:  # noqa: ANN401
    """Both sides by key, copies of one key numbered from 1; the windows' shuffle and sort serve the join too.

    RT rows that nothing is promised for go without their values, to keep the shuffle small.
    """
    from pyspark.sql import functions as F  # noqa: N812

    promised = F.coalesce(F.col("event_ms") <= threshold_ms, F.lit(False)) & F.col("rt_inside")
    compared = F.col("promised") | F.col("event_ms").isNull()
    rt = rt.withColumn("promised", promised).withColumn("rt_values", F.when(compared, F.col("rt_values")))
    copy = _copy("partition", "key")
    rt = rt.withColumn("rt_copy", copy)
    rt = rt if "rt_place" in rt.columns else rt.withColumn("rt_place", F.col("rt_copy"))
    return rt.join(ro.withColumn("ro_copy", copy), ["partition", "key"], "full_outer")


def _facts() -> dict[str, Any]:
    """What may hold of a joined row, by the name of its count."""
    from pyspark.sql import functions as F  # noqa: N812

    in_rt, in_ro, promised = F.col("rt_copy").isNotNull(), F.col("ro_copy").isNotNull(), F.col("promised")
    differs = ~F.col("rt_values").eqNullSafe(F.col("ro_values"))
    unequal = promised & in_ro & differs
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
        "duplicate_keys": (F.col("ro_copy") == 2) & first_pairing,
        "duplicate_keys_in_rt": (F.col("rt_place") == 2) & (F.coalesce(F.col("ro_copy"), F.lit(1)) == 1),
    }
