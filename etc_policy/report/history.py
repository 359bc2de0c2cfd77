"""One record per run: git commit, policy, plan, instant and checks, joined from the table's own commits and run files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from zoneinfo import ZoneInfo

from pydantic import Field

from etc_policy.errors import EtcError
from etc_policy.policy.locations import location_identity
from etc_policy.policy.manifest import Frozen, Level, Policy, changed_values
from etc_policy.report.results import Report, TableVerification
from etc_policy.report.run_files import RunFile, RunKind
from etc_policy.run.results import TableResult, TableStatus
from etc_policy.table.formats import iso_time
from etc_policy.table.history import (
    FINGERPRINT,
    GIT_DIRTY,
    GIT_SHA,
    GRANULARITY,
    PLAN_ID,
    POLICY,
    POLICY_VALUES,
    SEEN_UNTIL,
    THRESHOLD,
    VERSION,
    Commit,
    TableHistory,
)
from etc_policy.table.instants import instant_to_ms
from etc_policy.verify.metadata_checks import KNOWN
from etc_policy.verify.ports import Verification

HISTORY_SCHEMA_VERSION = 1

_KNOWN_EXTRA = frozenset(
    {THRESHOLD, POLICY, FINGERPRINT, PLAN_ID, SEEN_UNTIL, GRANULARITY, GIT_SHA, GIT_DIRTY, POLICY_VALUES, VERSION}
)


class RecordedCheck(Frozen):
    """A verdict that a run file keeps."""

    recorded_at: str
    kind: RunKind
    verification: Verification


class Compaction(Frozen):
    """A completed compaction as its commit describes it. `ours` is true for one by etc: it has keys that begin with `etc.`.

    `policy_changed` says that the policy's fingerprint is another than at our compaction before, `policy_changes` which
    keys changed, where both commits have them. `bytes_written_estimate` is what its plan expected of the new base files.
    `checks` come from run files, newest last: a machine without them has none.
    """

    instant: str
    completed_at: str
    ours: bool
    policy: str | None = None
    policy_fingerprint: str | None = None
    policy_changed: bool = False
    policy_changes: tuple[str, ...] = ()
    git_sha: str | None = None
    git_dirty: bool = False
    etc_version: str | None = None
    plan_id: str | None = None
    threshold_ms: int | None = None
    granularity: str | None = None
    seen_until: str | None = None
    file_slices: int
    log_files: int
    log_bytes: int
    bytes_written: int
    bytes_written_estimate: int | None = None
    archived: bool
    extra: dict[str, str] = Field(default_factory=dict)
    result: TableResult | None = None
    checks: tuple[RecordedCheck, ...] = ()


class Attempt(Frozen):
    """A run that completed no compaction: nothing was due, or it was refused, stale or failed. Known from run files only."""

    recorded_at: str
    kind: RunKind
    status: TableStatus | None
    reason: str | None = None
    hints: tuple[str, ...] = ()
    git_sha: str | None = None
    plan_id: str | None = None
    threshold_ms: int | None = None
    verification: Verification | None = None


class PolicyHistory(Frozen):
    """What happened to one policy's table, oldest first.

    `reopened` counts by partition how often late data reached it when it was done; None where nobody counts that.
    A table that could not be read has a `reason`, with its code and hints; then nothing is known of its compactions.
    """

    schema_version: int = HISTORY_SCHEMA_VERSION
    policy: str
    base_path: str
    compactions: tuple[Compaction, ...]
    attempts: tuple[Attempt, ...]
    warnings: tuple[str, ...] = ()
    reopened: dict[str, int] | None = None
    reason: str | None = None
    reason_code: str | None = None
    hints: tuple[str, ...] = ()


class PolicyHistories(Report):
    """The history of each selected policy."""

    schema_version: int = HISTORY_SCHEMA_VERSION
    histories: tuple[PolicyHistory, ...]


def unread_history(policy: Policy, error: EtcError) -> PolicyHistory:
    """The entry of a table that could not be read."""
    return PolicyHistory(
        policy=policy.name,
        base_path=policy.table,
        compactions=(),
        attempts=(),
        reason=error.with_cause,
        reason_code=error.code,
        hints=error.hints,
    )


def policy_history(
    policy: Policy,
    history: TableHistory,
    runs: Sequence[RunFile],
    warnings: Sequence[str] = (),
    reopened: dict[str, int] | None = None,
) -> PolicyHistory:
    """The joined history of one policy; runs of other policies are left out."""
    compactions = list(_compactions(history))
    attempts: list[Attempt] = []
    for run in runs:
        for result in run.results.tables if run.results else ():
            if _is_of(policy, history.base_path, result):
                _add_result(compactions, attempts, run, result)
        for table in run.verifications.tables if run.verifications else ():
            if _is_of(policy, history.base_path, table):
                _add_check(compactions, attempts, run, table.verification)
    return PolicyHistory(
        policy=policy.name,
        base_path=history.base_path,
        compactions=tuple(compactions),
        attempts=tuple(attempts),
        warnings=tuple(warnings),
        reopened=reopened,
    )


def _is_of(policy: Policy, base_path: str, report: TableResult | TableVerification) -> bool:
    """Whether it is about this very table: under another target the same policy has another one."""
    known = {location_identity(base_path), location_identity(policy.table)}
    return report.policy == policy.name and location_identity(report.base_path) in known


def _compactions(history: TableHistory) -> Iterator[Compaction]:
    zone = ZoneInfo(history.timezone)
    before: tuple[str | None, Mapping[str, str]] = (None, {})
    for commit in history.commits:
        if commit.is_compaction:
            yield _compaction(commit, iso_time(instant_to_ms(commit.completed, zone)), before)
            if commit.record is not None:
                before = commit.extra.get(FINGERPRINT), commit.record.policy_values


def _compaction(commit: Commit, completed_at: str, before: tuple[str | None, Mapping[str, str]]) -> Compaction:
    record, fingerprint, (fingerprint_before, values_before) = commit.record, commit.extra.get(FINGERPRINT), before
    values = record.policy_values if record else {}
    return Compaction(
        instant=commit.requested,
        completed_at=completed_at,
        ours=record is not None,
        policy=commit.extra.get(POLICY),
        policy_fingerprint=fingerprint,
        policy_changed=None not in (fingerprint, fingerprint_before) and fingerprint != fingerprint_before,
        policy_changes=changed_values(values_before, values) if values_before and values else (),
        git_sha=commit.extra.get(GIT_SHA),
        git_dirty=commit.extra.get(GIT_DIRTY) == "true",
        etc_version=commit.extra.get(VERSION),
        plan_id=commit.plan_id,
        threshold_ms=record.threshold_ms if record else None,
        granularity=commit.extra.get(GRANULARITY),
        seen_until=commit.extra.get(SEEN_UNTIL),
        file_slices=len(commit.groups),
        log_files=sum(group.merged_log_files for group in commit.groups),
        log_bytes=sum(group.merged_log_bytes for group in commit.groups),
        bytes_written=commit.bytes_written,
        bytes_written_estimate=commit.bytes_written_estimate,
        archived=commit.archived,
        extra={key: value for key, value in commit.extra.items() if key not in _KNOWN_EXTRA},
    )


def _add_result(compactions: list[Compaction], attempts: list[Attempt], run: RunFile, result: TableResult) -> None:
    """A result belongs to the compaction at its instant if that completed, else it is an attempt.

    The check of a run that failed after it had finished an earlier compaction is that compaction's.
    """
    done, verdict = result.status in ("compacted", "resumed", "already_applied"), result.verification
    place = _at(compactions, result.instant if done else result.resumed_instant, run.recorded_at)
    if place is not None:
        compaction, before = compactions[place], compactions[place].result
        check = RecordedCheck(recorded_at=run.recorded_at, kind=run.kind, verification=verdict) if verdict else None
        known = done and (before is None or result.status != "already_applied")
        update = {
            "result": result if known else before,
            "checks": (*compaction.checks, check) if check else compaction.checks,
        }
        compactions[place] = compaction.model_copy(update=update)
    if place is not None and done:
        return
    attempts.append(
        Attempt(
            recorded_at=run.recorded_at,
            kind=run.kind,
            status=result.status,
            reason=result.reason,
            hints=result.hints,
            git_sha=run.git_sha,
            plan_id=run.results.plan_id if run.results else None,
            threshold_ms=result.threshold_ms,
            verification=None if place is not None else verdict,
        )
    )


def latest_verdict(checks: Sequence[RecordedCheck]) -> Verification | None:
    """What the checks of a compaction say of it together: the last one, but that a weaker one does not outweigh a failure.

    Nor does one that did not look at what is in doubt, and says so.
    """
    found: Verification | None = None
    for one in (check.verification for check in checks):
        is_weaker = found is not None and Level[one.level] < Level[found.level]
        is_weaker |= any(check.expectation == KNOWN for check in one.expectations)
        if found is None or found.status != "fail" or one.status == "fail" or not (is_weaker or one.status == "error"):
            found = one
    return found


def _at(compactions: Sequence[Compaction], instant: str | None, recorded_at: str) -> int | None:
    """One that was taken back and made once more may bear the instant of an earlier one."""
    places = (place for place, one in enumerate(compactions) if one.instant == instant)
    return next((place for place in places if compactions[place].completed_at <= recorded_at), None)


def _add_check(compactions: list[Compaction], attempts: list[Attempt], run: RunFile, verdict: Verification) -> None:
    """A later check belongs to the last compaction before it that promised the same threshold; without one to none."""
    for index in reversed(range(len(compactions)) if verdict.threshold_ms is not None else ()):
        compaction = compactions[index]
        if compaction.completed_at <= run.recorded_at and compaction.threshold_ms == verdict.threshold_ms:
            check = RecordedCheck(recorded_at=run.recorded_at, kind=run.kind, verification=verdict)
            compactions[index] = compaction.model_copy(update={"checks": (*compaction.checks, check)})
            return
    threshold = verdict.threshold_ms
    attempts.append(
        Attempt(recorded_at=run.recorded_at, kind=run.kind, status=None, threshold_ms=threshold, verification=verdict)
    )
