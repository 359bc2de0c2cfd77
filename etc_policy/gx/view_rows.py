"""The rows of both views with just what a comparison needs: key, values, and facts about the row."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.gx.comparable_sql import hashes, row_hash, row_values
from etc_policy.gx.event_time_sql import event_time_ms
from etc_policy.verify.ports import DataCheck

KEY = ("_hoodie_partition_path", "_hoodie_record_key")
FILE_NAME = "_hoodie_file_name"
#: What a row is found by in the other view: its key, or hashes of that.
NAMED, HASHED = ("partition", "key"), ("key_hash", "other_key_hash")
_META = (*KEY, "_hoodie_commit_time", FILE_NAME)
#: Names in one condition that Parquet's statistics are asked about: it walks the list by recursion.
NAMES_AT_ONCE = 500
#: Paths of partitions that say the same as the values of their columns, whatever a writer does about other characters.
_PLAIN = re.compile(r"(?!__)[A-Za-z0-9_.-]+")


def require_meta_columns(*frames: Any) -> None:
    """Return if rows have a key.

    Raises:
        TableError: the table has no meta columns.

    """
    if any(not set(_META) <= set(frame.columns) for frame in frames):
        raise no_meta_columns()


def no_meta_columns() -> TableError:
    """Rows have no key to compare by."""
    hint = "set `verify.level: logs`, which needs no rows, for this policy"
    return TableError(
        Code.NO_META_COLUMNS, "the table has no meta columns (`hoodie.populate.meta.fields` is false)", hint=hint
    )


def is_one_of(spark: Any, text: Any, values: Collection[str]) -> Any:
    """Whether a text is one of many, which are handed to Java in one call; false for none at all."""
    from pyspark.sql import functions as F  # noqa: N812

    if not values:
        return F.lit(False)
    return F.coalesce(_in(spark, text, values), F.lit(False))


def _in(spark: Any, text: Any, values: Collection[str]) -> Any:
    """The same as a bare condition, which Parquet's statistics can be asked about."""
    from pyspark.sql import Column

    members = spark.sparkContext._jvm.org.apache.hadoop.util.StringUtils.getStringCollection("\0".join(values), "\0")
    return Column(text._jc.isInCollection(members))


def without_files(spark: Any, frame: Any, names: Collection[str]) -> Any:
    """The rows that do not say that they are of one of these base files.

    Every row of a base file has its name, so that Parquet's own statistics spare Spark the reading of such a file.
    """
    from pyspark.sql import functions as F  # noqa: N812

    ordered: Sequence[str] = sorted(names)
    for first in range(0, len(ordered), NAMES_AT_ONCE):
        name = F.col(FILE_NAME)
        frame = frame.where(~_in(spark, name, ordered[first : first + NAMES_AT_ONCE]) | name.isNull())
    return frame


def with_files(spark: Any, frame: Any, names: Collection[str]) -> Any:
    """The rows that say that they are of one of these base files; by its statistics Spark is spared most others."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.where(_in(spark, F.col(FILE_NAME), names) if names else F.lit(False))


def in_partitions(spark: Any, frame: Any, fields: Sequence[str], paths: Collection[str]) -> Any | None:
    """A condition by which Hudi leaves all other partitions unread, None where their values cannot be had from their paths.

    It is a condition on whole partitions: Spark does not hold it against rows.
    """
    from pyspark.sql import functions as F  # noqa: N812

    values = [value for value in (_values(path, fields) for path in paths) if value is not None]
    if len(values) < len(paths) or not set(fields) <= set(frame.columns):
        return None
    return is_one_of(spark, F.concat_ws("/", *[F.col(f"`{field}`").cast("string") for field in fields]), values)


def _values(path: str, fields: Collection[str]) -> str | None:
    """A partition's path without the names of its columns, None where it may say anything else than their values."""
    parts = path.split("/")
    if not path or len(parts) != len(fields):
        return None
    values = [part.removeprefix(f"{field}=") for field, part in zip(fields, parts, strict=True)]
    return "/".join(values) if all(_PLAIN.fullmatch(value) for value in values) else None


def of_partitions(spark: Any, frame: Any, check: DataCheck) -> Any:
    """The rows of the partitions that are asked for; all of them where none are.

    The values that a path seems to have may be others (facts: condition-on-folder-name): where Hudi then finds none of a
    partition, all are read.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if not check.ends:
        return frame
    require_meta_columns(frame)
    wanted = is_one_of(spark, F.col(KEY[0]), check.ends)
    condition = in_partitions(spark, frame, check.partition_fields, check.ends)
    narrow = None if condition is None else frame.where(condition).where(wanted)
    if narrow is None or {row[0] for row in narrow.select(KEY[0]).distinct().collect()} != set(check.ends):
        return frame.where(wanted)
    return narrow


def only_partitions(spark: Any, frame: Any, check: DataCheck) -> Any:
    """All that is in the partitions that are named, whatever partition a row says that it is of; all where none are."""
    if check.partitions is None:
        return frame
    condition = in_partitions(spark, frame, check.partition_fields, check.partitions)
    return frame if condition is None else frame.where(condition)


def has_partitions(spark: Any, read: Callable[[], Any], check: DataCheck, wanted: Collection[str]) -> bool:
    """Whether a view that has these partitions alone shows rows of each: Hudi reads the whole of a partition, or nothing.

    The values that a path seems to have may be others (facts: condition-on-folder-name).
    """
    if not wanted:
        return True
    view = read()
    condition = in_partitions(spark, view, check.partition_fields, check.partitions or ())
    if condition is None or not set(_META) <= set(view.columns):
        return False
    return set(wanted) <= {row[0] for row in view.select(KEY[0]).distinct().collect()}


def sampled(spark: Any, frame: Any, check: DataCheck) -> Any:
    """The rows of a view that lie in the chosen file groups; all of them where none were chosen."""
    if check.file_ids is None:
        return frame
    return frame.where(is_one_of(spark, _file_id(), check.file_ids))


def rt_rows(spark: Any, rt: Any, check: DataCheck, *, hashed: bool = False) -> Any:
    """Rows of RT; with `hashed` their values are a hash, and so is the key that they are found by.

    Raises:
        TableError: the event-time column is missing or of a type that holds no times.

    """
    from pyspark.sql import functions as F  # noqa: N812

    source, event_ms = event_time_ms(rt.schema, check.policy.event_time)
    columns = {
        "event_ms": event_ms,
        "unreadable": F.when(event_ms.isNull(), source.cast("string")),
        "rt_inside": inside(event_ms, check),
        "late": _late(spark, check),
        "waits": is_one_of(spark, F.concat_ws("/", file_group(), "_hoodie_commit_time"), check.waiting),
        "rt_values": row_hash(rt.schema) if hashed else row_values(rt.schema),
        "rt_hash": row_hash(rt.schema),
        "rt_group": file_group(),
    }
    keyed = _keyed(rt, columns, hashed=hashed)
    return keyed.withColumn("rt_place", copy_of("key")) if is_global(check) else keyed


def ro_rows(spark: Any, ro: Any, check: DataCheck, *, hashed: bool = False) -> Any:
    """Rows of RO; with `hashed` their values are a hash, and so is the key that they are found by."""
    from pyspark.sql import functions as F  # noqa: N812

    _, event_ms = event_time_ms(ro.schema, check.policy.event_time)
    group = file_group()
    columns = {
        "ro_event_ms": event_ms,
        "ro_inside": inside(event_ms, check),
        "newer": _late(spark, check),
        "open": is_one_of(spark, group, frozenset("/".join(one) for one in check.open_groups)),
        "written": F.col("_hoodie_commit_time"),
        "stranger": ~is_one_of(spark, F.col(FILE_NAME), check.base_files),
        "ro_values": row_hash(ro.schema) if hashed else row_values(ro.schema),
        "ro_hash": row_hash(ro.schema),
        "ro_group": group,
    }
    return _keyed(ro, columns, hashed=hashed)


def is_global(check: DataCheck) -> bool:
    """Whether a key may be in one partition only."""
    return (check.policy.writer.index or "").startswith("global_")


def copy_of(*columns: Any, order: Iterable[Any] = ()) -> Any:
    """The number of a row among those that agree in the columns, from 1, in the order of the given expressions."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    return F.row_number().over(Window.partitionBy(*columns).orderBy(*(tuple(order) or (F.lit(1),))))


def copy_in_ro(*columns: str) -> Any:
    """The number of an RO row among those of its key: rows of file groups without log files first, the latest first.

    Where an index forgets a deleted key (record level), or a global one moves it, the key's next row goes to another file group,
    and the old one stays in RO until its delete is compacted (facts: forgotten-keys).
    """
    from pyspark.sql import functions as F  # noqa: N812

    return copy_of(*columns, order=(F.col("open"), F.col("written").desc()))


def inside(event_ms: Any, check: DataCheck) -> Any:
    """Whether a row lies in the window of the check, and before the end of its partition; without both every row does."""
    from pyspark.sql import functions as F  # noqa: N812

    if check.ends:
        ends = F.create_map(*[F.lit(one) for pair in check.ends.items() for one in pair])[F.col(KEY[0])]
        return F.coalesce(event_ms < ends, F.lit(False))
    return F.lit(True) if check.since_ms is None else F.coalesce(event_ms > check.since_ms, F.lit(False))


def file_group() -> Any:
    """The path of a row's file group below the table."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.concat_ws("/", KEY[0], _file_id())


def _file_id() -> Any:
    """The file group of a row: the name of its base file begins with it, and a log file's rows have it alone."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.substring_index(FILE_NAME, "_", 1)


def _late(spark: Any, check: DataCheck) -> Any:
    """Whether a row was written by a commit that the plan had not seen."""
    from pyspark.sql import functions as F  # noqa: N812

    written = F.col("_hoodie_commit_time")
    return is_one_of(spark, written, check.late_commits) | (written > check.seen_until)


def _keyed(frame: Any, columns: dict[str, Any], *, hashed: bool) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    partition, key = (F.col(name) for name in KEY)
    has_key = partition.isNotNull() & key.isNotNull()
    found_by = [F.when(has_key, one).alias(name) for name, one in zip(HASHED, hashes(*KEY), strict=True)]
    named = [column.alias(name) for name, column in columns.items()]
    return frame.select(partition.alias("partition"), key.alias("key"), *(found_by if hashed else ()), *named)
