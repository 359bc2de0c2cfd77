"""What the commands hand to other tools: results of apply and freshness, versioned JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from etc_policy.policy.manifest import Freshness, Frozen, GitState
from etc_policy.run.ports import Outcome, TableStatus
from etc_policy.table.partitions import PartitionsFreshness
from etc_policy.table.proof import Proof
from etc_policy.verify.freshness import FreshnessStatus
from etc_policy.verify.late_data import LateData
from etc_policy.verify.latency import LatencyVerdict
from etc_policy.verify.ports import Verification

RESULTS_SCHEMA_VERSION = 1


def _require_time(text: str) -> str:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs a zone")
    return text


#: A moment in ISO 8601 with its zone.
IsoTime = Annotated[str, AfterValidator(_require_time)]
SyncStatus = Literal["synced", "unchanged", "removed", "failed"]


class SyncResult(Frozen):
    """What was done to the properties of one RO table; `properties` are those that it has now, None where not known."""

    policy: str
    ro_table: str
    status: SyncStatus
    properties: dict[str, str] | None = None
    attempts: int = 1
    message: str | None = None


class ToldPartitions(Frozen):
    """How many events of partitions were told: once for each action."""

    done: int = 0
    reopened: int = 0


class TableResult(Frozen):
    """What happened to one table, and what its verification says; times are epoch ms or ISO 8601.

    `seconds` is the time until the compaction was done, `step_seconds` that of each step (`compact`, `verify`, `sync`),
    and `run_seconds` what Hudi took of it. `resumed_instant` is the compaction of an earlier run that was finished first;
    the counts are of the last one. `refusals_in_a_row` counts those of earlier runs with this one. `sync` is None where
    the policy names no RO table, or nothing was done that could change what is said of it. `next_due_ms` is until when no
    run is needed, by the plan; None without a known interval between runs. `told` is None where the policy tells nobody of
    partitions, or not all could be told.
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
    told: ToldPartitions | None = None


class RunResults(Frozen):
    """The results of one `etc apply`."""

    schema_version: int = RESULTS_SCHEMA_VERSION
    plan_id: str | None = None
    git: GitState | None = None
    tables: tuple[TableResult, ...]


class SyncReport(Frozen):
    """The results of one `etc sync`."""

    schema_version: int = RESULTS_SCHEMA_VERSION
    observed_at: str
    tables: tuple[SyncResult, ...]


class TableVerification(Frozen):
    """One table's verdict; it is an `error` too where the table could not be read."""

    policy: str
    base_path: str
    verification: Verification


class FinishedService(Frozen):
    """A compaction, log compaction or clustering of others that `etc finish` carried out; `instant` is its request."""

    policy: str
    action: str
    instant: str


class VerificationReport(Frozen):
    """The verdicts of one `etc verify`."""

    schema_version: int = RESULTS_SCHEMA_VERSION
    observed_at: str
    tables: tuple[TableVerification, ...]


class TableFreshness(Frozen):
    """How far one table's RO view is complete, from its metadata alone (FACTS 6).

    `limits` are the policy's. `left_out_file_slices` were due in the last compaction by etc, which left them out, as
    writers were adding to them or as the policy says; None where it left out none.
    `late_data` is what came in below the threshold of the last compaction by etc after its plan was made, `data_latency`
    the judgement over the policy's; both are None where the table's past was not read. `complete_until_proof` is what proves
    `complete_until_ms`, `proofs` are all verifications of the last compaction that passed and are kept. `partitions` is None
    where nobody asked for them, or where it is not known how far the table is complete.
    """

    policy: str
    policy_fingerprint: str | None = None
    base_path: str
    status: FreshnessStatus
    reason: str | None = None
    limits: Freshness | None = None
    complete_until_ms: int | None = None
    complete_until_proof: Proof | None = None
    proofs: tuple[Proof, ...] = ()
    lag_seconds: float | None = None
    watermark_ms: int | None = None
    watermark_assumed: bool = False
    threshold_ms: int | None = None
    held_back_by: str | None = None
    last_commit_age_seconds: float | None = None
    remaining_log_files: int | None = None
    remaining_log_bytes: int | None = None
    remaining_file_slices: int | None = None
    unknown_log_files: int | None = None
    left_out_file_slices: int | None = None
    late_data: LateData | None = None
    data_latency: LatencyVerdict | None = None
    partitions: PartitionsFreshness | None = None


class FreshnessReport(Frozen):
    """The freshness of all selected tables at one moment."""

    schema_version: int = RESULTS_SCHEMA_VERSION
    observed_at: str
    git: GitState | None = None
    tables: tuple[TableFreshness, ...]


#: What a result has as the outcome has it.
_OF_OUTCOME = tuple({one.name for one in fields(Outcome)} & TableResult.model_fields.keys() - {"run_seconds"})


def table_result(
    outcome: Outcome,
    *,
    started_at: str,
    completed_at: str,
    step_seconds: Mapping[str, float],
    watermark_measured_ms: int | None,
    verification: Verification | None,
    refusals_in_a_row: int = 0,
) -> TableResult:
    """One table's result from what was done and what was verified."""
    return TableResult(
        **{name: getattr(outcome, name) for name in _OF_OUTCOME},
        resumed_instant=outcome.instant if outcome.status == "resumed" else None,
        started_at=started_at,
        completed_at=completed_at,
        seconds=round(step_seconds["compact"], 3),
        step_seconds={step: round(seconds, 3) for step, seconds in step_seconds.items()},
        run_seconds=round(outcome.run_seconds, 3),
        refusals_in_a_row=refusals_in_a_row,
        watermark_measured_ms=watermark_measured_ms,
        verification=verification,
    )
