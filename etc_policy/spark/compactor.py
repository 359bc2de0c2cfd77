"""Compactor on PySpark and the stock Hudi client, driven through py4j (facts: commit-with-threshold)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from etc_policy.errors import EngineError, EtcError, OvertakenError, StalePlanError
from etc_policy.errors.codes import Code
from etc_policy.errors.lacking import lacks_something
from etc_policy.run.carrying import carry_files, require_carried
from etc_policy.run.objects_in_logs import indexes_read_rows, makes_metadata_anew, require_no_objects_for
from etc_policy.run.ports import CommitGate, Job
from etc_policy.run.table_files import (
    index_marks,
    require_no_links,
    require_no_metadata_commits,
    require_own_plan,
    require_own_services,
    require_same_indexes,
    timeline_of,
    wait_for_metadata_commits,
)
from etc_policy.spark import metadata_renewal
from etc_policy.spark.commit_zone import require_engine_time
from etc_policy.spark.empty_commit import commit_nothing
from etc_policy.spark.hudi_client import (
    compaction_instant,
    heartbeats,
    hudi_client,
    hudi_table,
    method_names,
    streams_metadata,
    takes_write_metadata,
)
from etc_policy.spark.java_causes import java_causes
from etc_policy.spark.metadata_listing import require_listed_below
from etc_policy.spark.plan_files import (
    create_plan,
    is_inflight,
    must_be_removed,
    prepare_rollback,
    remove_plan,
    remove_rollbacks,
    remove_written,
    require_unwritten,
)
from etc_policy.spark.store_outage import raise_store_outage
from etc_policy.spark.table_lock import java_lease, table_lock
from etc_policy.spark.write_stats import (
    add_stats,
    add_stats_to_commit,
    require_all_records,
    require_bundle,
    written_stats,
)
from etc_policy.storage.object_cache import Cache, MemoryCache
from etc_policy.storage.open_storage import open_reader


class HudiCompactor:
    """Publishes and runs compactions with the stock client of the bundle that Spark has loaded.

    Which log files were looked at is kept in `kept` for the next one.
    """

    def __init__(self, spark: Any, progress: Callable[[str], None] = lambda _: None, kept: Cache | None = None) -> None:
        self._spark = spark
        self._jvm = spark._jvm
        self._progress = progress
        self._looked_at = MemoryCache() if kept is None else kept

    def publish(self, job: Job, require_fit: Callable[[], None], require_still_fit: Callable[[], None]) -> None:
        """Write the plan file under the table's lock; `require_fit` is called before the write, `require_still_fit` after it.

        Raises:
            EngineError: Hudi failed.
            EtcError: one of them refused; after the write the plan is withdrawn first, unless somebody has begun it meanwhile.

        """
        require_bundle(self._jvm, job)
        with self._client(job) as client, self._lock(job, client) as require_held:
            require_fit()
            require_held()
            create_plan(job)
            try:
                require_still_fit()
                require_held()
            except EtcError as error:
                if not is_inflight(job):  # else its base files would go under its writer
                    self._take_back(job, client)
                    if isinstance(error, StalePlanError):
                        error.was_withdrawn = True
                raise

    def run(self, job: Job, note_inflight: Callable[[], None], gate: CommitGate) -> None:
        """Execute the plan at the job's instant and commit it; a half-done earlier run is rolled back first.

        Before table version 8 what stays is carried into the new slice first.
        """
        require_bundle(self._jvm, job)
        carry_files(job)
        require_carried(job)
        job = replace(
            job,
            metadata_partitions=(
                *job.metadata_partitions,
                *metadata_renewal.owed(job.base_path, job.metadata_partitions),
            ),
        )
        self._with_metadata_table(job, lambda: self._run(job, note_inflight, gate))
        metadata_renewal.settle(job)

    def _with_metadata_table(self, job: Job, step: Callable[[], None]) -> None:
        """Do a step that rolls back what a killed run has begun; where the metadata table forbids that, it is built anew."""
        try:
            step()
        except EngineError as error:
            if not metadata_renewal.is_due(error):
                raise
            with self._client(job) as client, self._lock_to_commit(job, client):
                metadata_renewal.drop(self._jvm, client, hudi_table(self._spark, client), job)
            step()

    def _run(self, job: Job, note_inflight: Callable[[], None], gate: CommitGate) -> None:
        """Compact, then commit under the table's lock, so that what the gate has seen holds until the commit.

        The work is done without the lock; from 1.1 on it is held to make the plan inflight.
        """
        indexes = index_marks(job)
        with self._client(job) as client:
            if indexes_read_rows(job) and not makes_metadata_anew(job):
                require_listed_below(self._spark, job.base_path, {one.partition for one in job.operations})
            with self._workable(job, client):
                result = self._begin(job, client)
                note_inflight()
                written = self._finish_work(job, client, result)
            try:
                gate.before_lock()
                require_engine_time(self._jvm, job, completes=True)
                with self._lock_to_commit(job, client) as require_held:
                    gate.under_lock()
                    require_same_indexes(job, indexes)
                    require_engine_time(self._jvm, job, completes=True)  # the wait for the lock may have been long
                    require_carried(job)
                    self._require_harmless(job)
                    require_held()
                    client.commitCompaction(job.instant, written, self._empty())
            except OvertakenError:
                heartbeats(client).stop(job.instant)  # no run of it is at work any more
                raise

    @contextmanager
    def _workable(self, job: Job, client: Any) -> Iterator[None]:
        """Around the work of a plan: where Hudi fails over what it compacts, and not for want of something, no retry helps.

        Raises:
            EngineError: it does.

        """
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except EngineError as error:
            if error.code == Code.NOT_WORKABLE:
                heartbeats(client).stop(job.instant)  # no run of it is at work any more
            raise
        except Py4JJavaError as error:
            raise_store_outage(job.base_path, error)
            cause = java_causes(error)
            if lacks_something(cause) or metadata_renewal.says_so(str(error)):
                raise  # it is known for what it is where the client is closed
            heartbeats(client).stop(job.instant)
            message = f"Hudi cannot compact `{job.base_path}` at {job.instant}"
            hint = "mend what the cause names, or name a bundle of Hudi that can do it (ETC_HUDI_BUNDLE, `bundle` of the target)"
            raise EngineError(Code.NOT_WORKABLE, message, hint=hint, cause=cause) from error

    def _finish_work(self, job: Job, client: Any, result: Any) -> Any:
        """What is to be committed, once every record is written: from 1.1 on Hudi takes its own result, before that metadata."""
        metadata = result.getCommitMetadata().get()
        for key, value in job.extra_metadata.items():
            metadata.addMetadata(key, value)
        if not takes_write_metadata(client):
            require_all_records(self._spark, job, result, metadata.getWriteStats())
            add_stats_to_commit(self._jvm, job, metadata)
            return metadata
        # the work is lazy: it is done here
        if job.carries:  # whole statuses, so that the work is not asked for twice
            statuses = result.getWriteStatuses().collect()
            self._require_written(job, result, [status.getStat() for status in statuses])
            add_stats(self._spark, job, result, statuses)
        else:
            self._require_written(job, result, written_stats(self._spark, result))
        return result

    def _begin(self, job: Job, client: Any) -> Any:
        """Make the plan inflight, under the lock; where Hudi also does the work in this call, without the lock."""
        require_own_plan(job)
        if takes_write_metadata(client):
            rolls_back = is_inflight(job)
            with self._lock_to_commit(job, client) if rolls_back else self._lock(job, client):
                if rolls_back:
                    prepare_rollback(job)
                return client.compact(job.instant)
        if is_inflight(job):
            self._roll_back_by(client, job)
        return client.compact(job.instant)

    def _require_written(self, job: Job, result: Any, stats: list[Any]) -> None:
        """Every record is in a new base file, and all are there: a challenger that took the run over would have removed them."""
        require_all_records(self._spark, job, result, stats)
        storage = open_reader(job.base_path)
        gone = [path for stat in stats if storage.info(path := str(stat.getPath())) is None]
        if gone:
            hint = "another run has taken over; run the same command again"
            raise EngineError(
                Code.RUN_TAKEN_OVER, f"the new base file {gone[0]} is gone; nothing was committed", hint=hint
            )

    def withdraw(self, job: Job) -> None:
        """Take the plan back: Hudi rolls back what was begun, base files of C go, and C completes without any.

        Raises:
            EngineError: the compaction has completed, so there is nothing to take back; or, before table version 8,
                writers have added to the slice that the plan begins; or Hudi failed.
            RetryableError: a writer has begun it; or, before table version 8, one may be about to add to its slice.

        """
        self._require_incomplete(job)
        require_unwritten(job)
        if is_inflight(job):
            self._with_metadata_table(job, lambda: self._roll_back(job))
        if must_be_removed(job):
            self._remove_plan(job)
            return
        with self._client(job) as client, self._lock_to_commit(job, client):
            self._take_back(job, client)

    @contextmanager
    def locked(self, job: Job) -> Iterator[None]:
        """The table's lock is held, and no other run of etc begins.

        Raises:
            RetryableError: somebody else holds it.
            EngineError: Hudi failed.

        """
        with self._client(job) as client, self._lock(job, client):
            yield

    def _roll_back(self, job: Job) -> None:
        """Hudi's own rollback of an inflight compaction; it is `requested` afterwards."""
        with self._client(job) as client:
            self._roll_back_by(client, job)

    def _roll_back_by(self, client: Any, job: Job) -> None:
        table = hudi_table(self._spark, client)
        inflight = compaction_instant(self._jvm, table, job, "INFLIGHT")
        manager = self._jvm.org.apache.hudi.client.transaction.TransactionManager(
            client.getConfig(), table.getStorage()
        )
        try:
            with self._lock_to_commit(job, client):
                prepare_rollback(job)
                if "beginStateChange" in method_names(manager):
                    table.rollbackInflightCompaction(inflight, manager)
                else:
                    remove_rollbacks(job)  # it begins another, and would leave them pending (facts: second-rollback)
                    table.rollbackInflightCompaction(inflight)
        finally:
            manager.close()

    def _require_incomplete(self, job: Job) -> None:
        if job.instant in timeline_of(job.base_path).completions:
            raise EngineError(
                Code.ALREADY_COMPLETED, f"the compaction at {job.instant} has completed: there is nothing to withdraw"
            )

    def _take_back(self, job: Job, client: Any) -> None:
        """End a plan that nobody runs, under the lock: it stays on the timeline, as others may have listed it and open it yet."""
        if must_be_removed(job):
            self._remove_plan(job)
            return
        self._require_incomplete(job)
        remove_written(job)
        commit_nothing(self._spark, client, job, compaction_instant(self._jvm, hudi_table(self._spark, client), job))

    def _remove_plan(self, job: Job) -> None:
        self._require_incomplete(job)
        remove_plan(job)

    def _require_harmless(self, job: Job) -> None:
        """Of the metadata table as it is now, which Hudi reads, and some of whose services it takes up."""
        require_own_services(job)
        require_no_objects_for(job, self._looked_at)

    @contextmanager
    def _client(self, job: Job) -> Iterator[Any]:
        require_no_links(job)
        self._require_harmless(job)
        with hudi_client(self._spark, job, _failure(job)) as client, java_lease(self._jvm, job):
            yield client

    @contextmanager
    def _lock(self, job: Job, client: Any) -> Iterator[Callable[[], None]]:
        """The table's lock, which the client itself does not take; yields what raises when it was lost."""

        def owner() -> Any:
            return compaction_instant(self._jvm, hudi_table(self._spark, client), job)

        with table_lock(self._jvm, job, client, owner, self._progress) as require_held:
            yield require_held

    @contextmanager
    def _lock_to_commit(self, job: Job, client: Any) -> Iterator[Callable[[], None]]:
        """The table's lock, to commit to the metadata table too, where no other writer's commit is open that this would end."""
        streams = not job.metadata_partitions or streams_metadata(client, hudi_table(self._spark, client))
        if not streams:
            wait_for_metadata_commits(job)
        with self._lock(job, client) as require_held:
            if not streams:
                require_no_metadata_commits(job)
            yield require_held

    def _empty(self) -> Any:
        return self._jvm.org.apache.hudi.common.util.Option.empty()


def _failure(job: Job) -> EngineError:
    hint = (
        "nothing is lost: mend the cause and run the same command again, which finishes or rolls back what was begun; `etc undo` "
        "withdraws a plan of etc"
    )
    return EngineError(Code.HUDI_FAILED, f"Hudi could not compact `{job.base_path}` at {job.instant}", hint=hint)
