"""How much of the time a table's writers have a write in flight, and how long they pause: from its timeline alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from zoneinfo import ZoneInfo

from etc_policy.table.history import Commit
from etc_policy.table.instants import DAY_MS, instant_to_ms

#: What writers write; compactions and services are no reason to wait for them.
_WRITES = ("deltacommit", "replacecommit")


@dataclass(frozen=True, slots=True)
class Writing:
    """The writes of the last day, or of as much of it as is known: `seen_ms` long, of which one was in flight for `busy_ms`.

    `longest_pause_ms` is the longest time without one, `longest_write_ms` the longest write, from its request to its completion.
    `spans` are the times with a write in flight, from the begin of each to its end.
    """

    writes: int
    seen_ms: int
    busy_ms: int
    longest_pause_ms: int
    longest_write_ms: int
    spans: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)

    @property
    def duty(self) -> float:
        """The share of the time with a write in flight."""
        return self.busy_ms / self.seen_ms if self.seen_ms else 0.0

    def longest_without_ms(self, pause_ms: int) -> int:
        """The longest time in which no pause was longer than that."""
        found = _merged(self.spans, pause_ms)
        return max((ended - begun for begun, ended in found), default=0)


def writing_of(commits: Iterable[Commit], in_flight: Iterable[str], zone: ZoneInfo, now_ms: int) -> Writing:
    """What completed writes, and the instants of those in flight, say of the day before `now_ms`."""
    since_ms = now_ms - DAY_MS
    done = [
        (instant_to_ms(one.requested, zone), instant_to_ms(one.completed, zone))
        for one in commits
        if one.action in _WRITES and one.completed
    ]
    open_ended = [(instant_to_ms(one, zone), now_ms) for one in in_flight]
    spans = sorted((begun, ended) for begun, ended in (*done, *open_ended) if begun <= ended and ended > since_ms)
    if not spans:
        return Writing(0, 0, 0, 0, 0)
    merged = _merged([(max(begun, since_ms), min(ended, now_ms)) for begun, ended in spans])
    ends = [*merged, (now_ms, now_ms)]
    return Writing(
        writes=len(spans),
        seen_ms=now_ms - merged[0][0],
        busy_ms=sum(ended - begun for begun, ended in merged),
        longest_pause_ms=max(later[0] - earlier[1] for earlier, later in pairwise(ends)),
        longest_write_ms=max(ended - begun for begun, ended in spans),
        spans=tuple(ends),
    )


def _merged(spans: Iterable[tuple[int, int]], pause_ms: int = 0) -> list[tuple[int, int]]:
    """The same times, without overlaps and pauses no longer than that."""
    found: list[tuple[int, int]] = []
    for begun, ended in spans:
        if found and begun <= found[-1][1] + pause_ms:
            found[-1] = (found[-1][0], max(ended, found[-1][1]))
        else:
            found.append((begun, ended))
    return found
