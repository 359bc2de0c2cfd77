"""Many tables under one budget: who goes first, and how much an hour all of them may take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from etc_policy.plan.model import TablePlan

_HOUR_MS = 3_600_000


def by_debt(tables: Iterable[tuple[TablePlan, int | None]]) -> list[TablePlan]:
    """The tables, each with its freshness target in ms or None, in the order in which they break it; others go last.

    Among those that have broken it already it is the one that did so first. Without a target RO's completeness decides; where
    nothing holds RO back, nothing breaks.
    """

    def broken_at_ms(one: tuple[TablePlan, int | None]) -> tuple[bool, int, str]:
        table, target_ms = one
        until_ms = table.watermark_before_ms
        return target_ms is None or until_ms is None, (until_ms or 0) + (target_ms or 0), table.policy

    return [table for table, _ in sorted(tables, key=broken_at_ms)]


@dataclass
class Allowance:
    """An amount that may be used in an hour, such as bytes or milliseconds; None sets no limit.

    What is not used is kept, up to an hour's worth. A use may take more than is left: what it takes beyond has to come in before
    the next one begins, so that over many hours no more is used than comes in.
    """

    an_hour: float | None
    _left: float = field(init=False)
    _at_ms: int | None = None

    def __post_init__(self) -> None:
        self._left = self.an_hour or 0.0

    def ready_in_ms(self, now_ms: int) -> int:
        """How long the next use has to wait from then on; 0 where it may begin."""
        if self.an_hour is None:
            return 0
        self._come_in(self.an_hour, now_ms)
        return 0 if self._left > 0 else round((1 - self._left) / self.an_hour * _HOUR_MS) + 1

    def use(self, amount: float, now_ms: int) -> None:
        """Take so much, or give back what was taken too much."""
        if self.an_hour is not None:
            self._come_in(self.an_hour, now_ms)
            self._left -= amount

    def _come_in(self, an_hour: float, now_ms: int) -> None:
        passed_ms = 0 if self._at_ms is None else max(0, now_ms - self._at_ms)
        self._left, self._at_ms = min(an_hour, self._left + an_hour * passed_ms / _HOUR_MS), now_ms
