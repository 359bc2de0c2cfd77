"""The shape of an existing table, from its properties and its newest schema; no data file is looked at."""

from __future__ import annotations

from etc_policy.adapters.hudi.event_column import column_type_of
from etc_policy.adapters.hudi.properties import PROPERTIES, read_properties
from etc_policy.adapters.hudi.stable_reading import read_until_stable
from etc_policy.adapters.hudi.table_commits import is_write
from etc_policy.adapters.hudi.timeline import read_timeline
from etc_policy.adapters.storage.door import open_reader
from etc_policy.adapters.storage.port import TableReader
from etc_policy.compile.manifest import EventTime
from etc_policy.compile.table_shape import MERGE_MODE, TableShape


def read_shape(base_path: str, event_time: EventTime) -> TableShape | None:
    """The table's shape; None where there is no table yet.

    Raises:
        TableError: the table cannot be read, or lacks the event-time column.
        RetryableError: the timeline kept changing while it was read.

    """
    storage = open_reader(base_path)
    return read_until_stable(storage.location, lambda: _read(storage, event_time))


def _read(storage: TableReader, event_time: EventTime) -> TableShape | None:
    if storage.info(PROPERTIES) is None:
        return None
    properties = read_properties(storage)
    timeline = read_timeline(storage, properties)
    written = sorted((f.requested for f in map(timeline.latest, timeline.files) if is_write(f)), reverse=True)
    types = (column_type_of(event_time.column, {one: timeline.commit(one)}, storage.location) for one in written)
    column_type = next(filter(None, types), None)
    return TableShape(int(properties["hoodie.table.version"]), properties.get(MERGE_MODE), column_type)
