"""The compaction engine and the lease as `etc apply` sees them, and the job that they work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from etc_policy.plan.model import Operation
from etc_policy.policy.manifest import Policy
from etc_policy.run.lock_hold import LockHold
from etc_policy.table.state import newest_base_file, path_below


@dataclass(frozen=True, slots=True)
class Job:
    """One compaction to publish or to finish: where, when (`instant` is C), what, and what is committed beside the data.

    `metadata_partitions` are the table's own: the engine must neither drop nor build any (facts: mirror-options).
    `partitions_with_logs` have log files as the plan is published. `base_file` is the table's newest base file, where no
    operations name one. `hold` is the table's lock, where it is held for the whole job. `in_changelog_mode` is as that of the
    table's state.
    """

    policy: Policy
    base_path: str
    table_version: int
    metadata_partitions: tuple[str, ...]
    instant: str
    operations: tuple[Operation, ...] = ()
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    partitions_with_logs: tuple[str, ...] = ()
    base_file: str | None = None
    hold: LockHold | None = None
    in_changelog_mode: bool = False

    @property
    def model_file(self) -> str | None:
        """The newest base file that is compacted, or else the table's, as a path below it: new ones are written like it."""
        return newest_base_file(self.operations) or self.base_file

    @property
    def base_paths(self) -> tuple[str, ...]:
        """The base files that are compacted, as paths below the table."""
        return tuple(path_below(one.partition, one.base_file) for one in self.operations if one.base_file)

    @property
    def log_paths(self) -> tuple[str, ...]:
        """The log files that are compacted, as paths below the table."""
        return tuple(path_below(one.partition, name) for one in self.operations for name in one.log_files_compacted)

    @property
    def carries(self) -> bool:
        """Whether log files are added to the slices that it begins: carried ones (table version 6), or split off rows."""
        return any(operation.adds_log_files for operation in self.operations)

    @property
    def splits(self) -> bool:
        """Whether log files are split by record before the plan is published."""
        return any(operation.remainder for operation in self.operations)


class AtCommit(NamedTuple):
    """What one listing of the timeline says right before a commit: whether the compaction has completed; else why Hudi would
    not merge by the table's schema, and which rollback takes what was merged, each as a clause, and a restore that is at work.

    These two spoil the plan. `rollbacks_beside` are those on table version 6 that take rows of the slices that are merged: the
    plan stays, as a compaction that begins once they have completed leaves these rows out. `changed_table` says what the table
    has become that the engine does not mirror.
    """

    is_completed: bool
    wrong_schema: str | None = None
    rolled_back: str | None = None
    restore: str | None = None
    rollbacks_beside: frozenset[str] = frozenset()
    changed_table: str | None = None


class CommitGate(Protocol):
    """What is asked between a compaction's work and its commit; both raise to refuse."""

    def before_lock(self) -> None:
        """All is done but the commit: it waits here for writers, and refuses where they do not end."""

    def under_lock(self) -> None:
        """The last question, under the table's lock."""


class Compactor(Protocol):
    """Publishes and runs compactions. Every method raises EngineError with the engine's own words."""

    def publish(self, job: Job, require_fit: Callable[[], None], require_still_fit: Callable[[], None]) -> None:
        """Write the plan under the table's lock; the first is called before, the second afterwards, and both raise to refuse."""

    def run(self, job: Job, note_inflight: Callable[[], None], gate: CommitGate) -> None:
        """Execute the published plan and commit it with its metadata, past the gate; `note_inflight`: it is inflight now."""

    def withdraw(self, job: Job) -> None:
        """Take back a published plan that has not completed, through the engine's own rollback where it was begun."""

    def locked(self, job: Job) -> AbstractContextManager[None]:
        """The table's lock, held."""


class Lease(Protocol):
    """At most one `etc apply` works on a table at a time."""

    def __enter__(self) -> Lease:
        """Take the lease; raises RetryableError when another process has it."""

    def __exit__(self, *_: object) -> None:
        """Give it back."""

    def has_left_lock(self, policy: Policy) -> bool:
        """Whether another process of etc holds the table's lock; left behind, if this lease can be taken."""

    def remove_left_lock(self, policy: Policy) -> bool:
        """Remove the table's lock that a killed run of etc has left, under this lease; whether there was one."""

    def mark(self, instant: str) -> None:
        """Note that this process begins to run the compaction at `instant`, for whoever takes the lease next."""

    def note_inflight(self, instant: str) -> None:
        """Note that the run of `instant` which is inflight now is this process's own, and not one that has taken it over."""

    def wait_for_dead_run(self, instant: str, heartbeat_expiry_ms: int) -> None:
        """Return once no run of `instant` shows a sign of life; raises RetryableError when one does.

        A writer's is dead once it has shown none for `heartbeat_expiry_ms`.
        """

    def require_alive(self, instant: str) -> None:
        """Return while our own run of `instant` may commit; raises EngineError when another may have taken over."""
