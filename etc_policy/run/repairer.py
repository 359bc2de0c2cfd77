"""Carries out repairs: one table at a time under its lease, each step planned anew from what the table holds then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from etc_policy.errors import EngineError, StalePlanError
from etc_policy.errors.codes import Code
from etc_policy.plan.repair import RebuildMetadata, Repair, RepairFacts, SetCompletion, Step, plan_repair
from etc_policy.policy.manifest import Policy
from etc_policy.run.ports import Job, Lease, RepairEngine, RepairFiles


@dataclass(frozen=True, slots=True)
class Repairer:
    """`engine` is a function, so that Spark starts only when a step or the writers' lock needs it."""

    files: RepairFiles
    engine: Callable[[], RepairEngine]
    lease: Callable[[str], Lease]
    progress: Callable[[str], None]

    def plan(self, base_path: str) -> Repair:
        """The steps that set the table right now, or why nothing may be done."""
        return plan_repair(self.files.facts(base_path))

    def repair(self, policy: Policy, shown: Repair) -> None:
        """Carry out exactly the steps that were shown; it may be killed at any moment and run again.

        Raises:
            StalePlanError: the table has changed since; what was done so far is right by itself.
            RetryableError: another run works on the table, or its lock is held.
            EngineError: a step failed; run it again.

        """
        with self.lease(policy.table):
            self._require(policy, shown.steps)
            with self._locked(policy, shown.steps):
                for done, step in enumerate(shown.steps):
                    facts = self._require(policy, shown.steps[done:])
                    self.progress(f"{policy.name}: {step}")
                    self._do(policy, facts, step)
        left = self.plan(policy.table).steps
        if left:
            raise EngineError(
                Code.NOT_REPAIRED, f"`{policy.table}` is not right after its repair: {left[0]} is still needed"
            )

    def _require(self, policy: Policy, steps: tuple[Step, ...]) -> RepairFacts:
        """What the table holds now, which is still set right by these steps."""
        facts = self.files.facts(policy.table)
        now = plan_repair(facts)
        if now.refusal is not None or now.steps != steps:
            changed = now.refusal.reason if now.refusal else "other steps would be needed now"
            message = f"the repair of `{policy.name}` no longer fits its table: {changed}"
            raise StalePlanError(Code.STALE_REPAIR, message, hint="run this again: it shows what is needed now")
        return facts

    def _do(self, policy: Policy, facts: RepairFacts, step: Step) -> None:
        match step:
            case SetCompletion():
                self.files.set_completion(policy.table, step)
            case RebuildMetadata():
                self.engine().rebuild_metadata(_job(policy, facts, step.partitions))

    @contextmanager
    def _locked(self, policy: Policy, steps: tuple[Step, ...]) -> Iterator[None]:
        """The writers' lock where the policy declares one; Hudi's own work is done under a lock in any case."""
        if not policy.writer.lock and not any(isinstance(step, RebuildMetadata) for step in steps):
            yield
            return
        facts = self.files.facts(policy.table)
        with self.engine().locked(_job(policy, facts, facts.metadata_partitions)):
            yield


def _job(policy: Policy, facts: RepairFacts, partitions: tuple[str, ...]) -> Job:
    """Any instant will do as the lock's owner: nothing is written at it."""
    last = max((file.requested for file in facts.table.completed), default="")
    return Job(policy, facts.base_path, facts.table_version, partitions, last)
