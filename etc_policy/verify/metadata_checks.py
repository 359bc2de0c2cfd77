"""Checks that need no rows: what the timeline, the commits and a listing of the files prove or refute by themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from etc_policy.plan.bundles import why_unfit
from etc_policy.plan.carry import is_carried_name
from etc_policy.plan.refusals import Reason
from etc_policy.policy.manifest import Freshness, Writer
from etc_policy.table.double_keys import exposed_in, merged_by, sees_log_files
from etc_policy.table.formats import count_of, part_of
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.proofs import without_proof
from etc_policy.table.state import CompactionRecord, Lacking, LogFile, find_lacking, not_as_recorded, path_below
from etc_policy.table.watermark import event_time_bound
from etc_policy.verify.catalog import AS_OF, FRESHNESS, NO_KEY_TWICE, OWN, VIEWS_AGREE
from etc_policy.verify.evidence import Evidence, judged
from etc_policy.verify.freshness import completeness_lag_ms, has_limits, judge_lag, lag_text
from etc_policy.verify.log_checks import check_logs
from etc_policy.verify.ports import CheckStatus, ExpectationResult
from etc_policy.verify.suites import SuiteExpectation

COMPACTED = "no_uncompacted_log_file_at_or_below_threshold"
FILES = "files_are_what_their_commits_wrote"
LISTING = "metadata_table_lists_the_files_that_are_there"
INDEXES = "indexes_find_the_rows_that_are_there"
BUNDLE = "rows_are_read_as_the_tables_readers_read_them"
PROMISE = "compaction_promises_what_it_planned"
DOUBLE_KEYS = "no_double_keys_possible"
KNOWN = "completeness_is_known"
COMPLETENESS = "expect_completeness_up_to"
_NOT_KNOWN = "how far RO is complete is not known"
_NAMED_FILES = 5
#: How much larger than asked for a log file may be: writers begin a new one after a block that is too much.
LOG_FILE_TOLERANCE = 0.25


def always_checked(evidence: Evidence, rows_read: Collection[str] = ()) -> tuple[ExpectationResult, ...]:
    """The checks that every verification makes, whatever its suite says.

    `rows_read` are the expectations that were checked over all rows: they show double keys, and what log files hold that
    nothing else can read.
    """
    found = [prove_compacted(evidence), check_files(evidence)]
    if evidence.unknown is not None:
        found.insert(0, check_known(evidence.unknown))
    if evidence.state.witnesses is not None:
        found.append(check_logs(evidence, rows_compared=VIEWS_AGREE in rows_read))
    if (
        NO_KEY_TWICE not in rows_read
        and not evidence.policy.writer.keys_repeated
        and not sees_log_files(evidence.policy.writer.index, evidence.state.metadata_partitions)
        and evidence.state.is_cut  # before, nobody knows what was written before a compaction had completed
        and (merged_by(evidence.state.instants) or evidence.state.exposed)
    ):
        found.append(check_double_keys(evidence))
    record = evidence.state.last_compaction
    return (*found, check_promise(evidence, record)) if record is not None else tuple(found)


def prove_compacted(evidence: Evidence) -> ExpectationResult:
    """No log file that is not compacted can hold an event at or below the threshold, late commits apart.

    See facts: completeness-watermark.
    """
    below = list(_at_or_below(evidence))
    broken = [log_file for log_file, seen in below if seen]
    unsure = [log_file for log_file, seen in below if seen is None]
    observed: dict[str, Any] = {
        "log_files": sum(len(file_slice.log_files) for file_slice in evidence.state.slices),
        "log_files_at_or_below_threshold": len(broken),
        "late_log_files": len(below) - len(broken) - len(unsure),
        "examples": [log_file.name for log_file in (broken or unsure)[:_NAMED_FILES]],
    }
    pending = [i for i in evidence.state.pending if i.action in ("compaction", "logcompaction")]
    if pending:
        observed["pending_compaction"] = pending[0].requested
    message = f"{count_of(len(broken), 'log file')} not compacted with events at or below the threshold, or that may hold some"
    if unsure and not broken:
        message = (
            f"{count_of(len(unsure), 'log file')} with events at or below the threshold, and nobody knows whether these are "
            "late: earlier writes are in the same file, or may be; `etc verify --level data` shows whether RO lacks rows"
        )
        return judged(COMPACTED, observed, message).model_copy(update={"status": "warn"})
    return judged(COMPACTED, observed, message if broken else None)


def check_known(unknown: Reason) -> ExpectationResult:
    """How far RO is complete is not known: of a table without a commit a warning, as nothing is wrong with it."""
    return ExpectationResult(expectation=KNOWN, status=_status_of(unknown), message=unknown.reason)


def _status_of(unknown: Reason | None) -> CheckStatus:
    return "warn" if unknown is not None and unknown.code == "no_commit" else "error"


def check_files(evidence: Evidence) -> ExpectationResult:
    """Every file of the latest slices has the bytes that its commit recorded: none was swapped, cut short,
    never recorded, or is gone.

    Files of archived commits cannot be checked against the active timeline; they are counted. Before table version 8 log
    files grow after their commit, so there only base files are looked at.
    """
    active = {instant.requested for instant in evidence.state.instants}
    left = {path.rpartition("/")[2] for path in evidence.state.unrecorded_files}
    wrong, archived, has_cut = [], 0, evidence.state.is_cut
    for name, size, recorded, instant in not_as_recorded(evidence.state):
        if recorded is not None:
            wrong.append(f"{name}: {size} bytes, its commit recorded {recorded}")
        elif instant in active or name in left:
            wrong.append(f"{name}: no write stat")
        else:
            archived += 1
    wrong += [f"{name}: not there" for name in evidence.state.missing_files]
    wrong += [f"{name}: one of several, and no commit says which counts" for name in evidence.state.unclear_files]
    wrong += [f"{name}: beside the one that its commit recorded" for name in evidence.state.stray_files]
    observed: dict[str, Any] = {
        "data_files": sum((s.base_file is not None) + len(s.log_files) * has_cut for s in evidence.state.slices),
        "files_that_differ": len(wrong),
        "examples": wrong[:_NAMED_FILES],
    }
    if archived:
        observed["files_of_archived_commits"] = archived
    message = (
        f"{count_of(len(wrong), 'file')} other than what a commit says it wrote; for example {wrong[0]}"
        if wrong
        else None
    )
    return judged(FILES, observed, message)


def check_listing(wrong: Sequence[str]) -> ExpectationResult:
    """Readers that take the file listing from the metadata table find the latest slices; `wrong` says what they do not."""
    observed = {"files_listed_wrongly": len(wrong), "examples": list(wrong[:_NAMED_FILES])}
    message = (
        f"the metadata table lists {count_of(len(wrong), 'file')} wrongly, for example {wrong[0]}; readers that use it fail "
        "or miss rows until it is built anew"
        if wrong
        else None
    )
    return judged(LISTING, observed, message)


def check_indexes(wrong: Sequence[str]) -> ExpectationResult:
    """Readers that ask the metadata table's indexes which files to read miss no row; `wrong` says what they would miss."""
    observed = {"index_faults": len(wrong), "examples": list(wrong[:_NAMED_FILES])}
    message = (
        f"{count_of(len(wrong), 'fault')} in the metadata table's indexes, for example {wrong[0]}; queries with data skipping "
        "miss rows until that is mended (`etc explain wrong-indexes`)"
        if wrong
        else None
    )
    return judged(INDEXES, observed, message)


def check_bundle(evidence: Evidence, release: str) -> tuple[ExpectationResult, ...]:
    """A warning where rows are read by a release of Hudi that is not known to show them as the table's readers see them."""
    merging, tested = evidence.state.merging, evidence.policy.writer.merges_tested_with
    unfit = why_unfit(merging, release, tested) if merging else None
    if unfit is None:
        return ()
    message = f"{unfit[0]}. {unfit[1]}"
    return (ExpectationResult(expectation=BUNDLE, status="warn", observed={"release": release}, message=message),)


def check_promise(evidence: Evidence, record: CompactionRecord) -> ExpectationResult:
    """The threshold that a compaction carries is its plan's, no later than its own completion, it saw what it merged, and it
    merged by the schema that the table had then.
    """
    faults = []
    if record.is_disputed:
        faults.append("its commit promises something different from its plan")
    if record.threshold_ms > instant_to_ms(record.completed, evidence.zone, latest=True):
        faults.append("its threshold is after its own completion")
    if any(record.saw_until < write.completed < record.instant for write in evidence.history.writes):
        faults.append("it says that it had not seen what it merged")
    if (lacking := _merged_without(evidence, record)) is not None:
        faults.append(f"it did not merge by the table's schema ({lacking.why}): values may be lost in every view")
    message = f"the compaction at {record.instant} cannot be trusted: {', '.join(faults)}" if faults else None
    return judged(PROMISE, {"instant": record.instant, "threshold_ms": record.threshold_ms}, message)


def _merged_without(evidence: Evidence, record: CompactionRecord) -> Lacking | None:
    """The write whose evolved schema a compaction lacked, of those that had completed before it did.

    See facts: schema-of-the-cut.
    """
    known = [*evidence.history.archived_instants, *evidence.state.instants]
    own = next((one.schema for one in known if one.requested == record.instant), None)
    if own is None:
        return None
    done = (one for one in known if one.completed is not None and one.completed < record.completed)
    return find_lacking(done, record.instant, own)


def check_double_keys(evidence: Evidence) -> ExpectationResult:
    """No compaction merged deletes beside a write that it left behind: a key in both may exist twice since.

    See facts: delete-rule. It looks at the compactions of the active timeline, and at those of the latest slices.
    """
    exposed = {one.file_group: one.compaction for one in exposed_in(evidence.state.instants, evidence.history.writes)}
    still = (one for one in evidence.state.slices if one.group in evidence.state.exposed)
    exposed = {**{path_below(*one.group): one.base_instant for one in still}, **exposed}
    groups = sorted(exposed, key=lambda group: (exposed[group], group))
    observed: dict[str, Any] = {"file_groups_exposed": len(groups), "examples": groups[:_NAMED_FILES]}
    if not exposed:
        return judged(DOUBLE_KEYS, observed, None)
    message = (
        f"{count_of(len(groups), 'file group')} took a write beside a compaction that merged deletes, for example {groups[0]} at "
        f"{exposed[groups[0]]}; `etc verify --level data` shows whether a key exists twice"
    )
    return judged(DOUBLE_KEYS, observed, message).model_copy(update={"status": "warn"})


def is_wanted(expectation: SuiteExpectation, writer: Writer) -> bool:
    """Whether there is anything to check: freshness without a limit is left out, and where keys are repeated what is about
    the one row of a key.
    """
    if expectation.type in (NO_KEY_TWICE, AS_OF):
        return not writer.keys_repeated
    return expectation.type != FRESHNESS or has_limits(_limits(expectation.kwargs))


def check_metadata(expectation: SuiteExpectation, evidence: Evidence) -> ExpectationResult:
    """One of our expectations that need no rows, by the severity that the suite gives it.

    A parameter may have no value, such as a target that the policy does not set: then nothing can be checked.
    """
    empty = sorted(name for name in OWN[expectation.type].required if expectation.kwargs.get(name) is None)
    if empty:
        message = f"its argument `{empty[0]}` has no value"
        return ExpectationResult(expectation=expectation.type, status="error", message=message)
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
    unknown = _status_of(evidence.unknown)
    statuses: dict[str, CheckStatus] = {
        "pass": "pass",
        "no_target": "pass",
        "warn": "warn",
        "error": "fail",
        "unknown": unknown,
    }
    message = None if verdict == "pass" else lag_text(lag_ms or 0)
    if lag_ms is None:
        message = _NOT_KNOWN
        if evidence.unknown is None and evidence.complete_until_ms is None:
            statuses["unknown"], message = "fail", f"{_NOT_KNOWN}: {without_proof(evidence.policy)}"
    return ExpectationResult(expectation=FRESHNESS, status=statuses[verdict], observed=observed, message=message)


def _completeness_up_to(kwargs: Mapping[str, Any], evidence: Evidence) -> ExpectationResult:
    """RO is complete up to `threshold_ms` now: late data makes it fall back below."""
    if evidence.unknown is not None:
        return ExpectationResult(expectation=COMPLETENESS, status=_status_of(evidence.unknown), message=_NOT_KNOWN)
    threshold_ms, mark_ms = kwargs["threshold_ms"], evidence.watermark_ms
    regression_ms = 0 if mark_ms is None else max(0, threshold_ms - mark_ms)
    observed = {"threshold_ms": threshold_ms, "watermark_ms": mark_ms, "regression_ms": regression_ms}
    message = f"late data: RO is complete {regression_ms / 1000:.0f} s less far than was published"
    return judged(COMPLETENESS, observed, message if regression_ms else None)


def _event_times_tracked(kwargs: Mapping[str, Any], evidence: Evidence) -> ExpectationResult:
    """Of what the writers wrote to log files, at least `least_share` (all, if not given) has event times in its commits."""
    writes, given = evidence.history.writes, kwargs.get("least_share")
    least = 1 if given is None else given
    tracked = sum(write.known_min_ms is not None for write in writes)
    observed = {"log_writes": len(writes), "tracked": tracked, "least_share": least}
    message = f"{part_of(len(writes) - tracked, len(writes), 'write')} to log files without an event time in the commit"
    return judged("expect_event_times_tracked", observed, message if tracked < least * len(writes) else None)


def _log_files_no_larger_than(kwargs: Mapping[str, Any], evidence: Evidence) -> ExpectationResult:
    """No log file of a writer is larger than `max_bytes` and `tolerance` of it; without `max_bytes` nothing is asked for."""
    name, limit = "expect_log_files_no_larger_than", kwargs.get("max_bytes")
    written = (one for _, one in evidence.state.log_files if not is_carried_name(one.name))
    sizes = sorted(((one.size_bytes, one.name) for one in written), reverse=True)
    observed: dict[str, Any] = {"log_files": len(sizes), "largest_bytes": sizes[0][0] if sizes else 0}
    if limit is None:
        return judged(name, observed, None)
    given = kwargs.get("tolerance")
    allowed = limit * (1 + (LOG_FILE_TOLERANCE if given is None else given))
    wrong = [file_name for size, file_name in sizes if size > allowed]
    observed |= {"max_bytes": limit, "too_large": len(wrong), "examples": wrong[:_NAMED_FILES]}
    count = part_of(len(wrong), len(sizes), "log file")
    message = f"{count} larger than {limit:,} bytes, the largest {observed['largest_bytes']:,}"
    return judged(name, observed, message if wrong else None)


_CHECKS = {
    FRESHNESS: _freshness_within,
    COMPLETENESS: _completeness_up_to,
    "expect_event_times_tracked": _event_times_tracked,
    "expect_log_files_no_larger_than": _log_files_no_larger_than,
}


def _limits(kwargs: Mapping[str, Any]) -> Freshness:
    return Freshness(**{name: kwargs.get(name) for name in Freshness.model_fields})


def _at_or_below(evidence: Evidence) -> Iterator[tuple[LogFile, bool | None]]:
    """The log files that can hold an event at or below the threshold, and whether the claim speaks of them (None: nobody knows).

    An unknown event time is trusted to be later only in what came later, or where the compaction says what it left out.
    """
    threshold_ms, latency_ms, zone = evidence.claim.threshold_ms, evidence.policy.longest_latency_ms, evidence.zone
    for file_slice in evidence.state.slices:
        for log_file in file_slice.log_files:
            known_ms = log_file.min_event_time_ms
            if known_ms is None or known_ms <= threshold_ms:
                seen = evidence.speaks_of(log_file)
                must = seen and not evidence.claim.leaves_out
                if known_ms is not None or must or event_time_bound(log_file, latency_ms, zone).ms <= threshold_ms:
                    yield log_file, seen
