"""A plan that is made and committed while writers are kept out: what it may take, and what it teaches the next one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from etc_policy.errors import OvertakenError
from etc_policy.plan.hold import hold_bytes, next_hold_bytes, plan_bytes
from etc_policy.plan.model import TablePlan
from etc_policy.policy.manifest import Policy
from etc_policy.table.apply_state import ApplyState, ApplyStateStore


@dataclass
class Holding:
    """One hold of a table's lock, measured from its plan to its commit, or until it was overtaken."""

    policy: Policy
    store: ApplyStateStore
    max_bytes: int = 0
    _taken_bytes: int = 0
    _began: float = field(default_factory=time.monotonic)

    def __enter__(self) -> Holding:
        """Read what it may take."""
        self.max_bytes = hold_bytes(self.store.read(self.policy.table).hold_bytes, self.policy.writer.hold_ms)
        return self

    def begin(self) -> None:
        """The lock is taken."""
        self._began = time.monotonic()

    def take(self, table: TablePlan) -> None:
        """What the plan compacts is what the lock is held for."""
        self._taken_bytes = plan_bytes(table.operations)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Keep what it teaches; an error of something else teaches nothing."""
        if self._taken_bytes and (kind is None or issubclass(kind, OvertakenError)):
            self.store.update(self.policy.table, self._learned)

    def _learned(self, kept: ApplyState) -> ApplyState:
        took_ms = int((time.monotonic() - self._began) * 1000)
        after = next_hold_bytes(self.max_bytes, self._taken_bytes, took_ms, self.policy.writer.hold_ms)
        return replace(kept, hold_bytes=after)
