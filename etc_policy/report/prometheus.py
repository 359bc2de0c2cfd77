"""Gauges on prometheus-client: an endpoint that looks at the tables when it is scraped, and a textfile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import ALLOWUTF8
from prometheus_client.registry import Collector

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import escaped
from etc_policy.report.bounded_clients import bound_clients
from etc_policy.report.metrics import GAUGES, READABLE, MetricSample, TableObservation, table_samples
from etc_policy.storage.files import write_named

#: So long a scrape waits for the look of another one; then it gets what was seen before.
_LOOK_SECONDS = 10
Observe = Callable[[], Iterable[TableObservation]]


@dataclass(eq=False)
class TableCollector(Collector):
    """Looks at the tables when it is collected, at most once in `max_age_seconds`; scrapes at once share one look."""

    observe: Observe
    max_age_seconds: float = 0
    _lock: Lock = field(default_factory=Lock)
    _seen: tuple[TableObservation, ...] = ()
    _seen_at: float | None = None

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The families without samples, so that registering looks at no table."""
        return [GaugeMetricFamily(g.name, g.documentation, labels=g.labels) for g in GAUGES]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families with what is known now; those without a sample are left out."""
        families = {g: GaugeMetricFamily(g.name, g.documentation, labels=g.labels) for g in GAUGES}
        for observation in self._observed():
            for sample, value in _values(observation):
                extra = () if sample.extra is None else (sample.extra,)
                labels = [escaped(label) for label in (*observation.label_values, *extra)]
                families[sample.gauge].add_metric(labels, value)
        return (family for family in families.values() if family.samples)

    def _observed(self) -> tuple[TableObservation, ...]:
        if not self._lock.acquire(timeout=_LOOK_SECONDS):
            if self._seen_at is None:
                raise TimeoutError("the first look at the tables has not ended")
            return self._seen
        try:
            now = time.monotonic()
            if self._seen_at is None or now - self._seen_at >= self.max_age_seconds:
                self._seen, self._seen_at = tuple(self.observe()), now
            return self._seen
        finally:
            self._lock.release()


def _values(observation: TableObservation) -> list[tuple[MetricSample, float]]:
    """The samples of a table; one that has no samples is a table that cannot be read, and hides no other."""
    try:
        return [(sample, float(sample.value)) for sample in table_samples(observation)]
    except (ValueError, ArithmeticError):
        return [(MetricSample(READABLE, 0), 0.0)]


def serve(
    observe: Observe, address: str, port: int, max_age_seconds: float, health: Callable[[], str | None] | None
) -> tuple[Any, Any]:
    """Begin to answer `/metrics`, and `/healthz` where `health` says what is wrong, or None; returns the server and its thread.

    Raises:
        EngineError: the address cannot be listened on.

    """
    registry = CollectorRegistry()
    registry.register(TableCollector(observe, max_age_seconds))
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        message = f"cannot listen on {address}:{port}"
        raise EngineError(
            Code.CANNOT_LISTEN, message, hint="choose another port, or an address of this machine", cause=str(error)
        ) from error
    bound_clients(server)
    if health is not None:
        server.set_app(_with_health(server.get_app(), health))
    return server, thread


def _with_health(metrics: Any, health: Callable[[], str | None]) -> Callable[[Any, Any], Any]:
    def answer(request: Any, start_response: Any) -> Any:
        if request["PATH_INFO"] != "/healthz":
            return metrics(request, start_response)
        wrong = health()
        start_response(
            "503 Service Unavailable" if wrong else "200 OK", [("Content-Type", "text/plain; charset=utf-8")]
        )
        return [f"{wrong or 'ok'}\n".encode()]

    return answer


def write_textfile(observe: Observe, path: Path) -> None:
    """Write the metrics for node_exporter's textfile collector, in one step: a reader sees the old file or the new one.

    Raises:
        EngineError: the file cannot be written.

    """
    registry = CollectorRegistry()
    registry.register(TableCollector(observe))
    try:
        write_named(path, generate_latest(registry, ALLOWUTF8))
    except (OSError, ValueError) as error:
        raise EngineError(Code.CANNOT_WRITE_METRICS, f"cannot write `{path}`", cause=str(error)) from error
