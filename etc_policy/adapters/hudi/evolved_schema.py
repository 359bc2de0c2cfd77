"""The evolved schema that commits of tables with schema on read carry on, and by which Hudi reads and merges (FACTS 1.8)."""

from __future__ import annotations

from collections.abc import Iterable

from etc_policy.adapters.hudi.table_commits import is_write
from etc_policy.adapters.hudi.timeline import EVOLVED_SCHEMA, Timeline


def evolved_schema_before(timeline: Timeline, instant: str) -> str:
    """The schema that the last completed write requested before an instant carries; empty where it carries none."""
    before = max((one for one in _writes(timeline) if one < instant), default=None)
    return timeline.commit(before).extra.get(EVOLVED_SCHEMA, "") if before is not None else ""


def first_with_another(timeline: Timeline, instant: str) -> str | None:
    """The first completed write requested after an instant that carries another schema than the last one before it.

    A writer without schema on read carries none, which says nothing of the table.
    """
    known = evolved_schema_before(timeline, instant)
    after = sorted(one for one in _writes(timeline) if one > instant)
    timeline.expect(timeline.latest(one) for one in after)
    return next((one for one in after if timeline.commit(one).extra.get(EVOLVED_SCHEMA, "") not in ("", known)), None)


def _writes(timeline: Timeline) -> Iterable[str]:
    return (one for one in timeline.completions if is_write(timeline.latest(one)))
