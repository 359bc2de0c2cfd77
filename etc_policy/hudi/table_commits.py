"""One reading of a table's timeline with the commits on it, from which its state and its past are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from etc_policy.hudi.archive import Archive
from etc_policy.hudi.commit_facts import CommitFacts
from etc_policy.hudi.commits import CommitMetadata
from etc_policy.hudi.event_column import column_type_of, trust_of
from etc_policy.hudi.history import CompletedWrite, completed_write
from etc_policy.hudi.layout import InstantFile
from etc_policy.hudi.log_facts import CommitWrites, Trust
from etc_policy.hudi.read_once import read_once
from etc_policy.hudi.timeline import Timeline, read_timeline, require_one_end, require_times
from etc_policy.policy.manifest import EventTime
from etc_policy.storage.port import TableReader, TreeLister
from etc_policy.table.history import WRITES


@dataclass(frozen=True)
class TableCommits:
    """One reading of a table's timeline; `metadata` is that of every completed write, `writes` what they wrote."""

    storage: TableReader
    properties: Mapping[str, str]
    event_time: EventTime
    timeline: Timeline
    archive: Archive
    metadata: Mapping[str, CommitMetadata]
    column_type: str | None
    trust: Trust
    writes: CommitWrites
    tree: TreeLister

    @read_once
    def completed(self) -> tuple[CompletedWrite, ...]:
        """Every completed write of the active timeline, with what its plan says."""
        return tuple(completed_write(self.timeline, requested) for requested in self.metadata)


def read_commits(
    storage: TableReader,
    properties: Mapping[str, str],
    event_time: EventTime,
    tree: TreeLister,
    facts: CommitFacts,
) -> TableCommits:
    """The timeline as listed now, with every completed write on it.

    Raises:
        TableError: a commit cannot be read, or the event-time column is not in the table's schema.
        FileNotFoundError: a commit was archived since the listing.

    """
    timeline = require_one_end(require_times(read_timeline(storage, properties, "", facts)), WRITES)
    tree.begin()  # not before: a write that ended meanwhile would be complete, without its files
    facts.find(timeline.folder)
    writes = [file for file in map(timeline.latest, timeline.files) if is_write(file)]
    timeline.expect(writes)
    metadata = {file.requested: timeline.commit(file.requested) for file in writes}
    column_type = column_type_of(event_time, metadata, storage.location)
    trust = trust_of(timeline.layout, properties, event_time, column_type)
    logged = CommitWrites(metadata, timeline.completions, trust)
    archive = Archive(storage, properties)
    return TableCommits(storage, properties, event_time, timeline, archive, metadata, column_type, trust, logged, tree)


def is_write(file: InstantFile) -> bool:
    """Whether it is that of a completed write, of rows or of a service."""
    return file.state == "completed" and file.action in WRITES
