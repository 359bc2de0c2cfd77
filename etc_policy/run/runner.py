"""Carries out plans: one table at a time, every step safe to kill and run again. What is compacted was decided before."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from etc_policy.errors import EngineError, EtcError, OvertakenError, RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.plan.commit_metadata import compaction_record, extra_metadata
from etc_policy.plan.model import TablePlan
from etc_policy.plan.rules import left_to_writers
from etc_policy.plan.split import is_exact
from etc_policy.policy.manifest import Policy
from etc_policy.run.fence import Fence
from etc_policy.run.file_lock import FileLock
from etc_policy.run.lock_hold import LONGEST_DRAIN_SECONDS, POLL_SECONDS, LockHold, hold_place, take_between_writes
from etc_policy.run.ports import Compactor, Job, Lease
from etc_policy.run.refusing import (
    find_spoiled,
    raise_refusal,
    raise_unfit,
    require_clock_and_instants,
    with_manual_hint,
)
from etc_policy.run.results import TableResult, TableStatus, timed
from etc_policy.run.table_files import HudiFiles
from etc_policy.table.formats import count_of, format_duration
from etc_policy.table.history import Commit
from etc_policy.table.state import TableState, TableStateReader, newest_base_file

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Runner:
    """The steps of `etc apply` over the ports; `compactor` is a function so that Spark starts only when it must."""

    reader: TableStateReader
    files: HudiFiles
    compactor: Callable[[], Compactor]
    lease: Callable[[str], Lease]
    progress: Progress
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def finish_pending(self, policy: Policy, base_path: str) -> TableResult | None:
        """Finish a pending plan of etc that a killed run left; None without one.

        A plan whose log files are gone or rolled back, that is not all of its file slices, that archiving has passed, whose
        schema is not the table's, or that writers have overtaken is withdrawn instead, and None is returned.

        Raises:
            RetryableError: the run that left it is still alive.
            EngineError: Hudi failed; run it again. Or it can neither be executed nor withdrawn (table version 6).

        """
        started_ms = self.clock_ms()
        self._release_left_lock(policy, base_path)
        with self._pending(policy, base_path) as found:
            if found is None:
                self._discard_left(policy, base_path)
                return None
            lease, state, job = found
            try:
                return self._finish(job, state, lease, started_ms)
            except OvertakenError as error:
                self.progress(f"{policy.name}: {error.message}; planning again")
                return None

    def finish_others(self, policy: Policy, base_path: str) -> Generator[TableResult, None, None]:
        """Finish the compactions that others have scheduled and nobody runs, oldest first, by the rules of etc's own.

        A clustering or log compaction goes by choices of its writers that no table shows: where one is pending nothing is done.

        Raises:
            RetryableError: the job that runs one is alive, or another run of etc works on the table.
            OvertakenError: one would lose rows, or make keys double; it is withdrawn.
            EngineError: Hudi failed, or something is pending that etc does not carry out.

        """
        self._release_left_lock(policy, base_path)
        if self._first_of_others(policy, self.state_of(policy, base_path)) is None:
            return
        with self.lease(base_path) as lease:
            while instant := self._first_of_others(policy, state := self.state_of(policy, base_path)):
                started_ms = self.clock_ms()
                self.progress(f"{policy.name}: found a pending compaction of others at {instant}")
                lease.wait_for_dead_run(instant, policy.writer.heartbeat_expiry_ms)
                job = self.files.pending_job(policy, state, instant)
                try:
                    done = self._finish(job, state, lease, started_ms)
                except OvertakenError as error:
                    error.hint = f"nothing was committed: `etc apply --select {policy.name}` compacts what is due"
                    raise
                yield done

    def _first_of_others(self, policy: Policy, state: TableState) -> str | None:
        """The oldest compaction that others have scheduled and that is pending; None without one."""
        raise_refusal(policy, left_to_writers(policy, state))
        found = (i.requested for i in state.pending if i.action == "compaction" and i.requested != state.own_pending)
        return min(found, default=None)

    def _finish(self, job: Job, state: TableState, lease: Lease, started_ms: int) -> TableResult:
        """Execute a pending plan.

        Raises:
            OvertakenError: it would be wrong by now, and is withdrawn.

        """
        name = job.policy.name
        spoiled = find_spoiled(self.files, state, job)
        if spoiled:
            self.progress(f"{name}: withdrawing it: {spoiled}")
            with with_manual_hint(self.files, job, spoiled):
                self._engine_once_free(job, lease).withdraw(job)
            error = OvertakenError(Code.OVERTAKEN, f"the plan for `{name}` was overtaken: {spoiled}", frozenset())
            error.was_withdrawn = True
            raise error
        require_clock_and_instants(job.policy, state, self.clock_ms())
        return self._run(job, Fence(self.reader, self.files, job, lease, state), "resumed", started_ms)

    def _release_left_lock(self, policy: Policy, base_path: str) -> None:
        """Remove the table's lock that a killed run has left, whether or not anything is due: writers wait for it."""
        lease = self.lease(base_path)
        if not lease.has_left_lock(policy):
            return
        with suppress(RetryableError), lease:  # the run that holds it may be alive
            if lease.remove_left_lock(policy):
                self.progress(f"{policy.name}: removed the table's lock, which a killed run had left")

    def state_of(self, policy: Policy, base_path: str) -> TableState:
        """The state of a policy's table now.

        Raises:
            TableError: it cannot be read.

        """
        return self.reader.read(base_path, policy.event_time, policy.writer.heartbeat_expiry_ms)

    def _discard_left(self, policy: Policy, base_path: str) -> None:
        """Remove the extracts of log files that a run has left which was killed right after its commit."""
        if not is_exact(policy) or not self.files.has_left_split(base_path):
            return
        with suppress(RetryableError), self.lease(base_path):  # the run that needs them may be alive
            if self.state_of(policy, base_path).own_pending is None:
                self.files.discard_left(base_path)

    def undo(self, policy: Policy, base_path: str) -> str | None:
        """Withdraw a pending plan of etc; its instant, or None without one.

        Raises:
            RetryableError: a run that executes it is alive.
            EngineError: Hudi failed; run it again.

        """
        self._release_left_lock(policy, base_path)
        with self._pending(policy, base_path) as found:
            if found is None:
                return None
            lease, _, job = found
            self.progress(f"{policy.name}: withdrawing it")
            self._engine_once_free(job, lease).withdraw(job)
        return job.instant

    def _remove_orphans(self, policy: Policy, base_path: str) -> None:
        """Remove carried log files whose plan somebody else has removed, and rows that a killed run had split off.

        See facts: carried-after-plan.
        """
        with self.lease(base_path):
            state = self.state_of(policy, base_path)
            files = f"{count_of(len(state.orphans), 'log file')} that etc carried or split off"
            self.progress(f"{policy.name}: removing {files} without a compaction")
            self.files.remove_orphans(state)

    @contextmanager
    def _pending(self, policy: Policy, base_path: str) -> Iterator[tuple[Lease, TableState, Job] | None]:
        """A pending plan of etc as a job under the table's lease, once the run that left it is dead; None without one.

        Looked at before the lease is taken, and again under it.
        """
        seen = self._first_look(policy, base_path)
        if seen.orphans:
            self._remove_orphans(policy, base_path)
        if seen.own_pending is None:
            yield None
            return
        with self.lease(base_path) as lease:
            state = self.state_of(policy, base_path)
            if state.own_pending is None:
                yield None
                return
            self.progress(f"{policy.name}: found a pending plan of an earlier run at {state.own_pending}")
            lease.wait_for_dead_run(state.own_pending, policy.writer.heartbeat_expiry_ms)
            yield lease, state, self.files.pending_job(policy, state)

    def _first_look(self, policy: Policy, base_path: str) -> TableState:
        """The table's state, once a compaction of etc whose commit was cut off is pending again."""
        try:
            return self.state_of(policy, base_path)
        except TableError as error:
            if error.code != Code.DAMAGED_TIMELINE or not self._reopen_cut_off(policy, base_path):
                raise
        return self.state_of(policy, base_path)

    def _reopen_cut_off(self, policy: Policy, base_path: str) -> bool:
        """Make a compaction pending again whose run was killed while Hudi wrote its commit; whether there was one.

        See facts: empty-commit-file-mended.
        """
        with self.lease(base_path) as lease:
            job = self.files.cut_off_job(policy, base_path)
            if job is None:
                return False
            self.progress(
                f"{policy.name}: a run was killed while it wrote its commit at {job.instant}; beginning it anew"
            )
            with self._engine_once_free(job, lease).locked(job):
                self.files.reopen(job)
        return True

    def apply(
        self,
        policy: Policy,
        table: TablePlan,
        plan_id: str,
        git_sha: str | None,
        require_derived: Callable[[], None] = lambda: None,
    ) -> TableResult:
        """Publish exactly the planned compaction and execute it; `require_derived` raises for a plan that is not the table's.

        Raises:
            StalePlanError: the table changed since planning; nothing was committed.
            RetryableError: another run works on the table.
            EngineError: Hudi failed; run it again.

        """
        started_ms = self.clock_ms()
        if table.action != "compact" or table.instant is None:
            require_derived()
            return self._not_run(table, started_ms)
        with self.lease(table.base_path) as lease:
            state = self.state_of(policy, table.base_path)
            done = self.files.completed_commit(table.base_path, table.instant)
            if done is not None and done.plan_id == plan_id:
                return self._not_run(table, started_ms, done)
            job = _job_of(policy, table, state, extra_metadata(table, plan_id, git_sha))
            fence = Fence(self.reader, self.files, job, lease, state)
            return self._publish_and_run(table, fence, started_ms, require_derived)

    def apply_between_writes(
        self, policy: Policy, base_path: str, plan_anew: Callable[[], tuple[TablePlan, str] | None], git_sha: str | None
    ) -> tuple[TableResult, TablePlan] | None:
        """Plan while no write is in flight, and carry that out before the next one begins: the table's lock is held meanwhile.

        After `writer.hold` it is given back, whatever has been done by then. `plan_anew` gives the table's plan and the id of the
        whole one. None where it gives none, the lock is not one to hold, or writers left no moment in which none was in flight.

        Raises:
            StalePlanError: the table changed all the same; nothing was committed.
            RetryableError: another run works on the table, or a writer did not give the lock back.
            EngineError: Hudi failed; run it again.

        """
        started_ms, place = self.clock_ms(), hold_place(policy, base_path)
        if place is None:
            return None
        with self.lease(base_path) as lease:
            self.compactor()  # nobody waits while Spark starts,
            self.state_of(policy, base_path)  # or while old commits are decoded
            self.progress(f"{policy.name}: writers leave no moment; waiting for one between two writes")
            wait_ms, expiry_ms = policy.writer.lock_wait_ms, policy.writer.heartbeat_expiry_ms
            in_flight = partial(self.files.writes_in_flight, base_path, expiry_ms)
            care_ms = policy.writer.hold_ms + wait_ms
            take = partial(FileLock, place, base_path, wait_ms, lambda _: None, POLL_SECONDS, care_ms)
            ages, hold_seconds = partial(self.files.seconds_since_files, base_path), policy.writer.hold_ms / 1000
            drain_seconds = min(LONGEST_DRAIN_SECONDS, hold_seconds)
            lock = take_between_writes(take, place, in_flight, ages, wait_ms / 1000, drain_seconds)
            if lock is None:
                self.progress(f"{policy.name}: found none in {format_duration(wait_ms)}")
                return None
            hold = LockHold(lock, hold_seconds)
            try:
                if (planned := plan_anew()) is None:
                    return None
                table, plan_id = planned
                if table.action != "compact":
                    return self._not_run(table, started_ms), table
                state = self.state_of(policy, base_path)
                job = _job_of(policy, table, state, extra_metadata(table, plan_id, git_sha))
                fence = Fence(self.reader, self.files, replace(job, hold=hold), lease, state)
                return self._publish_and_run(table, fence, started_ms), table
            finally:
                hold.end()

    def _publish_and_run(
        self, table: TablePlan, fence: Fence, started_ms: int, require_derived: Callable[[], None] = lambda: None
    ) -> TableResult:
        """Publish the fence's job and execute it, while the table is as it was planned."""
        job, policy = fence.job, fence.job.policy
        raise_unfit(policy, table, fence.last, self.clock_ms(), published=False)
        require_derived()
        compactor = self.compactor()
        slices = count_of(len(job.operations), "file slice")
        self.progress(f"{policy.name}: publishing the plan at {job.instant} ({slices})")
        fence.before_publishing()
        require = partial(self._require_unchanged, policy, table)  # the table may have changed while Spark started
        with self._split(fence) as fence:
            job = fence.job
            compactor.publish(job, partial(require, published=False), partial(require, published=True))
        result = self._run(job, fence, "compacted", started_ms)
        return result.model_copy(update={"watermark_predicted_ms": table.watermark_after_ms})

    @contextmanager
    def _split(self, fence: Fence) -> Iterator[Fence]:
        """The fence of the job whose log files are split by record; where it is not published, what was made is removed."""
        if not fence.job.splits:
            yield fence
            return
        self.progress(f"{fence.job.policy.name}: splitting log files by record")
        job = self.files.split(fence.job, fence.last)
        try:
            yield replace(fence, job=job)
        except BaseException:
            with suppress(EtcError, OSError):  # the next run removes it
                self.files.discard_split(job)
            raise

    def _require_unchanged(self, policy: Policy, table: TablePlan, *, published: bool) -> None:
        now = self.state_of(policy, table.base_path)
        raise_unfit(policy, table, now, self.clock_ms(), published=published)

    def _run(self, job: Job, fence: Fence, status: TableStatus, started_ms: int) -> TableResult:
        log_files = sum(len(operation.log_files_compacted) for operation in job.operations)
        planned = sum(operation.bytes_read for operation in job.operations)
        bytes_read = self.files.bytes_read(job) if status == "resumed" else planned
        work = f"{count_of(log_files, 'log file')} of {count_of(len(job.operations), 'file slice')}"
        self.progress(f"{job.policy.name}: compacting {work}")
        try:
            seconds = self._execute(job, fence)
        except OvertakenError as error:
            fence.lease.require_alive(job.instant)  # its traces are fresh, and ours
            with with_manual_hint(self.files, job, error.message):
                self.compactor().withdraw(job)
            error.was_withdrawn = True
            raise
        except EngineError as error:
            is_own = compaction_record(job.instant, job.instant, job.extra_metadata) is not None
            if error.code != Code.NOT_WORKABLE or not is_own:
                raise
            raise self._taken_back(job, fence.lease, error) from error
        if job.hold is not None:
            job.hold.end()  # the rest is reading
        done = self._committed(job)
        if job.splits:
            with suppress(EtcError, OSError):  # the next split removes them
                self.files.discard_split(job)
        completed = done.completed if done else None
        record = compaction_record(job.instant, completed or job.instant, job.extra_metadata)
        beside = fence.writes_beside(completed)
        return TableResult(
            policy=job.policy.name,
            base_path=job.base_path,
            status=status,
            threshold_ms=record.threshold_ms if record else None,
            instant=job.instant,
            completed=completed,
            file_slices=len(job.operations),
            log_files=log_files,
            bytes_read=bytes_read,
            bytes_written=done.bytes_written if done else 0,
            bytes_written_estimate=sum(operation.bytes_written_estimate for operation in job.operations),
            run_seconds=round(seconds, 3),
            writes_beside=beside,
            resumed_instant=job.instant if status == "resumed" else None,
            **timed(started_ms, self.clock_ms()),
        )

    def _taken_back(self, job: Job, lease: Lease, error: EngineError) -> EngineError:
        """The error of a plan that Hudi cannot carry out, once it is withdrawn, or with why it is not."""
        hint = error.hint
        try:
            lease.require_alive(job.instant)  # its traces are fresh, and ours
            self.progress(f"{job.policy.name}: withdrawing the plan, which Hudi cannot carry out")
            self.compactor().withdraw(job)
            done = "nothing was committed, and the plan is withdrawn"
        except EtcError as other:
            done = f"nothing was committed, and the plan is still there ({other.message})"
            first = other.hint if other.code == Code.NOT_WORKABLE else "`etc undo` withdraws it"
            hint = f"{first}; then {hint}"
        return EngineError(error.code, f"{error.message}: {done}", hint=hint, cause=error.cause)

    def _committed(self, job: Job) -> Commit | None:
        """What Hudi has committed; None where that cannot be read now, which does not make it undone.

        Raises:
            EngineError: there is no such commit.

        """
        try:
            done = self.files.completed_commit(job.base_path, job.instant)
        except (EtcError, OSError) as error:
            self.progress(f"{job.policy.name}: Hudi has committed it, and how much it wrote cannot be read: {error}")
            return None
        if done is None:
            message = f"Hudi reported success, but there is no completed compaction at {job.instant}"
            raise EngineError(Code.NOT_ON_THE_TIMELINE, message)
        return done

    def _execute(self, job: Job, fence: Fence) -> float:
        """The seconds that the run took; none where the published plan has completed meanwhile."""
        if self._is_done(job):
            return 0.0
        lease = fence.lease
        compactor = self._engine_once_free(job, lease)
        if self._is_done(job):
            return 0.0
        lease.mark(job.instant)
        began = time.monotonic()
        compactor.run(job, lambda: lease.note_inflight(job.instant), fence)
        return time.monotonic() - began

    def _is_done(self, job: Job) -> bool:
        """Whether the published plan is committed: by stock Hudi, or by Java, which may outlive a killed run of etc.

        Raises:
            EngineError: it is, without the log files that the plan carries or has split off.

        """
        if self.files.completed_commit(job.base_path, job.instant) is None:
            return False
        if job.carries and not self.files.has_added(job):
            message = f"the compaction at {job.instant} of `{job.policy.name}` was committed by another process"
            hint = f"stop all writers and cleaning; `etc explain {Code.NOT_IN_COMMIT}` says what to do"
            raise EngineError(Code.NOT_IN_COMMIT, f"{message}, without its carried log files", hint=hint)
        return True

    def _engine_once_free(self, job: Job, lease: Lease) -> Compactor:
        """The engine, started, while nobody else runs the published plan: a stock writer may take it at any time.

        A run of etc would roll back what that writer has done, and one that keeps no heartbeat would not notice.
        """
        compactor = self.compactor()
        lease.wait_for_dead_run(job.instant, job.policy.writer.heartbeat_expiry_ms)
        return compactor

    def _not_run(self, table: TablePlan, started_ms: int, done: Commit | None = None) -> TableResult:
        """What is said of a plan that has nothing to be run, or that is `done` already."""
        status: TableStatus = "refused" if table.action == "refused" else "nothing_due"
        return TableResult(
            policy=table.policy,
            base_path=table.base_path,
            status="already_applied" if done is not None else status,
            threshold_ms=table.threshold_ms,
            instant=table.instant,
            completed=done.completed if done is not None else None,
            reason=table.reason,
            hints=table.hints,
            watermark_predicted_ms=table.watermark_after_ms,
            **timed(started_ms, self.clock_ms()),
        )


def _job_of(policy: Policy, table: TablePlan, state: TableState, extra: Mapping[str, str]) -> Job:
    """The compaction of a plan, with what the table's state adds to it."""
    return Job(
        policy=policy,
        base_path=table.base_path,
        table_version=table.table_version,
        metadata_partitions=state.metadata_partitions,
        instant=table.instant or "",
        operations=table.operations,
        extra_metadata=extra,
        partitions_with_logs=state.partitions_with_logs,
        base_file=newest_base_file(state.slices),
        in_changelog_mode=state.in_changelog_mode,
    )
