"""What a timeline says of its compactions: which etc planned, which others did, and whether what was carried is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from etc_policy.adapters.hudi.archive import Archive
from etc_policy.adapters.hudi.commits import CommitMetadata, pairs_of
from etc_policy.adapters.hudi.timeline import Timeline
from etc_policy.plan.carry import carried_in
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.plan.table_state import CompactionRecord


class CompletedCompactions(NamedTuple):
    """The latest on the active timeline that etc did not plan, and one of etc's whose commit lacks what its plan carries."""

    foreign: str | None
    uncarried: str | None


def completed_compactions(timeline: Timeline, metadata: Mapping[str, CommitMetadata]) -> CompletedCompactions:
    """What matters of them before table version 8, where a plan is only right if its carried log files are recorded."""
    foreign = uncarried = None
    for requested in sorted(metadata) if timeline.layout < 2 else ():
        plan, commit = timeline.plan_of(requested), metadata[requested]
        if timeline.latest(requested).action != "commit" or (plan is None and commit.operation != "COMPACT"):
            continue  # a `commit` may also be a bulk insert (FACTS 13)
        extra = {**pairs_of(plan or {}), **commit.extra}
        if compaction_record(requested, requested, extra) is None:
            foreign = requested
        elif not _records_carried(extra, commit):
            uncarried = requested
    return CompletedCompactions(foreign, uncarried)


def _records_carried(extra: Mapping[str, str], commit: CommitMetadata) -> bool:
    recorded = set(zip(commit.stats.groups, commit.stats.file_names, strict=True))
    return all((group, one.name) in recorded for group, files in carried_in(extra).items() for one in files)


def plan_extra(timeline: Timeline, requested: str) -> dict[str, str] | None:
    """The pairs of a completed compaction's plan; None for what is no compaction."""
    if timeline.latest(requested).action != "commit":
        return None
    return pairs_of(timeline.plan_of(requested) or {})


def last_compaction(
    timeline: Timeline, metadata: Mapping[str, CommitMetadata], archive: Archive
) -> CompactionRecord | None:
    """The compaction with a threshold that completed last, told by its commit or, if stock Hudi ran it, by its plan.

    Cuts may complete in another order than their instants. The archive is asked only when the active timeline has none.
    """
    records = []
    for requested, commit in metadata.items():
        if timeline.latest(requested).action == "commit":
            extra = {**(plan_extra(timeline, requested) or {}), **commit.extra}
            records.append(compaction_record(requested, timeline.completions[requested], extra))
    found = [record for record in records if record is not None]
    return max(found, key=lambda record: record.completed) if found else archive.last_compaction()


def own_pending(timeline: Timeline) -> str | None:
    """The instant of a compaction that etc has published and nobody has completed; None without one."""
    pending: Iterable[str] = (r for r in sorted(timeline.files) if timeline.latest(r).action == "compaction")
    for requested in pending:
        plan = timeline.plan_of(requested) or {}
        if compaction_record(requested, requested, pairs_of(plan)) is not None:
            return requested
    return None
