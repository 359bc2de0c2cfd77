"""What a table's reading says, in a few words."""

from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime
from etc_policy.table.history import PLAN_ID, POLICY, SEEN_UNTIL, THRESHOLD
from tests.unit.hudi.table_folder import at

TS = EventTime(column="ts")
OURS = {THRESHOLD: "1000", POLICY: "orders_ro", PLAN_ID: "abc", SEEN_UNTIL: at("10:00:09")}


def read(table, event_time=TS):
    return FileTableReader().read(str(table.base), event_time)


def slices(table, event_time=TS):
    """Per file group: base file's instant and its log files as (requested, completed, smallest event time, deletes)."""
    return {
        one.file_id: (
            one.base_instant,
            [(f.requested, f.completed, f.min_event_time_ms, f.has_deletes) for f in one.log_files],
        )
        for one in read(table, event_time).slices
    }
