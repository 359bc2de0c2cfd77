"""Applies plans table by table and verifies each from the table itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from etc_policy.api.derived_plans import PlanCheck, no_check, plan_check
from etc_policy.api.one_table import one_table, set_place
from etc_policy.api.overtaken import writes_beside_errors, written_to
from etc_policy.api.planning import plan_tables, refusal_errors, require_made_before_now, require_same_table
from etc_policy.api.proofs import begin_proof, level_to_prove, note_verdict
from etc_policy.api.starvation import count_refusal, count_stale, end_refusals, is_blocked_by_pending_work
from etc_policy.api.syncing import failed_sync, sync_table
from etc_policy.api.verifying import (
    broken_verification,
    read_for_proof,
    require_suites,
    verdict_codes,
    verdict_error,
    verify,
    without_promise,
    wrong_times_errors,
)
from etc_policy.compile.manifest import Policy
from etc_policy.errors import EtcError, ExitCode, OvertakenError, StalePlanError
from etc_policy.execute.ports import Outcome, TableStatus
from etc_policy.plan.commit_metadata import git_state_of
from etc_policy.plan.formats import iso_time
from etc_policy.plan.stages import Plan, TablePlan
from etc_policy.plan.table_history import TableHistory
from etc_policy.plan.table_state import GroupKey, TableState
from etc_policy.plan.watermark import watermark_of
from etc_policy.publish.results import RunResults, TableResult, table_result
from etc_policy.publish.sync import NOT_DONE, verdict_of
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.ports import Verification
from etc_policy.verify.prover import claim_of, claim_of_run
from etc_policy.wiring import Environment, clock_ms, resolve_table

#: How often a plan that was made just now, and that a writer has overtaken, is made anew.
REPLANS = 3


@dataclass
class Applier:
    """One `etc apply`: results and errors are gathered, and one table's error does not stop the next."""

    environment: Environment
    now_ms: int
    git_sha: str | None = None
    plan: Plan | None = None
    check: PlanCheck = no_check
    results: list[TableResult] = field(default_factory=list)
    errors: list[EtcError] = field(default_factory=list)
    policies: list[Policy] = field(default_factory=list)
    overtaken: dict[str, list[frozenset[GroupKey]]] = field(default_factory=dict)

    def run(
        self, policies: Iterable[Policy], saved: Plan | None = None, confirm: Callable[[Plan], bool] = lambda _: True
    ) -> Plan:
        """Finish what is pending, then carry out the saved plan, or a new one if `confirm` says yes to it.

        A new plan that a writer overtakes before it is committed is made anew, and confirmed anew, a few times; file
        slices that are overtaken again and again are left out of it.

        Raises:
            PolicyError: the suite of a policy cannot be read; nothing was touched.
            EtcError: the saved plan was made in the future; nothing was touched.

        """
        if saved is not None:
            require_made_before_now(saved)
        self.git_sha = self.environment.git_sha()
        chosen = self.policies = list(policies)
        require_suites(self.environment, chosen)
        self.check = plan_check(self.environment, chosen, saved)
        ready = [policy for policy in self.locate(chosen) if self.finish_pending(policy)]
        todo = {policy.name for policy in ready}
        # as declared: a plan knows `db.table`, not its path
        due = [policy for policy in chosen if policy.name in todo]
        self.plan = newest = saved or self._plan(due)
        if saved is None and not confirm(newest):
            self.sync(ready)
            return self.plan
        for tries_left in range(0 if saved else REPLANS, -1, -1):
            todo = self._carry_out(self.plan, [policy for policy in ready if policy.name in todo], last=not tries_left)
            if not todo:
                break
            newest = self._plan([policy for policy in due if policy.name in todo])
            self.plan = self.plan.renewed(newest)
            if not confirm(newest):
                break
        self.sync(ready)
        self.errors.extend(refusal_errors(self.plan, ready))
        return self.plan

    def _plan(self, policies: Sequence[Policy]) -> Plan:
        left_out = {name: written_to(tries) for name, tries in self.overtaken.items()}
        return plan_tables(self.environment, policies, self.now_ms, read_stats=True, written_to=left_out)

    def _carry_out(self, plan: Plan, policies: Iterable[Policy], *, last: bool) -> set[str]:
        """Apply each table's plan; returns the policies whose plan no longer fits.

        Of those nothing is recorded, unless this is the last try.
        """
        by_name, stale = {policy.name: policy for policy in policies}, set()
        for table in plan.tables:
            policy = by_name.get(table.policy)
            if policy is not None and not self.apply(policy, table, plan.plan_id, last=last):
                stale.add(table.policy)
        return stale

    def run_results(self) -> RunResults:
        """All results so far, with the git commit and the policies that they are of."""
        prints = {policy.name: policy.fingerprint for policy in self.policies}
        tables = (one.model_copy(update={"policy_fingerprint": prints.get(one.policy)}) for one in self.results)
        plan_id = self.plan.plan_id if self.plan else None
        return RunResults(plan_id=plan_id, git=git_state_of(self.git_sha), tables=tuple(tables))

    def locate(self, policies: Iterable[Policy]) -> list[Policy]:
        """The policies with their tables as base paths, less those whose table the catalog does not know."""
        located = []
        for policy in policies:
            try:
                with one_table(policy):
                    located.append(resolve_table(self.environment, policy))
            except EtcError as error:
                self._fail(policy, error, clock_ms())
        return located

    def finish_pending(self, policy: Policy) -> bool:
        """Finish what a killed run left on a table; false when that failed and the table should be left alone."""
        started = clock_ms()
        try:
            with one_table(policy):
                outcome = self.environment.runner().finish_pending(policy, policy.table)
                if outcome is not None:
                    self._add(policy, outcome, started)
        except EtcError as error:
            self._fail(policy, error, started)
            return False
        return True

    def apply(self, policy: Policy, table: TablePlan, plan_id: str, *, last: bool = True) -> bool:
        """Carry out one table's plan and verify the table; false where it is stale and, as another try is left, not recorded."""
        started = clock_ms()
        try:
            with one_table(policy):
                require_same_table(table, policy)
                table = table.model_copy(
                    update={"base_path": policy.table}
                )  # the plan's may go through a link and back
                check = partial(self.check, policy, table)
                outcome = self.environment.runner().apply(policy, table, plan_id, self.git_sha, check)
                if outcome.status == "nothing_due" and self._result(policy) is not None:
                    end_refusals(policy, self.environment.memory)
                    return True  # a run that was finished just now, and verified, left nothing to do
                self._add(policy, outcome, started, starved=is_blocked_by_pending_work(table))
        except StalePlanError as error:
            if isinstance(error, OvertakenError):
                self.overtaken.setdefault(policy.name, []).append(error.groups)
            if not last:
                self.environment.progress(f"{error.message}; planning again")
                return False
            self._fail(policy, error, started, table)
        except EtcError as error:
            self._fail(policy, error, started, table)
        return True

    def sync(self, policies: Iterable[Policy]) -> None:
        """Record in the catalog what is known of each table now, where a compaction completed; an error leaves that as it is."""
        by_name = {policy.name: policy for policy in policies if policy.sync.ro_table is not None}
        for index, result in enumerate(self.results):
            done = result.status not in NOT_DONE or result.resumed_instant is not None
            if done and result.policy in by_name:
                self.results[index] = self._synced(by_name[result.policy], result)

    def _synced(self, policy: Policy, result: TableResult) -> TableResult:
        started_ms = clock_ms()
        try:
            with one_table(policy):
                done = sync_table(self.environment, policy, self.now_ms, verdict_of(result))
        except EtcError as error:
            self.errors.append(error)
            done = failed_sync(policy, error)
        steps = {**result.step_seconds, "sync": (clock_ms() - started_ms) / 1000}
        return result.model_copy(update={"sync": done, "step_seconds": steps})

    def exit_codes(self) -> list[ExitCode]:
        """What the verifications say, as exit codes."""
        return list(verdict_codes(result.verification for result in self.results))

    def _result(self, policy: Policy) -> TableResult | None:
        return next((result for result in self.results if result.policy == policy.name), None)

    def verdict_errors(self) -> list[EtcError]:
        """The verifications that did not pass, as errors."""
        found = (verdict_error(one.policy, one.verification) for one in self.results if one.verification)
        return [error for error in found if error is not None]

    def _add(self, policy: Policy, outcome: Outcome, started_ms: int, *, starved: bool = False) -> None:
        """Record what was done, then verify: an error of the verification never makes a done compaction undone."""
        done_ms = clock_ms()
        self.errors += writes_beside_errors(policy, outcome)
        measured, verification = None, None
        if outcome.status != "refused":
            end_refusals(policy, self.environment.memory)
            try:
                with one_table(policy):
                    measured, verification = self._verify(policy, outcome)
            except EtcError as error:
                self.errors.append(error)
                verification = broken_verification(policy.verify.level, outcome.threshold_ms, error)
        refusals = count_refusal(policy, self.environment.memory, clock_ms(), outcome.reason).count if starved else 0
        self._book(outcome, started_ms, done_ms, measured, verification, refusals)

    def _verify(self, policy: Policy, outcome: Outcome) -> tuple[int | None, Verification]:
        """Verify at the policy's level; where nothing was due and the last compaction is proved, without rows.

        A run that was killed after its commit leaves a compaction that nobody has verified: the next run does.
        """
        state, evidence = self._evidence(policy, outcome)
        memory, last = self.environment.memory, state.last_compaction
        level = level_to_prove(policy, last, memory, is_idle=outcome.status == "nothing_due")
        self.environment.progress(f"{policy.name}: verifying ({level})")
        begin_proof(policy, last, memory)
        if evidence is None:
            verification = without_promise(outcome, level)
        else:
            verification = verify(self.environment, evidence, level, lambda: self._evidence(policy, outcome)[1])
        note_verdict(policy, last, memory, verification, level, evidence.claim if evidence else None)
        self.errors += wrong_times_errors(policy, verification)
        return watermark_of(state, policy.data_latency_ms).value_ms, verification

    def _evidence(self, policy: Policy, outcome: Outcome) -> tuple[TableState, Evidence | None]:
        """The table as it is now, and what of it is to be verified; None where it makes no claim."""
        state, history = read_for_proof(self.environment, policy, policy.verify.level)
        claim = self._claim(policy, outcome, state, history)
        return state, Evidence(policy, state, history, claim, self.now_ms) if claim else None

    def _claim(self, policy: Policy, outcome: Outcome, state: TableState, history: TableHistory) -> Claim | None:
        """What the table itself claims of a compaction that was done; None where it makes no such claim.

        What a plan found not to be due is claimed by the plan: the table's metadata must bear that out.
        """
        if outcome.threshold_ms is None:
            return claim_of(policy, state, self.now_ms)
        if outcome.status == "nothing_due":
            return Claim(outcome.threshold_ms, outcome.seen_until or state.last_completed or "")
        claim = claim_of_run(state, history, outcome.instant or "")
        return claim if claim is not None and claim.threshold_ms == outcome.threshold_ms else None

    def _fail(self, policy: Policy, error: EtcError, started_ms: int, table: TablePlan | None = None) -> None:
        set_place(error, policy)
        self.errors.append(error)
        status: TableStatus = "stale" if isinstance(error, StalePlanError) else "failed"
        outcome = Outcome(
            policy=policy.name,
            base_path=policy.table,
            status=status,
            threshold_ms=table.threshold_ms if table else None,
            instant=table.instant if table else None,
            reason=error.message,
        )
        count = (
            count_stale(policy, self.environment.memory, error, clock_ms()) if isinstance(error, StalePlanError) else 0
        )
        self._book(outcome, started_ms, clock_ms(), None, None, count)

    def _book(
        self,
        outcome: Outcome,
        started_ms: int,
        done_ms: int,
        measured: int | None,
        verification: Verification | None,
        refusals: int,
    ) -> None:
        """One result per policy: what was done last, and what an earlier run had begun and was finished before it."""
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
        earlier = next((one for one in self.results if one.policy == outcome.policy), None)
        if earlier is not None:
            self.results.remove(earlier)
            kept = {"resumed_instant": earlier.resumed_instant, "started_at": earlier.started_at}
            result = result.model_copy(update={**kept, "verification": result.verification or earlier.verification})
        self.results.append(result)
