"""Waits until RO is complete up to a time, or a partition is done, by reading metadata again and again.

That needs no JVM, except for a `db.table`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from glob import escape

from etc_policy.api.each_table import table_errors
from etc_policy.api.observing import freshness_of, with_learned_latencies
from etc_policy.errors import EtcError, Issue, PolicyError, RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.plan.rules import Passes, passing, why_unknown
from etc_policy.policy.manifest import Policy
from etc_policy.report.freshness import unreadable, with_partitions
from etc_policy.report.results import FreshnessReport, TableFreshness
from etc_policy.table.formats import format_duration, format_time, iso_time
from etc_policy.table.state import TableState
from etc_policy.wiring import Environment, clock_ms


@dataclass(frozen=True, slots=True)
class CompleteUntil:
    """RO holds every row with event time up to `until_ms`."""

    until_ms: int

    def __str__(self) -> str:
        return format_time(self.until_ms)

    def possible_from_ms(self, policy: Policy) -> int:
        """Before this no table of the policy can be so far: completeness never comes nearer to now than the data latency."""
        return policy.arrives_ms(self.until_ms)

    def look(self, policy: Policy, state: TableState, found: TableFreshness, now_ms: int) -> TableFreshness:
        """The table's freshness with what is to be known of it: all is there."""
        return found

    def is_reached(self, found: TableFreshness) -> bool:
        """Whether the table is so far."""
        return found.complete_until_ms is not None and found.complete_until_ms >= self.until_ms

    def progress(self, found: TableFreshness) -> str:
        """How far the table is."""
        return f"complete until {format_time(found.complete_until_ms)}"


@dataclass(frozen=True, slots=True)
class PartitionDone:
    """The partition is done: it has closed, and RO holds every row that `done.rows` asks for."""

    partition: str

    def __str__(self) -> str:
        return f"`{self.partition}`"

    def possible_from_ms(self, policy: Policy) -> int:
        """A partition closes when the data latency has passed since its end; one that must be quiet may be it already.

        Raises:
            PolicyError: by the policy it is never done.

        """
        span = policy.partition_time.clock.span(self.partition) if policy.partition_time else None
        if span is not None:
            return policy.arrives_ms(span.ends_ms)
        if policy.partition_idle_ms is not None:
            return 0
        timed = policy.partition_time
        reason = f"its path does not fit `{timed.pattern}`" if timed else "the policy does not say when partitions are"
        message = f"`{self.partition}` of `{policy.name}` is never done: {reason}"
        hint = None if timed else "for example `partition_time: {from: dt=%Y-%m-%d}`, or `partition_idle: 2h`"
        raise PolicyError([Issue(Code.NEVER_CLOSES, message, policy.place, hint)])

    def look(self, policy: Policy, state: TableState, found: TableFreshness, now_ms: int) -> TableFreshness:
        """The freshness of the partition too."""
        return with_partitions(found, policy, state, now_ms, [escape(self.partition).replace(".", "[.]")])

    def is_reached(self, found: TableFreshness) -> bool:
        """Whether it is done."""
        return any(one.status == "done" for one in found.partitions.partitions) if found.partitions else False

    def progress(self, found: TableFreshness) -> str:
        """What keeps it from being done."""
        one = next(iter(found.partitions.partitions), None) if found.partitions else None
        if one is None:
            return f"without a partition `{self.partition}`"
        if not one.log_files:
            return one.status or "open"
        held = f"complete until {format_time(one.complete_until_ms)}, held back by `{one.held_back_by}`"
        return f"{one.status} there, {held}"


Goal = CompleteUntil | PartitionDone


def wait_for(
    environment: Environment, policies: Sequence[Policy], goal: Goal, timeout_ms: int, poll_ms: int
) -> FreshnessReport:
    """The freshness of each table once all have reached the goal; raises as `Waiter.wait` does, with the same report."""
    waiter = Waiter(environment, goal, timeout_ms, max(poll_ms, 100))
    try:
        tables = waiter.wait(policies)
    except EtcError as error:
        error.report = FreshnessReport(observed_at=iso_time(clock_ms()), tables=waiter.last_seen(policies))
        raise
    return FreshnessReport(observed_at=iso_time(clock_ms()), tables=tables)


@dataclass
class Waiter:
    """Waits for tables, one reading of each per round; `now` and `sleep` are in milliseconds.

    `found` is what was last seen of each table, `unread` why the last reading of one gave nothing, and `suspected` what was wrong
    with it then.
    """

    environment: Environment
    goal: Goal
    timeout_ms: int
    poll_ms: int
    now: Callable[[], int] = clock_ms
    sleep: Callable[[int], None] = lambda milliseconds: time.sleep(milliseconds / 1000)
    found: dict[str, TableFreshness] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    suspected: dict[str, str | None] = field(default_factory=dict)
    deadline_ms: int = field(init=False, default=0)

    def last_seen(self, policies: Sequence[Policy]) -> tuple[TableFreshness, ...]:
        """The freshness of each table when it was last read; one that never was is unknown, with the reason."""
        return tuple(
            self.found.get(one.name) or unreadable(one, self.unread.get(one.name, "it was not read"))
            for one in policies
        )

    def wait(self, policies: Sequence[Policy]) -> tuple[TableFreshness, ...]:
        """The freshness of each table once all have reached the goal: what several reached one after the other is read again.

        Raises:
            RetryableError: the time ran out, or no wait of this length can be enough.
            TableError: a table cannot be read at all, or no waiting makes it known how far it is complete.
            PolicyError: by a policy the partition is never done.

        """
        self.deadline_ms = self.now() + self.timeout_ms
        for policy in policies:
            self._require_possible(policy)
        while True:
            reached = [one for one in policies if one.name in self.found and self.goal.is_reached(self.found[one.name])]
            left = [one for one in policies if one not in reached and not self._complete(one)]
            left = left or [one for one in reached if not self._complete(one)]  # late data may have come since
            if not left:
                return self.last_seen(policies)
            left_ms = self.deadline_ms - self.now()
            if left_ms <= 0:
                raise self._timed_out(left)
            possible_ms = min(map(self.goal.possible_from_ms, left)) - self.now()
            self.sleep(min(left_ms, max(self.poll_ms, possible_ms)))

    def _require_possible(self, policy: Policy) -> None:
        """Report at once where no waiting of this length can help."""
        earliest_ms = self.goal.possible_from_ms(policy)
        if earliest_ms <= self.deadline_ms:
            return
        after = ", which is after the timeout" if self.timeout_ms else ""
        message = f"`{policy.name}` cannot be complete up to {self.goal} before {format_time(earliest_ms)}{after}"
        latency = format_duration(policy.data_latency_ms)
        hint = f"events may arrive {latency} late (`data_latency`): wait longer, or for an earlier time"
        raise RetryableError(Code.WAIT_TOO_SHORT, message, hint=hint)

    def _complete(self, policy: Policy) -> bool:
        known = self.found.get(policy.name)
        try:
            with table_errors(policy):
                now_ms = self.now()  # what comes in while the table is read is not seen
                (policy,) = with_learned_latencies(self.environment, (policy,), now_ms)
                state = self.environment.read_state(policy)
                self._require_knowable(policy, state)
                found = freshness_of(policy, state, now_ms, clock_at_ms=self.now())
                found = self.goal.look(policy, state, found, now_ms)
        except EtcError as error:
            self.unread[policy.name] = error.with_cause
            if not isinstance(error, RetryableError):
                self.found.pop(policy.name, None)  # what was seen before is not so any more
                raise
            self.environment.progress(f"{policy.name}: {error.with_cause}")
            return False
        if known is None or self._progress(found) != self._progress(known):
            self.environment.progress(f"{policy.name}: {self._progress(found)}")
        self.found[policy.name] = found
        return self.goal.is_reached(found)

    def _require_knowable(self, policy: Policy, state: TableState) -> None:
        """Report what no waiting changes, and files that were missing twice; a writer's clock is reached by then, or never."""
        refusal = why_unknown(policy, state, self.deadline_ms)
        code, before = refusal.code if refusal else None, self.suspected.get(policy.name)
        self.suspected[policy.name] = code
        if refusal is not None and (code == before or passing(code) != Passes.NEXT_READING):
            message = f"waiting does not help: how far `{policy.name}` is complete cannot be known, as {refusal.reason}"
            raise TableError(Code.WAIT_IN_VAIN, message, hint=refusal.hint)

    def _timed_out(self, policies: Sequence[Policy]) -> RetryableError:
        seen = ((one.name, self.found.get(one.name)) for one in policies)
        late = "; ".join(
            f"`{name}` is {self._progress(one)}" if one else f"`{name}` could not be read" for name, one in seen
        )
        waited = f"waited {format_duration(self.timeout_ms)} for" if self.timeout_ms else "not there yet:"
        message = f"{waited} {self.goal}: {late}"
        held = next((f for p in policies if (f := self.found.get(p.name)) and f.held_back_by), None)
        hint = f"`etc plan --select {held.policy}` says what is due" if held else None
        return RetryableError(Code.WAIT_TIMED_OUT, message, hint=hint)

    def _progress(self, table: TableFreshness) -> str:
        if table.complete_until_ms is None:
            return f"of unknown completeness ({table.reason})"
        return self.goal.progress(table)
