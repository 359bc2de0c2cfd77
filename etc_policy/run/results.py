"""What an apply did to one table: made where it is done, and kept and printed as it is."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from etc_policy.policy.manifest import Frozen
from etc_policy.table.formats import iso_time
from etc_policy.verify.ports import Verification

TableStatus = Literal[
    "compacted", "resumed", "already_applied", "withdrawn", "nothing_due", "refused", "stale", "failed"
]
SyncStatus = Literal["synced", "unchanged", "removed", "failed"]


def _require_time(text: str) -> str:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs a zone")
    return text


#: A moment in ISO 8601 with its zone.
IsoTime = Annotated[str, AfterValidator(_require_time)]


class SyncResult(Frozen):
    """What was done to the properties of one RO table; `properties` are those that it has now, None where not known."""

    policy: str
    ro_table: str
    status: SyncStatus
    properties: dict[str, str] | None = None
    attempts: int = 1
    message: str | None = None
    #: That of the error which `message` is of.
    error_code: str | None = Field(default=None, exclude=True)


class SentEvents(Frozen):
    """How many events of partitions were sent: an event counts once for each action."""

    done: int = 0
    reopened: int = 0


class TableResult(Frozen):
    """What happened to one table, and what its verification says; times are epoch ms or ISO 8601.

    `seconds` is the time until the compaction was done, `step_seconds` that of each step (`compact`, `verify`, `sync`),
    and `run_seconds` what Hudi took of it. `resumed_instant` is the compaction of an earlier run that was finished first;
    the counts are of the last one. `refusals_in_a_row` counts those of earlier runs with this one. `sync` is None where
    the policy names no RO table, or nothing was done that could change what is said of it. `next_due_ms` is until when no
    run is needed, by the plan; None without a known interval between runs. `events_sent` is None where the policy
    has no `done`, or not all could be sent.
    """

    policy: str
    policy_fingerprint: str | None = None
    base_path: str
    status: TableStatus
    reason: str | None = None
    hints: tuple[str, ...] = ()
    instant: str | None = None
    resumed_instant: str | None = None
    threshold_ms: int | None = None
    started_at: IsoTime
    completed_at: IsoTime
    seconds: float
    step_seconds: dict[str, float] = Field(default_factory=dict)
    run_seconds: float = 0.0
    refusals_in_a_row: int = 0
    file_slices: int = 0
    log_files: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_written_estimate: int = 0
    watermark_predicted_ms: int | None = None
    watermark_measured_ms: int | None = None
    next_due_ms: int | None = None
    verification: Verification | None = None
    sync: SyncResult | None = None
    events_sent: SentEvents | None = None
    #: That of the error which `reason` is of.
    error_code: str | None = Field(default=None, exclude=True)
    #: When the compaction completed; this run's own knowledge, as what follows.
    completed: str | None = Field(default=None, exclude=True)
    #: Writes that began while the compaction was being committed, without its lock; None where nobody could look.
    writes_beside: tuple[str, ...] | None = Field(default=(), exclude=True)

    @property
    def may_have_writes_beside(self) -> bool:
        """Whether some are known, or nobody could look."""
        return self.writes_beside != ()


def timed(started_ms: int, done_ms: int) -> dict[str, Any]:
    """The times of a result whose compaction is done, and that was not verified yet."""
    seconds = round((done_ms - started_ms) / 1000, 3)
    times = {"started_at": iso_time(started_ms), "completed_at": iso_time(done_ms)}
    return {**times, "seconds": seconds, "step_seconds": {"compact": seconds}}
