"""Proves what RO holds from the table itself, re-read; nothing is taken from the run that is being judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from etc_policy.errors.lacking import is_about_data
from etc_policy.policy.manifest import Level, Policy, Sample, Verify, VerifyLevel, digest
from etc_policy.table.apply_state import ComparedFiles, Looked, Proof
from etc_policy.table.formats import count_of
from etc_policy.table.history import TableHistory, promise_of
from etc_policy.table.instants import add_ms, instant_to_ms
from etc_policy.table.proofs import compared_before, compared_subject, last_write, look_back_to
from etc_policy.table.state import CompactionRecord, TableState
from etc_policy.table.watermark import completeness_of
from etc_policy.verify.catalog import AS_OF, FRESHNESS, HIDDEN_BY_LATER, OWN, VIEWS_AGREE, WAITING, offered, source_of
from etc_policy.verify.compared_rows import (
    choose_file_groups,
    is_by_record,
    may_rest,
    merged_whole,
    other_partitions,
    pin_of,
    seed_of,
    spared_files,
    waiting_writes,
    why_no_cut,
)
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.freshness import completeness_lag_ms, has_limits
from etc_policy.verify.log_checks import LOGS, is_proven_by_logs
from etc_policy.verify.metadata_checks import (
    INDEXES,
    KNOWN,
    LISTING,
    always_checked,
    check_bundle,
    check_indexes,
    check_listing,
    check_metadata,
    is_wanted,
)
from etc_policy.verify.ports import (
    MOVED_ON,
    UNANSWERED,
    CheckStatus,
    Coverage,
    DataCheck,
    DataVerifier,
    ExpectationResult,
    RestsOn,
    UncheckedExpectation,
    Verification,
)
from etc_policy.verify.suites import SuiteExpectation, bind_suite, suite_parameters

#: What the rows of a partition are checked by, whatever the policy's suite has.
_ROW_CHECKS = tuple({"type": name} for name, one in OWN.items() if one.source == "rows" and name != AS_OF)
#: What only rows show, whatever they are checked by: the same as far as a doubt about it goes.
_OF_ROWS = frozenset({LISTING, INDEXES, *(name for name, one in OWN.items() if one.source == "rows")})
#: How far the views were compared, in what was observed.
_UP_TO = "threshold_ms"


def claim_of(policy: Policy, state: TableState, now_ms: int) -> Claim:
    """The claim that the table itself carries: its last compaction's threshold, else what its watermark promises."""
    record = promise_of(policy, state)
    if record is not None:
        return claim_in(record)
    return Claim(completeness_of(state, policy, now_ms).until_ms, state.last_completed or "", leaves_out=True)


def record_of_run(state: TableState, history: TableHistory, instant: str) -> CompactionRecord | None:
    """What the compaction at `instant` left on the table; None where the table knows of no such promise."""
    records = [*history.runs, *([state.last_compaction] if state.last_compaction else [])]
    return next((record for record in records if record.instant == instant), None)


def claim_in(record: CompactionRecord) -> Claim:
    """What a compaction claims by its record."""
    return Claim(record.threshold_ms, record.saw_until, leaves_out=record.left_out > 0)


def verify_table(
    evidence: Evidence,
    suite: Sequence[Mapping[str, Any]],
    level: VerifyLevel,
    data_verifier: Callable[[], DataVerifier],
    running: DataVerifier | None = None,
) -> Verification:
    """The verdict over one table; `data_verifier` is asked for only where the suite and the level need rows.

    One that is `running` anyway looks at the indexes at level `logs` too.

    Raises:
        PolicyError: the suite does not fit the table.
        EngineError: the data could not be read at all.

    """
    evidence = replace(evidence, proof=_proof_to_be(evidence, suite, level))
    request = _data_check(evidence, suite, level)
    bound = [item for item in bind_suite(suite, suite_parameters(request)) if is_wanted(item, evidence.policy.writer)]
    found = {
        place: check_metadata(item, evidence) for place, item in enumerate(bound) if source_of(item.type) == "metadata"
    }
    with_rows = [place for place in range(len(bound)) if place not in found]
    if Level[level].reads_rows and (why := why_no_cut(evidence.state)):
        message = f"RO was not compared with the table as of T: {why}"
        not_compared = ExpectationResult(expectation=AS_OF, status="warn", message=message)
        found |= {place: not_compared for place in with_rows if bound[place].type == AS_OF}
        with_rows = [place for place in with_rows if place not in found]
    listing: tuple[ExpectationResult, ...] = ()
    if Level[level].reads_rows and with_rows and evidence.state.last_completed is not None:
        verifier = data_verifier()
        listing = _listing(evidence.state, verifier)
        if verdict_over(listing) == "pass":
            coverage = _coverage(request, evidence)
            return _by_rows(evidence, level, coverage, dict(enumerate(bound)), found, verifier, listing)
    elif level == "logs" and running is not None:
        listing = _indexes(evidence.state, running)
    unchecked = tuple(
        UncheckedExpectation(expectation=item.type, arguments=tuple(sorted(item.kwargs)))
        for item in (bound[place] for place in with_rows)
    )
    reached: VerifyLevel = "logs" if is_proven_by_logs(evidence) else "metadata"
    return _verification(evidence, reached, found, listing, unchecked=unchecked)


def _proof_to_be(evidence: Evidence, suite: Sequence[Mapping[str, Any]], level: VerifyLevel) -> Proof | None:
    """What the verification proves if it passes, where a policy wants proof: else nothing could ever be the first to pass."""
    if evidence.policy.freshness.proof is None:
        return None
    request = _data_check(evidence, suite, level)
    until_ms, pin = request.threshold_ms, request.pinned_instant or ""
    bound = [one for one in bind_suite(suite, suite_parameters(request)) if one.type == VIEWS_AGREE]
    is_compared = any(one.kwargs.get(_UP_TO, until_ms) >= until_ms for one in bound)
    is_seen = evidence.claim.seen_until <= pin and _coverage(request, evidence) is None
    by_rows = level == "data" and is_compared and is_seen
    reached: VerifyLevel = "data" if by_rows else "logs" if is_proven_by_logs(evidence) else "metadata"
    return Proof(level=reached, until_ms=until_ms, proved_at_ms=evidence.now_ms)


def _by_rows(
    evidence: Evidence,
    level: VerifyLevel,
    coverage: Coverage | None,
    bound: Mapping[int, SuiteExpectation],
    found: Mapping[int, ExpectationResult],
    verifier: DataVerifier,
    listing: tuple[ExpectationResult, ...],
) -> Verification:
    """The verdict with what rows say of the expectations for which nothing is `found` yet."""
    chosen = {place: one for place, one in bound.items() if place not in found}
    release = verifier.release or "unknown"
    changed, rests_on = _changed_since(evidence, list(chosen.values()), level, verifier)
    partitions = None if rests_on is None else frozenset(one.partition for one in changed.state.slices)
    asked = _data_check(changed, tuple(one.model_dump() for one in chosen.values()), level, partitions)
    late_rows, results = verifier.check(asked)
    judged = {place: _judged(one, chosen[place], evidence.claim) for place, one in zip(chosen, results, strict=True)}
    listing += _indexes(evidence.state, verifier, asked, changed.state) + tuple(check_bundle(evidence, release))
    proved = _verification(evidence, level, {**found, **judged}, listing, late_rows, coverage, read_by=release)
    return proved.model_copy(update={"rests_on": rests_on})


def compared_since(evidence: Evidence, release: str) -> dict[str, int]:
    """The partitions whose rows were compared before, of the same files and with all else alike, and when."""
    listing = evidence.listing
    if listing is None:
        return {}
    return compared_before(evidence.policy, evidence.state, release, listing.files, listing.at_ms)


def _changed_since(
    evidence: Evidence, suite: Sequence[SuiteExpectation], level: VerifyLevel, verifier: DataVerifier
) -> tuple[Evidence, RestsOn | None]:
    """The evidence without the partitions that were compared before, and those comparisons; all of it if there are none."""
    kept, listing = evidence.state.apply_state.compared_files, evidence.listing
    before = compared_since(evidence, verifier.release or "unknown")
    if not before or kept is None or listing is None or not may_rest(suite, evidence.policy.writer, kept.latest_ms):
        return evidence, None
    slices = tuple(one for one in evidence.state.slices if one.partition not in before)
    changed = replace(evidence, state=replace(evidence.state, slices=slices))
    asked = _data_check(changed, (), level, frozenset(one.partition for one in slices))
    if not verifier.finds_partitions(asked, changed.state):
        return evidence, None
    oldest_ms = min(before.values())
    return changed, RestsOn(
        file_groups=len(evidence.state.slices),
        file_groups_compared=len(slices),
        oldest_ms=oldest_ms,
        oldest_ago_ms=max(0, listing.at_ms - oldest_ms),
    )


def compare_partitions(evidence: Evidence, verifier: DataVerifier) -> Verification:
    """The verdict over the rows of the partitions that the evidence is about, each up to its end.

    Raises:
        EngineError: the data could not be read at all.

    """
    bound = bind_suite(_ROW_CHECKS, {})
    checks = tuple(one.model_dump() for one in bound if is_wanted(one, evidence.policy.writer))
    results = _listing(evidence.state, verifier)
    if verdict_over(results) == "pass":
        results += verifier.check(_data_check(evidence, checks, "data"))[1]
    status = verdict_over(results)
    return Verification(level="data", status=status, threshold_ms=evidence.claim.threshold_ms, expectations=results)


def _judged(result: ExpectationResult, item: SuiteExpectation, claim: Claim) -> ExpectationResult:
    """The result, with the threshold up to which the views were compared: a suite may name another than the claim's.

    What is said of one that passed makes it a warning.
    """
    if result.status == "pass" and (message := _said_of(result)):
        return result.model_copy(update={"status": "warn", "message": message})
    if item.type != VIEWS_AGREE:
        return result
    compared_until_ms = item.kwargs.get(_UP_TO, claim.threshold_ms)
    return result.model_copy(update={"observed": {**result.observed, _UP_TO: compared_until_ms}})


def _said_of(result: ExpectationResult) -> str | None:
    """What is no fault, and has to be said: rows that hide others in RO as of T, and those that wait for others."""
    if hidden := result.observed.get(HIDDEN_BY_LATER):
        rows, have = count_of(hidden, "row"), "has" if hidden == 1 else "have"
        return f"{rows} up to T {have} a later row of the same key, which a base file had before the compaction"
    if waiting := result.observed.get(WAITING):
        rows, come = count_of(waiting, "row"), "comes" if waiting == 1 else "come"
        return f"{rows} without an event time {come} into RO once T has passed the rest of the log file"
    return None


def _listing(state: TableState, verifier: DataVerifier) -> tuple[ExpectationResult, ...]:
    """The check of the metadata table's listing, where there is one: rows that readers do not find need not be compared."""
    if "files" not in state.metadata_partitions:
        return ()
    return (check_listing(verifier.wrongly_listed(state)),)


def _indexes(
    state: TableState, verifier: DataVerifier, request: DataCheck | None = None, compared: TableState | None = None
) -> tuple[ExpectationResult, ...]:
    """The check of the metadata table's indexes, where it has some; with a request, rows it compares are asked for by them."""
    if set(state.metadata_partitions) <= {"files"}:
        return ()
    wrong = verifier.wrongly_indexed(state)
    missed = () if request is None else verifier.missed_by_indexes(request, compared or state)
    return (check_indexes((*wrong, *missed)),)


def _verification(
    evidence: Evidence,
    level: VerifyLevel,
    found: Mapping[int, ExpectationResult],
    listing: tuple[ExpectationResult, ...],
    late_rows: int | None = None,
    coverage: Coverage | None = None,
    unchecked: tuple[UncheckedExpectation, ...] = (),
    read_by: str | None = None,
) -> Verification:
    results = tuple(found[place] for place in sorted(found))
    rows_read = {one.expectation for one in results if one.expectation != VIEWS_AGREE and one.status != "error"}
    if views_agree(results, evidence.claim.threshold_ms):
        rows_read.add(VIEWS_AGREE)
    always = always_checked(evidence, rows_read if coverage is None else frozenset())
    expectations = (*always, *listing, *results)
    is_judged = has_limits(evidence.policy.freshness) or any(one.expectation == FRESHNESS for one in results)
    return Verification(
        level=level,
        status=verdict_over(expectations),
        threshold_ms=None
        if evidence.unknown and evidence.state.last_compaction is None
        else evidence.claim.threshold_ms,
        late_rows=late_rows,
        coverage=coverage,
        read_by=read_by,
        expectations=expectations,
        not_checked=tuple(dict.fromkeys(one.expectation for one in unchecked)),
        unchecked=unchecked,
        unjudged_lag_ms=None if is_judged else completeness_lag_ms(evidence.now_ms, evidence.complete_until_ms),
    )


def _data_check(
    evidence: Evidence,
    suite: Sequence[Mapping[str, Any]],
    level: VerifyLevel,
    partitions: frozenset[str] | None = None,
) -> DataCheck:
    policy, state, claim = evidence.policy, evidence.state, evidence.claim
    chosen = choose_file_groups(state, policy.verify, evidence.now_ms) if level == "sample" else None
    window_ms, pin = policy.verify.window_ms, pin_of(state)
    same = frozenset[str]() if level == "sample" or policy.verify.full else spared_files(state, pin)
    return DataCheck(
        policy=policy,
        base_path=state.base_path,
        suite=tuple(dict(item) for item in suite),
        threshold_ms=claim.threshold_ms,
        now_ms=evidence.now_ms,
        complete_until_ms=evidence.complete_until_ms,
        pinned_instant=pin,
        partition_fields=state.partition_fields,
        time_partition_fields=state.time_partition_fields,
        late_commits=frozenset(
            one.requested
            for one in (*evidence.history.archived_instants, *state.instants)
            if one.completed is None or one.completed > claim.seen_until
        ),
        seen_until=claim.seen_until,
        open_groups=frozenset(s.group for s in state.slices if s.log_files),
        base_files=frozenset(s.base_file for s in state.slices if s.base_file is not None),
        watermark_ms=evidence.watermark_ms,
        last_commit_ms=instant_to_ms(state.last_completed, evidence.zone) if state.last_completed else None,
        event_time_type=state.event_time_type,
        file_ids=chosen,
        since_ms=None if window_ms is None else look_back_to(policy, state, claim.threshold_ms - window_ms),
        same_files=same,
        other_partitions=other_partitions(state, same),
        base_bytes=sum(one.base_file_bytes for one in state.slices),
        before_etc=add_ms(state.last_compaction.instant, -1) if state.last_compaction else None,
        merged_whole=merged_whole(state, evidence.history),
        waiting=frozenset() if evidence.ends else waiting_writes(state, claim.threshold_ms),
        ends=evidence.ends,
        partitions=partitions,
    )


def _coverage(request: DataCheck, evidence: Evidence) -> Coverage | None:
    """What was looked at, None where it was everything."""
    verify, slices = request.policy.verify, evidence.state.slices
    if request.file_ids is None and request.since_ms is None and verify.where is None:
        return None
    return Coverage(
        file_groups=len(slices),
        file_groups_read=sum(request.file_ids is None or one.file_id in request.file_ids for one in slices),
        seed=None if request.file_ids is None else seed_of(verify, evidence.now_ms),
        since_ms=request.since_ms,
        where=verify.where,
    )


def proof_level(verification: Verification) -> VerifyLevel:
    """The level that a verification proves completeness at: rows count only where both views were found to agree."""
    agree = views_agree(verification.expectations, verification.threshold_ms)
    if verification.level == "data" and agree and verification.coverage is None:
        return "data"
    if not has_read_logs(verification):
        return "metadata"
    return "sample" if Level[verification.level].reads_rows and agree else "logs"


def files_compared(evidence: Evidence, verification: Verification) -> ComparedFiles | None:
    """What the next one may rest on: the files of partitions without log files, where no row was found at fault."""
    listing, release = evidence.listing, verification.read_by
    if listing is None or release is None or proof_level(verification) != "data" or has_flawed_rows(verification):
        return None
    state, kept = evidence.state, evidence.state.apply_state.compared_files
    rested = kept if verification.rests_on is not None else None
    before = compared_since(evidence, release) if rested is not None else {}
    bounds = (one.observed.get("none_after_ms") for one in verification.expectations)
    return ComparedFiles(
        subject=compared_subject(evidence.policy, state, release),
        full_ms=listing.at_ms if rested is None else rested.full_ms,
        last_write=last_write(state),
        latest_ms=min((one for one in bounds if one is not None), default=None),
        partitions={name: (files, before.get(name, listing.at_ms)) for name, files in listing.files.items()},
    )


def has_flawed_rows(verification: Verification) -> bool:
    """Whether one of etc's own checks of rows found something, however lightly the suite takes it."""
    own = (one for one in verification.expectations if one.expectation in OWN and source_of(one.expectation) == "rows")
    return any(one.status in ("fail", "warn") for one in own)


def has_read_logs(verification: Verification) -> bool:
    """Whether the bytes of every log file were read, and hold what commits say."""
    logs = next((one for one in verification.expectations if one.expectation == LOGS), None)
    return logs is not None and logs.status != "fail" and not logs.observed.get("log_files_unproven")


def views_agree(results: Iterable[ExpectationResult], threshold_ms: int | None) -> bool:
    """Whether both views were compared up to the threshold, all rows or those of a part, and nothing was missing."""
    found = (one for one in results if one.expectation == VIEWS_AGREE and one.status == "pass")
    return threshold_ms is not None and any(one.observed.get(_UP_TO, threshold_ms - 1) >= threshold_ms for one in found)


def lacks_rows(verification: Verification) -> bool:
    """Whether RO was found to lack rows that it promises, though the suite only warns of it or could not check something else."""
    limit, ways = verification.threshold_ms, ("fail", "warn")
    found = (one for one in verification.expectations if one.expectation == VIEWS_AGREE and one.status in ways)
    return limit is not None and any(one.observed.get(_UP_TO, limit) <= limit for one in found)


def looked_at(
    verification: Verification, level: VerifyLevel, claim: Claim | None, policy: Policy, state: TableState
) -> Looked:
    """What of the rows a verification of a level looked at, and which checks of them passed, or have nothing to look at.

    A write in flight hides rows of those that have completed since it began.
    """
    coverage = verification.coverage
    return Looked(
        level=level if verification.status in ("fail", "error") else verification.level,
        until_ms=_compared_until_ms(verification, claim),
        since_ms=coverage.since_ms if coverage is not None else None,
        where=coverage.where if coverage is not None else None,
        sample=_sampled(coverage, policy.verify, state) if level == "sample" else None,
        checks=tuple(sorted(_passed(verification) | _without_object(policy, state))),
        seen_until=min(claim.seen_until, pin_of(state) or claim.seen_until) if claim is not None else "",
    )


def _sampled(coverage: Coverage | None, verify: Verify, state: TableState) -> str:
    """What is the same where the same file groups were read: those of a seed are others once some have come or gone."""
    sample = verify.sample or Sample()
    seed = sample.seed if coverage is None or coverage.seed is None else coverage.seed
    if seed is None:
        return f"{sample.share} None"
    chosen = choose_file_groups(state, Verify(sample=sample.model_copy(update={"seed": seed})), 0)
    return f"{sample.share} {seed} {digest(sorted(chosen))}"


def _compared_until_ms(verification: Verification, claim: Claim | None) -> int:
    """How far both views were compared: a suite may go beyond the claim, and find there what RO lacks."""
    ways = ("fail", "warn") if verification.status in ("fail", "error") else ("pass",)
    found = [one for one in verification.expectations if one.expectation == VIEWS_AGREE and one.status in ways]
    return max((claim.threshold_ms if claim else 0, *(int(one.observed.get(_UP_TO, 0)) for one in found)))


def _passed(verification: Verification) -> set[str]:
    """The checks of rows that passed; that both views agree only where they were compared up to the threshold."""
    found = {
        one.expectation
        for one in verification.expectations
        if one.status == "pass" or (one.status == "warn" and one.message and one.message == _said_of(one))
    }
    agree = views_agree(verification.expectations, verification.threshold_ms)
    return {name for name in found & _OF_ROWS if name != VIEWS_AGREE or agree}


def _without_object(policy: Policy, state: TableState) -> set[str]:
    """The checks of rows for which a table has nothing that could fail them."""
    found = {name for name in _OF_ROWS & OWN.keys() if not is_wanted(SuiteExpectation(type=name), policy.writer)}
    if state.last_compaction is None or not is_by_record(state.last_compaction):
        found.add(AS_OF)
    if "files" not in state.metadata_partitions:
        found.add(LISTING)
    return found | ({INDEXES} if set(state.metadata_partitions) <= {"files"} else set())


def row_faults(verification: Verification) -> tuple[str, ...] | None:
    """Which checks of rows failed, those of a suite's own not among them; None where metadata shows all that is wrong."""
    failed = {one.expectation for one in verification.expectations if one.status == "fail"}
    failed |= {VIEWS_AGREE} if lacks_rows(verification) else set()
    failed &= _OF_ROWS | {name for name, one in offered().items() if one.source == "great_expectations"}
    return tuple(sorted(failed & _OF_ROWS)) if failed else None


def verdict_on_rows(verification: Verification) -> CheckStatus:
    """The verdict; a failure where RO lacks rows that it promises, however lightly the suite takes them.

    Also where something else could not be checked.
    """
    return "fail" if lacks_rows(verification) else verification.status


def on_promise(verification: Verification) -> Verification:
    """The verdict on what the compaction promised: that RO is too old by now is no failure of it, nor that nobody knows now.

    Rows that it lacks are, however lightly the suite takes them, and whatever else could not be checked.
    """
    if lacks_rows(verification):
        return verification.model_copy(update={"status": "fail"})
    others = [one for one in verification.expectations if one.expectation not in (FRESHNESS, KNOWN)]
    failed = {one.expectation for one in verification.expectations if one.status in ("fail", "error")}
    is_old = verification.status == "fail" and failed == {FRESHNESS}
    is_unknown = KNOWN in failed and verdict_over(others) in ("pass", "warn")
    is_of_now = is_old or is_unknown
    return verification.model_copy(update={"status": "warn"}) if is_of_now else verification


def has_not_run(verification: Verification) -> bool:
    """Whether it ended without a verdict for a reason outside of the table: no Java, no keys, no memory or no answer."""
    failed = (one for one in verification.expectations if one.status in ("fail", "error"))
    found = [one for one in failed if one.expectation not in (FRESHNESS, KNOWN)]
    return bool(found) and not any(one.status == "fail" or _is_about_data(one) for one in found)


def _is_about_data(result: ExpectationResult) -> bool:
    is_asked = result.expectation not in (UNANSWERED, MOVED_ON)
    return is_asked and is_about_data(result.error_code, result.message)


def verdict_over(expectations: Sequence[ExpectationResult]) -> CheckStatus:
    """The verdict over all results: what could not be checked first, then what failed, then warnings."""
    found = {expectation.status for expectation in expectations}
    for status in ("error", "fail", "warn"):
        if status in found:
            return status
    return "pass"
