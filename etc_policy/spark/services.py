"""Table services that others have scheduled, carried out by the stock client as a mirror of its table.

See facts: mirror-runs-services.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.run.ports import CommitGate, Job
from etc_policy.spark.compactor import HudiCompactor
from etc_policy.spark.hudi_client import hudi_client
from etc_policy.spark.table_lock import java_lease
from etc_policy.spark.write_stats import require_bundle


class HudiServices:
    """Finishes pending services with the stock client of the bundle that Spark has loaded."""

    def __init__(self, spark: Any, progress: Callable[[str], None] = lambda _: None) -> None:
        self._spark = spark
        self._compactor = HudiCompactor(spark, progress)

    def finish(self, job: Job, action: str, note_inflight: Callable[[], None], gate: CommitGate) -> None:
        """Carry out and commit the service that is pending at the job's instant; Hudi rolls back what was begun first.

        A compaction is committed past the gate. Hudi commits the others itself, under the lock that the policy declares.

        Raises:
            RetryableError: the table's lock is held.
            EngineError: Hudi failed, or the gate refused.

        """
        if action == "compaction":
            self._compactor.run(job, note_inflight, gate)
            return
        hint = "nothing is lost: run the same command again, it rolls back what was begun and starts anew"
        failure = EngineError(
            Code.HUDI_FAILED, f"Hudi could not finish the {action} of `{job.base_path}` at {job.instant}", hint=hint
        )
        jvm = self._spark._jvm
        require_bundle(jvm, job)
        with hudi_client(self._spark, job, failure, takes_lock=True) as client, java_lease(jvm, job):
            (client.cluster if action == "clustering" else client.logCompact)(job.instant, True)
