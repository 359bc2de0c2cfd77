"""Late data: what came in below a threshold after it was published, from commit metadata at file-group grain."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from etc_policy.policy.manifest import Frozen
from etc_policy.table.history import GroupWrite, TableHistory
from etc_policy.table.state import CompactionRecord


class LateData(Frozen):
    """What came in late after one compaction by etc and before the plan of the next had seen it.

    A write is what one commit wrote to the log of one file group. `rows_at_most` counts all rows of the late writes:
    those above the threshold cannot be distinguished without reading them (`etc verify --level data` does). Writes whose
    smallest event time is not certain are in `unknown_writes` unless what is known of them is late already. RO was
    complete up to `threshold_ms` and then only up to `complete_until_ms`, which is `regression_ms` less.
    """

    instant: str
    threshold_ms: int
    writes: int = 0
    file_groups: int = 0
    rows_at_most: int = 0
    unknown_writes: int = 0
    complete_until_ms: int
    regression_ms: int = 0


def late_data(history: TableHistory) -> tuple[LateData, ...]:
    """The late data of each compaction by etc, oldest first."""
    starts = [bisect_right(history.arrivals, run.saw_until, key=lambda w: w.completed) for run in history.runs]
    spans = pairwise([*starts, len(history.arrivals)])
    return tuple(
        _after(run, history.arrivals[start:end]) for run, (start, end) in zip(history.runs, spans, strict=True)
    )


def _after(run: CompactionRecord, unseen: Sequence[GroupWrite]) -> LateData:
    late = [w for w in unseen if w.known_min_ms is not None and w.known_min_ms <= run.threshold_ms]
    complete_until = min((w.known_min_ms - 1 for w in late if w.known_min_ms is not None), default=None)
    complete_until_ms = run.threshold_ms if complete_until is None else complete_until
    return LateData(
        instant=run.instant,
        threshold_ms=run.threshold_ms,
        writes=len(late),
        file_groups=len({(w.partition, w.file_id) for w in late}),
        rows_at_most=sum(w.rows for w in late),
        unknown_writes=sum(not w.certain for w in unseen) - sum(not w.certain for w in late),
        complete_until_ms=complete_until_ms,
        regression_ms=run.threshold_ms - complete_until_ms,
    )
