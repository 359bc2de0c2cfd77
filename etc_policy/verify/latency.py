"""How late events really came in, from commit metadata alone, and whether the policy's `data_latency` fits that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal
from zoneinfo import ZoneInfo

from etc_policy.compile.manifest import Frozen
from etc_policy.plan.instants import instant_to_ms
from etc_policy.plan.table_history import TableHistory

LatencyStatus = Literal["fits", "too_short", "generous", "unknown"]

#: Below so many writes no share of them says anything.
FEWEST_WRITES = 20
#: The share of writes that may bring late data before `data_latency` counts as too short.
LATE_SHARE = 0.01
#: A `data_latency` this many times the largest latency seen only costs freshness.
GENEROUS_TIMES = 2

_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
#: Suggestions below the first are rounded up to whole multiples of the second.
_STEPS_MS = (
    (_MINUTE_MS, 10_000),
    (10 * _MINUTE_MS, _MINUTE_MS),
    (_HOUR_MS, 5 * _MINUTE_MS),
    (6 * _HOUR_MS, 30 * _MINUTE_MS),
    (2 * _DAY_MS, _HOUR_MS),
)


class ObservedLatency(Frozen):
    """Completion time less smallest event time, over what each commit wrote to the log of each file group.

    So the quantiles are those of the latest row of each such write, not of single rows; `max_ms` is that of the latest
    row of all. `unknown_writes` recorded no event time and are not in it. `since_ms` is when the first write completed.
    """

    writes: int
    unknown_writes: int
    since_ms: int
    p50_ms: int
    p99_ms: int
    max_ms: int


class LatencyVerdict(Frozen):
    """A policy's `data_latency` against what was observed.

    `too_short`: more than 1 % of the writes brought rows later than declared. `generous`: it is more than twice the
    largest seen. `suggested_ms` covers 99 % of the writes, rounded up to a value that reads well; None where unknown.
    """

    declared_ms: int
    status: LatencyStatus
    reason: str | None = None
    observed: ObservedLatency | None = None
    late_share: float | None = None
    suggested_ms: int | None = None


def judge_latency(history: TableHistory, declared_ms: int, now_ms: int) -> LatencyVerdict:
    """The verdict over the writes that had completed at `now_ms`; rows in base files are in RO at once and do not count."""
    zone = ZoneInfo(history.timezone)
    written = [(instant_to_ms(w.completed, zone), w.min_event_time_ms) for w in history.writes]
    seen = [(completed, event) for completed, event in written if completed <= now_ms]
    latencies = sorted(max(0, completed - event) for completed, event in seen if event is not None)
    if len(latencies) < FEWEST_WRITES:
        kept = f"{len(latencies)} of {len(seen)} writes to log files record their event times"
        reason = f"{kept}, fewer than the {FEWEST_WRITES} that a judgement needs"
        return LatencyVerdict(declared_ms=declared_ms, status="unknown", reason=reason)
    observed = ObservedLatency(
        writes=len(latencies),
        unknown_writes=len(seen) - len(latencies),
        since_ms=min(completed for completed, _ in seen),
        p50_ms=quantile(latencies, 0.5),
        p99_ms=quantile(latencies, 0.99),
        max_ms=latencies[-1],
    )
    late_share = sum(latency > declared_ms for latency in latencies) / len(latencies)
    return LatencyVerdict(
        declared_ms=declared_ms,
        status=_status(late_share, declared_ms, observed),
        observed=observed,
        late_share=late_share,
        suggested_ms=round_up_ms(observed.p99_ms),
    )


def quantile(ordered: Sequence[int], share: float) -> int:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def round_up_ms(duration_ms: int) -> int:
    """The duration rounded up to a step that reads well: 10 s, 1 min, 5 min, 30 min, 1 h, 1 d as it grows."""
    step_ms = next((step for below, step in _STEPS_MS if duration_ms <= below), _DAY_MS)
    return max(step_ms, math.ceil(duration_ms / step_ms) * step_ms)


def _status(late_share: float, declared_ms: int, observed: ObservedLatency) -> LatencyStatus:
    if late_share > LATE_SHARE:
        return "too_short"
    return "generous" if declared_ms > GENEROUS_TIMES * max(observed.max_ms, 1) else "fits"
