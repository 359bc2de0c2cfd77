"""Which partitions were found done or reopened, and what of it was sent: the record beside a table, and its changes (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from etc_policy.policy.manifest import Frozen, Policy, RowsWhenDone, VerifyLevel, Whole, digest
from etc_policy.policy.schema_values import CatalogTable, FileName
from etc_policy.table.history import WRITES, Commit, GroupWrite, TableHistory, event_time_key, with_times_of
from etc_policy.table.instants import SHOWN_WITHIN_MS, add_ms, instant_to_ms, parse_instant, shown_until
from etc_policy.table.partitions import PartitionFreshness, PartitionsFreshness, by_partition
from etc_policy.table.state import WHOLE_SLICE_VERSIONS, TableState

#: Operations that move rows about and bring none.
_SERVICES = frozenset({"CLUSTER", "COMPACT", "LOG_COMPACT"})
#: What ended that a partition was done: later rows; rows that a rollback or a restore took, or an older copy of the table lacks;
#: its rows were deleted or overwritten as a whole; the policy was changed, and it is not done by the new one.
Why = Literal["late_data", "rolled_back", "dropped", "policy"]
#: The actions that leave something at a place which the policy names.
NamedAction = Literal["success_file", "partition_property"]


def _instant(text: str) -> str:
    if text:
        parse_instant(text)
    return text


_Instant = Annotated[str, AfterValidator(_instant)]


class DoneEvent(Frozen):
    """A partition was found `done`, or `reopened`: it is not done any more, or what it was done with has changed.

    `number` counts the events of the partition, from 1. `key` is the same whenever the event is sent again, and no other
    event has it. `instant` is the last completion on the timeline that was seen. `rows` says which rows RO holds when it is done.
    `why` it was reopened; then `late_writes` are the writes that reached it, None where nobody can count them or there are none,
    and `late_rows_at_most` all rows of these.
    """

    key: str
    kind: Literal["done", "reopened"]
    partition: str
    number: Whole
    found_at_ms: Whole
    instant: str
    begins_ms: Whole | None = None
    ends_ms: Whole | None = None
    rows: RowsWhenDone = "all"
    proof: VerifyLevel | None = None
    why: Why | None = None
    late_writes: Whole | None = None
    late_rows_at_most: Whole | None = None
    late_event_ms: Whole | None = None


class PartitionRecord(Frozen):
    """The events of a partition that may still have to be sent, the last one in any case.

    `sent` has by action the number of the last event that was sent, and `begun` that of the last one that a run began to send,
    and may have sent before it died. `reopened` counts how often late data came. `newest` is the latest instant of its files, as
    they were last read.
    """

    events: tuple[DoneEvent, ...] = Field(min_length=1)
    sent: dict[str, Whole] = Field(default_factory=dict)
    begun: dict[str, Whole] = Field(default_factory=dict)
    reopened: Whole = 0
    newest: str = ""

    @property
    def last(self) -> DoneEvent:
        """The last event."""
        return self.events[-1]

    def is_passed_over(self, action: str, since_ms: int | None) -> bool:
        """Whether the partition begins before the first one of which the action is sent events."""
        is_before = since_ms is not None and self.last.begins_ms is not None and self.last.begins_ms < since_ms
        return is_before and action not in self.sent and action not in self.begun

    def to_send(self, action: str, now: PartitionFreshness | None, rows: RowsWhenDone) -> tuple[DoneEvent, ...]:
        """What is still to be sent to the action, in order; `now` is how the partition is done, None where it is not.

        A `done` that was reopened before it was sent is not sent, nor one that does not hold now, as the policy wants more than
        then; one that does is as certain as now. `reopened` is sent only where its `done` was, or may have been.
        """
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
        if pending and pending[-1].kind == "done":
            done = pending.pop()
            if now is not None:
                pending.append(done.model_copy(update={"proof": now.proof, "ends_ms": now.ends_ms, "rows": rows}))
        return tuple(pending)


class Turn(Frozen):
    """Which process sends now what a record has, and until when (epoch ms) if it does not renew that."""

    owner: dict[str, Any]
    ends_ms: Whole


class SharedRecord(Frozen):
    """A record of what was sent; every change keeps the `turn` but its own taking and giving back."""

    turn: Turn | None = None


class DoneRecord(SharedRecord):
    """What is kept of the partitions of one table; `instant` is the last completion of the table as it was last read.

    `seen` has the completion, by the request, of each write that was read and was not archived, or had completed not long before
    (`SHOWN_WITHIN_MS`).
    All that was requested before `open_since` had completed then, and `oldest` was the first request that was not archived.
    `read_at_ms` is when the reading began that was the last to change the record. `event_time` is the key of the event time by
    which it was read, `closes` says when a partition closed by the policy. `success_file` is the name of the files that were
    created, and `partition_property` the catalog's table whose partitions got properties; empty where the policy named none.
    """

    instant: _Instant = ""
    open_since: _Instant = ""
    oldest: str = ""
    read_at_ms: Whole = 0
    event_time: str = ""
    closes: str = ""
    success_file: FileName | Literal[""] = ""
    partition_property: CatalogTable | Literal[""] = ""
    seen: dict[str, str] | None = None
    partitions: dict[str, PartitionRecord] = Field(default_factory=dict)

    @property
    def reopened(self) -> dict[str, int]:
        """How often late data reached each partition that was done, where they did."""
        return {name: one.reopened for name, one in self.partitions.items() if one.reopened}

    def to_send(self, action: str, now: PartitionsFreshness, since_ms: int | None = None) -> list[DoneEvent]:
        """What is still to be sent to the action, the oldest first; that of one partition together, in order.

        With `since_ms` only of partitions that begin then or later, and of those of which the action was sent something.
        """
        done = now.done
        wanted = ((name, one) for name, one in self.partitions.items() if not one.is_passed_over(action, since_ms))
        found = [events for name, one in wanted if (events := one.to_send(action, done.get(name), now.rows))]
        found.sort(key=lambda events: (events[0].found_at_ms, events[0].ends_ms or 0, events[0].partition))
        return list(chain.from_iterable(found))

    def sent_by(self, action: str) -> list[str]:
        """The partitions of which the action was sent something, or may have been."""
        return [name for name, one in self.partitions.items() if action in one.sent or action in one.begun]

    def with_name(self, action: NamedAction, name: str) -> DoneRecord:
        """The record once the action goes by this name, and what the former left is gone: nothing was sent by it yet."""
        partitions = dict(self.partitions)
        for partition in self.sent_by(action) if getattr(self, action) not in ("", name) else ():
            one = partitions[partition]
            left = {key: {k: v for k, v in getattr(one, key).items() if k != action} for key in ("sent", "begun")}
            partitions[partition] = one.model_copy(update=left)
        return self.model_copy(update={action: name, "partitions": partitions})

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


class _Reopening(NamedTuple):
    """Why a partition is not done any more; the writes and their rows are None where nobody can count them."""

    why: Why
    writes: int | None = None
    rows_at_most: int | None = None
    event_ms: int | None = None


def is_ahead(record: DoneRecord, zone: ZoneInfo, clock_ms: int) -> bool:
    """Whether it says that the table was read in a time to come: nothing that is seen now would count."""
    marks = (instant_to_ms(one, zone) for one in (record.instant, record.open_since) if one)
    return max(record.read_at_ms, *marks, 0) > clock_ms + SHOWN_WITHIN_MS


def is_overtaken(record: DoneRecord, state: TableState, history: TableHistory, now_ms: int) -> bool:
    """Whether another reading has seen more of the table than this one, which began now.

    One that began so much later and sees less is of an older copy of the table.
    """
    instant = state.last_completed or ""
    if instant > record.instant:
        return False
    sees_less = instant < record.instant or bool(_lost(record, state, history))
    return now_ms < record.read_at_ms + (SHOWN_WITHIN_MS if sees_less else 0)


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
    that was written to since is reopened. A reading that is overtaken changes nothing.
    """
    if is_overtaken(record, state, history, now_ms):
        return record
    look = _Look(record, policy, state, history, found.rows, now_ms)
    there, partitions = {one.partition: one for one in found.partitions}, dict(record.partitions)
    for name in dict.fromkeys((*there, *partitions)):
        after = look.after(name, partitions.get(name), there.get(name))
        if after is not None:
            partitions[name] = after
    values = {"instant": state.last_completed or "", "open_since": _open_since(state), "seen": look.seen}
    values |= {"oldest": _oldest(state, history) or "", "event_time": look.event_time, "closes": look.closes}
    changed = record.model_copy(update={**values, "partitions": partitions})
    return changed if changed == record else changed.model_copy(update={"read_at_ms": now_ms})


def reaches_back(record: DoneRecord, state: TableState, history: TableHistory) -> bool:
    """Whether the history has all that was written since the last reading: else the rest of it is in the table's archive.

    What is archived was requested before all else, so it had completed by then if something is there that began before all
    that had not. A write that takes long may be archived as soon as it has completed, before others that are older.
    """
    known_until = record.open_since or record.instant
    oldest = _oldest(state, history)
    return not known_until or (oldest is not None and oldest <= known_until)


def _oldest(state: TableState, history: TableHistory) -> str | None:
    """The first request of what archiving has not reached."""
    left_behind = {one.requested for one in state.instants if one.has_savepoint}
    return min((one.requested for one in history.commits if one.requested not in left_behind), default=None)


def _lost(record: DoneRecord, state: TableState, history: TableHistory) -> frozenset[str]:
    """Requests of writes that were seen and are neither there nor archived: the table was put back to before them."""
    there, oldest = {one.requested for one in history.commits}, _oldest(state, history) or ""
    return frozenset(one for one in record.seen or () if one not in there and one > oldest)


def _open_since(state: TableState) -> str:
    pending = (one.requested for one in state.pending if one.action in WRITES)
    return min(pending, default=add_ms(state.last_completed, 1) if state.last_completed else "")


def _closes(policy: Policy) -> str:
    """When a partition closes by the policy; empty where that is learned, as the table itself then says it."""
    return "" if policy.learned_latency is not None else f"{policy.data_latency_ms} {policy.partition_idle_ms}"


class _Look:
    """One reading of the table against the record of those before."""

    def __init__(
        self,
        record: DoneRecord,
        policy: Policy,
        state: TableState,
        history: TableHistory,
        rows: RowsWhenDone,
        now_ms: int,
    ) -> None:
        self._record, self._state, self._history, self._now_ms = record, state, history, now_ms
        self._rows, self._names = rows, (state.base_path, policy.name)
        self.event_time, self.closes = event_time_key(policy.event_time, state), _closes(policy)
        self._is_whole, self._lost = reaches_back(record, state, history), _lost(record, state, history)

    def after(self, name: str, kept: PartitionRecord | None, one: PartitionFreshness | None) -> PartitionRecord | None:
        """The record of a partition; None where nothing is kept of it, or nothing has changed."""
        events = tuple(self._events(name, kept, one))
        newest = self._newest.get(name, kept.newest if kept else "")
        if kept is None:
            return PartitionRecord(events=events, newest=newest) if events else None
        late = sum(event.why == "late_data" for event in events)
        last = kept.last
        if (
            one is not None
            and one.status == last.kind == "done"
            and (last.ends_ms, last.rows) != (one.ends_ms, self._rows)
        ):
            last = last.model_copy(update={"ends_ms": one.ends_ms, "rows": self._rows})  # by the policy of now
        if not events and newest == kept.newest and last is kept.last:
            return None
        changed = {"events": (*kept.events[:-1], last, *events), "reopened": kept.reopened + late, "newest": newest}
        return kept.model_copy(update=changed)

    def _events(self, name: str, kept: PartitionRecord | None, one: PartitionFreshness | None) -> Iterator[DoneEvent]:
        number, was_done = (kept.last.number, kept.last.kind == "done") if kept else (0, False)

        def event(kind: Literal["done", "reopened"], **more: object) -> DoneEvent:
            named = [*self._names, name, number, kind, self._now_ms]
            span = one or (kept.last if kept else None)
            times = {"begins_ms": span and span.begins_ms, "ends_ms": span and span.ends_ms, "rows": self._rows}
            values = {"partition": name, "instant": self._state.last_completed or "", "found_at_ms": self._now_ms}
            return DoneEvent.model_validate(
                {"key": digest(named), "kind": kind, "number": number, **values, **times, **more}
            )

        reopening = self._reopening(kept, one) if kept and was_done else None
        if reopening is not None:
            number, was_done = number + 1, False
            counts = {"late_writes": reopening.writes, "late_rows_at_most": reopening.rows_at_most}
            yield event("reopened", why=reopening.why, late_event_ms=reopening.event_ms, **counts)
        if one is not None and one.status == "done" and not was_done:
            number += 1
            yield event("done", proof=one.proof)

    def _reopening(self, kept: PartitionRecord, one: PartitionFreshness | None) -> _Reopening | None:
        """Why a partition that was done is not so any more; None where it is as it was.

        Only rows that count are late; one whose time nobody knows does.
        """
        is_back = self._lost_after is not None and kept.newest > self._lost_after
        if one is None:
            return _Reopening("rolled_back" if is_back else "dropped")
        ends_ms = one.ends_ms if self._rows == "until_end" else None
        writes = [write for write in self._writes.get(one.partition, ()) if _may_be_before(write, ends_ms)]
        if writes:
            times = [write.known_min_ms for write in writes if write.known_min_ms is not None]
            rows = sum(write.rows for write in writes)
            return _Reopening("late_data", len(writes), rows, min(times, default=None))
        if is_back:
            return _Reopening("rolled_back")
        if one.partition in self._replaced:
            return _Reopening("dropped")
        if self._may_have_missed(one):
            return _Reopening("late_data")
        ends_otherwise = one.ends_ms != kept.last.ends_ms
        if one.lacking:
            is_changed = ends_otherwise or self._rows != kept.last.rows or self._reads_otherwise
            return _Reopening("policy" if is_changed else "late_data")
        is_open_again = one.status == "open" and self._record.closes not in ("", self.closes)
        return _Reopening("policy") if is_open_again or (ends_otherwise and one.status != "done") else None

    @property
    def _reads_otherwise(self) -> bool:
        return self._record.event_time not in ("", self.event_time)

    @cached_property
    def _newest(self) -> Mapping[str, str]:
        """The latest instant of each partition's files: what is compacted is older than its base file, so it never goes back."""
        return {
            name: max(chain((o.base_instant for o in slices), (f.requested for o in slices for f in o.log_files)))
            for name, slices in by_partition(self._state.slices).items()
        }

    @cached_property
    def _commits(self) -> list[Commit]:
        """Those since the last reading that may have changed rows."""
        commits = with_times_of(self._history, self._state).commits
        return [
            one for one in commits if self._is_new(one) and not one.is_compaction and one.operation not in _SERVICES
        ]

    @cached_property
    def _writes(self) -> dict[str, list[GroupWrite]]:
        """What was written to each partition, but for what overwrote it."""
        found: dict[str, list[GroupWrite]] = {}
        for commit in self._commits:
            overwritten = {partition for partition, _ in commit.replaced}
            for group in commit.groups:
                if group.partition not in overwritten:
                    found.setdefault(group.partition, []).append(group)
        return found

    @cached_property
    def _replaced(self) -> frozenset[str]:
        """The partitions of which rows were deleted, or overwritten, whole file groups at once."""
        return frozenset(partition for one in self._commits for partition, _ in one.replaced)

    def _is_new(self, commit: Commit) -> bool:
        since, seen = self._record.instant, self._record.seen
        if commit.requested < min(self._record.oldest, self._record.open_since):
            return False  # it was archived then
        if commit.completed > since or seen is None:
            return commit.completed > since
        is_timed = self._state.table_version not in WHOLE_SLICE_VERSIONS  # else nobody knows when it completed
        return commit.requested not in seen and (not is_timed or commit.completed > shown_until(since))

    @cached_property
    def _lost_after(self) -> str | None:
        """The last request before the first of these; None where nothing was lost. Restores may go by completion, so that what
        is left is not all requested before (facts: restore-before-compaction).
        """
        first = min(self._lost, default=None)
        before = (one.requested for one in self._history.commits if first is not None and one.requested < first)
        return None if first is None else max(before, default="")

    @property
    def seen(self) -> dict[str, str]:
        """All that are not archived, and those of before that may be by now."""
        active = {one.requested for one in self._history.commits if not one.archived}
        found = {one: completed for one, completed in (self._record.seen or {}).items() if one not in self._lost}
        found |= {commit.requested: commit.completed for commit in self._history.commits}
        since = shown_until(max(found.values(), default=""))
        return {one: completed for one, completed in found.items() if one in active or completed > since}

    def _may_have_missed(self, one: PartitionFreshness) -> bool:
        if self._is_whole or one.last_write_ms is None:
            return False
        since = self._record.open_since or self._record.instant
        return one.last_write_ms >= instant_to_ms(since, ZoneInfo(self._state.timezone))


def _may_be_before(write: GroupWrite, ends_ms: int | None) -> bool:
    certain_ms = write.certain_min_ms
    return ends_ms is None or certain_ms is None or certain_ms < ends_ms
