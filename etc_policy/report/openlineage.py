"""OpenLineage: the events of a run of `etc apply`, for each table, sent by OpenLineage's client where it is configured.

Nothing that goes wrong here reaches the run: it is one warning, and then nothing more is sent.
"""

from __future__ import annotations

import logging
import os
import posixpath
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from etc_policy import __version__
from etc_policy.errors import EtcError, ExitCode, Issue, first_line
from etc_policy.errors.codes import Code
from etc_policy.policy.locations import is_catalog_name
from etc_policy.policy.manifest import Policy
from etc_policy.report.check_titles import result_title
from etc_policy.report.sync import NOT_DONE, complete_until
from etc_policy.run.results import TableResult
from etc_policy.table.formats import iso_ms, iso_time
from etc_policy.verify.ports import ExpectationResult

PRODUCER = f"urn:etc-policy:{__version__}"
_NAMED_BY = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
_TRANSPORT = "OPENLINEAGE__TRANSPORT"
#: Stores of objects, whose names have no slash before them, by the scheme that the specification gives each.
_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfss", "abfss": "abfss"}
_HINT = 'run `pip install "etc-policy[openlineage]"`, or set OPENLINEAGE_DISABLED=true'


def is_configured(variables: Mapping[str, str]) -> bool:
    """Whether OpenLineage's own variables or files name a transport, and do not disable it."""
    if variables.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if any(variables.get(name) for name in _NAMED_BY) or any(name.startswith(_TRANSPORT) for name in variables):
        return True
    folders = (Path(), Path("~/.openlineage").expanduser())
    return any((folder / "openlineage.yml").is_file() for folder in folders)


def dataset_of(location: str) -> tuple[str, str] | None:
    """Namespace and name of a table by its base path; None for a table that only a catalog knows.

    Source: the naming conventions of the OpenLineage specification.
    """
    if is_catalog_name(location):
        return None
    scheme, separator, rest = location.partition("://")
    if not separator or scheme == "file":
        return "file", posixpath.normpath((rest if separator else location).removeprefix("file:"))
    authority, _, path = rest.partition("/")
    path, named = posixpath.normpath(f"/{path}"), _STORES.get(scheme)
    return f"{named or scheme}://{authority}".removesuffix("://"), path.removeprefix("/") if named else path


class Lineage:
    """Sends what happens to each table of one run; threads may use it at once.

    Args:
        warn: is called with the first fault; nothing is sent after it.

    """

    def __init__(self, warn: Callable[[Issue], None]) -> None:
        self._warn = warn
        self._lock = threading.RLock()
        self._runs: dict[str, Any] = {}
        self._client: Any = None
        self._is_off = False

    def start(self, policy: Policy, started_ms: int) -> None:
        """Send that the work on a table begins, if that was not sent; its policy has the table as a base path."""
        with self._lock:
            if policy.name not in self._runs:
                self._send("START", policy, started_ms)

    def end(self, policy: Policy, result: TableResult | None, errors: Sequence[EtcError], now_ms: int) -> None:
        """Send how it ended: FAIL where the command fails for the table, ABORT where nothing was done with it."""
        with self._lock:
            self.start(policy, now_ms if result is None else iso_ms(result.started_at))
            if result is None and not errors:
                self._send("ABORT", policy, now_ms)
                return
            why = _why_failed(result, errors)
            self._send("COMPLETE" if why is None else "FAIL", policy, now_ms, result, why)

    def close(self) -> None:
        """Wait for what the transport has not sent yet."""
        with self._lock:
            if self._client is not None:
                self._tried(lambda: self._client.close(timeout=10.0))

    def _send(
        self, kind: str, policy: Policy, at_ms: int, result: TableResult | None = None, why: str | None = None
    ) -> None:
        self._tried(lambda: self._emit(kind, policy, at_ms, result, why))

    def _tried(self, send: Callable[[], object]) -> None:
        if self._is_off:
            return
        message, hint = "OpenLineage's client is missing, and a transport is configured: no event is sent", _HINT
        try:
            send()
            return
        except ImportError:
            pass
        except Exception as error:
            said = first_line(error) or type(error).__name__
            message, hint = f"no further event is sent to OpenLineage: {said}", "the run goes on without it"
        self._is_off = True
        self._warn(Issue(Code.NOT_OBSERVED, message, hint=hint, level="warning"))

    def _emit(self, kind: str, policy: Policy, at_ms: int, result: TableResult | None, why: str | None) -> None:
        from openlineage.client import event_v2
        from openlineage.client.facet_v2 import error_message_run

        if self._client is None:
            self._client = _client()
        if policy.name not in self._runs:
            self._runs[policy.name] = _run()
        run = self._runs[policy.name]
        if why is not None:
            failed = error_message_run.ErrorMessageRunFacet(
                message=why, programmingLanguage="PYTHON", producer=PRODUCER
            )
            run = event_v2.Run(runId=run.runId, facets={**run.facets, "errorMessage": failed})
        namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or "default"
        inputs, outputs = _datasets(policy, result)
        self._client.emit(
            event_v2.RunEvent(
                eventType=event_v2.RunState[kind],
                eventTime=iso_time(at_ms),
                producer=PRODUCER,
                run=run,
                job=event_v2.Job(namespace=namespace, name=f"etc_apply.{policy.name}", facets=_job_facets()),
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


def _job_facets() -> dict[str, Any]:
    from openlineage.client.facet_v2 import job_type_job

    kind = {"processingType": "BATCH", "integration": "ETC", "jobType": "COMPACTION"}
    return {"jobType": job_type_job.JobTypeJobFacet(**kind, producer=PRODUCER)}


def _datasets(policy: Policy, result: TableResult | None) -> tuple[list[Any], list[Any]]:
    """The table as what was read, with the checks of its verification, and as what was written where that was done."""
    from openlineage.client import event_v2
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    known = dataset_of(policy.table)
    if known is None:
        return [], []
    facets = {"etc_completeness": _completeness(result)} if result is not None else {}
    checks = {"dataQualityAssertions": _assertions(result)} if result is not None and result.verification else {}
    inputs = [event_v2.InputDataset(*known, facets=facets, inputFacets=checks)]
    if result is None or result.status not in ("compacted", "resumed"):
        return inputs, []
    written = statistics.OutputStatisticsOutputDatasetFacet(
        size=result.bytes_written, fileCount=result.file_slices, producer=PRODUCER
    )
    return inputs, [event_v2.OutputDataset(*known, facets=facets, outputFacets={"outputStatistics": written})]


def _completeness(result: TableResult) -> Any:
    """The facet of the project's own: times are epoch ms, what is not known is left out."""
    from openlineage.client.facet_v2 import DatasetFacet

    until, level = complete_until(result) or (None, None)
    values = {
        "status": result.status,
        "threshold_ms": result.threshold_ms,
        "complete_until_ms": until,
        "proof_level": level,
        "instant": result.instant,
    }
    known = {name: value for name, value in values.items() if value is not None}
    return DatasetFacet(producer=PRODUCER).with_additional_properties(**known)


def _assertions(result: TableResult) -> Any:
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as quality

    def assertion(check: ExpectationResult) -> Any:
        return quality.Assertion(
            assertion=check.expectation,
            success=check.status == "pass",
            column=check.columns[0] if len(check.columns) == 1 else None,
            severity="warn" if check.status == "warn" else "error",
            name=result_title(check),
            description=check.message,
        )

    found = result.verification.expectations if result.verification else ()
    return quality.DataQualityAssertionsDatasetFacet(assertions=[assertion(one) for one in found], producer=PRODUCER)


def _why_failed(result: TableResult | None, errors: Sequence[EtcError]) -> str | None:
    """Why the command fails for the table; None where it does not."""
    if result is not None and result.status in NOT_DONE:
        return result.reason or result.status
    if result is not None and result.verification and result.verification.exit_code != ExitCode.DONE:
        return f"verification: {result.verification.status} ({result.verification.failures})"
    return errors[0].message if errors else None
