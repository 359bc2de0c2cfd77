"""What commit metadata says about file groups: the smallest event times of log files, and whether they may hold deletes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import partial
from itertools import repeat
from typing import Any, TypeVar

from etc_policy.hudi.commits import CommitMetadata, GroupKey, WriteStats
from etc_policy.hudi.layout import parse_data_file
from etc_policy.policy.schema import MAX_AHEAD_MS
from etc_policy.table.history import GroupWrite
from etc_policy.table.impossible_times import latest_possible_ms

_Named = TypeVar("_Named", bound=tuple[Any, ...])
#: What was written to each file group, by the instant that log files bear in their names.
LogFacts = Mapping[str, Mapping[GroupKey, GroupWrite]]

#: The table property that names a column by which rows are marked as deleted.
_DELETE_MARKER = "hoodie.record.merge.property.hoodie.payload.delete.field"
#: Operations whose write stats do not count deletes; those of a log compaction do (facts: log-compaction-deletes).
_OPAQUE = (None, "UNKNOWN")


def _always(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Trust:
    """`times` is false where the recorded event times cannot be the policy's, `deletes` where stats do not count deletes.

    `bounds` is false where a row may change another one with an earlier event time: then a file's own times bound nothing.
    `zone` is that of instants, and event times later than their commit by more than `max_ahead_ms` cannot be true.
    Those of commits that were requested before `since` are of another column, and may be where `is_of_column` is not true.
    `of_unseen` is false where commits may not count deletes of whose log files nobody has seen one, as others do not.
    """

    times: bool
    deletes: bool
    bounds: bool = True
    zone: tzinfo = UTC
    max_ahead_ms: int = MAX_AHEAD_MS
    since: str = ""
    is_of_column: Callable[[str], bool] = _always
    of_unseen: bool = True

    def has_times(self, requested: str) -> bool:
        """Whether the event times that a commit requested then has recorded are the policy's."""
        return self.times and requested >= self.since and self.is_of_column(requested)

    def latest_ms(self, completed: str) -> int:
        """The latest event time that a commit which completed then can have."""
        return latest_possible_ms(completed, self.zone, self.max_ahead_ms)


#: Where nobody asks for event times and deletes.
NO_TRUST = Trust(times=False, deletes=False, bounds=False)


class CommitWrites(Mapping[str, Mapping[GroupKey, GroupWrite]]):
    """What each of these commits wrote, found when it is asked for: of most commits nobody asks."""

    def __init__(self, commits: Mapping[str, CommitMetadata], completions: Mapping[str, str], trust: Trust) -> None:
        self._commits, self._completions, self._trust = commits, completions, trust
        self._found: dict[str, dict[GroupKey, GroupWrite]] = {}

    def __getitem__(self, requested: str) -> Mapping[GroupKey, GroupWrite]:
        found = self._found.get(requested)
        if found is None:
            commit = self._commits[requested]
            found = self._found[requested] = group_writes(requested, self._completions[requested], commit, self._trust)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._commits)

    def __len__(self) -> int:
        return len(self._commits)

    def are_plain(self, requested: str) -> bool:
        """Whether all that a commit wrote are log files without deletes, each with its event time."""
        return _is_plain(requested, self._completions[requested], self._commits[requested], self._trust)


def group_writes(requested: str, completed: str, commit: CommitMetadata, trust: Trust) -> dict[GroupKey, GroupWrite]:
    """What a commit wrote to each file group, over all write stats of the group (facts: rolled-over-event-times).

    A stat with deletes makes it uncertain: deletes by key carry no event time, and the stat does not distinguish them. So
    does a stat of the same group that names no log file, if it has deletes or no event time; its time counts with theirs.
    Of a group without log files nothing is known but what was written.
    """
    if _is_plain(requested, completed, commit, trust):
        return _plain_writes(requested, completed, commit.stats)
    writes: dict[GroupKey, GroupWrite] = {}
    with_rows: set[GroupKey] = set()
    others: list[GroupWrite] = []
    for write, has_rows in _of_stats(requested, completed, commit, trust):
        key = write.partition, write.file_id
        if has_rows:
            with_rows.add(key)
        if not write.log_files:
            others.append(write)
        else:
            writes[key] = _joined(writes[key], write) if key in writes else write
    for other in others:
        key = other.partition, other.file_id
        if key in writes:
            time_ms = None if writes[key].known_min_ms is None else other.known_min_ms
            writes[key] = _joined(writes[key], other._replace(known_min_ms=time_ms, rows=0))
        else:
            writes[key] = other._replace(known_min_ms=None, certain=False, has_deletes=True)
    beside = {(other.partition, other.file_id) for other in others}
    deleting = [key for key, write in writes.items() if write.has_deletes and key not in beside]
    for key in deleting:
        has_times = trust.bounds and writes[key].known_min_ms is not None
        writes[key] = writes[key]._replace(unknown_is_deletes=has_times or key not in with_rows)
    return writes


def _is_plain(requested: str, completed: str, commit: CommitMetadata, trust: Trust) -> bool:
    is_trusted = _has_times(requested, commit, trust) and trust.bounds
    is_plain = is_trusted and commit.plain_instant == requested and commit.operation not in _OPAQUE
    is_plain = is_plain and not hides_deletes(commit, trust) and commit.log_form != "unreadable"
    return is_plain and commit.latest_event_ms <= trust.latest_ms(completed)


def _has_times(requested: str, commit: CommitMetadata, trust: Trust) -> bool:
    """Whether a commit's event times are those of its rows: of rows that are updated in part it records what an INSERT clause
    would set (facts: merge-into-in-part).
    """
    return trust.has_times(requested) and commit.log_form != "partial"


def _plain_writes(requested: str, completed: str, stats: WriteStats) -> dict[GroupKey, GroupWrite]:
    partitions, file_ids = zip(*stats.groups, strict=True)
    writes = of_columns(
        GroupWrite,
        requested=repeat(requested),
        completed=repeat(completed),
        partition=partitions,
        file_id=file_ids,
        known_min_ms=stats.min_event_times_ms,
        certain=repeat(True),
        rows=stats.rows,
        has_deletes=repeat(False),
        unknown_is_deletes=repeat(False),
        log_files=repeat(1),
        bytes_written=stats.sizes_bytes,
        previous=map(_previous, stats.previous),
        merged_log_files=stats.merged_log_files,
        merged_log_bytes=stats.merged_log_bytes,
        impossible_ms=repeat(None),
    )
    return dict(zip(stats.groups, writes, strict=True))


def _of_stats(
    requested: str, completed: str, commit: CommitMetadata, trust: Trust
) -> Iterator[tuple[GroupWrite, bool]]:
    """What each stat says for itself, and whether it may have written rows."""
    is_opaque, has_times = (
        hides_deletes(commit, trust) or commit.operation in _OPAQUE,
        _has_times(requested, commit, trust),
    )
    stats = commit.stats
    columns = stats.groups, stats.file_names, stats.rows, stats.deletes, stats.min_event_times_ms, stats.sizes_bytes
    others = stats.previous, stats.max_event_times_ms, stats.merged_log_files, stats.merged_log_bytes
    latest_ms = trust.latest_ms(completed) if has_times else 0
    for key, name, rows, deletes, time, size, previous, last, files, merged in zip(*columns, *others, strict=True):
        time_ms, has_deletes = time if has_times else None, is_opaque or deletes != 0
        ahead_ms = max(time_ms, last or time_ms) if time_ms is not None else None
        ahead_ms = ahead_ms if ahead_ms is not None and ahead_ms > latest_ms else None
        certain = time_ms is not None and ahead_ms is None and not has_deletes and trust.bounds
        time_ms = time_ms if ahead_ms is None or (time_ms or 0) <= latest_ms else None
        write = GroupWrite(
            requested=requested,
            completed=completed,
            partition=key[0],
            file_id=key[1],
            known_min_ms=time_ms,
            certain=certain,
            rows=rows + deletes,
            has_deletes=has_deletes or commit.log_form == "unreadable",
            log_files=int(name.startswith(".")),
            bytes_written=size,
            previous=_previous(previous),
            merged_log_files=files,
            merged_log_bytes=merged,
            impossible_ms=ahead_ms,
        )
        yield write, bool(rows or is_opaque or not deletes)


def of_columns(kind: type[_Named], **columns: Iterable[Any]) -> Iterator[_Named]:
    """Named tuples from a column for each of their fields, of which some may repeat a value for ever; faster than by calls.

    Raises:
        TypeError: the columns are not the fields.

    """
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    if columns.keys() != set(fields):
        raise TypeError(f"{kind.__name__} has the fields {fields}, not {tuple(columns)}")
    return map(partial(tuple.__new__, kind), zip(*(columns[name] for name in fields), strict=False))


def _previous(instant: str) -> str | None:
    """The instant of the slice that was there before; Hudi writes `null` for none."""
    return None if instant in ("", "null") else instant


def _joined(one: GroupWrite, other: GroupWrite) -> GroupWrite:
    """What two stats say about a group: of log files that rolled over the event times are recorded on one of them."""
    times = [write.known_min_ms for write in (one, other) if write.known_min_ms is not None]
    return one._replace(
        known_min_ms=min(times, default=None),
        certain=one.certain and other.certain,
        rows=one.rows + other.rows,
        has_deletes=one.has_deletes or other.has_deletes,
        log_files=one.log_files + other.log_files,
        bytes_written=one.bytes_written + other.bytes_written,
        previous=one.previous or other.previous,
        merged_log_files=one.merged_log_files + other.merged_log_files,
        merged_log_bytes=one.merged_log_bytes + other.merged_log_bytes,
        impossible_ms=one.impossible_ms if other.impossible_ms is None else other.impossible_ms,
    )


def slice_facts(
    commits: Iterable[CommitMetadata], named: Iterable[tuple[str, GroupKey]], first_active: str, trust: Trust
) -> LogFacts:
    """On layout 1: which slices' log files may hold deletes; never an event time.

    There a log file is named by its base file's instant, so no commit's event times can be matched to it. Commits on a
    slice that is older than the active timeline may be archived, and are not known. `named` are the instants in log files'
    names and their file groups.
    """
    facts: dict[str, dict[GroupKey, GroupWrite]] = defaultdict(dict)
    deleting = [
        (base, (stat.partition, stat.file_id))
        for commit in commits
        for stat in commit.stats
        if stat.deletes or hides_deletes(commit, trust) or commit.log_form == "unreadable"
        for base in (stat.previous, _instant_in(stat.file_name))
    ]
    unknown = [(base, group) for base, group in named if not trust.deletes or base < first_active]
    for base, group in (*deleting, *unknown):
        facts[base][group] = GroupWrite(base, base, *group, None, certain=False, rows=0, has_deletes=True)
    return facts


def _instant_in(file_name: str) -> str:
    name = parse_data_file(file_name)
    return name.instant if name is not None and name.is_log else ""


def hides_deletes_of(properties: Mapping[str, str]) -> bool:
    """Custom mergers may delete at merge, which the write stats do not count (facts: delete-counts).

    Where a value of some column marks deleted rows, whether the stats count them was never run: they may not.
    """
    return properties.get("hoodie.record.merge.mode") == "CUSTOM" or _DELETE_MARKER in properties


def hides_deletes(commit: CommitMetadata, trust: Trust) -> bool:
    """Whether a commit may have written deletes that its stats do not count: rows that carry their operation may delete."""
    of_log_files = commit.log_form == "operations" or (commit.log_form in ("gone", "unseen") and not trust.of_unseen)
    return not trust.deletes or of_log_files
