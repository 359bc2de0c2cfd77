"""What the two views of a table hold, as a small table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from etc_policy.errors.plain_text import one_line
from etc_policy.table.formats import format_time


@dataclass(frozen=True, slots=True)
class ViewRows:
    """Rows by status in both views at one moment, and how many RT rows up to the threshold RO lacks."""

    threshold_ms: int
    ro: Mapping[str, int]
    rt: Mapping[str, int]
    missing_in_ro: int


def render_views(before: ViewRows, after: ViewRows) -> str:
    """RO before and after beside RT; RT is the same before and after, which is said when it is not."""
    names = sorted({*before.rt, *after.rt, *before.ro, *after.ro})
    rows = [("", *names, "missing up to T")]
    rows.append(_row("RO before", before.ro, names, f"{before.missing_in_ro:,}"))
    rows.append(_row("RO after", after.ro, names, f"{after.missing_in_ro:,}"))
    rows.append(_row("RT", after.rt, names, "-"))
    rows = [tuple(map(one_line, row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    same = "RT is the same as before." if before.rt == after.rt else "RT changed meanwhile."
    return "\n".join([*lines, "", f"  T = {format_time(after.threshold_ms)}. {same}"])


def _row(label: str, counts: Mapping[str, int], names: list[str], missing: str) -> tuple[str, ...]:
    return (label, *(f"{counts.get(name, 0):,}" for name in names), missing)
