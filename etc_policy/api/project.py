"""`Project`: the verbs of `etc` for Python, for notebooks and schedulers; the command line calls the same ones.

    from etc_policy import Project

    with Project("warehouse", target="prod") as project:
        print(project.plan(select="orders_ro").has_changes)
        project.apply(select="tag:hourly")

Every verb takes `select` and `exclude` as the command line does, writes the same files to the target folder, and returns the
models whose JSON the commands print (`.model_dump_json()`). Errors are `etc_policy.errors.EtcError`: each has `.issues`;
those of several tables are raised together after the last one, with the report as `.report`. Use cases are imported late.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etc_policy.api.arguments import (
    DEFAULT_POLL,
    AnyMoment,
    Count,
    File,
    Interval,
    Moment,
    Name,
    Span,
    Terms,
    checks_arguments,
    moment_ms,
    span_ms,
)
from etc_policy.api.artifacts import create_text, keep_copy, write_named
from etc_policy.api.each_table import raise_all, table_errors
from etc_policy.api.loading import ProjectReading
from etc_policy.api.workspace import Workspace
from etc_policy.errors import EtcError, Issue, PolicyError, UsageError
from etc_policy.errors.codes import Code
from etc_policy.plan.model import Plan
from etc_policy.policy import writers
from etc_policy.policy.manifest import Manifest, Policy, VerifyLevel
from etc_policy.policy.secrets import with_values
from etc_policy.table.formats import iso_time
from etc_policy.wiring import resolve_table

if TYPE_CHECKING:
    from etc_policy.api.site import WrittenSite
    from etc_policy.report.cuts import CutsReport
    from etc_policy.report.debug import DebugReport
    from etc_policy.report.history import PolicyHistories, PolicyHistory
    from etc_policy.report.imports import ImportReport
    from etc_policy.report.metrics import TableObservation
    from etc_policy.report.problems import Findings
    from etc_policy.report.results import (
        FinishReport,
        FreshnessReport,
        RunResults,
        SyncReport,
        UndoReport,
        VerificationReport,
    )
    from etc_policy.report.simulation import SimulationReport
    from etc_policy.run.results import TableResult
    from etc_policy.verify.ports import Verification


@checks_arguments
class Project(Workspace):
    """The verbs over a project folder; what it is opened with is said at `Workspace`."""

    def parse(self) -> tuple[Issue, ...]:
        """All that is wrong with the project's files and its suites; PolicyError where there is no policy file at all."""
        reading = self._declared()
        alike = sorted(reading.questions, key=attrgetter("message"))
        for issue in (*alike, *reading.suite_issues):
            if issue.level == "warning":  # those of other files are said by each verb that goes by their policies
                self._warn(issue)
        return (*reading.issues, *reading.suite_issues)

    def compile(self, select: Terms = (), exclude: Terms = ()) -> Manifest:
        """Write the manifest, and of what is selected the rest; PolicyError with all errors, and nothing is written then."""
        from etc_policy.api.compiling import notes_on_files, write_compiled

        reading = self._declared()
        policies = self._select(reading, select, exclude)
        manifest = reading.manifest.model_copy(update={"git": self.environment.git_state()})
        write_compiled(reading.files, manifest, policies, self._shape, self.target_dir)
        for note in notes_on_files(policies):
            self._note(note)
        return manifest

    def explain(self, select: Terms = (), exclude: Terms = ()) -> list[str]:
        """The resolved values of each policy as YAML, with the line that each came from; nothing is written."""
        from etc_policy.api.compiling import explanations

        reading = self._declared()
        return explanations(reading.files, self._select(reading, select, exclude))

    def writer_options(self, name: str) -> dict[str, str]:
        """The options that the writers of a policy's table need, for `.options(**...)` of Spark's DataFrame writer.

        They are for the job alone, and never to be written: what comes from the environment is there by its value.

        Raises:
            EngineError: a variable of the environment is not set.

        """
        policy = self._one(name, "writer_options")
        return with_values(writers.writer_options(policy, self._shape(policy)), os.environ)

    def flink_options(self, name: str) -> dict[str, str]:
        """The same for a Flink sink, which has names of its own for compaction."""
        policy = self._one(name, "flink_options")
        return with_values(writers.flink_options(policy, self._shape(policy)), os.environ)

    def writer_form(self, form: writers.FormName, select: Terms = (), exclude: Terms = ()) -> str:
        """The writers' options of what is selected, in one of the forms that `compile` writes; no value of the environment."""
        return "\n".join(writers.FORMS[form].render(one, self._shape(one)) for one in self.policies(select, exclude))

    def import_tables(
        self,
        paths: Terms = (),
        *,
        buckets: Terms = (),
        catalogs: Terms = (),
        diff: bool = False,
        guesses: bool = False,
        settings: Mapping[Name, Any] | None = None,
    ) -> ImportReport:
        """Write a policy for each table that the project has not, with what the table does not show as a question.

        `paths` are tables or patterns, `buckets` folders or buckets to search, `catalogs` are `DB` or `DB.PATTERN`. With `diff`
        nothing is written, and policies that their tables contradict are in the report; without sources they all are compared.
        With `guesses` what is likely takes the place of a question. `settings` are values by dotted keys that take the
        place of what tables show: for all tables they go into a new etc_project.yml if the project has none, and by `GLOB:KEY`
        into the policies of some.

        Raises:
            UsageError: a setting is about no table, or cannot be the same for several.
            PolicyError: the project has errors, so that it is not known which tables it has, or a setting is wrong.
            SeveralErrors: some table could not be imported; the others were.

        """
        from etc_policy.api.importing import Importer, Sources, answers_of, files_beside, known_tables
        from etc_policy.policy.resolve import table_root

        own = self._own_settings()
        answers = answers_of(settings or {}, own)
        root = table_root(self.environment.target, os.path.realpath(self.project_dir))
        known = known_tables(self._read_if_any(), root)
        beside = {} if guesses else files_beside(self.project_dir, answers.of_project if own.file is None else ())
        importer = Importer(
            self.environment,
            known,
            self.environment.folders.policies,
            moment_ms(None),
            None if diff else self._writing_first(beside),
            guesses=guesses,
            answers=answers,
        )
        return importer.run(Sources(*map(_several, (paths, buckets, catalogs)))).or_raise()

    def _writing_first(self, files: dict[str, str]) -> Callable[[str, str], None]:
        """What writes a new file of the project by its name and text, and these before the first one."""

        def write(name: str, text: str) -> None:
            for first in [*files]:
                create_text(self.project_dir, first, files.pop(first), "--project-dir")
                self._note(f"wrote {first}")
            create_text(self.project_dir, name, text, "--project-dir")

        return write

    def plan(
        self,
        select: Terms = (),
        exclude: Terms = (),
        *,
        at: Moment = None,
        every: Interval | None = None,
        read_stats: bool = False,
        out: File | None = None,
        check: bool = False,
    ) -> Plan:
        """What would be compacted, from metadata; a table that cannot be compacted now is refused in it, with reasons.

        `at` counts as now (aware, or epoch milliseconds); `every` is the time from run to run and wins over `strategy.every`;
        `read_stats` takes unknown event times from column statistics, which starts Spark; `out` is a file to save the plan to,
        beside `plan.json` in the target folder. With `check` tables that are refused are SeveralErrors.
        """
        from etc_policy.api.planning import plan_tables, refusal_errors

        reading = self._read()
        policies, now_ms = self._select(reading, select, exclude), moment_ms(at)
        every_ms = self._every_ms(reading, policies, every)
        policies = self._learned(policies, now_ms)
        plan = plan_tables(self.environment, policies, now_ms, read_stats=read_stats, every_ms=every_ms)
        text = plan.as_json(indent=2) + "\n"
        unwritten = keep_copy(self.target_dir, "plan.json", text, self._warn) if self._keeps_files else ()
        if out is not None:
            write_named(Path(out), text, "--out")
        raise_all(refusal_errors(plan, policies) if check else (), unwritten, plan)
        return plan

    def apply(
        self,
        plan: Plan | File | None = None,
        select: Terms = (),
        exclude: Terms = (),
        *,
        at: Moment = None,
        every: Interval | None = None,
        check: bool = True,
        confirm: Callable[[Plan], bool] = lambda _: True,
        first: Sequence[Name] = (),
        goes_on: Callable[[], bool] = lambda: True,
    ) -> RunResults:
        """Carry out `plan` (or the one in that file), or a new one if `confirm` says yes to it, and verify each table.

        With `plan` the tables are those of it that are selected; `every` is for a new one. The run is kept in `runs/`. The
        tables of the policies that `first` names go first, in its order; once `goes_on` says no, no further table is begun.

        Raises:
            UsageError: `plan` is not as it was made.
            StalePlanError: a policy was changed or disabled since `plan` was made, or is gone; nothing was touched.
            EngineError: the target folder cannot be written; nothing was touched.
            SeveralErrors: after all tables, if the run could not be recorded; with `check` also if a table failed, was refused
                or did not pass its verification.

        """
        from etc_policy.api.applying import Applier, recorded
        from etc_policy.api.saved_plans import choose_policies

        reading = self._read()
        selected, disabled = self._select(reading, select, exclude), self._disabled(reading, select, exclude)
        saved, policies = choose_policies(plan, reading.manifest.policies, selected, disabled)
        every_ms, now_ms = self._every_ms(reading, policies, every), moment_ms(at)
        places = {name: place for place, name in enumerate(first)}
        policies = tuple(sorted(policies, key=lambda one: places.get(one.name, len(places))))
        policies = self._learned(policies, now_ms)
        applier = Applier(self.environment, now_ms, every_ms, goes_on)
        with recorded(applier, self.target_dir, self._warn):
            applier.run(policies, saved, confirm)
        results = applier.report()
        results = results.with_errors(self._notified(reading, policies, results.verdicts, results.tables))
        if check:
            return results.or_raise(verdicts=True)
        raise_all((), results.unwritten, results)
        return results

    def verify(
        self,
        select: Terms = (),
        exclude: Terms = (),
        *,
        at: Moment = None,
        level: VerifyLevel | None = None,
        full: bool = False,
    ) -> VerificationReport:
        """What the tables' read-optimized views hold; the verdicts are in the report, and kept in `runs/`.

        With `full` each policy is verified as if it had `verify.full`.

        Raises:
            SeveralErrors: some table could not be read at all, which is in the report too, or that could not be kept.

        """
        from etc_policy.api.run_records import record_verification
        from etc_policy.api.verifying import verify_tables

        reading = self._read()
        now_ms = moment_ms(at)
        policies = self._learned(self._select(reading, select, exclude), now_ms)
        if full:
            policies = tuple(
                one.model_copy(update={"verify": one.verify.model_copy(update={"full": True})}) for one in policies
            )
        report = verify_tables(self.environment, policies, now_ms, level)
        if report.tables:
            unwritten = record_verification(self.target_dir, report, self.environment.git_sha())
            report = report.with_errors(self._notified(reading, policies, report.verdicts), unwritten)
        return report.or_raise()

    def freshness(
        self,
        select: Terms = (),
        exclude: Terms = (),
        *,
        at: Moment = None,
        archived: bool = False,
        check: bool = False,
        partitions: Sequence[Name] | None = None,
        notify: bool = False,
    ) -> FreshnessReport:
        """How far each table is complete; one that cannot be read has the status `unknown`, with the reason.

        With `archived` late data and latencies are those of archived commits too; with `check` tables that cannot be read are
        SeveralErrors. `partitions` are globs or ranges of the partitions to report one by one; an empty list means all. With
        `notify` those whom the project's `notify:` names are sent what is new, as `apply` does.
        """
        from etc_policy.api.observing import observe_freshness
        from etc_policy.report.problems import Findings
        from etc_policy.report.results import FreshnessReport

        if notify:
            self._require_trust("freshness --notify")
        reading = self._read()
        now_ms = moment_ms(at)
        policies = self._learned(self._select(reading, select, exclude), now_ms)
        findings = Findings(now_ms) if notify and reading.files.notify else None
        tables, errors = observe_freshness(
            self.environment, policies, now_ms, archived=archived, partitions=partitions, findings=findings
        )
        report = FreshnessReport(observed_at=iso_time(now_ms), git=self.environment.git_state(), tables=tables)
        text = report.as_json(indent=2) + "\n"
        unwritten = keep_copy(self.target_dir, "freshness.json", text, self._warn) if self._keeps_files else ()
        unsent = self._sent(reading, findings) if findings else ()
        return report.with_errors((*(errors if check else ()), *unsent), unwritten).or_raise()

    def _notified(
        self,
        reading: ProjectReading,
        policies: Sequence[Policy],
        verdicts: Sequence[tuple[str, Verification]],
        results: Sequence[TableResult] | None = None,
    ) -> tuple[EtcError, ...]:
        """Send what is new of a verification, or of a run and of its tables as they are now; what could not be sent."""
        if reading.files.notify is None:
            return ()
        from etc_policy.api.observing import observe_freshness, settled_verdicts
        from etc_policy.report.problems import Findings
        from etc_policy.verify.freshness import has_limits

        findings = Findings(moment_ms(None))
        findings.add_results(results or ())
        findings.add_verdicts(settled_verdicts(self.environment, policies, verdicts))
        limited = [one for one in policies if results is not None and has_limits(one.freshness)]
        observe_freshness(self.environment, limited, findings.now_ms, findings=findings)
        return self._sent(reading, findings)

    def _sent(self, reading: ProjectReading, findings: Findings) -> tuple[EtcError, ...]:
        """Send what is new of the findings; what could not be sent."""
        from etc_policy.api.notifying import send_news

        if reading.files.notify is None:
            return ()
        return send_news(self.environment, reading.files.notify, reading.manifest.project, self.target_dir, findings)

    def sync(self, select: Terms = (), exclude: Terms = (), *, at: Moment = None, remove: bool = False) -> SyncReport:
        """Record in the catalog how far each RO table is complete; with `remove`, remove that again.

        `apply` does the same for its tables. What was verified is known from the runs kept here, and from the catalog.

        Raises:
            SeveralErrors: some table could not be synced.

        """
        from etc_policy.api.run_records import last_results_or_none
        from etc_policy.api.syncing import policies_to_sync, sync_tables
        from etc_policy.report.results import SyncReport

        now_ms = moment_ms(at)
        policies = self._learned(policies_to_sync(self.policies(select, exclude)), now_ms)
        known = {} if remove else last_results_or_none(self.target_dir, policies, self._warn)
        tables, errors = sync_tables(self.environment, policies, now_ms, known, remove=remove)
        return SyncReport(observed_at=iso_time(now_ms), tables=tables).with_errors(errors).or_raise()

    def wait(
        self,
        select: Terms = (),
        exclude: Terms = (),
        *,
        until: AnyMoment | None = None,
        partition: Name | None = None,
        timeout: Span = timedelta(minutes=30),
        poll: Span = DEFAULT_POLL,
    ) -> FreshnessReport:
        """Return when every selected table is complete up to `until` (aware, or epoch milliseconds), or its `partition` is done.

        RetryableError where the time ran out, or where no wait of this length can be enough; TableError where no wait helps;
        PolicyError where by a policy the partition is never done; UsageError where no policy is selected.
        """
        from etc_policy.api.waiting import CompleteUntil, PartitionDone, wait_for

        if (until is None) == (partition is None):
            raise UsageError(Code.USAGE, "`until`: give a time up to which to wait, or a `partition`, and not both")
        policies = self._learned(self._select(self._read(), select, exclude, needs_one=True), moment_ms(None))
        goal = CompleteUntil(moment_ms(until)) if partition is None else PartitionDone(partition)
        return wait_for(self.environment, policies, goal, span_ms(timeout), span_ms(poll))

    def history(self, name: str) -> PolicyHistory:
        """The compactions of one policy's table, from the table's own commits; checks are those of the runs kept here."""
        from etc_policy.api.observing import table_history

        policy = self._one(name, "history")
        return table_history(self.environment, policy, self.target_dir, self._warn)

    def histories(self, select: Terms = (), exclude: Terms = ()) -> PolicyHistories:
        """The history of each selected table; SeveralErrors where one is not read, which has the reason in their report."""
        from etc_policy.api.observing import table_histories

        policies = self.policies(select, exclude)
        return table_histories(self.environment, policies, self.target_dir, self._warn).or_raise()

    def cuts(self, select: Terms = (), exclude: Terms = ()) -> CutsReport:
        """The published cuts of each selected table; SeveralErrors where one is not read, whose report has the reason."""
        from etc_policy.api.observing import list_cuts

        return list_cuts(self.environment, self.policies(select, exclude)).or_raise()

    def simulate(
        self,
        select: Terms = (),
        exclude: Terms = (),
        *,
        settings: Mapping[Name, Any] | None = None,
        price: Mapping[Name, Any] | None = None,
        every: Interval | None = None,
        last: Interval | None = None,
    ) -> SimulationReport:
        """What the policies would have made of their tables' pasts, beside what was and what stock Hudi would have made.

        With `settings`, values by dotted keys such as `{"data_latency": "45m"}`, also the policies with these values. Runs come
        `every` so often, as `strategy.every` says, or each hour; `last` is how much of the past is replayed. With a `price`,
        such as `{"core_hour": 0.05, "cores": 8, "gb_read": 0.0, "gb_written": 0.02}`, each way has its cost.

        Raises:
            UsageError: a setting or a key of the price is not known.
            PolicyError: with the settings the policies would have errors; carries all of them.
            SeveralErrors: some table could not be read; the report has the reason.

        """
        from etc_policy.api.simulating import changed_policies, price_of, simulate_tables

        known_price = price_of(price) if price else None
        reading = self._read()
        policies = self._select(reading, select, exclude)
        every_ms, last_ms = self._every_ms(reading, policies, every), span_ms(last) if last else None
        policies = self._learned(policies, moment_ms(None))
        changed = changed_policies(reading, policies, settings, every_ms) if settings else {}
        return simulate_tables(self.environment, policies, changed, every_ms, last_ms, known_price).or_raise()

    def kept_beside(self, name: str) -> Mapping[str, int]:
        """The size in bytes of each file that etc keeps in one policy's table, by its path there."""
        policy = self._one(name, "forget")
        with table_errors(policy):
            return self.environment.forgetter().kept(resolve_table(self.environment, policy).table)

    def forget(self, name: str) -> None:
        """Remove the files that etc keeps in one policy's table.

        Raises:
            EngineError: a run has left something that they are needed for.
            RetryableError: a run is at work.

        """
        policy = self._one(name, "forget")
        with table_errors(policy):
            found = resolve_table(self.environment, policy)
            self.environment.forgetter().forget(
                found.table, lambda: self.environment.read_state(found, read_logs=False)
            )

    def site(
        self, select: Terms = (), exclude: Terms = (), *, at: Moment = None, out: File | None = None, runs: Count = 100
    ) -> WrittenSite:
        """Write the site over what is selected to `out`, else to `site/` of the target folder.

        At most `runs` runs of a policy have a page; a table that cannot be read has one that says why.
        """
        from etc_policy.api.run_records import load_runs
        from etc_policy.api.site import WrittenSite, site_files, write_site

        folder = Path(out) if out else self.target_dir / "site"
        self._require_own_way(folder)
        reading = self._read()
        now_ms = moment_ms(at)
        policies = self._learned(self._select(reading, select, exclude), now_ms)
        name = reading.manifest.project or self.project_dir.resolve().name or "etc"
        kept = load_runs(self.target_dir, self._warn)
        files = site_files(self.environment, name, policies, now_ms, kept, runs, self._warn)
        write_site(folder, files, "--out" if out else "--target-dir")
        return WrittenSite(folder, tuple(sorted(files)), tuple(policy.name for policy in policies))

    def metrics(self, select: Terms = (), exclude: Terms = ()) -> Callable[[], tuple[TableObservation, ...]]:
        """A function that looks at the tables each time it is called, for an exporter; what it cannot read is a warning.

        Each time it goes by the project's files as they are then, and while these have an error as they were.
        """
        from etc_policy.api.observing import Observe, by_files_of_now, observer

        def make() -> Observe:
            policies = self.policies(select, exclude)
            return observer(self.environment, policies, self.target_dir, self._warn)

        return by_files_of_now(make, self.read_anew, self._warn)

    def debug(self, select: Terms = (), exclude: Terms = (), *, spark: bool = False) -> DebugReport:
        """What is fine and what is not on this machine, in the project and in each table; `spark` starts Spark too."""
        from etc_policy.api.diagnosing import diagnose

        try:
            reading = self._read()
            issues = reading.issues
            policies = () if reading.has_errors else self._select(reading, select, exclude)
        except PolicyError as error:
            issues, policies = error.issues, ()
        known = self._open_anyway()
        return diagnose(self.environment, issues, policies, os.environ, spark=spark, target_known=known)

    def finish(self, select: Terms = (), exclude: Terms = ()) -> FinishReport:
        """Carry out pending compactions that are not etc's own; SeveralErrors as below."""
        from etc_policy.api.finishing import finish_tables

        policies = self.policies(select, exclude)  # first, as it reads the target's settings too
        return finish_tables(self.environment, policies).or_raise()

    def undo(self, select: Terms = (), exclude: Terms = ()) -> UndoReport:
        """Withdraw pending plans of etc; SeveralErrors, with the report, where that failed for a table."""
        from etc_policy.api.finishing import undo_tables

        policies = self.policies(select, exclude)  # first, as it reads the target's settings too
        return undo_tables(self.environment, policies).or_raise()


def _several(given: Terms) -> tuple[str, ...]:
    """Paths as they are given: blanks and commas are part of them."""
    return (given,) if isinstance(given, str) else tuple(given)


def writer_options(name: str, project_dir: File = ".", *, target: str | None = None) -> dict[str, str]:
    """The options that the writers of policy `name` need: `frame.write.format("hudi").options(**writer_options(name))`."""
    return Project(project_dir, target=target).writer_options(name)
