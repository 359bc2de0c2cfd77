"""What a policy may leave out, said declaratively: partitions that it does not name, and what is beyond its budget."""

from __future__ import annotations

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.model import TablePlan
from etc_policy.table.state import FileSlice, TableState
from tests.property.expected_cut import due_slices, first_valid_cut, split
from tests.property.history import LATENCY_MS, History


def check_threshold_without(history: History, state: TableState, plan: TablePlan) -> None:
    """T is before all that may be in due slices that are left out, of which every event time is known."""
    chosen = {(operation.partition, operation.file_id) for operation in plan.operations}
    left = [one for one in due_slices(state, history.threshold) if (one.partition, one.file_id) not in chosen]
    known = [log.min_event_time_ms for one in left for log in one.log_files if log.min_event_time_ms is not None]
    assert len(known) == sum(len(one.log_files) for one in left), "a log file of unknown event time is left out"
    assert plan.threshold_ms == min([history.threshold, *(event - 1 for event in known)]), "T is not what is left out"
    assert plan.left_out_though_due == len(left), "what is left out is miscounted"


def limited_plan(history: History, state: TableState, **limits: object) -> TablePlan:
    """The plan under a policy with these limits."""
    policy = history.policy()
    policy = policy.model_copy(update={"strategy": policy.strategy.model_copy(update=limits)})
    clock = history.clock - history.offset_ms
    return build_table_plan(policy, state, now_ms=history.threshold + LATENCY_MS, clock_ms=clock)


def has_unknown(slices: list[FileSlice]) -> bool:
    """Whether an event time is not known."""
    return any(log.min_event_time_ms is None for one in slices for log in one.log_files)


def bytes_of(plan: TablePlan) -> int:
    """What the plan reads and writes."""
    return sum(one.bytes_read + one.bytes_written_estimate for one in plan.operations)


def check_budget(history: History, state: TableState, plan: TablePlan, limit: int) -> None:
    """The oldest slices first, as many as fit, one at least; what is left is newer."""
    assert bytes_of(plan) <= limit or len(plan.operations) == 1, "more than the budget"
    chosen = {(operation.partition, operation.file_id) for operation in plan.operations}
    due = due_slices(state, history.threshold)
    inside = [one for one in due if (one.partition, one.file_id) in chosen]
    outside = sorted((one for one in due if one not in inside), key=_oldest)
    assert inside, "nothing is compacted"
    assert not outside or max(map(_oldest, inside)) <= _oldest(outside[0]), "an older slice is left out"
    if outside and history.granularity == "log_file" and not history.options:
        more = [*inside, outside[0]]
        up_to = _oldest(outside[1])[0] if len(outside) > 1 else history.threshold
        assert _least_bytes(history, state, more, up_to) > limit, "a slice more would fit"


def _oldest(file_slice: FileSlice) -> tuple[int, str, str]:
    times = [-1 if log.min_event_time_ms is None else log.min_event_time_ms for log in file_slice.log_files]
    return min(times), file_slice.partition, file_slice.file_id


def _least_bytes(history: History, state: TableState, slices: list[FileSlice], up_to: int) -> int:
    """What the earliest cut takes that merges all events of these slices up to a time."""
    instant = first_valid_cut(
        history.policy(), state, min(up_to, history.threshold), history.clock, delete_rule=True, chosen=slices
    )
    if instant is None:
        return 2**62
    total = 0
    for one in slices:
        logs = sum(log.size_bytes for log in split(one, instant)[0])
        total += one.base_file_bytes + logs + (one.base_file_bytes or logs)
    return total
