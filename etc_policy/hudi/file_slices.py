"""The latest file slices of a table, from a listing of its partitions and the timeline, and what is wrong with its files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import repeat
from operator import attrgetter, lt
from typing import NamedTuple

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.archive import Archive, completions_of
from etc_policy.hudi.commit_writes import CommitWrites, LogFacts, of_columns, slice_facts
from etc_policy.hudi.commits import CommitMetadata
from etc_policy.hudi.completion_times import may_be_shifted
from etc_policy.hudi.layout import NO_ROWS, DataFileName, is_log_name, parse_data_file, unknown_instant
from etc_policy.hudi.log_forms import Changelog, changelog_of, with_log_forms
from etc_policy.hudi.metadata_values import text_of, time_of
from etc_policy.hudi.properties import metadata_partitions
from etc_policy.hudi.table_commits import TableCommits
from etc_policy.hudi.timeline import CLUSTERING, Taken, Timeline
from etc_policy.plan.carry import is_carried_name
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.plan.split import SPLIT
from etc_policy.policy.locations import is_appended_to
from etc_policy.storage.port import Tree
from etc_policy.table.history import GroupWrite, is_of_column
from etc_policy.table.state import FileSlice, GroupKey, LogFile, path_below

#: Bytes by file name of each partition.
Listing = Mapping[str, dict[str, int]]
#: The operations of commits that move rows which are there already.
_SERVICES = frozenset({CLUSTERING, "COMPACT", "LOG_COMPACT"})


class DataFile(NamedTuple):
    """A data file of a completed commit as its name describes it."""

    group: GroupKey
    name: DataFileName
    size_bytes: int
    completed: str
    recorded_bytes: int | None = None


class RecordedFile(NamedTuple):
    """A file that a completed commit says that it wrote."""

    completed: str
    partition: str
    file_name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FileGroup:
    """The data files of a file group, in no order."""

    bases: list[DataFile] = field(default_factory=list)
    logs: list[LogFile] = field(default_factory=list)

    @property
    def base_instant(self) -> str:
        """That of the newest base file; empty if it is missing."""
        return max((file.name.instant for file in self.bases), default="")

    def newest_bases(self) -> tuple[list[DataFile], list[DataFile]]:
        """The base files of the newest instant: those that may count, and what lies beside them.

        Of several, such as a task leaves that was tried again, those count that a commit records, or all where it records none.
        """
        if len(self.bases) < 2:
            return self.bases, []
        instant = self.base_instant
        newest = [file for file in self.bases if file.name.instant == instant]
        recorded = [file for file in newest if file.recorded_bytes is not None]
        return (recorded, [file for file in newest if file.recorded_bytes is None]) if recorded else (newest, [])


class _Committed:
    """Before table version 8: between which times the rows of log files were committed, as far as commits are known."""

    def __init__(self, timeline: Timeline, recorded: Iterable[RecordedFile]) -> None:
        self._first = timeline.first_active or ""
        self._ends = defaultdict[tuple[str, str], list[str]](list)
        for one in recorded:
            if one.file_name.startswith("."):
                self._ends[one.partition, one.file_name].append(one.completed)
        grown = any(len(ends) > 1 for ends in self._ends.values())
        self._are_appended_to = grown or is_appended_to(timeline.storage.location)

    def between(self, partition: str, name: DataFileName) -> tuple[str, str]:
        """Both included. Writes that the active timeline lacks are archived, and older than it.

        Where writers append, these may have written to a file that a later one recorded too.
        """
        ends, base = self._ends.get((partition, name.name)), name.instant
        if ends is None:
            return base, max(base, self._first)
        return base if self._are_appended_to and base < self._first else min(ends), max(ends)


class FileGroups(defaultdict[GroupKey, FileGroup]):
    """The file groups of the table with this timeline; before table version 8 a log file bears its slice's instant."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(FileGroup)
        self._timeline = timeline
        self._by_name = timeline.layout < 2

    def add_recorded(
        self, listed: Listing, commits: Mapping[str, CommitMetadata], facts: CommitWrites
    ) -> list[RecordedFile]:
        """Moves the log files that commits record out of the listing; gives what they record besides.

        Their names need not be taken apart, as the commit has all of it. Before table version 8 no log file bears the instant
        of its commit, and all are left.
        """
        others: list[RecordedFile] = []
        completions = self._timeline.completions
        for completed, requested in sorted((completions[requested], requested) for requested in commits):
            commit = commits[requested]
            if facts.are_plain(requested) and self._add_plain(listed, commit, completed):
                continue
            others += self._add_one_by_one(listed, commit, facts[requested], requested, completed)
        for replaced in self._timeline.replaced:
            self.pop(replaced, None)
        self._take_largest_recorded(others)
        return others

    def _add_plain(self, listed: Listing, commit: CommitMetadata, completed: str) -> bool:
        """Moves the log files of a plain commit out of the listing; not if one of them is missing there."""
        stats, requested = commit.stats, commit.plain_instant
        nothing: dict[str, int] = {}
        folders = [listed.get(partition, nothing) for partition, _ in stats.groups]
        sizes = list(map(dict.pop, folders, stats.file_names, repeat(None)))
        if None in sizes:
            for folder, name, size in zip(folders, stats.file_names, sizes, strict=True):
                if size is not None:
                    folder[name] = size
            return False
        logs = of_columns(
            LogFile,
            name=stats.file_names,
            size_bytes=sizes,
            requested=repeat(requested),
            completed=repeat(completed),
            min_event_time_ms=stats.min_event_times_ms,
            has_deletes=repeat(False),
            recorded_bytes=stats.sizes_bytes,
            seen_event_time_ms=repeat(None),
            unknown_is_deletes=repeat(False),
            rows_since=repeat(None),
            impossible_ms=repeat(None),
            null_rows=repeat(0),
            max_event_time_ms=repeat(None),
            written=repeat(None),
        )
        for group, log_file in zip(stats.groups, logs, strict=True):
            self[group].logs.append(log_file)
        return True

    def _add_one_by_one(
        self,
        listed: Listing,
        commit: CommitMetadata,
        writes: Mapping[GroupKey, GroupWrite],
        requested: str,
        completed: str,
    ) -> Iterator[RecordedFile]:
        """Moves the log files of a commit out of the listing; gives its other files."""
        stats, bears_instant = commit.stats, not self._by_name
        for group, name, recorded in zip(stats.groups, stats.file_names, stats.sizes_bytes, strict=True):
            partition, file_id = group
            is_known = bears_instant and is_log_name(name, file_id, requested)
            size = listed[partition].pop(name, None) if is_known and partition in listed else None
            if size is None:
                yield RecordedFile(completed, partition, name, recorded)
                continue
            self[group].logs.append(_written(name, size, requested, completed, writes[group], recorded))

    def _take_largest_recorded(self, others: Iterable[RecordedFile]) -> None:
        """Of a log file that is recorded more than once the largest size counts: log files may grow."""
        logs = [one for one in others if one.file_name.startswith(".")]
        again = {(one.partition, one.file_name): one.size_bytes for one in sorted(logs, key=attrgetter("size_bytes"))}
        for (partition, _), group in self.items() if again else ():
            for place, log_file in enumerate(group.logs):
                size = again.get((partition, log_file.name))
                if size is not None and size > (log_file.recorded_bytes or 0):
                    group.logs[place] = log_file._replace(recorded_bytes=size)

    def add(self, files: Iterable[DataFile], recorded: Iterable[RecordedFile], facts: LogFacts) -> None:
        """Adds data files; a log file that `facts` do not mention has no event time, and from version 8 on may delete.

        So has one that the commit at the instant in its name did not record, such as a task leaves that was tried again: what
        that commit says is of other files. Its rows may have come before that write had ended, and not before it began: a
        clustering gives its instant to log files of other writes (facts: dual-write-names). What is known of carried files is
        found later (`_bounded_by_plans`).
        """
        # Of a file that is recorded more than once the largest size counts: log files may grow.
        in_order = sorted(recorded, key=attrgetter("size_bytes"))
        sizes = {(one.partition, one.file_name): one.size_bytes for one in in_order}
        written = {(one.partition, one.file_name, one.completed) for one in in_order}
        committed = _Committed(self._timeline, in_order) if self._by_name else None
        for file in files:
            (partition, _), name = file.group, file.name
            size = sizes.get((partition, name.name))
            if not name.is_log:
                self[file.group].bases.append(file._replace(recorded_bytes=size))
                continue
            place = name.name, file.size_bytes, name.instant, file.completed
            write = facts.get(name.instant, {}).get(file.group)
            if not self._by_name and write is not None and (partition, name.name, write.completed) not in written:
                write = None
            unknown = LogFile(*place, None, not self._by_name, size)
            log_file = unknown if write is None else _written(*place, write, size)
            if committed is not None and not is_carried_name(name.name):
                log_file = log_file._replace(written=committed.between(partition, name))
            self[file.group].logs.append(log_file._replace(rows_since=self._rows_since(file, write)))

    def _rows_since(self, file: DataFile, write: GroupWrite | None) -> str | None:
        """The request, where no commit records the file, or is archived with a completion time that may be wrong."""
        instant = file.name.instant
        if self._by_name or (write is not None and not may_be_shifted(instant, file.completed)):
            return None
        return instant

    def unrecorded(
        self, latest: Iterable[FileSlice], known: Collection[str], never: Collection[str], facts: LogFacts
    ) -> Iterator[str]:
        """Paths of the files of these slices that no commit recorded: that at their instant is one of the `known`, or it is one
        of those at which nothing was ever committed.

        Where there is a commit, it is sure of a log file if that wrote others to its file group. A base file alone in its group
        hides nothing.
        """
        for one in latest:
            if self._may_be_left(one) and (one.base_instant in known or one.base_instant in never):
                yield path_below(one.partition, one.base_file or "")
            for log_file in one.log_files if not self._by_name else ():
                write = facts.get(log_file.requested, {}).get(one.group) if log_file.recorded_bytes is None else None
                if log_file.requested in never or (write is not None and write.log_files):
                    yield path_below(one.partition, log_file.name)

    def _may_be_left(self, latest: FileSlice) -> bool:
        """Whether no commit at hand recorded its base file, which hides others."""
        is_recorded = latest.base_file is None or latest.base_file_recorded_bytes is not None
        return not is_recorded and (bool(latest.log_files) or len(self[latest.group].bases) > 1)

    def archived_instants(self, latest: Iterable[FileSlice], files: Iterable[DataFile]) -> set[str]:
        """The instants in names of files that the archive should have; before table version 8 it is asked of as few as can be."""
        if self._by_name:
            found = {one.base_instant for one in latest if self._may_be_left(one)}
        else:
            found = {file.name.instant for file in files}
        return found - self._timeline.files.keys()

    def slices(self) -> tuple[FileSlice, ...]:
        """The latest slice of every file group.

        A log file belongs to the newest base file at or below its completion time (facts: slice-by-completion); before table
        version 8 the base instant in its name decides (facts: version-6-slices).
        """
        return tuple(_latest_slice(group, self[group], by_name=self._by_name) for group in sorted(self))

    def twins(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Paths of base files of which no commit says which one counts, and of those beside the one that does."""
        unclear: list[DataFile] = []
        stray: list[DataFile] = []
        for files in self.values():
            counting, beside = files.newest_bases()
            unclear += counting if len(counting) > 1 else ()
            stray += beside
        return _paths(unclear), _paths(stray)

    def missing(self, recorded: Iterable[RecordedFile]) -> tuple[str, ...]:
        """Paths of the files among those recorded that belong to a latest slice and are not there; empty ones are not written.

        What a newer base file has merged, and what lies in a file group that was replaced, may have been cleaned. Before
        table version 8 it is known of base files alone.
        """
        known = (one for one in recorded if one.size_bytes and not (self._by_name and one.file_name.startswith(".")))
        lacking = (one for one in known if self._lacks(one))
        return tuple(sorted(path_below(one.partition, one.file_name) for one in lacking))

    def _lacks(self, recorded: RecordedFile) -> bool:
        """A log file that bears the instant of a pending clustering is of a file group that is not there yet.

        See facts: dual-write-names.
        """
        name = parse_data_file(recorded.file_name)
        if name is None and recorded.file_name and not recorded.file_name.endswith(NO_ROWS):
            raise _unknown_name(path_below(recorded.partition, recorded.file_name), self._timeline)
        if name is None or (recorded.partition, name.file_id) in self._timeline.replaced:
            return False
        if name.is_log and name.instant in self._timeline.files and name.instant not in self._timeline.completions:
            return False
        files = self.get((recorded.partition, name.file_id)) or FileGroup()
        if (recorded.completed if name.is_log else name.instant) < files.base_instant:
            return False
        if name.is_log:
            return all(file.name != name.name for file in files.logs)
        return all(file.name.name != name.name for file in files.bases)


def _written(
    name: str, size_bytes: int, requested: str, completed: str, write: GroupWrite, recorded_bytes: int | None
) -> LogFile:
    """The log file, with what its commit says of the times and deletes in it."""
    return LogFile(
        name,
        size_bytes,
        requested,
        completed,
        write.certain_min_ms,
        write.has_deletes,
        recorded_bytes,
        write.seen_ms,
        write.unknown_is_deletes,
        impossible_ms=write.impossible_ms,
    )


def data_files(listed: Listing, timeline: Timeline, completion: Callable[[str], str | None]) -> Iterator[DataFile]:
    """Every data file in a listing that is of a commit that completed, less the file groups that were replaced.

    `completion` gives the completion time of an instant, archived ones included, and None where it never completed.

    Raises:
        TableError: a file of such a commit may be a data file of a form that is not known.

    """
    for partition, files in listed.items():
        for file_name, size in files.items():
            name = parse_data_file(file_name)
            if name is None and (instant := unknown_instant(file_name)) and completion(instant) is not None:
                raise _unknown_name(path_below(partition, file_name), timeline)
            if name is not None and (partition, name.file_id) not in timeline.replaced:
                completed = completion(name.instant) or _begun(name, timeline)
                if completed is not None:
                    text_of(f"{partition}/{file_name}")
                    yield DataFile((partition, name.file_id), name, size, time_of(completed))


def _unknown_name(path: str, timeline: Timeline) -> TableError:
    """A file that a commit wrote, or may have written, may be a log file of a form that is not known."""
    message = f"`{path}` in `{timeline.storage.location}` may be a data file, and its name has a form that is not known"
    hint = "a later Hudi may have written it: look for a later etc; move it away if it is none of the table's"
    return TableError(Code.UNKNOWN_METADATA, message, hint=hint)


def _paths(files: Iterable[DataFile]) -> tuple[str, ...]:
    return tuple(sorted(path_below(file.group[0], file.name.name) for file in files))


def files_of(completed: str, commit: CommitMetadata) -> Iterator[RecordedFile]:
    """The files that an archived commit says that it wrote."""
    stats = commit.stats
    for (partition, _), name, size in zip(stats.groups, stats.file_names, stats.sizes_bytes, strict=True):
        yield RecordedFile(completed, partition, name, size)


def twin_instants(files: Iterable[DataFile]) -> frozenset[str]:
    """The instants at which a file group has more than one base file."""
    counts = Counter((file.group, file.name.instant) for file in files if not file.name.is_log)
    return frozenset(instant for (_, instant), count in counts.items() if count > 1)


def _begun(name: DataFileName, timeline: Timeline) -> str | None:
    """Before table version 8 a log file may be named by a compaction that is still pending, and holds committed blocks."""
    return name.instant if timeline.layout < 2 and name.is_log and name.instant in timeline.files else None


def _latest_slice(group: GroupKey, files: FileGroup, *, by_name: bool) -> FileSlice:
    base = max(files.newest_bases()[0], key=lambda file: file.name.name, default=None)
    newest, own = base.name.instant if base else "", files.logs
    if base is not None:
        own = [file for file in own if (file.requested if by_name else file.completed) >= newest]
    return FileSlice(
        partition=group[0],
        file_id=group[1],
        base_instant=newest or min((file.requested for file in own), default=""),
        base_file=base.name.name if base else None,
        base_file_bytes=base.size_bytes if base else 0,
        log_files=tuple(_in_order(own)),
        base_file_recorded_bytes=base.recorded_bytes if base else None,
        base_completed=base.completed if base else "",
    )


def _in_order(logs: Sequence[LogFile]) -> Sequence[LogFile]:
    """By completion, instant, version and name; mostly they are already, and names need not be taken apart."""
    completed = [one.completed for one in logs]
    if all(map(lt, completed, completed[1:])):
        return logs
    return sorted(logs, key=_order)


def _order(log_file: LogFile) -> tuple[str, str, int, str]:
    name = parse_data_file(log_file.name)
    return log_file.completed, log_file.requested, name.version if name else 0, log_file.name


#: Hudi's mark of a partition; it says when it was made.
MARKER = ".hoodie_partition_metadata"
#: What Hudi asks for; a task's draft of it bears the task's number (facts: partition-marks).
_MARKS = frozenset((MARKER, f"{MARKER}.parquet", f"{MARKER}.orc"))
#: In each name of a carried log file, and in few others.
_MAYBE_CARRIED = ".log.0_"


def partitions_of(tree: Tree) -> Mapping[str, dict[str, int]]:
    """Bytes by file name of the folders that Hudi has marked as partitions, the marks left out."""
    found = {folder: files for folder, files in tree.items() if not _MARKS.isdisjoint(files)}
    for files in found.values():
        for mark in [name for name in files if name.startswith(MARKER)]:
            del files[mark]
    return found


def marks_lost(folders: Listing, recorded: Iterable[RecordedFile], replaced: Collection[GroupKey]) -> Iterator[str]:
    """Paths of the marks that unmarked folders lack in which there are files that a commit wrote as those of a partition.

    Readers by the metadata table see them; those that list the folders do not. What was replaced nobody reads.
    """
    there = (one for one in recorded if one.file_name in folders.get(one.partition, ()))
    named = ((one.partition, parse_data_file(one.file_name)) for one in there)
    found = {partition for partition, name in named if name is not None and (partition, name.file_id) not in replaced}
    return (path_below(folder, MARKER) for folder in sorted(found))


def instants_in(listed: Listing) -> frozenset[str]:
    """The instants in the names of data files."""
    names = (parse_data_file(name) for files in listed.values() for name in files)
    return frozenset(name.instant for name in names if name is not None)


class LatestSlices(NamedTuple):
    """The latest slices, and paths of files: missing in them, carried ones without their compaction, files that were added to
    file groups which were replaced without them, base files of which nobody knows which one counts, those beside the one that
    does, and files that their commit did not record, so that readers by the metadata table may not see them. `hidden` are the
    instants of archived writes with a file of each, before which the active timeline begins. `changelog` is the mode in which the
    table is written.
    """

    latest: tuple[FileSlice, ...]
    missing: tuple[str, ...]
    orphans: tuple[str, ...]
    unseen: tuple[str, ...]
    unclear: tuple[str, ...]
    stray: tuple[str, ...]
    unrecorded: tuple[str, ...]
    hidden: tuple[tuple[str, str], ...]
    changelog: Changelog


def latest_slices(commits: TableCommits) -> LatestSlices:
    """By the files in the table's folders."""
    tree = {folder: dict(files) for folder, files in commits.tree.items()}  # what is placed is taken out of it
    listed = partitions_of(tree)
    return _slices_in(commits, listed, {folder: files for folder, files in tree.items() if folder not in listed})


def _slices_in(commits: TableCommits, listed: Listing, beside: Listing) -> LatestSlices:
    """The slices of the partitions as `listed`; `beside` are the table's other folders."""
    timeline, archive = commits.timeline, commits.archive
    unseen = tuple(sorted(set(_unseen_in(listed, commits))))
    groups = FileGroups(timeline)
    recorded = groups.add_recorded(listed, commits.metadata, commits.writes)
    completion = completions_of(timeline, archive)
    orphans = tuple(_take_orphans(listed, timeline, archive))
    rest = list(data_files(listed, timeline, completion))
    named = {(file.name.instant, file.group) for file in rest if file.name.is_log}
    facts: LogFacts
    then: Sequence[RecordedFile] = ()
    archived: Mapping[str, CommitMetadata] = {}
    if timeline.layout < 2:
        facts = slice_facts(commits.metadata.values(), named, timeline.first_active or "", commits.trust)
    else:
        asked = twin_instants(rest).union((instant for instant, _ in named), instants_in(beside))
        archived = archive.commit_metadata(asked - timeline.files.keys())
        archived = {**archived, **with_log_forms(commits.storage, timeline.layout, archived, commits.tree)}
        ends = {instant: archive.completions.get(instant, instant) for instant in archived}
        then = [one for requested, commit in archived.items() for one in files_of(ends[requested], commit)]
        completions = {**timeline.completions, **ends}
        facts = CommitWrites({**commits.metadata, **archived}, completions, commits.trust)
    groups.add(rest, (*recorded, *then), facts)
    records = [one.record for one in commits.completed if timeline.layout < 2 or SPLIT in one.metadata.extra]
    records += [compaction_record(one, one, commit.extra) for one, commit in archived.items() if SPLIT in commit.extra]
    event_time, since = commits.event_time, commits.column_since
    own = (one for one in records if one is not None and is_of_column(event_time, one, since))
    thresholds = {one.instant: one.threshold_ms for one in own}
    in_part = {one for one, commit in {**archived, **commits.metadata}.items() if commit.log_form == "partial"}
    slices = tuple(_unbounded(_bounded_by_plans(one, thresholds), in_part) for one in groups.slices())
    missing = (*groups.missing(recorded), *marks_lost(beside, then, timeline.replaced))
    known = commits.metadata.keys() | archived.keys()
    is_listed = bool(metadata_partitions(commits.properties))
    never = archive.lacking(groups.archived_instants(slices, rest)) if is_listed else frozenset()
    unrecorded = tuple(groups.unrecorded(slices, known, never, facts)) if is_listed else ()
    changelog = changelog_of({**archived, **commits.metadata}, slices)
    hidden = tuple(sorted(_hidden_in(listed, timeline, archive)))
    return LatestSlices(slices, missing, orphans, unseen, *groups.twins(), unrecorded, hidden, changelog)


def _hidden_in(listed: Listing, timeline: Timeline, archive: Archive) -> Iterator[tuple[str, str]]:
    """Each archived write that is later than the first active one, with a file that bears its instant.

    Readers do not show it: archiving went beyond a savepoint, which was deleted since (facts: savepoint-deleted).
    """
    _, first = timeline.archive_reach
    later = {one for one in instants_in(listed) if one > first and one not in timeline.files}
    held = archive.holding(later) if first else frozenset()
    for partition, files in listed.items() if held else ():
        named = ((name, parse_data_file(name)) for name in files)
        yield from (
            (parsed.instant, path_below(partition, name)) for name, parsed in named if parsed and parsed.instant in held
        )


def _bounded_by_plans(file_slice: FileSlice, thresholds: Mapping[str, int]) -> FileSlice:
    """The slice, with what is known of log files that compactions carried or split off."""
    if not any(_MAYBE_CARRIED in one.name for one in file_slice.log_files):
        return file_slice
    return replace(file_slice, log_files=tuple(_bounded_by_plan(one, thresholds) for one in file_slice.log_files))


def _bounded_by_plan(log_file: LogFile, thresholds: Mapping[str, int]) -> LogFile:
    """A carried log file holds nothing up to the threshold of the compaction that made it: so its plan knew.

    When its rows came its name does not show, so that the promise on latency bounds nothing.
    """
    if log_file.seen_event_time_ms is not None or not is_carried_name(log_file.name):
        return log_file
    threshold_ms = thresholds.get(log_file.requested)
    if threshold_ms is None:
        return log_file._replace(rows_since="")
    return log_file._replace(seen_event_time_ms=threshold_ms + 1, rows_since=None)


def _unbounded(file_slice: FileSlice, in_part: Collection[str]) -> FileSlice:
    """The slice; where one of these writes updated rows of it in part, nobody knows what its log files change.

    Before table version 8 no writer does, and no name says which write it was.
    """
    if not in_part or not any(one.requested in in_part for one in file_slice.log_files):
        return file_slice
    return replace(file_slice, log_files=tuple(map(_unknown, file_slice.log_files)), updates_in_part=True)


def _unknown(log_file: LogFile) -> LogFile:
    """A log file whose event times bound nothing; what deletes alone may be left out behind a writer, other rows may not."""
    seen_ms, known_ms = log_file.seen_event_time_ms, log_file.min_event_time_ms
    seen_ms = seen_ms if known_ms is None else known_ms
    is_deletes = log_file.unknown_is_deletes and seen_ms is None
    return log_file._replace(min_event_time_ms=None, seen_event_time_ms=seen_ms, unknown_is_deletes=is_deletes)


def _unseen_in(listed: Listing, commits: TableCommits) -> Iterator[str]:
    """Paths of files that a write added to a file group which had been taken away without them, or was by then.

    After a deletion base files are readable: a bulk insert begins the partition anew (facts: deleted-partition-write).
    """
    taken, completions = commits.timeline.taken, commits.timeline.completions
    for requested, commit in commits.metadata.items():
        if taken.keys().isdisjoint(commit.stats.groups) or commit.operation in _SERVICES:
            continue
        for group, name in zip(commit.stats.groups, commit.stats.file_names, strict=True):
            by = taken.get(group)
            if by is None or completions[requested] <= by.seen_until or name not in listed.get(group[0], ()):
                continue
            is_read = not name.startswith(".") and not by.is_clustering
            if not is_read and not _is_written_twice(commit, group[0], by):
                yield path_below(group[0], name)


def _is_written_twice(commit: CommitMetadata, partition: str, by: Taken) -> bool:
    """Whether the rows went to the new file groups of a clustering too, whose log files bear its instant.

    Writers of consistent hashing do that until it has completed (facts: dual-write-names).
    """
    written = zip(commit.stats.groups, commit.stats.file_names, strict=True)
    return by.is_clustering and any(of == partition and f"_{by.by}.log." in name for (of, _), name in written)


def _take_orphans(listed: Listing, timeline: Timeline, archive: Archive) -> Iterator[str]:
    """Takes carried log files and rows that were split off out of the listing, where their compaction is unknown.

    Their paths are given.
    """
    never_completed = cache(
        lambda instant: _never_completed(instant, timeline, archive)
    )  # few instants have many files
    for partition, files in listed.items():
        for file_name in filter(is_carried_name, sorted(name for name in files if _MAYBE_CARRIED in name)):
            name = parse_data_file(file_name)
            if name and never_completed(name.instant):
                del files[file_name]
                yield path_below(partition, file_name)


def _never_completed(instant: str, timeline: Timeline, archive: Archive) -> bool:
    """Whether nobody completed an instant that is not pending. Hudi takes each before its active timeline for completed, whose
    archive has it unless that begins later (facts: split-orphan).
    """
    if instant in timeline.files:
        return False
    if completions_of(timeline, archive)(instant) is None:
        return True
    return timeline.layout > 1 and bool(archive.lacking({instant}))
