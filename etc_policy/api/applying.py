"""`etc apply`: one plan over many tables, carried out side by side, each verified from the table itself, and the run recorded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, count
from pathlib import Path

from etc_policy.api.artifacts import require_writable
from etc_policy.api.derived_plans import created_ms
from etc_policy.api.observers import note, observed, step, table_begins, table_ends
from etc_policy.api.one_table import by_release, side_by_side
from etc_policy.api.planning import plan_tables, refusal_errors, require_made_before_now
from etc_policy.api.run_records import RUNS_FOLDER, record_apply
from etc_policy.api.table_apply import TableApply
from etc_policy.api.verifying import require_verifiable
from etc_policy.errors import EtcError, Issue
from etc_policy.errors.codes import Code
from etc_policy.plan.bundles import submit_hint
from etc_policy.plan.commit_metadata import git_state_of
from etc_policy.plan.model import Plan, make_plan
from etc_policy.policy.manifest import Policy
from etc_policy.report.results import RunResults
from etc_policy.run.results import TableResult
from etc_policy.wiring import Environment, clock_ms

#: How often a plan that was made just now, and that a writer has overtaken, is made anew.
REPLANS = 3
#: What tables that are being worked on have after an interrupt, to give back what they hold.
_GRACE_SECONDS = 5.0


def apply_and_record(
    environment: Environment,
    now_ms: int,
    target_dir: Path,
    policies: Iterable[Policy],
    saved: Plan | None,
    confirm: Callable[[Plan], bool],
    every_ms: int | None = None,
    warn: Callable[[Issue], None] = lambda _: None,
    goes_on: Callable[[], bool] = lambda: True,
) -> RunResults:
    """Carry out the saved plan, or a new one that is confirmed, and record the run; one that ends early is recorded too.

    `warn` is called where an observer cannot be told what happens.

    Raises:
        EngineError: the target folder cannot be written; nothing was touched.

    """
    require_writable(target_dir, RUNS_FOLDER)
    applier = Applier(environment, now_ms, every_ms, goes_on)
    with observed(warn):
        try:
            with step("etc apply"):
                applier.run(policies, saved, confirm)
        except BaseException:
            if applier.results:  # what was done to the tables before is done
                for error in record_apply(target_dir, applier.report(), applier.plan, applier.git_sha):
                    environment.progress(f"{error.message}: {error.cause}")
            raise
        finally:
            for table in applier.tables:
                table_ends(table.policy, table.result, table.errors, clock_ms())
    report = applier.report()
    if environment.is_submitted and applier.plan is not None:
        say_what_to_submit(report, applier.plan)
    return report.with_errors(unwritten=record_apply(target_dir, report, applier.plan, applier.git_sha))


def say_what_to_submit(results: RunResults, plan: Plan) -> None:
    """Give the errors of tables that the one release of a job may not take the job that may, as their hint."""
    releases = {table.policy: table.release for table in plan.tables if table.action == "compact"}
    for error in results.errors:
        if error.code == Code.UNFIT_BUNDLE and error.where is not None:
            error.hint = submit_hint(error.where.object_name, releases) or error.hint


@dataclass
class Applier:
    """One `etc apply`: one table's error does not stop the others, and results are in the policies' order.

    `every_ms` is the time from run to run, where it is not the policies'. What a run takes counts from its begin, without the
    time in which it waited for an answer. Once `goes_on` says no, no further table is begun.
    """

    environment: Environment
    now_ms: int
    every_ms: int | None = None
    goes_on: Callable[[], bool] = lambda: True
    git_sha: str | None = None
    plan: Plan | None = None
    tables: tuple[TableApply, ...] = ()
    _refused: list[EtcError] = field(default_factory=list)
    _began: float = field(default_factory=lambda: time.monotonic())
    _asked_seconds: float = 0.0
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self, policies: Iterable[Policy], saved: Plan | None = None, confirm: Callable[[Plan], bool] = lambda _: True
    ) -> Plan:
        """Finish what is pending, then carry out the saved plan, or a new one if `confirm` says yes to it.

        A new plan that a writer overtakes before it is committed is made anew, and confirmed anew, a few times; file
        slices that are overtaken again and again are left out of it. Those that the last run had to leave out are planned
        once all else is compacted.

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
        made_ms = None if saved is None else created_ms(saved)
        self.tables = tuple(
            TableApply(self.environment, one, self.now_ms, self.git_sha, made_ms, self._elapsed_ms) for one in chosen
        )
        ready = self._finish_pending([table for table in self.tables if table.locate()])
        self.plan = saved or self._plan_each(ready)
        agreed = saved is not None or self._agreed(confirm, self.plan)
        for tables in self._by_release(ready):
            if agreed:
                self._carry_out(self.plan, tables, None if saved else confirm)
            for table in tables:  # by this thread alone: the catalog may need a session of its own
                if table.result is not None or self.goes_on():
                    table.conclude()
        if agreed:
            self._refused = refusal_errors(self.plan, [table.policy for table in ready if table.quiet is None])
        return self.plan

    def _by_release(self, tables: Sequence[TableApply]) -> Iterator[list[TableApply]]:
        """The tables of one release of Hudi after those of another: Spark has that release until the next are taken."""
        by_name = {table.policy.name: table for table in tables}
        for policies in by_release(self.environment, [table.policy for table in tables]):
            yield [by_name[policy.name] for policy in policies]

    def _finish_pending(self, tables: list[TableApply]) -> list[TableApply]:
        """The tables that may be worked on, in their order."""
        work = TableApply.finish_pending
        names = {table.policy.name for group in self._by_release(tables) for table in self._which(group, work)}
        return [table for table in tables if table.policy.name in names]

    def _plan_each(self, tables: Sequence[TableApply]) -> Plan:
        """The plan of all tables, each planned by the release that takes it."""
        plans = [self._plan(group) for group in self._by_release(tables)]
        if len(plans) < 2:
            return plans[0] if plans else self._plan(tables)
        planned = {one.policy: one for plan in plans for one in plan.tables}
        return make_plan(plans[-1].created_at, tuple(planned[one.policy.name] for one in tables), plans[-1].git)

    def _carry_out(self, plan: Plan, tables: list[TableApply], confirm: Callable[[Plan], bool] | None) -> None:
        """Carry out the plan, and if `confirm` is given and says yes, those made anew of the tables that it no longer fits."""
        for tries_left in range(REPLANS if confirm else 0, -1, -1):
            left = self._which(*self._due(plan, tables, last=not tries_left, confirm=confirm))
            for table in tables:
                if table.newer is not None:  # made between two writes
                    plan, table.newer = plan.renewed(table.newer), None
            self.plan, tables = plan, left
            if confirm is None or not tables:
                return
            newest = self._plan(tables)
            self.plan = plan = plan.renewed(newest)
            if not self._agreed(confirm, newest):
                return

    def _agreed(self, confirm: Callable[[Plan], bool], plan: Plan) -> bool:
        began = time.monotonic()
        answer = confirm(plan)
        self._asked_seconds += time.monotonic() - began
        return answer

    def _elapsed_ms(self) -> int:
        return int((time.monotonic() - self._began - self._asked_seconds) * 1000)

    def _plan(self, tables: Sequence[TableApply]) -> Plan:
        """The plan of the tables; where nothing is due but what the last run had to leave out, it is planned at once."""
        plan = self._plan_once(tables)
        compacts = {one.policy for one in plan.tables if one.action == "compact"}
        idle = [table for table in tables if table.busy and table.policy.name not in compacts]
        for table in idle:
            table.busy = frozenset()
        return plan.renewed(self._plan_once(idle)) if idle else plan

    def _plan_once(self, tables: Sequence[TableApply]) -> Plan:
        left_out = {table.policy.name: table.leaves_out for table in tables}
        policies = [table.declared for table in tables]
        with step("plan"):
            return plan_tables(
                self.environment, policies, self.now_ms, read_stats=True, written_to=left_out, every_ms=self.every_ms
            )

    def _plan_between_writes(self, confirm: Callable[[Plan], bool], table: TableApply) -> Plan | None:
        """The plan of one table, if it is confirmed; one question at a time."""
        plan = self._plan([table])
        with self._asking:
            return plan if self._agreed(confirm, plan) else None

    def _due(
        self, plan: Plan, tables: Iterable[TableApply], *, last: bool, confirm: Callable[[Plan], bool] | None
    ) -> tuple[list[TableApply], Callable[[TableApply], bool]]:
        """The tables in the order of the plan, and what carries it out on one of them; true where it no longer fits.

        Of such tables nothing is recorded, unless this is the last try.
        """
        by_name = {table.policy.name: table for table in tables}
        planned = [one for one in plan.tables if one.policy in by_name]
        due = {one.policy for one in planned if one.action == "compact"}
        if min(len(due), self.environment.compaction_jobs) > 1 and self.goes_on():
            with suppress(EtcError):  # else each table says why it cannot be compacted
                self.environment.spark  # noqa: B018 - from this thread, as long as nothing else is said
        number = count(1)

        def report(result: TableResult) -> None:
            if len(due) > 1 and result.policy in due:
                self.environment.progress(f"{_in_words(result)}; {next(number)} of {len(due)} tables done")

        plan_anew = partial(self._plan_between_writes, confirm) if confirm else None
        work = partial(TableApply.run, plan=plan, report=report, plan_anew=plan_anew, last=last)
        return [by_name[one.policy] for one in planned], partial(self._observed, work)

    def _observed(self, work: Callable[[TableApply], bool], table: TableApply) -> bool:
        """What the work gives; observers are told when it begins and ends."""
        table_begins(table.policy, clock_ms())
        with step("apply", table.policy.name):
            is_left = work(table)
            if (done := table.result) is not None:
                note(status=done.status, threshold_ms=done.threshold_ms, instant=done.instant)
            note(table.errors[-1].message if table.errors else None)
            return is_left

    def _which(self, tables: Sequence[TableApply], work: Callable[[TableApply], bool]) -> list[TableApply]:
        """The tables for which the work says yes, in their order; up to `jobs` of them are worked on at once."""
        jobs = min(self.environment.compaction_jobs, len(tables))
        if jobs > 1:
            self.environment.prepare_for_threads()
            work = partial(self._in_own_pool, work)
        calls = [(partial(self._begun, work, table), True) for table in tables]
        answers = side_by_side(calls, jobs, grace_seconds=_GRACE_SECONDS)
        return list(compress(tables, answers))

    def _begun(self, work: Callable[[TableApply], bool], table: TableApply) -> bool:
        return self.goes_on() and work(table)

    def _in_own_pool(self, work: Callable[[TableApply], bool], table: TableApply) -> bool:
        with self.environment.own_pool(table.policy.name):
            return work(table)

    @property
    def results(self) -> list[TableResult]:
        """One for each table that was worked on so far."""
        return [table.result for table in self.tables if table.result is not None]

    @property
    def errors(self) -> list[EtcError]:
        """What went wrong so far, table by table, and what was refused."""
        return [*(error for table in self.tables for error in table.errors), *self._refused]

    def report(self) -> RunResults:
        """All results so far, with the git commit and the policies that they are of, and what went wrong."""
        plan_id = self.plan.plan_id if self.plan else None
        found = RunResults(plan_id=plan_id, git=git_state_of(self.git_sha), tables=tuple(self.results))
        return found.with_errors(self.errors)


def _in_words(result: TableResult) -> str:
    verdict = f", verified {result.verification.status.upper()}" if result.verification else ""
    return f"{result.policy}: {result.status.replace('_', ' ')}{verdict}"
