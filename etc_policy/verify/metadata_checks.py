"""Checks that need no rows: what the timeline, the commits and a listing of the files prove or refute by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

from etc_policy.compile.manifest import Freshness, Policy
from etc_policy.plan.double_keys import SEES_LOG_FILES, compactions_of, find_exposed
from etc_policy.plan.formats import format_duration
from etc_policy.plan.instants import instant_to_ms
from etc_policy.plan.recorded_sizes import not_as_recorded
from etc_policy.plan.table_history import TableHistory
from etc_policy.plan.table_state import CompactionRecord, FileSlice, LogFile, TableState
from etc_policy.plan.table_versions import CUT_VERSIONS
from etc_policy.plan.watermark import complete_until_ms, event_time_bound_ms, watermark_of
from etc_policy.verify.freshness import completeness_lag_ms, has_limits, judge_lag
from etc_policy.verify.ports import CheckStatus, ExpectationResult
from etc_policy.verify.suites import SuiteExpectation

COMPACTED = "no_uncompacted_log_file_at_or_below_threshold"
FILES = "files_are_what_their_commits_wrote"
PROMISE = "compaction_promises_what_it_planned"
DOUBLE_KEYS = "no_double_keys_possible"
_NAMED_FILES = 5
#: How much larger than asked for a log file may be: writers begin a new one after a block that is too much.
LOG_FILE_TOLERANCE = 0.25


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be proved: RO is complete up to `threshold_ms` as far as commits up to `seen_until` go.

    Commits that completed after `seen_until` are late data: they are counted, and do not make the claim false.
    `leaves_out` says that the compaction left file slices out that hold something after the threshold only.
    """

    threshold_ms: int
    seen_until: str
    leaves_out: bool = False


@dataclass(frozen=True)
class Evidence:
    """A claim, and all that the table's metadata say about it."""

    policy: Policy
    state: TableState
    history: TableHistory
    claim: Claim
    now_ms: int

    @property
    def zone(self) -> ZoneInfo:
        """The zone of the table's instants."""
        return ZoneInfo(self.state.timezone)

    @cached_property
    def watermark_ms(self) -> int | None:
        """The completeness watermark now."""
        return watermark_of(self.state, self.policy.data_latency_ms).value_ms

    @cached_property
    def completions(self) -> Mapping[tuple[str, str], list[str]]:
        """When commits to the log of each file group completed, by partition and file id."""
        found: dict[tuple[str, str], list[str]] = {}
        for write in self.history.writes:
            found.setdefault((write.partition, write.file_id), []).append(write.completed)
        return found

    @property
    def complete_until_ms(self) -> int:
        """Up to where RO is complete now."""
        return complete_until_ms(self.watermark_ms, self.now_ms, self.policy.data_latency_ms)


def always_checked(evidence: Evidence, *, rows_read: bool = False) -> tuple[ExpectationResult, ...]:
    """The checks that every verification makes, whatever its suite says; rows, where all were read, show double keys."""
    found = [prove_compacted(evidence), check_files(evidence)]
    if not rows_read and evidence.policy.writer.index not in SEES_LOG_FILES and compactions_of(evidence.state):
        found.append(check_double_keys(evidence))
    record = evidence.state.last_compaction
    return (*found, check_promise(evidence, record)) if record is not None else tuple(found)


def prove_compacted(evidence: Evidence) -> ExpectationResult:
    """No log file that is not compacted can hold an event at or below the threshold, late commits apart (FACTS 6)."""
    below = list(_at_or_below(evidence))
    broken = [log_file for log_file, seen in below if seen]
    observed: dict[str, Any] = {
        "log_files": sum(len(file_slice.log_files) for file_slice in evidence.state.slices),
        "log_files_at_or_below_threshold": len(broken),
        "late_log_files": len(below) - len(broken),
        "examples": [log_file.name for log_file in broken[:_NAMED_FILES]],
    }
    pending = [i for i in evidence.state.pending if i.action in ("compaction", "logcompaction")]
    if pending:
        observed["pending_compaction"] = pending[0].requested
    message = f"{len(broken)} log files that are not compacted may hold events at or below the threshold"
    return _result(COMPACTED, observed, message if broken else None)


def check_files(evidence: Evidence) -> ExpectationResult:
    """Every file of the latest slices has the bytes that its commit recorded: none was swapped, cut short,
    never recorded, or is gone.

    Files of archived commits cannot be checked against the active timeline; they are counted. Before table version 8 log
    files grow after their commit, so there only base files are looked at.
    """
    active = {instant.requested for instant in evidence.state.instants}
    wrong, archived, is_cut = [], 0, _is_cut(evidence.state)
    for name, size, recorded, instant in not_as_recorded(evidence.state):
        if recorded is not None:
            wrong.append(f"{name}: {size} bytes, its commit recorded {recorded}")
        elif instant in active:
            wrong.append(f"{name}: no write stat")
        else:
            archived += 1
    wrong += [f"{name}: not there" for name in evidence.state.missing_files]
    observed: dict[str, Any] = {
        "data_files": sum((s.base_file is not None) + len(s.log_files) * is_cut for s in evidence.state.slices),
        "files_that_differ": len(wrong),
        "examples": wrong[:_NAMED_FILES],
    }
    if archived:
        observed["files_of_archived_commits"] = archived
    message = f"{len(wrong)} files are not what their commits say they wrote; for example {wrong[0]}" if wrong else None
    return _result(FILES, observed, message)


def check_promise(evidence: Evidence, record: CompactionRecord) -> ExpectationResult:
    """The threshold that a compaction carries is its plan's, no later than its own completion, and it saw what it merged."""
    faults = []
    if record.instant in evidence.history.disputed:
        faults.append("its commit promises something different from its plan")
    if record.threshold_ms > instant_to_ms(record.completed, evidence.zone, latest=True):
        faults.append("its threshold is after its own completion")
    seen = record.seen_until or record.instant
    if any(seen < write.completed < record.instant for write in evidence.history.writes):
        faults.append("it says that it had not seen what it merged")
    message = f"the compaction at {record.instant} cannot be trusted: {', '.join(faults)}" if faults else None
    return _result(PROMISE, {"instant": record.instant, "threshold_ms": record.threshold_ms}, message)


def check_double_keys(evidence: Evidence) -> ExpectationResult:
    """No compaction merged deletes beside a write that it left behind: a key in both may exist twice since (FACTS 3)."""
    exposed = find_exposed(compactions_of(evidence.state), evidence.history.writes)
    groups = [one.file_group for one in exposed]
    observed: dict[str, Any] = {"file_groups_exposed": len(groups), "examples": groups[:_NAMED_FILES]}
    if not exposed:
        return _result(DOUBLE_KEYS, observed, None)
    message = (
        f"{len(groups)} file groups took a write beside a compaction that merged deletes, for example {groups[0]} at "
        f"{exposed[0].compaction}; `etc verify --level data` shows whether a key exists twice"
    )
    return _result(DOUBLE_KEYS, observed, message).model_copy(update={"status": "warn"})


def is_wanted(expectation: SuiteExpectation) -> bool:
    """Whether there is anything to check: freshness without any limit is left out."""
    if expectation.type != "expect_freshness_within":
        return True
    return has_limits(_limits(expectation.kwargs))


def check_metadata(expectation: SuiteExpectation, evidence: Evidence) -> ExpectationResult:
    """One of our expectations that need no rows, by the severity that the suite gives it."""
    result = _CHECKS[expectation.type](expectation.kwargs, evidence)
    if result.status == "fail" and expectation.severity != "critical":
        return result.model_copy(update={"status": "warn"})
    return result


def _freshness_within(kwargs: Mapping[str, Any], evidence: Evidence) -> ExpectationResult:
    """The lag of RO's completeness behind `now_ms` is within the limits."""
    limits = _limits(kwargs)
    until = kwargs.get("complete_until_ms", evidence.complete_until_ms)
    lag_ms = completeness_lag_ms(kwargs["now_ms"], until)
    verdict = judge_lag(lag_ms, limits)
    observed = {"lag_ms": lag_ms, "verdict": verdict, **limits.model_dump(exclude_none=True)}
    statuses: dict[str, CheckStatus] = {"pass": "pass", "warn": "warn", "error": "fail", "unknown": "error"}
    message = None if verdict == "pass" else f"RO lags {format_duration(lag_ms or 0)} behind now"
    if lag_ms is None:
        message = "how far RO is complete is not known"
    return ExpectationResult(
        expectation="expect_freshness_within", status=statuses[verdict], observed=observed, message=message
    )


def _completeness_up_to(kwargs: Mapping[str, Any], evidence: Evidence) -> ExpectationResult:
    """RO is complete up to `threshold_ms` now: late data makes it fall back below."""
    threshold_ms, mark_ms = kwargs["threshold_ms"], evidence.watermark_ms
    regression_ms = 0 if mark_ms is None else max(0, threshold_ms - mark_ms)
    observed = {"threshold_ms": threshold_ms, "watermark_ms": mark_ms, "regression_ms": regression_ms}
    message = f"late data: RO is complete {regression_ms / 1000:.0f} s less far than was published"
    return _result("expect_completeness_up_to", observed, message if regression_ms else None)


def _event_times_tracked(kwargs: Mapping[str, Any], evidence: Evidence) -> ExpectationResult:
    """Of what the writers wrote to log files, at least `least_share` (all, if not given) has event times in its commits."""
    writes, least = evidence.history.writes, kwargs.get("least_share", 1)
    tracked = sum(write.min_event_time_ms is not None for write in writes)
    observed = {"log_writes": len(writes), "tracked": tracked, "least_share": least}
    message = f"{len(writes) - tracked} of {len(writes)} writes to log files have no event time in their commit"
    return _result("expect_event_times_tracked", observed, message if tracked < least * len(writes) else None)


def _log_files_no_larger_than(kwargs: Mapping[str, Any], evidence: Evidence) -> ExpectationResult:
    """No log file is larger than `max_bytes` and `tolerance` of it; without `max_bytes` nothing is asked for."""
    name, limit = "expect_log_files_no_larger_than", kwargs.get("max_bytes")
    sizes = sorted(((f.size_bytes, f.name) for _, f in evidence.state.log_files), reverse=True)
    observed: dict[str, Any] = {"log_files": len(sizes), "largest_bytes": sizes[0][0] if sizes else 0}
    if limit is None:
        return _result(name, observed, None)
    allowed = limit * (1 + kwargs.get("tolerance", LOG_FILE_TOLERANCE))
    wrong = [file_name for size, file_name in sizes if size > allowed]
    observed |= {"max_bytes": limit, "too_large": len(wrong), "examples": wrong[:_NAMED_FILES]}
    message = f"{len(wrong)} of {len(sizes)} log files are larger than {limit:,} bytes, the largest {observed['largest_bytes']:,}"
    return _result(name, observed, message if wrong else None)


_CHECKS = {
    "expect_freshness_within": _freshness_within,
    "expect_completeness_up_to": _completeness_up_to,
    "expect_event_times_tracked": _event_times_tracked,
    "expect_log_files_no_larger_than": _log_files_no_larger_than,
}


def _result(name: str, observed: dict[str, Any], message: str | None) -> ExpectationResult:
    """Failed where there is something to say."""
    return ExpectationResult(
        expectation=name, status="pass" if message is None else "fail", observed=observed, message=message
    )


def _limits(kwargs: Mapping[str, Any]) -> Freshness:
    return Freshness(**{name: kwargs.get(name) for name in Freshness.model_fields})


def _seen(file_slice: FileSlice, log_file: LogFile, evidence: Evidence) -> bool:
    """Whether the claim speaks of what is in the log file: before version 8 its name shows no more than its base file.

    There the first commit that wrote to the log of its slice decides, where the commits since the base file are known.
    """
    seen_until = evidence.claim.seen_until
    if _is_cut(evidence.state) or log_file.completed > seen_until:
        return log_file.completed <= seen_until
    base, group = file_slice.base_instant, (file_slice.partition, file_slice.file_id)
    is_known = any(instant.requested == base for instant in evidence.state.instants)
    written = (completed for completed in evidence.completions.get(group, ()) if completed > base)
    return not is_known or min(written, default="") <= seen_until


def _at_or_below(evidence: Evidence) -> Iterator[tuple[LogFile, bool]]:
    """The log files that can hold an event at or below the threshold, and whether the claim speaks of them.

    An unknown event time is trusted to be later only in what came later, or where the compaction says what it left out.
    """
    threshold_ms, latency_ms, zone = evidence.claim.threshold_ms, evidence.policy.data_latency_ms, evidence.zone
    for file_slice in evidence.state.slices:
        for log_file in file_slice.log_files:
            known_ms = log_file.min_event_time_ms
            if known_ms is None or known_ms <= threshold_ms:
                seen = _seen(file_slice, log_file, evidence)
                must = seen and not evidence.claim.leaves_out
                if known_ms is not None or must or event_time_bound_ms(log_file, latency_ms, zone) <= threshold_ms:
                    yield log_file, seen


def _is_cut(state: TableState) -> bool:
    return state.table_version in CUT_VERSIONS
