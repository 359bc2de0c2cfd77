"""OpenLineage: the events of a run of `etc apply`, for each table, sent by OpenLineage's client where it is configured.

What goes wrong is one warning, and then nothing more is sent.
"""

from __future__ import annotations

import logging
import os
import posixpath
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from etc_policy import __version__
from etc_policy.api.observers import GOES_ON, ObservedTable, RunObserver, Warn, in_time
from etc_policy.errors import first_line, install_hint

PRODUCER = f"urn:etc-policy:{__version__}"
_NAMED_BY = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
_TRANSPORT = "OPENLINEAGE__TRANSPORT"
#: Stores of objects, whose names have no slash before them, by the scheme that the specification gives each.
_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfss", "abfss": "abfss"}


def is_configured(variables: Mapping[str, str]) -> bool:
    """Whether OpenLineage's own variables or files name a transport, and do not disable it."""
    if variables.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if any(variables.get(name) for name in _NAMED_BY) or any(name.startswith(_TRANSPORT) for name in variables):
        return True
    folders = (Path(), Path("~/.openlineage").expanduser())
    return any((folder / "openlineage.yml").is_file() for folder in folders)


def dataset_of(base_path: str) -> tuple[str, str]:
    """Namespace and name of a table, by the naming conventions of the OpenLineage specification."""
    scheme, separator, rest = base_path.partition("://")
    if not separator or scheme == "file":
        return "file", posixpath.normpath((rest if separator else base_path).removeprefix("file:"))
    authority, _, path = rest.partition("/")
    path, named = posixpath.normpath(f"/{path}"), _STORES.get(scheme)
    return f"{named or scheme}://{authority}".removesuffix("://"), path.removeprefix("/") if named else path


@contextmanager
def observe(warn: Warn) -> Iterator[RunObserver | None]:
    """Sends the events of one run, and waits at its end for what the transport has not sent yet."""
    if not is_configured(os.environ):
        yield None
        return
    lineage = _Lineage(warn)
    try:
        yield lineage
    finally:
        lineage.close()


class _Lineage(RunObserver):
    """Sends what happens to each table; nothing after the first fault."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._lock = threading.RLock()
        self._runs: dict[str, Any] = {}
        self._client: Any = None
        self._is_off = False

    def table_begins(self, table: ObservedTable) -> None:
        """Send START, if that was not sent."""
        with self._lock:
            if table.policy not in self._runs:
                self._try(lambda: self._emit("START", table))

    def table_ends(self, table: ObservedTable) -> None:
        """Send FAIL where the command fails for the table, ABORT where nothing was done with it, else COMPLETE."""
        done = "ABORT" if table.result is None else "COMPLETE"
        with self._lock:
            self.table_begins(
                ObservedTable(table.policy, table.base_path, table.result.started_at if table.result else table.at)
            )
            self._try(lambda: self._emit(done if table.failure is None else "FAIL", table))

    def close(self) -> None:
        """Wait for what the transport has not sent yet."""
        with self._lock:
            if self._client is not None:
                self._try(lambda: self._client.close(timeout=10.0))

    def _try(self, send: Callable[[], object]) -> None:
        if self._is_off:
            return
        try:
            in_time(send)
        except ImportError:
            self._is_off = True
            hint = f"{install_hint('openlineage')}, or set OPENLINEAGE_DISABLED=true"
            self._warn("OpenLineage's client is missing, and a transport is configured: no event is sent", hint)
        except Exception as error:
            self._is_off = True
            self._warn(f"no further event is sent to OpenLineage: {first_line(error) or type(error).__name__}", GOES_ON)

    def _emit(self, kind: str, table: ObservedTable) -> None:
        from openlineage.client import event_v2
        from openlineage.client.facet_v2 import error_message_run, job_type_job

        self._client = self._client or _client()
        if table.policy not in self._runs:
            self._runs[table.policy] = _run()
        run = self._runs[table.policy]
        if table.failure is not None:
            failed = error_message_run.ErrorMessageRunFacet(
                message=table.failure, programmingLanguage="PYTHON", producer=PRODUCER
            )
            run = event_v2.Run(runId=run.runId, facets={**run.facets, "errorMessage": failed})
        job_type = job_type_job.JobTypeJobFacet(
            processingType="BATCH", integration="ETC", jobType="COMPACTION", producer=PRODUCER
        )
        inputs, outputs = _datasets(table)
        job = event_v2.Job(
            namespace=os.environ.get("OPENLINEAGE_NAMESPACE") or "default",
            name=f"etc_apply.{table.policy}",
            facets={"jobType": job_type},
        )
        self._client.emit(
            event_v2.RunEvent(
                eventType=event_v2.RunState[kind],
                eventTime=table.at,
                producer=PRODUCER,
                run=run,
                job=job,
                inputs=inputs,
                outputs=outputs,
            )
        )


def _client() -> Any:
    from openlineage.client import OpenLineageClient

    logging.getLogger("openlineage").addHandler(logging.NullHandler())  # what it logs is not for the terminal
    before = set(os.environ)
    client = OpenLineageClient()
    for name in set(os.environ) - before:
        del os.environ[name]  # the client's own form of OPENLINEAGE_URL, which would outlast the run
    if client.transport.kind == "console" and (client.config.transport or {}).get("type") != "console":
        raise ValueError("its configuration names no transport that can be used")
    return client


def _run() -> Any:
    """A new run; its parent is that of OPENLINEAGE_PARENT_ID, as a scheduler sets it: `namespace/job/run`."""
    from openlineage.client import event_v2
    from openlineage.client.facet_v2 import parent_run, processing_engine_run
    from openlineage.client.uuid import generate_new_uuid

    engine = processing_engine_run.ProcessingEngineRunFacet(version=__version__, name="etc", producer=PRODUCER)
    facets: dict[str, Any] = {"processing_engine": engine}
    if named := os.environ.get("OPENLINEAGE_PARENT_ID"):
        namespace, job, run_id = named.rsplit("/", 2)
        parent = parent_run.Job(namespace=namespace, name=job)
        facets["parent"] = parent_run.ParentRunFacet(run=parent_run.Run(runId=run_id), job=parent, producer=PRODUCER)
    return event_v2.Run(runId=str(generate_new_uuid()), facets=facets)


def _datasets(table: ObservedTable) -> tuple[list[Any], list[Any]]:
    """The table as what was read, with the checks of its verification, and as what was written where that was done."""
    from openlineage.client import event_v2
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    if table.base_path is None:
        return [], []
    name, result = dataset_of(table.base_path), table.result
    facets = {} if result is None else {"etc_completeness": _completeness(table)}
    checks = {} if table.checks is None else {"dataQualityAssertions": _assertions(table)}
    inputs = [event_v2.InputDataset(*name, facets=facets, inputFacets=checks)]
    if result is None or result.status not in ("compacted", "resumed"):
        return inputs, []
    written = statistics.OutputStatisticsOutputDatasetFacet(
        size=result.bytes_written, fileCount=result.file_slices, producer=PRODUCER
    )
    return inputs, [event_v2.OutputDataset(*name, facets=facets, outputFacets={"outputStatistics": written})]


def _completeness(table: ObservedTable) -> Any:
    """The facet of the project's own: times are epoch ms, what is not known is left out."""
    from openlineage.client.facet_v2 import DatasetFacet

    until_ms, level = table.complete_until
    values = {"complete_until_ms": until_ms, "proof_level": level}
    values |= {name: getattr(table.result, name) for name in ("status", "threshold_ms", "instant")}
    known = {name: value for name, value in values.items() if value is not None}
    return DatasetFacet(producer=PRODUCER).with_additional_properties(**known)


def _assertions(table: ObservedTable) -> Any:
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as quality

    assertions = [
        quality.Assertion(
            assertion=check.expectation,
            success=check.status == "pass",
            column=check.columns[0] if len(check.columns) == 1 else None,
            severity="warn" if check.status == "warn" else "error",
            name=title,
            description=message,
        )
        for title, check, message in table.checks or ()
    ]
    return quality.DataQualityAssertionsDatasetFacet(assertions=assertions, producer=PRODUCER)
