"""How far RO is complete partition by partition, and which partitions are closed and done; from metadata alone (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from inspect import cleandoc
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar, Literal, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import ConfigDict, Field

from etc_policy.policy.locations import glob_matches
from etc_policy.policy.manifest import Frozen, Level, Policy, RowsWhenDone, VerifyLevel, digest
from etc_policy.policy.times import Span
from etc_policy.table.apply_state import Proof
from etc_policy.table.history import subject_key
from etc_policy.table.instants import had_passed, instant_to_ms, shown_until
from etc_policy.table.state import WHOLE_SLICE_VERSIONS, FileSlice, GroupKey, LogFile, TableState, path_below
from etc_policy.table.watermark import complete_until_ms, watermark

#: `closed`: nothing more is to come, and RO lacks some of it, or that is not proved; `done`: RO holds all of it.
PartitionStatus = Literal["open", "closed", "done"]
#: A log file's events are never later: an end for partitions of which all rows count.
NO_END_MS = 2**63 - 1
#: Between the first and the last partition of a range; either may be omitted.
RANGE = ".."
#: The worst first.
_ORDER: dict[PartitionStatus | None, int] = {"closed": 0, "open": 1, None: 1, "done": 2}


@dataclass(frozen=True, slots=True)  # a table may have 100,000 of them
class PartitionFreshness:
    """How far RO is complete in one partition.

    `status` is None where the policy does not say when partitions are done, or the path fits its pattern not. `held_back_by`
    is the log file with the smallest event time, in the file group `file_id`; `held_back_assumed` says that this time is
    bounded and not known. No row was written after `last_write_ms`. `lacking` says that RO may lack a row that counts, as far as
    metadata show, and `proof` at which level it is known that RO lacks none. `reopened` counts how often late data reached it
    when it was done; None where nobody counts that.
    """

    #: As pydantic makes it of a dataclass by itself from 2.14 on.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", json_schema_extra={"description": cleandoc(__doc__ or "")}
    )

    partition: str
    complete_until_ms: int
    status: PartitionStatus | None = None
    begins_ms: int | None = None
    ends_ms: int | None = None
    log_files: int = 0
    log_bytes: int = 0
    unknown_log_files: int = 0
    held_back_by: str | None = None
    held_back_assumed: bool = False
    file_id: str | None = None
    last_write_ms: int | None = None
    lacking: bool = False
    proof: VerifyLevel | None = None
    reopened: int | None = None


class PartitionsFreshness(Frozen):
    """The partitions of one table, the worst first; `rows` says which rows of a partition RO holds when it is done.

    `unparsed` counts those whose paths do not fit the policy's pattern, of which `unparsed_example` is one; `same_time` are
    two that are about one time, though nothing else in their paths differs. `unsent` has by action of the policy's `done` how
    many events of the table are still to be sent.
    """

    partitions: tuple[PartitionFreshness, ...]
    rows: RowsWhenDone = "all"
    unparsed: int = 0
    unparsed_example: str | None = None
    same_time: tuple[str, str] | None = None
    unsent: dict[str, int] = Field(default_factory=dict)

    @property
    def done(self) -> dict[str, PartitionFreshness]:
        """Those that are done, by their paths."""
        return {one.partition: one for one in self.partitions if one.status == "done"}

    def counts(self) -> dict[PartitionStatus, int]:
        """How many partitions are open, closed and done."""
        found = Counter(one.status for one in self.partitions)
        return {status: found[status] for status in ("open", "closed", "done")}


def partitions_freshness(
    policy: Policy,
    state: TableState,
    now_ms: int,
    terms: Sequence[str] = (),
    limit_ms: int | None = None,
    proofs: Sequence[Proof] = (),
) -> PartitionsFreshness:
    """The figures of each partition that the terms mean (`is_in`), or of all; the table's files and times must be trusted.

    None is complete beyond the limit. `proofs` are those of the table's last compaction.
    """
    judge = _Judge(policy.at(now_ms), state, now_ms, limit_ms, proofs)
    found = [judge.of(name, slices) for name, slices in by_partition(state.slices).items() if is_in(name, terms)]
    found.sort(key=_worst_first)
    timed = policy.partition_time
    unparsed = [one.partition for one in found if one.ends_ms is None] if timed else []
    return PartitionsFreshness(
        partitions=tuple(found),
        rows=policy.rows_when_done,
        unparsed=len(unparsed),
        unparsed_example=min(unparsed, default=None),
        same_time=_same_time(found) if timed and "*" not in timed.pattern else None,
    )


def by_partition(slices: Iterable[FileSlice]) -> dict[str, list[FileSlice]]:
    """The file slices of each partition."""
    found = dict[str, list[FileSlice]]()
    for one in slices:
        found.setdefault(one.partition, []).append(one)
    return found


def rows_key(policy: Policy, state: TableState, ends_ms: int, slices: Iterable[FileSlice]) -> str:
    """What a comparison of a partition's rows up to its end is about: another file, end or event-time column is another key."""
    what: Callable[[LogFile], object] = (
        (lambda one: (one.name, one.size_bytes)) if state.logs_grow else attrgetter("name")
    )
    files = [(one.base_file, *map(what, one.log_files)) for one in slices]
    return digest([subject_key(policy.event_time, state), ends_ms, sorted(files, key=str)])


def done_since_ms(policy: Policy) -> int | None:
    """When the first partition begins of which events are sent and rows compared (epoch ms); None where these are all."""
    if policy.done is None or policy.done.since is None or policy.partition_time is None:
        return None
    span = policy.partition_time.clock.span(policy.done.since)
    return span.begins_ms if span else None


def counting_until_ms(policy: Policy, span: Span) -> int:
    """The events before which count for a partition to be done."""
    return span.ends_ms if policy.rows_when_done == "until_end" else NO_END_MS


def lacks_before(slices: Iterable[FileSlice], ends_ms: int) -> bool:
    """Whether RO may lack an event before a time: a log file holds one, or nobody knows."""
    times = (log_file.min_event_time_ms for one in slices for log_file in one.log_files)
    return any(time_ms is None or time_ms < ends_ms for time_ms in times)


def closing_slices(policy: Policy, state: TableState, now_ms: int) -> dict[GroupKey, int]:
    """The file groups of closed partitions that RO lacks events of, and before which time, where `on_close` wants them."""
    if not policy.strategy.on_close:
        return {}
    closed = {name: counting_until_ms(policy, span) for name, span in _closed_spans(policy, state, now_ms).items()}
    lacking = (one for one in state.slices if one.partition in closed and lacks_before((one,), closed[one.partition]))
    return {one.group: closed[one.partition] for one in lacking}


def after_their_end(policy: Policy, state: TableState, now_ms: int) -> list[AfterEnd]:
    """The log files of closed partitions that hold events after the end of theirs, as far as that is known."""
    closed = _closed_spans(policy, state, now_ms)
    return [
        AfterEnd(path_below(one.partition, log_file.name), one.partition, latest_ms, closed[one.partition].ends_ms)
        for one, log_file in state.log_files
        if one.partition in closed
        and (latest_ms := log_file.max_event_time_ms or log_file.min_event_time_ms) is not None
        and latest_ms >= closed[one.partition].ends_ms
    ]


def _closed_spans(policy: Policy, state: TableState, now_ms: int) -> dict[str, Span]:
    """Those of closed partitions with log files."""
    if policy.partition_time is None:
        return {}
    clock, latency_ms = policy.partition_time.clock, policy.data_latency_ms
    spans = {name: span for name in state.partitions_with_logs if (span := clock.span(name))}
    return {name: span for name, span in spans.items() if is_closed(span.ends_ms, now_ms, latency_ms)}


def is_closed(ends_ms: int, now_ms: int, data_latency_ms: int) -> bool:
    """Whether all that is about a time before its end has arrived, if data keep their promise on latency."""
    return ends_ms + data_latency_ms <= now_ms


class AfterEnd(NamedTuple):
    """A log file with an event after the end of its partition; `latest_ms` is the latest that is known."""

    path: str
    partition: str
    latest_ms: int
    ends_ms: int


class _Judge:
    """Judges the partitions of one state; RO is complete up to `limit_ms` at most."""

    def __init__(
        self, policy: Policy, state: TableState, now_ms: int, limit_ms: int | None, proofs: Sequence[Proof]
    ) -> None:
        self._policy, self._state, self._now_ms, self._zone = policy, state, now_ms, ZoneInfo(state.timezone)
        self._clock = policy.partition_time.clock if policy.partition_time else None
        latest_ms = complete_until_ms(None, now_ms, policy.data_latency_ms)
        self._limit_ms = latest_ms if limit_ms is None else min(latest_ms, limit_ms)
        self._proofs, self._since_ms = proofs, done_since_ms(policy)
        self._compared = state.apply_state.compared
        is_timed = state.table_version not in WHOLE_SLICE_VERSIONS
        self._completed = {one.requested: one.completed for one in state.instants if is_timed and one.completed}
        self._proven = state.last_compaction.instant if state.last_compaction else ""
        self._taken_back = [one for one in state.instants if one.action in ("rollback", "restore") and one.completed]
        self._last = "" if state.table_version not in WHOLE_SLICE_VERSIONS else state.last_completed or ""
        self._active = {one.requested for one in state.instants}
        # what a compaction made was written before its instant, and what a writer made until its commit completed
        self._written = {
            one.requested: one.completed
            for one in state.instants
            if one.completed is not None and (one.action in ("deltacommit", "replacecommit") or one.is_bulk_insert)
        }

    def of(self, partition: str, slices: Sequence[FileSlice]) -> PartitionFreshness:
        """The figures of one partition, by its latest slices."""
        span, last_write_ms = self._clock.span(partition) if self._clock else None, self._last_write_ms(slices)
        lacking = lacks_before(slices, counting_until_ms(self._policy, span) if span else NO_END_MS)
        proof = None if lacking else self._proof(partition, span, slices)
        found = PartitionFreshness(
            partition=partition,
            status=self._status(span, last_write_ms, proof),
            begins_ms=span.begins_ms if span else None,
            ends_ms=span.ends_ms if span else None,
            complete_until_ms=self._limit_ms,
            last_write_ms=last_write_ms,
            lacking=lacking,
            proof=proof,
        )
        log_files = [log_file for one in slices for log_file in one.log_files]
        return replace(found, **self._lacking(slices, log_files)) if log_files else found

    def _lacking(self, slices: Sequence[FileSlice], log_files: Sequence[LogFile]) -> dict[str, Any]:
        mark = watermark(log_files, self._policy.longest_latency_ms, self._zone)
        holding = (one for one in slices if any(log_file.name == mark.held_back_by for log_file in one.log_files))
        return {
            "complete_until_ms": self._limit_ms if mark.value_ms is None else min(mark.value_ms, self._limit_ms),
            "log_files": len(log_files),
            "log_bytes": sum(one.size_bytes for one in log_files),
            "unknown_log_files": sum(one.min_event_time_ms is None for one in log_files),
            "held_back_by": mark.held_back_by,
            "held_back_assumed": mark.assumed,
            "file_id": next(holding).file_id,
        }

    def _proof(self, partition: str, span: Span | None, slices: Sequence[FileSlice]) -> VerifyLevel:
        """The strongest proof that reaches the end of the partition, or its last write, and has seen all of its files."""
        compared = self._compared.get(partition)
        if (
            span is not None
            and compared is not None
            and compared == rows_key(self._policy, self._state, span.ends_ms, slices)
        ):
            return "data"
        last_ms = self._last_write_ms(slices) if span is None else span.ends_ms - 1
        seen = (
            one for one in self._proofs if (span is None or one.until_ms >= last_ms) and self._has_seen(one, slices)
        )
        levels = (_level_of_all(one, last_ms) for one in seen)
        return max(levels, key=Level.__getitem__, default="metadata")

    def _has_seen(self, proof: Proof, slices: Sequence[FileSlice]) -> bool:
        """Whether each of these files was there, as it is now. Base files of the last compaction are what a proof is about.

        Before table version 8 no log file says when it came, and no commit when it ended.
        """
        file_ids = {one.file_id for one in slices}
        for one in self._taken_back:
            is_seen = had_passed(one.completed or "", proof.seen_until, self._zone)
            if not is_seen and (one.file_ids is None or one.file_ids & file_ids):
                return False
        log_files = [log_file for one in slices for log_file in one.log_files]
        if log_files and self._state.table_version in WHOLE_SLICE_VERSIONS:
            return False
        bases = {one.base_instant for one in slices if one.base_file} - {self._proven}
        files = chain(
            ((one, self._completed.get(one)) for one in bases), ((one.requested, one.completed) for one in log_files)
        )
        return all(_was_there(proof, requested, completed, self._zone) for requested, completed in files)

    def _status(self, span: Span | None, last_write_ms: int, proof: VerifyLevel | None) -> PartitionStatus | None:
        idle_ms = self._policy.partition_idle_ms
        if idle_ms is not None:
            closed = last_write_ms + idle_ms <= self._now_ms
        elif span is not None:
            closed = is_closed(span.ends_ms, self._now_ms, self._policy.data_latency_ms)
        else:
            return None
        is_proven = proof is not None and Level[proof] >= Level[self._wanted(span)]
        return ("done" if is_proven else "closed") if closed else "open"

    def _wanted(self, span: Span | None) -> VerifyLevel:
        """The proof without which a partition is not done: what counts as complete, and that of `done` from its `since` on."""
        complete: VerifyLevel = self._policy.freshness.proof or "metadata"
        is_before = span is not None and self._since_ms is not None and span.begins_ms < self._since_ms
        if is_before or self._policy.done is None:
            return complete
        return max(self._policy.done.proof, complete, key=Level.__getitem__)

    def _last_write_ms(self, slices: Iterable[FileSlice]) -> int:
        """The last completion of what is in the slices; a base file of which no commit is known counts by its instant.

        So does one of a compaction; where that is archived nobody can tell it from one of a writer. Before table version 8 a log
        file bears an older instant than what was added to it.
        """
        completed = [self._written.get(one.base_instant) or self._archived(one) or one.base_instant for one in slices]
        completed += (max(log_file.completed, self._last) for one in slices for log_file in one.log_files)
        return instant_to_ms(max(completed), self._zone, latest=True)

    def _archived(self, one: FileSlice) -> str:
        return "" if one.base_instant in self._active else one.base_completed


def _level_of_all(proof: Proof, last_ms: int) -> VerifyLevel:
    """What a proof says of all rows of one partition up to a time: nobody knows which of them were in a sample, and no later
    ones than it reaches were compared.
    """
    is_of_rows = Level[proof.level].reads_rows
    return "logs" if is_of_rows and (proof.level == "sample" or proof.until_ms < last_ms) else proof.level


def _was_there(proof: Proof, requested: str, completed: str | None, zone: ZoneInfo) -> bool:
    """Whether a write had ended when the proof was made; `completed` is None where nobody knows when it did."""
    if requested < proof.open_since and had_passed(requested, proof.open_since, zone):
        return completed is None or had_passed(completed, proof.seen_until, zone)
    return completed is not None and completed <= shown_until(proof.seen_until)


def is_in(partition: str, terms: Sequence[str]) -> bool:
    """Whether a term, a glob or a range, means the partition; without terms all are meant. Ranges go by the order of texts."""
    return not terms or any(_means(term, partition) for term in terms)


def _means(term: str, partition: str) -> bool:
    first, dots, last = term.partition(RANGE)
    if not dots:
        return glob_matches(partition, term)
    return first <= partition and (not last or partition <= last)


def _worst_first(one: PartitionFreshness) -> tuple[int, int, str]:
    return _ORDER[one.status], one.complete_until_ms, one.partition


def _same_time(found: Iterable[PartitionFreshness]) -> tuple[str, str] | None:
    seen: dict[int, str] = {}
    for one in sorted(found, key=lambda one: one.partition):
        if one.begins_ms is not None and seen.setdefault(one.begins_ms, one.partition) != one.partition:
            return seen[one.begins_ms], one.partition
    return None
