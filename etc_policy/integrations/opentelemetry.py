"""OpenTelemetry: spans of a run of `etc apply`, where OpenTelemetry's own variables say so; else nothing is imported."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from etc_policy import __version__
from etc_policy.api.observers import GOES_ON, RunObserver, Warn
from etc_policy.errors import first_line, install_hint

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTERS = "OTEL_TRACES_EXPORTER"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

#: Threads of earlier runs whose exporters have not come to an end.
_LEFT = set[threading.Thread]()


def is_configured(variables: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's own variables name an exporter of spans or its endpoint, and do not disable it."""
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    named = variables.get(_EXPORTERS, "").strip()
    return named != "none" and bool(named or any(variables.get(name) for name in _ENDPOINTS))


@contextmanager
def observe(warn: Warn) -> Iterator[RunObserver | None]:
    """Makes the spans of one run, and exports what is left of them at its end."""
    if is_configured(os.environ) and any(one.is_alive() for one in _LEFT):
        warn("spans are not made: the exporter of an earlier run still waits for its server", GOES_ON)
        yield None
        return
    before = set(threading.enumerate())
    provider = _provider_or_none(warn) if is_configured(os.environ) else None
    if provider is None:
        yield None
        return
    exporters = set(threading.enumerate()) - before
    with _first_fault() as faults, _below_scheduler():
        try:
            yield _Spans(provider.get_tracer("etc_policy", __version__))
        finally:
            provider.shutdown()  # in its own time, whether the server has answered or not
            _LEFT.update(exporters)
            for message in faults[:1]:
                warn(f"spans were not exported: {message}", GOES_ON)


class _Spans(RunObserver):
    """A span for each step; an error in it is the span's."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    def step(self, name: str, policy: str | None) -> AbstractContextManager[object]:
        """A span below the one that goes on."""
        step: AbstractContextManager[object] = self._tracer.start_as_current_span(
            name, attributes={"etc.policy": policy} if policy else None
        )
        return step

    def note(self, error: str | None, values: Mapping[str, str | int]) -> None:
        """Attributes of the span that goes on, `level` as `etc.level`."""
        from opentelemetry.trace import StatusCode, get_current_span

        span = get_current_span()
        span.set_attributes({f"etc.{name}": value for name, value in values.items()})
        if error is not None:
            span.set_status(StatusCode.ERROR, error)


@contextmanager
def _first_fault() -> Iterator[list[str]]:
    """What the exporter logs meanwhile, none of which reaches the terminal."""
    messages = list[str]()

    class Faults(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, handler = logging.getLogger("opentelemetry"), Faults(logging.ERROR)
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


@contextmanager
def _below_scheduler() -> Iterator[None]:
    """Spans are below the one that a scheduler has begun, by TRACEPARENT; else below that of the program that this runs in."""
    from opentelemetry.context import attach, detach
    from opentelemetry.propagate import extract

    names = ("TRACEPARENT", "TRACESTATE")
    context = extract({name.lower(): os.environ[name] for name in names if name in os.environ})
    token = attach(context) if context else None
    try:
        yield
    finally:
        if token is not None:
            detach(token)


def _provider_or_none(warn: Warn) -> Any:
    """The provider; None, and a warning, where it cannot be had."""
    try:
        return _provider()
    except ImportError:
        hint = f"{install_hint('otel')}, or set OTEL_SDK_DISABLED=true"
        warn("OpenTelemetry's SDK or its OTLP exporter is missing, and an exporter is configured", hint)
    except Exception as error:
        warn(f"spans cannot be exported: {first_line(error) or type(error).__name__}", GOES_ON)
    return None


def _provider() -> Any:
    """A provider of the run's own, so that spans of the program that it runs in are left alone.

    Raises:
        ImportError: a package is missing.
        ValueError: an exporter is named that is not installed.

    """
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create()
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "etc"}))
    provider = TracerProvider(resource=resource)
    for exporter in _exporters(os.environ):
        provider.add_span_processor(BatchSpanProcessor(exporter()))
    return provider


def _exporters(variables: Mapping[str, str]) -> Iterator[Callable[[], Any]]:
    """The exporters that are named, as their packages register them; OTLP by HTTP where nothing else is said."""
    from importlib.metadata import entry_points

    protocol = next(filter(None, map(variables.get, _PROTOCOLS)), "http/protobuf").strip()
    otlp = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    for named in (variables.get(_EXPORTERS) or "otlp").split(","):
        name = otlp if named.strip() == "otlp" else named.strip()
        found = entry_points(group="opentelemetry_traces_exporter", name=name)
        if not found and name == "otlp_proto_http":
            raise ImportError(name)
        if not found:
            raise ValueError(f"the package of the exporter `{name}` is not installed")
        yield next(iter(found)).load()
