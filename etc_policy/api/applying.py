"""Applies plans to tables side by side, and verifies each from the table itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from etc_policy.api.derived_plans import plan_check
from etc_policy.api.one_table import one_table, raise_all
from etc_policy.api.overtaken import written_to
from etc_policy.api.planning import plan_tables, refusal_errors, require_made_before_now
from etc_policy.api.side_by_side import side_by_side
from etc_policy.api.table_run import TableRun
from etc_policy.api.verifying import require_verifiable, verdict_codes, verdict_error
from etc_policy.errors import EtcError
from etc_policy.plan.commit_metadata import git_state_of
from etc_policy.plan.model import Plan
from etc_policy.policy.manifest import Policy
from etc_policy.report.results import RunResults, TableResult
from etc_policy.wiring import Environment, clock_ms

#: How often a plan that was made just now, and that a writer has overtaken, is made anew.
REPLANS = 3
#: What tables that are being worked on have after an interrupt, to give back what they hold.
_GRACE_SECONDS = 5.0


@dataclass
class Applier:
    """One `etc apply`: one table's error does not stop the others, and results are in the policies' order.

    `every_ms` is the time from run to run, where it is not the policies'. What a run takes counts from its begin, without the
    time in which it waited for an answer. `unwritten` says which files of the run could not be written.
    """

    environment: Environment
    now_ms: int
    every_ms: int | None = None
    git_sha: str | None = None
    plan: Plan | None = None
    runs: tuple[TableRun, ...] = ()
    unwritten: tuple[EtcError, ...] = ()
    _refused: list[EtcError] = field(default_factory=list)
    _began: float = field(default_factory=lambda: time.monotonic())
    _asked_seconds: float = 0.0

    def run(
        self, policies: Iterable[Policy], saved: Plan | None = None, confirm: Callable[[Plan], bool] = lambda _: True
    ) -> Plan:
        """Finish what is pending, then carry out the saved plan, or a new one if `confirm` says yes to it.

        A new plan that a writer overtakes before it is committed is made anew, and confirmed anew, a few times; file
        slices that are overtaken again and again are left out of it.

        Raises:
            PolicyError: the suite of a policy cannot be read; nothing was touched.
            EngineError: what its verification needs is not installed; nothing was touched.
            EtcError: the saved plan was made in the future; nothing was touched.

        """
        if saved is not None:
            require_made_before_now(saved)
        self.git_sha = self.environment.git_sha()
        chosen = tuple(policies)
        require_verifiable(self.environment, chosen)
        check = plan_check(self.environment, chosen, saved)
        self.runs = tuple(
            TableRun(self.environment, one, self.now_ms, self.git_sha, check, self._elapsed_ms) for one in chosen
        )
        ready = self._those([run for run in self.runs if run.locate()], TableRun.finish_pending)
        self.plan = saved or self._plan(ready)
        ask = partial(self._asked, confirm)
        if saved is not None or ask(self.plan):
            self._carry_out_all(self.plan, ready, ask, 0 if saved else REPLANS)
            self._refused = refusal_errors(self.plan, [run.policy for run in ready])
        for run in ready:  # by this thread alone: the catalog may need a session of its own
            run.judge_beside()
            run.sync()
            run.tell()
        return self.plan

    def _asked(self, confirm: Callable[[Plan], bool], plan: Plan) -> bool:
        began = time.monotonic()
        answer = confirm(plan)
        self._asked_seconds += time.monotonic() - began
        return answer

    def _elapsed_ms(self) -> int:
        return int((time.monotonic() - self._began - self._asked_seconds) * 1000)

    def _plan(self, runs: Sequence[TableRun]) -> Plan:
        left_out = {run.policy.name: written_to(run.overtaken) for run in runs}
        policies = [run.declared for run in runs]
        return plan_tables(
            self.environment, policies, self.now_ms, read_stats=True, written_to=left_out, every_ms=self.every_ms
        )

    def _carry_out_all(
        self, plan: Plan, runs: Sequence[TableRun], confirm: Callable[[Plan], bool], replans: int
    ) -> None:
        for tries_left in range(replans, -1, -1):
            runs = self._carry_out(plan, runs, last=not tries_left)
            if not runs:
                return
            newest = self._plan(runs)
            self.plan = plan = plan.renewed(newest)
            if not confirm(newest):
                return

    def _carry_out(self, plan: Plan, runs: Iterable[TableRun], *, last: bool) -> list[TableRun]:
        """Apply each table's plan; returns the tables whose plan no longer fits.

        Of those nothing is recorded, unless this is the last try.
        """
        by_name = {run.policy.name: run for run in runs}
        tables = {table.policy: table for table in plan.tables if table.policy in by_name}
        due = [name for name, table in tables.items() if table.action == "compact"]
        if min(len(due), self.environment.compaction_jobs) > 1:
            with suppress(EtcError):  # else each table says why it cannot be compacted
                self.environment.spark  # noqa: B018 - from this thread, as long as nothing else is said

        done = count(1)

        def is_stale(run: TableRun) -> bool:
            stale = not run.apply(tables[run.policy.name], plan.plan_id, last=last)
            if len(due) > 1 and run.policy.name in due and run.result is not None and not stale:
                self.environment.progress(f"{_in_words(run.result)}; {next(done)} of {len(due)} tables done")
            return stale

        return self._those([by_name[name] for name in tables], is_stale)

    def _those(self, runs: Sequence[TableRun], work: Callable[[TableRun], bool]) -> list[TableRun]:
        """The tables for which the work says yes, in their order; up to `jobs` of them are worked on at once."""
        jobs = min(self.environment.compaction_jobs, len(runs))
        if jobs > 1:
            self.environment.prepare_for_threads()
            work = partial(self._in_own_pool, work)
        calls = ((partial(_attempt, work, run), True) for run in runs)
        answers = side_by_side(calls, jobs, grace_seconds=_GRACE_SECONDS)
        return [run for run, answer in zip(runs, answers, strict=True) if answer]

    def _in_own_pool(self, work: Callable[[TableRun], bool], run: TableRun) -> bool:
        with self.environment.own_pool(run.policy.name):
            return work(run)

    @property
    def results(self) -> list[TableResult]:
        """One for each table that was worked on so far."""
        return [run.result for run in self.runs if run.result is not None]

    @property
    def errors(self) -> list[EtcError]:
        """What went wrong so far, table by table, and what was refused."""
        return [*(error for run in self.runs for error in run.errors), *self._refused]

    def run_results(self) -> RunResults:
        """All results so far, with the git commit and the policies that they are of."""
        tables = (
            run.result.model_copy(update={"policy_fingerprint": run.declared.fingerprint})
            for run in self.runs
            if run.result is not None
        )
        plan_id = self.plan.plan_id if self.plan else None
        return RunResults(plan_id=plan_id, git=git_state_of(self.git_sha), tables=tuple(tables))

    def raise_errors(self, results: RunResults) -> None:
        """Return if no table failed, each verification passed, and the run could be recorded.

        Raises:
            SeveralErrors: all that went wrong, with these results.

        """
        verdicts = (verdict_error(one.policy, one.verification) for one in self.results if one.verification)
        codes = verdict_codes(result.verification for result in self.results)
        errors = [*self.errors, *(error for error in verdicts if error is not None)]
        raise_all(errors, codes, results, self.unwritten)


def _in_words(result: TableResult) -> str:
    verdict = f", verified {result.verification.status.upper()}" if result.verification else ""
    return f"{result.policy}: {result.status.replace('_', ' ')}{verdict}"


def _attempt(work: Callable[[TableRun], bool], run: TableRun) -> bool:
    """What the work says; false where something went wrong, which is then the table's."""
    started = clock_ms()
    try:
        with one_table(run.policy):
            return work(run)
    except EtcError as error:
        run.fail(error, started)
        return False
