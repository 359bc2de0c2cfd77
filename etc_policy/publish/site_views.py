"""What the pages of the site show, worked out before any page is written (pure)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from etc_policy.compile.manifest import Policy
from etc_policy.compile.policy_values import policy_values
from etc_policy.errors import Issue
from etc_policy.plan.commit_log import CommitLog, GroupChange
from etc_policy.plan.explanation import explain_table
from etc_policy.plan.stages import TablePlan
from etc_policy.plan.table_state import FileSlice, TableState
from etc_policy.plan.watermark import event_time_bound_ms
from etc_policy.publish.history import Attempt, Check, Compaction, PolicyHistory
from etc_policy.publish.history_text import is_quiet, when
from etc_policy.publish.results import TableFreshness
from etc_policy.publish.site_charts import Moment, Past, Spark, bytes_chart, completeness_chart, spark_line, table_past
from etc_policy.verify.late_data import LateData
from etc_policy.verify.ports import Verification

#: Slices and operations that one page lists at most.
MAX_ROWS = 200

_TONES = {"pass": "good", "warn": "warn", "fail": "bad", "error": "bad", "skipped": "quiet", "unknown": "quiet"}
_FRESH = {"pass": "Fresh", "warn": "Late", "error": "Too late", "unknown": "Unknown"}
_VERDICT = {"pass": "Passed", "warn": "Warning", "fail": "Failed", "error": "Could not check", "skipped": "Skipped"}
_DONE = {
    "compacted": ("Compacted", "good"),
    "resumed": ("Compacted, resumed", "good"),
    "already_applied": ("Already applied", "quiet"),
    "withdrawn": ("Plan withdrawn", "warn"),
    "nothing_due": ("Nothing due", "quiet"),
    "refused": ("Refused", "warn"),
    "stale": ("Plan was stale", "warn"),
    "failed": ("Failed", "bad"),
    None: ("Verified", "quiet"),
}


@dataclass(frozen=True, slots=True)
class TableFacts:
    """All that was found out about one policy; what could not be read is None, and `freshness` says why."""

    policy: Policy
    freshness: TableFreshness
    history: PolicyHistory | None = None
    plans: Mapping[str, TablePlan] = field(default_factory=dict)
    state: TableState | None = None
    log: CommitLog | None = None
    late: tuple[LateData, ...] = ()


@dataclass(frozen=True, slots=True)
class Chip:
    """A status in a word; the tone is `good`, `warn`, `bad` or `quiet`."""

    label: str
    tone: str


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One file slice that a run compacted, from its plan where that was kept, else from its commit."""

    partition: str
    file_id: str
    merged: int
    left: int | None
    bytes_read: int | None
    bytes_written: int


@dataclass(frozen=True, slots=True)
class RunView:
    """One run: a completed compaction or an attempt."""

    href: str
    policy: str
    table_href: str
    at: str
    at_ms: int
    done: Chip
    verdict: Chip | None
    compaction: Compaction | None
    attempt: Attempt | None
    plan: TablePlan | None = None
    operations: tuple[OperationRow, ...] = ()
    operations_left_out: int = 0
    why: tuple[tuple[str, str], ...] = ()
    quiet: bool = False

    @property
    def threshold_ms(self) -> int | None:
        """The threshold that it was about."""
        return (self.compaction or self.attempt).threshold_ms  # type: ignore[union-attr]

    @property
    def checks(self) -> tuple[Check, ...]:
        """Its verdicts, oldest first."""
        if self.compaction is not None:
            return self.compaction.checks
        attempt = self.attempt
        if attempt is None or attempt.verification is None:
            return ()
        return (Check(recorded_at=attempt.recorded_at, kind=attempt.kind, verification=attempt.verification),)


@dataclass(frozen=True, slots=True)
class SliceRow:
    """A file slice with log files that are not compacted; `oldest_ms` is the smallest event time that they can hold."""

    partition: str
    file_id: str
    base_instant: str
    log_files: int
    log_bytes: int
    oldest_ms: int
    assumed: bool


@dataclass(frozen=True, slots=True)
class TableView:
    """One policy's page."""

    href: str
    policy: Policy
    freshness: TableFreshness
    status: Chip
    runs: tuple[RunView, ...]
    older_runs: int
    past: Past
    told: tuple[Moment, ...]
    slices: tuple[SliceRow, ...]
    slices_left_out: int
    late: tuple[LateData, ...]
    values: Mapping[str, str]
    completeness: Mapping[str, Any]
    rewritten: Mapping[str, Any]
    spark: Spark | None

    @property
    def runs_shown(self) -> bool:
        """Whether the completeness chart has a compaction in it."""
        return any(moment.mark in ("run", "foreign") for moment in self.told)

    @property
    def late_shown(self) -> bool:
        """Whether the completeness chart has late data in it."""
        return any(moment.mark == "late" for moment in self.told)

    @property
    def last_run(self) -> RunView | None:
        """The newest run that did or found something, else the newest."""
        return next((run for run in self.runs if not run.quiet), self.runs[0] if self.runs else None)

    @property
    def last_verdict(self) -> RunView | None:
        """The newest run that was checked."""
        return next((run for run in self.runs if run.verdict is not None), None)


@dataclass(frozen=True, slots=True)
class SiteView:
    """The whole site."""

    project: str
    observed_ms: int
    tables: tuple[TableView, ...]
    warnings: tuple[Issue, ...]

    @property
    def recent(self) -> tuple[RunView, ...]:
        """Runs of all policies, newest first, without those that found nothing to do."""
        runs = (run for table in self.tables for run in table.runs if not run.quiet)
        return tuple(sorted(runs, key=lambda run: run.at, reverse=True))

    def count(self, tone: str) -> int:
        """How many tables have a status of that tone."""
        return sum(table.status.tone == tone for table in self.tables)

    @property
    def failing(self) -> tuple[TableView, ...]:
        """Tables whose newest checks did not pass."""
        return tuple(t for t in self.tables if t.last_verdict and t.last_verdict.verdict.tone in ("bad", "warn"))  # type: ignore[union-attr]


def site_view(
    project: str,
    tables: tuple[TableFacts, ...],
    observed_ms: int,
    warnings: tuple[Issue, ...] = (),
    max_runs: int = 100,
) -> SiteView:
    """The site over what was found out about each policy; at most `max_runs` runs of each have a page."""
    views = tuple(_table(facts, observed_ms, max_runs) for facts in tables)
    return SiteView(project, observed_ms, views, warnings)


def slug(name: str) -> str:
    """A file name for a policy: its own where that is safe, else what is safe of it and a hash."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".lstrip("-")


def verdict_chip(verification: Verification) -> Chip:
    """The verdict of one check; data that disagree are said before checks that could not run."""
    failed = any(expectation.status == "fail" for expectation in verification.expectations)
    status = "fail" if failed else verification.status
    return Chip(_VERDICT[status], _TONES[status])


def status_chip(status: str) -> Chip:
    """The verdict of one expectation."""
    return Chip(_VERDICT[status], _TONES[status])


def _table(facts: TableFacts, observed_ms: int, max_runs: int) -> TableView:
    runs = sorted(_runs(facts), key=lambda run: run.at, reverse=True)
    past = table_past(facts.policy, facts.log, facts.state, observed_ms) if facts.log else Past()
    slices = sorted(_slices(facts), key=lambda row: (row.oldest_ms, row.partition, row.file_id))
    written = [(run.at_ms, run.compaction.bytes_written) for run in reversed(runs) if run.compaction]
    return TableView(
        href=f"tables/{slug(facts.policy.name)}.html",
        policy=facts.policy,
        freshness=facts.freshness,
        status=Chip(_FRESH[facts.freshness.status], _TONES[facts.freshness.status]),
        runs=tuple(runs[:max_runs]),
        older_runs=max(0, len(runs) - max_runs),
        past=past,
        told=tuple(_told(past)),
        slices=tuple(slices[:MAX_ROWS]),
        slices_left_out=max(0, len(slices) - MAX_ROWS),
        late=tuple(late for late in reversed(facts.late) if late.writes or late.unknown_writes),
        values=policy_values(facts.policy),
        completeness=completeness_chart(past),
        rewritten=bytes_chart(written),
        spark=spark_line(past),
    )


def _told(past: Past) -> Iterator[Moment]:
    """What the table beside the chart tells, newest first: how it is now, what happened, and how it began."""
    for index, moment in reversed(list(enumerate(past.moments))):
        if moment.mark or index in (0, len(past.moments) - 1):
            yield moment


def _runs(facts: TableFacts) -> Iterator[RunView]:
    if facts.history is None:
        return
    folder, table_href = f"runs/{slug(facts.policy.name)}", f"tables/{slug(facts.policy.name)}.html"
    groups = {commit.requested: commit.groups for commit in facts.log.commits} if facts.log else {}
    for compaction in facts.history.compactions:
        plan = facts.plans.get(compaction.instant)
        rows = tuple(_operations(plan, groups.get(compaction.instant, ())))
        yield RunView(
            href=f"{folder}/{slug(compaction.instant)}.html",
            policy=facts.policy.name,
            table_href=table_href,
            at=when(compaction),
            at_ms=_epoch_ms(when(compaction)),
            done=Chip(*_DONE["compacted"]) if compaction.ours else Chip("Compacted by others", "quiet"),
            verdict=verdict_chip(compaction.checks[-1].verification) if compaction.checks else None,
            compaction=compaction,
            attempt=None,
            plan=plan,
            why=tuple(explain_table(plan)) if plan else (),
            operations=rows[:MAX_ROWS],
            operations_left_out=max(0, len(rows) - MAX_ROWS),
        )
    for number, attempt in enumerate(facts.history.attempts):
        yield RunView(
            href=f"{folder}/{slug(attempt.recorded_at.replace(':', '').replace('.', ''))}-{number}.html",
            policy=facts.policy.name,
            table_href=table_href,
            at=attempt.recorded_at,
            at_ms=_epoch_ms(attempt.recorded_at),
            done=Chip(*_DONE[attempt.status]),
            verdict=verdict_chip(attempt.verification) if attempt.verification else None,
            compaction=None,
            attempt=attempt,
            quiet=is_quiet(attempt),
        )


def _operations(plan: TablePlan | None, groups: tuple[GroupChange, ...]) -> Iterator[OperationRow]:
    """The commit tells what was written, the plan what was read and what stayed behind."""
    planned = {(o.partition, o.file_id): o for o in plan.operations} if plan else {}
    for group in groups:
        operation = planned.get((group.partition, group.file_id))
        yield OperationRow(
            partition=group.partition,
            file_id=group.file_id,
            merged=group.merged_log_files,
            left=len(operation.log_files_remaining) if operation else None,
            bytes_read=operation.bytes_read if operation else None,
            bytes_written=group.bytes_written,
        )


def _slices(facts: TableFacts) -> Iterator[SliceRow]:
    state = facts.state
    if state is None:
        return
    for file_slice in state.slices:
        if file_slice.log_files:
            yield _slice(file_slice, facts.policy, ZoneInfo(state.timezone))


def _slice(file_slice: FileSlice, policy: Policy, zone: ZoneInfo) -> SliceRow:
    bounds = [
        (event_time_bound_ms(f, policy.data_latency_ms, zone), f.min_event_time_ms is None)
        for f in file_slice.log_files
    ]
    oldest_ms, assumed = min(bounds)
    return SliceRow(
        partition=file_slice.partition,
        file_id=file_slice.file_id,
        base_instant=file_slice.base_instant,
        log_files=len(file_slice.log_files),
        log_bytes=sum(log_file.size_bytes for log_file in file_slice.log_files),
        oldest_ms=oldest_ms,
        assumed=assumed,
    )


def _epoch_ms(iso: str) -> int:
    """A run file's time; what is no time sorts first, and one without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError:
        return 0
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
