"""The compactions of a table from its active and its archived timeline, without what was written between them."""

from __future__ import annotations

from collections.abc import Mapping

from etc_policy.adapters.hudi.archive import Archive
from etc_policy.adapters.hudi.history import MAX_ARCHIVED, completed_write, table_history
from etc_policy.adapters.hudi.log_facts import NO_TRUST
from etc_policy.adapters.hudi.properties import read_properties
from etc_policy.adapters.hudi.stable_reading import read_until_stable
from etc_policy.adapters.hudi.timeline import plan_file_of, read_timeline, require_times
from etc_policy.adapters.storage.door import open_reader
from etc_policy.adapters.storage.port import TableReader
from etc_policy.plan.table_history import TableHistory

_ACTIONS = ("commit",)


def read_compactions(base_path: str) -> TableHistory:
    """The commits that merged log files, among which may be bulk inserts; those archived too, as far as they can be read.

    Raises:
        TableError: no table there, or one that cannot be handled.
        RetryableError: the timeline kept changing while it was read.

    """
    storage = open_reader(base_path)
    properties = read_properties(storage)
    return read_until_stable(storage.location, lambda: _read(storage, properties))


def _read(storage: TableReader, properties: Mapping[str, str]) -> TableHistory:
    timeline = require_times(read_timeline(storage, properties))
    latest = map(timeline.latest, timeline.files)
    ends = [end for end in latest if end.state == "completed" and end.action in _ACTIONS]
    plans = (plan_file_of(timeline.files[end.requested]) for end in ends)
    timeline.expect(file for both in zip(plans, ends, strict=True) for file in both if file is not None)
    writes = [completed_write(timeline, end.requested) for end in ends]
    archived, _ = Archive(storage, properties).writes_beside(timeline, _ACTIONS, MAX_ARCHIVED)
    return table_history([*writes, *archived], storage, properties, NO_TRUST, {}, is_complete=False)
