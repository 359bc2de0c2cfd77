"""Which file slices can be compacted while a writer is in flight: those that were closed before it began (FACTS 1-3)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from etc_policy.plan.table_state import FileSlice

Slices = tuple[FileSlice, ...]


def closed_before(slices: Slices, writer: str, instant_of: Callable[[Slices], str]) -> Slices:
    """Slices that one compaction before the instant `writer` can merge; empty where none can be.

    `instant_of` gives the earliest C for some slices; it never is earlier for more of them. Those whose own C is earliest
    are taken, as many as have a C before the writer together.
    """
    alone = ((instant_of((one,)), index, one) for index, one in enumerate(slices))
    ordered = tuple(one for instant, _, one in sorted(alone, key=lambda found: found[:2]) if instant < writer)
    count = bisect_left(range(1, len(ordered) + 1), True, key=lambda size: instant_of(ordered[:size]) >= writer)
    taken = {one.group for one in ordered[:count]}
    return tuple(one for one in slices if one.group in taken)
