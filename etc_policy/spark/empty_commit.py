"""Ends a plan without removing it: a compaction is committed at its instant that has written nothing (facts: empty-commit).

Readers and writers list the timeline first, and open the plans that were pending in it later: one whose plan is gone by then
fails. A plan that completes stays on the timeline until it is archived, and without new base files no file slice changes.
"""

from __future__ import annotations

from typing import Any

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.hudi.schemas import EVOLVED_SCHEMA, evolved_schema_before
from etc_policy.plan.commit_metadata import withdrawn_metadata
from etc_policy.run.ports import Job
from etc_policy.run.table_files import timeline_of
from etc_policy.spark.hudi_client import heartbeats, hudi_table, takes_write_metadata
from etc_policy.spark.java_causes import java_causes

#: In the words of Hudi (1.0.2, 1.2.0).
_NO_INDEX_UPDATES = "Failed to get expression index updates"
_DROP_INDEX = (
    "`etc apply` finishes the plan; to withdraw it, drop the expression index (`DROP INDEX`), run `etc undo`, "
    "then make the index again"
)


def commit_nothing(spark: Any, client: Any, job: Job, requested: Any) -> None:
    """Commit no file at the job's instant, whose plan is `requested` and stays; the caller holds the table's lock.

    Raises:
        EngineError: the table has an expression index, and Hudi cannot (facts: empty-commit-of-an-expression-index).

    """
    from py4j.protocol import Py4JJavaError

    beats = heartbeats(client)
    beats.start(job.instant)  # so that no stock writer takes it over
    try:
        hudi_table(spark, client).getActiveTimeline().transitionCompactionRequestedToInflight(requested)
        _commit(spark, client, job)
    except Py4JJavaError as error:
        cause = java_causes(error)
        if _NO_INDEX_UPDATES not in cause:
            raise
        message = f"Hudi cannot commit to a table with an expression index what wrote nothing: `{job.base_path}`, {job.instant}"
        raise EngineError(Code.NOT_WORKABLE, message, hint=_DROP_INDEX, cause=cause) from error
    finally:
        beats.stop(job.instant)


def _commit(spark: Any, client: Any, job: Job) -> None:
    jvm = spark._jvm
    metadata, option = _metadata(jvm, client, job), jvm.org.apache.hudi.common.util.Option
    if not takes_write_metadata(client):
        client.commitCompaction(job.instant, metadata, option.empty())
        return
    result = jvm.org.apache.hudi.table.action.HoodieWriteMetadata()
    result.setWriteStatuses(spark._jsc.parallelize(jvm.java.util.ArrayList()))
    result.setCommitMetadata(option.of(metadata))
    client.commitCompaction(job.instant, result, option.empty())


def _metadata(jvm: Any, client: Any, job: Job) -> Any:
    """With the evolved schema of the write before it: readers and compactions take the last commit's.

    See facts: schema-read-by-last-commit.
    """
    model = jvm.org.apache.hudi.common.model
    metadata = model.HoodieCommitMetadata(True)
    metadata.setOperationType(model.WriteOperationType.COMPACT)
    schema = evolved_schema_before(timeline_of(job.base_path), job.instant)
    evolved = {EVOLVED_SCHEMA: schema} if schema else {}
    for key, value in {"schema": client.getConfig().getSchema(), **evolved, **withdrawn_metadata()}.items():
        metadata.addMetadata(key, value)
    return metadata
