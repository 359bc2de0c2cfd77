"""The two views of a table as expectations see them: pinned at one state, narrowed to what the policy wants checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etc_policy.errors import EngineError, Issue, PolicyError
from etc_policy.errors.codes import Code
from etc_policy.gx.event_time_sql import event_time_ms
from etc_policy.gx.view_rows import of_partitions, only_partitions, sampled
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.spark.client_options import MERGED_ROWS
from etc_policy.spark.interrupts import raise_if_interrupted
from etc_policy.spark.java_causes import java_causes
from etc_policy.spark.store_outage import raise_store_outage
from etc_policy.verify.catalog import source_of
from etc_policy.verify.ports import DataCheck
from etc_policy.verify.suites import SuiteExpectation, View

#: Arguments of Great Expectations that name columns.
_COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list")
#: What Hudi is asked for, in both of its ways: the kind of query that a session is set to wins over the first alone
#: (facts: session-query-type).
_QUERIES: Mapping[View, Mapping[str, str]] = {
    "ro": {"hoodie.query.as.ro.table": "true", "hoodie.datasource.query.type": "read_optimized"},
    "rt": {"hoodie.query.as.ro.table": "false", "hoodie.datasource.query.type": "snapshot"},
}
_NAMES: Mapping[View, str] = {"rt": "real-time", "ro": "read-optimized"}


def read_view(
    spark: Any, request: DataCheck, view: View, *, skips_data: bool | None = None, merged: bool = True
) -> Any:
    """A view of the table at the pinned instant, which both kinds of query honour, in the partitions that are wanted.

    Unless `merged` it has every row of base and log files, also those that lost to another one of their key.
    Whether files are left out that by the metadata table's indexes cannot hold what is asked for is left to the session, or said.

    Raises:
        EngineError: the table cannot be read.
        RetryableError: its store did not answer.
        PolicyError: the policy's condition on partitions is not one.

    """
    reader = spark.read.format("hudi")
    for key, value in MERGED_ROWS.items():
        reader = reader.option(key, value if merged else "skip_merge")
    if skips_data is not None or not merged:
        reader = reader.option("hoodie.enable.data.skipping", str(bool(skips_data)).lower())
    if skips_data is not None:
        reader = reader.option("hoodie.metadata.enable", "true")
    if request.pinned_instant is not None:
        reader = reader.option("as.of.instant", request.pinned_instant)
    try:
        frame = reader.options(**_QUERIES[view]).load(request.base_path)
    except Exception as error:
        raise_store_outage(request.base_path, error)
        message = f"cannot read the {_NAMES[view]} view of `{request.base_path}`"
        raise EngineError(Code.CANNOT_READ_VIEW, message, cause=java_causes(error)) from error
    frame = only_partitions(spark, of_partitions(spark, frame, request), request)
    condition = request.policy.verify.where
    return _compared_by_value(frame if condition is None else _where(spark, frame, condition, request), request)


def _compared_by_value(frame: Any, request: DataCheck) -> Any:
    """The rows, where a condition on a column whose times a key generator writes in another form finds them by its values.

    Hudi compares such a condition with the folder's name (facts: condition-on-folder-name), and no row at all passes
    everything. It does so only where the condition is on partition columns alone: each value here depends on another column
    too, without a change.
    """
    from pyspark.sql import functions as sql

    is_there = sql.coalesce(sql.length("_hoodie_file_name"), sql.lit(0)) >= 0
    columns = sorted({field.split(".")[0] for field in request.time_partition_fields})
    return (
        frame.withColumns({column: sql.when(is_there, sql.col(f"`{column}`")) for column in columns})
        if columns
        else frame
    )


def require_stock_readers(spark: Any, request: DataCheck) -> None:
    """Return if Spark reads the rows of both views by a plain read, where nothing is asked for but the kind of query.

    Raises:
        EngineError: it does not; says whether it did before the last compaction by etc.
        RetryableError: the table's store did not answer.

    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    for view, name in _NAMES.items():
        error = _plain_read_error(spark, request, view)
        if isinstance(error, (Py4JJavaError, CapturedException)):  # else Spark itself has ended
            since, cause = _since_when(spark, request, view, error), java_causes(error)
            message = f"stock Spark cannot read the {name} view of `{request.base_path}`: a plain read fails too{since}"
            hint = "see Spark's own error; `verify.level: logs` verifies by log files and metadata, without the views"
            raise EngineError(Code.CANNOT_READ_VIEW, message, hint=hint, cause=cause) from error


def _plain_read_error(spark: Any, request: DataCheck, view: View, **options: str) -> Exception | None:
    """Why not all rows of a view can be read; None where they can."""
    try:
        frame = spark.read.format("hudi").options(**_QUERIES[view], **options).load(request.base_path)
        frame.write.format("noop").mode("overwrite").save()
    except Exception as error:
        raise_if_interrupted()
        raise_store_outage(request.base_path, error)
        return error
    return None


def _since_when(spark: Any, request: DataCheck, view: View, error: Exception) -> str:
    """What is known of the time before etc compacted; nothing where another error, such as of a cleaned file, hides it."""
    if request.before_etc is None:
        return "; its timeline has no compaction by etc"
    earlier = _plain_read_error(spark, request, view, **{"as.of.instant": request.before_etc})
    when = f"as of {request.before_etc}, before the last compaction by etc"
    if earlier is None:
        return f"; it can {when}"
    return f"; nor can it {when}" if _root(earlier) == _root(error) else ""


def _root(error: Exception) -> str:
    """The kind of the root exception, without what it says of a file."""
    return java_causes(error).partition(":")[0]


def _where(spark: Any, frame: Any, condition: str, request: DataCheck) -> Any:
    """The rows for which a condition on partition columns holds; on others a row's change could take it out of one view.

    Of columns whose times a key generator writes in another form, Hudi finds no row by their values
    (facts: condition-on-folder-name).
    """
    fields = [name for name in request.partition_fields if name not in request.time_partition_fields]
    try:
        # A `select` would not do: Spark finds the columns of a condition behind it too.
        spark.createDataFrame([], frame.select(*[f"`{field}`" for field in fields]).schema).where(condition)
        return frame.where(condition)
    except Exception as error:
        reason = str(error).split("\n", 1)[0][:200]
        hint = (
            f"the partition columns are {', '.join(f'`{f}`' for f in fields)}"
            if fields
            else ("the table has none" if not request.partition_fields else "it has no other partition columns")
        )
        if request.time_partition_fields:
            times = ", ".join(f"`{field}`" for field in request.time_partition_fields)
            hint = f"the key generator writes {times} in another form, so that Hudi may find no row by it; {hint}"
        message = f"`verify.where` is not a condition on the partition columns: {reason}"
        raise PolicyError([Issue(Code.BAD_CONDITION, message, request.policy.place, hint)]) from error


def narrowed(spark: Any, frame: Any, request: DataCheck) -> Any:
    """What expectations on one view run on: the chosen file groups, and rows within the window."""
    frame = sampled(spark, frame, request)
    if request.since_ms is None:
        return frame
    _, event_ms = event_time_ms(frame.schema, request.policy.event_time)
    return frame.where(event_ms > request.since_ms)


def require_columns(suite: Sequence[SuiteExpectation], views: Mapping[View, Any]) -> None:
    """Return if every column that an expectation names is there; whether one exists may be what is asked.

    Raises:
        PolicyError: some are not; carries all of them, with their places.

    """
    issues = [
        issue
        for item in suite
        if source_of(item.type) == "great_expectations" and item.type != "expect_column_to_exist"
        for issue in _missing_columns(item, views[item.view].columns)
    ]
    if issues:
        raise PolicyError(issues)


def _missing_columns(item: SuiteExpectation, columns: Sequence[str]) -> Iterator[Issue]:
    for argument in _COLUMN_ARGUMENTS:
        value = item.kwargs.get(argument)
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str) and name not in columns and name.split(".")[0] not in columns:
                message = f"expectation `{item.type}` names the column `{name[:80]}`, which the table does not have"
                own = [column for column in columns if not column.startswith("_hoodie_")]
                hint = did_you_mean(name, own) or f"its columns are {', '.join(own)}"
                yield Issue(Code.UNKNOWN_COLUMN, message, item.place, hint)
