"""Which partitions were found done or reopened, and what of it was sent: the record beside a table, and its changes (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import Field

from etc_policy.policy.manifest import Frozen, Policy, VerifyLevel, digest
from etc_policy.table.history import WRITES, Commit, GroupWrite, TableHistory, with_times_of
from etc_policy.table.instants import add_ms, instant_to_ms
from etc_policy.table.partitions import PartitionFreshness, PartitionsFreshness
from etc_policy.table.state import TableState

#: Operations that move rows about and bring none.
_SERVICES = frozenset({"CLUSTER", "COMPACT", "LOG_COMPACT"})
#: So much later than another one may a write show itself that completed before it: clocks of writers differ, a store may
#: be slow, and where the timeline is in local time an hour comes twice.
_SHOWN_WITHIN_MS = 3_600_000


class DoneEvent(Frozen):
    """A partition was found `done`, or `reopened` by late data or another `partition_time`.

    `number` counts the events of the partition, from 1. `key` is the same whenever the event is sent again, and no other
    event has it. `instant` is the last completion on the timeline that was seen. `late_writes` are the writes that reached
    a done partition, None where nobody can count them, and `late_rows_at_most` all rows of these.
    """

    key: str
    kind: Literal["done", "reopened"]
    partition: str
    number: int
    found_at_ms: int
    instant: str
    begins_ms: int | None = None
    ends_ms: int | None = None
    proof: VerifyLevel | None = None
    late_writes: int | None = None
    late_rows_at_most: int | None = None
    late_event_ms: int | None = None


class PartitionRecord(Frozen):
    """The events of a partition that may still have to be sent, the last one in any case.

    `sent` has by action the number of the last event that was sent, and `begun` that of the last one that a run began to send,
    and may have sent before it died. `reopened` counts how often late data came. `gone` says that the table has no rows there.
    """

    events: tuple[DoneEvent, ...]
    sent: dict[str, int] = Field(default_factory=dict)
    begun: dict[str, int] = Field(default_factory=dict)
    reopened: int = 0
    gone: bool = False

    @property
    def last(self) -> DoneEvent:
        """The last event."""
        return self.events[-1]

    def is_passed_over(self, action: str, since_ms: int | None) -> bool:
        """Whether the partition begins before the first one of which the action is sent events."""
        is_before = since_ms is not None and self.last.begins_ms is not None and self.last.begins_ms < since_ms
        return is_before and action not in self.sent and action not in self.begun

    def to_send(self, action: str) -> tuple[DoneEvent, ...]:
        """What is still to be sent to the action, in order.

        A `done` that was reopened before it was sent is not sent. `reopened` is sent only where its `done` was, or may have been.
        Of a partition that is gone nothing is sent: the catalog may not have it any more, and nobody is to compute it again.
        """
        if self.gone:
            return ()
        pending: list[DoneEvent] = []
        maybe_sent = {self.sent.get(action), self.begun.get(action)}
        for event in self.events:
            if event.number <= self.sent.get(action, 0):
                continue
            if event.kind == "reopened":
                if pending and pending[-1].kind == "done":
                    pending.pop()
                if maybe_sent.isdisjoint((event.number - 1, event.number)):
                    continue
            pending.append(event)
        return tuple(pending)


class DoneRecord(Frozen):
    """What is kept of the partitions of one table; `instant` is the last completion of the table as it was last read.

    `seen` has the completion, by the request, of each write that was read and completed not long before (`_SHOWN_WITHIN_MS`).
    All that was requested before `open_since` had completed then. `read_at_ms` is when the reading began that was the last
    to change the record.
    """

    instant: str = ""
    open_since: str = ""
    read_at_ms: int = 0
    seen: dict[str, str] | None = None
    partitions: dict[str, PartitionRecord] = Field(default_factory=dict)

    @property
    def reopened(self) -> dict[str, int]:
        """How often late data reached each partition that was done, where they did."""
        return {name: one.reopened for name, one in self.partitions.items() if one.reopened}

    def to_send(self, action: str, since_ms: int | None = None) -> list[DoneEvent]:
        """What is still to be sent to the action, the oldest first; that of one partition together, in order.

        With `since_ms` only of partitions that begin then or later, and of those of which the action was sent something.
        """
        wanted = (one for one in self.partitions.values() if not one.is_passed_over(action, since_ms))
        found = [events for one in wanted if (events := one.to_send(action))]
        found.sort(key=lambda events: (events[0].found_at_ms, events[0].ends_ms or 0, events[0].partition))
        return list(chain.from_iterable(found))

    def begun(self, action: str, event: DoneEvent) -> DoneRecord:
        """The record before the event is sent to the action."""
        one = self.partitions.get(event.partition)
        if one is None:
            return self
        changed = one.model_copy(update={"begun": {**one.begun, action: event.number}})
        return self.model_copy(update={"partitions": {**self.partitions, event.partition: changed}})

    def sent(self, action: str, event: DoneEvent, actions: Sequence[str]) -> DoneRecord:
        """The record after the event was sent to the action; what was sent to all actions is dropped, but for the last event."""
        one = self.partitions.get(event.partition)
        if one is None:
            return self
        sent = {**one.sent, action: max(event.number, one.sent.get(action, 0))}
        seen = min((sent.get(name, 0) for name in actions), default=0)
        kept = tuple(event for event in one.events[:-1] if event.number > seen)
        changed = one.model_copy(update={"sent": sent, "events": (*kept, one.last)})
        return self.model_copy(update={"partitions": {**self.partitions, event.partition: changed}})


class LateWrites(NamedTuple):
    """Writes that completed after the table was last read; `writes` and `rows_at_most` are None where nobody knows."""

    writes: int | None
    rows_at_most: int | None
    event_ms: int | None


#: Nobody knows how many, or there are none and the partition has another end.
_UNCOUNTED = LateWrites(None, None, None)


def after_reading(
    record: DoneRecord,
    policy: Policy,
    state: TableState,
    history: TableHistory,
    found: PartitionsFreshness,
    now_ms: int,
) -> DoneRecord:
    """The record after the table was read; it is known how far it is complete.

    Where the history does not reach back to the last reading (`reaches_back`), nobody knows what else reached a partition: one
    that was written to since is reopened. An older state of the table than that of the record changes nothing: another run has
    seen more.
    """
    instant = state.last_completed or ""
    if instant < record.instant or (instant == record.instant and now_ms < record.read_at_ms):
        return record
    late = _Late(state, history, record, is_whole=reaches_back(record, state, history))
    partitions = dict(record.partitions)
    for one in found.partitions:
        events = list(_new_events(partitions.get(one.partition), one, late, now_ms, instant, state.base_path, policy))
        if events:
            kept = partitions.get(one.partition) or PartitionRecord(events=(events[0],))
            before = kept.events if one.partition in partitions else ()
            reopened = kept.reopened + sum(event.kind == "reopened" for event in events)
            partitions[one.partition] = kept.model_copy(update={"events": (*before, *events), "reopened": reopened})
    there = {one.partition for one in found.partitions}
    for name, kept in partitions.items():
        if kept.gone == (name in there):
            partitions[name] = kept.model_copy(update={"gone": name not in there})
    seen = _seen(record, history, instant)
    values = {"instant": instant, "open_since": _open_since(state), "seen": seen, "partitions": partitions}
    changed = record.model_copy(update=values)
    return changed if changed == record else changed.model_copy(update={"read_at_ms": now_ms})


def _seen(record: DoneRecord, history: TableHistory, instant: str) -> dict[str, str]:
    """Those of before too: they may be archived by now."""
    since = _shown_since(instant)
    found = {**(record.seen or {}), **{commit.requested: commit.completed for commit in history.commits}}
    return {requested: completed for requested, completed in found.items() if completed > since}


def _shown_since(instant: str) -> str:
    return add_ms(instant, -_SHOWN_WITHIN_MS) if instant else ""


def reaches_back(record: DoneRecord, state: TableState, history: TableHistory) -> bool:
    """Whether the history has all that was written since the last reading: else the rest of it is in the table's archive.

    What is archived was requested before all else, so it had completed by then if something is there that began before all
    that had not. A write that takes long may be archived as soon as it has completed, before others that are older.
    """
    known_until = record.open_since or record.instant
    left_behind = {one.requested for one in state.instants if one.has_savepoint}
    oldest = min((one.requested for one in history.commits if one.requested not in left_behind), default=None)
    return not known_until or (oldest is not None and oldest <= known_until)


def _open_since(state: TableState) -> str:
    pending = (one.requested for one in state.pending if one.action in WRITES)
    return min(pending, default=add_ms(state.last_completed, 1) if state.last_completed else "")


def _new_events(
    kept: PartitionRecord | None,
    one: PartitionFreshness,
    late: _Late,
    now_ms: int,
    instant: str,
    base_path: str,
    policy: Policy,
) -> Iterator[DoneEvent]:
    number, was_done = (kept.last.number, kept.last.kind == "done") if kept else (0, False)

    def event(kind: Literal["done", "reopened"], **more: object) -> DoneEvent:
        named = [base_path, policy.name, one.partition, number, kind, now_ms]
        values = {"partition": one.partition, "begins_ms": one.begins_ms, "ends_ms": one.ends_ms, "instant": instant}
        return DoneEvent.model_validate(
            {"key": digest(named), "kind": kind, "number": number, "found_at_ms": now_ms, **values, **more}
        )

    writes = late.writes_to(one) if was_done else None
    if kept and was_done and writes is None and one.status != "done" and one.ends_ms != kept.last.ends_ms:
        writes = _UNCOUNTED  # by a `partition_time` that was changed since it lasts longer
    if writes is not None:
        number, was_done = number + 1, False
        counts = {"late_writes": writes.writes, "late_rows_at_most": writes.rows_at_most}
        yield event("reopened", late_event_ms=writes.event_ms, **counts)
    if one.status == "done" and not was_done:
        number += 1
        yield event("done", proof=one.proof)


class _Late:
    """What reached partitions since the last reading; unless it `is_whole` the history lacks some of that."""

    def __init__(self, state: TableState, history: TableHistory, record: DoneRecord, *, is_whole: bool) -> None:
        self._state, self._history, self._is_whole = state, history, is_whole
        self._since, self._seen, self._open_since = record.instant, record.seen, record.open_since or record.instant

    @cached_property
    def _writes(self) -> dict[str, list[GroupWrite]]:
        found: dict[str, list[GroupWrite]] = {}
        for commit in with_times_of(self._history, self._state).commits:
            if self._is_new(commit) and not commit.is_compaction and commit.operation not in _SERVICES:
                for group in commit.groups:
                    found.setdefault(group.partition, []).append(group)
        return found

    def _is_new(self, commit: Commit) -> bool:
        if commit.completed > self._since or self._seen is None:
            return commit.completed > self._since
        return commit.completed > _shown_since(self._since) and commit.requested not in self._seen

    def writes_to(self, one: PartitionFreshness) -> LateWrites | None:
        """What reached a partition that was done; None where it is as it was.

        A row after its end does not count; one whose time nobody knows does.
        """
        writes = [write for write in self._writes.get(one.partition, ()) if _may_be_before(write, one.ends_ms)]
        if writes:
            times = [write.known_min_ms for write in writes if write.known_min_ms is not None]
            return LateWrites(len(writes), sum(write.rows for write in writes), min(times, default=None))
        return _UNCOUNTED if one.lacking or self._may_have_missed(one) else None

    def _may_have_missed(self, one: PartitionFreshness) -> bool:
        if self._is_whole or one.last_write_ms is None:
            return False
        return one.last_write_ms >= instant_to_ms(self._open_since, ZoneInfo(self._state.timezone))


def _may_be_before(write: GroupWrite, ends_ms: int | None) -> bool:
    certain_ms = write.certain_min_ms
    return ends_ms is None or certain_ms is None or certain_ms < ends_ms
