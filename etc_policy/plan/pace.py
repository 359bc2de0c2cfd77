"""How often runs come, which events and slices may wait for a later run (just in time), and when the next one falls due."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from etc_policy.policy.manifest import Frozen, Policy
from etc_policy.policy.quantities import MAX_MS
from etc_policy.table.state import FileSlice, GroupKey, LogFile, TableState

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
    paced = policy.strategy.type == "event_time" and (every_ms or policy.strategy.every_ms) is not None
    paced = paced and policy.strategy.granularity != "record"  # there T is one for all slices, and as late as can be
    paced = paced and policy.strategy.at is None
    return paced and policy.freshness.target_ms is not None


def pace_of(policy: Policy, every_ms: int | None, run_ms: int | None, published_ms: int | None) -> Pace | None:
    """The pace of a policy with a target; `every_ms` wins over the policy's own. None where no interval is known."""
    interval_ms = every_ms or policy.strategy.every_ms
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


def threshold_in_time(
    pace: Pace, state: TableState, now_ms: int, data_latency_ms: int, at_once: frozenset[GroupKey]
) -> int:
    """T: the slices with an event at or below it are those that cannot wait, and RO is complete up to it once they are merged.

    What waits has only later events, so that this is never before the time from which on nothing may wait. An event time that
    is not known waits for nothing, and so does a slice that is compacted `at_once` whatever it holds.
    """
    due_ms, latest_ms = (bound(now_ms, data_latency_ms) for bound in (pace.due_up_to_ms, pace.latest_ms))
    waiting = (
        first
        for one in state.slices
        if one.group not in at_once and (first := _first_event(one)) is not None and first > due_ms
    )
    return min(min(waiting, default=latest_ms + 1) - 1, latest_ms)


def next_due_ms(pace: Pace, log_files: Iterable[LogFile], now_ms: int, data_latency_ms: int) -> int:
    """Until when no run is needed, if these log files are what is left and `data_latency` holds: one interval at least."""
    known = (one.min_event_time_ms for one in log_files if one.min_event_time_ms is not None)
    first_to_come_ms = now_ms - data_latency_ms + 1
    first_ms = min(min(known, default=first_to_come_ms), first_to_come_ms)
    return max(now_ms + pace.every_ms, pace.due_at_ms(first_ms, data_latency_ms))


def _first_event(file_slice: FileSlice) -> int | None:
    """The smallest event time; None without log files, and where the event time of one is unknown."""
    times = [log_file.min_event_time_ms for log_file in file_slice.log_files]
    known = [time_ms for time_ms in times if time_ms is not None]
    return min(known) if known and len(known) == len(times) else None
