"""Waits until RO is complete up to a time, by reading metadata again and again; no JVM, except for a `db.table`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from etc_policy.api.one_table import one_table
from etc_policy.api.proofs import freshness_of
from etc_policy.errors import EtcError, RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.plan.rules import Passes, passing, why_unknown
from etc_policy.policy.manifest import Policy
from etc_policy.report.freshness import unreadable
from etc_policy.report.results import FreshnessReport, TableFreshness
from etc_policy.table.formats import format_duration, format_time, iso_time
from etc_policy.table.state import TableState
from etc_policy.wiring import Environment, clock_ms


def _sleep(milliseconds: int) -> None:
    time.sleep(milliseconds / 1000)


def wait_for(
    environment: Environment, policies: Sequence[Policy], until_ms: int, timeout_ms: int, poll_ms: int
) -> FreshnessReport:
    """The freshness of each table once all are complete up to `until_ms`; raises as `Waiter.wait` does, with the same report."""
    waiter = Waiter(environment, until_ms, timeout_ms, max(poll_ms, 100))
    try:
        waiter.wait(policies)
    except EtcError as error:
        error.report = FreshnessReport(observed_at=iso_time(clock_ms()), tables=waiter.last_seen(policies))
        raise
    return FreshnessReport(observed_at=iso_time(clock_ms()), tables=waiter.last_seen(policies))


@dataclass
class Waiter:
    """Waits for tables, one reading of each per round; `now` and `sleep` are in milliseconds.

    `found` is what was last seen of each table, `unread` why the last reading of one gave nothing, and `suspected` what was wrong
    with it then.
    """

    environment: Environment
    until_ms: int
    timeout_ms: int
    poll_ms: int
    now: Callable[[], int] = clock_ms
    sleep: Callable[[int], None] = _sleep
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
        """The freshness of each table as it was when the table became complete up to `until_ms`.

        Raises:
            RetryableError: the time ran out, or no wait of this length can be enough.
            TableError: a table cannot be read at all, or no waiting makes it known how far it is complete.

        """
        self.deadline_ms = self.now() + self.timeout_ms
        self._require_possible(policies)
        while True:
            open_ones = [policy for policy in policies if not self._complete(policy)]
            if not open_ones:
                return self.last_seen(policies)
            left_ms = self.deadline_ms - self.now()
            if left_ms <= 0:
                raise self._timed_out(open_ones)
            self.sleep(min(left_ms, max(self.poll_ms, self._until_possible_ms(open_ones))))

    def _require_possible(self, policies: Sequence[Policy]) -> None:
        """Completeness never comes nearer to now than the data latency: report at once where no waiting can help."""
        for policy in policies:
            earliest_ms = self.until_ms + policy.data_latency_ms
            if earliest_ms > self.deadline_ms:
                latency = format_duration(policy.data_latency_ms)
                message = (
                    f"`{policy.name}` cannot be complete up to {format_time(self.until_ms)} "
                    f"before {format_time(earliest_ms)}, which is after the timeout"
                )
                hint = f"events may arrive {latency} late (`data_latency`): wait longer, or for an earlier time"
                raise RetryableError(Code.WAIT_TOO_SHORT, message, hint=hint)

    def _until_possible_ms(self, policies: Sequence[Policy]) -> int:
        """How long no table can become complete, whatever is compacted."""
        return min(self.until_ms + policy.data_latency_ms for policy in policies) - self.now()

    def _complete(self, policy: Policy) -> bool:
        known = self.found.get(policy.name)
        if known is not None and _reaches(known, self.until_ms):
            return True
        try:
            with one_table(policy):
                state, now_ms = self.environment.read_state(policy), self.now()
                self._require_knowable(policy, state)
                found = freshness_of(policy, state, now_ms, clock_at_ms=now_ms)
        except EtcError as error:
            self.unread[policy.name] = error.with_cause
            if not isinstance(error, RetryableError):
                self.found.pop(policy.name, None)  # what was seen before is not so any more
                raise
            self.environment.progress(f"{policy.name}: {error.with_cause}")
            return False
        if known is None or found.complete_until_ms != known.complete_until_ms:
            self.environment.progress(f"{policy.name}: {_progress(found)}")
        self.found[policy.name] = found
        return _reaches(found, self.until_ms)

    def _require_knowable(self, policy: Policy, state: TableState) -> None:
        """Report what no waiting changes, and files that were missing twice; a writer's clock is reached by then, or never."""
        refusal = why_unknown(policy, state, self.deadline_ms)
        code, before = refusal.code if refusal else None, self.suspected.get(policy.name)
        self.suspected[policy.name] = code
        if refusal is not None and (code == before or passing(code) != Passes.NEXT_READING):
            message = f"waiting does not help: how far `{policy.name}` is complete cannot be known, as {refusal.reason}"
            raise TableError(Code.WAIT_IN_VAIN, message, hint=refusal.hint)

    def _timed_out(self, policies: Sequence[Policy]) -> RetryableError:
        late = "; ".join(f"`{policy.name}` {self._short_of(policy)}" for policy in policies)
        message = f"waited {format_duration(self.timeout_ms)} for {format_time(self.until_ms)}: {late}"
        held = next((f for p in policies if (f := self.found.get(p.name)) and f.held_back_by), None)
        hint = f"`etc plan --select {held.policy}` says what is due" if held else None
        return RetryableError(Code.WAIT_TIMED_OUT, message, hint=hint)

    def _short_of(self, policy: Policy) -> str:
        found = self.found.get(policy.name)
        return "could not be read" if found is None else f"is {_progress(found)}"


def _reaches(table: TableFreshness, until_ms: int) -> bool:
    return table.complete_until_ms is not None and table.complete_until_ms >= until_ms


def _progress(table: TableFreshness) -> str:
    if table.complete_until_ms is None:
        return f"of unknown completeness ({table.reason})"
    return f"complete until {format_time(table.complete_until_ms)}"
