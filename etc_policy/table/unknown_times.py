"""Why nobody knows the smallest event time of some log files, and what helps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from etc_policy.policy.manifest import EventTime
from etc_policy.table.formats import count_of
from etc_policy.table.state import LogFile, TableState


def why_unknown_times(event_time: EventTime, state: TableState, files: Iterable[LogFile]) -> Iterator[str]:
    """A sentence for each cause among these log files of a table; event times that cannot be true are another matter."""
    if state.updates_in_part:
        yield (
            "an update may change a part of a row that has an earlier one (`hoodie.table.partial.update.mode`, or a payload "
            "class or merger that etc does not know)"
        )
        return
    unknown = [one for one in files if one.min_event_time_ms is None and one.impossible_ms is None]
    beside = {one.name for of in state.slices if of.updates_in_part for one in of.log_files}
    in_part = [one for one in unknown if one.name in beside]
    if in_part:
        yield (
            f"{count_of(len(in_part), 'log file')} beside parts of rows, as a `MERGE INTO` that sets some columns writes them, "
            "which no event time bounds"
        )
        unknown = [one for one in unknown if one.name not in beside]
    if not unknown:
        return
    without = [one for one in unknown if one.null_rows]
    deletes = [one for one in unknown if not one.null_rows and one.has_deletes]
    if without:
        yield f"{null_rows_in(event_time, without)}; only the writer can fill it"
    if deletes:
        yield f"{count_of(len(deletes), 'log file')} with deletes by key, or that may hold some: these carry no event time"
    if len(unknown) == len(without) + len(deletes):
        return
    untracked = state.shape.untracked(event_time)
    if untracked is None:
        advice = "let the writer record event times (`etc compile` prints its options), or plan with --read-stats"
        yield f"{advice}{by_digits(event_time, state)}"
    else:
        yield (
            f"{untracked}, and they are not known from the log files: `etc verify --level logs` says which cannot be read, and "
            "why (with --metadata-only none was); --read-stats may know them"
        )


def unreadable_advice(event_time: EventTime, value: str) -> str:
    """What to do where a value of the column is not a time as the policy has it read."""
    is_number = event_time.format is None and value.removeprefix("-").isdigit()
    form, such = (
        ("unit: UNIT", "one of `s`, `ms` or `us`") if is_number else ("format: PATTERN", "such as `dd/MM/yyyy HH:mm`")
    )
    said = f"`event_time_column: {{column: {event_time.column}, {form}}}`"
    return f"if it is a time, set {said} ({such}); else take another column, or skip the table by `enabled: false`"


def by_digits(event_time: EventTime, state: TableState) -> str:
    """What is to be known of numbers whose unit the policy does not say, to be added to advice."""
    is_guessed = event_time.unit is None and state.event_time_type in ("int", "long")
    digits = "; without `event_time_column.unit` a number is a time only if it has 10, 13 or 16 digits"
    return digits if is_guessed else ""


def null_rows_in(event_time: EventTime, files: Iterable[LogFile]) -> str:
    """How many rows without an event time were read in these log files, and in which one first."""
    found = [one for one in files if one.null_rows]
    rows = count_of(sum(one.null_rows for one in found), "row")
    return f"{rows} in {count_of(len(found), 'log file')} with NULL in `{event_time.column}`, for example in {found[0].name}"
