"""`etc apply`: one plan over many tables, carried out side by side, each verified from the table itself, and the run recorded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, count
from pathlib import Path

from etc_policy.api.artifacts import require_writable
from etc_policy.api.each_table import by_release, side_by_side
from etc_policy.api.observers import observed, step, table_ends
from etc_policy.api.planning import plan_tables, refusal_errors
from etc_policy.api.run_records import RUNS_FOLDER, record_apply
from etc_policy.api.saved_plans import created_ms, require_made_before_now
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

#: How often tables are planned again in a run, whatever for.
REPLANS = 3
#: What tables that are being worked on have after an interrupt, to give back what they hold.
_GRACE_SECONDS = 5.0

Confirm = Callable[[Plan], bool]


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
    unwritten: tuple[EtcError, ...] = ()
    _refused: list[EtcError] = field(default_factory=list)
    _began: float = field(default_factory=lambda: time.monotonic())
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def run(self, policies: Iterable[Policy], saved: Plan | None = None, confirm: Confirm = lambda _: True) -> Plan:
        """Finish what is pending, then carry out the saved plan, or a new one if `confirm` says yes to it.

        A new plan that a writer overtakes before it is committed is made anew, and confirmed anew, a few times; file
        slices that are overtaken again and again are left out of it. Those that the last run had to leave out are planned
        once all else is compacted.

        Raises:
            PolicyError: the suite of a policy cannot be read; nothing was touched.
            EngineError: what its verification needs is not installed; nothing was touched.
            EtcError: the saved plan was made in the future; nothing was touched.

        """
        self._begin(tuple(policies), saved)
        ready, self.plan = self._prepare(saved)
        is_agreed = saved is not None or self._agreed(confirm, self.plan)
        for tables in self._by_release(ready):
            left, tries_left = tables if is_agreed else [], 0 if saved else REPLANS
            while left:
                left, work = self._to_carry_out(self.plan, left, None if saved else confirm, is_last=not tries_left)
                left, tries_left = list(compress(left, self._answers(left, work))), tries_left - 1
                for table in tables:
                    if table.replanned is not None:  # made between two writes
                        self.plan, table.replanned = self.plan.renewed(table.replanned), None
                if left:
                    newest = self._plan(left)
                    self.plan = self.plan.renewed(newest)
                    left = left if self._agreed(confirm, newest) else []
            for table in tables:  # by this thread alone: the catalog may need a session of its own
                if table.result is not None or self.goes_on():
                    table.conclude()
        if is_agreed:
            self._refused = refusal_errors(self.plan, [table.policy for table in ready if table.first_result is None])
        return self.plan

    def _begin(self, policies: tuple[Policy, ...], saved: Plan | None) -> None:
        if saved is not None:
            require_made_before_now(saved)
        self.git_sha = self.environment.git_sha()
        require_verifiable(self.environment, policies)
        made_ms = None if saved is None else created_ms(saved)
        run = self.now_ms, self.git_sha, made_ms, self._elapsed_ms, self.goes_on
        self.tables = tuple(TableApply(self.environment, policy, *run) for policy in policies)

    def _prepare(self, saved: Plan | None) -> tuple[list[TableApply], Plan]:
        """The tables that may be worked on, once what killed runs left on them is finished, and the plan of all of them.

        Each is planned by the release of Hudi that takes it.
        """
        names, plans = set[str](), list[Plan]()
        for tables in self._by_release([table for table in self.tables if table.locate()]):
            found = list(compress(tables, self._answers(tables, TableApply.finish_pending)))
            names |= {table.policy.name for table in found}
            if found and saved is None:
                plans.append(self._plan(found))
        ready = [table for table in self.tables if table.policy.name in names]
        if saved is not None or len(plans) < 2:
            return ready, saved or (plans[0] if plans else self._plan(ready))
        planned = {table.policy: table for plan in plans for table in plan.tables}
        in_order = tuple(planned[table.policy.name] for table in ready)
        return ready, make_plan(plans[-1].created_at, in_order, plans[-1].git)

    def _by_release(self, tables: Sequence[TableApply]) -> Iterator[list[TableApply]]:
        """The tables of one release of Hudi after those of another: Spark has that release until the next are taken."""
        by_name = {table.policy.name: table for table in tables}
        for policies in by_release(self.environment, [table.policy for table in tables]):
            yield [by_name[policy.name] for policy in policies]

    def _agreed(self, confirm: Confirm, plan: Plan) -> bool:
        with self._asking:  # one question at a time
            began = time.monotonic()
            answer = confirm(plan)
            self._began += time.monotonic() - began
            return answer

    def _elapsed_ms(self) -> int:
        return int((time.monotonic() - self._began) * 1000)

    def _plan(self, tables: Sequence[TableApply]) -> Plan:
        """The plan of the tables; where nothing is due but what the last run had to leave out, it is planned at once."""
        left_out = {table.policy.name: table.leaves_out for table in tables}
        policies = [table.declared for table in tables]
        with step("plan"):
            plan = plan_tables(
                self.environment, policies, self.now_ms, read_stats=True, contended=left_out, every_ms=self.every_ms
            )
        compacts = {table.policy for table in plan.tables if table.action == "compact"}
        idle = [table for table in tables if table.busy and table.policy.name not in compacts]
        for table in idle:
            table.busy = frozenset()
        return plan.renewed(self._plan(idle)) if idle else plan

    def _to_carry_out(
        self, plan: Plan, tables: Iterable[TableApply], confirm: Confirm | None, *, is_last: bool
    ) -> tuple[list[TableApply], Callable[..., bool]]:
        """The tables in the order of the plan, and what carries it out on one of them; true where it is to be planned again."""
        by_name = {table.policy.name: table for table in tables}
        planned = [table for table in plan.tables if table.policy in by_name]
        due = {table.policy for table in planned if table.action == "compact"}
        if min(len(due), self.environment.compaction_jobs) > 1 and self.goes_on():
            with suppress(EtcError):  # else each table says why it cannot be compacted
                self.environment.spark  # noqa: B018 - from this thread, as long as nothing else is said
        number = count(1)

        def report(result: TableResult) -> None:
            if len(due) > 1 and result.policy in due:
                self.environment.progress(f"{_in_words(result)}; {next(number)} of {len(due)} tables done")

        def plan_anew(table: TableApply) -> Plan | None:
            newest = self._plan([table])
            return newest if confirm is not None and self._agreed(confirm, newest) else None

        work = partial(
            TableApply.run, plan=plan, report=report, plan_anew=plan_anew if confirm else None, is_last=is_last
        )
        return [by_name[table.policy] for table in planned], work

    def _answers(self, tables: Sequence[TableApply], work: Callable[..., bool]) -> Iterator[bool]:
        """What the work says of each table; up to `jobs` of them are worked on at once."""
        jobs = min(self.environment.compaction_jobs, len(tables))
        if jobs > 1:
            self.environment.prepare_for_threads()
        calls = [(partial(work, table, is_alone=jobs < 2), True) for table in tables]
        return side_by_side(calls, jobs, grace_seconds=_GRACE_SECONDS)

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
        report = RunResults(plan_id=plan_id, git=git_state_of(self.git_sha), tables=tuple(self.results))
        return report.with_errors(self.errors, self.unwritten)


def _in_words(result: TableResult) -> str:
    verdict = f", verified {result.verification.status.upper()}" if result.verification else ""
    return f"{result.policy}: {result.status.replace('_', ' ')}{verdict}"


@contextmanager
def recorded(applier: Applier, target_dir: Path, warn: Callable[[Issue], None] = lambda _: None) -> Iterator[None]:
    """Around a run, which is recorded; so is one that ends early. `warn` is called where an observer cannot be told of it.

    Raises:
        EngineError: the target folder cannot be written; nothing was touched.

    """
    require_writable(target_dir, RUNS_FOLDER)
    with observed(warn):
        try:
            with step("etc apply"):
                yield
        except BaseException:
            if applier.results:  # what was done to the tables before is done
                for error in record_apply(target_dir, applier.report(), applier.plan, applier.git_sha):
                    applier.environment.progress(f"{error.message}: {error.cause}")
            raise
        finally:
            for table in applier.tables:
                table_ends(table.policy, table.result, table.errors, clock_ms())
    report = applier.report()
    if applier.environment.is_submitted and applier.plan is not None:
        _say_what_to_submit(report, applier.plan)
    applier.unwritten = record_apply(target_dir, report, applier.plan, applier.git_sha)


def _say_what_to_submit(results: RunResults, plan: Plan) -> None:
    """Give the errors of tables that the one release of a job may not take the job that may, as their hint."""
    releases = {table.policy: table.release for table in plan.tables if table.action == "compact"}
    for error in results.errors:
        if error.code == Code.UNFIT_BUNDLE and error.where is not None:
            error.hint = submit_hint(error.where.object_name, releases) or error.hint
