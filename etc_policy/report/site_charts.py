"""The series of the site's charts: how far RO was complete at each moment, and what each run wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from etc_policy.policy.manifest import Policy
from etc_policy.table.completeness import CompletenessPoint, replay_completeness
from etc_policy.table.history import TableHistory, promises_in
from etc_policy.table.watermark import complete_until_ms

#: Points that one chart draws at most: the newest.
MAX_POINTS = 1_500

SPARK_WIDTH, SPARK_HEIGHT = 120, 28


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """One point of a table's past; times are epoch milliseconds, `now_ms` is what counted as now at `at_ms`.

    `complete_until_ms` is None where it is not known. A point with a `mark` is a commit that changed something: `run`
    (a compaction by etc), `foreign` (one by others) or `late` (it brought events below the last threshold).
    """

    at_ms: int
    now_ms: int
    complete_until_ms: int | None
    threshold_ms: int | None
    open_log_files: int
    assumed: bool = False
    mark: str = ""
    late_by_ms: int = 0

    @property
    def lag_ms(self) -> int | None:
        """How far completeness lay behind what counted as now."""
        return None if self.complete_until_ms is None else max(0, self.now_ms - self.complete_until_ms)


@dataclass(frozen=True, slots=True)
class Past:
    """A table's past, oldest first; `shift_ms` is not 0 where old events are replayed, so that now is not the clock's."""

    moments: tuple[ChartPoint, ...] = ()
    shift_ms: int = 0
    cut_short: bool = False
    policy: Policy | None = None

    @property
    def assumed(self) -> bool:
        """Whether a part of the line rests on the promise on latency, as event times there are not known."""
        return any(moment.assumed for moment in self.moments)

    def at_most_now(self, until_ms: int | None) -> Past:
        """The same where RO counts as complete up to then now, whatever commits say; None where nobody knows."""
        if not self.moments:
            return self
        *before, last = self.moments
        known = [one for one in (until_ms, last.complete_until_ms) if one is not None]
        last = replace(last, complete_until_ms=min(known) if len(known) == 2 else None)
        return replace(self, moments=(*before, last))


@dataclass(frozen=True, slots=True)
class Sparkline:
    """The points of an SVG polyline of 120 by 28, newest at the right, and how high the target lies."""

    points: str
    target_y: str | None


def table_past(policy: Policy, history: TableHistory, observed_ms: int) -> Past:
    """The past of a table up to `observed_ms`, as far as the history has its event times.

    Where `observed_ms` lies before the first commit the events are a replay of older ones: each moment then counts as
    long before `observed_ms` as it lies before the last commit.
    """
    points = replay_completeness(promises_in(policy, history), policy.longest_latency_ms)
    if not points:
        return Past(policy=policy)
    last_ms, own = points[-1].at_ms, {run.instant for run in history.runs}
    shift_ms = 0 if observed_ms >= points[0].at_ms else observed_ms - last_ms
    changes = list(_changes(points))
    kept = changes[-(MAX_POINTS // 2) :]
    ends_ms = [*(point.at_ms - 1 for point in kept[1:]), max(observed_ms - shift_ms, last_ms)]
    moments = list[ChartPoint]()
    for point, end_ms in zip(kept, ends_ms, strict=True):  # two for each, so that lines run straight in between
        by = "run" if point.instant in own else "foreign"
        mark = by if point.compaction else "late" if point.late_groups else ""
        moments.append(_moment(point, point.at_ms, policy.data_latency_ms, shift_ms, mark))
        if end_ms > point.at_ms:
            moments.append(_moment(point, end_ms, policy.data_latency_ms, shift_ms))
    return Past(tuple(moments), shift_ms, len(kept) < len(changes) or not history.complete, policy)


def _moment(point: CompletenessPoint, at_ms: int, latency_ms: int, shift_ms: int, mark: str = "") -> ChartPoint:
    now_ms = at_ms + shift_ms
    until_ms = complete_until_ms(point.watermark_ms, now_ms, latency_ms) if point.known else None
    late_ms = point.late_by_ms if mark else 0
    return ChartPoint(at_ms, now_ms, until_ms, point.threshold_ms, point.open_log_files, point.assumed, mark, late_ms)


def _changes(points: Sequence[CompletenessPoint]) -> Iterator[CompletenessPoint]:
    """The points at which a line bends or has a mark, and the last."""
    before = None
    for point in points:
        shape = (point.watermark_ms, point.known, point.threshold_ms)
        if shape != before or point.compaction or point.late_groups or point is points[-1]:
            yield point
        before = shape


def completeness_chart(past: Past) -> dict[str, object]:
    """What the page draws: seconds on the x axis, `complete` and `threshold` as event times in seconds."""
    freshness = past.policy.freshness if past.policy else None
    moments = past.moments
    return {
        "x": [_seconds(m.at_ms) for m in moments],
        "shift": past.shift_ms / 1000,
        "complete": [_seconds(m.complete_until_ms) for m in moments],
        "threshold": [_seconds(m.threshold_ms) for m in moments],
        "marks": [m.mark for m in moments],
        "target": _seconds(freshness.target_ms) if freshness else None,
        "error": _seconds(freshness.error_after_ms) if freshness else None,
    }


def bytes_chart(runs: Sequence[tuple[int, int]]) -> dict[str, object]:
    """(epoch milliseconds, bytes written) of each compaction, oldest first, as the page draws them."""
    return {"x": [at_ms / 1000 for at_ms, _ in runs], "bytes": [written for _, written in runs]}


def spark_line(past: Past) -> Sparkline | None:
    """The lag over time in small; None where there is nothing to draw."""
    known = [(m.at_ms, m.lag_ms) for m in past.moments if m.lag_ms is not None]
    if len(known) < 2 or known[0][0] == known[-1][0]:
        return None
    target_ms = past.policy.freshness.target_ms if past.policy else None
    start, span = known[0][0], known[-1][0] - known[0][0]
    highest = max([lag for _, lag in known] + [target_ms or 0]) or 1

    def height(lag_ms: int) -> float:
        return SPARK_HEIGHT - 1 - lag_ms / highest * (SPARK_HEIGHT - 3)

    points = " ".join(f"{(at - start) / span * SPARK_WIDTH:.1f},{height(lag):.1f}" for at, lag in known)
    return Sparkline(points, None if target_ms is None else f"{height(target_ms):.1f}")


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
