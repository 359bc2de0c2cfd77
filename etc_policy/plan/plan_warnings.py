"""What a plan warns of."""

from __future__ import annotations

from collections.abc import Iterator

from etc_policy.plan.formats import count_of
from etc_policy.plan.refusals import not_ended
from etc_policy.plan.stages import TablePlan
from etc_policy.plan.table_state import TableState


def unknown_warning(unknown: int, total: int) -> tuple[str, ...]:
    """Log files without a known event time cost work, whatever they hold."""
    if not unknown:
        return ()
    return (
        f"{unknown} of {total} log files have no known event time and are compacted whatever they hold: "
        "let the writer record event times (`etc compile` prints its options), or plan with --read-stats",
    )


def left_out_warnings(table: TablePlan, state: TableState) -> Iterator[str]:
    """Due file slices that are not compacted, why, and what it means."""
    still = not_ended(state)
    until = "RO is complete only up to T above; run `etc apply` in the writer's job, between two batches"
    counts = {one.reason: count_of(one.file_slices, "file slice") for one in table.left_out}
    if "due_but_behind_a_writer" in counts:
        yield (
            f"{counts['due_but_behind_a_writer']} left out, written to after {min(state.living_writers)}: the writer that began "
            f"then has not ended. {until}"
        )
    if "due_but_written_to" in counts:
        why = f"may add to them: {still}" if still else "kept adding to them while they were compacted"
        yield f"{counts['due_but_written_to']} with deletes left out, as writers {why}. {until}"


def space_warning(state: TableState, instant: str) -> tuple[str, ...]:
    """Guard 6: below the last clean's retained commit C costs only space."""
    if state.earliest_commit_to_retain is None or instant >= state.earliest_commit_to_retain:
        return ()
    return ("the old slices stay on disk until a later write touches their partitions (C is below the last clean)",)
