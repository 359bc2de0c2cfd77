"""Proves what RO holds from the table itself, re-read; nothing is taken from the run that is being judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from etc_policy.compile.manifest import Policy
from etc_policy.plan.table_state import LogFile, TableState
from etc_policy.plan.watermark import complete_until_ms, event_time_bound_ms, watermark
from etc_policy.verify.ports import DataCheck, DataVerifier, ExpectationResult, Verification, VerificationStatus

METADATA_EXPECTATION = "no_uncompacted_log_file_at_or_below_threshold"
_NAMED_FILES = 5


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be proved: RO is complete up to `threshold_ms` as far as commits up to `seen_until` go.

    Commits that completed after `seen_until` are late data: they are counted, and do not make the claim false.
    """

    threshold_ms: int
    seen_until: str


def claim_of(policy: Policy, state: TableState, now_ms: int) -> Claim:
    """The claim that the table itself carries: its last compaction's threshold, else what its watermark promises."""
    record = state.last_compaction
    if record is not None:
        return Claim(record.threshold_ms, record.seen_until or record.instant)
    mark = watermark((f for _, f in state.log_files), policy.data_latency_ms, ZoneInfo(state.timezone))
    return Claim(complete_until_ms(mark.value_ms, now_ms, policy.data_latency_ms), state.last_completed or "")


def prove_from_metadata(policy: Policy, state: TableState, claim: Claim) -> ExpectationResult:
    """No log file that is not compacted can hold an event at or below the threshold, late commits apart (FACTS 6)."""
    below = [log_file for _, log_file in state.log_files if _may_hold(log_file, policy, state, claim)]
    broken = [log_file for log_file in below if log_file.completed <= claim.seen_until]
    late = len(below) - len(broken)
    observed: dict[str, Any] = {
        "log_files": sum(1 for _ in state.log_files),
        "log_files_at_or_below_threshold": len(broken),
        "late_log_files": late,
        "examples": [log_file.name for log_file in broken[:_NAMED_FILES]],
    }
    pending = [i for i in state.pending if i.action in ("compaction", "logcompaction")]
    if pending:
        observed["pending_compaction"] = pending[0].requested
    message = f"{len(broken)} log files that are not compacted may hold events at or below the threshold"
    return ExpectationResult(
        expectation=METADATA_EXPECTATION,
        status="fail" if broken else "pass",
        observed=observed,
        message=message if broken else None,
    )


def verify_table(
    policy: Policy,
    state: TableState,
    claim: Claim,
    now_ms: int,
    suite: tuple[dict[str, Any], ...],
    data_verifier: Callable[[], DataVerifier] | None,
) -> Verification:
    """The verdict over one table; the data are read only where `data_verifier` is given.

    Raises:
        EngineError: the data could not be read at all.

    """
    metadata = prove_from_metadata(policy, state, claim)
    if data_verifier is None or state.last_completed is None:
        return Verification(
            level="metadata", status=_verdict((metadata,)), threshold_ms=claim.threshold_ms, expectations=(metadata,)
        )
    mark = watermark((f for _, f in state.log_files), policy.data_latency_ms, ZoneInfo(state.timezone))
    request = DataCheck(
        policy=policy,
        base_path=state.base_path,
        suite=suite,
        threshold_ms=claim.threshold_ms,
        now_ms=now_ms,
        complete_until_ms=complete_until_ms(mark.value_ms, now_ms, policy.data_latency_ms),
        pinned_instant=state.last_completed,
        late_commits=frozenset(
            i.requested for i in state.instants if i.completed is None or i.completed > claim.seen_until
        ),
        seen_until=claim.seen_until,
        open_file_ids=frozenset(file_slice.file_id for file_slice in state.slices if file_slice.log_files),
    )
    late_rows, results = data_verifier().check(request)
    expectations = (metadata, *results)
    return Verification(
        level="data",
        status=_verdict(expectations),
        threshold_ms=claim.threshold_ms,
        late_rows=late_rows,
        expectations=expectations,
    )


def _may_hold(log_file: LogFile, policy: Policy, state: TableState, claim: Claim) -> bool:
    """Whether the file can hold an event at or below the threshold; an unknown time is trusted only if it came later."""
    if log_file.min_event_time_ms is not None:
        return log_file.min_event_time_ms <= claim.threshold_ms
    if log_file.completed <= claim.seen_until:
        return True
    return event_time_bound_ms(log_file, policy.data_latency_ms, ZoneInfo(state.timezone)) <= claim.threshold_ms


def _verdict(expectations: tuple[ExpectationResult, ...]) -> VerificationStatus:
    found = {expectation.status for expectation in expectations}
    for status in ("error", "fail", "warn"):
        if status in found:
            return status
    return "pass"
