"""One table of an `etc apply`: what is done to it, its verification, and what went wrong, whatever other tables meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from etc_policy.api.derived_plans import PlanCheck, no_check
from etc_policy.api.one_table import one_table, set_place
from etc_policy.api.overtaken import await_writes, joined, writes_beside_errors
from etc_policy.api.planning import require_same_table
from etc_policy.api.proofs import begin_proof, claim_for, level_to_prove, note_verdict
from etc_policy.api.starvation import count_refusal, count_stale, end_refusals, is_blocked_by_pending_work
from etc_policy.api.syncing import failed_sync, sync_table
from etc_policy.api.telling import tell_partitions
from etc_policy.api.verifying import (
    broken_verification,
    gather_evidence,
    read_for_proof,
    verify,
    without_promise,
    wrong_times_errors,
)
from etc_policy.errors import EtcError, OvertakenError, StalePlanError
from etc_policy.plan.model import TablePlan
from etc_policy.policy.manifest import Policy
from etc_policy.report.results import TableResult, table_result
from etc_policy.report.sync import NOT_DONE, verdict_of
from etc_policy.run.ports import Outcome, TableStatus
from etc_policy.table.formats import iso_time
from etc_policy.table.state import GroupKey, TableState
from etc_policy.table.watermark import watermark_of
from etc_policy.verify.evidence import Evidence
from etc_policy.verify.ports import Verification
from etc_policy.wiring import Environment, clock_ms, resolve_table


@dataclass
class TableRun:
    """What one `etc apply` does to one table; one thread at a time works on it.

    `policy` is the declared one, with its table as a base path once `locate` has found it. `overtaken` are the file slices
    of each try that writers were faster with, and `beside` the compaction whose commit writes began beside, or may have.
    `elapsed_ms` says how long the whole run has taken so far.
    """

    environment: Environment
    declared: Policy
    now_ms: int
    git_sha: str | None = None
    check: PlanCheck = no_check
    elapsed_ms: Callable[[], int] = lambda: 0
    result: TableResult | None = None
    errors: list[EtcError] = field(default_factory=list)
    overtaken: list[frozenset[GroupKey]] = field(default_factory=list)
    beside: Outcome | None = None
    policy: Policy = field(init=False)
    _goes_back: bool = False

    def __post_init__(self) -> None:
        self.policy = self.declared

    def locate(self) -> bool:
        """Give the policy its table as a base path; false where the catalog does not know it."""
        try:
            with one_table(self.policy):
                self.policy = resolve_table(self.environment, self.declared)
        except EtcError as error:
            self.fail(error, clock_ms())
            return False
        return True

    def finish_pending(self) -> bool:
        """Finish what a killed run left on the table; raises where that failed and the table should be left alone."""
        started = clock_ms()
        outcome = self.environment.runner().finish_pending(self.policy, self.policy.table)
        if outcome is not None:
            self._add(outcome, started)
        return True

    def apply(self, table: TablePlan, plan_id: str, *, last: bool = True) -> bool:
        """Carry out the table's plan and verify the table; false where it is to be planned again, as another try is left.

        That is so where the plan is stale, which is not recorded then, and where writes began beside its commit.
        """
        started = clock_ms()
        try:
            with one_table(self.policy):
                outcome = self._carry_out(table, plan_id, started)
                if outcome.writes_beside and not last:
                    await_writes(self.environment, self.policy, outcome)
                    return False
        except StalePlanError as error:
            if isinstance(error, OvertakenError):
                self.overtaken.append(error.groups)
            if not last:
                self.environment.progress(f"{error.message}; planning again")
                return False
            self.fail(error, started, table)
        except EtcError as error:
            self.fail(error, started, table)
        return True

    def _carry_out(self, table: TablePlan, plan_id: str, started_ms: int) -> Outcome:
        require_same_table(table, self.policy)
        # the plan's path may go through a link and back
        table = table.model_copy(update={"base_path": self.policy.table})
        check = partial(self.check, self.policy, table)
        outcome = self.environment.runner().apply(self.policy, table, plan_id, self.git_sha, check)
        if outcome.status == "nothing_due" and self.result is not None:
            end_refusals(self.policy, self.environment.apply_states)
            return outcome  # a run that was finished just now, and verified, left nothing to do
        if self.beside is None or outcome.status == "compacted":  # else what was compacted before is the result
            self._add(outcome, started_ms, starved=is_blocked_by_pending_work(table))
        if self.result is not None:
            self.result = self.result.model_copy(update={"next_due_ms": table.next_due_ms})
        published_ms = table.pace.published_ms if table.pace else None
        self._goes_back = published_ms is not None and table.threshold_ms < published_ms
        return outcome

    def judge_beside(self) -> None:
        """Add to the errors what writes beside the last commit have left to do."""
        if self.beside is None:
            return
        try:
            with one_table(self.policy):
                self.errors += writes_beside_errors(self.environment, self.policy, self.beside)
        except EtcError as error:
            self.errors.append(error)

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
            with one_table(self.policy):
                done = sync_table(self.environment, self.policy, self.now_ms, verdict_of(result))
        except EtcError as error:
            self.errors.append(error)
            done = failed_sync(self.policy, error)
        steps = {**result.step_seconds, "sync": (clock_ms() - started_ms) / 1000}
        self.result = result.model_copy(update={"sync": done, "step_seconds": steps})

    def tell(self) -> None:
        """Tell those who wait which partitions are done now; an error leaves that to the next run."""
        if self.policy.done is None:
            return
        try:
            with one_table(self.policy):
                told = tell_partitions(self.environment, self.policy, self.now_ms)
        except EtcError as error:
            self.errors.append(error)
            return
        if self.result is not None:
            self.result = self.result.model_copy(update={"told": told})

    def _takes_back(self, result: TableResult) -> bool:
        """Whether what was said of the table before may not be true any more."""
        found = verdict_of(result)
        return self._goes_back or (found is not None and found.status in ("fail", "error"))

    def fail(self, error: EtcError, started_ms: int, table: TablePlan | None = None) -> None:
        """Record that the table was not compacted, unless it was in this run; `table` is the plan that was to be carried out."""
        set_place(error, self.policy)
        self.errors.append(error)
        store = self.environment.apply_states
        count = count_stale(self.policy, store, error, clock_ms()) if isinstance(error, StalePlanError) else 0
        if self.beside is not None or (self.result is not None and self.result.status == "compacted"):
            return
        status: TableStatus = "stale" if isinstance(error, StalePlanError) else "failed"
        outcome = Outcome(
            policy=self.policy.name,
            base_path=self.policy.table,
            status=status,
            threshold_ms=table.threshold_ms if table else None,
            instant=table.instant if table else None,
            reason=error.message,
        )
        self._record(outcome, started_ms, clock_ms(), None, None, count)

    def _add(self, outcome: Outcome, started_ms: int, *, starved: bool = False) -> None:
        """Record what was done, then verify: an error of the verification never makes a done compaction undone."""
        done_ms = clock_ms()
        run_ms = self.elapsed_ms() if outcome.status in ("compacted", "resumed") else None
        if self.beside is not None:
            outcome = joined(self.beside, outcome)
        if outcome.may_have_writes_beside:
            self.beside = outcome
        measured, verification = None, None
        store = self.environment.apply_states
        if outcome.status != "refused":
            end_refusals(self.policy, store, run_ms)
            try:
                with one_table(self.policy):
                    measured, verification = self._verify(outcome)
            except EtcError as error:
                self.errors.append(error)
                verification = broken_verification(self.policy.verify.level, outcome.threshold_ms, error)
        refusals = count_refusal(self.policy, store, clock_ms(), outcome.reason).count if starved else 0
        self._record(outcome, started_ms, done_ms, measured, verification, refusals)

    def _verify(self, outcome: Outcome) -> tuple[int | None, Verification]:
        """Verify at the policy's level; where nothing was due and the last compaction is proved, without rows.

        A run that was killed after its commit leaves a compaction that nobody has verified: the next run does.
        """
        policy, store = self.policy, self.environment.apply_states
        state, evidence = self._evidence(outcome)
        level = level_to_prove(policy, state, is_idle=outcome.status == "nothing_due")
        self.environment.progress(f"{policy.name}: verifying ({level})")
        begin_proof(policy, state, store)
        if evidence is None:
            verification = without_promise(outcome, level)
            note_verdict(policy, state, store, verification, level, None)
        else:
            verification, judged = verify(self.environment, evidence, level, lambda: self._evidence(outcome)[1])
            note_verdict(policy, judged.state, store, verification, level, judged.claim)
        self.errors += wrong_times_errors(policy, verification)
        return watermark_of(state, policy.data_latency_ms).value_ms, verification

    def _evidence(self, outcome: Outcome) -> tuple[TableState, Evidence | None]:
        """The table as it is now, and what of it is to be verified; None where it makes no claim."""
        state, history = read_for_proof(self.environment, self.policy, self.policy.verify.level)
        claim = claim_for(self.policy, outcome, state, history, self.now_ms)
        return state, gather_evidence(self.policy, state, history, claim, self.now_ms) if claim else None

    def _record(
        self,
        outcome: Outcome,
        started_ms: int,
        done_ms: int,
        measured: int | None,
        verification: Verification | None,
        refusals: int,
    ) -> None:
        """One result: what was done last, and what an earlier run had begun and was finished before it."""
        ended_ms = clock_ms()
        steps = {"compact": (done_ms - started_ms) / 1000}
        if verification is not None:
            steps["verify"] = (ended_ms - done_ms) / 1000
        result = table_result(
            outcome,
            started_at=iso_time(started_ms),
            completed_at=iso_time(ended_ms),
            step_seconds=steps,
            watermark_measured_ms=measured,
            verification=verification,
            refusals_in_a_row=refusals,
        )
        earlier = self.result
        if earlier is not None:
            kept = {"resumed_instant": earlier.resumed_instant, "started_at": earlier.started_at}
            result = result.model_copy(update={**kept, "verification": result.verification or earlier.verification})
        self.result = result
