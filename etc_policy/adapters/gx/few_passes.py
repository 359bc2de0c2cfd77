"""Great Expectations' metrics in few passes over the rows: aggregates of all columns together, and samples last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MethodType
from typing import Any

#: What shows some of the rows that an expectation objects to; each is a pass of its own, by the end of its name.
_SAMPLES = ("unexpected_values", "unexpected_value_counts", "unexpected_rows", "filtered_row_count")
_COUNT = "unexpected_count"
_ROWS = "table.row_count"
#: The metric of etc's own comparison.
DIFFERENCES = "table.etc.ro_against_rt"


def ask_in_few_passes(engine: Any) -> None:
    """Have the engine wait with aggregates until all that are wanted are known, and with samples until it has the counts.

    Of itself it computes whatever is ready, in several rounds, each of which reads the rows again; and it looks for
    samples also where nothing was counted. What it asks of columns waits for the number of rows, which etc's comparison knows.
    """
    engine.resolve_metrics = MethodType(_resolve_metrics, engine)


def _resolve_metrics(
    engine: Any,
    metrics_to_resolve: Iterable[Any],
    metrics: dict[Any, Any] | None = None,
    runtime_configuration: dict[str, Any] | None = None,
) -> dict[Any, Any]:
    known = metrics or {}
    ready = list(metrics_to_resolve)
    samples = [one for one in ready if one.metric_name.endswith(_SAMPLES)]
    others = [one for one in ready if one not in samples]
    direct, bundled = engine._build_direct_and_bundled_metric_computation_configurations(
        metrics_to_resolve=others, metrics=known, runtime_configuration=runtime_configuration
    )
    counted = {} if direct else _counted(bundled, known)
    if counted:
        return counted
    if direct or bundled:
        together = [replace(one, compute_domain_kwargs=_bare(one.compute_domain_kwargs)) for one in bundled]
        resolved = engine._process_direct_and_bundled_metric_computation_configurations(
            metric_fn_direct_configurations=direct, metric_fn_bundle_configurations=[] if direct else together
        )
        return dict(resolved)
    return _samples(engine, samples, known, runtime_configuration)


def _counted(bundled: Iterable[Any], known: dict[Any, Any]) -> dict[Any, Any]:
    """The number of rows where etc's own comparison, which is of the same rows, has counted them."""
    rows = next((found["ro_rows"] for (name, *_), found in known.items() if name == DIFFERENCES), None)
    wanted = (one.metric_configuration for one in bundled)
    whole = (one for one in wanted if one.metric_name == _ROWS and not one.metric_domain_kwargs.get("row_condition"))
    return {} if rows is None else {one.id: rows for one in whole}


def _bare(domain: dict[str, Any] | None) -> dict[str, Any]:
    """The rows that a metric is about, so that those about the same rows say the same."""
    said = {key: value for key, value in (domain or {}).items() if value is not None}
    return said if "row_condition" in said else {key: value for key, value in said.items() if key != "condition_parser"}


def _samples(
    engine: Any,
    wanted: list[Any],
    known: dict[Any, Any],
    runtime_configuration: dict[str, Any] | None,
) -> dict[Any, Any]:
    """The samples; empty ones where it is known that there is nothing to show."""
    empty: dict[Any, list[Any]] = {one.id: [] for one in wanted if _count_of(one, known) == 0}
    direct, bundled = engine._build_direct_and_bundled_metric_computation_configurations(
        metrics_to_resolve=[one for one in wanted if one.id not in empty],
        metrics=known,
        runtime_configuration=runtime_configuration,
    )
    found = engine._process_direct_and_bundled_metric_computation_configurations(
        metric_fn_direct_configurations=direct, metric_fn_bundle_configurations=bundled
    )
    return {**found, **empty}


def _count_of(sample: Any, known: dict[Any, Any]) -> Any:
    """How many rows the same condition counted, None where that is not known."""
    from great_expectations.validator.metric_configuration import MetricConfiguration

    if not sample.metric_name.endswith("unexpected_values"):
        return None
    name = f"{sample.metric_name.rpartition('.')[0]}.{_COUNT}"
    given = {key: value for key, value in sample.metric_value_kwargs.items() if key != "result_format"}
    return known.get(MetricConfiguration(name, sample.metric_domain_kwargs, given).id)
