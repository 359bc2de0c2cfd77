"""Notes beside a table what its verifications prove, and reads from there how far it is complete and proven."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etc_policy.policy.manifest import Level, Policy, VerifyLevel
from etc_policy.table.apply_state import ApplyStateStore, Proof
from etc_policy.table.history import TableHistory, promise_of
from etc_policy.table.partitions import PartitionsFreshness, partitions_freshness
from etc_policy.table.proofs import Verdict, after_begin, after_log_reading, after_verdict, doubt_about, proofs_of
from etc_policy.table.state import CompactionRecord, TableState
from etc_policy.wiring import clock_ms

if TYPE_CHECKING:
    from etc_policy.report.results import TableFreshness
    from etc_policy.verify.evidence import Claim
    from etc_policy.verify.ports import Verification


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
) -> None:
    """Keep what a verification of the table, as it was read, means for its last compaction, and for its completeness."""
    from etc_policy.verify.prover import lacks_rows, on_promise, views_agree

    promise = on_promise(verification)
    is_whole = not (Level[level].reads_rows and promise.not_checked)
    verdict = Verdict(
        level=level,
        status=promise.status,
        failures=promise.failures,
        proof=_proof(promise, state, claim, clock_ms()),
        lacks_rows=lacks_rows(promise),
        agrees=views_agree(promise.expectations, promise.threshold_ms),
        covers=is_whole and _covers(claim, promise_of(policy, state)),
    )
    store.update(policy.table, lambda kept: after_verdict(kept, policy, state, verdict))


def _covers(claim: Claim | None, record: CompactionRecord | None) -> bool:
    """Whether what was claimed reaches as far as the compaction promised, if it did in this event-time column."""
    return claim is not None and (record is None or claim.threshold_ms >= record.threshold_ms)


def _proof(verification: Verification, state: TableState, claim: Claim | None, now_ms: int) -> Proof | None:
    """What a verification proves where it passed; None where it cannot say how far RO is complete."""
    from etc_policy.verify.prover import has_read_logs, proof_level

    if claim is None or verification.threshold_ms is None:
        return None
    seen_until = state.last_completed if has_read_logs(verification) else None
    return Proof(
        level=proof_level(verification),
        until_ms=claim.threshold_ms,
        proved_at_ms=now_ms,
        seen_until=seen_until or claim.seen_until,
        open_since=min((one.requested for one in state.pending), default=seen_until) if seen_until else "",
    )


def note_misrecorded(policy: Policy, state: TableState, store: ApplyStateStore) -> None:
    """Keep which log files hold earlier events than recorded, of those that could be read; the others stay as they were."""
    if after_log_reading(state.apply_state, policy, state) != state.apply_state:
        store.update(state.base_path, lambda kept: after_log_reading(kept, policy, state))


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

    if doubt := doubt_about(policy, state):
        return unreadable(policy, doubt)
    clock_at_ms = clock_ms() if clock_at_ms is None else clock_at_ms
    return table_freshness(policy, state, now_ms, clock_at_ms, history, proofs_of(policy, state))


def proven_partitions(
    policy: Policy, state: TableState, history: TableHistory, now_ms: int
) -> PartitionsFreshness | None:
    """The figures of each partition with its proof; None where it is not known how far the table is complete."""
    if freshness_of(policy, state, now_ms, history).remaining_log_files is None:
        return None
    return partitions_freshness(policy, state, now_ms, proofs=proofs_of(policy, state))
