"""What a plan may be, said declaratively: every candidate instant is tried against the rules. Shares nothing with the planner."""

from __future__ import annotations

from collections.abc import Iterator

from etc_policy.policy.manifest import Policy
from etc_policy.table.state import FileSlice, Instant, LogFile, TableState
from tests.property.history import CLOCK_SKEW_MS, SERVICES
from tests.property.model import instant_time

COMMIT_ACTIONS = ("deltacommit", "commit", "compaction", "replacecommit", "logcompaction")
TOUCHING_ACTIONS = ("commit", "compaction", "replacecommit", "rollback", "logcompaction")


def is_due(log: LogFile, threshold: int) -> bool:
    """Whether RO up to the threshold needs the log file, as far as anyone knows."""
    return log.min_event_time_ms is None or log.min_event_time_ms <= threshold


def due_slices(state: TableState, threshold: int) -> list[FileSlice]:
    """Slices that hold a log file that is due."""
    return [one for one in state.slices if any(is_due(log, threshold) for log in one.log_files)]


def must_be_refused(state: TableState) -> bool:
    """Whether nothing may be planned, whatever is due.

    A table service that reshapes slices is under way, or the last write hides the schema by which readers find renamed columns:
    a compaction beside either loses rows or values, so this says both in its own words. No history has what any other reason
    refuses.
    """
    done = [i for i in state.instants if i.action in COMMIT_ACTIONS and i.state == "completed"]
    if done and max(done, key=lambda i: i.requested).schema == "hidden":
        return True
    return any(instant.state != "completed" and instant.action in SERVICES for instant in state.instants)


def split(file_slice: FileSlice, instant: int) -> tuple[list[LogFile], list[LogFile]]:
    """Log files completed before the instant, and the others."""
    before = [log for log in file_slice.log_files if instant_time(log.completed) < instant]
    return before, [log for log in file_slice.log_files if log not in before]


def broken_rules(
    instant: int, policy: Policy, state: TableState, chosen: list[FileSlice], clock: int, *, delete_rule: bool
) -> Iterator[str]:
    """Every rule of docs/facts/cut.md that a cut of the chosen slices at the instant breaks, except being complete.

    `clock` is now as the table's zone shows it.
    """
    yield from _wrong_place(instant, policy, state, clock)
    file_ids = {one.file_id for one in chosen}
    for other in state.instants:
        touched = other.action in TOUCHING_ACTIONS and other.state == "completed" and _touches(other, file_ids)
        # A slice begins at the instant of its compaction or replace; the others take effect when they complete.
        ends = other.action in ("rollback", "logcompaction")
        since = (other.completed if ends else None) or other.requested
        if touched and instant <= instant_time(since):
            yield f"not later than {other.action} {other.requested}, which touched the slices"
    for one in chosen:
        compacted, remaining = split(one, instant)
        if any(instant_time(log.requested) >= instant for log in compacted):
            yield f"{one.file_id}: a commit that was requested after C is compacted"
        if compacted and remaining:
            # Stricter than closed in both orders, and implies it: time travel to a commit, and an incremental query of
            # it while the plan is pending, do not look into a slice that begins after the commit was requested (run).
            if instant > min(instant_time(log.requested) for log in remaining):
                yield f"{one.file_id}: a commit that was requested before C remains"
            if delete_rule and any(log.has_deletes for log in compacted):
                yield f"{one.file_id}: a delete is compacted and log files remain"


def _wrong_place(instant: int, policy: Policy, state: TableState, clock: int) -> Iterator[str]:
    taken = {instant_time(text) for other in state.instants for text in (other.requested, other.completed) if text}
    if instant in taken:
        yield "a time of an instant of the table"
    if instant in {instant_time(text) for text in state.metadata_instants}:
        yield "the time of an instant of the MDT"
    if instant > clock - CLOCK_SKEW_MS:
        yield "within the clock skew bound of now"
    done = [i for i in state.instants if i.action in COMMIT_ACTIONS and i.state == "completed"]
    known = max((i for i in done if instant_time(i.requested) < instant), key=lambda i: i.requested, default=None)
    schema = known.schema if known else ""
    later = {i.schema for i in done if instant_time(i.requested) >= instant} - {"", "hidden"}
    if schema == "hidden" or later - {schema}:
        yield "Hudi would merge by another schema than a later write carries, or by none"
    first = min((i.requested for i in state.instants if i.action in COMMIT_ACTIONS), default=None)
    if first is not None and instant <= instant_time(first):
        yield "not later than the first active commit"
    keep_min, keep_max = (int(policy.hudi_options.get(f"hoodie.keep.{end}.commits", 99)) for end in ("min", "max"))
    if len(done) > keep_max and instant <= instant_time(sorted(i.requested for i in done)[-keep_min]):
        yield "archiving that is due passes it"


def _touches(other: Instant, file_ids: set[str]) -> bool:
    return other.file_ids is None or bool(other.file_ids & file_ids)


def first_valid_cut(
    policy: Policy,
    state: TableState,
    threshold: int,
    clock: int,
    *,
    delete_rule: bool,
    chosen: list[FileSlice] | None = None,
) -> int | None:
    """The earliest instant that compacts all that is due, or is in `chosen`, and breaks no rule; None if it is missing.

    Enough candidates: what a cut does changes only right after a completion or a request, and a place that is taken
    can be left by a few milliseconds.
    """
    chosen = due_slices(state, threshold) if chosen is None else chosen
    due = [instant_time(log.completed) for one in chosen for log in one.log_files if is_due(log, threshold)]
    edges = {instant_time(log.completed) for one in chosen for log in one.log_files}
    edges |= {instant_time(text) for other in state.instants for text in (other.requested, other.completed) if text}
    candidates = sorted({edge + wait for edge in edges for wait in range(1, 9) if edge + wait > max(due)})
    for instant in candidates:
        if instant > clock - CLOCK_SKEW_MS:
            return None
        if not any(True for _ in broken_rules(instant, policy, state, chosen, clock, delete_rule=delete_rule)):
            return instant
    return None


def cut_bounds(policy: Policy, state: TableState, threshold: int, clock: int) -> tuple[int | None, int | None]:
    """The earliest cut that may be right, and the latest that a planner may need.

    They differ where the policy declares small archiving limits, whose safety margin is the planner's.
    """
    always = first_valid_cut(policy, state, threshold, clock, delete_rule=True)
    return always, None if policy.hudi_options else always
