"""How late events really came in, from commit metadata alone, and whether the policy's `data_latency` fits that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import dropwhile
from typing import Literal
from zoneinfo import ZoneInfo

from etc_policy.policy.manifest import Frozen
from etc_policy.table.formats import format_duration
from etc_policy.table.history import TableHistory
from etc_policy.table.instants import instant_to_ms

LatencyStatus = Literal["fits", "too_short", "generous", "unknown"]

#: Below so many writes no share of them says anything.
FEWEST_WRITES = 20
#: The share of writes that may bring late data before `data_latency` counts as too short.
LATE_SHARE = 0.01
#: A `data_latency` this many times the largest latency seen only costs freshness.
GENEROUS_TIMES = 2
#: Rows are old data if they are older than both when they are written: this many days, and this many times `data_latency`.
OLD_DAYS, OLD_TIMES = 30, 10

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
    row of all. `unknown_writes` recorded no event time, `loaded_writes` held old data before the first that did not; both
    are not in it. `since_ms` is when the first write completed.
    """

    writes: int
    unknown_writes: int
    loaded_writes: int = 0
    since_ms: int
    p50_ms: int
    p99_ms: int
    max_ms: int


class LatencyVerdict(Frozen):
    """A policy's `data_latency` against what was observed.

    `too_short`: more than 1 % of the writes brought rows later than declared. `generous`: it is more than twice the
    largest seen. `unknown`: `reason` says why, and `observed` what the few writes show. `suggested_ms` covers 99 % of the
    writes, rounded up to a value that reads well; None where unknown.
    """

    declared_ms: int
    status: LatencyStatus
    reason: str | None = None
    observed: ObservedLatency | None = None
    late_share: float | None = None
    suggested_ms: int | None = None

    @property
    def judged(self) -> ObservedLatency | None:
        """What was observed, where that is enough to say anything of a share of the writes."""
        return None if self.status == "unknown" else self.observed


def judge_latency(history: TableHistory, declared_ms: int, now_ms: int) -> LatencyVerdict:
    """The verdict over the writes that had completed at `now_ms`; rows in base files are in RO at once and do not count.

    Old data that were written before the first other write do not count either: they were loaded, or are replayed.
    """
    zone = ZoneInfo(history.timezone)
    written = sorted(
        ((instant_to_ms(w.completed, zone), w.min_event_time_ms) for w in history.writes), key=lambda write: write[0]
    )
    seen = [(completed, event) for completed, event in written if completed <= now_ms]
    known = [(completed, max(0, completed - event)) for completed, event in seen if event is not None]
    old_ms = max(OLD_DAYS * _DAY_MS, OLD_TIMES * declared_ms)
    judged = list(dropwhile(lambda write: write[1] > old_ms, known))
    observed = _observed(judged, len(seen) - len(known), len(known) - len(judged)) if judged else None
    late_share = sum(latency > declared_ms for _, latency in judged) / len(judged) if judged else None
    if observed is None or late_share is None or observed.writes < FEWEST_WRITES:
        reason = _too_few(len(written), len(seen), [latency for _, latency in known], len(judged))
        return LatencyVerdict(
            declared_ms=declared_ms, status="unknown", reason=reason, observed=observed, late_share=late_share
        )
    return LatencyVerdict(
        declared_ms=declared_ms,
        status=_status(late_share, declared_ms, observed),
        observed=observed,
        late_share=late_share,
        suggested_ms=round_up_ms(observed.p99_ms),
    )


def _observed(judged: Sequence[tuple[int, int]], unknown: int, loaded: int) -> ObservedLatency:
    """What writes show, given as (completion, latency) in the order of completion."""
    latencies = sorted(latency for _, latency in judged)
    return ObservedLatency(
        writes=len(judged),
        unknown_writes=unknown,
        loaded_writes=loaded,
        since_ms=judged[0][0],
        p50_ms=quantile(latencies, 0.5),
        p99_ms=quantile(latencies, 0.99),
        max_ms=latencies[-1],
    )


def _too_few(written: int, seen: int, latencies_ms: Sequence[int], judged: int) -> str:
    """Why there is no judgement, where `judged` writes are left of those that were written, seen, and record times."""
    if not written:
        return "no write to a log file yet"
    if not seen:
        return "no write had completed at the time that counts as now, as where old data are replayed"
    if latencies_ms and not judged:
        least = format_duration(min(latencies_ms))
        return f"all {len(latencies_ms)} writes hold events {least} old and older, as where old data are loaded or replayed"
    kept = f"{len(latencies_ms)} of {seen} writes to log files record their event times"
    loaded = f", {len(latencies_ms) - judged} of them those of old data" if judged < len(latencies_ms) else ""
    return f"{kept}{loaded}, a judgement needs {FEWEST_WRITES}"


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
