"""The shape of an existing table, from its properties and its newest schema; no data file is looked at."""

from __future__ import annotations

from etc_policy.adapters.hudi.properties import read_properties
from etc_policy.adapters.hudi.table import column_type_of
from etc_policy.adapters.hudi.timeline import read_timeline
from etc_policy.adapters.hudi.writers import WRITES
from etc_policy.adapters.storage.door import open_storage
from etc_policy.compile.manifest import EventTime
from etc_policy.compile.table_shape import MERGE_MODE, TableShape

_PROPERTIES = ".hoodie/hoodie.properties"


def read_shape(base_path: str, event_time: EventTime) -> TableShape | None:
    """The table's shape; None where there is no table yet.

    Raises:
        TableError: the table cannot be read, or lacks the event-time column.

    """
    storage = open_storage(base_path)
    if storage.info(_PROPERTIES) is None:
        return None
    properties = read_properties(storage)
    timeline = read_timeline(storage, properties)
    written = (
        f.requested for f in map(timeline.latest, timeline.files) if f.state == "completed" and f.action in WRITES
    )
    for requested in sorted(written, reverse=True):
        found = column_type_of(event_time.column, {requested: timeline.commit(requested)}, storage.location)
        if found is not None:
            break
    else:
        found = None
    return TableShape(int(properties["hoodie.table.version"]), properties.get(MERGE_MODE), found)
