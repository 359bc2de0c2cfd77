"""One table of an `etc apply`: what is done to it, its verification, and what went wrong, whatever other tables meet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from etc_policy.api.attempts import Attempt, Step, Tried
from etc_policy.api.each_table import set_place, table_errors
from etc_policy.api.observers import note, step, table_begins
from etc_policy.api.observing import freshness_of
from etc_policy.api.partitions import prove_partitions, send_partition_events
from etc_policy.api.saved_plans import require_derived, require_same_table
from etc_policy.api.starvation import count_refusal, count_run, count_stale, end_refusals, is_blocked_by_pending_work
from etc_policy.api.syncing import failed_sync, sync_table
from etc_policy.api.verifying import broken_verification, joined_verdict, verify_run, wrong_times_errors
from etc_policy.errors import EtcError, ExitCode, OvertakenError, StalePlanError
from etc_policy.errors.codes import Code
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.plan.hold import hold_bytes, next_hold_bytes, plan_bytes
from etc_policy.plan.model import UNREAD_VERSION, Plan, TablePlan
from etc_policy.plan.skipped_slices import ContendedSlices
from etc_policy.policy.manifest import Policy
from etc_policy.report.sync import NOT_DONE, verdict_of
from etc_policy.run.fence import WRITER_WAIT_SECONDS
from etc_policy.run.results import TableResult, timed
from etc_policy.table.double_keys import exposed_in
from etc_policy.table.formats import iso_time
from etc_policy.table.state import CUT_VERSIONS, GroupKey, TableState
from etc_policy.verify.metadata_checks import KNOWN
from etc_policy.wiring import Environment, clock_ms, resolve_table

_POLL_SECONDS = 0.25
#: How a run ends that brought RO further, or had nothing to do.
_MOVED = ("compacted", "resumed", "already_applied", "nothing_due")
_SUMMED = ("file_slices", "log_files", "bytes_read", "bytes_written", "bytes_written_estimate", "run_seconds")

PlanAnew = Callable[["TableApply"], Plan | None]


@dataclass
class TableApply:
    """What one `etc apply` does to one table; one thread at a time works on it.

    `made_ms` is when a saved plan was made: what it says of the table must follow from the table. `elapsed_ms` is how long the
    whole run has taken so far; once `goes_on` says no, nothing is begun. `busy` are the file groups that the last run had to
    leave out: a plan without them is carried out first, which came to `first_result`, and then one with them. `overlapped` is the
    compaction whose commit writes began beside, or may have, and `replanned` the plan that was made between two writes.
    """

    environment: Environment
    declared: Policy
    now_ms: int
    git_sha: str | None = None
    made_ms: int | None = None
    elapsed_ms: Callable[[], int] = lambda: 0
    goes_on: Callable[[], bool] = lambda: True
    result: TableResult | None = None
    errors: list[EtcError] = field(default_factory=list)
    tried: Tried = field(default_factory=Tried)
    overlapped: TableResult | None = None
    replanned: Plan | None = None
    busy: frozenset[GroupKey] = frozenset()
    first_result: TableResult | None = None
    #: The declared policy, with its table as a base path once `locate` has found it.
    policy: Policy = field(init=False)
    #: What earlier runs left out as busy.
    _busy_before: frozenset[GroupKey] = frozenset()
    #: The last plan of which a result is recorded.
    _planned: TablePlan | None = None
    _hold_bytes: int | None = None

    def __post_init__(self) -> None:
        self.policy = self.declared

    @contextmanager
    def _else_failed(self, table: TablePlan | None = None) -> Iterator[None]:
        """Around a step without which the table is not compacted; `table` is the plan that is to be carried out."""
        started_ms = clock_ms()
        try:
            with table_errors(self.policy):
                yield
        except EtcError as error:
            self.fail(error, started_ms, table)

    def _own_pool(self, *, is_alone: bool) -> AbstractContextManager[None]:
        return nullcontext() if is_alone else self.environment.own_pool(self.policy.name)

    def locate(self) -> bool:
        """Give the policy its table as a base path; false where the catalog does not know it."""
        with self._else_failed():
            self.policy = resolve_table(self.environment, self.declared)
            self.busy = self._busy_before = frozenset(self.environment.apply_states.read(self.policy.table).busy)
            return True
        return False

    def finish_pending(self, *, is_alone: bool = True) -> bool:
        """Finish what a killed run left on the table; false where that failed and the table should be left alone."""
        if not self.goes_on():
            return False
        with self._own_pool(is_alone=is_alone), self._else_failed(), step("finish pending", self.policy.name):
            finished = self.environment.runner(self.goes_on).finish_pending(self.policy, self.policy.table)
            if finished is not None:
                self._add(finished)
            return True
        return False

    def run(
        self,
        plan: Plan,
        report: Callable[[TableResult], None] = lambda _: None,
        plan_anew: PlanAnew | None = None,
        *,
        is_last: bool = True,
        is_alone: bool = True,
    ) -> bool:
        """Carry out the table's part of the plan and verify the table; true where it is to be planned again.

        That is never so after the last plan. Else the result is passed to `report`. Where writers leave the plan no moment,
        `plan_anew` gives one between two of their writes, once; `replanned` is that plan then. Unless it `is_alone`, other tables
        are worked on meanwhile.
        """
        if not self.goes_on():
            return False
        table = next(table for table in plan.tables if table.policy == self.policy.name)
        with self._own_pool(is_alone=is_alone), self._observed():
            with self._else_failed(table):
                require_same_table(table, self.policy)
                table = table.model_copy(update={"base_path": self.policy.table})  # it may go through a link and back
                check = partial(require_derived, self.environment, self.policy, table, self.made_ms, self.declared)
                can_hold = plan_anew is not None and not self.busy and table.table_version in CUT_VERSIONS
                self.tried.can_hold, self.tried.is_last = can_hold, is_last
                for to_do in self.tried.steps(table):
                    with self.tried.ended_by_stale_plan():
                        if to_do is Step.HOLD and plan_anew is not None:
                            found = self._between_writes(plan_anew)
                        else:
                            runner = self.environment.runner(self.goes_on)
                            found = runner.apply(self.policy, table, plan.plan_id, self.git_sha, check), table
                        self.tried.add(found, without_busy=bool(self.busy))
                if self._goes_on(self.tried.attempts[-1]):
                    return True
            if self.result is not None:
                report(self.result)
        return False

    @contextmanager
    def _observed(self) -> Iterator[None]:
        """Around the work on a plan: observers are told when it begins, and its result."""
        table_begins(self.policy, clock_ms())
        with step("apply", self.policy.name):
            yield
            if (done := self.result) is not None:
                note(status=done.status, threshold_ms=done.threshold_ms, instant=done.instant)
            note(self.errors[-1].message if self.errors else None)

    def _between_writes(self, plan_anew: PlanAnew) -> tuple[TableResult, TablePlan] | None:
        """What came of a plan that was made and carried out between two writes; None where that cannot be.

        It takes no more than a hold of the writers' lock allows, and what this one took teaches the next one.
        """
        store, hold_ms, began, taken_bytes = self.environment.apply_states, self.policy.writer.hold_ms, 0.0, 0
        self._hold_bytes = limit = hold_bytes(store.read(self.policy.table).hold_bytes, hold_ms)

        def planned() -> tuple[TablePlan, str] | None:
            nonlocal began, taken_bytes
            began, newest = time.monotonic(), plan_anew(self)
            if newest is None:
                return None
            self.replanned, (only,) = newest, newest.tables
            taken_bytes = plan_bytes(only.operations)
            return only.model_copy(update={"base_path": self.policy.table}), newest.plan_id

        is_held = False
        try:
            found = self.environment.runner(self.goes_on).apply_between_writes(
                self.policy, self.policy.table, planned, self.git_sha
            )
            is_held = True
        except OvertakenError:
            is_held = True
            raise
        finally:
            self._hold_bytes = None
            if is_held and taken_bytes:
                after = next_hold_bytes(limit, taken_bytes, int((time.monotonic() - began) * 1000), hold_ms)
                store.update(self.policy.table, lambda kept: replace(kept, hold_bytes=after))
        return found

    def _goes_on(self, attempt: Attempt) -> bool:
        """Record what came of a plan, and do what lies before another one; false where none follows.

        Raises:
            StalePlanError: none follows on a stale one, and nothing was compacted before.

        """
        progress, name = self.environment.progress, self.policy.name
        if attempt.done is not None and attempt.table is not None and attempt.then is not Step.AWAIT_WRITERS:
            self._note(attempt.done, attempt.table)
        if attempt.error is not None:
            self.busy = frozenset()  # what is quiet has its moment like all else now
        match attempt.then:
            case Step.AWAIT_WRITERS:
                progress(f"{name}: waiting for the end of the writes in flight; planning again")
                in_flight = _in_flight(self.environment.read_state(self.policy))
                await_ends(self.environment, self.policy, in_flight, self.policy.writer.lock_wait_ms / 1000)
            case Step.AWAIT_BESIDE if attempt.done is not None:
                await_writes(self.environment, self.policy, attempt.done)
            case Step.PLAN_WITH_BUSY:
                self.first_result, self.busy = self.result, frozenset()
                progress(f"{name}: planning again, with what writers kept adding to")
            case Step.PLAN_AGAIN if attempt.error is not None:
                progress(f"{attempt.error.message}; planning again")
            case _ if attempt.error is not None and self.first_result is None:
                raise attempt.error
            case _:
                if attempt.error is not None:
                    progress(f"{attempt.error.message}; left for the next run")
                return False
        return True

    def _note(self, done: TableResult, table: TablePlan) -> None:
        """Record what came of the table's plan; a run that was finished just now, and verified, left nothing to do."""
        if done.status == "nothing_due" and self.result is not None:
            end_refusals(self.policy, self.environment.apply_states)
            return
        is_first = self.overlapped is None and self.first_result is None
        if is_first or done.status == "compacted":  # else what was compacted before is the result
            self._add(done, table)
        if self.result is not None:
            self.result = self.result.model_copy(update={"next_due_ms": table.next_due_ms})
        self._planned = table

    @property
    def leaves_out(self) -> ContendedSlices:
        """What the next plan leaves out, as writers keep adding to it, or are kept out."""
        found = self.tried.leaves_out
        return replace(found, groups=found.groups | self.busy, hold_bytes=self._hold_bytes)

    def conclude(self) -> None:
        """All that follows on the compaction; an error of one step leaves out no other."""
        for follow in (self._count_run, self._judge_overlapped, self._prove_partitions, self.sync, self._send_events):
            try:
                with table_errors(self.policy):
                    follow()
            except EtcError as error:
                self.errors.append(error)

    def _count_run(self) -> None:
        """Record that a run has ended, and what it left out."""
        if self.result is not None:
            moved, busy = self.result.status in _MOVED and not self.tried.is_held_up, self.tried.left_busy
            busy = self._busy_before | busy if busy is not None else frozenset()
            count_run(self.policy, self.environment.apply_states, clock_ms(), moved=moved, busy=busy)

    def _judge_overlapped(self) -> None:
        """Add to the errors what writes beside the last commit have left to do."""
        if self.overlapped is not None:
            self.errors += writes_beside_errors(self.environment, self.policy, self.overlapped)

    def _prove_partitions(self) -> None:
        """Compare the rows of partitions that are to be done; a verdict that is not good is that of the run, with what it had
        found before.
        """
        if self.result is None:
            return
        verdict = prove_partitions(self.environment, self.policy, self.now_ms)
        if verdict is not None:
            both = joined_verdict(self.result.verification, verdict)
            self.result = self.result.model_copy(update={"verification": both})

    def _send_events(self) -> None:
        """Send which partitions are done now; an error leaves that to the next run."""
        if self.policy.done is None:
            return
        sent = send_partition_events(self.environment, self.policy, self.now_ms)
        if self.result is not None:
            self.result = self.result.model_copy(update={"events_sent": sent})

    def sync(self) -> None:
        """Record in the catalog what is known of the table now, if a compaction completed; an error leaves that as it is.

        Just in time nothing is recorded where nothing was due, as that would start Spark in each run: what is said there holds,
        unless the verification found that it does not, or that it is in doubt, or T goes back behind an event that came late.
        Nor is it of a table that was refused, as long as it is known how far RO is complete.
        """
        result = self.result
        if result is None or self.policy.sync.ro_table is None:
            return
        idle = NOT_DONE if result.next_due_ms is None else (*NOT_DONE, "nothing_due")
        if result.status in idle and result.resumed_instant is None and not self._takes_back(result):
            return
        started_ms = clock_ms()
        try:
            with table_errors(self.policy), step("sync", self.policy.name):
                done = sync_table(self.environment, self.policy, self.now_ms, verdict_of(result))
        except EtcError as error:
            self.errors.append(error)
            done = failed_sync(self.policy, error)
        steps = {**result.step_seconds, "sync": (clock_ms() - started_ms) / 1000}
        self.result = result.model_copy(update={"sync": done, "step_seconds": steps})

    def _takes_back(self, result: TableResult) -> bool:
        """Whether what was said of the table before may not be true any more."""
        found, verification = verdict_of(result), result.verification
        published_ms = self._planned.pace.published_ms if self._planned and self._planned.pace else None
        goes_back = published_ms is not None and self._planned is not None and self._planned.threshold_ms < published_ms
        is_in_doubt = verification is not None and any(one.expectation == KNOWN for one in verification.expectations)
        if goes_back or is_in_doubt or (found is not None and found.status in ("fail", "error")):
            return True
        if result.status != "refused":
            return False
        return (
            freshness_of(self.policy, self.environment.read_state(self.policy), self.now_ms).complete_until_ms is None
        )

    def fail(self, error: EtcError, started_ms: int, table: TablePlan | None = None) -> None:
        """Record that the table was not compacted, unless it was in this run; `table` is the plan that was to be carried out."""
        set_place(error, self.policy)
        self.errors.append(error)
        is_stale, refusals = isinstance(error, StalePlanError), 0
        if isinstance(error, StalePlanError):
            version = table.table_version if table else UNREAD_VERSION
            try:
                with table_errors(self.policy):
                    refusals = count_stale(self.policy, self.environment.apply_states, error, clock_ms(), version)
            except EtcError as uncounted:
                self.errors.append(uncounted)
        if self.overlapped is not None or (self.result is not None and self.result.status == "compacted"):
            return
        failed = TableResult(
            policy=self.policy.name,
            base_path=self.policy.table,
            status="stale" if is_stale else "failed",
            threshold_ms=table.threshold_ms if table else None,
            instant=table.instant if table else None,
            reason=error.with_cause,
            error_code=error.code,
            refusals_in_a_row=refusals,
            **timed(started_ms, clock_ms()),
        )
        self._record(failed)

    def _add(self, done: TableResult, table: TablePlan | None = None) -> None:
        """Record what was done, then verify: an error of the verification never makes a done compaction undone."""
        run_ms = self.elapsed_ms() if done.status in ("compacted", "resumed") else None
        if (earlier := self.overlapped or self.first_result) is not None:
            done = joined(earlier, done)
        if done.may_have_writes_beside:
            self.overlapped = done
        store, began_ms = self.environment.apply_states, clock_ms()
        if done.status != "refused":
            end_refusals(self.policy, store, run_ms)
            try:
                with table_errors(self.policy), step("verify", self.policy.name):
                    done = self._verified(done, table)
            except EtcError as error:
                self.errors.append(error)
                broken = broken_verification(self.policy.verify.level, done.threshold_ms, error)
                done = done.model_copy(update={"verification": broken})
        if table is not None and is_blocked_by_pending_work(table):
            refusals = count_refusal(self.policy, store, clock_ms(), table.pending).count
            done = done.model_copy(update={"refusals_in_a_row": refusals})
        ended_ms = clock_ms()
        steps = {"verify": round((ended_ms - began_ms) / 1000, 3)} if done.verification is not None else {}
        times = {"completed_at": iso_time(ended_ms), "step_seconds": {**done.step_seconds, **steps}}
        self._record(done.model_copy(update=times))

    def _verified(self, done: TableResult, table: TablePlan | None) -> TableResult:
        verification, measured_ms = verify_run(self.environment, self.policy, done, table, self.now_ms)
        self.errors += wrong_times_errors(self.policy, verification)
        failures = verification.failures if verification.exit_code != ExitCode.DONE else None
        note(failures, level=verification.level, status=verification.status)
        return done.model_copy(update={"verification": verification, "watermark_measured_ms": measured_ms})

    def _record(self, result: TableResult) -> None:
        """One result: what was done last, and what an earlier run had begun and was finished before it."""
        kept: dict[str, object] = {"policy_fingerprint": self.declared.fingerprint}
        if (earlier := self.result) is not None:
            kept |= {"resumed_instant": earlier.resumed_instant, "started_at": earlier.started_at}
            if result.verification is None:  # what was verified is what the earlier run had begun, and no more
                kept |= {name: getattr(earlier, name) for name in ("verification", "watermark_measured_ms")}
        self.result = result.model_copy(update=kept)


def await_writes(environment: Environment, policy: Policy, done: TableResult) -> None:
    """Return once the writes beside a compaction have ended and lie behind the clock-skew bound, or after some seconds."""
    environment.progress(f"{policy.name}: a writer began while deletes were being committed; compacting what it writes")
    await_ends(environment, policy, set(done.writes_beside or ()), WRITER_WAIT_SECONDS)
    time.sleep(2 * MAX_CLOCK_SKEW_MS / 1000)


def await_ends(environment: Environment, policy: Policy, writes: set[str], seconds: float) -> None:
    """Return once these writes have ended, or after so many seconds."""
    deadline = time.monotonic() + seconds
    while writes.intersection(_in_flight(environment.read_state(policy))) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def joined(first: TableResult, then: TableResult) -> TableResult:
    """Two compactions of one table in one run, as one."""
    beside, later = first.writes_beside, then.writes_beside
    summed = {name: getattr(first, name) + getattr(then, name) for name in _SUMMED}
    both = None if beside is None or later is None else (*beside, *later)
    return then.model_copy(update={**summed, "writes_beside": both})


def writes_beside_errors(environment: Environment, policy: Policy, done: TableResult) -> list[EtcError]:
    """An error where what a writer wrote beside the compaction is not in base files yet, or others wrote in the meantime."""
    state, history = environment.read_table(policy)[:2]
    exposed = [
        one
        for one in exposed_in(state.instants, history.writes)
        if one.write in (done.writes_beside or ()) or one.compaction == done.instant
    ]
    begun = _begun_beside(done, state)
    if not state.exposed and not exposed and not begun.intersection(_in_flight(state)):
        return []
    first = min((*begun, *(one.write for one in exposed)), default=None)
    message = (
        f"a writer began {f'at {first} ' if first else ''}on `{policy.name}` while the compaction at {done.instant}, of "
        "deletes, was being committed: a key that it wrote again can exist twice after its next upsert"
    )
    hint = (
        "run `etc apply` again before that upsert: it compacts the key. Let the table's writers use a lock, and name it in "
        "`writer.lock`"
    )
    error = EtcError(Code.WRITTEN_BESIDE, message, hint=hint)
    error.exit_code = ExitCode.FAILED
    return [error]


def _begun_beside(done: TableResult, state: TableState) -> set[str]:
    """The writes that began beside it; where nobody could look then, all that may have."""
    if done.writes_beside is not None:
        return set(done.writes_beside)
    ends = done.completed if state.is_cut else None  # before, it is the instant at which it began
    return {one for one in _in_flight(state) if ends is None or one <= ends}


def _in_flight(state: TableState) -> set[str]:
    return {write.requested for write in state.writes_in_flight if write.may_live}
