"""What of an existing table decides which options its writers may be given."""

from __future__ import annotations

from dataclasses import dataclass

from etc_policy.policy.manifest import EventTime

#: The only merge mode under which Hudi records event times.
EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
MERGE_MODE = "hoodie.record.merge.mode"
#: By which a writer gives it to a table that it makes: of the table's own name a new table takes nothing (FACTS 13).
MERGE_MODE_OF_WRITERS = "hoodie.write.record.merge.mode"
#: The first table version whose write stats have event times.
_FIRST_VERSION = 8
#: The first Hudi whose writers can record event times, and the table version of its own.
TRACKED_SINCE, _VERSION_OF_ITS_OWN = "1.1.0", 9
#: Hudi records values that print as 10 or 13 digits: seconds and milliseconds (FACTS 4.1).
_TYPES, _UNITS = ("int", "long"), (None, "s", "ms")


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table as it is: its version and merge mode, and the Avro type of its event-time column where a commit shows it."""

    table_version: int
    merge_mode: str | None
    column_type: str | None

    @property
    def may_be_older(self) -> bool:
        """Whether its writers may be of a Hudi that cannot record event times."""
        return self.table_version < _VERSION_OF_ITS_OWN

    def untracked(self, event_time: EventTime) -> str | None:
        """Why Hudi cannot record event times for this table, whatever options its writers have; None where it can."""
        if self.table_version < _FIRST_VERSION:
            return f"Hudi records none in table version {self.table_version}"
        if self.merge_mode not in (None, EVENT_TIME_ORDERING):
            return f"the table merges by {self.merge_mode}, and Hudi records them only with {EVENT_TIME_ORDERING}"
        if self.column_type is not None and self.column_type not in _TYPES:
            return f"Hudi cannot record those of a {self.column_type} column"
        if event_time.unit not in _UNITS:
            return f"Hudi records only seconds and milliseconds, and these are {event_time.unit}"
        return None
