"""A plan in words, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from etc_policy.errors.plain_text import one_line
from etc_policy.plan.bundles import DEFAULT_RELEASE
from etc_policy.plan.explanation import PREFACE, Row, explain_table
from etc_policy.plan.model import PUBLISHED, LaterRows, Plan, TablePlan
from etc_policy.plan.pace_explanation import latency_rows, next_due_rows, pace_rows, stock_rows
from etc_policy.policy.manifest import OTHER_GRANULARITY
from etc_policy.table.formats import (
    TEXT_WIDTH,
    Line,
    block,
    count_of,
    fold,
    format_bytes,
    format_time,
    keep_commands,
    rows_of,
    short_of,
)
from etc_policy.table.state import CUT_VERSIONS

_ACTIONS = {"compact": "compact", "nothing_due": "nothing due", "refused": "refused"}


def explain_plan(plan: Plan, *, explain: bool = False, width: int = TEXT_WIDTH) -> str:
    """The whole plan, its lines folded at `width` columns; `explain` adds why it is as it is."""
    parts = [fold(PREFACE, width)] if explain else []
    for table in plan.tables:
        lines: list[Line] = [f"{table.policy}  {table.base_path}", *table_rows(table)]
        parts.append(block([*lines, "", *explain_table(table)] if explain else lines, width))
    return "\n\n".join([*parts, fold(_summary(plan), width)])


def list_plan(plan: Plan, width: int = TEXT_WIDTH) -> str:
    """The plan with one line for each table."""
    rows = [(one.policy, f"{_ACTIONS[one.action]}{' (new)' * bool(one.new_from)}", _line(one)) for one in plan.tables]
    parts = rows_of(rows, width), rows_of(list(short_warnings(plan)), width), fold(_summary(plan), width)
    return "\n\n".join(filter(None, parts))


def short_warnings(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """What is to be looked at, a line for each: the policy, `warning`, and what is so; the whole plan says more."""
    return ((table.policy, "warning", short_of(one)) for table in plan.tables for one in table.warnings)


def _line(table: TablePlan) -> str:
    if table.action == "refused":
        return _refusal(table)
    until = _until(table, table.watermark_after_ms, whole_seconds=True)
    not_known = "; how far RO is complete is not known"
    if table.action == "nothing_due":
        due = f"; next due {format_time(table.next_due_ms)}" if table.next_due_ms is not None else ""
        return f"RO complete until {until}{due}" if table.watermark_known else f"{table.reason}{not_known}"
    merged = sum(len(operation.log_files_compacted) for operation in table.operations)
    read = format_bytes(sum(operation.bytes_read for operation in table.operations))
    slices = count_of(len(table.operations), "file slice")
    then = f"; then RO until {until}" if table.watermark_known else not_known
    return f"{count_of(merged, 'log file')} in {slices}, {read}{_by_release(table)}{then}"


def _refusal(table: TablePlan) -> str:
    """Why, behind what `etc explain` takes."""
    return f"({table.reason_code}) {table.reason}" if table.reason_code else table.reason or ""


def _by_release(table: TablePlan) -> str:
    """Which release of Hudi takes the table, where it is not the usual one."""
    return f", by Hudi {table.release}" if table.release not in (None, DEFAULT_RELEASE) else ""


def table_rows(table: TablePlan) -> Iterator[Row]:
    """What is planned for a table: T, what is merged, how far RO is complete now and after, and what to look at."""
    if table.new_from:
        yield "new table", f"found by {one_line(table.new_from)}; etc has compacted nothing of it yet"
    is_late = table.reason_code == PUBLISHED  # what came since waits for the next boundary
    is_promised = table.watermark_known and table.action != "refused" and not is_late
    promised = "  RO will hold every row up to here" if is_promised else ""
    yield "threshold T", f"{format_time(table.threshold_ms)}{promised}"
    yield from latency_rows(table)
    yield from pace_rows(table)
    yield from stock_rows(table)
    for change in table.policy_changes:
        yield "policy change", f"{change}  since the last compaction"
    if table.action == "compact":
        yield from _compaction(table)
    else:
        yield ("refused", _refusal(table)) if table.action == "refused" else ("nothing due", table.reason or "")
    if table.watermark_known:
        yield from _watermark(table)
    else:
        yield "RO complete", "not known"
    yield from next_due_rows(table.next_due_ms)
    for warning in table.warnings:
        yield "warning", warning
    for hint in table.hints:
        yield "hint", keep_commands(hint)


def _compaction(table: TablePlan) -> Iterator[Row]:
    merged = sum(len(operation.log_files_compacted) for operation in table.operations)
    left = sum(len(operation.log_files_remaining) for operation in table.operations)
    log_bytes = sum(operation.log_bytes_compacted for operation in table.operations)
    files = count_of(merged + left, "log file")
    slices = count_of(len(table.operations), "file slice")
    yield ("compact", f"{merged:,} of {files} ({format_bytes(log_bytes)}) in {slices}{_by_release(table)}")
    cut = "  between commits: merges what completed before" if table.table_version in CUT_VERSIONS else ""
    carried = [one for operation in table.operations for one in operation.carried]
    if carried:
        size = format_bytes(sum(one.size_bytes for one in carried))
        yield (
            "carry",
            f"{count_of(len(carried), 'log file')} ({size}) into the new slices, by a second name or a copy",
        )
    split = [one for one in table.operations if one.straddling]
    if split:
        files = count_of(sum(len(one.straddling) for one in split), "log file")
        yield (
            "split",
            f"reads {files}: rows after T stay, in at most one new log file for each of {count_of(len(split), 'file slice')}",
        )
    if table.later_rows is not None:
        yield ("later rows", _later_rows(table.later_rows))
    yield ("instant C", f"{table.instant}{cut}")
    read = sum(operation.bytes_read for operation in table.operations)
    written = sum(operation.bytes_written_estimate for operation in table.operations)
    about = f"about {format_bytes(written)}{_learned(table)}"
    yield ("rewrite", f"reads {format_bytes(read)}, writes {about}{_otherwise(table, log_bytes)}")


def _later_rows(found: LaterRows) -> str:
    """What RO shows after T, as writers have put it straight into base files."""
    parts = []
    if found.base_files:
        parts.append(f"at most {count_of(found.rows_at_most, 'row')} in {count_of(found.base_files, 'base file')}")
    if found.unknown_base_files:
        parts.append(f"not known of {count_of(found.unknown_base_files, 'base file')}")
    shown = "  RO shows what is there; a view of `sync.as_of_view` does not"
    return f"{', '.join(parts)}{shown}" if parts else "none in base files"


def _learned(table: TablePlan) -> str:
    """From how many compactions the estimate was learned."""
    growth = table.seen.write_growth
    return f" (learned from {count_of(growth.compactions, 'compaction')})" if growth else ""


def _otherwise(table: TablePlan, log_bytes: int) -> str:
    """What the other granularity would read of the same slices, where that is something else."""
    if table.other_log_bytes is None or table.other_log_bytes == log_bytes:
        return ""
    other, more = OTHER_GRANULARITY[table.granularity], table.other_log_bytes - log_bytes
    return f"; `granularity: {other}` would read {format_bytes(abs(more))} {'more' if more > 0 else 'less'}"


def _watermark(table: TablePlan) -> Iterator[Row]:
    """RO is complete up to the watermark, but no further than T: later events may still be on their way.

    See facts: complete-until.
    """
    before, after = (_until(table, value) for value in (table.watermark_before_ms, table.watermark_after_ms))
    if table.action == "compact":
        yield ("RO complete", f"until {before}  now")
        yield ("", f"until {after}  after")
    else:
        yield ("RO complete", f"until {before}")
    if table.held_back_by and table.watermark_after_ms is not None:
        yield ("next event", next_event(table.watermark_after_ms + 1, table.held_back_by, table.watermark_assumed))


def next_event(event_ms: int, log_file: str, assumed: bool) -> str:
    """The first event that RO lacks, and the log file that holds it."""
    how = " (assumed from when it was written)" if assumed else ""
    return f"{format_time(event_ms)}{how}, not in RO yet but in {log_file}"


def _until(table: TablePlan, watermark_ms: int | None, *, whole_seconds: bool = False) -> str:
    until_ms = table.threshold_ms if watermark_ms is None else min(watermark_ms, table.threshold_ms)
    return format_time(until_ms - until_ms % 1000 if whole_seconds else until_ms)


def _summary(plan: Plan) -> str:
    actions = [table.action for table in plan.tables]
    due, idle, refused = (actions.count(action) for action in ("compact", "nothing_due", "refused"))
    parts = [f"{due} to compact", f"{idle} with nothing due", f"{refused} refused"]
    return f"Plan {plan.plan_id}: {', '.join(parts)}.{_releases(plan)}"


def _releases(plan: Plan) -> str:
    """How many tables each release of Hudi compacts, one after the other, where it is more than one."""
    counts = Counter(one.release for one in plan.tables if one.action == "compact" and one.release is not None)
    if len(counts) < 2:
        return ""
    takes = (f"Hudi {release} takes {count_of(count, 'table')}" for release, count in counts.items())
    return f" {', then '.join(takes)}."


def summarize_changes(plan: Plan) -> str:
    """`Compact 34 log files (187.9 KiB) of 1 table: reads 2.7 MiB, writes about 2.5 MiB.`"""
    due = [table for table in plan.tables if table.action == "compact"]
    operations = [operation for table in due for operation in table.operations]
    files = count_of(sum(len(operation.log_files_compacted) for operation in operations), "log file")
    size, read, written = (
        format_bytes(sum(getattr(operation, name) for operation in operations))
        for name in ("log_bytes_compacted", "bytes_read", "bytes_written_estimate")
    )
    tables = count_of(len(due), "table")
    return f"Compact {files} ({size}) of {tables}: reads {read}, writes about {written}. RT stays as it is."
