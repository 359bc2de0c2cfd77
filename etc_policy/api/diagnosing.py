"""`etc debug`: looks at the machine, the project, the target and each table; one thing that is broken hides no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

from etc_policy import __version__
from etc_policy.api.each_table import each_table
from etc_policy.errors import EtcError, Issue
from etc_policy.policy.manifest import GitState, Policy
from etc_policy.policy.project_schema import Target
from etc_policy.report.debug import DebugReport
from etc_policy.table.formats import count_of
from etc_policy.table.state import TableState
from etc_policy.verify.diagnosis import LAST_SYNC, Finding, TableFacts, diagnose_table, finding
from etc_policy.wiring import Environment, clock_ms


def diagnose(
    environment: Environment,
    issues: Sequence[Issue],
    policies: Sequence[Policy],
    variables: Mapping[str, str],
    *,
    spark: bool,
    target_known: bool,
) -> DebugReport:
    """All findings; `variables` are those of the process, and `spark` starts Spark too, if it is known which."""
    findings = (
        *diagnose_machine(environment, variables, start=spark and target_known),
        *diagnose_project(environment, issues, len(policies), target_known=target_known),
        *diagnose_tables(environment, policies, spark=spark and target_known),
    )
    return DebugReport(etc_version=__version__, findings=findings)


_of_project = partial(finding, "project")
_UNKNOWN_TARGET = _of_project("target", "skipped", "not known: etc_project.yml has errors")


def diagnose_project(
    environment: Environment, issues: Sequence[Issue], policies: int, *, target_known: bool
) -> tuple[Finding, ...]:
    """The project's files, its git state and its target; `policies` are those that were selected."""
    target = _target(environment.target) if target_known else _UNKNOWN_TARGET
    return (_files(environment, issues, policies), _git(environment.git_state()), target)


def _target(target: Target) -> Finding:
    where = f"{target.name}{f' of {target.profile}' if target.profile else ''}"
    master = target.spark_confs.get("spark.master", "local[2]")
    message = f"{where}: Spark at {master}, tables below {target.table_root or 'the project'}"
    return _of_project("target", "ok", message)


def _files(environment: Environment, issues: Sequence[Issue], policies: int) -> Finding:
    errors = [issue for issue in issues if issue.level == "error"]
    if errors:
        message = f"{count_of(len(errors), 'error')}, the first: {errors[0].message}"
        return _of_project("files", "error", message, "`etc parse` shows all of them")
    selected = f"policies selected: {policies}, in {environment.project_dir}"
    if issues:
        message = f"{selected}; {count_of(len(issues), 'warning')}, the first: {issues[0].message}"
        return _of_project("files", "warn", message, "`etc parse` shows all of them")
    return _of_project("files", "ok", selected)


def _git(state: GitState | None) -> Finding:
    if state is None:
        return finding(
            "project", "git", "warn", "not in git: runs cannot be joined to a commit", "keep policies in git"
        )
    if state.dirty:
        message = f"{state.sha[:12]}, and files that differ from it"
        return _of_project("git", "warn", message, "commit before `etc apply`, so that a run names what it did")
    return _of_project("git", "ok", state.sha[:12])


def diagnose_tables(
    environment: Environment, policies: Iterable[Policy], *, spark: bool = False
) -> tuple[Finding, ...]:
    """Every check on every table; a table that cannot be read is one finding. With `spark` the metadata table is read too."""
    read = partial(read_facts, environment, spark=spark)
    findings, _ = each_table(environment, policies, read, _unreadable, _diagnose)
    return tuple(chain.from_iterable(findings))


def _diagnose(policy: Policy, facts: TableFacts) -> tuple[Finding, ...]:
    return (finding(policy.name, "table", "ok", facts.state.base_path), *diagnose_table(facts))


def _unreadable(policy: Policy, error: EtcError) -> tuple[Finding, ...]:
    hint = next(iter(error.hints), None)
    where = error.where or policy.place
    return (finding(policy.name, "table", "error", error.with_cause, hint or (f"see {where}" if where else None)),)


def read_facts(environment: Environment, policy: Policy, *, spark: bool = False, read_logs: bool = True) -> TableFacts:
    """All that the checks look at; log files are not opened without `read_logs`."""
    state, history, properties = environment.read_whole(policy, read_logs=read_logs)[:3]
    has_indexes = set(state.metadata_partitions) - {"files"}
    return TableFacts(
        policy=policy,
        state=state,
        history=history,
        properties=properties,
        clock_ms=clock_ms(),
        lock=environment.held_lock(policy),
        writer_form=environment.writer_form(state, properties),
        consistent_buckets=environment.has_consistent_buckets(state),
        last_sync=_last_sync(environment, policy, state.base_path, spark=spark),
        index_faults=_index_faults(environment, state) if spark and has_indexes else None,
    )


def _last_sync(
    environment: Environment, policy: Policy, base_path: str, *, spark: bool
) -> Mapping[str, str] | str | None:
    """What Hudi's sync has recorded in the catalog, which Glue says without Spark; an error in words."""
    table, catalog = policy.sync.ro_table, environment.target.catalog
    if table is None or not (spark or (catalog is not None and catalog.type == "glue")):
        return None
    try:
        return environment.property_store(base_path).read(table, LAST_SYNC)
    except EtcError as error:
        return error.with_cause


def _index_faults(environment: Environment, state: TableState) -> tuple[str, ...] | str:
    """An error in words."""
    try:
        return environment.data_verifier().wrongly_indexed(state)
    except EtcError as error:
        return error.with_cause


def diagnose_machine(environment: Environment, variables: Mapping[str, str], *, start: bool) -> tuple[Finding, ...]:
    """What there is to run Spark with; with `start` also whether it does."""
    found = environment.machine_findings(variables)
    if not start:
        return (
            *found,
            finding("machine", "session", "skipped", "Spark was not started", "`etc debug --spark` tries it"),
        )
    try:
        message = (
            f"Spark {environment.spark.version} started and answers {environment.spark.sql('SELECT 1').count()} row"
        )
    except EtcError as error:
        return (*found, finding("machine", "session", "error", str(error), next(iter(error.issues)).hint))
    return (*found, finding("machine", "session", "ok", message))
