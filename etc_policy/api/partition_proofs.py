"""Compares the rows of partitions that are to be done, where the policy wants that proof, and records which are equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from etc_policy.api.proofs import proven_partitions
from etc_policy.api.verifying import gather_evidence, verify
from etc_policy.policy.manifest import Policy, Verify
from etc_policy.table.formats import count_of
from etc_policy.table.history import TableHistory
from etc_policy.table.partitions import by_partition, rows_key
from etc_policy.table.proofs import after_comparison, after_difference, without_doubts_about_rows
from etc_policy.table.state import TableState
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.ports import Verification
from etc_policy.wiring import Environment

#: So many partitions are compared by one pass over their rows.
_AT_ONCE = 100


def prove_partitions(environment: Environment, policy: Policy, now_ms: int) -> Verification | None:
    """Compare the rows of closed partitions that lack nothing but this proof; returns the first verdict that is not good.

    Spark starts only where there is one. Rows that differ put the whole table in doubt, as any verification that fails; they
    are compared again all the same, as a comparison that finds them equal takes that back.
    """
    if policy.done is None or policy.done.proof != "data":
        return None
    state, history = environment.read_table(policy)
    found = proven_partitions(policy, without_doubts_about_rows(state), history, now_ms)
    if found is None:
        return None
    if after_comparison(state.apply_state, policy, state, {}).unproven != state.apply_state.unproven:
        _note_equal(environment, policy, {}, state)  # what differed is gone
    closed = (one for one in found.partitions if one.status == "closed" and one.proof)
    due = [(one.partition, one.ends_ms) for one in closed if one.ends_ms is not None]
    for first in range(0, len(due), _AT_ONCE):
        ends = dict(due[first : first + _AT_ONCE])
        environment.progress(f"{policy.name}: comparing the rows of {count_of(len(ends), 'partition')}")
        verdict, judged = _compare(environment, policy, ends, (state, history), now_ms)
        if verdict.status != "pass":
            if verdict.status == "fail":
                _note_different(environment, policy, ends, replace(judged.state, slices=state.slices), verdict)
            return verdict
        _note_equal(environment, policy, ends, state)
    return None


def _compare(
    environment: Environment,
    policy: Policy,
    ends: Mapping[str, int],
    reading: tuple[TableState, TableHistory],
    now_ms: int,
) -> tuple[Verification, Evidence]:
    """The verdict, and what it is about: what was written since the first reading is late."""
    whole = policy.model_copy(update={"verify": Verify(suite=policy.verify.suite, level="data")})
    claim = Claim(max(ends.values()) - 1, reading[0].last_completed or "")

    def evidence_of(state: TableState, history: TableHistory) -> Evidence:
        state = replace(state, slices=tuple(one for one in state.slices if one.partition in ends))
        return replace(gather_evidence(whole, state, history, claim, now_ms), ends=ends)

    return verify(environment, evidence_of(*reading), "data", lambda: evidence_of(*environment.read_table(policy)))


def _note_equal(environment: Environment, policy: Policy, ends: Mapping[str, int], state: TableState) -> None:
    """Keep which rows were compared and found equal."""
    slices = by_partition(state.slices)
    equal = {name: rows_key(policy, state, ends_ms, slices[name]) for name, ends_ms in ends.items()}
    environment.apply_states.update(policy.table, lambda kept: after_comparison(kept, policy, state, equal))


def _note_different(
    environment: Environment, policy: Policy, ends: Mapping[str, int], state: TableState, verdict: Verification
) -> None:
    """Keep that rows of one of the partitions are at fault."""
    failures = verdict.failures
    environment.apply_states.update(policy.table, lambda kept: after_difference(kept, policy, state, ends, failures))
