"""What the two views of a table hold, as a small table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from etc_policy.table.formats import TEXT_WIDTH, aligned, fold, format_time, table_lines


@dataclass(frozen=True, slots=True)
class ViewRows:
    """Rows by status in both views at one moment, and how many RT rows up to the threshold RO lacks."""

    threshold_ms: int
    ro: Mapping[str, int]
    rt: Mapping[str, int]
    missing_in_ro: int


@dataclass(frozen=True, slots=True)
class AsOfRows:
    """A table that has had `then` rows as of T, and what its RO holds: of its `rows` so many `as_then`, and so many `later`."""

    then: int
    rows: int
    as_then: int
    later: int

    @property
    def is_equal(self) -> bool:
        """Whether RO is the table as of T."""
        return self.rows == self.as_then == self.then


def render_as_of(found: Mapping[str, AsOfRows], threshold_ms: int, width: int = TEXT_WIDTH) -> str:
    """What RO holds after a run of each granularity, beside the table as of T."""
    rows: list[tuple[str, ...]] = [("RO by", "rows", "as at T", "later than T", "changed since T or not there")]
    for name, one in found.items():
        lost = one.then - one.as_then
        rows.append((f"granularity: {name}", *(f"{count:,}" for count in (one.rows, one.as_then, one.later, lost))))
    then = max((one.then for one in found.values()), default=0)
    equal = [name for name, one in found.items() if one.is_equal]
    said = f"Equal to it: {', '.join(equal)}." if equal else "None is equal to it."
    return "\n".join(
        [
            *_lines(rows, width),
            "",
            fold(f"  The table at T = {format_time(threshold_ms)} had {then:,} rows. {said}", width),
        ]
    )


def render_views(before: ViewRows, after: ViewRows, width: int = TEXT_WIDTH) -> str:
    """RO before and after beside RT; RT is the same before and after, which is said when it is not."""
    names = sorted({*before.rt, *after.rt, *before.ro, *after.ro})
    rows = [("", *names, "missing up to T")]
    rows.append(_row("RO before", before.ro, names, f"{before.missing_in_ro:,}"))
    rows.append(_row("RO after", after.ro, names, f"{after.missing_in_ro:,}"))
    rows.append(_row("RT", after.rt, names, "-"))
    same = "RT is the same as before." if before.rt == after.rt else "RT changed meanwhile."
    return "\n".join([*_lines(rows, width), "", fold(f"  T = {format_time(after.threshold_ms)}. {same}", width)])


def _row(label: str, counts: Mapping[str, int], names: list[str], missing: str) -> tuple[str, ...]:
    return (label, *(f"{counts.get(name, 0):,}" for name in names), missing)


def _lines(rows: list[tuple[str, ...]], width: int) -> list[str]:
    lines = [f"  {line}" for line in aligned(rows, left=0)]
    return lines if max(map(len, lines)) <= width else [*table_lines(rows, width)]
