"""Which steps set wrong completion times of a table right, and when that cannot be done safely. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from etc_policy.plan.refusals import Refusal
from etc_policy.table.completion_times import CompletedFile, TimelineName, WrongTime, apart, is_shifted

#: Parts of the metadata table that the stock client builds from the table alone, by options that etc sets.
REBUILDABLE = frozenset({"files", "column_stats", "partition_stats", "bloom_filters", "record_index"})
#: The first instants of a metadata table are numbers, not times.
_FIRST_TIME = "1"
#: It takes the record index and bloom filters along, until a write names them (facts: delete-metadata-table).
_DROP = (
    "drop the metadata table (`CALL delete_metadata_table(table => 'db.table')`), then let the table's writer commit: it builds "
    "that anew, with the indexes that the writer's options name"
)


@dataclass(frozen=True, slots=True)
class TimelineFacts:
    """One timeline: its completed instants, those that are pending, and its wrong times.

    `services` are the requests of its compactions and log compactions.
    """

    completed: tuple[CompletedFile, ...]
    pending: tuple[str, ...]
    wrong: tuple[WrongTime, ...]
    services: frozenset[str] = frozenset()

    def of(self, requested: str) -> CompletedFile | None:
        """The completed instant of a request."""
        return next((file for file in self.completed if file.requested == requested), None)


@dataclass(frozen=True, slots=True)
class RepairFacts:
    """What a repair is planned from; `metadata` is None where there is no metadata table.

    `owed` are parts of the metadata table that an earlier run dropped and has not built again. `archived` are wrong
    completion times of instants that are archived. `own_pending` is a plan of etc that has not been carried out.
    """

    base_path: str
    table_version: int
    timezone: str
    table: TimelineFacts
    metadata: TimelineFacts | None
    metadata_partitions: tuple[str, ...]
    owed: tuple[str, ...] = ()
    archived: tuple[str, ...] = ()
    own_pending: str | None = None


@dataclass(frozen=True, slots=True)
class SetCompletion:
    """Rename a completed instant's file to its true completion time."""

    timeline: TimelineName
    requested: str
    completed: str
    right: str
    action: str
    apart: str

    def __str__(self) -> str:
        where = "" if self.timeline == "table" else "metadata table: "
        old, new = (f"{self.requested}_{time}.{self.action}" for time in (self.completed, self.right))
        return f"{where}rename {old} to {new} ({self.apart} off)"


@dataclass(frozen=True, slots=True)
class RebuildMetadata:
    """Drop the metadata table and build it again by Hudi's own means: readers go without one for a while."""

    partitions: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"drop the metadata table and build it again ({', '.join(self.partitions)}): {self.why}"


Step = SetCompletion | RebuildMetadata


@dataclass(frozen=True, slots=True)
class Repair:
    """The steps in their order, or why nothing may be done; neither where nothing is wrong."""

    steps: tuple[Step, ...] = ()
    refusal: Refusal | None = None


def plan_repair(facts: RepairFacts) -> Repair:
    """The metadata table comes first and the table's own file last: until then a killed run is found again."""
    wrong = (*facts.table.wrong, *(facts.metadata.wrong if facts.metadata else ()))
    if not wrong and not facts.owed:
        return Repair(refusal=_archived(facts))
    refusal = _pending(facts) or _unknown(facts.table.wrong)
    if refusal is not None:
        return Repair(refusal=refusal)
    why = _why_rebuild(facts)
    if why is not None:
        partitions = tuple(dict.fromkeys((*facts.metadata_partitions, *facts.owed)))
        odd = [name for name in partitions if name not in REBUILDABLE]
        if odd:
            return Repair(refusal=_not_rebuildable(odd, why))
        steps: list[Step] = [RebuildMetadata(partitions, why)]
    else:
        steps = list(_renames(facts.metadata.wrong if facts.metadata else ()))
    return Repair((*steps, *_renames(facts.table.wrong)))


def _renames(wrong: tuple[WrongTime, ...]) -> Iterator[Step]:
    for one in wrong:
        if one.right is not None:
            yield SetCompletion(one.timeline, one.requested, one.completed, one.right, one.action, apart(one))


def _archived(facts: RepairFacts) -> Refusal | None:
    if not facts.archived:
        return None
    reason = f"the wrong completion time of {facts.archived[0]} is archived, and etc does not write into archives"
    return Refusal("archived", reason, f"if read-optimized queries show old rows, {_DROP}")


def _pending(facts: RepairFacts) -> Refusal | None:
    """Whoever has an instant pending may have read the old name of a file, or be about to compact the metadata table."""
    for pending, where in (
        (facts.table.pending, ""),
        (facts.metadata.pending if facts.metadata else (), " of the metadata table"),
    ):
        if pending:
            reason = f"the instant {pending[0]}{where} is pending: its writer may be alive"
            hint = "stop the writers, then run this again; what a dead one left, its next run rolls back"
            if pending[0] == facts.own_pending:  # `etc apply` does not finish it beside wrong times
                hint = "it is a plan of `etc apply`: if no run is at work on it, `etc undo` takes it back; then run this again"
            return Refusal("pending", reason, hint)
    return None


def _unknown(wrong: tuple[WrongTime, ...]) -> Refusal | None:
    one = next((one for one in wrong if one.right is None), None)
    if one is None:
        return None
    hint = f"a later full compaction replaces its files; if RO shows old rows, {_DROP}"
    return Refusal("unknown_time", f"{one.what}; its true time cannot be known: {one.unknown}", hint)


def _why_rebuild(facts: RepairFacts) -> str | None:
    """Why renaming is not enough in the metadata table: what it compacted by wrong times it has lost or will repeat."""
    metadata = facts.metadata
    if facts.owed or metadata is None:
        return "an earlier run dropped it" if facts.owed else None
    odd = next((one for one in metadata.wrong if one.right is None), None)
    if odd is not None:
        return f"the true time of its instant {odd.requested} is not known"
    paired = {one.requested for one in metadata.wrong}
    timed = (file for file in metadata.completed if file.requested >= _FIRST_TIME and file.requested not in paired)
    other = next((file for file in timed if is_shifted(file, facts.timezone)), None)
    if other is not None:
        return f"its instant {other.requested} bears the times of another zone"
    return next(
        filter(None, (_service_after(metadata, wrong) for wrong in (*metadata.wrong, *facts.table.wrong))), None
    )


def _service_after(metadata: TimelineFacts, wrong: WrongTime) -> str | None:
    own = metadata.of(wrong.requested)
    is_wrong = any(one.requested == wrong.requested for one in metadata.wrong)
    if own is not None and not is_wrong:
        return None
    if own is None and min((file.written_ms for file in metadata.completed), default=0) > wrong.written_ms:
        return None  # it was built after that
    if own is None:
        return f"it no longer has the instant {wrong.requested}"
    later = next(
        (f for f in metadata.completed if f.requested in metadata.services and f.written_ms >= own.written_ms), None
    )
    return f"it was compacted at {later.requested}, by the wrong time" if later else None


def _not_rebuildable(odd: list[str], why: str) -> Refusal:
    reason = f"the metadata table has to be built anew ({why}), and etc cannot build its part `{odd[0]}`"
    return Refusal("index", reason, f"drop that index, run this again, then create the index again: {', '.join(odd)}")
