"""Withdraws pending plans of etc from many tables."""

from __future__ import annotations

from collections.abc import Iterable

from etc_policy.api.one_table import each_table
from etc_policy.compile.manifest import Policy
from etc_policy.errors import EtcError
from etc_policy.wiring import Environment, resolve_table


def undo_tables(
    environment: Environment, policies: Iterable[Policy]
) -> tuple[tuple[tuple[str, str], ...], tuple[EtcError, ...]]:
    """(policy, instant) of each plan that was withdrawn, and the errors of the tables where that failed."""

    def undo(policy: Policy) -> tuple[str, str | None]:
        outcome = environment.runner().undo(policy, resolve_table(environment, policy).table)
        return policy.name, outcome.instant if outcome is not None else None

    withdrawn, errors = each_table(policies, undo)
    return tuple((name, instant) for name, instant in withdrawn if instant is not None), errors
