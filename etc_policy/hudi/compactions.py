"""What a timeline says of its compactions: which etc planned, which others did, and whether what was carried is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from etc_policy.hudi.history import CompletedWrite
from etc_policy.hudi.timeline import Timeline, plan_file_of
from etc_policy.hudi.values import pairs_of
from etc_policy.plan.carry import carried_in
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.table.state import CompactionRecord
from etc_policy.table.write_growth import LEARNED_FROM, MergedSlice, WriteGrowth, learned_from


class CompletedCompactions(NamedTuple):
    """The latest on the active timeline that etc did not plan, and one of etc's whose commit lacks what its plan carries."""

    foreign: str | None
    uncarried: str | None


class OwnCompactions(NamedTuple):
    """The latest on the active timeline by etc, and what the last of them wrote; None without one."""

    last: CompactionRecord | None
    growth: WriteGrowth | None


def compactions_before_8(timeline: Timeline, writes: Iterable[CompletedWrite]) -> CompletedCompactions:
    """What matters of them before table version 8, where a plan is only right if its carried log files are recorded."""
    foreign = uncarried = None
    for write in sorted(writes, key=lambda one: one.requested) if timeline.layout < 2 else ():
        has_plan = plan_file_of(timeline.files[write.requested]) is not None
        if write.action != "commit" or not (has_plan or write.metadata.operation == "COMPACT"):
            continue  # a `commit` may also be a bulk insert (facts: bulk-insert-commit)
        if write.record is None:
            foreign = write.requested
        elif not _records_carried(write):
            uncarried = write.requested
    return CompletedCompactions(foreign, uncarried)


def _records_carried(write: CompletedWrite) -> bool:
    stats = write.metadata.stats
    recorded = set(zip(stats.groups, stats.file_names, strict=True))
    return all((group, one.name) in recorded for group, files in carried_in(write.extra).items() for one in files)


def plan_extra(timeline: Timeline, requested: str) -> dict[str, str] | None:
    """The pairs of a completed compaction's plan; None for what is not a compaction."""
    if timeline.latest(requested).action != "commit":
        return None
    return pairs_of(timeline.plan_of(requested) or {})


def own_compactions(writes: Iterable[CompletedWrite]) -> OwnCompactions:
    """What the active timeline says of its compactions with a threshold: by commits or, if stock Hudi ran it, by plans.

    Cuts may complete in another order than their instants.
    """
    own = [(record, write) for write in writes if (record := write.record) is not None]
    own.sort(key=lambda found: (found[0].completed, found[0].instant))
    last = own[-1][0] if own else None
    return OwnCompactions(last, learned_from(list(_merged(write)) for _, write in own[-LEARNED_FROM:]))


def _merged(write: CompletedWrite) -> Iterator[MergedSlice]:
    """The slices that a compaction merged, with the sizes that its plan and its commit record."""
    stats = write.metadata.stats
    columns = zip(stats.groups, stats.file_names, stats.sizes_bytes, strict=True)
    written = {group: size for group, name, size in columns if ".log." not in name}
    for group, read_bytes, log_bytes in write.reads:
        yield MergedSlice(max(0, read_bytes - log_bytes), log_bytes, written.get(group, 0))


def own_pending(timeline: Timeline) -> str | None:
    """The instant of a compaction that etc has published and nobody has completed; None without one."""
    pending: Iterable[str] = (r for r in sorted(timeline.files) if timeline.latest(r).action == "compaction")
    for requested in pending:
        plan = timeline.plan_of(requested) or {}
        if compaction_record(requested, requested, pairs_of(plan)) is not None:
            return requested
    return None
