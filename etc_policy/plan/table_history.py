"""What a table's commits say of its past: what each wrote to which file group, and the compactions by etc."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from etc_policy.plan.table_state import CompactionRecord


class GroupWrite(NamedTuple):
    """What one commit wrote to the log files of one file group: the grain at which commits record event times (FACTS 4.1).

    `min_event_time_ms` is the smallest event time recorded, None without one. Only where `certain` is true can nothing
    older be in it: then every write stat has a time and there are no deletes. `rows` are those written, deletes included;
    `has_deletes` says that there are deletes among them, or may be, `unknown_is_deletes` that all rows but deletes have times.
    """

    requested: str
    completed: str
    partition: str
    file_id: str
    min_event_time_ms: int | None
    certain: bool
    rows: int
    has_deletes: bool = False
    unknown_is_deletes: bool = False

    @property
    def certain_min_ms(self) -> int | None:
        """The event time below which nothing can be in it; None where that is not known."""
        return self.min_event_time_ms if self.certain else None

    @property
    def seen_ms(self) -> int | None:
        """Where that is not known, the smallest event time that is surely in it."""
        return None if self.certain else self.min_event_time_ms


@dataclass(frozen=True, slots=True)
class TableHistory:
    """A table's past as far as it was read: the active timeline, and where asked for the archived one.

    `writes` are in the order of their completion, and so are `runs`, the compactions that carry a threshold. `disputed`
    are compactions whose commit promises something else than their plan did. Instants are in the IANA zone `timezone`.
    """

    timezone: str
    writes: tuple[GroupWrite, ...] = ()
    runs: tuple[CompactionRecord, ...] = ()
    disputed: frozenset[str] = frozenset()
