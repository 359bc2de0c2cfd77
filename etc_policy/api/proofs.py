"""Which compaction of a table was verified, and which was not: kept beside the table, and said by the next plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etc_policy.compile.manifest import Policy, VerifyLevel, digest
from etc_policy.execute.ports import Outcome
from etc_policy.plan.apply_state import ApplyStateStore, Unproven
from etc_policy.plan.formats import count_of, format_time
from etc_policy.plan.log_witness import in_words, misrecorded_in, still_there
from etc_policy.plan.proof import Proof, with_proof
from etc_policy.plan.stages import TablePlan
from etc_policy.plan.table_history import TableHistory
from etc_policy.plan.table_state import CompactionRecord, TableState
from etc_policy.wiring import clock_ms

if TYPE_CHECKING:
    from etc_policy.verify.evidence import Claim
    from etc_policy.verify.ports import Verification

_NOT_ENDED = "its verification was begun and has not ended"


def is_proven(policy: Policy, record: CompactionRecord | None, memory: ApplyStateStore) -> bool:
    """Whether nothing is left to prove: a run that was killed after its commit leaves a compaction nobody has verified."""
    return record is None or memory.verified(policy.table) == _proof_of(record, policy)


def level_to_prove(
    policy: Policy, record: CompactionRecord | None, memory: ApplyStateStore, *, is_idle: bool
) -> VerifyLevel:
    """The policy's level; where nothing was due and the last compaction is proven, no more than log files are read."""
    declared = policy.verify.level
    return "logs" if is_idle and declared != "metadata" and is_proven(policy, record, memory) else declared


def begin_proof(policy: Policy, record: CompactionRecord | None, memory: ApplyStateStore) -> None:
    """Note that the compaction is not proven yet: a run that is killed while it verifies leaves it so."""
    if record is not None and not is_proven(policy, record, memory):
        memory.note_unproven(policy.table, Unproven(_name_of(record), _NOT_ENDED))


def note_verdict(
    policy: Policy,
    record: CompactionRecord | None,
    memory: ApplyStateStore,
    verification: Verification,
    level: VerifyLevel,
    claim: Claim | None,
) -> None:
    """Keep what a verification of the table means for its last compaction, and for what is said of completeness."""
    from etc_policy.verify.prover import on_promise

    verification = on_promise(verification)
    _note_proof(policy, record, memory, verification, claim)
    if record is None:
        return
    covered = level == policy.verify.level and claim is not None and claim.threshold_ms >= record.threshold_ms
    if verification.status in ("fail", "error"):
        memory.note_unproven(policy.table, Unproven(_name_of(record), _why(verification)))
    elif covered and not verification.not_checked:
        memory.note_verified(policy.table, _proof_of(record, policy))


def _note_proof(
    policy: Policy,
    record: CompactionRecord | None,
    memory: ApplyStateStore,
    verification: Verification,
    claim: Claim | None,
) -> None:
    """A verification that passed is a proof, one that failed disproves all; one that was not possible changes nothing."""
    from etc_policy.verify.prover import proof_level

    subject = _subject_of(record, policy)
    if verification.status == "fail":
        memory.note_proofs(policy.table, subject, ())
    elif verification.status != "error" and claim is not None:
        proof = Proof(level=proof_level(verification), until_ms=claim.threshold_ms, proved_at_ms=clock_ms())
        memory.note_proofs(policy.table, subject, with_proof(memory.proofs(policy.table, subject), proof))


def proofs_of(policy: Policy, state: TableState, memory: ApplyStateStore) -> tuple[Proof, ...]:
    """The proofs that are kept of the table's last compaction, or of the table where etc has compacted nothing yet."""
    return memory.proofs(state.base_path, _subject_of(state.last_compaction, policy))


def _subject_of(record: CompactionRecord | None, policy: Policy) -> str:
    """What a proof is about: a compaction, and how event times are read."""
    return f"{_name_of(record) if record else ''} {digest(policy.event_time.model_dump(mode='json'))}"


def with_doubt(table: TablePlan, state: TableState, memory: ApplyStateStore) -> TablePlan:
    """The plan; where the table's last compaction is known not to be proven it says so, and what that means."""
    record, unproven = state.last_compaction, _unproven(state, memory)
    misrecorded = _misrecorded(state, memory)
    if misrecorded is not None:
        return table.model_copy(update={"warnings": (f"{misrecorded}. The plan takes the true time", *table.warnings)})
    if record is None or unproven is None:
        return table
    doubt = (
        f"{_doubt(record, unproven)}. Do not rely on RO being complete up to {format_time(record.threshold_ms)} before a "
        "verification passes"
    )
    hint = f"`etc verify --select {table.policy}` verifies it again"
    return table.model_copy(update={"warnings": (doubt, *table.warnings), "hints": (*table.hints, hint)})


def doubt_about(state: TableState, memory: ApplyStateStore) -> str | None:
    """Why nobody should rely on what metadata say: commits were wrong, or the last compaction did not pass its verification."""
    misrecorded = _misrecorded(state, memory)
    if misrecorded is not None:
        return misrecorded
    record, unproven = state.last_compaction, _unproven(state, memory)
    if record is None or unproven is None or unproven.why == _NOT_ENDED:
        return None  # while a verification runs, metadata shows what it did before
    return _doubt(record, unproven)


def note_misrecorded(state: TableState, memory: ApplyStateStore) -> None:
    """Keep which log files hold earlier events than recorded, of those that could be read; the others stay as they were."""
    if state.witnesses is None:
        return
    unread = {one.path for one in state.witnesses if one.why is not None}
    known = (one for one in still_there(state, memory.misrecorded(state.base_path)) if one.path in unread)
    memory.note_misrecorded(state.base_path, (*misrecorded_in(state.witnesses), *known))


def _misrecorded(state: TableState, memory: ApplyStateStore) -> str | None:
    found = still_there(state, memory.misrecorded(state.base_path))
    if not found:
        return None
    more = f", and {count_of(len(found) - 1, 'other log file')}" if len(found) > 1 else ""
    return f"what commits recorded of event times is wrong: {in_words(found[0])}{more}"


def _unproven(state: TableState, memory: ApplyStateStore) -> Unproven | None:
    """Of the last compaction; a repair that set its completion right since proves nothing."""
    record = state.last_compaction
    found = memory.unproven(state.base_path) if record is not None else None
    return found if record is not None and found and found.compaction.split(" ")[0] == record.instant else None


def _doubt(record: CompactionRecord, unproven: Unproven) -> str:
    return f"the last compaction ({record.instant}) is not proven: {unproven.why}"


def _why(verification: Verification) -> str:
    how = "failed" if verification.status == "fail" else "could not be done"
    return f"its verification {how} ({verification.failures})"


def _name_of(record: CompactionRecord) -> str:
    """One that was rolled back and planned anew may bear the same instant, so its completion counts too."""
    return f"{record.instant} {record.completed}"


def _proof_of(record: CompactionRecord, policy: Policy) -> str:
    """What is kept of a compaction that was verified: which one, and what the policy asked for."""
    asked = {"verify": policy.deciding_values()["verify"], "event_time": policy.event_time.model_dump(mode="json")}
    return f"{_name_of(record)} {digest(asked)}"


def claim_for(policy: Policy, outcome: Outcome, state: TableState, history: TableHistory, now_ms: int) -> Claim | None:
    """What the table itself claims of a compaction that was done; None where it makes no such claim.

    What a plan found not to be due is claimed by the plan: the table's metadata must bear that out.
    """
    from etc_policy.verify.evidence import Claim
    from etc_policy.verify.prover import claim_of, claim_of_run

    if outcome.threshold_ms is None:
        return claim_of(policy, state, now_ms)
    if outcome.status == "nothing_due":
        return Claim(outcome.threshold_ms, outcome.seen_until or state.last_completed or "")
    claim = claim_of_run(state, history, outcome.instant or "")
    return claim if claim is not None and claim.threshold_ms == outcome.threshold_ms else None
