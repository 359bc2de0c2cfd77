"""How much a plan takes while writers are kept out: what can be committed within `writer.hold`, by what earlier holds took.

A hold ends by its time in any case. What is not committed by then may be overtaken, so more than fits is work for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate

from etc_policy.plan.model import Operation
from etc_policy.table.state import FileSlice, Slices

#: What a slice counts at least: its task and its new base file take their time, however few rows there are.
_SLICE_BYTES = 8 * 2**20
#: What a table is taken to read and write a second, until a hold shows it.
_FIRST_BYTES_PER_SECOND = 8 * 2**20
#: More is no bound any more.
MAX_HOLD_BYTES = 2**50
#: So much of a hold is planned for, as no compaction takes as long as the one before.
_PLANNED_SHARE = 0.75


def slice_bytes(bytes_read: int, bytes_written: int) -> int:
    """What the compaction of one slice counts."""
    return max(bytes_read + bytes_written, _SLICE_BYTES)


def plan_bytes(operations: Iterable[Operation]) -> int:
    """What a plan counts."""
    return sum(slice_bytes(one.bytes_read, one.bytes_written_estimate) for one in operations)


def hold_bytes(learned: int | None, hold_ms: int) -> int:
    """What a hold may take: what was learned by the last one, if there was one."""
    return hold_ms * _FIRST_BYTES_PER_SECOND // 1000 if learned is None else learned


def next_hold_bytes(before: int, taken: int, took_ms: int, hold_ms: int) -> int:
    """What the next hold may take, where the last one might have taken `before`: it took `taken` bytes in `took_ms`.

    Less only where that was too long, and more only where it was short: what comes with every compaction, however much it
    takes, would else make holds smaller and smaller.
    """
    fitting = int(taken * _PLANNED_SHARE * hold_ms / max(took_ms, 1))
    return min(before, fitting) if took_ms > hold_ms else min(max(before, fitting), MAX_HOLD_BYTES)


def within_hold(slices: Slices, max_bytes: int, bytes_of: Callable[[FileSlice], int], first: Slices = ()) -> Slices:
    """As many slices as fit together, in their order, one at least; those that must come `first` are taken whatever they take."""
    before = set(first)
    others = tuple(one for one in slices if one not in before)
    totals = accumulate(map(bytes_of, (*first, *others)))
    fitting = sum(total <= max_bytes for total in totals)
    return (*first, *others[: max(fitting - len(first), 0 if first else 1)])
