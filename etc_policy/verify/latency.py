"""How late events really came in, from commit metadata and what was read of log files, and whether `data_latency` fits that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import Field

from etc_policy.policy.manifest import Frozen, LatencyEvidence, Policy
from etc_policy.policy.schema import LearnedLatency
from etc_policy.table.formats import count_of, format_duration, lateness, part_of
from etc_policy.table.history import GroupWrite, TableHistory
from etc_policy.table.impossible_times import (
    ColumnDoubt,
    by_commit,
    doubt_by_files,
    doubt_in,
    has_days_alone,
    mostly_late,
    old_data_ms,
    whole_days_ms,
    without_replay,
)
from etc_policy.table.instants import DAY_MS, instant_to_ms
from etc_policy.table.state import TableState

LatencyStatus = Literal["fits", "too_short", "generous", "unknown"]

#: Below so many writes no share of them says anything.
FEWEST_WRITES = 20
#: The share of writes that may bring late data before `data_latency` counts as too short.
LATE_SHARE = 0.01
#: A `data_latency` this many times the largest latency seen only costs freshness, if it is longer than what is suggested.
GENEROUS_TIMES = 2

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
#: Suggestions below the first are rounded up to whole multiples of the second.
_STEPS_MS = (
    (_MINUTE_MS, 10_000),
    (10 * _MINUTE_MS, _MINUTE_MS),
    (_HOUR_MS, 5 * _MINUTE_MS),
    (6 * _HOUR_MS, 30 * _MINUTE_MS),
    (2 * DAY_MS, _HOUR_MS),
)


class ObservedLatency(Frozen):
    """Completion time less smallest event time, over what each commit wrote to the log of each file group.

    So the quantiles are those of the latest row of each such write, not of single rows; `max_ms` is that of the latest
    row of all. Of `read_writes` the commits record no event time, and log files were read. `unknown_writes` have no known event
    time, `loaded_writes` held old data before the first that did not; both are not in it. `since_ms` is when the first
    write completed. With `of_days` all event times are midnights, and what is shown of them are whole days.
    """

    writes: int
    read_writes: int = 0
    unknown_writes: int
    loaded_writes: int = 0
    since_ms: int
    p50_ms: int
    p99_ms: int
    max_ms: int
    of_days: bool = Field(default=False, exclude=True)

    def shown_ms(self, latency_ms: int) -> int:
        """A latency as precisely as it is known."""
        return whole_days_ms(latency_ms) if self.of_days else latency_ms

    def __str__(self) -> str:
        most_ms = self.p99_ms if self.writes >= FEWEST_WRITES else None
        half_ms, worst_ms = self.shown_ms(self.p50_ms), self.shown_ms(self.max_ms)
        shown_ms = None if most_ms is None else self.shown_ms(most_ms)
        to = f" to log files{self.origin}"  # a commit makes as many as it has of them
        return lateness(self.writes, "write", half_ms, worst_ms, shown_ms, to)

    @property
    def origin(self) -> str:
        """How many event times are not from the commits, to be said behind the number of writes."""
        if not self.read_writes:
            return ""
        return f" ({'' if self.read_writes == self.writes else f'{self.read_writes} '}read from log files)"


class LatencyVerdict(Frozen):
    """A policy's `data_latency` against what was observed.

    `too_short`: more than 1 % of the writes brought rows later than declared, or most commits where there are few writes.
    `generous`: it is more than twice the largest seen. `unknown`: `reason` says why, and `observed` what the few writes show.
    `suggested_ms` covers 99 % of the writes, rounded up to a value that reads well; None where they are few.
    `arrivals` are when the commits after the table's first completed, each with an event in it.
    """

    declared_ms: int
    status: LatencyStatus
    reason: str | None = None
    observed: ObservedLatency | None = None
    late_share: float | None = None
    suggested_ms: int | None = None
    arrivals: tuple[tuple[int, int], ...] = Field(default=(), exclude=True)

    @property
    def covers(self) -> str:
        """Which share of the writes `suggested_ms` covers."""
        seen = self.observed
        return "99 % of" if seen is not None and seen.max_ms > (self.suggested_ms or 0) else "all of"

    @property
    def judged(self) -> ObservedLatency | None:
        """What was observed, where that is enough to say anything of a share of the writes."""
        return None if self.suggested_ms is None else self.observed


class _Write(NamedTuple):
    """What one commit wrote to the log of one file group; `is_read` says that its event time is not from the commit."""

    completed_ms: int
    event_ms: int | None
    is_read: bool = False

    @property
    def latency_ms(self) -> int:
        return max(0, self.completed_ms - (self.event_ms or 0))


def judge_latency(history: TableHistory, declared_ms: int, now_ms: int, untracked: str | None = None) -> LatencyVerdict:
    """The verdict over the writes that had completed at `now_ms`; rows in base files are in RO at once and do not count.

    Where commits record too few event times, those count that were read from log files: of the writes since the last of
    which nobody knows any, as those that are left of earlier ones are the ones that came early. Old data that were written
    before the first other write do not count either: they were loaded, or are replayed. `untracked` says why Hudi cannot
    record event times for this table.
    """
    first_ms = instant_to_ms(history.commits[0].completed, ZoneInfo(history.timezone)) if history.commits else 0
    found = [_judge(written, declared_ms, now_ms, untracked, first_ms) for written in _sources(history)]
    judged = [one for one in found if one.status != "unknown"]
    return next((one for one in judged if one.judged is not None), None) or next(iter(judged), found[-1])


def judge_table(
    policy: Policy, state: TableState, history: TableHistory, now_ms: int
) -> tuple[LatencyVerdict, ColumnDoubt | None]:
    """Whether `data_latency` fits the history, and what commits say against the event-time column.

    Nothing where the table's instants are of another zone than they are read in: all lags would be wrong by as much.
    """
    declared_ms = policy.data_latency_ms
    if state.zone_fault:
        return LatencyVerdict(declared_ms=declared_ms, status="unknown", reason=state.zone_fault), None
    verdict = judge_latency(history, declared_ms, now_ms, state.shape.untracked(policy.event_time))
    return verdict, column_doubt(policy, verdict, state)


def column_doubt(policy: Policy, verdict: LatencyVerdict, state: TableState) -> ColumnDoubt | None:
    """What commits say against the event-time column, by their history, or where that does not say by what files hold."""
    found = doubt_in(verdict.arrivals, policy.event_time, policy.data_latency_ms)
    if found is not None or verdict.judged is not None:
        return found
    return doubt_by_files(state, policy.event_time, policy.data_latency_ms)


def learn_latency(history: TableHistory, learned: LearnedLatency, now_ms: int) -> tuple[int, LatencyEvidence]:
    """A `data_latency` that the history had at `now_ms`, within the bounds of the policy, and what it rests on.

    It is that of the first of `judge_latency`'s sources that has enough writes, rounded up to a value that reads well; the
    longest that may be without one.
    """
    for written in _sources(history):
        judged = _worth_judging([one for one in written if one.completed_ms <= now_ms], learned.at_most_ms)
        if len(judged) >= FEWEST_WRITES:
            observed_ms = quantile(sorted(one.latency_ms for one in judged), learned.quantile)
            evidence = LatencyEvidence(
                writes=len(judged),
                read_writes=sum(one.is_read for one in judged),
                since_ms=judged[0].completed_ms,
                observed_ms=observed_ms,
            )
            return min(max(round_up_ms(observed_ms), learned.at_least_ms), learned.at_most_ms), evidence
    return learned.at_most_ms, LatencyEvidence()


def _sources(history: TableHistory) -> Iterator[list[_Write]]:
    """The writes in the order of completion, by what commits record, then, where log files were read, by these too."""
    zone = ZoneInfo(history.timezone)
    written = sorted(history.arrivals, key=lambda write: write.completed)
    yield [_Write(instant_to_ms(one.completed, zone), one.known_min_ms) for one in written]
    if history.read_times:
        yield [*_known_since(history, written, zone)][::-1]


def _known_since(history: TableHistory, written: Sequence[GroupWrite], zone: ZoneInfo) -> Iterator[_Write]:
    """The writes, the newest first, back to the last whose event times are neither recorded nor read."""
    for one in reversed(written):
        recorded_ms = one.known_min_ms
        if recorded_ms is None and one.key not in history.read_times:
            return
        event_ms = history.read_times.get(one.key) if recorded_ms is None else recorded_ms
        yield _Write(instant_to_ms(one.completed, zone), event_ms, is_read=recorded_ms is None)


def _judge(
    written: Sequence[_Write], declared_ms: int, now_ms: int, untracked: str | None, first_ms: int
) -> LatencyVerdict:
    """The verdict over writes in the order of completion; the table's first may have completed at `first_ms`."""
    seen = [one for one in written if one.completed_ms <= now_ms]
    known = [one for one in seen if one.event_ms is not None]
    judged = _worth_judging(seen, declared_ms)
    observed = _observed(judged, len(seen) - len(known), len(known) - len(judged)) if judged else None
    late_share = sum(one.latency_ms > declared_ms for one in judged) / len(judged) if judged else None
    later = tuple((one.completed_ms, one.event_ms or 0) for one in known if one.completed_ms > first_ms)
    verdict = LatencyVerdict(
        declared_ms=declared_ms,
        status="unknown",
        observed=observed,
        late_share=late_share,
        arrivals=later,
    )
    if observed is None or late_share is None or observed.writes < FEWEST_WRITES:
        reason = _too_few(len(written), len(seen), known, len(judged), untracked)
        is_late = mostly_late(by_commit(later), declared_ms) is not None
        return verdict.model_copy(update={"reason": reason, "status": "too_short" if is_late else "unknown"})
    status = _status(late_share, declared_ms, observed)
    suggested_ms = round_up_ms(observed.shown_ms(observed.p99_ms))
    return verdict.model_copy(update={"status": status, "suggested_ms": suggested_ms})


def _worth_judging(seen: Sequence[_Write], declared_ms: int) -> list[_Write]:
    """Those with a known event time, without old data before the first other one, and a replay of them that catches up."""
    old_ms = old_data_ms(declared_ms)
    known = [one for one in seen if one.event_ms is not None]
    commits = by_commit((one.completed_ms, one.event_ms or 0) for one in known)
    live = {one.completed_ms for one in without_replay(commits, declared_ms)}
    later = (one for one in known if one.completed_ms in live)
    return list(dropwhile(lambda write: write.latency_ms > old_ms, later))


def _observed(judged: Sequence[_Write], unknown: int, loaded: int) -> ObservedLatency:
    """What writes show, in the order of completion."""
    latencies = sorted(one.latency_ms for one in judged)
    return ObservedLatency(
        writes=len(judged),
        read_writes=sum(one.is_read for one in judged),
        unknown_writes=unknown,
        loaded_writes=loaded,
        since_ms=judged[0].completed_ms,
        p50_ms=quantile(latencies, 0.5),
        p99_ms=quantile(latencies, 0.99),
        max_ms=latencies[-1],
        of_days=has_days_alone(one.event_ms or 0 for one in judged),
    )


def _too_few(written: int, seen: int, known: Sequence[_Write], judged: int, untracked: str | None) -> str:
    """Why there is no judgement, where `judged` writes are left of those that were written, seen, and have known times."""
    if not written:
        return "no write to a log file yet"
    if not seen:
        return "no write had completed at the time that counts as now, as where old data are replayed"
    if known and not judged:
        least = format_duration(min(one.latency_ms for one in known))
        writes = count_of(len(known), "write")
        return f"all events are {least} old and older ({writes} to log files): how late new ones come does not show"
    if len(known) == judged == seen:  # how many they are is said by what they show
        return f"it takes {FEWEST_WRITES} writes to log files"
    loaded = f", {len(known) - judged} of them old data" if judged < len(known) else ""
    read = sum(one.is_read for one in known)
    origin = f" ({'' if read == len(known) else f'{read} '}read from the files)" if read else ""
    why = f" ({untracked})" if untracked and not read else ""
    has = "has" if seen == 1 else "have"
    of_seen = f"{part_of(len(known), seen, 'write')} to log files {has} known event times"
    return f"{of_seen}{origin}{why}{loaded}; it takes {FEWEST_WRITES}"


def quantile(ordered: Sequence[int], share: float) -> int:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def round_up_ms(duration_ms: int) -> int:
    """The duration rounded up to a step that reads well: 10 s, 1 min, 5 min, 30 min, 1 h, 1 d as it grows."""
    step_ms = next((step for below, step in _STEPS_MS if duration_ms <= below), DAY_MS)
    return max(step_ms, math.ceil(duration_ms / step_ms) * step_ms)


def _status(late_share: float, declared_ms: int, observed: ObservedLatency) -> LatencyStatus:
    if late_share > LATE_SHARE:
        return "too_short"
    enough_ms = max(GENEROUS_TIMES * observed.max_ms, round_up_ms(observed.p99_ms))
    return "generous" if declared_ms > enough_ms else "fits"
