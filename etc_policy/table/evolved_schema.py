"""Whether a compaction merges by its table's evolved schema: by another one Hudi loses values of columns.

See facts: schema-one-rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from etc_policy.table.state import HIDDEN, WRITE_ACTIONS, Instant

#: Later than every instant.
_AT_THE_END = "~"


class Lacking(NamedTuple):
    """The write whose schema a compaction would not merge by, or that hides the schema from it; and why, as a clause."""

    requested: str
    why: str


def find_lacking(instants: Iterable[Instant], instant: str = _AT_THE_END, own: str | None = None) -> Lacking | None:
    """Why a compaction at an instant does not merge by its table's schema; None where it does.

    Hudi merges by what the last completed write requested before C carries, which is `own` where that is known. A later write
    that carries another schema has altered the table. One that carries none matters before C alone: Hudi then merges
    by none, and columns that were renamed are lost; behind C it changes nothing of what is merged.
    """
    done = sorted((one for one in instants if _is_done(one)), key=attrgetter("requested"))
    before = [one for one in done if one.requested < instant]
    known = own if own is not None else before[-1].schema if before else ""
    other = next((one for one in done[len(before) :] if one.schema not in ("", HIDDEN, known)), None)
    if other is not None:
        return Lacking(other.requested, f"the table's schema was altered at {other.requested}")
    if known != HIDDEN or not before:
        return None
    last = before[-1].requested
    return Lacking(last, f"the write at {last} does not carry on the schema that ALTER TABLE made")


def _is_done(one: Instant) -> bool:
    """Whether it is a completed write, of rows or of a service."""
    return one.action in WRITE_ACTIONS and one.state == "completed"
