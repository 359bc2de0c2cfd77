"""Looks at tables without changing them: how fresh each is, what was published of it, and what its last run did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from etc_policy.api.each_table import each_table, table_errors
from etc_policy.api.run_records import last_results, load_runs
from etc_policy.errors import EtcError, Issue
from etc_policy.plan.plan_warnings import retention_warning
from etc_policy.policy.manifest import Policy
from etc_policy.report.cuts import CutsReport, TableCuts, table_cuts
from etc_policy.report.freshness import table_freshness, unreadable, with_partitions
from etc_policy.report.history import PolicyHistories, PolicyHistory, policy_history, unread_history
from etc_policy.report.metrics import TableObservation
from etc_policy.report.problems import Findings, Problem, kinds_judged, problems_of_freshness
from etc_policy.report.results import TableFreshness
from etc_policy.report.run_files import RunFiles
from etc_policy.run.done_store import DoneStore
from etc_policy.run.results import TableResult
from etc_policy.table.cuts import published_cuts
from etc_policy.table.history import TableHistory, promise_of, promises_in
from etc_policy.table.partitions import PartitionsFreshness, done_since_ms, partitions_freshness
from etc_policy.table.proofs import doubt_about, proofs_of
from etc_policy.table.state import TableState
from etc_policy.verify.latency import learn_latency
from etc_policy.verify.ports import Verification
from etc_policy.wiring import Environment, clock_ms

#: Looks at tables for an exporter.
Observe = Callable[[], tuple[TableObservation, ...]]


def freshness_of(
    policy: Policy,
    state: TableState,
    now_ms: int,
    history: TableHistory | None = None,
    *,
    clock_at_ms: int | None = None,
) -> TableFreshness:
    """A table's freshness by its metadata; unknown where the last compaction did not pass its verification.

    `clock_at_ms` is the wall clock, if it was read before.
    """
    if doubt := doubt_about(policy, state):
        return unreadable(policy, doubt)
    clock_at_ms = clock_ms() if clock_at_ms is None else clock_at_ms
    return table_freshness(policy, state, now_ms, clock_at_ms, history, proofs_of(policy, state))


def proven_partitions(
    policy: Policy, state: TableState, history: TableHistory, now_ms: int
) -> PartitionsFreshness | None:
    """The figures of each partition with its proof; None where it is not known how far the table is complete."""
    if freshness_of(policy, state, now_ms, history).complete_until_ms is None:
        return None
    return partitions_freshness(policy, state, now_ms, proofs=proofs_of(policy, state))


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
        state, history, _, further = environment.read_table(policy, archived=None if archived else 0)
        found = freshness_of(policy, state, now_ms, history)
        if not archived and _needs_archive(found, state):
            found = freshness_of(policy, state, now_ms, further())
        problems = () if findings is None else _problems(policy, found, state, now_ms)
        return found if partitions is None else partitions_of(found, policy, state, now_ms, partitions), problems

    def unread(policy: Policy, error: EtcError) -> tuple[TableFreshness, tuple[Problem, ...]]:
        found = unreadable(policy, error.with_cause).model_copy(update={"error_code": error.code})
        return found, tuple(problems_of_freshness(policy, found, None, now_ms))

    entries, errors = each_table(environment, chosen, read, unread)
    if findings is not None:
        for policy, (found, problems) in zip(chosen, entries, strict=True):
            findings.add(policy.name, kinds_judged(policy, found), problems)
    return tuple(found for found, _ in entries), errors


def _needs_archive(found: TableFreshness, state: TableState) -> bool:
    """Whether too few writes are on the active timeline to judge `data_latency`, and older ones are archived."""
    verdict, first = found.data_latency, min((one.requested for one in state.instants), default="")
    is_worth_it = verdict is not None and verdict.status == "unknown" and verdict.observed is not None
    return is_worth_it and state.first_instant < first


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
        with table_errors(policy):
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


def by_files_of_now(
    make: Callable[[], Observe], read_anew: Callable[[], None], warn: Callable[[Issue], None]
) -> Observe:
    """Looks at the tables by the project's files, which are read again each time.

    An error in these files is reported once; until it is gone the former ones are used.
    """
    look, is_read, said = make(), True, ""

    def observe() -> tuple[TableObservation, ...]:
        nonlocal look, is_read, said
        if not is_read:
            read_anew()
            try:
                look, said = make(), ""
            except EtcError as error:
                for issue in error.issues if str(error) != said else ():
                    warn(replace(issue, level="warning"))
                said = str(error)
        is_read = False
        return look()

    return observe


def table_histories(
    environment: Environment, policies: Iterable[Policy], target_dir: Path, warn: Callable[[Issue], None]
) -> PolicyHistories:
    """The history of each table; those that cannot be read have the reason."""
    runs = load_runs(target_dir, warn)
    read = partial(_history, environment, runs=runs)
    histories, errors = each_table(environment, policies, read, unread_history)
    return PolicyHistories(histories=histories).with_errors(errors)


def table_history(
    environment: Environment, policy: Policy, target_dir: Path, warn: Callable[[Issue], None]
) -> PolicyHistory:
    """The compactions of a policy's table from its own commits, with the checks of the runs that are kept here.

    Raises:
        EtcError: the table cannot be read; its report says so too.

    """
    try:
        with table_errors(policy):
            return _history(environment, policy, load_runs(target_dir, warn))
    except EtcError as error:
        error.report = unread_history(policy, error)
        raise


def _history(environment: Environment, policy: Policy, runs: RunFiles) -> PolicyHistory:
    log = environment.read_compactions(policy)
    record = DoneStore(log.base_path).known() if policy.done else None
    reopened = record.reopened if record else None
    return policy_history(policy, log, runs.files, tuple(str(issue) for issue in runs.issues), reopened)


def list_cuts(environment: Environment, policies: Iterable[Policy]) -> CutsReport:
    """The cuts of each table; one that cannot be read has the reason."""

    def read(policy: Policy) -> TableCuts:
        state, history = environment.read_table(policy, archived=None)[:2]
        cuts = published_cuts(promises_in(policy, history), environment.base_files(state))
        doubt = doubt_about(policy, state)
        return table_cuts(policy, state, cuts, (*retention_warning(policy, state), *([doubt] if doubt else [])))

    def unread(policy: Policy, error: EtcError) -> TableCuts:
        return TableCuts(policy=policy.name, base_path=policy.table, reason=error.with_cause)

    tables, errors = each_table(environment, policies, read, unread)
    return CutsReport(tables=tables).with_errors(errors)


def with_learned_latencies(environment: Environment, policies: Sequence[Policy], now_ms: int) -> tuple[Policy, ...]:
    """The policies, with the `data_latency` that the tables' histories had at `now_ms` where it is learned.

    It stays the longest that may be for a table that cannot be read, which the verb itself reports.
    """

    def learned(policy: Policy) -> Policy:
        if policy.learned_latency is None:
            return policy
        state, history = environment.read_table(policy, kept=True)[:2]
        promise = promise_of(policy, state)
        latency_ms, evidence = learn_latency(history, policy.learned_latency, now_ms)
        evidence = evidence.model_copy(update={"promised_ms": promise.threshold_ms if promise else None})
        return policy.model_copy(update={"data_latency_ms": latency_ms, "latency_evidence": evidence})

    if not any(policy.learned_latency for policy in policies):
        return tuple(policies)
    return each_table(environment, policies, learned, lambda policy, _: _at_most(policy))[0]


def _at_most(policy: Policy) -> Policy:
    if policy.learned_latency is None:
        return policy
    return policy.model_copy(update={"data_latency_ms": policy.learned_latency.at_most_ms, "latency_evidence": None})
