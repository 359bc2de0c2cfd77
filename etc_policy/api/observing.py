"""Looks at tables without changing them: how fresh each is, and what its last run did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from etc_policy.api.learning import with_learned_latencies
from etc_policy.api.one_table import entries_of, one_table, readings_of
from etc_policy.api.proofs import freshness_of
from etc_policy.api.run_records import last_results, load_runs
from etc_policy.errors import EtcError, Issue
from etc_policy.policy.manifest import Policy
from etc_policy.report.freshness import unreadable, with_partitions
from etc_policy.report.history import PolicyHistories, PolicyHistory, policy_history, unread_history
from etc_policy.report.metrics import TableObservation
from etc_policy.report.problems import Findings, Problem, problems_of_freshness
from etc_policy.report.results import TableFreshness
from etc_policy.report.run_files import RunFiles
from etc_policy.run.done_store import DoneStore
from etc_policy.run.results import TableResult
from etc_policy.table.partitions import done_since_ms
from etc_policy.table.proofs import doubt_about
from etc_policy.table.state import TableState
from etc_policy.verify.ports import Verification
from etc_policy.wiring import Environment, clock_ms


def observe_freshness(
    environment: Environment,
    policies: Iterable[Policy],
    now_ms: int,
    *,
    archived: bool = False,
    partitions: Sequence[str] | None = None,
    findings: Findings | None = None,
) -> tuple[tuple[TableFreshness, ...], tuple[EtcError, ...]]:
    """Each table's freshness at `now_ms`, and the errors of those that could not be read; these are unknown, not fresh.

    With `archived` late data and latencies are reported from as far back as the table's archive goes, and with globs in
    `partitions` the partitions that they mean, all of them for none. What is beyond its limit is added to `findings`.
    """
    chosen = tuple(policies)

    def read(policy: Policy) -> tuple[TableFreshness, tuple[Problem, ...]]:
        state, history = environment.read_table(policy, archived=archived)
        found = freshness_of(policy, state, now_ms, history)
        problems = () if findings is None else _problems(policy, found, state, now_ms)
        return found if partitions is None else partitions_of(found, policy, state, now_ms, partitions), problems

    def unread(policy: Policy, error: EtcError) -> tuple[TableFreshness, tuple[Problem, ...]]:
        found = unreadable(policy, error.with_cause).model_copy(update={"error_code": error.code})
        return found, tuple(problems_of_freshness(policy, found, None, now_ms))

    entries, errors = entries_of(readings_of(environment, chosen, read), unread)
    if findings is not None:
        for policy, (found, problems) in zip(chosen, entries, strict=True):
            is_known = found.complete_until_ms is not None  # else nobody has looked at its partitions
            findings.add(policy.name, ("limit", "partition") if is_known else ("limit",), problems)
    return tuple(found for found, _ in entries), errors


def _problems(policy: Policy, found: TableFreshness, state: TableState, now_ms: int) -> tuple[Problem, ...]:
    if policy.partition_time is not None:
        found = with_partitions(found, policy, state, now_ms, ())
    return tuple(problems_of_freshness(policy, found, state, now_ms))


def partitions_of(
    found: TableFreshness, policy: Policy, state: TableState, now_ms: int, terms: Sequence[str] = ()
) -> TableFreshness:
    """The freshness with that of partitions, and where the policy sends their events, what the record says of these."""
    found = with_partitions(found, policy, state, now_ms, terms)
    record = DoneStore(state.base_path).known() if policy.done and found.partitions else None
    if record is None or found.partitions is None or policy.done is None:
        return found
    reopened = record.reopened
    counted = tuple(replace(one, reopened=reopened.get(one.partition, 0)) for one in found.partitions.partitions)
    since_ms, now = done_since_ms(policy), found.partitions
    unsent = {action: len(record.to_send(action, now, since_ms)) for action in policy.done.actions}
    partitions = found.partitions.model_copy(update={"partitions": counted, "unsent": unsent})
    return found.model_copy(update={"partitions": partitions})


def settled_verdicts(
    environment: Environment, policies: Iterable[Policy], verdicts: Iterable[tuple[str, Verification]]
) -> Iterator[tuple[str, Verification]]:
    """The verdicts, less those that passed and leave an earlier doubt about their table, as ones by a weaker level do."""
    by_name = {policy.name: policy for policy in policies}
    for name, verdict in verdicts:
        if verdict.status in ("fail", "error") or not _is_in_doubt(environment, by_name[name]):
            yield name, verdict


def _is_in_doubt(environment: Environment, policy: Policy) -> bool:
    try:
        with one_table(policy):
            kept = environment.apply_states.read(environment.locate(policy))
            is_noted = bool(kept.unproven or kept.misrecorded)
            return is_noted and doubt_about(policy, environment.read_state(policy, read_logs=False)) is not None
    except EtcError:
        return True


def observe_tables(
    environment: Environment, policies: Sequence[Policy], target_dir: Path
) -> tuple[tuple[TableObservation, ...], tuple[Issue, ...]]:
    """What metrics report of each table now, and all that could not be read."""
    now_ms = clock_ms()
    tables, errors = observe_freshness(environment, policies, now_ms, partitions=())
    results: dict[str, TableResult] = {}
    try:
        results = last_results(target_dir, policies)
    except EtcError as error:
        errors = (*errors, error)
    observations = tuple(
        TableObservation(policy, environment.target.name, now_ms, table, results.get(policy.name))
        for policy, table in zip(policies, tables, strict=True)
    )
    return observations, tuple(issue for error in errors for issue in error.issues)


def observer(
    environment: Environment, policies: Sequence[Policy], target_dir: Path, warn: Callable[[Issue], None]
) -> Callable[[], tuple[TableObservation, ...]]:
    """A function that looks at the tables now; what it cannot read is a warning, and `etc_table_readable` is 0."""

    def observe() -> tuple[TableObservation, ...]:
        learned = with_learned_latencies(environment, policies, clock_ms())
        observations, issues = observe_tables(environment, learned, target_dir)
        for issue in issues:
            warn(replace(issue, level="warning"))
        return observations

    return observe


def table_histories(
    environment: Environment, policies: Iterable[Policy], target_dir: Path, warn: Callable[[Issue], None]
) -> PolicyHistories:
    """The history of each table; those that cannot be read have the reason."""
    runs = load_runs(target_dir, warn)
    found = readings_of(environment, policies, lambda policy: _history(environment, policy, runs))
    histories, errors = entries_of(found, unread_history)
    return PolicyHistories(histories=histories).with_errors(errors)


def table_history(
    environment: Environment, policy: Policy, target_dir: Path, warn: Callable[[Issue], None]
) -> PolicyHistory:
    """The compactions of a policy's table from its own commits, with the checks of the runs that are kept here.

    Raises:
        EtcError: the table cannot be read; its report says so too.

    """
    try:
        with one_table(policy):
            return _history(environment, policy, load_runs(target_dir, warn))
    except EtcError as error:
        error.report = unread_history(policy, error)
        raise


def _history(environment: Environment, policy: Policy, runs: RunFiles) -> PolicyHistory:
    log = environment.read_compactions(policy)
    record = DoneStore(log.base_path).known() if policy.done else None
    reopened = record.reopened if record else None
    return policy_history(policy, log, runs.files, tuple(str(issue) for issue in runs.issues), reopened)
