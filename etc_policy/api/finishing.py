"""Finishes the table services that are pending on many tables, and withdraws pending plans of etc."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from etc_policy.api.one_table import entries_of, one_by_one
from etc_policy.errors import EtcError
from etc_policy.policy.manifest import Policy
from etc_policy.report.results import FinishedService
from etc_policy.wiring import Environment, resolve_table


def finish_tables(
    environment: Environment, policies: Iterable[Policy]
) -> tuple[tuple[FinishedService, ...], tuple[EtcError, ...]]:
    """The services that were carried out, and the errors of the tables where that failed."""

    def finish(policy: Policy) -> list[FinishedService]:
        located = resolve_table(environment, policy)
        done = environment.finisher().finish(located, located.table)
        return [FinishedService(policy=policy.name, action=i.action, instant=i.requested) for i in done]

    finished, errors = entries_of(one_by_one(policies, finish), lambda *_: [])
    return tuple(chain.from_iterable(finished)), errors


def undo_tables(
    environment: Environment, policies: Iterable[Policy]
) -> tuple[tuple[tuple[str, str], ...], tuple[EtcError, ...]]:
    """(policy, instant) of each plan that was withdrawn, and the errors of the tables where that failed."""

    def undo(policy: Policy) -> tuple[str, str | None]:
        return policy.name, environment.runner().undo(policy, resolve_table(environment, policy).table)

    withdrawn, errors = entries_of(one_by_one(policies, undo), lambda policy, _: (policy.name, None))
    return tuple((name, instant) for name, instant in withdrawn if instant is not None), errors
