"""Finishes what others have scheduled on a table and nobody carries out: one table at a time, under its lease."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from etc_policy.errors.codes import Code
from etc_policy.plan.refusals import FINISHED_SERVICES, Refusal
from etc_policy.policy.manifest import Policy
from etc_policy.run.fence import Fence
from etc_policy.run.ports import Job, Lease, Services
from etc_policy.run.refusing import raise_refusal, require_clock_and_instants
from etc_policy.run.runner import Runner
from etc_policy.table.state import Instant, TableState, newest_base_file


@dataclass(frozen=True)
class Finisher:
    """The steps of `etc finish` over the runner's ports; `services` is a function so that Spark starts only when it must."""

    runner: Runner
    services: Callable[[], Services]

    def finish(self, policy: Policy, base_path: str) -> tuple[Instant, ...]:
        """The pending services that were carried out, oldest first; a pending plan of etc is left to `etc apply`.

        Raises:
            RetryableError: the job that runs one is alive, or another run of etc works on the table.
            EngineError: Hudi failed, or the clock or the timeline forbids to go on; run it again.

        """
        if not self._pending(policy, base_path)[1]:
            return ()
        done: list[Instant] = []
        with self.runner.lease(base_path) as lease:
            while True:
                state, pending = self._pending(policy, base_path)
                if not pending:
                    return tuple(done)
                require_clock_and_instants(policy, state, self.runner.clock_ms())
                raise_refusal(policy, self._altered(base_path, pending[0]))
                self._run(policy, state, pending[0], lease)
                done.append(pending[0])

    def _pending(self, policy: Policy, base_path: str) -> tuple[TableState, tuple[Instant, ...]]:
        state = self.runner.state_of(policy, base_path)
        found = (i for i in state.pending if i.action in FINISHED_SERVICES and i.requested != state.own_pending)
        return state, tuple(sorted(found, key=lambda instant: instant.requested))

    def _altered(self, base_path: str, pending: Instant) -> Refusal | None:
        """Stock Hudi loses values where it carries out what was scheduled before the schema was altered.

        See facts: schema-stock-losses.
        """
        why = self.runner.files.wrong_schema(base_path, pending.requested)
        if why is None:
            return None
        hint = (
            "stop its writers, and write the rows of the snapshot view into a new table, or ask whoever scheduled it to take it "
            f"off the timeline; `etc explain {Code.OVERTAKEN}` says more"
        )
        reason = f"Hudi would lose values by carrying out the {pending.action} at {pending.requested}: {why}"
        return Refusal("schema_altered", reason, hint)

    def _run(self, policy: Policy, state: TableState, pending: Instant, lease: Lease) -> None:
        """The engine starts first: the job that has begun it shows itself meanwhile."""
        self.runner.progress(f"{policy.name}: running the {pending.action} at {pending.requested}")
        services = self.services()
        lease.wait_for_dead_run(pending.requested, policy.writer.heartbeat_expiry_ms)
        job = Job(
            policy,
            state.base_path,
            state.table_version,
            state.metadata_partitions,
            pending.requested,
            base_file=newest_base_file(state.slices),
        )
        lease.mark(job.instant)
        fence = Fence(self.runner.reader, self.runner.files, job, lease, state)
        services.finish(job, pending.action, lambda: lease.note_inflight(job.instant), fence)
