"""OpenTelemetry: spans of a run of `etc apply`, exported as OpenTelemetry's own variables say; without them nothing is imported.

Nothing that goes wrong in the export reaches the run: it is one warning.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from etc_policy import __version__
from etc_policy.errors import Issue, first_line
from etc_policy.errors.codes import Code

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTERS = "OTEL_TRACES_EXPORTER"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_MISSING = 'run `pip install "etc-policy[otel]"`, or set OTEL_SDK_DISABLED=true'

#: What makes the spans of the run that goes on; None where none are made.
_TRACER: ContextVar[Any] = ContextVar("tracer", default=None)


def is_configured(variables: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's own variables name an exporter of spans or its endpoint, and do not disable it."""
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    named = variables.get(_EXPORTERS, "").strip()
    return named != "none" and bool(named or any(variables.get(name) for name in _ENDPOINTS))


@contextmanager
def traced(name: str, warn: Callable[[Issue], None]) -> Iterator[None]:
    """Around a run: its spans are below one of this name, and are exported at its end. `warn` is called with what goes wrong."""
    provider = _provider_else(warn) if is_configured(os.environ) else None
    if provider is None:
        yield
        return
    tracer, faults = provider.get_tracer("etc_policy", __version__), _Faults(logging.ERROR)
    token = _TRACER.set(tracer)
    with faults.gathered():
        try:
            with tracer.start_as_current_span(name, context=_parent()):
                yield
        finally:
            _TRACER.reset(token)
            provider.shutdown()
            if faults.first is not None:
                _say(warn, f"spans were not exported: {faults.first}")


@contextmanager
def span(name: str, policy: str | None = None) -> Iterator[None]:
    """Around a step of a run, of a policy's table where it is about one; an error in it is the span's."""
    tracer = _TRACER.get()
    if tracer is None:
        yield
        return
    with tracer.start_as_current_span(name, attributes={"etc.policy": policy} if policy else None):
        yield


def note(error: str | None = None, **attributes: str | int | None) -> None:
    """Add to the span of this step what is known now, `level` as `etc.level`; with an error it is one that failed."""
    if _TRACER.get() is None:
        return
    from opentelemetry.trace import StatusCode, get_current_span

    step = get_current_span()
    step.set_attributes({f"etc.{name}": value for name, value in attributes.items() if value is not None})
    if error is not None:
        step.set_status(StatusCode.ERROR, error)


class _Faults(logging.Handler):
    """Keeps the first thing that the exporter logs, and lets none of it reach the terminal."""

    first: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.first = self.first or record.getMessage()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Meanwhile."""
        logger = logging.getLogger("opentelemetry")
        before, logger.propagate = logger.propagate, False
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.propagate = before


def _provider_else(warn: Callable[[Issue], None]) -> Any:
    """The provider; None, and a warning, where it cannot be had."""
    try:
        return _provider()
    except ImportError:
        _say(warn, "OpenTelemetry's SDK or its OTLP exporter is missing, and an exporter is configured", _MISSING)
    except Exception as error:
        _say(warn, f"spans cannot be exported: {first_line(error) or type(error).__name__}")
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
    names = {"otlp": "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"}
    for named in (variables.get(_EXPORTERS) or "otlp").split(","):
        name = names.get(named.strip(), named.strip())
        found = entry_points(group="opentelemetry_traces_exporter", name=name)
        if not found:
            if name == "otlp_proto_http":
                raise ImportError(name)
            raise ValueError(f"the package of the exporter `{name}` is not installed")
        yield next(iter(found)).load()


def _parent() -> Any:
    """The span that a scheduler has begun, by TRACEPARENT; else the one of the program that this runs in."""
    from opentelemetry.propagate import extract

    names = ("TRACEPARENT", "TRACESTATE")
    return extract({name.lower(): os.environ[name] for name in names if name in os.environ}) or None


def _say(warn: Callable[[Issue], None], message: str, hint: str = "the run goes on without it") -> None:
    warn(Issue(Code.NOT_OBSERVED, message, hint=hint, level="warning"))
