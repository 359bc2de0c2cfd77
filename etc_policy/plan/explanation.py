"""Why a plan is as it is, in sentences: how T and C came about, each file slice in or out, what holds RO back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from etc_policy.plan.cut import GUARDS
from etc_policy.plan.model import (
    PUBLISHED,
    UNREAD_VERSION,
    Move,
    Operation,
    SkippedSlice,
    SkippedSlices,
    SkipReason,
    TablePlan,
)
from etc_policy.plan.pace_explanation import CHOSEN, MERGED, ON_CLOSE, why_now
from etc_policy.plan.plan_warnings import EXPOSED
from etc_policy.policy.times import Boundaries, parse_boundaries
from etc_policy.table.formats import count_of, format_bytes, format_duration, format_time
from etc_policy.table.state import CUT_VERSIONS, path_below

#: (label, text); an empty label goes on with the one before it.
Row = tuple[str, str]

#: So many compacted slices are named one by one; the rest is counted.
NAMED_SLICES = 10

#: What a reader must know first; said once, whatever the number of tables.
PREFACE = (
    "The read-optimized view (RO) reads base files alone. What writers append to log files shows there once it has been "
    "compacted into a new base file. A file slice is a base file with the log files that lie on it. T is the event time up "
    "to which RO is to be complete, C the compaction's instant on Hudi's timeline."
)


def explain_table(table: TablePlan) -> Iterator[Row]:
    """The rows of `--explain` for one table."""
    if table.table_version == UNREAD_VERSION:
        yield "", "The table could not be read, so there is nothing to explain."
        return
    if not table.watermark_known and table.action != "compact":
        yield "", "While this is so nobody can know how far RO is complete, so there is nothing to explain."
        return
    yield from _why_t(table)
    yield from _why_c(table)
    yield from _slices_in(table)
    for left_out in table.left_out:
        yield from _slices_out(table, left_out)
    if table.watermark_known:
        yield from _what_holds_back(table)


def _why_t(table: TablePlan) -> Iterator[Row]:
    if table.now_ms is None:
        return
    now, latest_ms = format_time(table.now_ms), table.now_ms - (table.data_latency_ms or 0)
    latest, boundaries = f"{_latency(table)} (`data_latency`) before now, {now}", _boundaries(table)
    if boundaries is not None:
        latest_ms = boundaries.last_ms(latest_ms)
        latest = f"{format_time(latest_ms)}, the last boundary of `strategy.at` that is at least {latest}"
    if table.threshold_ms > latest_ms:
        text = f"T is that of the last compaction: the clock, {now}, has jumped back since. What was complete stays so."
    elif table.threshold_ms == latest_ms:
        text = (
            f"T is {latest}. By the policy, all events up to T have arrived by "
            "now; later ones may still be on their way."
        )
    else:
        which = "that are left out may hold"
        if table.pace is not None and not table.left_out_though_due:
            which = "hold that can wait for a later run"
        text = f"T is before all that the file slices {which}; else it would be {latest}."
    yield "why T", text
    yield from why_now(table)


def _why_c(table: TablePlan) -> Iterator[Row]:
    if table.instant_start is None:
        return
    if table.table_version not in CUT_VERSIONS:
        how = "are compacted by whole slices"
        if any(operation.carried for operation in table.operations):
            how = "have no cut, so log files that stay get a second name in the slice that begins at C"
        yield "why C", f"C is the time of planning: tables of version {table.table_version} {how}."
        return
    must = (
        MERGED
        if table.stock_options
        else "all of the slices below (`granularity: file_slice`)"
        if table.granularity == "file_slice"
        else "all that are due"
        if table.pace is None
        else f"what the slices that are due hold up to {_latency(table)} before now"
    )
    guards = "guards, rules that keep every query right, moved it later:"
    moved = f"From there {guards}" if table.moves else "No guard (a rule that keeps every query right) moved it later."
    yield (
        "why C",
        "A compaction at C merges the log files whose commits completed before C, and leaves the others. It must merge "
        f"{must}; the last of those completed right before {table.instant_start}, so that is the earliest C. {moved}",
    )
    for _, same in groupby(table.moves, key=lambda move: move.guard):
        yield from _moves(list(same))


def _moves(moves: list[Move]) -> Iterator[Row]:
    """A guard that moved C several times in a row is named once."""
    first, last = moves[0], moves[-1]
    guard = next((guard for guard in GUARDS if guard.name == first.guard), None)
    name, why = (guard.title, guard.reason) if guard else (first.guard, f"{first.why}.")
    steps = f" in {len(moves)} steps" if len(moves) > 1 else ""
    yield "moved", f"from {first.before} to {last.after}{steps} by the guard `{name}`. {why}"
    if last.witness:
        yield "", f"Here: {last.witness}."


def _slices_in(table: TablePlan) -> Iterator[Row]:
    due = tuple(one for one in table.operations if one.due_log_files or table.stock_options)
    others = tuple(one for one in table.operations if one not in due)
    is_up_to_t = not table.left_out_though_due and all(one.due_log_files > one.unknown_log_files for one in due)
    which = f"log files that are due{', with events at or before T' if is_up_to_t else ''}"
    yield from _compacted(due, CHOSEN if table.stock_options else f"{_hold(due)} {which}")
    yield from _compacted(others, f"{_hold(others)} no log file that is due by T: {_why_all_the_same(table)}")


def _hold(operations: tuple[Operation, ...]) -> str:
    return "holds" if len(operations) == 1 else "hold"


def _why_all_the_same(table: TablePlan) -> str:
    """Why slices are compacted of which nothing is due by their event times."""
    closed = "RO lacks rows of a closed partition (`strategy.on_close`)"
    exposed = "a key could come to exist twice (see the warning)"
    is_exposed = any(EXPOSED in text for text in table.warnings)
    reasons = [*([closed] if table.policy_values.get(ON_CLOSE) else []), *([exposed] if is_exposed else [])]
    return ", or ".join(reasons or [closed, exposed])


def _compacted(operations: tuple[Operation, ...], which: str) -> Iterator[Row]:
    if not operations:
        return
    yield "compacted", f"{count_of(len(operations), 'file slice')} {which}:"
    order = sorted(operations, key=lambda o: (o.unknown_log_files == 0, o.oldest_event_ms or 0, o.partition, o.file_id))
    for operation in order[:NAMED_SLICES]:
        yield "", f"- {path_below(operation.partition, operation.file_id)}"
        yield "", f"  {_merged(operation)}"
    if rest := order[NAMED_SLICES:]:
        files = sum(len(operation.log_files_compacted) for operation in rest)
        yield "", f"- and {count_of(len(rest), 'more file slice')} with {count_of(files, 'log file')} to merge."


def _merged(operation: Operation) -> str:
    merged, left = len(operation.log_files_compacted), len(operation.log_files_remaining)
    known, unknown = operation.due_log_files - operation.unknown_log_files, operation.unknown_log_files
    parts = []
    if known:
        parts.append(f"{known:,} due, the first event at {format_time(operation.oldest_event_ms)}")
    if unknown:
        parts.append(f"{unknown:,} of unknown event time, which counts as due")
    along = merged - operation.due_log_files
    if along and not operation.due_log_files:
        parts.append(f"the first event at {format_time(operation.oldest_event_ms)}, after T")
    elif along:
        before = "written before the last due one" if operation.carried else "completed before C too"
        which = ("it is" if along == 1 else "they are") if operation.carried else ("it" if along == 1 else "they")
        parts.append(f"{along:,} newer, merged as {which} {before}")
    size = format_bytes(operation.log_bytes_compacted)
    text = f"merges {merged:,} of {count_of(merged + left, 'log file')} ({size}): {'; '.join(parts)}."
    if left:
        first = operation.remaining_from_ms
        since = (
            "" if first is None else f", and {'its' if left == 1 else 'their'} first event is at {format_time(first)}"
        )
        how = "carried into the new slice" if operation.carried else "completed after C"
        text += f" {left:,} {'stays' if left == 1 else 'stay'}: {how}{since}."
    return text


def _slices_out(table: TablePlan, left_out: SkippedSlices) -> Iterator[Row]:
    count, slices = left_out.file_slices, count_of(left_out.file_slices, "file slice")
    files = f"{count_of(left_out.log_files, 'log file')}, {format_bytes(left_out.log_bytes)}"
    due = f"{slices} that {'is' if count == 1 else 'are'} due ({files})"
    complete = f": RO has all of {'its' if count == 1 else 'their'} rows" if table.watermark_known else ""
    texts: dict[SkipReason, str] = {
        "no_log_files": f"{slices} without log files{complete}.",
        "newer_than_threshold": f"{slices} with log files ({files}) without an event at or before T.",
        "due_but_written_to": f"{due}: {'it holds' if count == 1 else 'they hold'} deletes, and writers kept adding to them "
        "while they were compacted (delete rule). So T is earlier for this plan.",
        "due_but_behind_a_writer": f"{due}, written to after the oldest write in flight began: C has to be before that write. "
        "So T is earlier for this plan.",
        "due_but_beyond_hold": f"{due}, for which the time is too short in which writers are kept out (`writer.hold`). So T is "
        "earlier for this plan.",
        "due_but_in_other_partitions": f"{due}, in partitions that the policy does not compact (`strategy.partitions`).",
        "due_but_beyond_budget": f"{slices} with later events than those that are compacted ({files}): `strategy.max_io` is "
        "used up. So T is earlier for this plan.",
        "due_but_not_chosen": f"{slices} with due events, or events of unknown time ({files}), that Hudi's strategy does not "
        "take. So T is earlier for this plan.",
        "due_but_refused": f"{due}, because the table is refused.",
    }
    yield "left alone", texts[left_out.reason]
    for one in left_out.nearest:
        yield "", f"- {path_below(one.partition, one.file_id)}"
        yield "", f"  {count_of(one.log_files, 'log file')}, {_first_event(table, one, left_out.reason)}."
    if left_out.nearest and (rest := count - len(left_out.nearest)):
        yield "", f"- and {count_of(rest, 'more file slice')} with later events."


def _first_event(table: TablePlan, one: SkippedSlice, reason: SkipReason) -> str:
    if one.earliest_event_ms is None:
        return "no event time is known"
    due = f"; due from {_due_at(table, one.earliest_event_ms)} on" if reason == "newer_than_threshold" else ""
    return f"the first event at {format_time(one.earliest_event_ms)}{due}"


def _what_holds_back(table: TablePlan) -> Iterator[Row]:
    """What RO's completeness stops at once the plan has run, and what would move it."""
    stop = table.watermark_after_ms
    if stop is not None and table.left_out_though_due and table.action != "refused":
        by_policy = "that the policy leaves out" if table.left_out_by_policy else "that writers keep adding to"
        text = f"by {count_of(table.left_out_though_due, 'file slice')} {by_policy}"
        until = format_time(min(stop, table.threshold_ms))
        yield "held back", f"{text}: without them RO is complete up to {until} only."
        yield "moves on", _next_run(table)
        return
    if stop is not None and stop < table.threshold_ms:
        yield from _held_by_a_file(table, stop + 1)
        return
    after = "after this plan by T alone" if table.action == "compact" else "by T alone"
    rest = "no log file is left" if stop is None else "every event that only a log file holds is later than T"
    yield "held back", f"{after}: {rest}."
    text = f"with time: T stays {_latency(table)} behind now."
    if _boundaries(table) is not None:
        text = f"with time: T moves to the next boundary {_latency(table)} after it."
    if table.pace is not None:
        at = "" if stop is None else f" The log file of the `next event` is due from {_due_at(table, stop + 1)} on."
        yield "moves on", f"with the next compaction.{at}"
        return
    if stop is not None:
        text += f" At {_due_at(table, stop + 1)} it reaches the `next event`, and plans made from then on compact that log file."
    yield (
        "moves on",
        f"{text} A shorter `data_latency` keeps T closer to now, but then more events may be late data: RO lacks those "
        "until the next run.",
    )


def _next_run(table: TablePlan) -> str:
    """When file slices that are left out though they are due are compacted."""
    reasons = {one.reason for one in table.left_out}
    if "due_but_beyond_budget" in reasons:
        return "with the next run, which goes on where the budget ended."
    if "due_but_beyond_hold" in reasons:
        return "with the next run, which takes those first that hold RO back."
    if "due_but_not_chosen" in reasons:
        return (
            "as soon as Hudi's strategy takes them, or a policy with `type: event_time` or `unbounded` compacts them."
        )
    if "due_but_in_other_partitions" in reasons:
        return "as soon as `strategy.partitions` takes their partitions too."
    return "as soon as a run ends while no writer adds to them, for example in the writer's job, between two batches."


def _held_by_a_file(table: TablePlan, event_ms: int) -> Iterator[Row]:
    if table.watermark_assumed:
        how = f"its event times are not known; if events take {_latency(table)} to arrive, it can hold one of"
    else:
        how = "it holds an event of"
    yield "held back", f"by the log file of the `next event`: {how} {format_time(event_ms)}."
    if table.reason_code == PUBLISHED:
        yield "moves on", "with the next boundary of `strategy.at`: this one was published before that log file came."
        return
    yield "moves on", "to T, as soon as the table is no longer refused and a new plan compacts that log file."


def _latency(table: TablePlan) -> str:
    return format_duration(table.data_latency_ms or 0)


def _boundaries(table: TablePlan) -> Boundaries | None:
    """Those of the plan's policy; None without, and where somebody has edited the plan."""
    try:
        return parse_boundaries(table.policy_values["strategy.at"])
    except (KeyError, ValueError):
        return None


def _due_at(table: TablePlan, event_ms: int) -> str:
    """When T reaches the event, or a run may wait with it no longer."""
    if (boundaries := _boundaries(table)) is not None:
        event_ms = boundaries.next_ms(event_ms - 1)
    if table.pace is not None:
        return format_time(table.pace.due_at_ms(event_ms, table.data_latency_ms or 0))
    return format_time(event_ms + (table.data_latency_ms or 0))
