"""One reading of a table's timeline with the commits on it, from which its state and its past are made.

It says whether the times that commits recorded are those of the event-time column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from etc_policy.hudi.archive import Archive
from etc_policy.hudi.commit_writes import CommitWrites, Trust, hides_deletes_of
from etc_policy.hudi.commits import CommitFacts, CommitMetadata
from etc_policy.hudi.completed_writes import MAX_ARCHIVED, CompletedWrite, completed_write
from etc_policy.hudi.log_forms import with_log_forms
from etc_policy.hudi.properties import updates_in_part
from etc_policy.hudi.schemas import column_since, column_type_of
from etc_policy.hudi.timeline import Timeline, read_once, read_timeline, require_one_end, require_times
from etc_policy.hudi.zones import table_zone
from etc_policy.policy.manifest import EventTime
from etc_policy.storage.port import TableReader, Tree, TreeLister
from etc_policy.table.history import WRITES, GroupWrite, is_of_column
from etc_policy.table.state import AT_THE_END, CompactionRecord


def trust_of(
    layout: int,
    properties: Mapping[str, str],
    event_time: EventTime,
    column_type: str | None,
    since: str,
    recorded: RecordedTimes,
) -> Trust:
    """How far write stats are to be believed; on layout 1 no commit's event times can be matched to a log file."""
    times = layout >= 2 and _is_tracked(event_time, column_type)
    return Trust(
        times,
        deletes=not hides_deletes_of(properties),
        bounds=not updates_in_part(properties),
        zone=ZoneInfo(table_zone(properties)),
        max_ahead_ms=event_time.ahead_ms,
        since=since,
        is_of_column=recorded.is_of_column,
    )


def _is_tracked(event_time: EventTime, column_type: str | None) -> bool:
    """Whether the event times that the writer recorded are the policy's: it reads 10-digit s or 13-digit ms.

    See facts: commit-event-times. Of micro- or nanoseconds it drops those of today, and misreads some of 1970.
    """
    if not event_time.trust_commit_metadata or event_time.format is not None or event_time.unit == "us":
        return False
    if column_type is not None and column_type.endswith(("-micros", "-nanos")):
        return False
    return column_type != "string" or event_time.unit is not None


class OwnCompactions:
    """The compactions with a threshold, archived ones too, the last completed first; read as far back as somebody asks."""

    def __init__(self, found: Iterator[CompactionRecord]) -> None:
        self._rest, self._seen = found, list[CompactionRecord]()

    def __iter__(self) -> Iterator[CompactionRecord]:
        yield from self._seen
        for record in self._rest:
            self._seen.append(record)
            yield record

    @property
    def last(self) -> CompactionRecord | None:
        """The one that completed last; None without any."""
        return next(iter(self), None)


class RecordedTimes:
    """Which commits recorded event times of this column, as far as the compactions by etc show.

    Those that were requested before a plan for another column, or before the first for this one had been made, may be of that
    other: no commit names its column. A plan is older than its compaction's completion, and may not show the writers in flight.
    """

    def __init__(self, event_time: EventTime, own: OwnCompactions) -> None:
        self._event_time, self._own = event_time, iter(own)
        self._since, self._is_over = AT_THE_END, False

    def is_of_column(self, requested: str) -> bool:
        """Whether a compaction by this column had completed before the commit began, and none by another one since."""
        while requested < self._since and not self._is_over:
            record = next(self._own, None)
            if record is None:
                self._since = ""
            elif is_of_column(self._event_time, record):
                self._since = min(self._since, max(record.saw_until, record.completed))
            else:
                self._is_over = True
        return requested >= self._since


@dataclass(frozen=True)
class TableCommits:
    """One reading of a table's timeline; `metadata` is that of every completed write, `writes` what they wrote.

    `completed` has each of these with what its plan says. `own` are the compactions by etc. `column_since` is as that of a state.
    `tree` is what is in the table's folders.
    """

    storage: TableReader
    properties: Mapping[str, str]
    event_time: EventTime
    timeline: Timeline
    archive: Archive
    metadata: Mapping[str, CommitMetadata]
    completed: tuple[CompletedWrite, ...]
    own: OwnCompactions
    column_type: str | None
    column_since: str
    trust: Trust
    writes: CommitWrites
    tree: Tree

    def commits_at(self, instants: Iterable[str]) -> dict[str, CommitMetadata]:
        """What the commits at these instants say, archived ones too, and what is there of their log files shows."""
        wanted = frozenset(instants)
        archived = self.archive.commit_metadata(wanted - self.metadata.keys())
        archived = {**archived, **with_log_forms(self.storage, self.timeline.layout, archived, self.tree)}
        return {**archived, **{one: self.metadata[one] for one in wanted & self.metadata.keys()}}

    def log_writes_at(self, instants: Iterable[str]) -> Iterator[GroupWrite]:
        """What these commits, archived ones too, wrote to log files."""
        found = self.commits_at(instants)
        ends = {one: self.archive.completions.get(one, one) for one in found.keys() - self.timeline.completions.keys()}
        archived = CommitWrites(found, {**self.timeline.completions, **ends}, self.trust)
        groups = (self.writes[one] if one in self.writes else archived[one] for one in found)
        return (write for of_commit in groups for write in of_commit.values() if write.log_files)

    @read_once
    def since_compaction(self) -> list[CompletedWrite]:
        """The archived writes from the last one before the last compaction by etc on, with all that it had not seen.

        None where these are more than anybody wants to read.
        """
        record, known = self.own.last, self.timeline.files
        if record is None:
            return []
        ends = {one: end for one, end in self.archive.ends.items() if end.action in WRITES and one not in known}
        before = max((one for one in (*ends, *self.metadata) if one < record.instant), default=record.instant)
        since = min((one for one, end in ends.items() if end.completed > record.saw_until), default=before)
        wanted = frozenset(one for one in ends if one >= min(since, before))
        return self.archive.writes_at(wanted) if 0 < len(wanted) <= MAX_ARCHIVED else []


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
    timeline.expect(map(timeline.latest, timeline.written))
    metadata = {requested: timeline.commit(requested) for requested in timeline.written}
    metadata |= _formed(timeline, metadata, found := tree.read())
    column_type = column_type_of(event_time, timeline)
    completed = tuple(completed_write(timeline, requested) for requested in metadata)
    archive = Archive(storage, properties)
    records = [record for one in completed if (record := one.record) is not None]
    own = OwnCompactions(archive.own_compactions(records, timeline.files))
    since = column_since(timeline, archive, event_time.column)
    recorded = RecordedTimes(event_time, own)
    trust = trust_of(timeline.layout, properties, event_time, column_type, since, recorded)
    trust = replace(trust, of_unseen=not any(commit.log_form == "operations" for commit in metadata.values()))
    logged = CommitWrites(metadata, timeline.completions, trust)
    of_table = storage, properties, event_time, timeline, archive, metadata, completed, own
    return TableCommits(*of_table, column_type, since, trust, logged, found)


def _formed(timeline: Timeline, commits: Mapping[str, CommitMetadata], tree: Tree) -> dict[str, CommitMetadata]:
    """Commits with log files, with what these show; the timeline knows it from then on."""
    found = with_log_forms(timeline.storage, timeline.layout, commits, tree)
    for requested, commit in found.items():
        if commit is not commits[requested]:
            timeline.keep(requested, commit)
    return found
