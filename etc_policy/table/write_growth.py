"""What a compaction will write, learned from what earlier ones of the table wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from etc_policy.policy.manifest import Frozen

#: What was learned from more compactions would say less of the table as it is now.
LEARNED_FROM = 5
_DIGITS = 4


class MergedSlice(NamedTuple):
    """What a compaction merged of a file slice, and the size of the base file that it wrote; `base_bytes` is 0 without one."""

    base_bytes: int
    log_bytes: int
    written_bytes: int


class WriteGrowth(Frozen):
    """Bytes that earlier compactions wrote for each byte of log files: beyond the old base file, or without one in all.

    An upsert adds little to a base file, an insert about itself, a delete takes away: so `onto_base` may be below 0. Either is
    None where no such slice was compacted. `compactions` is how many this is learned from.
    """

    compactions: int
    onto_base: float | None = None
    without_base: float | None = None


def learned_from(compactions: Iterable[Iterable[MergedSlice]]) -> WriteGrowth | None:
    """What some compactions teach together; None where there is nothing to learn from."""
    merged = [[one for one in slices if one.log_bytes and one.written_bytes] for slices in compactions]
    telling = [slices for slices in merged if slices]
    if not telling:
        return None
    every = [one for slices in telling for one in slices]
    return WriteGrowth(
        compactions=len(telling),
        onto_base=_by_log_byte(one for one in every if one.base_bytes),
        without_base=_by_log_byte(one for one in every if not one.base_bytes),
    )


def bytes_to_write(growth: WriteGrowth | None, base_bytes: int, log_bytes: int) -> int:
    """The size to expect of a new base file; what was never seen adds nothing to a base file, and is written as it is."""
    if growth is None:
        return base_bytes or log_bytes
    learned = growth.onto_base if base_bytes else growth.without_base
    by_log_byte = (0.0 if base_bytes else 1.0) if learned is None else learned
    return max(0, base_bytes + round(log_bytes * by_log_byte))


def _by_log_byte(merged: Iterable[MergedSlice]) -> float | None:
    """No less than -1: so of two slices one that reads more never reads and writes less."""
    every = list(merged)
    if not every:
        return None
    grown = sum(one.written_bytes - one.base_bytes for one in every)
    return max(-1.0, round(grown / sum(one.log_bytes for one in every), _DIGITS))
