"""Finishes the table services that are pending on many tables, and withdraws pending plans of etc."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from etc_policy.api.one_table import entries_of, one_by_one
from etc_policy.policy.manifest import Policy
from etc_policy.report.results import FinishedService, FinishReport, UndoReport, WithdrawnPlan, failed_tables
from etc_policy.wiring import Environment, resolve_table


def finish_tables(environment: Environment, policies: Iterable[Policy]) -> FinishReport:
    """The services that were carried out, and the tables where that failed."""

    def finish(policy: Policy) -> list[FinishedService]:
        located = resolve_table(environment, policy)
        done = environment.finisher().finish(located, located.table)
        return [FinishedService(policy=policy.name, action=i.action, instant=i.requested) for i in done]

    finished, errors = entries_of(one_by_one(policies, finish), lambda *_: [])
    services = tuple(chain.from_iterable(finished))
    return FinishReport(finished=services, failed=failed_tables(errors)).with_errors(errors)


def undo_tables(environment: Environment, policies: Iterable[Policy]) -> UndoReport:
    """The plans that were withdrawn, and the tables where that failed."""

    def undo(policy: Policy) -> list[WithdrawnPlan]:
        instant = environment.runner().undo(policy, resolve_table(environment, policy).table)
        return [] if instant is None else [WithdrawnPlan(policy=policy.name, instant=instant)]

    withdrawn, errors = entries_of(one_by_one(policies, undo), lambda *_: [])
    plans = tuple(chain.from_iterable(withdrawn))
    return UndoReport(withdrawn=plans, failed=failed_tables(errors)).with_errors(errors)
