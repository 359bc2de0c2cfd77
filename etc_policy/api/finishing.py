"""Finishes the compactions of others that are pending on many tables, and withdraws pending plans of etc."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain

from etc_policy.api.each_table import by_release, each_table, set_place
from etc_policy.api.table_apply import writes_beside_errors
from etc_policy.errors import EtcError
from etc_policy.policy.manifest import Policy
from etc_policy.report.results import FailedTable, FinishedService, FinishReport, UndoReport, WithdrawnPlan
from etc_policy.wiring import Environment, resolve_table


def finish_tables(environment: Environment, policies: Iterable[Policy]) -> FinishReport:
    """The compactions of others that were carried out, and the tables where that failed, or beside which writers began."""
    finished: list[FinishedService] = []
    beside: list[EtcError] = []

    def finish(policy: Policy) -> None:
        located = resolve_table(environment, policy)
        with closing(environment.runner().finish_others(located, located.table)) as results:
            for done in results:
                instant = done.instant or ""
                finished.append(FinishedService(policy=policy.name, action="compaction", instant=instant))
                for error in writes_beside_errors(environment, located, done) if done.may_have_writes_beside else ():
                    set_place(error, policy)
                    beside.append(error)

    _, failed = each_table(environment, _in_turn(environment, policies), finish, lambda *_: None, in_turn=True)
    errors = (*failed, *beside)
    return FinishReport(finished=tuple(finished), failed=tuple(map(FailedTable.of, errors))).with_errors(errors)


def _in_turn(environment: Environment, policies: Iterable[Policy]) -> Iterator[Policy]:
    """The policies release by release; Spark has that of the last one taken."""
    return chain.from_iterable(by_release(environment, policies))


def undo_tables(environment: Environment, policies: Iterable[Policy]) -> UndoReport:
    """The plans that were withdrawn, and the tables where that failed."""

    def undo(policy: Policy) -> list[WithdrawnPlan]:
        instant = environment.runner().undo(policy, resolve_table(environment, policy).table)
        return [] if instant is None else [WithdrawnPlan(policy=policy.name, instant=instant)]

    withdrawn, errors = each_table(environment, _in_turn(environment, policies), undo, lambda *_: [], in_turn=True)
    plans = tuple(chain.from_iterable(withdrawn))
    return UndoReport(withdrawn=plans, failed=tuple(map(FailedTable.of, errors))).with_errors(errors)
