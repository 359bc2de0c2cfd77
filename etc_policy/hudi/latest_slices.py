"""The latest file slices of a table, and what is wrong with its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from etc_policy.hudi.archive import completions_of
from etc_policy.hudi.layout import parse_data_file
from etc_policy.hudi.log_facts import CommitWrites, LogFacts, slice_facts
from etc_policy.hudi.partitions import instants_in, marks_lost, partitions_of
from etc_policy.hudi.slices import (
    FileGroups,
    Listing,
    RecordedFile,
    data_files,
    files_of,
    twin_instants,
)
from etc_policy.hudi.table_commits import TableCommits
from etc_policy.hudi.timeline import Timeline
from etc_policy.plan.carry import is_carried_name
from etc_policy.table.history import is_of_column
from etc_policy.table.state import FileSlice, path_below


class LatestSlices(NamedTuple):
    """The latest slices, and paths of files: missing in them, carried ones without their compaction, log files that were added to
    file groups after these were replaced, base files of which nobody knows which one counts, and those beside the one that does.
    """

    latest: tuple[FileSlice, ...]
    missing: tuple[str, ...]
    orphans: tuple[str, ...]
    unseen: tuple[str, ...]
    unclear: tuple[str, ...]
    stray: tuple[str, ...]


def latest_slices(commits: TableCommits) -> LatestSlices:
    """By the files in the table's folders."""
    tree = commits.tree.read()
    listed = partitions_of(tree)
    return _slices_in(commits, listed, {folder: files for folder, files in tree.items() if folder not in listed})


def _slices_in(commits: TableCommits, listed: Listing, beside: Listing) -> LatestSlices:
    """The slices of the partitions as `listed`; `beside` are the table's other folders."""
    timeline, archive = commits.timeline, commits.archive
    unseen = tuple(sorted(set(_unseen_in(listed, commits))))
    groups = FileGroups(timeline)
    recorded = groups.add_recorded(listed, commits.metadata, commits.writes)
    completion = completions_of(timeline, archive)
    rest = list(data_files(listed, timeline, completion))
    named = {(file.name.instant, file.group) for file in rest if file.name.is_log}
    facts: LogFacts
    then: Sequence[RecordedFile] = ()
    if timeline.layout < 2:
        facts = slice_facts(commits.metadata.values(), named, timeline.first_active or "", commits.trust)
    else:
        asked = twin_instants(rest).union((instant for instant, _ in named), instants_in(beside))
        archived = archive.commit_metadata(asked - timeline.files.keys())
        then = [one for requested, commit in archived.items() for one in files_of(requested, commit)]
        completions = {**timeline.completions, **{instant: instant for instant in archived}}
        facts = CommitWrites({**commits.metadata, **archived}, completions, commits.trust)
    groups.add(rest, (*recorded, *then), facts)
    orphans = tuple(_orphans_in(listed, timeline, completion))
    slices = groups.slices()
    if timeline.layout < 2:
        records = (one.record for one in commits.completed if one.record is not None)
        thresholds = {one.instant: one.threshold_ms for one in records if is_of_column(commits.event_time, one)}
        slices = tuple(_bounded_by_plan(one, thresholds) for one in slices)
    missing = (*groups.missing(recorded), *marks_lost(beside, then, timeline.replaced))
    return LatestSlices(slices, missing, orphans, unseen, *groups.twins())


def _bounded_by_plan(file_slice: FileSlice, thresholds: Mapping[str, int]) -> FileSlice:
    """The slice, whose carried log files hold nothing up to the threshold of the compaction that carried them: so its plan knew.

    When their rows came their names do not show, so that the promise on latency bounds nothing.
    """
    threshold_ms = thresholds.get(file_slice.base_instant)
    if threshold_ms is None:
        return file_slice
    logs = (
        one._replace(seen_event_time_ms=threshold_ms + 1, rows_since=None)
        if is_carried_name(one.name) and one.seen_event_time_ms is None
        else one
        for one in file_slice.log_files
    )
    return replace(file_slice, log_files=tuple(logs))


def _unseen_in(listed: Listing, commits: TableCommits) -> Iterator[str]:
    """Paths of log files to which a write added that completed after another had taken their file group away."""
    gone, completions = commits.timeline.overwritten, commits.timeline.completions
    first = min(gone.values(), default=None)
    later = (one for one in commits.metadata if first is not None and completions[one] > first)
    for requested in later:
        stats = commits.metadata[requested].stats
        for group, name in zip(stats.groups, stats.file_names, strict=True):
            is_after = group in gone and completions[requested] > gone[group]
            if is_after and name.startswith(".") and name in listed.get(group[0], ()):
                yield path_below(group[0], name)


def _orphans_in(listed: Listing, timeline: Timeline, completion: Callable[[str], str | None]) -> Iterator[str]:
    """Paths of carried log files (table version 6) whose compaction neither completed nor is pending."""
    for partition, files in listed.items() if timeline.layout < 2 else ():
        for file_name in filter(is_carried_name, sorted(files)):
            name = parse_data_file(file_name)
            if name and name.instant not in timeline.files and completion(name.instant) is None:
                yield path_below(partition, file_name)
