"""Etc's own expectations for Great Expectations; importing this module registers them, so only functions import it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from great_expectations.execution_engine import SparkDFExecutionEngine  # noqa: TID253 - imported late as a whole
from great_expectations.expectations.expectation import BatchExpectation  # noqa: TID253
from great_expectations.expectations.metrics.metric_provider import metric_value  # noqa: TID253
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider  # noqa: TID253

from etc_policy.gx.as_of_rows import FAULTS, count_as_of
from etc_policy.gx.view_comparison import comparison_of, count_differences
from etc_policy.gx.view_join import Comparison
from etc_policy.table.formats import format_time
from etc_policy.verify.catalog import HIDDEN_BY_LATER, WAITING

#: The metric of etc's own comparison.
DIFFERENCES = "table.etc.ro_against_rt"
#: That of RO as of a cut.
AS_OF = "table.etc.ro_as_of"
_KEYS = ("comparison", "threshold_ms", "sample_size")


def _counted_by(count: Callable[[Comparison, int, int], dict[str, Any]]) -> Any:
    """The function of a metric: Great Expectations calls it with its arguments by their names."""

    @metric_value(engine=SparkDFExecutionEngine)  # type: ignore[untyped-decorator]
    def metric(*, metric_value_kwargs: dict[str, Any], **_: Any) -> dict[str, Any]:
        given = metric_value_kwargs
        return count(comparison_of(given["comparison"]), given["threshold_ms"], given["sample_size"])

    return metric


class RoAgainstRt(TableMetricProvider):  # type: ignore[misc]
    """The counts of one comparison; expectations with the same arguments share one evaluation."""

    metric_name = DIFFERENCES
    value_keys = _KEYS

    _spark = _counted_by(count_differences)


class RoAsOf(TableMetricProvider):  # type: ignore[misc]
    """The counts of RO as of the last cut."""

    metric_name = AS_OF
    value_keys = _KEYS

    _spark = _counted_by(count_as_of)


class _ComparisonExpectation(BatchExpectation):  # type: ignore[misc]
    """Base of those that read the comparison: `comparison` is the name by which `comparison_of` finds it."""

    comparison: str
    threshold_ms: int
    sample_size: int = 20

    metric_dependencies: ClassVar[tuple[str, ...]] = (DIFFERENCES,)
    success_keys: ClassVar[tuple[str, ...]] = _KEYS
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)
    #: The counts that must be zero, those that are reported, those reported unless zero, and the one of all rows looked at.
    failures: ClassVar[tuple[str, ...]] = ()
    reported: ClassVar[tuple[str, ...]] = ()
    reported_if_any: ClassVar[tuple[str, ...]] = ()
    rows: ClassVar[str] = "ro_rows"

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: Any = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        counts = metrics[self.metric_dependencies[0]]
        wrong = sum(counts[name] for name in self.failures)
        details = {name: counts[name] for name in (self.rows, *self.failures, *self.reported)}
        details |= {name: counts[name] for name in self.reported_if_any if counts[name]}
        samples = {name: counts["samples"][name] for name in self.failures if name in counts["samples"]}
        return _result(wrong, counts[self.rows], {**details, **({"samples": samples} if samples else {})})


class ExpectRoToContainRtUpTo(_ComparisonExpectation):
    """Every row of the real-time view with event time <= T is in the read-optimized view with equal values."""

    failures = ("missing", "different")
    reported = ("late_rows", "rt_rows", "null_event_times")
    reported_if_any = ("unreadable_event_times", "unreadable_sample", "rows_without_key", "earliest_impossible_ms")
    rows = "promised_rows"


class ExpectRoAsOf(_ComparisonExpectation):
    """RO as of the last compaction by etc, where event times are at or before T, is the table as of T: no row less and none more.

    For tables with `granularity: record`.
    """

    metric_dependencies = (AS_OF,)
    failures = FAULTS
    reported_if_any = (HIDDEN_BY_LATER, "rows_after_t", "merged_whole")
    rows = "as_of_rows"


class ExpectNoKeyTwice(_ComparisonExpectation):
    """No pair of partition path and record key is in either view more than once; with a global index no record key is in RT.

    In RO a row of a file group with log files does not count beside another: they may hold its delete.
    """

    failures = ("duplicate_keys", "duplicate_keys_in_rt")
    reported = ("rt_rows",)
    reported_if_any = ("duplicate_keys_not_yet_compacted",)


class ExpectNoDeletedRows(_ComparisonExpectation):
    """The read-optimized view shows no row that RT has deleted, except in file groups with log files."""

    failures = ("deleted",)
    reported = ("deleted_not_yet_compacted", "newer_than_pinned")


class ExpectRowsOfTheirBaseFile(_ComparisonExpectation):
    """Each row of RO says that it was written into a base file that is one of the table's latest.

    Hudi writes the file's name into every row, so a file that was swapped for another gives itself away.
    """

    failures = ("rows_of_other_files",)


class ExpectEventTimesWithinBounds(_ComparisonExpectation):
    """No row without event time is held back from RO, and no event time lies before `earliest_ms` or after `latest_ms`.

    A row without event time has no place at or below the threshold, so nothing else speaks for it.
    """

    earliest_ms: int | None = None
    latest_ms: int | None = None

    failures = ("null_event_times_not_in_ro",)
    reported = ("null_event_times",)
    reported_if_any = (WAITING,)
    rows = "rt_rows"

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: Any = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        found = super()._validate(metrics, runtime_configuration, execution_engine)
        counts, details = metrics[DIFFERENCES], found["result"]["details"]
        seen = {"earliest_ms": counts["earliest_event_ms"], "latest_ms": counts["latest_event_ms"]}
        details |= {"earliest_event_ms": seen["earliest_ms"], "latest_event_ms": seen["latest_ms"]}
        bounds = {"none_before_ms": self.earliest_ms, "none_after_ms": self.latest_ms}
        details |= {name: bound for name, bound in bounds.items() if bound is not None}
        faults = list(_out_of_bounds(seen, self.earliest_ms, self.latest_ms))
        if faults:
            details["fault"] = "; ".join(faults)
        return {**found, "success": found["success"] and not faults}


def _out_of_bounds(seen: dict[str, int | None], earliest_ms: int | None, latest_ms: int | None) -> Iterator[str]:
    first, last = seen["earliest_ms"], seen["latest_ms"]
    if earliest_ms is not None and first is not None and first < earliest_ms:
        yield f"an event time of {format_time(first)} is before {format_time(earliest_ms)}"
    if latest_ms is not None and last is not None and last > latest_ms:
        yield f"an event time of {format_time(last)} is after {format_time(latest_ms)}"


def _result(wrong: int, rows: int, details: dict[str, Any]) -> dict[str, Any]:
    """A result with all the keys that Great Expectations' renderers read together with `unexpected_count`."""
    return {
        "success": wrong == 0,
        "result": {
            "observed_value": wrong,
            "element_count": rows,
            "unexpected_count": wrong,
            "unexpected_percent": 100.0 * wrong / rows if rows else 0.0,
            "missing_count": 0,
            "missing_percent": 0.0,
            "partial_unexpected_list": [key for sample in details.get("samples", {}).values() for key in sample],
            "details": details,
        },
    }
