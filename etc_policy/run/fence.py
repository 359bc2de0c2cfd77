"""What is checked of a run and its plan before it is published, between the work and the commit, and after it.

See facts: delete-rule-until-commit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from etc_policy.errors import EngineError, EtcError, OvertakenError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.plan.delete_rule import Overtaken, find_overtaken, groups_with_deletes, writes_beside
from etc_policy.plan.refusals import Facts
from etc_policy.plan.rules import Moment, first_objection
from etc_policy.run.ports import AtCommit, Job, Lease
from etc_policy.run.table_files import HudiFiles
from etc_policy.table.double_keys import sees_log_files
from etc_policy.table.formats import count_of
from etc_policy.table.state import CUT_VERSIONS, GroupKey, TableState, TableStateReader

#: How long a compaction waits for a writer that may be in the way, before it is published and once it is done.
WRITER_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.25


@dataclass
class Fence:
    """What is asked of one job in time: before it is published, before its commit without and under the lock, and afterwards.

    The compactor asks it right before the commit (`CommitGate`), `Runner` before and after. `last` is the newest state it saw.
    """

    reader: TableStateReader
    files: HudiFiles
    job: Job
    lease: Lease
    last: TableState
    _rolled_back_before: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """What was rolled back before the compaction began is not in what it merges."""
        done = (one for one in self.last.instants if (one.action, one.state) == ("rollback", "completed"))
        self._rolled_back_before = frozenset(one.requested for one in done)

    def before_lock(self) -> None:
        """Wait for writers on file groups whose deletes are compacted.

        One that has just begun soon says to which file groups, and one in the way may soon be done.
        """
        deadline = time.monotonic() + WRITER_WAIT_SECONDS
        while found := self._overtaken():
            if time.monotonic() > deadline or not all(one.waits for one in found):
                self._refuse(found)
                return
            time.sleep(_POLL_SECONDS)

    def under_lock(self) -> None:
        """Return while this run may commit what it has compacted.

        Raises:
            EngineError: the lease is lost, or another run has completed the compaction.
            RetryableError: a restore is at work, or the compaction must be done anew: it has read what was rolled back since, or
                the table has got or lost indexes.
            OvertakenError: what writers did since, a rollback or a changed schema forbids it.

        """
        self.lease.require_alive(self.job.instant)
        found = self.files.read_at_commit(self.job)
        if found.is_completed:
            message = f"another run has completed the compaction at {self.job.instant}; this one commits nothing"
            raise EngineError(Code.COMPLETED_ELSEWHERE, message)
        if found.restore is not None:  # it takes the plan back itself
            message = f"a restore at {found.restore} is at work on `{self.job.policy.name}`; nothing was committed"
            raise RetryableError(
                Code.CANNOT_COMPACT_NOW, message, hint="run the same command again when it has completed"
            )
        if found.changed_table is not None:  # Hudi would drop, build or leave out what its client was not told of
            message = f"`{self.job.policy.name}` changed since its compaction began: {found.changed_table}"
            hint = "nothing was committed; run the same command again: it begins anew, by the table as it is now"
            raise RetryableError(Code.CANNOT_COMPACT_NOW, message, hint=hint)
        self._require_not_spoiled(found)
        since = min(found.rollbacks_beside - self._rolled_back_before, default=None)
        if since is not None:  # the plan stays: what writers have added since is in the slices that it begins
            message = f"a rollback at {since} takes back rows that the compaction of `{self.job.policy.name}` has read"
            hint = "nothing was committed; run this again: it begins anew, without them"
            raise RetryableError(Code.CANNOT_COMPACT_NOW, message, hint=hint)
        if self._deleting:
            self._refuse(self._overtaken())

    def _require_not_spoiled(self, files: AtCommit) -> None:
        """What rules object to the compaction that is about to be committed."""
        job = self.job
        self.last = self._read() if job.carries or not self._can_withdraw else self.last
        facts = Facts(
            job.policy,
            self.last,
            None,
            job.instant,
            job.operations,
            wrong_schema=files.wrong_schema,
            rolled_back=files.rolled_back,
        )
        found = first_objection(Moment.COMMIT, facts, spoils=True)
        if found is not None:
            message = f"the plan for `{job.policy.name}` was overtaken: {found.reason}"
            raise OvertakenError(Code.OVERTAKEN, message, frozenset(), hint=found.hint)

    def before_publishing(self) -> None:
        """Wait for writers that would overtake the plan: what it compacts beside them would be thrown away.

        What they have added by then makes the plan stale, which is looked at next.
        """
        if not self._deleting:
            return
        deadline = time.monotonic() + WRITER_WAIT_SECONDS
        while found := tuple(one for one in self._overtaken() if one.waits):
            if time.monotonic() > deadline:
                self._refuse(found)
                return
            time.sleep(_POLL_SECONDS)

    def writes_beside(self, completed: str | None) -> tuple[str, ...] | None:
        """Writes that began after the fence had let the compaction pass, and before it completed.

        Where a plan cannot be taken back the fence lets all pass, and these are all since it was made. None where the table
        cannot be read, or nobody knows when it completed: the compaction is completed all the same.
        """
        groups = self._deleting
        if not groups or sees_log_files(self.job.policy.writer.index, self.last.metadata_partitions):
            return ()
        if completed is None:
            return None
        known = (i.requested for i in self.last.instants if self._can_withdraw or i.requested < self.job.instant)
        try:
            return writes_beside(self.job.policy, groups, frozenset(known), self._read(), completed)
        except (EtcError, OSError):  # whoever looks again says what it was
            return None

    @property
    def _deleting(self) -> frozenset[GroupKey]:
        """The file groups that the rule is about; what they compact does not change."""
        return groups_with_deletes(self.job.operations, self.last)

    @property
    def _can_withdraw(self) -> bool:
        """Before table version 8 writers add to the slice that the plan begins, and would lose their rows without it."""
        return self.job.table_version in CUT_VERSIONS

    def _overtaken(self) -> tuple[Overtaken, ...]:
        self.last = self._read()
        return find_overtaken(self.job.policy, self.job.operations, self.last)

    def _refuse(self, found: tuple[Overtaken, ...]) -> None:
        if found and self._can_withdraw:
            more = f", and {count_of(len(found) - 1, 'more file group')} like it" if len(found) > 1 else ""
            message = f"the plan for `{self.job.policy.name}` was overtaken: {found[0].why}{more}"
            hint = "nothing was committed; plan again when its writers are at rest, for example in their job, between two batches"
            raise OvertakenError(Code.OVERTAKEN, message, frozenset(one.group for one in found), hint=hint)

    def _read(self) -> TableState:
        policy = self.job.policy
        return self.reader.read(self.job.base_path, policy.event_time, policy.writer.heartbeat_expiry_ms)
