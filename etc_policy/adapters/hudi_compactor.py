"""Compactor on PySpark and the stock Hudi client, driven through py4j (FACTS 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from etc_policy.adapters.hudi_layout import local_path, timeline_folder
from etc_policy.adapters.hudi_options import client_options
from etc_policy.adapters.hudi_plan_file import encode_plan
from etc_policy.adapters.hudi_slices import list_partitions
from etc_policy.adapters.hudi_table import read_properties
from etc_policy.errors import EngineError, EtcError
from etc_policy.execute.ports import Job

_CAUSES_SHOWN = 4


class HudiCompactor:
    """Publishes and runs compactions with the stock client of the bundle that Spark has loaded."""

    def __init__(self, spark: Any) -> None:  # noqa: ANN401 - a SparkSession
        self._spark = spark
        self._jvm = spark._jvm

    def publish(self, job: Job, check: Callable[[bool], None]) -> None:
        """Write the plan file under the table's lock; `check` runs inside, before (False) and after (True) the write.

        Raises:
            EngineError: Hudi failed.
            EtcError: `check` refused; after the write the plan is withdrawn first.

        """
        with self._client(job) as client, self._lock(job, client) as table:
            check(False)
            self._save_plan(job, table)
            try:
                check(True)
            except EtcError:
                self.withdraw(job)
                raise

    def run(self, job: Job, fence: Callable[[], None]) -> None:
        """Execute the plan at the job's instant and commit it; a half-done earlier run is rolled back first."""
        with self._client(job) as client:
            result = client.compact(job.instant)
            metadata = result.getCommitMetadata().get()
            for key, value in job.extra_metadata.items():
                metadata.addMetadata(key, value)
            if _takes_write_metadata(client):
                result.getWriteStatuses().count()
                fence()
                client.commitCompaction(job.instant, result, self._empty())
            else:
                fence()
                client.commitCompaction(job.instant, metadata, self._empty())

    def withdraw(self, job: Job) -> None:
        """Take the plan back: base files of C first, then inflight, requested and markers (FACTS 1, guard 3)."""
        base = local_path(job.base_path)
        folder, _ = timeline_folder(base, read_properties(base))
        for partition, files in list_partitions(base):
            for name, _ in files:
                if f"_{job.instant}." in name and not name.startswith("."):
                    _remove(base / partition / name)
        for state in ("inflight", "requested"):
            _remove(folder / f"{job.instant}.compaction.{state}")

    def _save_plan(self, job: Job, table: Any) -> None:  # noqa: ANN401 - a HoodieTable
        jvm = self._jvm
        content = jvm.java.io.ByteArrayInputStream(encode_plan(job.operations, job.extra_metadata))
        plan_class = jvm.java.lang.Class.forName(
            "org.apache.hudi.avro.model.HoodieCompactionPlan", True, jvm.Thread.currentThread().getContextClassLoader()
        )
        plan = jvm.org.apache.hudi.common.table.timeline.TimelineMetadataUtils.deserializeAvroMetadata(
            content, plan_class
        )
        table.getActiveTimeline().saveToCompactionRequested(self._instant(table, job), plan)

    def _instant(self, table: Any, job: Job) -> Any:  # noqa: ANN401 - Java objects
        requested = getattr(self._jvm, "org.apache.hudi.common.table.timeline.HoodieInstant$State").REQUESTED
        return table.getMetaClient().getInstantGenerator().createNewInstant(requested, "compaction", job.instant)

    @contextmanager
    def _client(self, job: Job) -> Iterator[Any]:
        """A write client that mirrors the table, closed afterwards; Java's errors come out as EngineError."""
        from py4j.protocol import Py4JJavaError

        try:
            client = self._create_client(job)
            try:
                yield client
            finally:
                client.close()
        except Py4JJavaError as error:
            message = f"Hudi could not compact `{job.base_path}` at {job.instant}"
            hint = "nothing is lost: run `etc apply` again, it finishes or rolls back what was begun"
            raise EngineError("ETC304", message, hint=hint, cause=java_causes(error.java_exception)) from error

    def _create_client(self, job: Job) -> Any:  # noqa: ANN401 - a SparkRDDWriteClient
        options = self._jvm.PythonUtils.toScalaMap(_java_map(self._jvm, client_options(job)))
        none = getattr(getattr(self._jvm.scala, "None$"), "MODULE$")
        create = self._jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
        return create(self._spark._jsparkSession, job.base_path, options, none)

    @contextmanager
    def _lock(self, job: Job, client: Any) -> Iterator[Any]:  # noqa: ANN401 - Java objects
        """The table's lock, held while the plan is published; yields the HoodieTable."""
        table = self._jvm.org.apache.hudi.table.HoodieSparkTable.create(client.getConfig(), client.getEngineContext())
        manager = client.getTransactionManager()
        owner = self._jvm.org.apache.hudi.common.util.Option.of(self._instant(table, job))
        newer = "beginStateChange" in _methods(manager)
        (manager.beginStateChange if newer else manager.beginTransaction)(owner, self._empty())
        try:
            yield table
        finally:
            (manager.endStateChange if newer else manager.endTransaction)(owner)

    def _empty(self) -> Any:  # noqa: ANN401 - an Option
        return self._jvm.org.apache.hudi.common.util.Option.empty()


def java_causes(exception: Any) -> str:  # noqa: ANN401 - a Java throwable
    """The messages of a Java exception and its causes, outermost first, one a line."""
    lines: list[str] = []
    while exception is not None and len(lines) < _CAUSES_SHOWN:
        lines.append(str(exception.toString()))
        exception = exception.getCause()
    return "\ncaused by: ".join(lines)


def _java_map(jvm: Any, pairs: Mapping[str, str]) -> Any:  # noqa: ANN401 - Java objects
    java_map = jvm.java.util.HashMap()
    for key, value in pairs.items():
        java_map.put(key, value)
    return java_map


def _methods(java_object: Any) -> set[str]:  # noqa: ANN401 - a Java object
    return {method.getName() for method in java_object.getClass().getMethods()}


def _takes_write_metadata(client: Any) -> bool:  # noqa: ANN401 - a Java object
    """Whether `commitCompaction` takes the write metadata (from 1.1) or only the commit metadata (1.0, 0.x)."""
    methods = (m for m in client.getClass().getMethods() if m.getName() == "commitCompaction")
    return any(m.getParameterTypes()[1].getSimpleName() == "HoodieWriteMetadata" for m in methods)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
