"""What the log files that are not compacted hold by their own bytes, against what their commits recorded (level `logs`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from etc_policy.table.formats import count_of
from etc_policy.table.log_witness import in_words, misrecorded_in, path_of
from etc_policy.table.state import FileSlice, LogFile, LogWitness
from etc_policy.verify.evidence import Evidence, judged
from etc_policy.verify.ports import ExpectationResult

LOGS = "log_files_hold_what_their_commits_recorded"
_NAMED_FILES = 5


def check_logs(evidence: Evidence, *, rows_compared: bool = False) -> ExpectationResult:
    """No log file holds an earlier event than its commit recorded; a warning where that could not be read.

    Where all rows of both views were compared, what cannot be read here is proved by them, and only counted.
    """
    witnesses = evidence.state.witnesses or ()
    wrong, unread = misrecorded_in(witnesses), tuple(unproven(evidence))
    nulls = [one.path for one in witnesses if one.has_nulls and one.recorded_ms is not None]
    observed: dict[str, Any] = {
        "log_files_read": sum(one.why is None for one in witnesses),
        "log_files_read_by_an_earlier_run": sum(one.why is None and not one.is_read_anew for one in witnesses),
        "log_files_with_earlier_events": len(wrong),
        "log_files_unproven": len(unread),
        "log_files_with_rows_without_event_time": len(nulls),
        "examples": [one._asdict() for one in wrong[:_NAMED_FILES]],
        "unproven": [{"path": path, "why": why} for path, why in unread[:_NAMED_FILES]],
    }
    if wrong:
        message = (
            f"{count_of(len(wrong), 'log file')} with earlier events than recorded, for example {in_words(wrong[0])}"
        )
        return judged(LOGS, observed, message)
    if rows_compared or not (unread or nulls):
        return judged(LOGS, observed, None)
    said = []
    if unread:
        said.append(f"{count_of(len(unread), 'log file')} unproven, for example {unread[0][0]}: {unread[0][1]}")
    if nulls:
        said.append(f"{count_of(len(nulls), 'log file')} with rows that have no event time, for example {nulls[0]}")
    return judged(LOGS, observed, "; ".join(said)).model_copy(update={"status": "warn"})


def is_proven_by_logs(evidence: Evidence) -> bool:
    """Whether the bytes of every log file that the claim speaks of were read."""
    return evidence.state.witnesses is not None and next(unproven(evidence), None) is None


def unproven(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The path of each log file of which only the writer's word is known, or only its promise on latency, and why.

    One whose time nobody knows at all is not among them, as it counts as at or below the threshold, unless it is damaged.
    """
    by_path = {one.path: one for one in evidence.state.witnesses or ()}
    for file_slice, log_file in evidence.state.log_files:
        why = _why_unproven(evidence, file_slice, log_file, by_path.get(path_of(file_slice, log_file)))
        if why is not None:
            yield path_of(file_slice, log_file), why


def _why_unproven(
    evidence: Evidence, file_slice: FileSlice, log_file: LogFile, witness: LogWitness | None
) -> str | None:
    if log_file.min_event_time_ms is not None or (witness is not None and witness.damaged):
        return witness.why if witness is not None else "it was not read"
    is_assumed = evidence.claim.leaves_out and evidence.speaks_of(log_file) is not False
    return "its event times are only bounded by `data_latency`" if is_assumed else None
