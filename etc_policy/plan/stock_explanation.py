"""What a plan says of a strategy of Hudi's own: the options that it became, and what they choose."""

from __future__ import annotations

from collections.abc import Iterator

from etc_policy.plan.stages import TablePlan

MERGED = "all of the slices below, as Hudi's strategies choose whole slices"
CHOSEN = "compacted whole, whatever the event times"


def stock_rows(table: TablePlan) -> Iterator[tuple[str, str]]:
    """The options by which Hudi's planner chooses the same slices."""
    label = "strategy"
    for key, value in table.stock_options.items():
        yield label, f"{key}={value}"
        label = ""
