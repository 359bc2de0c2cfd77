"""`Project`: the verbs of `etc` for Python, for notebooks and schedulers.

    from etc_policy import Project

    with Project("warehouse", target="prod") as project:
        print(project.plan(select="orders_ro").has_changes)
        project.apply(select="tag:hourly")

Every verb takes `select` and `exclude` as the command line does, and returns the models whose JSON the commands print
(`.model_dump_json()`). Errors are `etc_policy.errors.EtcError`: each has `.issues` with code, place and hint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType

from etc_policy.api.applying import Applier
from etc_policy.api.diagnosing import diagnose
from etc_policy.api.observing import observe_freshness
from etc_policy.api.planning import match_policies, plan_tables, raise_all, require_unedited
from etc_policy.api.run_results import last_results
from etc_policy.api.syncing import policies_to_sync, sync_tables
from etc_policy.api.undoing import undo_tables
from etc_policy.api.verifying import verify_tables
from etc_policy.api.waiting import DEFAULT_POLL_MS, Waiter
from etc_policy.compile.manifest import Manifest, Policy, VerifyLevel
from etc_policy.compile.resolve import check_project, compile_project
from etc_policy.compile.selection import Selection, select_policies, split_terms
from etc_policy.compile.writer_forms import flink_options
from etc_policy.compile.writer_options import writer_options
from etc_policy.declare.reading import read_project
from etc_policy.declare.settings import read_target
from etc_policy.declare.suites import suite_names
from etc_policy.errors import Issue
from etc_policy.plan.formats import iso_time
from etc_policy.plan.stages import Plan
from etc_policy.publish.debug import DebugReport
from etc_policy.publish.history import PolicyHistory, policy_history
from etc_policy.publish.results import FreshnessReport, RunResults, SyncReport, VerificationReport
from etc_policy.wiring import Environment, clock_ms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Terms = str | Sequence[str]


class Project:
    """A project folder and, for the verbs that need one, a Spark session that is started once and stopped by `close`.

    Args:
        project_dir: the folder that holds `policies/`.
        target: the target of the profile; without it that of `ETC_TARGET`, else the profile's default.
        spark_confs: settings of Spark that win over the target's.
        metadata_only: read no log files; event times that the commits do not tell stay unknown.
        progress: is called with a line for each step; nothing is printed without it.

    """

    def __init__(
        self,
        project_dir: str | os.PathLike[str] = ".",
        *,
        target: str | None = None,
        spark_confs: Mapping[str, str] | None = None,
        metadata_only: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.project_dir = Path(project_dir)
        self.target = target or os.environ.get("ETC_TARGET") or None
        self._spark_confs = dict(spark_confs or {})
        self._metadata_only = metadata_only
        self._progress = progress or (lambda _: None)

    @cached_property
    def environment(self) -> Environment:
        """The outside world as the project's target says; the Spark session, once there is one, is `.spark`."""
        cache = self.project_dir / "target" / "cache"
        settings = read_target(str(self.project_dir), os.environ, self.target)
        return Environment(
            self.project_dir,
            self._progress,
            self._spark_confs,
            cache_dir=cache,
            metadata_only=self._metadata_only,
            target=settings,
        )

    def __enter__(self) -> Project:
        """The project; leaving the block closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the project."""
        self.close()

    def close(self) -> None:
        """Stop Spark if a verb started it."""
        if "environment" in self.__dict__:
            self.environment.close()

    def parse(self) -> tuple[Issue, ...]:
        """All that is wrong with the project's files, errors and warnings, in the order of their places.

        Raises:
            PolicyError: there is no policy file at all.

        """
        files = read_project(str(self.project_dir), os.environ, target=self.target)
        return check_project(files, suite_names(self.project_dir))

    def compile(self) -> Manifest:
        """Every policy with its defaults filled in, read anew from the files; nothing is written.

        Raises:
            PolicyError: the project has errors; carries all of them.

        """
        return self._manifest().model_copy(update={"git": self.environment.git_state()})

    def _manifest(self) -> Manifest:
        files = read_project(str(self.project_dir), os.environ, target=self.target)
        return compile_project(files, suite_names(self.project_dir))

    def policies(self, select: Terms = (), exclude: Terms = ()) -> tuple[Policy, ...]:
        """The policies that a selection means; without one every enabled policy."""
        selection = Selection(_terms(select), _terms(exclude))
        return select_policies(self._manifest(), selection)

    def writer_options(self, name: str) -> dict[str, str]:
        """The options that the writers of a policy's table need, for `.options(**...)` of Spark's DataFrame writer."""
        return writer_options(self.policies(name)[0])

    def flink_options(self, name: str) -> dict[str, str]:
        """The same for a Flink sink, which has names of its own for compaction."""
        return flink_options(self.policies(name)[0])

    def plan(
        self,
        select: Terms = (),
        exclude: Terms = (),
        *,
        at: datetime | int | None = None,
        read_stats: bool = False,
    ) -> Plan:
        """What would be compacted, from metadata; a table that cannot be compacted now is refused in it, with reasons.

        `at` counts as now (aware, or epoch milliseconds); `read_stats` takes unknown event times from column statistics,
        which starts Spark.
        """
        return plan_tables(self.environment, self.policies(select, exclude), _moment_ms(at), read_stats=read_stats)

    def apply(
        self,
        plan: Plan | None = None,
        select: Terms = (),
        exclude: Terms = (),
        *,
        at: datetime | int | None = None,
        check: bool = True,
    ) -> RunResults:
        """Carry out `plan`, or a new one, and verify each table; nobody is asked.

        With `plan` the tables are those of the plan that are selected.

        Raises:
            UsageError: `plan` is not as it was made.
            StalePlanError: a policy was changed since `plan` was made, or is gone; nothing was touched.
            SeveralErrors: with `check`, after all tables, if one failed, was refused or did not pass its verification.

        """
        policies = self.policies(select, exclude)
        if plan is not None:
            require_unedited(plan)
            planned = match_policies(plan, self._manifest().policies)
            policies = tuple(one for one in policies if one.name in planned)
        applier = Applier(self.environment, _moment_ms(at))
        applier.run(policies, plan)
        results = applier.run_results()
        if check:
            raise_all([*applier.errors, *applier.verdict_errors()], applier.exit_codes())
        return results

    def verify(
        self,
        select: Terms = (),
        exclude: Terms = (),
        *,
        at: datetime | int | None = None,
        level: VerifyLevel | None = None,
    ) -> VerificationReport:
        """What the tables' read-optimized views hold; the verdicts are in the report.

        Raises:
            SeveralErrors: some table could not be read at all.

        """
        now_ms = _moment_ms(at)
        tables, errors = verify_tables(self.environment, self.policies(select, exclude), now_ms, level)
        raise_all(errors)
        return VerificationReport(observed_at=iso_time(now_ms), tables=tables)

    def freshness(
        self, select: Terms = (), exclude: Terms = (), *, at: datetime | int | None = None
    ) -> FreshnessReport:
        """How far each table is complete; one that cannot be read has the status `unknown`, with the reason."""
        now_ms = _moment_ms(at)
        tables, _ = observe_freshness(self.environment, self.policies(select, exclude), now_ms)
        return FreshnessReport(observed_at=iso_time(now_ms), git=self.environment.git_state(), tables=tables)

    def sync(
        self,
        select: Terms = (),
        exclude: Terms = (),
        *,
        at: datetime | int | None = None,
        remove: bool = False,
    ) -> SyncReport:
        """Tell the catalog how far each RO table is complete; with `remove`, take that away again.

        `apply` does the same for its tables. What was verified is told by the results in the project's `target/`, and by
        the catalog itself.

        Raises:
            SeveralErrors: some table could not be synced.

        """
        now_ms, policies = _moment_ms(at), policies_to_sync(self.policies(select, exclude))
        known = last_results(self.project_dir / "target", policies)
        tables, errors = sync_tables(self.environment, policies, now_ms, known, remove=remove)
        raise_all(errors)
        return SyncReport(observed_at=iso_time(now_ms), tables=tables)

    def wait(
        self,
        select: Terms,
        *,
        until: datetime | int,
        timeout: timedelta = timedelta(minutes=30),
        poll: timedelta = timedelta(milliseconds=DEFAULT_POLL_MS),
    ) -> FreshnessReport:
        """Return when every selected table is complete up to `until` (aware, or epoch milliseconds).

        Raises:
            RetryableError: the time ran out, or no wait of this length can be enough.

        """
        timeout_ms, poll_ms = (span // timedelta(milliseconds=1) for span in (timeout, poll))
        tables = Waiter(self.environment, _moment_ms(until), timeout_ms, poll_ms).wait(self.policies(select))
        return FreshnessReport(observed_at=iso_time(clock_ms()), tables=tables)

    def history(self, name: str) -> PolicyHistory:
        """The compactions of one policy's table, from the table's own commits; the checks of runs are not in it."""
        (policy,) = self.policies(name)
        return policy_history(policy, self.environment.read_commit_log(policy, compactions_only=True), (), ())

    def debug(self, select: Terms = (), exclude: Terms = (), *, spark: bool = False) -> DebugReport:
        """What is fine and what is not on this machine, in the project and in each table; `spark` starts Spark too."""
        issues = self.parse()
        broken = any(issue.level == "error" for issue in issues)
        policies = () if broken else self.policies(select, exclude)
        return diagnose(self.environment, issues, policies, os.environ, spark=spark)

    def undo(self, select: Terms = (), exclude: Terms = ()) -> dict[str, str]:
        """Withdraw pending plans of ours; returns the withdrawn instant by policy.

        Raises:
            SeveralErrors: it failed for some table.

        """
        withdrawn, errors = undo_tables(self.environment, self.policies(select, exclude))
        raise_all(errors)
        return dict(withdrawn)


def options_of_writers(
    name: str, project_dir: str | os.PathLike[str] = ".", *, target: str | None = None
) -> dict[str, str]:
    """The options that the writers of policy `name` need: `frame.write.format("hudi").options(**writer_options(name))`."""
    return Project(project_dir, target=target).writer_options(name)


def _terms(given: Terms) -> tuple[str, ...]:
    return split_terms([given] if isinstance(given, str) else list(given))


def _moment_ms(moment: datetime | int | None) -> int:
    """Epoch milliseconds; None is now, and a time without a zone is UTC as on the command line."""
    if moment is None:
        return clock_ms()
    if isinstance(moment, int):
        return moment
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)
