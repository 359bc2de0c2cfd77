"""What the pages of the site show: the views that templates are filled with."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from etc_policy.errors import Issue
from etc_policy.plan.model import TablePlan
from etc_policy.policy.manifest import Policy
from etc_policy.report.history import Attempt, Compaction, PolicyHistory, RecordedCheck
from etc_policy.report.results import TableFreshness
from etc_policy.report.site_charts import ChartPoint, Past, Sparkline
from etc_policy.table.formats import MANY_TABLES
from etc_policy.table.history import TableHistory
from etc_policy.table.state import TableState
from etc_policy.verify.late_data import LateData
from etc_policy.verify.ports import CheckStatus, ExpectationResult, Verification

_TONES = {"pass": "good", "warn": "warn", "fail": "bad", "error": "bad", "skipped": "quiet", "unknown": "quiet"}
_FRESH = {"pass": "Fresh", "warn": "Late", "error": "Too late", "unknown": "Unknown"}
_VERDICT = {"pass": "Passed", "warn": "Warning", "fail": "Failed", "error": "Could not check", "skipped": "Skipped"}
_ORDER: tuple[CheckStatus, ...] = ("fail", "error", "warn", "pass")
_DONE = {
    "compacted": ("Compacted", "good"),
    "resumed": ("Compacted, resumed", "good"),
    "already_applied": ("Already applied", "quiet"),
    "withdrawn": ("Plan withdrawn", "warn"),
    "nothing_due": ("Nothing due", "quiet"),
    "refused": ("Refused", "warn"),
    "stale": ("Plan was stale", "warn"),
    "failed": ("Failed", "bad"),
    None: ("Verification only", "quiet"),
}


@dataclass(frozen=True, slots=True)
class SiteTable:
    """All that was found out about one policy; what could not be read is None, and `freshness` says why."""

    policy: Policy
    freshness: TableFreshness
    history: PolicyHistory | None = None
    plans: Mapping[str, TablePlan] = field(default_factory=dict)
    state: TableState | None = None
    past: TableHistory | None = None
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
    compaction: Compaction | None = None
    attempt: Attempt | None = None
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
    def checks(self) -> tuple[RecordedCheck, ...]:
        """Its verdicts, oldest first."""
        if self.compaction is not None:
            return self.compaction.checks
        attempt = self.attempt
        if attempt is None or attempt.verification is None:
            return ()
        return (RecordedCheck(recorded_at=attempt.recorded_at, kind=attempt.kind, verification=attempt.verification),)

    @property
    def checked_at(self) -> str:
        """When its newest verdict was given, else when it ran; ISO 8601."""
        return self.checks[-1].recorded_at if self.checks else self.at


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
    timeline_rows: tuple[ChartPoint, ...]
    slices: tuple[SliceRow, ...]
    slices_left_out: int
    late: tuple[LateData, ...]
    values: Mapping[str, str]
    completeness: Mapping[str, Any]
    rewritten: Mapping[str, Any]
    spark: Sparkline | None

    @property
    def words(self) -> str:
        """What a search looks at."""
        policy = self.policy
        return " ".join((policy.name, policy.description or "", policy.table, *policy.tags))

    @property
    def runs_shown(self) -> bool:
        """Whether the completeness chart has a compaction in it."""
        return any(moment.mark in ("run", "foreign") for moment in self.timeline_rows)

    @property
    def late_shown(self) -> bool:
        """Whether the completeness chart has late data in it."""
        return any(moment.mark == "late" for moment in self.timeline_rows)

    @property
    def last_run(self) -> RunView | None:
        """The newest run that did or found something, else the newest."""
        return next((run for run in self.runs if not run.quiet), self.runs[0] if self.runs else None)

    @property
    def last_verdict(self) -> RunView | None:
        """The newest run that was checked."""
        return next((run for run in self.runs if run.verdict is not None), None)

    def run_at(self, instant: str) -> RunView | None:
        """The run that completed the compaction at an instant, where it has a page."""
        return next((run for run in self.runs if run.compaction and run.compaction.instant == instant), None)


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

    @property
    def by_urgency(self) -> tuple[TableView, ...]:
        """The tables, worst first: too late, unknown, late, fresh, and of each the one that lags most."""
        order = ("bad", "quiet", "warn", "good")
        return tuple(sorted(self.tables, key=lambda t: (order.index(t.status.tone), -(t.freshness.lag_seconds or 0))))

    @property
    def is_long(self) -> bool:
        """Whether the list of tables needs a search, filters and pages."""
        return len(self.tables) >= MANY_TABLES

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags of the policies, sorted."""
        return tuple(sorted({tag for table in self.tables for tag in table.policy.tags}))

    @property
    def statuses(self) -> tuple[Chip, ...]:
        """The statuses that there are, worst first."""
        return tuple(dict.fromkeys(table.status for table in self.by_urgency))

    def count(self, tone: str) -> int:
        """How many tables have a status of that tone."""
        return sum(table.status.tone == tone for table in self.tables)

    @property
    def failing(self) -> tuple[TableView, ...]:
        """Tables whose newest checks did not pass."""
        return tuple(t for t in self.tables if t.last_verdict and t.last_verdict.verdict.tone in ("bad", "warn"))  # type: ignore[union-attr]


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


def worst_first(results: Sequence[ExpectationResult]) -> list[ExpectationResult]:
    """Expectations that failed, then those that could not be checked, then warnings; else in their own order."""
    return sorted(results, key=lambda result: _ORDER.index(result.status))


def freshness_chip(status: str) -> Chip:
    """The verdict over a table's lag."""
    return Chip(_FRESH[status], _TONES[status])


def done_chip(status: str | None) -> Chip:
    """What a run did; None for one that only verified."""
    return Chip(*_DONE[status])
