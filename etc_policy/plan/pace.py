"""How often runs come, and from when on an event may wait for no later one (just in time)."""

from __future__ import annotations

from pydantic import Field

from etc_policy.compile.manifest import Frozen, Policy
from etc_policy.declare.quantities import MAX_MS

#: So far a clock may have jumped back: below its threshold of before a table is not planned again. `clock_behind` refuses more.
_JUMP_MS = 60_000


class Pace(Frozen):
    """Runs that begin every `every_ms`, and a target of freshness.

    `run_ms` is what the last run took until its compaction was committed; where no run is known it is assumed to be as long as
    the interval. `published_ms` is the threshold of the table's last compaction by etc: an event up to there waits for nothing.
    """

    every_ms: int = Field(gt=0, le=MAX_MS)
    target_ms: int = Field(ge=0, le=MAX_MS)
    run_ms: int = Field(ge=0, le=MAX_MS)
    run_assumed: bool = False
    published_ms: int | None = None

    @property
    def needed_ms(self) -> int:
        """The shortest target that can be kept, beside `data_latency`."""
        return self.every_ms + self.run_ms

    def latest_ms(self, now_ms: int, data_latency_ms: int) -> int:
        """The event time up to which all has arrived; not before what was published, where the clock has jumped back."""
        latest_ms = now_ms - data_latency_ms
        if self.published_ms is not None and 0 < self.published_ms - latest_ms <= _JUMP_MS:
            return self.published_ms
        return latest_ms

    def due_up_to_ms(self, now_ms: int, data_latency_ms: int) -> int:
        """The event time up to which the next run would come too late, or that RO was said to hold."""
        due_ms = now_ms + self.needed_ms - self.target_ms
        if self.published_ms is not None:
            due_ms = max(due_ms, self.published_ms)
        return min(due_ms, self.latest_ms(now_ms, data_latency_ms))

    def due_at_ms(self, event_ms: int, data_latency_ms: int) -> int:
        """The time from which on a run has to compact an event."""
        return event_ms + max(data_latency_ms, self.target_ms - self.needed_ms)

    def leaves_no_room(self, data_latency_ms: int) -> bool:
        """Whether an event that arrives as late as it may can miss the target."""
        return self.target_ms < data_latency_ms + self.needed_ms


def has_pace(policy: Policy, every_ms: int | None) -> bool:
    """Whether an interval between runs is known, and what it is to keep."""
    paced = policy.strategy == "event_time" and (every_ms or policy.every_ms) is not None
    return paced and policy.freshness.target_ms is not None


def pace_of(policy: Policy, every_ms: int | None, run_ms: int | None, published_ms: int | None) -> Pace | None:
    """The pace of a policy with a target; `every_ms` wins over the policy's own. None where no interval is known."""
    interval_ms = every_ms or policy.every_ms
    if interval_ms is None or policy.freshness.target_ms is None or not has_pace(policy, every_ms):
        return None
    return Pace(
        every_ms=interval_ms,
        target_ms=policy.freshness.target_ms,
        run_ms=interval_ms if run_ms is None else run_ms,
        run_assumed=run_ms is None,
        published_ms=published_ms,
    )


def pace_again(policy: Policy, planned: Pace | None) -> Pace | None:
    """The pace of a plan that was made earlier, as its policy allows: the interval and the last run were what they were."""
    if planned is None:
        return pace_of(policy, None, None, None)
    run_ms = None if planned.run_assumed else planned.run_ms
    return pace_of(policy, planned.every_ms, run_ms, planned.published_ms)
