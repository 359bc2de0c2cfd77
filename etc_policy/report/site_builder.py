"""Works out the views of the site from what was found out about each policy (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfo

from etc_policy.errors import Issue
from etc_policy.plan.explanation import explain_table
from etc_policy.plan.model import TablePlan
from etc_policy.policy.manifest import Policy, policy_values
from etc_policy.report.history import latest_verdict
from etc_policy.report.history_text import is_quiet, when
from etc_policy.report.site_charts import ChartPoint, Past, bytes_chart, completeness_chart, spark_line, table_past
from etc_policy.report.site_views import (
    Chip,
    OperationRow,
    RunView,
    SiteTable,
    SiteView,
    SliceRow,
    TableView,
    done_chip,
    freshness_chip,
    slug,
    verdict_chip,
)
from etc_policy.table.formats import iso_ms
from etc_policy.table.history import GroupWrite
from etc_policy.table.state import FileSlice
from etc_policy.table.watermark import event_time_bound

#: Slices and operations that one page lists at most.
MAX_ROWS = 200


def site_view(
    project: str,
    tables: tuple[SiteTable, ...],
    observed_ms: int,
    warnings: tuple[Issue, ...] = (),
    max_runs: int = 100,
) -> SiteView:
    """The site over what was found out about each policy; at most `max_runs` runs of each have a page."""
    views = tuple(_table(facts, observed_ms, max_runs) for facts in tables)
    return SiteView(project, observed_ms, views, warnings)


def _table(facts: SiteTable, observed_ms: int, max_runs: int) -> TableView:
    runs = sorted(_runs(facts), key=lambda run: run.at, reverse=True)
    past = table_past(facts.policy, facts.past, observed_ms) if facts.past else Past()
    if facts.freshness.complete_until_ms is None:
        past = past.unknown_now()
    slices = sorted(_slices(facts), key=lambda row: (row.oldest_ms, row.partition, row.file_id))
    written = [(run.at_ms, run.compaction.bytes_written) for run in reversed(runs) if run.compaction]
    return TableView(
        href=f"tables/{slug(facts.policy.name)}.html",
        policy=facts.policy,
        freshness=facts.freshness,
        status=freshness_chip(facts.freshness.status),
        runs=tuple(runs[:max_runs]),
        older_runs=max(0, len(runs) - max_runs),
        past=past,
        timeline_rows=tuple(_timeline_rows(past)),
        slices=tuple(slices[:MAX_ROWS]),
        slices_left_out=max(0, len(slices) - MAX_ROWS),
        late=tuple(late for late in reversed(facts.late) if late.writes or late.unknown_writes),
        values=policy_values(facts.policy),
        completeness=completeness_chart(past),
        rewritten=bytes_chart(written),
        spark=spark_line(past),
    )


def _timeline_rows(past: Past) -> Iterator[ChartPoint]:
    """What the table beside the chart shows, newest first: how it is now, what happened, and how it began."""
    for index, moment in reversed(list(enumerate(past.moments))):
        if moment.mark or index in (0, len(past.moments) - 1):
            yield moment


def _runs(facts: SiteTable) -> Iterator[RunView]:
    if facts.history is None:
        return
    folder, table_href = f"runs/{slug(facts.policy.name)}", f"tables/{slug(facts.policy.name)}.html"
    groups = {commit.requested: commit.groups for commit in facts.past.commits} if facts.past else {}
    for compaction in facts.history.compactions:
        plan = facts.plans.get(compaction.instant)
        rows = tuple(_operations(plan, groups.get(compaction.instant, ())))
        yield RunView(
            href=f"{folder}/{slug(compaction.instant)}.html",
            policy=facts.policy.name,
            table_href=table_href,
            at=when(compaction),
            at_ms=_epoch_ms(when(compaction)),
            done=done_chip("compacted") if compaction.ours else Chip("Compacted by others", "quiet"),
            verdict=verdict_chip(verdict) if (verdict := latest_verdict(compaction.checks)) else None,
            compaction=compaction,
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
            done=done_chip(attempt.status),
            verdict=verdict_chip(attempt.verification) if attempt.verification else None,
            attempt=attempt,
            quiet=is_quiet(attempt),
        )


def _operations(plan: TablePlan | None, groups: tuple[GroupWrite, ...]) -> Iterator[OperationRow]:
    """The commit says what was written, the plan says what was read and what stayed behind."""
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


def _slices(facts: SiteTable) -> Iterator[SliceRow]:
    state = facts.state
    if state is None:
        return
    for file_slice in state.slices:
        if file_slice.log_files:
            yield _slice(file_slice, facts.policy, ZoneInfo(state.timezone))


def _slice(file_slice: FileSlice, policy: Policy, zone: ZoneInfo) -> SliceRow:
    bounds = [event_time_bound(f, policy.longest_latency_ms, zone) for f in file_slice.log_files]
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
    """A run file's time; what is not a time sorts first, and one without a zone is UTC."""
    try:
        return iso_ms(iso)
    except ValueError:
        return 0
