"""What a plan warns of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import filterfalse
from zoneinfo import ZoneInfo

from etc_policy.plan.model import Operation, TablePlan
from etc_policy.plan.pace import Pace
from etc_policy.plan.planning_context import PlanningContext
from etc_policy.plan.refusals import not_ended
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.policy.writers import CLEAN_HOURS, CLEAN_POLICY
from etc_policy.table.formats import count_of, format_bytes, format_duration, format_time
from etc_policy.table.impossible_times import (
    ColumnDoubt,
    OtherTimes,
    column_that_moves,
    doubt_by_files,
    doubt_text,
    too_early_unit,
    unit_advice,
)
from etc_policy.table.instants import instant_from_ms, instant_to_ms
from etc_policy.table.partitions import after_their_end
from etc_policy.table.state import WRITE_ACTIONS, FileSlice, TableState, path_below
from etc_policy.table.unknown_times import why_unknown_times


def unknown_warning(context: PlanningContext) -> tuple[str, ...]:
    """Log files without a known event time cost work, whatever they hold; to a strategy of Hudi they are as any other."""
    state, kept = context.state, filterfalse(context.leaves_out, context.state.slices)
    files = [f for file_slice in kept for f in file_slice.log_files if f.min_event_time_ms is None]
    unknown = sum(f.impossible_ms is None for f in files)
    if not unknown or context.policy.is_stock:
        return ()
    total = sum(len(file_slice.log_files) for file_slice in state.slices)
    why = "; ".join(why_unknown_times(context.policy.event_time, state, files))
    hold = "it holds" if unknown == 1 else "they hold"
    return (
        f"{count_of(unknown, 'log file')} of {total:,} without a known event time, compacted whatever {hold}: {why}",
    )


def column_warnings(policy: Policy, state: TableState, doubt: ColumnDoubt | None) -> Iterator[tuple[str, str]]:
    """What is to be said of the event-time column, and what to do: times that cannot be true, and what commits say against it.

    Every command that looks at a table says this. Instants of another zone say nothing of it.
    """
    if state.zone_fault:
        return
    event_time, early = policy.event_time, too_early_unit(policy.event_time, state)
    if not (isinstance(doubt, OtherTimes) and doubt.kind == "ahead"):
        yield from _impossible(event_time, state)
    if early is not None:
        shown = f"no known event time in `{event_time.column}` is later than {format_time(early.event_time_ms)}"
        yield f"{shown}, so that whatever is written is due at once", unit_advice(early.fitting, event_time.column)
    elif doubt is not None:
        yield doubt_text(doubt, event_time, policy.data_latency_ms, state.ordering_fields)


def _impossible(event_time: EventTime, state: TableState) -> Iterator[tuple[str, str]]:
    """Event times that cannot be true."""
    ahead, column = state.log_files_ahead, event_time.column
    if ahead:
        message = (
            f"{count_of(len(ahead), 'log file')} with an event time in `{column}` that is later than its commit by more than "
            f"{format_duration(event_time.ahead_ms)} (`event_time_column.max_ahead`), for example {ahead[0].name}: "
            f"{format_time(ahead[0].impossible_ms)}. It counts as unknown, so that the file is compacted whatever it holds"
        )
        other = column_that_moves(column, state.ordering_fields) if len(ahead) == len(list(state.log_files)) else ""
        hint = "look at the writer's clock and at `event_time_column`, or raise its `max_ahead`"
        yield message, f"take {other}; else {hint}" if other else hint


def column_warning(policy: Policy, state: TableState) -> Iterator[str]:
    """The same by the files alone."""
    doubt = doubt_by_files(state, policy.event_time, policy.data_latency_ms)
    yield from map("; ".join, column_warnings(policy, state, doubt))


def after_end_warning(policy: Policy, state: TableState, now_ms: int) -> Iterator[str]:
    """Events after the end of their partition, where the policy does not say whether they count."""
    found = after_their_end(policy, state, now_ms)
    if not found or (policy.done is not None and policy.done.rows is not None):
        return
    first, closed = found[0], len({one.partition for one in found})
    yield (
        f"{count_of(len(found), 'log file')} of {count_of(closed, 'closed partition')} with events after the end of theirs, for "
        f"example {first.path}: {format_time(first.latest_ms)}, and the end is {format_time(first.ends_ms)}. Such a partition is "
        "done when RO holds these rows too: `partition_time.grace` moves the end, with `done.rows: until_end` only rows with an "
        "event before it count"
    )


def left_out_warnings(table: TablePlan, state: TableState) -> Iterator[str]:
    """Due file slices that are not compacted, why, and what it means."""
    still = not_ended(state)
    until = "RO is complete only up to T above; run `etc apply` in the writer's job, between two batches"
    counts = {one.reason: count_of(one.file_slices, "file slice") for one in table.left_out}
    if "due_but_behind_a_writer" in counts:
        yield (
            f"{counts['due_but_behind_a_writer']} left out, written to after {min(state.begun_writes)}: the writer that began "
            f"then has not ended. {until}"
        )
    if "due_but_beyond_hold" in counts:
        count = counts["due_but_beyond_hold"]
        yield f"{count} left for later runs, as writers wait for `writer.hold` at most: RO is complete only up to T above"
    if "due_but_written_to" in counts:
        why = f"may add to them: {still}" if still else "kept adding to them while they were compacted"
        yield f"{counts['due_but_written_to']} with deletes left out, as writers {why}. {until}"
    if "due_but_in_other_partitions" in counts:
        count = counts["due_but_in_other_partitions"]
        yield f"{count} due in partitions that `strategy.partitions` does not name: RO is complete only up to T above"
    if "due_but_not_chosen" in counts:
        count = counts["due_but_not_chosen"]
        yield f"{count} due that `strategy.type` does not take: RO is complete only up to T above"


def budget_warning(policy: Policy, operations: Iterable[Operation], table: TablePlan) -> Iterator[str]:
    """What a budget leaves for later, and a file slice that alone is beyond it."""
    limit, taken = policy.strategy.max_io_bytes, sum(one.bytes_read + one.bytes_written_estimate for one in operations)
    beyond = next((one for one in table.left_out if one.reason == "due_but_beyond_budget"), None)
    if limit is not None and taken > limit:
        yield f"one file slice alone takes {format_bytes(taken)}, more than `strategy.max_io` ({format_bytes(limit)})"
    if limit is not None and beyond is not None:
        count = count_of(beyond.file_slices, "file slice")
        yield (
            f"`strategy.max_io` ({format_bytes(limit)}) reaches T above, the latest that it can: {count} with "
            f"{count_of(beyond.log_files, 'log file')} ({format_bytes(beyond.log_bytes)}) left for later runs"
        )


def pace_warning(pace: Pace | None, data_latency_ms: int) -> Iterator[str]:
    """A target that an event which arrives late can miss, however the runs go."""
    if pace is None or not pace.leaves_no_room(data_latency_ms):
        return
    parts = f"{format_duration(data_latency_ms)} + {format_duration(pace.every_ms)} + {format_duration(pace.run_ms)}"
    run = "a run that is assumed to be as long as the interval" if pace.run_assumed else "the length of the last run"
    yield (
        f"`freshness.target` ({format_duration(pace.target_ms)}) is shorter than `data_latency`, the interval between runs and "
        f"{run} together ({parts}): an event that arrives late can miss it"
    )


#: In the warning, and in no other.
EXPOSED = "compacted whatever the event times"


def exposed_warning(slices: tuple[FileSlice, ...]) -> tuple[str, ...]:
    """Slices that are compacted whatever their event times, because of the index."""
    if not slices:
        return ()
    first = path_below(slices[0].partition, slices[0].file_id)
    return (
        f"{count_of(len(slices), 'file slice')} {EXPOSED}, for example {first}: a writer added to it "
        "while a compaction merged deletes, and an upsert of a key in it before this compaction would make a second row",
    )


def unseen_warning(state: TableState) -> tuple[str, ...]:
    """Rows that readers have lost, whatever is compacted."""
    if not state.unseen_files:
        return ()
    count = count_of(len(state.unseen_files), "file")
    return (
        f"{count} with rows that no reader sees, for example {state.unseen_files[0]}: written to a file group that a clustering, "
        "a deletion or an overwrite replaced without them; `etc debug` says more",
    )


def before_first_warning(context: PlanningContext) -> Iterator[str]:
    """A time taken as now (`--at`) at which there was no table; where one is replayed T goes on from its last compaction."""
    state, last = context.state, context.state.last_compaction
    first = min((*(i.requested for i in state.instants), *(one.base_instant for one in state.slices)), default=None)
    is_replayed = last is not None and last.threshold_ms <= context.threshold_ms
    if first is None or is_replayed or context.now_ms >= (first_ms := instant_to_ms(first, context.zone)):
        return
    yield (
        f"the time taken as now ({format_time(context.now_ms)}) is before the table's first commit ({format_time(first_ms)}): "
        "what is due then says nothing about today"
    )


def early_clean_warning(policy: Policy, state: TableState, instant: str) -> tuple[str, ...]:
    """Where a clean counts C as older than what it keeps, the old slices go with the next one (facts: below-last-clean)."""
    last, options = state.earliest_commit_to_retain, policy.hudi_options
    by = options.get("hoodie.clean.policy", options.get(CLEAN_POLICY, "KEEP_LATEST_COMMITS"))
    kept = options.get("hoodie.clean.commits.retained", options.get("hoodie.cleaner.commits.retained", ""))
    done = (one for one in state.instants if one.action in WRITE_ACTIONS and one.completed)
    later = sum(one.requested > instant for one in done)
    if last is not None and instant < last:
        why = f"their last clean kept what readers need as of {last} and later"
    elif by == "KEEP_LATEST_COMMITS" and kept.isdecimal() and later >= int(kept):
        why = f"{count_of(later, 'commit')} lie after C, and they retain {kept}"
    else:
        return ()
    return (
        "queries that began before this compaction can fail for lack of a file after the writers' next write, as its clean "
        f"removes the old file slices: {why}. Give the writers `{CLEAN_POLICY}=KEEP_LATEST_BY_HOURS` with `{CLEAN_HOURS}` of at "
        "least `data_latency`, the interval between runs and the longest query together",
    )


def other_readers_warning(state: TableState) -> tuple[str, ...]:
    """The first run of Hudi 1.2 on a metadata table of 1.0 (facts: mixed-metadata-table)."""
    if not state.metadata_of_1_0 or not (state.release or "").startswith("1.2."):
        return ()
    return (
        f"hudi-rs 0.5 cannot open the table once Hudi {state.release} has written to its metadata table, which Hudi 1.0 made: "
        "this compaction does, and so does any write by that release",
    )


def retention_warning(policy: Policy, state: TableState) -> Iterator[str]:
    """The writers' last clean may have removed what the cuts read that the policy keeps."""
    clean = max((one.requested for one in state.instants if one.action == "clean" and one.completed), default=None)
    retained, kept_ms, zone = state.earliest_commit_to_retain, policy.kept_ms, ZoneInfo(state.timezone)
    if clean is None or retained is None or kept_ms is None:
        return
    since = instant_from_ms(instant_to_ms(clean, zone) - kept_ms, zone)
    if any(since < one.requested < retained for one in state.instants if one.action in WRITE_ACTIONS):
        yield (
            f"`strategy.keep` needs the base files of {format_duration(kept_ms)}, and the clean at {clean} has kept what "
            f"readers need as of {retained} and later: give the writers the options that `etc compile` writes"
        )


def whole_warning(context: PlanningContext, chosen: Iterable[FileSlice], instant: str) -> Iterator[str]:
    """Where RO holds more than the table as of T."""
    if not context.is_exact:
        return
    whole = sum(context.is_whole(one, context.split(one, instant)[0]) for one in chosen)
    if whole:
        yield (
            f"{count_of(whole, 'file slice')} merged whole, as what is compacted of {'it' if whole == 1 else 'them'} holds "
            "deletes or keys that the index does not find: RO may hold rows after T there"
        )
    last = context.state.last_compaction
    if last is not None and last.threshold_ms > context.threshold_ms:
        yield f"RO may hold rows up to {format_time(last.threshold_ms)} already, where an earlier run had its T"
