"""Results of apply, verify and freshness in words, for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from etc_policy.plan.explainer import next_event
from etc_policy.plan.pace_explanation import next_due_rows
from etc_policy.policy.manifest import Freshness
from etc_policy.policy.selection import FreshnessStatus
from etc_policy.report.check_titles import BOUNDS_IN_WORDS, result_title, subject_of, title_of_key, unchecked_titles
from etc_policy.report.results import (
    FreshnessReport,
    RunResults,
    SyncReport,
    TableFreshness,
    TableVerification,
    VerificationReport,
)
from etc_policy.report.sync import COMPLETE_UNTIL, THRESHOLD, complete_until
from etc_policy.run.results import SyncResult, TableResult
from etc_policy.table.formats import (
    MANY_TABLES,
    TEXT_WIDTH,
    Line,
    block,
    count_of,
    format_bytes,
    format_duration,
    format_time,
    iso_ms,
    keep_commands,
    keep_together,
    rows_of,
    short_of,
)
from etc_policy.table.partitions import PartitionFreshness, PartitionsFreshness
from etc_policy.table.state import path_below
from etc_policy.verify.freshness import effective_limits_ms, lag_text
from etc_policy.verify.late_data import LateData
from etc_policy.verify.latency import LatencyVerdict, ObservedLatency
from etc_policy.verify.ports import UNREADABLE, Coverage, ExpectationResult, RestsOn, Verification

#: So many file slices that hold RO back are named.
_NAMED = 3
#: No span is as long: what is larger is a moment in epoch milliseconds.
MOMENT_MS = 100_000_000_000

_LATENCY = {"fits": "fits", "too_short": "is too short", "generous": "is generous", "unknown": "cannot be judged yet"}

_DONE = {
    "compacted": "compacted",
    "resumed": "finished what an earlier run began",
    "already_applied": "this plan has been applied before",
    "withdrawn": "the pending plan was withdrawn",
    "nothing_due": "nothing due",
    "refused": "refused",
    "stale": "stale plan, nothing touched",
    "failed": "failed",
}

_SYNCED = {
    "synced": "properties set on",
    "unchanged": "nothing to change on",
    "removed": "properties removed from",
    "failed": "FAILED on",
}

#: A table's line in columns: policy, verdict, text.
Row = tuple[str, str, str]


def _tables(tables: Sequence[tuple[Row | None, Iterable[Line]]], width: int, *, long: bool) -> str:
    """A block per table; of many tables not `long` a line for each that has one, and then the blocks of the others."""
    long = long or len(tables) < MANY_TABLES
    rows = [] if long else [row for row, _ in tables if row is not None]
    blocks = [block(lines, width) for row, lines in tables if long or row is None]
    return "\n\n".join(filter(None, (rows_of(rows, width), *blocks)))


def render_results(results: RunResults, width: int = TEXT_WIDTH, *, long: bool = False) -> str:
    """One block per table: what was done, what it cost, what was proved.

    Of many a line for each that went well, or failed as others did.
    """
    failed = Counter(table.reason for table in results.tables if table.status == "failed")
    return _tables([(_result_row(table, failed), _result(table)) for table in results.tables], width, long=long)


def _result_row(table: TableResult, failed: Mapping[str | None, int]) -> Row | None:
    """The line of a table that went well, or whose reason to fail others have; None where there is more to say."""
    if table.status == "failed" and table.reason and failed[table.reason] > 1 and table.verification is None:
        return table.policy, "failed", table.reason
    verdict = table.verification.status if table.verification else "pass"
    if table.status in ("refused", "stale", "failed") or verdict != "pass":
        return None
    if table.sync is not None and table.sync.status == "failed":
        return None
    said = [_merged(table)] if table.status in ("compacted", "resumed") else []
    said += [f"RO complete until {until}"] if (until := _complete_until(table)) else []
    return table.policy, table.status.replace("_", " "), "; ".join(said)


def _result(table: TableResult) -> Iterator[Line]:
    yield f"{table.policy}  {table.base_path}"
    reason = f": {table.reason}" if table.reason else ""
    yield "result", f"{_DONE[table.status]}{reason}"
    for hint in table.hints:
        yield "hint", keep_commands(hint)
    if table.resumed_instant not in (None, table.instant):
        yield "before", f"finished what an earlier run began at {table.resumed_instant}"
    if table.status in ("compacted", "resumed"):
        yield "merged", _merged(table)
        yield "instant C", str(table.instant)
    if table.threshold_ms is not None:
        yield "threshold T", format_time(table.threshold_ms)
    if until := _complete_until(table):
        yield "RO complete", f"until {until}"
    if table.verification is not None:
        yield from _verdict(table.verification)
    yield from next_due_rows(table.next_due_ms)
    if table.sync is not None:
        yield from _sync_lines(table.sync)
    if table.events_sent is not None and (table.events_sent.done or table.events_sent.reopened):
        yield "partitions", f"sent: {table.events_sent.done:,} done, {table.events_sent.reopened:,} reopened"


def _merged(table: TableResult) -> str:
    merged = f"{count_of(table.log_files, 'log file')} of {count_of(table.file_slices, 'file slice')}"
    return f"{merged}, {format_bytes(table.bytes_written)} written in {table.run_seconds:.1f} s"


def _complete_until(table: TableResult) -> str:
    """How far RO is complete, and what proves it; empty where nothing does."""
    found = complete_until(table)
    if found is None:
        return ""
    until, level = found
    as_planned = table.status == "compacted" and table.watermark_measured_ms == table.watermark_predicted_ms
    at = format_time(iso_ms(table.completed_at) // 1000 * 1000)
    proof = keep_together(f"(proof: {level}, {at})")
    return f"{format_time(until)}{'  as planned' if as_planned else ''} {proof}"


def render_sync(report: SyncReport, width: int, *, long: bool) -> str:
    """One block per table: what became of its properties, and what they are.

    Of many a line for each that went well, or failed as others did.
    """
    failed = Counter(table.message for table in report.tables if table.status == "failed")
    return _tables([(_sync_row(table, failed), _sync_block(table)) for table in report.tables], width, long=long)


def _sync_row(table: SyncResult, failed: Mapping[str | None, int]) -> Row | None:
    if table.status != "failed":
        return table.policy, table.status, table.ro_table
    is_shared = table.message is not None and failed[table.message] > 1
    return (table.policy, "FAILED", f"{table.ro_table}: {table.message}") if is_shared else None


def _sync_block(table: SyncResult) -> Iterator[Line]:
    yield f"{table.policy}  {table.ro_table}"
    yield from _sync_lines(table)
    for key, value in sorted((table.properties or {}).items()):
        moment = f"  {keep_together(f'({format_time(int(value))})')}" if key in (THRESHOLD, COMPLETE_UNTIL) else ""
        yield "", f"{key} = {value}{moment}"


def _sync_lines(table: SyncResult) -> Iterator[Line]:
    tries = f" after {table.attempts} tries" if table.attempts > 1 else ""
    reason = f": {table.message}" if table.message else ""
    yield "synced", f"{_SYNCED[table.status]} {table.ro_table}{tries}{reason}"


def render_verifications(report: VerificationReport, width: int = TEXT_WIDTH, *, long: bool = False) -> str:
    """One block per table: the verdict and each expectation.

    Of many a line for each that passed, and for each whose rows could not be read for a reason of others; these are said last.
    """
    unread = Counter(filter(None, (_why_unread(table.verification) for table in report.tables)))
    shared = {why for why, count in unread.items() if count > 1}
    tables = [(_verified_row(table, shared), _verification(table)) for table in report.tables]
    is_short = not long and len(tables) >= MANY_TABLES
    reasons = [block(_unread(why, unread[why]), width) for why in sorted(shared)] if is_short else []
    return "\n\n".join((_tables(tables, width, long=long), *reasons))


def _verified_row(table: TableVerification, shared: Collection[str]) -> Row | None:
    found, why = table.verification, _why_unread(table.verification)
    if found.status != "pass" and why not in shared:
        return None
    status, _, text = verdict_text(found).partition(" ")
    counts = Counter(one.status for one in found.expectations if one.status != "error")
    proved = ", ".join(f"{counts[status]} {status}" for status in ("fail", "warn", "pass") if counts[status])
    unjudged = "" if found.unjudged_lag_ms is None else f"; no target: {lag_text(found.unjudged_lag_ms)}"
    unread = f"; rows not read, without them {proved or 'nothing'}" if why else ""
    return table.policy, status, f"{text}{in_part(found)}{unread}{unjudged}"


def _why_unread(found: Verification) -> str | None:
    """Why its rows could not be read, where nothing else is wrong."""
    errors = [one for one in found.expectations if one.status == "error"]
    is_all = found.status == "error" and len(errors) == 1 and errors[0].expectation == UNREADABLE
    return errors[0].message if is_all else None


def _unread(why: str, count: int) -> Iterator[Line]:
    yield f"no row of these {count:,} tables could be read"
    yield "error", keep_commands(why)


def _verification(table: TableVerification) -> Iterator[Line]:
    yield f"{table.policy}  {table.base_path}"
    yield from _verdict(table.verification)


def _verdict(verification: Verification) -> Iterator[Line]:
    """The verdict, then one line per expectation."""
    yield "verified", verdict_text(verification)
    if verification.coverage is not None:
        yield "", f"rows read: {coverage_text(verification.coverage)}"
    if verification.read_by is not None:
        yield "", f"rows read by Hudi {verification.read_by}"
    if verification.rests_on is not None:
        yield "", rests_on_text(verification.rests_on)
    for expectation in verification.expectations:
        yield "", f"{expectation.status:<5} {_expectation(expectation)}"
    if unchecked := unchecked_titles(verification):
        yield "not checked", f"needs rows: {', '.join(unchecked)}"
    if verification.unjudged_lag_ms is not None:
        yield "no target", f"{lag_text(verification.unjudged_lag_ms)}: `freshness.target` says how far it may"


def verdict_text(verification: Verification) -> str:
    """`PASS up to 2026-01-01 10:00:00 UTC (level: data, 7 late rows)`."""
    files = max((int(one.observed.get("late_log_files", 0)) for one in verification.expectations), default=0)
    late = f", {count_of(files, 'late log file')}" if files else ""
    late = f", {count_of(verification.late_rows, 'late row')}" if verification.late_rows else late
    until = f" up to {format_time(verification.threshold_ms)}" if verification.threshold_ms is not None else ""
    return f"{verification.status.upper()}{until} (level: {verification.level}{late})"


def in_part(verification: Verification) -> str:
    """`; rows read: 3 of 30 file groups (seed 7); nothing is proved of other rows`; empty where all were read, or none."""
    return "" if verification.coverage is None else f"; rows read: {coverage_text(verification.coverage)}"


def coverage_text(coverage: Coverage) -> str:
    """`3 of 30 file groups (seed 7), event times after ..., partitions where ...; nothing is proved of other rows`."""
    parts = []
    if coverage.seed is not None:
        parts.append(f"{coverage.file_groups_read} of {coverage.file_groups} file groups (seed {coverage.seed})")
    if coverage.since_ms is not None:
        parts.append(f"event times after {format_time(coverage.since_ms)}")
    if coverage.where is not None:
        parts.append(f"partitions where {coverage.where}")
    return f"{', '.join(parts)}; nothing is proved of other rows"


def rests_on_text(rests_on: RestsOn) -> str:
    """`proved by data: 1,000 file groups, 12 of them in this run, the oldest 3d ago`."""
    here, ago = f"{rests_on.file_groups_compared:,} of them in this run", format_duration(rests_on.oldest_ago_ms)
    return f"proved by data: {count_of(rests_on.file_groups, 'file group')}, {here}, the oldest {ago} ago"


def _expectation(result: ExpectationResult) -> str:
    name = result_title(result)
    if result.message:
        return f"{name}: {result.message}"
    facts = [fact for key, value in result.observed.items() if (fact := _fact(key, value))]
    if subject_of(result):
        return f"{name}: {', '.join(facts)}" if facts else name
    return f"{name} ({', '.join(facts)})" if facts else name


def _fact(key: str, value: Any) -> str:
    """A count, a span of time or a bound in words; other moments, names and counts of nothing are left to the JSON."""
    if key in BOUNDS_IN_WORDS:
        return keep_together(f"{BOUNDS_IN_WORDS[key]} {format_time(value)}")
    if isinstance(value, bool) or not isinstance(value, int) or not value or abs(value) >= MOMENT_MS:
        return ""
    text = format_duration(value) if key.endswith("_ms") else f"{value:,}"
    return keep_together(f"{title_of_key(key.removesuffix('_ms'))} {text}")


def render_freshness(report: FreshnessReport, width: int = TEXT_WIDTH) -> str:
    """One block per table, the verdict first."""
    return "\n\n".join(block(_freshness(table), width) for table in report.tables)


#: The worst first.
_BY_STATUS: tuple[FreshnessStatus, ...] = ("error", "unknown", "warn", "no_target", "pass")


def list_freshness(report: FreshnessReport, width: int = TEXT_WIDTH) -> str:
    """One line per table, the worst first, and how many there are of each verdict."""
    tables = sorted(report.tables, key=lambda table: (_BY_STATUS.index(table.status), -(table.lag_seconds or 0)))
    rows = [(_freshness_word(table.status), table.policy, _freshness_line(table)) for table in tables]
    counts = Counter(table.status for table in tables)
    said = ", ".join(f"{counts[status]} {_freshness_word(status).lower()}" for status in _BY_STATUS if counts[status])
    return f"{rows_of(rows, width)}\n\n{count_of(len(tables), 'table')}: {said}."


def _freshness_word(status: FreshnessStatus) -> str:
    """In capitals, but for a lag that nothing judges."""
    return "no target" if status == "no_target" else status.upper()


def _freshness_line(table: TableFreshness) -> str:
    if table.reason or table.complete_until_ms is None or table.lag_seconds is None:
        return table.reason or ""
    lag = format_duration(int(table.lag_seconds * 1000))
    proof = f" (proof: {table.complete_until_proof.level})" if table.complete_until_proof else ""
    until = format_time(table.complete_until_ms - table.complete_until_ms % 1000)
    return "; ".join((f"RO complete until {until}, {lag} ago{proof}", *map(short_of, table.warnings)))


def _freshness(table: TableFreshness) -> Iterator[Line]:
    yield f"{_freshness_word(table.status):<7} {table.policy}  {table.base_path}"
    if table.reason:
        yield "reason", table.reason
    if table.complete_until_ms is not None and table.lag_seconds is not None:
        lag = format_duration(int(table.lag_seconds * 1000))
        yield "RO complete", f"until {format_time(table.complete_until_ms)}, {lag} ago{_proved(table)}"
        yield from _further_proofs(table)
    if table.limits is not None and (limits := _limits(table.limits)):
        yield "limits", limits
    if table.threshold_ms is not None:
        yield "threshold T", f"{format_time(table.threshold_ms)} (of the last compaction by etc)"
    if table.remaining_log_files:
        size = format_bytes(table.remaining_log_bytes or 0)
        slices = count_of(table.remaining_file_slices or 0, "file slice")
        yield "not compacted", f"{count_of(table.remaining_log_files, 'log file')} ({size}) of {slices}"
    if table.unknown_log_files:
        why = f": {table.unknown_because}" if table.unknown_because else ""
        yield "unknown", f"{count_of(table.unknown_log_files, 'log file')} without a known event time{why}"
    if table.left_out_file_slices:
        slices = count_of(table.left_out_file_slices, "file slice")
        yield "left out", f"{slices} by the last compaction by etc, though they were due"
    yield from _held_back(table)
    if table.held_back_by and table.watermark_ms is not None:
        yield "next event", next_event(table.watermark_ms + 1, table.held_back_by, table.watermark_assumed)
    yield from partition_lines(table.partitions)
    if table.late_data is not None and table.late_data.writes:
        yield "late data", _late_data(table.late_data)
    if table.data_latency is not None:
        yield "data latency", _latency(table.data_latency)
    yield from (("warning", one) for one in table.warnings)
    if table.last_commit_age_seconds is not None and table.last_commit_age_seconds >= 0:
        yield "last commit", f"{format_duration(int(table.last_commit_age_seconds * 1000))} ago"


def _held_back(table: TableFreshness) -> Iterator[Line]:
    """What earlier runs have left, and that they got RO no further."""
    for one in table.held_back[:_NAMED]:
        place, since = path_below(one.partition, one.file_id), format_time(one.waits_since_ms)
        yield "held back by", f"{place} from {format_time(one.earliest_event_ms)} on, committed {since}"
    if table.runs_of_day_without_progress or table.runs_without_progress:
        yield "progress", _progress(table)


def _progress(table: TableFreshness) -> str:
    """`none in 3 runs, since ...; 9 of 18 runs of the last day brought RO no further`."""
    count, since_ms = table.runs_without_progress, table.no_progress_since_ms
    since = "" if since_ms is None else f", since {format_time(since_ms // 1000 * 1000)}"
    row = f"none in the last {'run' if count == 1 else f'{count:,} runs'}{since}; " if count else ""
    of_day = f"{table.runs_of_day_without_progress:,} of {count_of(table.runs_of_day, 'run')}"
    return f"{row}{of_day} of the last day brought RO no further"


def _proved(table: TableFreshness) -> str:
    return "" if table.complete_until_proof is None else f" {keep_together(f'({table.complete_until_proof})')}"


def _further_proofs(table: TableFreshness) -> Iterator[Line]:
    """Proofs that are stronger than that of how far RO is complete now, and reach less far."""
    now = table.complete_until_proof
    for proof in sorted(table.proofs, key=lambda one: -one.rank):
        if now is not None and proof.rank > now.rank:
            yield "proved", f"until {format_time(proof.until_ms)} {keep_together(f'({proof})')}"


def _limits(limits: Freshness) -> str:
    """`target 6h, error after 8h`: what the lag is judged against."""
    return ", ".join(f"{name} {format_duration(limit)}" for name, limit in effective_limits_ms(limits).items())


def _late_data(late: LateData) -> str:
    """`3 writes to 2 file groups since the last compaction, at most 17 rows; complete 3h less far, until ...`."""
    writes = f"{count_of(late.writes, 'write')} to {count_of(late.file_groups, 'file group')}"
    fell = f"RO was complete until T and fell back {format_duration(late.regression_ms)}"
    return (
        f"{writes} after the last compaction {'holds' if late.writes == 1 else 'hold'} events at or below T, at most "
        f"{count_of(late.rows_at_most, 'row')}; "
        f"{fell}, to {format_time(late.complete_until_ms)}"
    )


def _latency(verdict: LatencyVerdict) -> str:
    """The policy's `data_latency` against what was observed, with a suggestion where it does not fit."""
    said = f"{format_duration(verdict.declared_ms)} {_LATENCY[verdict.status]}: "
    seen = None if verdict.status == "unknown" else verdict.observed
    if seen is None:
        return f"{said}{verdict.reason}{_known_so_far(verdict, verdict.observed) if verdict.observed else ''}"
    said += str(seen)
    if seen.loaded_writes:
        said += f"; {count_of(seen.loaded_writes, 'write')} of old data before them do not count"
    fits = verdict.status == "fits" or verdict.suggested_ms is None
    return said if fits else f"{said}; suggested `{format_duration(verdict.suggested_ms or 0)}`"


def _known_so_far(verdict: LatencyVerdict, seen: ObservedLatency) -> str:
    """What few writes show."""
    late = round((verdict.late_share or 0) * seen.writes)
    which = "" if seen.writes == 1 else "all of them " if late == seen.writes else f"{late} of them "
    beyond = f", {which}later than {format_duration(verdict.declared_ms)}" if late else ""
    return f"; so far {seen}{beyond}"


#: So many partitions are shown one by one.
SHOWN = 20


def partition_lines(table: PartitionsFreshness | None) -> Iterator[tuple[str, str]]:
    """How many there are of each kind, then a line for each of the worst; nothing where nobody asked for them."""
    if table is None:
        return
    total = len(table.partitions)
    counts = ", ".join(f"{count:,} {status}" for status, count in table.counts().items() if count)
    yield "partitions", f"{total:,}{f': {counts}' if counts else ''}"
    if table.unparsed:
        said = f"{count_of(table.unparsed, 'partition')} without a time by `partition_time.from`"
        yield "", f"{said}, such as `{table.unparsed_example}`"
    if table.same_time is not None:
        yield "", f"`{table.same_time[0]}` and `{table.same_time[1]}` are about the same time"
    unsent = [f"{count_of(count, 'event')} by `{action}`" for action, count in table.unsent.items() if count]
    if unsent:
        yield "", f"not sent yet: {', '.join(unsent)}; `etc apply` sends them"
    for one in table.partitions[:SHOWN]:
        yield "", f"{one.status or '':<7}{one.partition or '(no partitions)'}: {_figures(one)}".strip()
    if total > SHOWN:
        yield "", f"and {total - SHOWN:,} more; `--output json` has them all"


def _figures(one: PartitionFreshness) -> str:
    reopened = f"; late data reopened it {count_of(one.reopened, 'time')}" if one.reopened else ""
    return f"{_log_files(one)}{reopened}"


def _log_files(one: PartitionFreshness) -> str:
    if not one.log_files:
        return "no log file is left to compact"
    files = f"{count_of(one.log_files, 'log file')} ({format_bytes(one.log_bytes)})"
    unknown = f", {one.unknown_log_files:,} without a known event time" if one.unknown_log_files else ""
    held = f"held back by `{one.held_back_by}`"
    return f"RO complete until {format_time(one.complete_until_ms)}; {files}{unknown}, {held}"
