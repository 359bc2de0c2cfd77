"""How fresh a table is, with what is kept beside it of proofs and doubts."""

from __future__ import annotations

from etc_policy.api.proofs import doubt_about, proofs_of
from etc_policy.compile.manifest import Policy
from etc_policy.plan.table_history import TableHistory
from etc_policy.plan.table_state import TableState
from etc_policy.publish.freshness import table_freshness, unreadable
from etc_policy.publish.results import TableFreshness
from etc_policy.wiring import clock_ms


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
    doubt = doubt_about(state)
    if doubt:
        return unreadable(policy, doubt)
    clock_at_ms = clock_ms() if clock_at_ms is None else clock_at_ms
    proofs = proofs_of(policy, state)
    return table_freshness(policy, state, now_ms, clock_at_ms, history, proofs)
