"""Verifies many tables: one that cannot be read does not stop the next."""

from __future__ import annotations

from collections.abc import Iterable

from etc_policy.api.applying import verify
from etc_policy.api.planning import place
from etc_policy.compile.manifest import Policy, VerifyLevel
from etc_policy.errors import EtcError
from etc_policy.publish.results import TableVerification
from etc_policy.verify.metadata_checks import Evidence
from etc_policy.verify.prover import claim_of
from etc_policy.wiring import Environment


def verify_tables(
    environment: Environment, policies: Iterable[Policy], now_ms: int, level: VerifyLevel | None = None
) -> tuple[tuple[TableVerification, ...], tuple[EtcError, ...]]:
    """The verdict over each table that could be read, and the errors of the others; `level` wins over the policies'."""
    verified: list[TableVerification] = []
    errors: list[EtcError] = []
    for policy in policies:
        try:
            verified.append(_verify(environment, policy, now_ms, level or policy.verify.level))
        except EtcError as error:
            error.where = error.where or place(policy.source, policy.name)
            errors.append(error)
    return tuple(verified), tuple(errors)


def _verify(environment: Environment, policy: Policy, now_ms: int, level: VerifyLevel) -> TableVerification:
    state, history = environment.read_table(policy, read_stats=True)
    evidence = Evidence(policy, state, history, claim_of(policy, state, now_ms), now_ms)
    verification = verify(environment, evidence, level)
    return TableVerification(policy=policy.name, base_path=state.base_path, verification=verification)
