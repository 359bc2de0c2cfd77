"""Which compaction of a table was verified, and which was not: kept beside the table, and said by the next plan
and by the verdict on freshness.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from etc_policy.plan.model import PUBLISHED, TablePlan
from etc_policy.policy.manifest import Level, Policy, VerifyLevel, digest
from etc_policy.run.results import TableResult
from etc_policy.table.apply_state import ApplyState, ApplyStateStore, Proof, Proofs, Unproven, with_proof
from etc_policy.table.formats import count_of, format_time, iso_time
from etc_policy.table.history import TableHistory, event_time_key, is_of_column, promise_of, subject_key
from etc_policy.table.log_witness import in_words, misrecorded_in, of_event_time, still_there
from etc_policy.table.partitions import PartitionsFreshness, partitions_freshness
from etc_policy.table.state import CompactionRecord, TableState
from etc_policy.wiring import clock_ms

if TYPE_CHECKING:
    from etc_policy.report.results import TableFreshness
    from etc_policy.report.sync import Verdict
    from etc_policy.verify.evidence import Claim
    from etc_policy.verify.ports import Verification

_GRAVEST = ("fail", "error", "running")
_NOT_ENDED = "its verification was begun and has not ended"


def is_proven(policy: Policy, state: TableState, kept: ApplyState) -> bool:
    """Whether nothing is left to prove: a run that was killed after its commit leaves a compaction nobody has verified."""
    if state.last_compaction is None:
        return _doubt_of(kept, policy, state) is None
    return kept.verified == _proof_of(policy, state)


def level_to_prove(policy: Policy, state: TableState, *, is_idle: bool) -> VerifyLevel:
    """The policy's level; where nothing was due and the last compaction is proven, no more than log files are read.

    More only where freshness is to be proved by more: else it would never get any further.
    """
    declared = policy.verify.level
    if not is_idle or not is_proven(policy, state, state.apply_state):
        return declared
    return min(declared, policy.freshness.proof or "logs", key=lambda name: Level[name])


def begin_proof(policy: Policy, state: TableState, store: ApplyStateStore) -> None:
    """Note that the last compaction is not proven yet: a run that is killed while it verifies leaves it so.

    That a verification of it has failed stays until one has passed.
    """
    record = state.last_compaction

    def begun(kept: ApplyState) -> ApplyState:
        if record is None or is_proven(policy, state, kept) or _is_of_later(kept, state):
            return kept
        own = _own(kept, policy, state)
        if any(one.verification == "fail" and _is_about(one, record) for one in own):
            return kept
        return _with_doubt(kept, policy, state, Unproven(_name_of(record), _NOT_ENDED, "running"))

    if begun(state.apply_state) != state.apply_state:
        store.update(policy.table, begun)


def note_verdict(
    policy: Policy,
    state: TableState,
    store: ApplyStateStore,
    verification: Verification,
    level: VerifyLevel,
    claim: Claim | None,
) -> None:
    """Keep what a verification of the table, as it was read, means for its last compaction, and for its completeness.

    What another process has kept meanwhile of a later compaction stays.
    """
    from etc_policy.verify.prover import lacks_rows, on_promise

    record, promise, now_ms = state.last_compaction, on_promise(verification), clock_ms()
    is_whole = not (Level[level].reads_rows and promise.not_checked)
    covered = is_whole and _covers(claim, promise_of(policy, state))

    def judged(kept: ApplyState) -> ApplyState:
        if _is_of_later(kept, state):
            return kept
        kept = replace(kept, proofs=_proofs_after(kept, policy, state, promise, claim, now_ms))
        missing_at = next((one.level for one in _own(kept, policy, state) if one.level is not None), None)
        if promise.status in ("fail", "error"):
            found_at = _found_again_at(policy, level, missing_at) if lacks_rows(promise) else None
            if found_at is None and record is None:
                return kept  # without a compaction it shows in metadata
            if found_at is None and missing_at is not None:
                return replace(kept, verified=None)
            unproven = Unproven(_name_of(record), _why(promise), promise.status, found_at)
            return _with_doubt(kept, policy, state, unproven)
        if not covered:
            return kept
        kept = _with_pass(kept, policy, state, promise, level)
        if level != policy.verify.level or any(one.level is not None for one in _doubts(kept, policy, state)):
            return kept
        return replace(kept, verified=_proof_of(policy, state) if record is not None else None)

    store.update(policy.table, judged)


def _with_doubt(kept: ApplyState, policy: Policy, state: TableState, new: Unproven) -> ApplyState:
    """Of each event time one doubt is kept, less what is about an earlier compaction alone."""
    key = event_time_key(policy.event_time, state)
    others = (one for one in kept.unproven if not one.is_of(key) and _is_about(one, state.last_compaction))
    return replace(kept, verified=None, unproven=(*others, replace(new, event_time=key)))


def _with_pass(
    kept: ApplyState, policy: Policy, state: TableState, verification: Verification, level: VerifyLevel
) -> ApplyState:
    """Without the doubts that a verification takes back; those of another event time stay, for that one."""
    key = event_time_key(policy.event_time, state)

    def is_settled(one: Unproven) -> bool:
        if one.level is None:
            return level == policy.verify.level
        return _takes_back(verification, level, one.level)

    def after(one: Unproven) -> Unproven | None:
        if key in one.passed or not is_settled(one):
            return one
        return None if one.is_of(key) else replace(one, passed=(*one.passed, key))

    return replace(kept, unproven=tuple(filter(None, map(after, kept.unproven))))


def _takes_back(verification: Verification, level: VerifyLevel, missing_at: VerifyLevel) -> bool:
    """Whether a verification that passed has looked for the rows that were found missing at a level."""
    from etc_policy.verify.prover import views_agree

    agree = views_agree(verification.expectations, verification.threshold_ms)
    has_compared = not Level[missing_at].reads_rows or agree
    return Level[level] >= Level[missing_at] and has_compared


def _found_again_at(policy: Policy, level: VerifyLevel, before: VerifyLevel | None) -> VerifyLevel:
    """The level at which rows that are missing are found again, those before too: another sample may not have them."""
    is_random = level == "sample" and (policy.verify.sample is None or policy.verify.sample.seed is None)
    return max("data" if is_random else level, before or "metadata", key=lambda name: Level[name])


def _covers(claim: Claim | None, record: CompactionRecord | None) -> bool:
    """Whether what was claimed reaches as far as the compaction promised, if it did in this event-time column."""
    return claim is not None and (record is None or claim.threshold_ms >= record.threshold_ms)


def _proofs_after(
    kept: ApplyState, policy: Policy, state: TableState, verification: Verification, claim: Claim | None, now_ms: int
) -> Proofs | None:
    """A verification that passed is a proof, one that failed disproves all; one that was not possible changes nothing."""
    from etc_policy.verify.prover import has_read_logs, proof_level

    subject = _subject_of(policy, state)
    if verification.status == "fail":
        return Proofs(subject, ())
    if verification.status == "error" or claim is None or verification.threshold_ms is None:
        return kept.proofs
    seen_until = state.last_completed if has_read_logs(verification) else None
    proof = Proof(
        level=proof_level(verification),
        until_ms=claim.threshold_ms,
        proved_at_ms=now_ms,
        seen_until=seen_until or claim.seen_until,
        open_since=min((one.requested for one in state.pending), default=seen_until) if seen_until else "",
    )
    return Proofs(subject, with_proof(kept.proofs_of(subject), proof))


def proofs_of(policy: Policy, state: TableState) -> tuple[Proof, ...]:
    """The proofs that are kept of the table's last compaction, or of the table where etc has compacted nothing yet."""
    return state.apply_state.proofs_of(_subject_of(policy, state))


def proven_partitions(
    policy: Policy, state: TableState, history: TableHistory, now_ms: int
) -> PartitionsFreshness | None:
    """The figures of each partition with its proof; None where it is not known how far the table is complete."""
    if freshness_of(policy, state, now_ms, history).remaining_log_files is None:
        return None
    return partitions_freshness(policy, state, now_ms, proofs=proofs_of(policy, state))


def verdict_beside(policy: Policy, state: TableState) -> Verdict | None:
    """The verdict of the latest verification of the last compaction, as far as it is kept beside the table; else None.

    When one failed is not kept.
    """
    from etc_policy.report.sync import Verdict

    record, unproven = promise_of(policy, state), _unproven(policy, state)
    if record is None:
        has_failed = state.last_compaction is None and unproven is not None
        return Verdict("fail", policy.verify.level, None, None, "") if has_failed else None
    if unproven is not None and unproven.verification == "fail":
        return Verdict("fail", policy.verify.level, record.threshold_ms, record.instant, "")
    reaching = [one for one in proofs_of(policy, state) if one.until_ms >= record.threshold_ms]
    if not reaching or not is_proven(policy, state, state.apply_state):
        return None
    best = max(reaching, key=lambda one: (one.rank, one.proved_at_ms))
    proved_at, is_part = iso_time(best.proved_at_ms), best.level == "sample"
    return Verdict("pass", best.level, best.until_ms, record.instant, proved_at, is_part)


def _subject_of(policy: Policy, state: TableState) -> str:
    """What a proof is about: a compaction, and how event times are read."""
    return f"{_name_of(state.last_compaction)} {subject_key(policy.event_time, state)}"


def with_doubt(policy: Policy, table: TablePlan, state: TableState) -> TablePlan:
    """The plan; where the table's last compaction is known not to be proven it says so, and what that means."""
    record, unproven = state.last_compaction, _unproven(policy, state)
    misrecorded = _misrecorded(policy, state)
    if misrecorded is not None:
        return table.model_copy(update={"warnings": (f"{misrecorded}. The plan takes the true time", *table.warnings)})
    if unproven is None:
        return table
    until = f" up to {format_time(record.threshold_ms)}" if record is not None else ""
    doubt = f"{_doubt(record, unproven)}. Do not rely on RO being complete{until} before a verification passes"
    level = f" --level {unproven.level}" if unproven.level not in (None, policy.verify.level) else ""
    hint = f"`etc verify --select {table.policy}{level}` verifies it again"
    return table.model_copy(update={"warnings": (doubt, *table.warnings), "hints": (*table.hints, hint)})


def doubt_about(policy: Policy, state: TableState) -> str | None:
    """Why nobody should rely on what metadata say: commits were wrong, or the last compaction did not pass its verification."""
    misrecorded = _misrecorded(policy, state)
    if misrecorded is not None:
        return misrecorded
    record, unproven = state.last_compaction, _unproven(policy, state)
    if unproven is None or unproven.verification == "running":
        return None  # while a verification runs, metadata shows what it did before
    return _doubt(record, unproven)


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
    from etc_policy.report.freshness import table_freshness, unreadable

    doubt = doubt_about(policy, state)
    if doubt:
        return unreadable(policy, doubt)
    clock_at_ms = clock_ms() if clock_at_ms is None else clock_at_ms
    proofs = proofs_of(policy, state)
    return table_freshness(policy, state, now_ms, clock_at_ms, history, proofs)


def note_misrecorded(policy: Policy, state: TableState, store: ApplyStateStore) -> None:
    """Keep which log files hold earlier events than recorded, of those that could be read; the others stay as they were."""
    if state.witnesses is None:
        return
    key = event_time_key(policy.event_time, state)
    found = tuple(one._replace(event_time=key) for one in misrecorded_in(state.witnesses))
    unread = {one.path for one in state.witnesses if one.why is not None}

    def corrected(kept: ApplyState) -> ApplyState:
        of_this = of_event_time(kept.misrecorded, policy.event_time, state)
        known = (one for one in still_there(state, kept.misrecorded) if one not in of_this or one.path in unread)
        return replace(kept, misrecorded=(*found, *known))

    if corrected(state.apply_state) != state.apply_state:
        store.update(state.base_path, corrected)


def _misrecorded(policy: Policy, state: TableState) -> str | None:
    found = still_there(state, of_event_time(state.apply_state.misrecorded, policy.event_time, state))
    if not found:
        return None
    more = f", and {count_of(len(found) - 1, 'other log file')}" if len(found) > 1 else ""
    return f"what commits recorded of event times is wrong: {in_words(found[0])}{more}"


def _unproven(policy: Policy, state: TableState) -> Unproven | None:
    return _doubt_of(state.apply_state, policy, state)


def _doubt_of(kept: ApplyState, policy: Policy, state: TableState) -> Unproven | None:
    """What is in doubt of the last compaction: what failed first, and what was found by this event time."""
    found = [one for one in _doubts(kept, policy, state) if _is_about(one, state.last_compaction)]
    key = event_time_key(policy.event_time, state)
    return min(found, key=lambda one: (_GRAVEST.index(one.verification), not one.is_of(key)), default=None)


def _doubts(kept: ApplyState, policy: Policy, state: TableState) -> tuple[Unproven, ...]:
    """Those of another event time count too, until a verification by this one passed."""
    key = event_time_key(policy.event_time, state)
    return tuple(one for one in kept.unproven if key not in one.passed)


def _own(kept: ApplyState, policy: Policy, state: TableState) -> tuple[Unproven, ...]:
    key = event_time_key(policy.event_time, state)
    return tuple(one for one in kept.unproven if one.is_of(key))


def _is_about(found: Unproven, record: CompactionRecord | None) -> bool:
    """Whether it counts where this is the last compaction: rows that were found missing do, whatever was compacted since.

    That its completion time was set right since proves nothing.
    """
    return found.level is not None or (record is not None and _instant_of(found) == record.instant)


def _instant_of(unproven: Unproven) -> str:
    """That of the compaction; empty of a table that etc had not compacted."""
    return unproven.compaction.split(" ")[0]


def _doubt(record: CompactionRecord | None, unproven: Unproven) -> str:
    instant = _instant_of(unproven)
    what = f"the compaction at {instant}" if instant else "the table"
    if record is not None and record.instant == instant:
        what = f"the last compaction ({instant})"
    return f"{what} is not proven: {unproven.why}"


def _why(verification: Verification) -> str:
    how = "its verification failed" if verification.status == "fail" else "its verification could not be done"
    return f"{how} ({verification.failures})"


def _name_of(record: CompactionRecord | None) -> str:
    """One that was rolled back and planned anew may bear the same instant, so its completion counts too; empty without one."""
    return f"{record.instant} {record.completed}" if record is not None else ""


def _is_of_later(kept: ApplyState, state: TableState) -> bool:
    """Whether it is about a compaction that had not completed when the table was read.

    One that was taken back since is not, nor one whose wrong completion time was set right, nor one that was known when the
    table was read without it: that table was put back to an older copy.
    """
    last, pending = state.last_completed or "", {one.requested for one in state.pending}
    done = {one.requested for one in state.instants if one.state == "completed"}
    done |= {state.last_compaction.instant} if state.last_compaction else set()
    return any(
        instant not in done and (completed > last or instant in pending)
        for instant, completed in _compactions_in(kept) - _compactions_in(state.apply_state)
    )


def _compactions_in(kept: ApplyState) -> set[tuple[str, str]]:
    """The instant and the completion of each compaction that it names."""
    proofs = kept.proofs.subject if kept.proofs else None
    names = (kept.verified, *(one.compaction for one in kept.unproven), proofs)
    parts = (name.split(" ") for name in names if name and name.count(" ") and name[0] != " ")
    return {(instant, completed) for instant, completed, *_ in parts}


def _proof_of(policy: Policy, state: TableState) -> str:
    """What is kept of a compaction that was verified: which one, and what the policy asked for."""
    verify, key = policy.verify.model_dump(mode="json"), subject_key(policy.event_time, state)
    asked = {"verify": verify, "suite_digest": policy.suite_digest, "event_time": key}
    return f"{_name_of(state.last_compaction)} {digest(asked)}"


def claim_for(
    policy: Policy, done: TableResult, plan: TablePlan | None, state: TableState, history: TableHistory, now_ms: int
) -> Claim | None:
    """What the table itself claims of a compaction that was done; None where it makes no such claim.

    What a `plan` found not to be due is claimed by the plan: the table's metadata must bear that out. Of a boundary that was
    published before it is what was claimed then: what came since is late data.
    """
    from etc_policy.verify.evidence import Claim
    from etc_policy.verify.prover import claim_in, claim_of, record_of_run

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
