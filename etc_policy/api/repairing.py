"""Sets wrong completion times of a table right: what would be done, then doing exactly that."""

from __future__ import annotations

from dataclasses import dataclass

from etc_policy.api.one_table import one_table
from etc_policy.errors import RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.plan.repair import Repair
from etc_policy.policy.manifest import Policy
from etc_policy.run.repairer import Repairer
from etc_policy.wiring import Environment, resolve_table

#: Refusals that another run may not meet.
_RETRY_CODES = frozenset({"pending"})


@dataclass(frozen=True, slots=True)
class PlannedRepair:
    """One policy's table and what sets it right; `carry_out` does that."""

    policy: Policy
    repair: Repair
    repairer: Repairer

    def carry_out(self) -> None:
        """Do the steps, under the table's lease.

        Raises:
            StalePlanError: the table has changed since they were planned.
            RetryableError: another run works on the table.
            EngineError: a step failed; plan again and go on.

        """
        with one_table(self.policy):
            self.repairer.repair(self.policy, self.repair)


def plan_table_repair(policy: Policy, environment: Environment) -> PlannedRepair:
    """The steps that set a policy's table right; none where nothing is wrong.

    Raises:
        TableError: it cannot be read, or what is wrong cannot be set right safely.
        RetryableError: a writer may be alive.

    """
    with one_table(policy):
        found = resolve_table(environment, policy)
        repairer = environment.repairer()
        repair = repairer.plan(found.table)
    if repair.refusal is not None:
        kind = RetryableError if repair.refusal.code in _RETRY_CODES else TableError
        message = f"`{policy.name}` cannot be repaired: {repair.refusal.reason}"
        raise kind(Code.CANNOT_REPAIR, message, where=policy.place, hint=repair.refusal.hint)
    return PlannedRepair(found, repair, repairer)
