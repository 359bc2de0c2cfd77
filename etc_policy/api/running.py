"""The rounds of `etc run`: which tables are planned when, and which of them are worked on within the budget.

What is kept in memory is when to look at a table again, how it was when nothing was due, and what the last hour has used: a
process that begins anew looks at all tables, and has its whole budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from etc_policy.api.each_table import each_table
from etc_policy.errors import ExitCode
from etc_policy.plan.fleet import Allowance, by_debt
from etc_policy.plan.model import Plan, TablePlan
from etc_policy.plan.simulation import ASSUMED_RUN_MS
from etc_policy.policy.manifest import Policy
from etc_policy.run.results import TableResult
from etc_policy.table.apply_state import ApplyState
from etc_policy.wiring import Environment

#: After failures in a row a table waits so long at most, unless runs come more rarely anyway.
LONGEST_WAIT_MS = 3_600_000
#: What a compaction writes counts so many times what it reads at most. What it reads is measured; how much one wrote, and what is
#: learned of that, any writer of the table may change in its commits.
_MOST_WRITTEN = 8
#: By its name, what decides about it, and what is done after it: a policy that was changed is a new one.
_Key = tuple[str, str, str]
#: What is another one once a table has changed.
Mark = tuple[str, ApplyState]


@dataclass
class Rounds:
    """When each table is due again, and the budget of all tables; times are epoch ms."""

    every_ms: int
    bytes_left: Allowance = field(default_factory=lambda: Allowance(None))
    ms_left: Allowance = field(default_factory=lambda: Allowance(None))
    waiting: tuple[str, ...] = ()
    _clock_ms: int = 0
    _due_ms: dict[_Key, int] = field(default_factory=dict)
    _failures: dict[_Key, int] = field(default_factory=dict)
    _unsynced: set[_Key] = field(default_factory=set)
    _faults: dict[_Key, frozenset[tuple[str, ...]]] = field(default_factory=dict)
    _run_ms: dict[str, int] = field(default_factory=dict)
    _idle: dict[_Key, tuple[TablePlan, Mark, int]] = field(default_factory=dict)
    _used: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take_back(self, policies: Iterable[Policy], marks: Mapping[str, Mark], now_ms: int) -> None:
        """Let tables be due of which something was found since the last look, as by `etc verify`: the catalog says too much.

        What failed is tried again anyway.
        """
        for policy in policies:
            if policy.name not in marks:
                continue
            key, faults = _key(policy), marks[policy.name][1].faults
            if faults - self._faults.get(key, faults):
                self._unsynced.add(key)
                if not self._failures.get(key):
                    self._due_ms[key] = now_ms
            self._faults[key] = faults

    def due(self, policies: Iterable[Policy], now_ms: int) -> tuple[Policy, ...]:
        """The policies whose tables are to be planned now; new ones and changed ones are."""
        self._read_clock(now_ms)
        known = {_key(one): one for one in policies}
        self._due_ms = {key: due_ms for key, due_ms in self._due_ms.items() if key in known}
        self._failures = {key: count for key, count in self._failures.items() if key in known}
        self._faults = {key: found for key, found in self._faults.items() if key in known}
        self._idle = {key: found for key, found in self._idle.items() if key in known}
        return tuple(one for key, one in known.items() if self._due_ms.get(key, now_ms) <= now_ms)

    def to_plan(self, due: Iterable[Policy], marks: Mapping[str, Mark], now_ms: int) -> tuple[Policy, ...]:
        """Those of the due policies whose tables have to be planned: all but those where nothing is due, as surely as it was.

        There the last plan knew all event times and found nothing due, nothing has happened on the table since by its mark,
        and T has not come to what is left there. After an hour it is planned all the same: files may have been lost.
        """
        found = []
        for policy in due:
            table, mark, planned_ms = self._idle.get(_key(policy), (None, None, 0))
            is_same = mark is not None and marks.get(policy.name) == mark and now_ms - planned_ms < LONGEST_WAIT_MS
            is_same = is_same and _key(policy) not in self._unsynced
            if table is not None and is_same and _leaves_nothing_due(table, policy, now_ms):
                self._due_ms[_key(policy)] = now_ms + self.every_ms
            else:
                found.append(policy)
        return tuple(found)

    def chosen(self, plan: Plan, policies: Sequence[Policy], now_ms: int, marks: Mapping[str, Mark]) -> tuple[str, ...]:
        """The policies whose tables are worked on in this round, those first that break their target first.

        These are all that would be compacted, as far as the budget reaches, that are refused, and where something else is to be
        done (`_is_owed`). `waiting` is what the budget leaves out.
        `marks` were read before the plan was made, by the policies' names.
        """
        by_name = {one.name: one for one in policies}
        compact = [(one, by_name[one.policy].freshness.target_ms) for one in plan.tables if one.action == "compact"]
        chosen, waiting, self._used = list[str](), list[str](), {}
        for table in by_debt(compact):
            if self._budget_in_ms(now_ms):
                waiting.append(table.policy)
                continue
            self._take(table, now_ms)
            chosen.append(table.policy)
        for table in plan.tables:
            policy = by_name[table.policy]
            if table.action == "refused" or (table.action != "compact" and self._is_owed(policy)):
                chosen.append(table.policy)
            elif table.action != "compact":
                self._due_ms[_key(policy)] = table.next_due_ms or now_ms + self.every_ms
                if policy.name in marks:
                    self._idle[_key(policy)] = table, marks[policy.name], now_ms
        self.waiting = tuple(waiting)
        return tuple(chosen)

    def _is_owed(self, policy: Policy) -> bool:
        """Whether something is to be done where nothing is to be compacted.

        That is what a killed run has left of a table that this process has not seen, a verification that failed, a record in the
        catalog that failed or says too much, and events of partitions.
        """
        key = _key(policy)
        return (
            key not in self._due_ms or bool(self._failures.get(key)) or key in self._unsynced or policy.done is not None
        )

    def note(self, policies: Iterable[Policy], results: Iterable[TableResult], began_ms: int, now_ms: int) -> None:
        """Take what came of a round for the tables that were chosen: what it used, and when they are due again."""
        self._read_clock(now_ms)
        found = {one.policy: one for one in results}
        for policy in policies:
            result, key = found.get(policy.name), _key(policy)
            self._settle(policy.name, result, now_ms)
            self._unsynced.discard(key)
            if result is not None and result.sync is not None and result.sync.status == "failed":
                self._unsynced.add(key)
            self._failures[key] = self._failures.get(key, 0) + 1 if result is None or _has_failed(result) else 0
            self._due_ms[key] = began_ms + self.every_ms
            if failures := self._failures[key]:
                self._due_ms[key] = now_ms + min(
                    self.every_ms << min(failures, 32), max(LONGEST_WAIT_MS, self.every_ms)
                )
            elif result is not None and result.next_due_ms is not None and not self._is_owed(policy):
                self._due_ms[key] = result.next_due_ms

    @property
    def is_failing(self) -> bool:
        """Whether what failed was not tried again yet, or failed again."""
        return any(self._failures.values())

    def next_ms(self, now_ms: int) -> int:
        """When the next round begins: when a table is due, or the budget allows what waits; after `every_ms` at the latest."""
        due_ms = min(self._due_ms.values(), default=now_ms + self.every_ms)
        if self.waiting:
            due_ms = max(due_ms, now_ms + max(self._budget_in_ms(now_ms), 1))
        return min(due_ms, now_ms + self.every_ms)

    def _read_clock(self, now_ms: int) -> None:
        """Where the clock was set back all tables are due: what was noted by it may lie far ahead."""
        if now_ms < self._clock_ms:
            self._due_ms, self._idle = dict.fromkeys(self._due_ms, now_ms), {}
        self._clock_ms = now_ms

    def _budget_in_ms(self, now_ms: int) -> int:
        return max(self.bytes_left.ready_in_ms(now_ms), self.ms_left.ready_in_ms(now_ms))

    def _take(self, table: TablePlan, now_ms: int) -> None:
        """Count what the plan expects."""
        moved = sum(_moved(one.bytes_read, one.bytes_written_estimate) for one in table.operations)
        self._used[table.policy] = moved, self._run_ms.get(table.policy, ASSUMED_RUN_MS)
        self._use(*self._used[table.policy], now_ms)

    def _settle(self, name: str, result: TableResult | None, now_ms: int) -> None:
        """Count what it was instead."""
        expected = self._used.pop(name, (0, 0))
        moved = _moved(result.bytes_read, result.bytes_written) if result else 0
        run_ms = round(result.run_seconds * 1000) if result else 0
        self._use(moved - expected[0], run_ms - expected[1], now_ms)
        if run_ms:
            self._run_ms[name] = run_ms

    def _use(self, moved_bytes: int, run_ms: int, now_ms: int) -> None:
        self.bytes_left.use(moved_bytes, now_ms)
        self.ms_left.use(run_ms, now_ms)


def _moved(bytes_read: int, bytes_written: int) -> int:
    return bytes_read + min(max(bytes_written, 0), _MOST_WRITTEN * bytes_read)


def _key(policy: Policy) -> _Key:
    return policy.name, policy.fingerprint, policy.model_dump_json(include={"done", "sync", "partition_idle_ms"})


def _leaves_nothing_due(table: TablePlan, policy: Policy, now_ms: int) -> bool:
    """Whether nothing is due by then of a table that has not changed since this plan, where event times alone decide that."""
    if policy.is_stock or policy.strategy.on_close or policy.learned_latency is not None or policy.done is not None:
        return False
    left_from_ms = table.watermark_before_ms  # RO is complete up to there
    is_known = table.action == "nothing_due" and table.unknown_log_files == 0
    return is_known and (left_from_ms is None or policy.latest_ms(now_ms) <= left_from_ms)


def marks_of(environment: Environment, policies: Iterable[Policy]) -> dict[str, Mark]:
    """The mark of each policy's table, by the policy's name; one that cannot be read has none, and its plan says why."""
    chosen = tuple(policies)

    def read(policy: Policy) -> Mark | None:
        return environment.read_mark(policy)

    marks, _ = each_table(environment, chosen, read, lambda *_: None)
    return {policy.name: mark for policy, mark in zip(chosen, marks, strict=True) if mark is not None}


def _has_failed(result: TableResult) -> bool:
    verdict = result.verification
    return result.status == "failed" or (verdict is not None and verdict.exit_code != ExitCode.DONE)
