"""Lists the published cuts of tables."""

from __future__ import annotations

from collections.abc import Iterable

from etc_policy.api.one_table import entries_of, readings_of
from etc_policy.errors import EtcError
from etc_policy.plan.plan_warnings import retention_warning
from etc_policy.policy.manifest import Policy
from etc_policy.report.cuts import CutsReport, TableCuts, table_cuts
from etc_policy.table.cuts import published_cuts
from etc_policy.table.history import promises_in
from etc_policy.wiring import Environment


def list_cuts(environment: Environment, policies: Iterable[Policy]) -> CutsReport:
    """The cuts of each table; one that cannot be read has the reason."""

    def read(policy: Policy) -> TableCuts:
        state, history = environment.read_table(policy, archived=True)
        cuts = published_cuts(promises_in(policy, history), environment.base_files(state))
        return table_cuts(policy, state, cuts, retention_warning(policy, state))

    def unread(policy: Policy, error: EtcError) -> TableCuts:
        return TableCuts(policy=policy.name, base_path=policy.table, reason=error.with_cause)

    tables, errors = entries_of(readings_of(environment, policies, read), unread)
    return CutsReport(tables=tables).with_errors(errors)
