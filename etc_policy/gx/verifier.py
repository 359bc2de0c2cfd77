"""Data verification with Great Expectations on Spark: both views read at one pinned state, judged by a suite."""

from __future__ import annotations

import importlib.util
import os
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from etc_policy.errors import EngineError, EtcError, Issue, PolicyError, install_hint
from etc_policy.errors.codes import Code
from etc_policy.gx.index_probes import rows_missed
from etc_policy.gx.results import read_result
from etc_policy.gx.ro_counts import BUCKETS_OF_A_TASK, buckets_for
from etc_policy.gx.view_comparison import SAMPLE_SIZE, named, require_readable
from etc_policy.gx.view_join import Comparison
from etc_policy.gx.view_rows import NAMES_AT_ONCE, has_partitions
from etc_policy.gx.views import narrowed, read_view, require_columns, require_stock_readers
from etc_policy.hudi.properties import metadata_partitions, read_properties
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.run.objects_in_logs import require_no_objects
from etc_policy.run.table_files import require_regular
from etc_policy.spark.bundles import release_of
from etc_policy.spark.index_faults import wrong_statistics
from etc_policy.spark.interrupts import raise_if_interrupted
from etc_policy.spark.java_causes import java_causes
from etc_policy.spark.java_runtime import spark_extra
from etc_policy.spark.metadata_listing import require_listed_below, wrongly_listed
from etc_policy.spark.store_outage import raise_store_outage, store_outage
from etc_policy.storage.object_cache import Cache
from etc_policy.storage.open_storage import open_reader
from etc_policy.table.state import TableState
from etc_policy.verify.catalog import source_of
from etc_policy.verify.ports import DataCheck, ExpectationResult
from etc_policy.verify.suites import SuiteExpectation, View, bind_suite, suite_parameters

_CONTAINMENT = "expect_ro_to_contain_rt_up_to"
#: Great Expectations keeps one current project for a process, and cannot be imported by two threads at once; the parser of
#: times is set for a whole session.
_ONE_AT_A_TIME = threading.Lock()
#: The asset that etc's own expectations run on: RO without a window, which they look at themselves.
_WHOLE_RO = "whole_ro"
_SETTINGS = {
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # Longer lists of names are not held against Parquet's statistics.
    "spark.sql.parquet.pushdown.inFilterThreshold": str(NAMES_AT_ONCE),
}


@dataclass(frozen=True, slots=True)
class GxVerifier:
    """The DataVerifier on Great Expectations, for one verification; `spark` is a session with the Hudi bundle.

    Which log files were looked at is kept in `kept` for the next one.
    """

    spark: Any
    kept: Cache | None = None
    _looked_at: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def _reading(self, base_path: str) -> Any:
        """The session, to read all of a table with; it is looked at once.

        Raises:
            TableError: Java would wait for a pipe in it, make objects of what a log file holds, or read files elsewhere.

        """
        if base_path not in self._looked_at:
            require_regular(base_path, "")
            require_no_objects(base_path, self.kept, "")
            if "files" in metadata_partitions(read_properties(open_reader(base_path))):
                require_listed_below(self.spark, base_path)
            self._looked_at.add(base_path)
        return self.spark

    @property
    def release(self) -> str | None:
        """The release of Hudi that Spark has loaded."""
        return release_of(self.spark._jvm)

    def wrongly_listed(self, state: TableState) -> tuple[str, ...]:
        """What the metadata table's listing says wrongly of the latest file slices, a sentence each.

        Raises:
            EngineError: the metadata table cannot be read.

        """
        return wrongly_listed(self._reading(state.base_path), state)

    def wrongly_indexed(self, state: TableState) -> tuple[str, ...]:
        """What the metadata table's statistics say wrongly of the newest base files, a sentence each.

        Raises:
            EngineError: the metadata table cannot be read.

        """
        return wrong_statistics(self._reading(state.base_path), state)

    def missed_by_indexes(self, request: DataCheck, state: TableState) -> tuple[str, ...]:
        """Rows that a reader who asks the metadata table's indexes does not find, a sentence each.

        Raises:
            EngineError: a view cannot be read.

        """
        with _engine_errors(self._reading(request.base_path), request):
            return rows_missed(self.spark, request, state)

    def finds_partitions(self, request: DataCheck, state: TableState) -> bool:
        """Whether the partitions that are asked for can be read by themselves, with all that is in them.

        Raises:
            EngineError: a view cannot be read.

        """
        with_files = {one.partition for one in state.slices if one.base_file is not None}
        wanted: dict[View, set[str]] = {"ro": with_files, "rt": set(state.partitions_with_logs)}
        with _engine_errors(self._reading(request.base_path), request):
            return all(
                has_partitions(self.spark, partial(read_view, self.spark, request, view), request, partitions)
                for view, partitions in wanted.items()
            )

    def check(self, request: DataCheck) -> tuple[int, tuple[ExpectationResult, ...]]:
        """Late rows counted, and one result per expectation in the suite's order; one check at a time in a process.

        Raises:
            PolicyError: the suite names an unknown expectation, argument, parameter or column, or the policy's condition
                on partitions is not one.
            TableError: no times can be read from the event-time column.
            EngineError: the table cannot be read, by stock Spark alone either, or no expectation could run.
            RetryableError: its store did not answer.

        """
        comparison = f"etc_{uuid.uuid4().hex}"
        suite = _completed(bind_suite(request.suite, suite_parameters(request)), comparison, request.threshold_ms)
        compares = any(source_of(e.type) == "rows" for e in suite)
        with _ONE_AT_A_TIME, ExitStack() as stack:
            configured = _configurations(suite)
            stack.enter_context(_engine_errors(self._reading(request.base_path), request))
            for setting, value in _settings(self.spark, request).items():
                stack.enter_context(_setting(self.spark, setting, value))
            sides: set[View] = {"ro", "rt"} if compares else {"ro", *(e.view for e in suite)}
            views = {side: read_view(self.spark, request, side) for side in sorted(sides)}
            require_columns(suite, views)
            if compares:
                compared = Comparison(self.spark, views["rt"], views["ro"], request)
                stack.enter_context(named(comparison, compared))
            frames = {side: narrowed(self.spark, view, request) for side, view in views.items()}
            results = _run(suite, configured, frames, views["ro"], request.base_path)
            _require_times(results, views, request)
        if results and all(result.status == "error" for result in results):
            require_stock_readers(self.spark, request)
            raise EngineError(Code.NOTHING_CHECKED, "no expectation could be checked", cause=results[0].message)
        late = max((int(r.observed.get("late_rows", 0)) for r in results if r.expectation == _CONTAINMENT), default=0)
        return late, results


def require_great_expectations(extras: Iterable[str] = ()) -> None:
    """Return if rows can be verified here; EngineError otherwise, of which the hint names other `extras` that are missing too."""
    if importlib.util.find_spec("great_expectations") is None:
        hint = f"{install_hint(','.join((spark_extra(), *extras)))}, or set `verify.level: metadata`"
        raise EngineError(Code.NO_GREAT_EXPECTATIONS, "Great Expectations is not installed", hint=hint)


def _settings(spark: Any, request: DataCheck) -> dict[str, str]:
    """Spark's settings for a check, of which two grow with the table."""
    buckets, partitions = buckets_for(request), "spark.sql.shuffle.partitions"
    return {
        **_SETTINGS,
        partitions: str(max(int(spark.conf.get(partitions)), buckets // BUCKETS_OF_A_TASK)),
        # With more groups Spark sorts the rows instead.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(buckets + 1),
    }


def _completed(suite: tuple[SuiteExpectation, ...], comparison: str, threshold_ms: int) -> tuple[SuiteExpectation, ...]:
    """The suite with the arguments that our own expectations take from the check; those run once, on RO."""
    own = {"comparison": comparison, "threshold_ms": threshold_ms, "sample_size": SAMPLE_SIZE}
    return tuple(
        item.model_copy(update={"kwargs": {**own, **item.kwargs}, "on": "ro"})
        if source_of(item.type) == "rows"
        else item
        for item in suite
    )


def _configurations(suite: tuple[SuiteExpectation, ...]) -> list[Any]:
    """The expectations as Great Expectations' own objects.

    Built one by one: a suite drops an expectation that it does not know with only a log line.
    """
    require_great_expectations()
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    import etc_policy.gx.expectations  # noqa: F401 - registers etc's own

    built, issues = [], []
    for place, expectation in enumerate(suite):
        try:
            configuration = ExpectationConfiguration(
                type=expectation.type, kwargs=dict(expectation.kwargs), meta={"etc": place}
            )
            built.append(configuration.to_domain_obj())
        except Exception as error:
            issues.append(_configuration_issue(expectation, error))
    if issues:
        raise PolicyError(issues)
    return built


def _configuration_issue(expectation: SuiteExpectation, error: Exception) -> Issue:
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    where = expectation.place
    known = list_registered_expectation_implementations()
    if expectation.type not in known:
        message = f"unknown expectation `{expectation.type}`"
        return Issue(Code.UNKNOWN_EXPECTATION, message, where, did_you_mean(expectation.type, known))
    reason = "; ".join(
        f"`{'.'.join(str(part) for part in fault['loc'])}`: {fault['msg']}"
        for fault in (error.errors() if hasattr(error, "errors") else ())
    )
    return Issue(Code.BAD_ARGUMENTS, f"expectation `{expectation.type}` has wrong arguments: {reason or error}", where)


@contextmanager
def _engine_errors(spark: Any, request: DataCheck) -> Iterator[None]:
    """Whatever else Spark and Great Expectations raise, say where Java has died, as an error of this table alone."""
    try:
        yield
    except EtcError:
        raise
    except Exception as error:
        raise_if_interrupted()
        raise_store_outage(request.base_path, error)
        require_stock_readers(spark, request)
        message = f"the rows of `{request.base_path}` could not be compared"
        raise EngineError(Code.NOTHING_CHECKED, message, cause=java_causes(error)) from error


@contextmanager
def _setting(spark: Any, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def _run(
    suite: tuple[SuiteExpectation, ...],
    configured: list[Any],
    views: Mapping[View, Any],
    ro: Any,
    base_path: str,
) -> tuple[ExpectationResult, ...]:
    """Every expectation evaluated on its view; Great Expectations returns them in an order of its own.

    Raises:
        RetryableError: the table's store did not answer.

    """
    import great_expectations
    from great_expectations.core import ExpectationSuite

    context = great_expectations.get_context(mode="ephemeral")
    context.enable_analytics(False)
    context.variables.progress_bars = {"globally": False}
    # Never persist: caching a join of Hudi relations can deadlock (facts: never-persist).
    source = context.data_sources.add_spark("etc", persist=False)
    results: dict[int, ExpectationResult] = {}
    frames: dict[str, Any] = {str(side): view for side, view in views.items()} | {_WHOLE_RO: ro}
    sides = [_WHOLE_RO if source_of(one.type) == "rows" and views["ro"] is not ro else one.view for one in suite]
    for side in sorted(set(sides)):
        chosen = [built for built, own in zip(configured, sides, strict=True) if own == side]
        definition = source.add_dataframe_asset(side).add_batch_definition_whole_dataframe("whole")
        batch = definition.get_batch(batch_parameters={"dataframe": frames[side]})
        outcome = batch.validate(ExpectationSuite(name=side, expectations=chosen), result_format="SUMMARY")
        for result in outcome.results:
            place, found = result.expectation_config.meta["etc"], result.to_json_dict()
            outage = store_outage(base_path, str(found.get("exception_info")))
            if outage is not None:
                raise outage
            results[place] = read_result(suite[place], found)
    return tuple(results[place] for place in range(len(suite)))


def _require_times(results: tuple[ExpectationResult, ...], views: Mapping[View, Any], request: DataCheck) -> None:
    column = request.policy.event_time.column
    for result in results:
        if result.expectation == _CONTAINMENT and "rt" in views:
            types = dict(views["rt"].dtypes)
            require_readable(result.observed, request, types.get(column, "field of a struct"))
