"""The ports of execute and plan over memory: one table, whose states are given, and a record of every call in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from types import TracebackType

from etc_policy.errors import EngineError, RetryableError, TableError
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.plan.model import Operation, SplitSlice
from etc_policy.plan.split import SPLIT, split_text
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.ports import AtCommit, CommitGate, Job, Lease
from etc_policy.run.runner import Runner
from etc_policy.table.apply_state import ApplyState
from etc_policy.table.history import Commit, GroupWrite
from etc_policy.table.state import CUT_VERSIONS, Instant, TableState


@dataclass
class MemoryTable:
    """A table as its ports see it. Publishing, running and withdrawing change its state as Hudi would.

    `changes` are done to the state at its next readings, one each: what others do meanwhile. `cut_off` is a published plan
    whose commit has an empty file. `unsplittable` says why no log file can be split by record. `rolled_back` is a write of
    what is compacted that somebody takes back, `restore` a restore that has begun.
    """

    state: TableState
    calls: list[str] = field(default_factory=list)
    changes: list[Callable[[TableState], TableState]] = field(default_factory=list)
    plans: dict[str, tuple[tuple[Operation, ...], Mapping[str, str]]] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    left_lock: bool = False
    cut_off: str | None = None
    altered: str | None = None
    rolled_back: str | None = None
    restore: str | None = None
    changed_table: str | None = None
    mark: str | None = None
    unsplittable: str | None = None
    left_split: bool = False

    def runner(self, lease: Callable[[str], Lease] | None = None, compactor: MemoryCompactor | None = None) -> Runner:
        """A runner over this table."""
        engine = compactor or MemoryCompactor(self)
        return Runner(
            reader=MemoryReader(self),
            files=MemoryFiles(self),
            compactor=lambda: engine,
            lease=lease or (lambda _: MemoryLease(self)),
            progress=lambda _: None,
        )

    def put_plan(self, instant: str, operations: tuple[Operation, ...], extra: Mapping[str, str]) -> None:
        """A pending plan stands on the timeline."""
        self.plans[instant] = (operations, extra)
        ours = compaction_record(instant, instant, extra) is not None
        pending = (*self.state.instants, Instant(instant, "compaction", "requested"))
        self.state = replace(self.state, instants=pending, own_pending=instant if ours else self.state.own_pending)

    def put_commit(self, instant: str, completed: str, extra: Mapping[str, str], bytes_written: int = 5) -> None:
        """A completed compaction stands on the timeline."""
        rest = tuple(i for i in self.state.instants if i.requested != instant)
        done = Instant(instant, "commit", "completed", completed, frozenset())
        record = compaction_record(instant, completed, extra) or self.state.last_compaction
        self.state = replace(self.state, instants=(*rest, done), own_pending=None, last_compaction=record)
        written = GroupWrite(instant, completed, "p", "f", None, False, 1, log_files=0, bytes_written=bytes_written)
        self.commits[instant] = Commit(instant, completed, "commit", "COMPACT", (written,), extra=extra)

    def take_plan(self, instant: str) -> None:
        """The pending plan is gone."""
        rest = tuple(i for i in self.state.instants if i.requested != instant)
        self.state = replace(self.state, instants=rest, own_pending=None)


@dataclass(frozen=True)
class MemoryReader:
    """TableStateReader over a MemoryTable."""

    table: MemoryTable

    def read(self, base_path: str, event_time: EventTime, heartbeat_expiry_ms: int) -> TableState:
        self.table.calls.append("read")
        if self.table.cut_off is not None:
            raise TableError("ETC208", "timeline file is empty")
        if self.table.changes:
            self.table.state = self.table.changes.pop(0)(self.table.state)
        return self.table.state


@dataclass(frozen=True)
class MemoryFiles:
    """What `HudiFiles` does, over a MemoryTable."""

    table: MemoryTable

    def pending_job(self, policy: Policy, state: TableState, instant: str | None = None) -> Job:
        instant = instant or state.own_pending or ""
        operations, extra = self.table.plans[instant]
        return Job(policy, state.base_path, state.table_version, state.metadata_partitions, instant, operations, extra)

    def missing_files(self, job: Job) -> tuple[str, ...]:
        return self.table.missing

    def bytes_read(self, job: Job) -> int:
        return 7 * len((*job.base_paths, *job.log_paths))

    def remove_orphans(self, state: TableState) -> None:
        self.table.calls.append("remove orphans")
        self.table.state = replace(self.table.state, orphans=())

    def split(self, job: Job, state: TableState) -> Job:
        self.table.calls.append("split")
        if self.table.unsplittable:
            raise EngineError("ETC323", self.table.unsplittable)
        made = SplitSlice(inputs=(), remainder_bytes=7)
        operations = tuple(one.model_copy(update={"split": made}) for one in job.operations)
        return replace(job, operations=operations, extra_metadata={**job.extra_metadata, SPLIT: split_text(operations)})

    def has_left_split(self, base_path: str) -> bool:
        return self.table.left_split

    def discard_left(self, base_path: str) -> None:
        self.table.left_split = False

    def discard_split(self, job: Job) -> None:
        self.table.calls.append("discard")

    def writes_in_flight(self, base_path: str, heartbeat_expiry_ms: int) -> frozenset[str]:
        return frozenset(write.requested for write in self.table.state.writes_in_flight if write.may_live)

    def seconds_since_files(self, base_path: str, writes: Iterable[str]) -> tuple[float | None, ...]:
        return tuple(1.0 for _ in writes)

    def cut_off_job(self, policy: Policy, base_path: str) -> Job | None:
        if self.table.cut_off is None:
            return None
        return self.pending_job(policy, replace(self.table.state, own_pending=self.table.cut_off))

    def reopen(self, job: Job) -> None:
        self.table.calls.append("reopen")
        self.table.cut_off = None

    def completed_commit(self, base_path: str, instant: str) -> Commit | None:
        return self.table.commits.get(instant)

    def has_added(self, job: Job) -> bool:
        """Stock Hudi commits nothing of etc's."""
        return bool(self.table.commits[job.instant].extra)

    def wrong_schema(self, base_path: str, instant: str) -> str | None:
        return f"the table's schema was altered at {self.table.altered}" if self.table.altered else None

    def read_at_commit(self, job: Job) -> AtCommit:
        schema, restore = self.wrong_schema(job.base_path, job.instant), self.table.restore
        if job.table_version not in CUT_VERSIONS:
            done = (one.requested for one in self.table.state.instants if one.action == "rollback")
            return AtCommit(job.instant in self.table.commits, schema, None, restore, frozenset(done))
        taken = f"a rollback takes back the write at {self.table.rolled_back}" if self.table.rolled_back else None
        return AtCommit(
            job.instant in self.table.commits, schema, taken, restore, changed_table=self.table.changed_table
        )


@dataclass
class MemoryCompactor:
    """Compactor over a MemoryTable; `meanwhile` happens while a compaction runs, before its gate."""

    table: MemoryTable
    completed: str = "20260101120000000"
    meanwhile: Callable[[], None] = lambda: None
    loses_commit: bool = False
    jobs: list[Job] = field(default_factory=list)

    def publish(self, job: Job, require_fit: Callable[[], None], require_still_fit: Callable[[], None]) -> None:
        self.table.calls.append("lock")
        require_fit()
        self.table.calls.append("publish")
        self.table.put_plan(job.instant, job.operations, job.extra_metadata)
        try:
            require_still_fit()
        except Exception:
            self.withdraw(job)
            raise

    def run(self, job: Job, note_inflight: Callable[[], None], gate: CommitGate) -> None:
        self.table.calls.append("run")
        self.jobs.append(job)
        note_inflight()
        self.meanwhile()
        gate.before_lock()
        gate.under_lock()
        self.table.calls.append("commit")
        if not self.loses_commit:
            self.table.put_commit(job.instant, self.completed, job.extra_metadata)

    def withdraw(self, job: Job) -> None:
        self.table.calls.append("withdraw")
        self.table.take_plan(job.instant)

    def locked(self, job: Job) -> AbstractContextManager[None]:
        self.table.calls.append("lock")
        return nullcontext()


class MemoryApplyStates(dict[str, ApplyState]):
    """ApplyStateStore over memory."""

    def read(self, base_path: str) -> ApplyState:
        return self.get(base_path, ApplyState())

    def update(self, base_path: str, change: Callable[[ApplyState], ApplyState]) -> ApplyState:
        self[base_path] = change(self.read(base_path))
        return self[base_path]


@dataclass
class MemoryLease:
    """Lease over a MemoryTable; `held` by another, `alive` is the pending run, `expired` our own heartbeat."""

    table: MemoryTable
    held: bool = False
    alive: bool = False
    expired: bool = False

    def __enter__(self) -> MemoryLease:
        if self.held:
            raise RetryableError("ETC403", "held")
        self.table.calls.append("lease")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.table.calls.append("give back")

    def has_left_lock(self, policy: Policy) -> bool:
        return self.table.left_lock

    def remove_left_lock(self, policy: Policy) -> bool:
        self.table.calls.append("remove the lock")
        self.table.left_lock = False
        return True

    def mark(self, instant: str) -> None:
        self.table.calls.append("mark")
        self.table.mark = instant

    def note_inflight(self, instant: str) -> None:
        self.table.calls.append("begun")

    def wait_for_dead_run(self, instant: str, heartbeat_expiry_ms: int) -> None:
        self.table.calls.append("wait")
        if self.alive:
            raise RetryableError("ETC404", "alive")

    def require_alive(self, instant: str) -> None:
        self.table.calls.append("heartbeat")
        if self.expired:
            raise EngineError("ETC307", "expired")
