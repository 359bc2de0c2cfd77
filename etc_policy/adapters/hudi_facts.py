"""What commit metadata tells of log files: their smallest event times, and whether they may hold deletes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from etc_policy.adapters.hudi_slices import CommitFacts, DataFile
from etc_policy.adapters.hudi_timeline import write_stats

#: The table property that names a column by which rows are marked as deleted.
_DELETE_MARKER = "hoodie.record.merge.property.hoodie.payload.delete.field"


def commit_facts(
    metadata: Mapping[str, Mapping[str, Any]], *, trusted: bool, hides_deletes: bool = False
) -> CommitFacts:
    """Per (commit, file group) the smallest event time over all its write stats, None if any stat lacks one (FACTS 4.1).

    A stat with deletes counts as unknown: deletes by key carry no event time, and the stat does not tell them apart.
    `trusted` is false where the recorded times cannot be the policy's; `hides_deletes` where stats do not count deletes.
    """
    facts: dict[tuple[str, str, str], tuple[int | None, bool]] = {}
    for requested, commit in metadata.items():
        opaque = hides_deletes or commit.get("operationType") in (None, "UNKNOWN", "LOG_COMPACT")
        for partition, stat in write_stats(commit):
            key = (requested, partition, stat.get("fileId") or "")
            deletes = bool(stat.get("numDeletes")) or opaque
            value = stat.get("minEventTime") if trusted and not deletes else None
            value = value if type(value) is int else None
            before, had_deletes = facts.get(key, (value, False))
            lowest = None if before is None or value is None else min(before, value)
            facts[key] = (lowest, had_deletes or deletes)
    return facts


def slice_facts(
    metadata: Mapping[str, Mapping[str, Any]], files: Iterable[DataFile], first_active: str, *, hides_deletes: bool
) -> CommitFacts:
    """On layout 1, per (base instant, file group): whether its log files may hold deletes; never an event time.

    There a log file is named by its base file's instant, so no commit's event times can be matched to it. Commits on a
    slice that is older than the active timeline may be archived, and are not known.
    """
    facts: dict[tuple[str, str, str], tuple[int | None, bool]] = {
        (file.name.instant, file.partition, file.name.file_id): (None, True)
        for file in files
        if file.name.is_log and (hides_deletes or file.name.instant < first_active)
    }
    for commit in metadata.values():
        for partition, stat in write_stats(commit):
            if stat.get("numDeletes"):
                facts[stat.get("prevCommit") or "", partition, stat.get("fileId") or ""] = (None, True)
    return facts


def hides_deletes_of(properties: Mapping[str, str]) -> bool:
    """Custom mergers may delete at merge, and the operation field hides deletes from the write stats (FACTS 3).

    Where a value of some column marks deleted rows, whether the stats count them was never run: they may not.
    """
    custom = properties.get("hoodie.record.merge.mode") == "CUSTOM" or _DELETE_MARKER in properties
    return custom or properties.get("hoodie.allow.operation.metadata.field") == "true"
