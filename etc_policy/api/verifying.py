"""Verifies tables by the suites of their policies: one that cannot be read does not stop the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from etc_policy.api.each_table import by_release, each_table, set_place
from etc_policy.errors import EngineError, EtcError, ExitCode, Issue, PolicyError, RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.plan.model import PUBLISHED, TablePlan
from etc_policy.plan.plan_warnings import column_warning
from etc_policy.plan.refusals import no_commit
from etc_policy.plan.rules import Damage, damage_of, why_unknown
from etc_policy.policy.files import read_suite
from etc_policy.policy.manifest import Level, Policy, VerifyLevel
from etc_policy.report.results import TableVerification, VerificationReport
from etc_policy.run.results import TableResult
from etc_policy.table.apply_state import ApplyState, ApplyStateStore, ComparedFiles, Proof
from etc_policy.table.formats import iso_time
from etc_policy.table.history import TableHistory, is_of_column, promise_of
from etc_policy.table.log_witness import NOT_THERE
from etc_policy.table.proofs import (
    Judgement,
    after_begin,
    after_log_reading,
    after_verdict,
    doubt_about,
    level_to_prove,
)
from etc_policy.table.state import CompactionRecord, TableState
from etc_policy.table.watermark import watermark_of
from etc_policy.verify.compared_rows import closed_partitions, listed_files, pin_of
from etc_policy.verify.evidence import Claim, Evidence, Listing
from etc_policy.verify.log_checks import LOGS
from etc_policy.verify.metadata_checks import KNOWN, PROMISE, always_checked, check_files
from etc_policy.verify.ports import (
    MOVED_ON,
    NO_TABLE,
    UNANSWERED,
    UNFIT,
    UNREADABLE,
    CheckStatus,
    ExpectationResult,
    Verification,
)
from etc_policy.verify.prover import (
    claim_in,
    claim_of,
    compare_partitions,
    files_compared,
    has_flawed_rows,
    has_not_run,
    has_read_logs,
    looked_at,
    on_promise,
    proof_level,
    record_of_run,
    row_faults,
    verdict_on_rows,
    verify_table,
)
from etc_policy.verify.suites import parse_suite, suite_issues
from etc_policy.wiring import Environment, clock_ms

#: How often a verification that could not read what it wanted is repeated on a table that has moved on.
REREADS = 2


def verify_tables(
    environment: Environment, policies: Iterable[Policy], now_ms: int, level: VerifyLevel | None = None
) -> VerificationReport:
    """The verdict over each table; of those that could not be read it is an `error`, which is also among the report's errors.

    `level` wins over the policies'. Log files that contradict their commits are errors besides.
    """
    by_name = {policy.name: policy for policy in policies}

    def read(policy: Policy) -> tuple[TableState, TableHistory]:
        return _read(environment, policy, level or policy.verify.level)

    def use(policy: Policy, reading: tuple[TableState, TableHistory]) -> TableVerification:
        return _verify(environment, policy, now_ms, level or policy.verify.level, reading)

    rows = any(Level[level or policy.verify.level].reads_rows for policy in by_name.values())
    jobs = 1 if rows else environment.jobs  # what was read long before the rows are would only have to be read again
    verified, errors = dict[str, TableVerification](), list[EtcError]()
    for group in by_release(environment, by_name.values()):
        found, failed = each_table(environment, group, read, partial(_unverified, level), use, jobs=jobs)
        verified |= {table.policy: table for table in found}
        errors += failed
    tables = tuple(verified[name] for name in by_name)
    wrong = (error for table in tables for error in wrong_times_errors(by_name[table.policy], table.verification))
    return VerificationReport(observed_at=iso_time(now_ms), tables=tables).with_errors((*errors, *wrong))


def _unverified(level: VerifyLevel | None, policy: Policy, error: EtcError) -> TableVerification:
    """The entry of a table that could not be read."""
    verification = broken_verification(
        level or policy.verify.level, None, error, expectation=_expectation_of(error, NO_TABLE)
    )
    return TableVerification(policy=policy.name, base_path=policy.table, verification=verification)


def read_for_proof(environment: Environment, policy: Policy, level: VerifyLevel) -> tuple[TableState, TableHistory]:
    """The table as it is now and its past, as a verification at the level needs them; what is wrong in commits is kept."""
    return _for_proof(environment, policy, _read(environment, policy, level))


def _read(environment: Environment, policy: Policy, level: VerifyLevel) -> tuple[TableState, TableHistory]:
    return environment.read_table(policy, all_logs=level != "metadata", notes_before=True)[:2]


def _for_proof(
    environment: Environment, policy: Policy, reading: tuple[TableState, TableHistory]
) -> tuple[TableState, TableHistory]:
    state, history = environment.with_statistics(policy, reading[0]), reading[1]
    note_misrecorded(policy, state, environment.apply_states)
    return state, history


def _verify(
    environment: Environment,
    policy: Policy,
    now_ms: int,
    level: VerifyLevel,
    reading: tuple[TableState, TableHistory],
) -> TableVerification:
    def evidence_of(state: TableState, history: TableHistory) -> Evidence:
        return gather_evidence(policy, state, history, claim_of(policy, state, now_ms), now_ms)

    def read_again() -> Evidence:
        return evidence_of(*read_for_proof(environment, policy, level))

    first = evidence_of(*_for_proof(environment, policy, reading))
    for said in column_warning(policy, first.state):
        environment.progress(f"{policy.name}: {said}")
    located = policy.model_copy(update={"table": first.state.base_path})
    verification, judged = verify_and_note(environment, located, first, level, read_again)
    return TableVerification(policy=policy.name, base_path=judged.state.base_path, verification=verification)


def verify_run(
    environment: Environment, policy: Policy, done: TableResult, table: TablePlan | None, now_ms: int
) -> tuple[Verification, int | None]:
    """The verdict over what a run did by the plan of a table, at the policy's level, and the table's watermark then.

    Where nothing was due and the last compaction is proved it is without rows. A run that was killed after its commit leaves a
    compaction that nobody has verified: the next run does.
    """
    store = environment.apply_states

    def read() -> tuple[TableState, Evidence | None]:
        state, history = read_for_proof(environment, policy, policy.verify.level)
        claim = claim_for(policy, done, table, state, history, now_ms)
        return state, gather_evidence(policy, state, history, claim, now_ms) if claim else None

    state, evidence = read()
    level = level_to_prove(policy, state, is_idle=done.status == "nothing_due")
    environment.progress(f"{policy.name}: verifying ({level})")
    begin_proof(policy, state, store)
    if evidence is None:
        verification = without_promise(done, level)
        note_verdict(policy, state, store, verification, level, None)
    else:
        verification, _ = verify_and_note(
            environment, policy, evidence, level, lambda: read()[1], but_partitions=compares_partitions(policy)
        )
    return verification, watermark_of(state, policy.longest_latency_ms).value_ms


def claim_for(
    policy: Policy, done: TableResult, plan: TablePlan | None, state: TableState, history: TableHistory, now_ms: int
) -> Claim | None:
    """What the table itself claims of a compaction that was done; None where it makes no such claim.

    What a `plan` found not to be due is claimed by the plan: the table's metadata must bear that out. Of a boundary that was
    published before it is what was claimed then: what came since is late data.
    """
    if done.threshold_ms is None or (plan is not None and plan.reason_code == PUBLISHED):
        return claim_of(policy, state, now_ms)
    if done.status == "nothing_due":
        seen_until = (plan.seen.last_completed if plan else None) or state.last_completed or ""
        return Claim(done.threshold_ms, seen_until, leaves_out=plan is not None and plan.left_out_though_due > 0)
    record = record_of_run(state, history, done.instant or "")
    if record is None or record.threshold_ms != done.threshold_ms:
        return None
    is_own = is_of_column(policy.event_time, record, state.column_since)
    return claim_in(record) if is_own else claim_of(policy, state, now_ms)


def gather_evidence(policy: Policy, state: TableState, history: TableHistory, claim: Claim, now_ms: int) -> Evidence:
    """What a claim is judged by; that files are missing or damaged is said once where the check of the files shows it."""
    evidence = Evidence(
        policy, state, history, claim, now_ms, no_commit(state) or why_unknown(policy, state, clock_ms())
    )
    of_files = evidence.unknown is not None and damage_of(evidence.unknown.code) == Damage.FILES
    return replace(evidence, unknown=None) if of_files and check_files(evidence).status == "fail" else evidence


def wrong_times_errors(policy: Policy, verification: Verification) -> tuple[EtcError, ...]:
    """What commits recorded too late of log files, as an error of its own; none where they did not."""
    found = next((one for one in verification.expectations if one.expectation == LOGS and one.status == "fail"), None)
    if found is None:
        return ()
    hint = f"`etc apply --select {policy.name}` takes the true times; `etc explain {Code.WRONG_EVENT_TIMES}` says more"
    message = f"commits of `{policy.name}` recorded wrong event times: {found.message}"
    error = EtcError(Code.WRONG_EVENT_TIMES, message, hint=hint)
    error.exit_code = ExitCode.FAILED
    set_place(error, policy)
    return (error,)


def require_verifiable(environment: Environment, policies: Sequence[Policy]) -> None:
    """Return if the suite of every policy can be read, and here is what its level needs.

    Raises:
        PolicyError: some suites cannot; carries all issues.
        EngineError: rows are to be verified, and Great Expectations is not installed.

    """
    issues: list[Issue] = []
    for policy in policies:
        try:
            suite_items(environment, policy)
        except PolicyError as error:
            issues.extend(error.issues)
    if issues:
        raise PolicyError(issues)
    if any(
        Level[policy.verify.level].reads_rows or (policy.done and policy.done.proof == "data") for policy in policies
    ):
        environment.require_data_verifier(policy.table for policy in policies)


def suite_items(environment: Environment, policy: Policy) -> tuple[dict[str, Any], ...]:
    """The expectations of the policy's suite, parameters not yet filled in.

    Raises:
        PolicyError: there is no such suite, or something in it is wrong; carries all of it.

    """
    path, text = read_suite(policy.verify.suite, environment.project_dir)
    errors = [issue for issue in suite_issues(text, path) if issue.level == "error"]
    if errors:
        raise PolicyError(errors)
    return parse_suite(text, path)


def verify_and_note(
    environment: Environment,
    policy: Policy,
    evidence: Evidence,
    level: VerifyLevel,
    read: Callable[[], Evidence | None],
    *,
    but_partitions: bool = False,
) -> tuple[Verification, Evidence]:
    """`verify`; what the verdict means for the last compaction is kept beside the policy's table.

    Of rows of partitions that are in doubt nothing is said with `but_partitions`, as these are compared later.

    Raises:
        TableError: its rows do not allow a verdict, which is kept too.

    """
    store = environment.apply_states
    try:
        verification, judged = verify(environment, evidence, level, read)
    except TableError as error:
        broken = broken_verification(level, evidence.claim.threshold_ms, error)
        note_verdict(policy, evidence.state, store, broken, level, None)
        raise
    kept = note_verdict(
        policy, judged.state, store, verification, level, judged.claim, files_compared(judged, verification)
    )
    if but_partitions:
        kept = replace(kept, unproven=tuple(one for one in kept.unproven if not one.is_of_partitions))
    return _with_doubt(verification, policy, replace(judged.state, apply_state=kept)), judged


def joined_verdict(found: Verification | None, of_partitions: Verification) -> Verification:
    """The verdict of a run whose comparison of partitions was not good: what was found before stays."""
    if found is None or found.status == "pass":
        return of_partitions
    status = max(found.status, of_partitions.status, key=("pass", "warn", "error", "fail").index)
    expectations = (*found.expectations, *of_partitions.expectations)
    return found.model_copy(update={"status": status, "expectations": expectations})


def compares_partitions(policy: Policy) -> bool:
    """Whether a run compares the rows of partitions before they are done."""
    return policy.done is not None and policy.done.proof == "data"


def _with_doubt(verification: Verification, policy: Policy, state: TableState) -> Verification:
    """The verdict; where it is good with a warning of what is in doubt all the same, as it did not look at that."""
    doubt = doubt_about(policy, state) if verdict_on_rows(verification) in ("pass", "warn") else None
    if doubt is None:
        return verification
    expectations = (in_doubt(f"{doubt}; this one did not look at that"), *verification.expectations)
    return verification.model_copy(update={"status": "warn", "expectations": expectations})


def in_doubt(message: str) -> ExpectationResult:
    """The warning that an earlier verification has found something, which stands."""
    return ExpectationResult(expectation=KNOWN, status="warn", message=message)


def begin_proof(policy: Policy, state: TableState, store: ApplyStateStore) -> None:
    """Note that the last compaction is not proven yet: a run that is killed while it verifies leaves it so."""
    if after_begin(state.apply_state, policy, state) != state.apply_state:
        store.update(policy.table, lambda kept: after_begin(kept, policy, state))


def note_verdict(
    policy: Policy,
    state: TableState,
    store: ApplyStateStore,
    verification: Verification,
    level: VerifyLevel,
    claim: Claim | None,
    files: ComparedFiles | None = None,
) -> ApplyState:
    """Keep what a verification of the table, as it was read, means for its last compaction, and for its completeness.

    One that could not run means nothing. Returns all that is kept then.
    """
    promise, faults = on_promise(verification), row_faults(verification)
    if has_not_run(promise):
        return store.read(policy.table)
    is_whole = not (Level[level].reads_rows and promise.not_checked)
    judgement = Judgement(
        level=level,
        status=promise.status if faults is None else "fail",
        failures=promise.failures,
        proof=_proof(promise, state, claim, clock_ms()),
        rows=looked_at(promise, level, claim, policy, state),
        faults=faults,
        covers=is_whole and _covers(claim, promise_of(policy, state)),
        files=files,
        rests=verification.rests_on is not None,
        is_flawed=has_flawed_rows(verification),
        is_blind=Level[promise.level].reads_rows and _hides_rows(state),
    )
    return store.update(policy.table, lambda kept: after_verdict(kept, policy, state, judgement))


def _covers(claim: Claim | None, record: CompactionRecord | None) -> bool:
    """Whether what was claimed reaches as far as the compaction promised, if it did in this event-time column."""
    return claim is not None and (record is None or claim.threshold_ms >= record.threshold_ms)


def _hides_rows(state: TableState) -> bool:
    """Whether rows are compared as of a write in flight that began before what the last compaction had seen."""
    record, pin = state.last_compaction, pin_of(state)
    return record is not None and pin is not None and pin < record.saw_until


def _proof(verification: Verification, state: TableState, claim: Claim | None, now_ms: int) -> Proof | None:
    """What a verification proves where it passed; None where it cannot say how far RO is complete.

    Late rows that RO lacks were not held against it: nobody knows whether they are still in log files. Rows are compared as of
    right before a write in flight, and no later ones: where the claim speaks of these, its rows prove nothing.
    """
    if claim is None or verification.threshold_ms is None:
        return None
    level = proof_level(verification)
    if Level[level].reads_rows and claim.seen_until > (pin_of(state) or ""):
        level = "logs" if has_read_logs(verification) else "metadata"
    seen_all = state.last_completed if has_read_logs(verification) and not verification.late_rows else None
    seen_until = seen_all or claim.seen_until
    open_since = min((one.requested for one in state.pending), default=seen_until) if seen_all else ""
    if Level[level].reads_rows:
        seen_until = min(seen_until, pin_of(state) or seen_until)
    return Proof(
        level=level,
        until_ms=claim.threshold_ms,
        proved_at_ms=now_ms,
        seen_until=seen_until,
        open_since=open_since,
        rests_on_ms=verification.rests_on.oldest_ms if verification.rests_on is not None else None,
    )


def note_misrecorded(policy: Policy, state: TableState, store: ApplyStateStore) -> None:
    """Keep which log files hold earlier events than recorded, of those that could be read; the others stay as they were."""
    if after_log_reading(state.apply_state, policy, state) != state.apply_state:
        store.update(state.base_path, lambda kept: after_log_reading(kept, policy, state))


def verify(
    environment: Environment, evidence: Evidence, level: VerifyLevel, read: Callable[[], Evidence | None]
) -> tuple[Verification, Evidence]:
    """The verdict over one table, and what it is about; an engine that fails is an `error`, neither success nor failed data.

    A table that moves on while it is read is read anew, a few times, where that spoils the verdict: where its cleaner may
    have removed what was being read, and where a writer in flight forbids to read both views as of one instant.
    """
    suite = suite_items(environment, evidence.policy)
    for _ in range(1 + REREADS):
        evidence = _with_listing(environment, evidence, level)
        verification = _verify_once(environment, evidence, suite, level)
        pinned = not Level[verification.level].reads_rows or pin_of(evidence.state) is not None
        lost = any(one.why == NOT_THERE for one in evidence.state.witnesses or ())
        if pinned and verification.status != "error" and not lost:
            return verification, evidence
        later = read()
        if later is None or later.state.last_completed == evidence.state.last_completed:
            return verification, evidence
        environment.progress(f"{evidence.policy.name}: the table changed while it was read")
        before, evidence = evidence, later
    if verification.status == "error":
        return verification, before
    hint = "verify again between two commits"
    error = EngineError(Code.TABLE_MOVED_ON, "the table changed each time that its rows were compared", hint=hint)
    return _without_rows(evidence, level, error, MOVED_ON), evidence


def _with_listing(environment: Environment, evidence: Evidence, level: VerifyLevel) -> Evidence:
    """The evidence with what the files of partitions without log files are, right before all rows are to be compared."""
    verify, state = evidence.policy.verify, evidence.state
    if level != "data" or evidence.ends or verify.where is not None or verify.window_ms is not None:
        return evidence
    at_ms, closed = clock_ms(), closed_partitions(state, pin_of(state))
    files = listed_files(state, environment.file_versions(state, closed))
    return replace(evidence, listing=Listing(files, at_ms)) if files else evidence


def _verify_once(
    environment: Environment, evidence: Evidence, suite: Sequence[Mapping[str, Any]], level: VerifyLevel
) -> Verification:
    try:
        if evidence.ends:
            return compare_partitions(evidence, environment.data_verifier())
        return verify_table(evidence, suite, level, environment.data_verifier, environment.running_verifier())
    except (EngineError, RetryableError) as error:
        return _without_rows(evidence, level, error, _expectation_of(error))


def _expectation_of(error: EtcError, otherwise: str = UNREADABLE) -> str:
    if isinstance(error, PolicyError):
        return UNFIT
    return UNANSWERED if isinstance(error, RetryableError) else otherwise


def _without_rows(evidence: Evidence, level: VerifyLevel, error: EtcError, expectation: str) -> Verification:
    """The verdict where no row could be read: what metadata proves, and where that shows what is broken it is a failure."""
    broken = broken_verification(level, evidence.claim.threshold_ms, error, expectation=expectation)
    proved = () if evidence.ends else always_checked(evidence)
    status: CheckStatus = "fail" if any(one.status == "fail" for one in proved) else "error"
    return broken.model_copy(update={"status": status, "expectations": (*proved, *broken.expectations)})


def broken_verification(
    level: VerifyLevel, threshold_ms: int | None, error: EtcError, *, expectation: str | None = None
) -> Verification:
    """The verdict where nothing could be checked: an error, neither success nor failed data."""
    cause = f": {' '.join(error.cause.split())}" if error.cause else ""
    hint = f" ({error.hint})" if error.hint else ""
    said = "; ".join(issue.message for issue in error.issues)
    message = f"{said}{cause}{hint}"
    name = expectation or _expectation_of(error)
    broken = ExpectationResult(expectation=name, status="error", message=message, error_code=error.code)
    return Verification(level=level, status="error", threshold_ms=threshold_ms, expectations=(broken,))


def without_promise(done: TableResult, level: VerifyLevel) -> Verification:
    """The verdict where the run says that it compacted, and the table does not say so."""
    message = f"no compaction at {done.instant} with this threshold is on the table's timeline"
    failed = ExpectationResult(expectation=PROMISE, status="fail", message=message)
    return Verification(level=level, status="fail", threshold_ms=done.threshold_ms, expectations=(failed,))
