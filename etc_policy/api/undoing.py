"""Withdraws pending plans of etc from many tables."""

from __future__ import annotations

from collections.abc import Iterable

from etc_policy.api.one_table import one_table
from etc_policy.compile.manifest import Policy
from etc_policy.errors import EtcError
from etc_policy.wiring import Environment, resolve_table


def undo_tables(
    environment: Environment, policies: Iterable[Policy]
) -> tuple[tuple[tuple[str, str], ...], tuple[EtcError, ...]]:
    """(policy, instant) of each plan that was withdrawn, and the errors of the tables where that failed."""
    withdrawn: list[tuple[str, str]] = []
    errors: list[EtcError] = []
    for policy in policies:
        try:
            with one_table(policy):
                outcome = environment.runner().undo(policy, resolve_table(environment, policy).table)
            if outcome is not None and outcome.instant is not None:
                withdrawn.append((policy.name, outcome.instant))
        except EtcError as error:
            errors.append(error)
    return tuple(withdrawn), tuple(errors)
