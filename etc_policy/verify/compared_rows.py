"""Which rows a verification compares: as of which instant, of which file groups, and which files both views read
alike, from the verifier's own listing alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from itertools import chain

from etc_policy.plan.split import split_groups
from etc_policy.policy.manifest import Sample, Verify, Writer, digest
from etc_policy.table.history import TableHistory
from etc_policy.table.instants import add_ms
from etc_policy.table.state import CompactionRecord, FileSlice, GroupKey, TableState
from etc_policy.verify.catalog import source_of
from etc_policy.verify.suites import SuiteExpectation

#: Of the bytes of base files: where less than this is alike, comparing everything at once costs less.
LEAST_SHARE = 0.5
#: What keeps Hudi from time travel beyond it as long as it is incomplete (`TimelineUtils.validateTimestampAsOf`).
_REFUSED = ("commit", "deltacommit", "replacecommit")
#: That, and what changes what is read as of a time after it when it ends (facts: time-travel-by-request).
_COMMITS = (*_REFUSED, "clustering")


def spared_files(state: TableState, pin: str | None) -> frozenset[str]:
    """The files that both views read alike, where to leave them out of a comparison pays."""
    found = same_files(state, pin)
    alike_bytes = sum(one.base_file_bytes for one in state.slices if one.base_file in found)
    return found if alike_bytes >= LEAST_SHARE * sum(one.base_file_bytes for one in state.slices) else frozenset()


def same_files(state: TableState, pin: str | None) -> frozenset[str]:
    """Names of the base files that are all there is of their file group, as of the pinned instant and now.

    RT is the base file of a file group merged with its log files; where there is no log file it is the base file, which is
    RO. A name that another file group has too, with log files, is not among them, as a row says no more than the file's name.
    """
    completions = {instant.requested: instant.completed for instant in state.instants}
    alike, others = set[str](), set[str]()
    for one in state.slices:
        if one.base_file is not None:
            is_alike = not one.log_files and _is_read_whole(one, state, pin, completions)
            (alike if is_alike else others).add(one.base_file)
    return frozenset(alike - others)


def other_partitions(state: TableState, same: Collection[str]) -> frozenset[str]:
    """Paths of the partitions that have file groups beside those of which the given files are all there is."""
    return frozenset(one.partition for one in state.slices if one.base_file is None or one.base_file not in same)


def closed_partitions(state: TableState, pin: str | None) -> frozenset[str]:
    """Paths of the partitions of base files alone, which both views read alike as of the pinned instant and now."""
    return frozenset(one.partition for one in state.slices) - other_partitions(state, same_files(state, pin))


def partitions_read_whole(state: TableState, pin: str | None) -> frozenset[str]:
    """Paths of the partitions whose files are all read as of the pinned instant: of none anything came since."""
    completions = {instant.requested: instant.completed for instant in state.instants}
    partly = {one.partition for one in state.slices if not _is_read_whole(one, state, pin, completions)}
    return frozenset(one.partition for one in state.slices) - partly


def listed_files(state: TableState, versions: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """What the base files of partitions are, by name, size and version; those are left out where a version is not known."""
    found = dict[str, dict[str, str | None]]()
    for one in state.slices:
        if one.partition in versions and one.base_file is not None:
            version = versions[one.partition].get(one.base_file)
            found.setdefault(one.partition, {})[one.base_file] = version
    return {partition: digest(files) for partition, files in found.items() if None not in files.values()}


def may_rest(items: Iterable[SuiteExpectation], writer: Writer, latest_ms: int | None) -> bool:
    """Whether rows of other partitions cannot change what these expectations about rows say of some partitions.

    Others could with a global index, by which a key may be in one partition alone, and in what a suite asks of a whole view.
    What was compared before has no event time after `latest_ms`.
    """
    is_global = (writer.index or "").startswith("global_")
    return not is_global and all(_is_of_each_row(one, latest_ms) for one in items)


def _is_of_each_row(item: SuiteExpectation, latest_ms: int | None) -> bool:
    given = {name: value for name, value in item.kwargs.items() if value is not None and name != "threshold_ms"}
    bound_ms = given.pop("latest_ms", None)
    is_later = bound_ms is None or (latest_ms is not None and bound_ms >= latest_ms)
    return source_of(item.type) == "rows" and is_later and not given


def _is_read_whole(one: FileSlice, state: TableState, pin: str | None, completions: Mapping[str, str | None]) -> bool:
    if pin is None or pin == state.last_completed:
        return True
    if one.log_files and not state.is_cut:
        return False  # nobody knows when what is in them came
    files = chain(
        ((one.base_instant, completions.get(one.base_instant, one.base_completed or one.base_instant)),),
        ((log_file.requested, log_file.completed) for log_file in one.log_files),
    )
    return all(requested <= pin and completed is not None and completed <= pin for requested, completed in files)


def pin_of(state: TableState) -> str | None:
    """The instant as of which a query shows the table as it is in `state`; None where Hudi allows no such query.

    That is the last completion, or where a writer in flight has begun before it, the time right before that writer. etc's
    own compaction must be part of it: what it promised, and all that it merged, is older. What other writers completed
    since is in neither view then; it is late data, which the metadata shows.
    """
    last = state.last_completed
    incomplete = min((one.requested for one in state.pending if one.action in _COMMITS), default=None)
    if last is None or incomplete is None or incomplete > last:
        return last
    pin, own = add_ms(incomplete, -1), state.last_compaction
    return pin if own is not None and own.instant <= pin else None


def why_no_cut(state: TableState) -> str | None:
    """Why RO as of the last compaction cannot be compared with the rows that were there before it, as a clause."""
    record = state.last_compaction
    if record is None:
        return "etc has compacted nothing yet"
    if not is_by_record(record):
        return "the last compaction was not by record"
    retained = state.earliest_commit_to_retain
    if retained is not None and record.instant <= retained:
        return f"the cleaner of the writers keeps what readers need as of {retained} and later (`hoodie.cleaner.hours.retained`)"
    cleans = (
        one.requested for one in state.instants if one.action == "clean" and (one.completed or "") > record.completed
    )
    if retained is None and (clean := next(cleans, None)) is not None:
        return f"the clean at {clean} may have removed files from before the last compaction"
    writer = first_incomplete(state)
    return no_time_travel(writer) if writer is not None and writer < record.instant else None


def first_incomplete(state: TableState) -> str | None:
    """The write at and beyond which Hudi refuses time travel; one that died counts (facts: time-travel-limit)."""
    return min((one.requested for one in state.pending if one.action in _REFUSED), default=None)


def no_time_travel(writer: str) -> str:
    """That it is refused, as a clause."""
    return f"the write at {writer} has not ended, and Hudi allows no time travel beyond it"


def is_by_record(record: CompactionRecord) -> bool:
    """Whether a compaction merged the rows up to its threshold alone."""
    return record.policy_values.get("strategy.granularity") == "record"


def merged_whole(state: TableState, history: TableHistory) -> frozenset[GroupKey]:
    """File groups that the last compaction did not split, as it may have merged deletes there: for all that writers recorded."""
    record = state.last_compaction
    commit = next((one for one in history.commits if record is not None and one.requested == record.instant), None)
    if record is None or commit is None or not is_by_record(record):
        return frozenset()
    merged = (one for one in history.writes if one.completed < record.instant)
    deleting = {(one.partition, one.file_id) for one in merged if one.has_deletes}
    first = history.commits[0].requested  # what was written to a slice before may be archived
    unsplit = {(one.partition, one.file_id): one.previous or "" for one in commit.groups}
    unsplit = {group: since for group, since in unsplit.items() if group not in split_groups(commit.extra)}
    return frozenset(group for group, since in unsplit.items() if group in deleting or since < first)


def waiting_writes(state: TableState, threshold_ms: int) -> frozenset[str]:
    """The writes, as paths of file group and instant, of which all log files that are left are known to be after a threshold.

    Rows without an event time that they hold are merged with the others. Before table version 8 no name says which write it was.
    """
    times = defaultdict[str, list[int | None]](list)
    for file_slice, log_file in state.log_files if state.is_cut else ():
        path = "/".join((*file_slice.group, log_file.requested))
        times[path].append(log_file.min_event_time_ms)
    return frozenset(one for one, of in times.items() if all(ms is not None and ms > threshold_ms for ms in of))


def seed_of(verify: Verify, now_ms: int) -> int:
    """The policy's seed, else one that differs from check to check and is named in the result."""
    return verify.sample.seed if verify.sample is not None and verify.sample.seed is not None else now_ms


def choose_file_groups(state: TableState, verify: Verify, now_ms: int) -> frozenset[str]:
    """The file ids of the chosen share of the file groups; one at least, if there are any.

    Each group's place depends on the seed and its own id alone: groups that come or go leave the others where they are.
    """
    ids = {file_slice.file_id for file_slice in state.slices}
    seed = seed_of(verify, now_ms)
    ordered = sorted(ids, key=lambda file_id: sha256(f"{seed}/{file_id}".encode()).digest())
    share = (verify.sample or Sample()).share
    return frozenset(ordered[: max(1, math.ceil(share * len(ordered)))])
