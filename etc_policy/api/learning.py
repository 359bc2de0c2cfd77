"""A `data_latency` that policies leave to their tables: learned once a command from each table's own history."""

from __future__ import annotations

from collections.abc import Sequence

from etc_policy.api.one_table import readings_of
from etc_policy.errors import EtcError
from etc_policy.policy.manifest import Policy
from etc_policy.table.history import promise_of
from etc_policy.verify.latency import learn_latency
from etc_policy.wiring import Environment


def with_learned_latencies(environment: Environment, policies: Sequence[Policy], now_ms: int) -> tuple[Policy, ...]:
    """The policies, with the `data_latency` that the tables' histories had at `now_ms` where it is learned.

    It stays the longest that may be for a table that cannot be read, which the verb itself reports.
    """

    def learned(policy: Policy) -> Policy:
        if policy.learned_latency is None:
            return policy
        state, history = environment.read_table(policy, kept=True)
        promise = promise_of(policy, state)
        latency_ms, evidence = learn_latency(history, policy.learned_latency, now_ms)
        evidence = evidence.model_copy(update={"promised_ms": promise.threshold_ms if promise else None})
        return policy.model_copy(update={"data_latency_ms": latency_ms, "latency_evidence": evidence})

    if not any(policy.learned_latency for policy in policies):
        return tuple(policies)
    found = readings_of(environment, policies, learned)
    return tuple(policy if isinstance(one, EtcError) else one for policy, one in found)
