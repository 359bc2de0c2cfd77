"""One table of an `etc apply`: what is done to it, its verification, and what went wrong, whatever other tables meet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from etc_policy.api.attempts import Attempt, Outcome, Step, Tried, is_held_up, next_step, outcome_of
from etc_policy.api.derived_plans import require_derived
from etc_policy.api.observers import note, step
from etc_policy.api.one_table import one_table, set_place
from etc_policy.api.partition_events import send_partition_events
from etc_policy.api.partition_proofs import prove_partitions
from etc_policy.api.planning import require_same_table
from etc_policy.api.proofs import begin_proof, note_verdict
from etc_policy.api.starvation import count_refusal, count_run, count_stale, end_refusals, is_blocked_by_pending_work
from etc_policy.api.syncing import failed_sync, sync_table
from etc_policy.api.verifying import (
    broken_verification,
    gather_evidence,
    read_for_proof,
    verify_and_note,
    without_promise,
    wrong_times_errors,
)
from etc_policy.errors import EtcError, ExitCode, OvertakenError, StalePlanError
from etc_policy.errors.codes import Code
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.plan.hold import hold_bytes, next_hold_bytes, plan_bytes
from etc_policy.plan.model import PUBLISHED, UNREAD_VERSION, Plan, TablePlan
from etc_policy.plan.skipped_slices import WrittenTo
from etc_policy.policy.manifest import Policy
from etc_policy.report.sync import NOT_DONE, verdict_of
from etc_policy.run.fence import WRITER_WAIT_SECONDS
from etc_policy.run.results import TableResult, timed
from etc_policy.table.double_keys import exposed_in
from etc_policy.table.formats import iso_time
from etc_policy.table.history import TableHistory, is_of_column
from etc_policy.table.proofs import level_to_prove
from etc_policy.table.state import CUT_VERSIONS, GroupKey, TableState
from etc_policy.table.watermark import watermark_of
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.prover import claim_in, claim_of, record_of_run
from etc_policy.wiring import Environment, clock_ms, resolve_table

#: How often file slices may be overtaken before they are left out.
OVERTAKEN_AT_MOST = 2
_POLL_SECONDS = 0.25
#: How a run ends that brought RO further, or had nothing to do.
_MOVED = ("compacted", "resumed", "already_applied", "nothing_due")
_SUMMED = ("file_slices", "log_files", "bytes_read", "bytes_written", "bytes_written_estimate", "run_seconds")


PlanAnew = Callable[["TableApply"], Plan | None]


@dataclass
class TableApply:
    """What one `etc apply` does to one table; one thread at a time works on it."""

    environment: Environment
    declared: Policy
    now_ms: int
    git_sha: str | None = None
    #: When a saved plan was made: what it says of the table must follow from the table.
    made_ms: int | None = None
    #: How long the whole run has taken so far.
    elapsed_ms: Callable[[], int] = lambda: 0
    result: TableResult | None = None
    errors: list[EtcError] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    #: The compaction whose commit writes began beside, or may have.
    beside: TableResult | None = None
    #: The plan that was made between two writes.
    newer: Plan | None = None
    #: The file groups that the last run had to leave out: a plan without them is carried out first, and then one with them.
    busy: frozenset[GroupKey] = frozenset()
    #: What came of the plan without the busy ones.
    quiet: TableResult | None = None
    #: The declared policy, with its table as a base path once `locate` has found it.
    policy: Policy = field(init=False)
    #: What earlier runs left out as busy.
    _busy_before: frozenset[GroupKey] = frozenset()
    #: The last plan of which a result is recorded.
    _planned: TablePlan | None = None
    _hold_bytes: int | None = None

    def __post_init__(self) -> None:
        self.policy = self.declared

    def locate(self) -> bool:
        """Give the policy its table as a base path; false where the catalog does not know it."""
        try:
            with one_table(self.policy):
                self.policy = resolve_table(self.environment, self.declared)
                self.busy = frozenset(self.environment.apply_states.read(self.policy.table).busy)
                self._busy_before = self.busy
        except EtcError as error:
            self.fail(error, clock_ms())
            return False
        return True

    def finish_pending(self) -> bool:
        """Finish what a killed run left on the table; false where that failed and the table should be left alone."""
        started = clock_ms()
        try:
            with one_table(self.policy), step("finish pending", self.policy.name):
                finished = self.environment.runner().finish_pending(self.policy, self.policy.table)
                if finished is not None:
                    self._add(finished)
        except EtcError as error:
            self.fail(error, started)
            return False
        return True

    def run(
        self,
        plan: Plan,
        report: Callable[[TableResult], None] = lambda _: None,
        plan_anew: PlanAnew | None = None,
        *,
        last: bool = True,
    ) -> bool:
        """Carry out the table's part of the plan and verify the table; true where it is to be planned again.

        That is never so after the `last` plan. Else the result is passed to `report`. Where writers leave the plan no moment,
        `plan_anew` gives one between two of their writes, once; `newer` is that plan then.
        """
        started = clock_ms()
        table = next(one for one in plan.tables if one.policy == self.policy.name)
        try:
            with one_table(self.policy):
                require_same_table(table, self.policy)
                # the plan's path may go through a link and back
                table = table.model_copy(update={"base_path": self.policy.table})
                attempt = self._try(plan, table, plan_anew, last=last)
                if self._goes_on(attempt):
                    return True
                if attempt.error is not None and self.quiet is None:
                    raise attempt.error
        except EtcError as error:
            self.fail(error, started, table)
        if self.result is not None:
            report(self.result)
        return False

    def _try(self, plan: Plan, table: TablePlan, plan_anew: PlanAnew | None, *, last: bool) -> Attempt:
        """All that one plan is good for; what came of it last."""
        can_hold = plan_anew is not None and not self.busy and table.table_version in CUT_VERSIONS
        attempt = Attempt(Outcome.HELD_UP, Step.CARRY_OUT)
        if is_held_up(table):
            attempt = replace(attempt, then=next_step(Outcome.HELD_UP, Tried(self.attempts, can_hold), last=last))
            self.attempts.append(attempt)
        while not attempt.ends_try:
            found = self._carried_out(attempt, plan, table, plan_anew)
            tried = Tried(self.attempts, can_hold)
            attempt = replace(found, then=next_step(found.outcome, tried, last=last))
            self.attempts.append(attempt)
        return attempt

    def _carried_out(self, before: Attempt, plan: Plan, table: TablePlan, plan_anew: PlanAnew | None) -> Attempt:
        """What comes of the step that follows on the attempt before."""
        try:
            if before.then is Step.HOLD and plan_anew is not None:
                found = self._between_writes(plan_anew)
                if found is None:
                    return replace(before, outcome=Outcome.NO_MOMENT)
                done, table = found
            else:
                check = partial(require_derived, self.environment, self.policy, table, self.made_ms, self.declared)
                done = self.environment.runner().apply(self.policy, table, plan.plan_id, self.git_sha, check)
        except OvertakenError as error:
            return Attempt(Outcome.OVERTAKEN, Step.END, error)
        except StalePlanError as error:
            return Attempt(Outcome.STALE, Step.END, error)
        outcome = outcome_of(done, table, without_busy=bool(self.busy))
        return Attempt(outcome, Step.END, done=done, table=table)

    def _between_writes(self, plan_anew: PlanAnew) -> tuple[TableResult, TablePlan] | None:
        """What came of a plan that was made and carried out between two writes; None where that cannot be.

        It takes no more than a hold of the writers' lock allows, and what this one took teaches the next one.
        """
        store, hold_ms, began, taken_bytes = self.environment.apply_states, self.policy.writer.hold_ms, 0.0, 0
        limit = hold_bytes(store.read(self.policy.table).hold_bytes, hold_ms)

        def planned() -> tuple[TablePlan, str] | None:
            nonlocal began, taken_bytes
            began, newest = time.monotonic(), plan_anew(self)
            if newest is None:
                return None
            self.newer, (only,) = newest, newest.tables
            taken_bytes = plan_bytes(only.operations)
            return only.model_copy(update={"base_path": self.policy.table}), newest.plan_id

        def learn() -> None:
            if taken_bytes:
                after = next_hold_bytes(limit, taken_bytes, int((time.monotonic() - began) * 1000), hold_ms)
                store.update(self.policy.table, lambda kept: replace(kept, hold_bytes=after))

        self._hold_bytes = limit
        try:
            found = self.environment.runner().apply_between_writes(
                self.policy, self.policy.table, planned, self.git_sha
            )
        except OvertakenError:
            learn()
            raise
        finally:
            self._hold_bytes = None
        learn()
        return found

    def _goes_on(self, attempt: Attempt) -> bool:
        """Record what came of a plan, and do what lies before another one; false where none follows."""
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
                self.quiet, self.busy = self.result, frozenset()
                progress(f"{name}: planning again, with what writers kept adding to")
            case Step.PLAN_AGAIN if attempt.error is not None:
                progress(f"{attempt.error.message}; planning again")
            case _:
                if attempt.error is not None and self.quiet is not None:
                    progress(f"{attempt.error.message}; left for the next run")
                return False
        return True

    def _note(self, done: TableResult, table: TablePlan) -> None:
        """Record what came of the table's plan; a run that was finished just now, and verified, left nothing to do."""
        if done.status == "nothing_due" and self.result is not None:
            end_refusals(self.policy, self.environment.apply_states)
            return
        is_first = self.beside is None and self.quiet is None
        if is_first or done.status == "compacted":  # else what was compacted before is the result
            self._add(done, table)
        if self.result is not None:
            self.result = self.result.model_copy(update={"next_due_ms": table.next_due_ms})
        self._planned = table

    @property
    def leaves_out(self) -> WrittenTo:
        """What the next plan leaves out, as writers keep adding to it, or are kept out."""
        found = written_to([attempt.overtaken for attempt in self.attempts if attempt.overtaken_try])
        return replace(found, groups=found.groups | self.busy, hold_bytes=self._hold_bytes)

    @property
    def _is_held_up(self) -> bool:
        tables = [one.table for one in self.attempts if one.table is not None and one.then is not Step.AWAIT_WRITERS]
        return bool(tables) and is_held_up(tables[-1])

    @property
    def _left_busy(self) -> frozenset[GroupKey]:
        """The file groups that the next run begins without."""
        tells = [leaves for attempt in self.attempts if (leaves := attempt.leaves_busy) is not None]
        is_left = bool(tells) and tells[-1]
        overtaken = (attempt.overtaken for attempt in self.attempts)
        return self._busy_before.union(*overtaken) if is_left else frozenset()

    def conclude(self) -> None:
        """All that follows on the compaction; an error of one step leaves out no other."""
        if self.result is not None:
            moved = self.result.status in _MOVED and not self._is_held_up
            count_run(self.policy, self.environment.apply_states, clock_ms(), moved=moved, busy=self._left_busy)
        self.judge_beside()
        self.prove_partitions()
        self.sync()
        self.send_events()

    def judge_beside(self) -> None:
        """Add to the errors what writes beside the last commit have left to do."""
        if self.beside is not None:
            with self._else_an_error():
                self.errors += writes_beside_errors(self.environment, self.policy, self.beside)

    def sync(self) -> None:
        """Record in the catalog what is known of the table now, if a compaction completed; an error leaves that as it is.

        Just in time nothing is recorded where nothing was due, as that would start Spark in each run: what is said there holds,
        unless the verification found that it does not, or T goes back behind an event that came late.
        """
        result = self.result
        if result is None or self.policy.sync.ro_table is None:
            return
        idle = NOT_DONE if result.next_due_ms is None or self._takes_back(result) else (*NOT_DONE, "nothing_due")
        if result.status in idle and result.resumed_instant is None:
            return
        started_ms = clock_ms()
        try:
            with one_table(self.policy), step("sync", self.policy.name):
                done = sync_table(self.environment, self.policy, self.now_ms, verdict_of(result))
        except EtcError as error:
            self.errors.append(error)
            done = failed_sync(self.policy, error)
        steps = {**result.step_seconds, "sync": (clock_ms() - started_ms) / 1000}
        self.result = result.model_copy(update={"sync": done, "step_seconds": steps})

    def prove_partitions(self) -> None:
        """Compare the rows of partitions that are to be done; a verdict that is not good is that of the run."""
        if self.result is None:
            return
        with self._else_an_error():
            verdict = prove_partitions(self.environment, self.policy, self.now_ms)
            if verdict is not None:
                self.result = self.result.model_copy(update={"verification": verdict})

    def send_events(self) -> None:
        """Send which partitions are done now; an error leaves that to the next run."""
        if self.policy.done is None:
            return
        with self._else_an_error():
            sent = send_partition_events(self.environment, self.policy, self.now_ms)
            if self.result is not None:
                self.result = self.result.model_copy(update={"events_sent": sent})

    @contextmanager
    def _else_an_error(self) -> Iterator[None]:
        """Around a step whose error is added to those of the run, which goes on."""
        try:
            with one_table(self.policy):
                yield
        except EtcError as error:
            self.errors.append(error)

    def _takes_back(self, result: TableResult) -> bool:
        """Whether what was said of the table before may not be true any more."""
        found = verdict_of(result)
        published_ms = self._planned.pace.published_ms if self._planned and self._planned.pace else None
        goes_back = published_ms is not None and self._planned is not None and self._planned.threshold_ms < published_ms
        return goes_back or (found is not None and found.status in ("fail", "error"))

    def fail(self, error: EtcError, started_ms: int, table: TablePlan | None = None) -> None:
        """Record that the table was not compacted, unless it was in this run; `table` is the plan that was to be carried out."""
        set_place(error, self.policy)
        self.errors.append(error)
        store = self.environment.apply_states
        refusals = 0
        if isinstance(error, StalePlanError):
            version = table.table_version if table else UNREAD_VERSION
            refusals = count_stale(self.policy, store, error, clock_ms(), version)
        if self.beside is not None or (self.result is not None and self.result.status == "compacted"):
            return
        failed = TableResult(
            policy=self.policy.name,
            base_path=self.policy.table,
            status="stale" if isinstance(error, StalePlanError) else "failed",
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
        if (earlier := self.beside or self.quiet) is not None:
            done = joined(earlier, done)
        if done.may_have_writes_beside:
            self.beside = done
        store, began_ms = self.environment.apply_states, clock_ms()
        if done.status != "refused":
            end_refusals(self.policy, store, run_ms)
            try:
                with one_table(self.policy), step("verify", self.policy.name):
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
        """Verify at the policy's level; where nothing was due and the last compaction is proved, without rows.

        A run that was killed after its commit leaves a compaction that nobody has verified: the next run does.
        """
        policy, store = self.policy, self.environment.apply_states
        state, evidence = self._evidence(done, table)
        level = level_to_prove(policy, state, is_idle=done.status == "nothing_due")
        self.environment.progress(f"{policy.name}: verifying ({level})")
        begin_proof(policy, state, store)
        if evidence is None:
            verification = without_promise(done, level)
            note_verdict(policy, state, store, verification, level, None)
        else:
            verification, _ = verify_and_note(
                self.environment, policy, evidence, level, lambda: self._evidence(done, table)[1]
            )
        self.errors += wrong_times_errors(policy, verification)
        has_failed = verification.exit_code != ExitCode.DONE
        note(verification.failures if has_failed else None, level=verification.level, status=verification.status)
        measured_ms = watermark_of(state, policy.longest_latency_ms).value_ms
        return done.model_copy(update={"verification": verification, "watermark_measured_ms": measured_ms})

    def _evidence(self, done: TableResult, table: TablePlan | None) -> tuple[TableState, Evidence | None]:
        """The table as it is now, and what of it is to be verified; None where it makes no claim."""
        state, history = read_for_proof(self.environment, self.policy, self.policy.verify.level)
        claim = claim_for(self.policy, done, table, state, history, self.now_ms)
        return state, gather_evidence(self.policy, state, history, claim, self.now_ms) if claim else None

    def _record(self, result: TableResult) -> None:
        """One result: what was done last, and what an earlier run had begun and was finished before it."""
        kept: dict[str, object] = {"policy_fingerprint": self.declared.fingerprint}
        if (earlier := self.result) is not None:
            kept |= {"resumed_instant": earlier.resumed_instant, "started_at": earlier.started_at}
            if result.verification is None:  # what was verified is what the earlier run had begun, and no more
                kept |= {name: getattr(earlier, name) for name in ("verification", "watermark_measured_ms")}
        self.result = result.model_copy(update=kept)


def claim_for(
    policy: Policy, done: TableResult, plan: TablePlan | None, state: TableState, history: TableHistory, now_ms: int
) -> Claim | None:
    """What the table itself claims of a compaction that was done; None where it makes no such claim.

    What a `plan` found not to be due is claimed by the plan: the table's metadata must bear that out. Of a boundary that was
    published before it is what was claimed then: what came since is late data.
    """
    if done.threshold_ms is None or (plan is not None and plan.reason_code == PUBLISHED):
        return claim_of(policy, state, now_ms)
    if done.status == "nothing_due":
        seen_until = (plan.seen.last_completed if plan else None) or state.last_completed or ""
        return Claim(done.threshold_ms, seen_until, leaves_out=plan is not None and plan.left_out_though_due > 0)
    record = record_of_run(state, history, done.instant or "")
    if record is None or record.threshold_ms != done.threshold_ms:
        return None
    is_own = is_of_column(policy.event_time, record, state.column_since)
    return claim_in(record) if is_own else claim_of(policy, state, now_ms)


def written_to(tries: Sequence[frozenset[GroupKey]]) -> WrittenTo:
    """What to leave out after so many tries: nothing, then what was overtaken, then all that could be."""
    if len(tries) < OVERTAKEN_AT_MOST:
        return WrittenTo()
    return WrittenTo(frozenset().union(*tries), all_deletes=len(tries) > OVERTAKEN_AT_MOST)


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
    state, history = environment.read_table(policy)
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
    ends = (
        done.completed if state.table_version in CUT_VERSIONS else None
    )  # before, it is the instant at which it began
    return {one for one in _in_flight(state) if ends is None or one <= ends}


def _in_flight(state: TableState) -> set[str]:
    return {write.requested for write in state.writes_in_flight if write.may_live}
