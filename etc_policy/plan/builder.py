"""Builds one table's plan from its policy, its state and the clock; never reads a file."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from operator import attrgetter, lt

from etc_policy.plan.carry import carried_files, log_order
from etc_policy.plan.clock import clock_skew_ms
from etc_policy.plan.cut import Cut, closed_before, compacted, find_cut
from etc_policy.plan.hold import slice_bytes, within_hold
from etc_policy.plan.model import Action, Operation, SeenState, SkipReason, TablePlan
from etc_policy.plan.pace import Pace
from etc_policy.plan.plan_warnings import (
    after_end_warning,
    before_first_warning,
    budget_warning,
    column_warning,
    early_clean_warning,
    exposed_warning,
    left_out_warnings,
    other_readers_warning,
    pace_warning,
    retention_warning,
    unknown_warning,
    unseen_warning,
    whole_warning,
)
from etc_policy.plan.planning_context import (
    Place,
    PlanningContext,
    context_of,
    is_wanted,
    merging_what_is_due,
    must_merge,
    no_run_before,
)
from etc_policy.plan.refusals import (
    Reason,
    Refusal,
    is_published,
    no_commit,
    not_exact,
    nothing_due,
    overlapping_writer,
    unknown_left_out,
    written_to_all,
)
from etc_policy.plan.rules import why_refused, why_unknown, without_watermark
from etc_policy.plan.skipped_slices import ContendedSlices, group_skipped_slices, io_bytes, within_budget
from etc_policy.plan.split import remainder_name
from etc_policy.policy.manifest import Policy, changed_values, policy_values
from etc_policy.table.apply_state import ApplyState
from etc_policy.table.instants import add_ms, instant_from_ms
from etc_policy.table.state import FileSlice, LogFile, Slices, TableState
from etc_policy.table.watermark import Watermark

_GROUP = attrgetter("group")

#: Why a slice may be left out whose deletes by key are due.
_EXCUSING = ("due_but_written_to", "due_but_not_chosen", "due_but_behind_a_writer", "due_but_beyond_hold")


def build_table_plan(
    policy: Policy,
    state: TableState,
    *,
    now_ms: int,
    clock_ms: int,
    contended: ContendedSlices = ContendedSlices(),  # noqa: B008 - frozen
    pace: Pace | None = None,
) -> TablePlan:
    """The plan that makes RO hold every row with event time <= T = `now_ms` - data latency.

    `clock_ms` is the wall clock: it bounds the instant C, which `now_ms` never moves. A log file whose smallest event
    time is not known is compacted. The result's `action` is `refused` when the table may not be planned now. Slices
    that are `contended`, not closed before a writer in flight began, not in the policy's partitions, beyond its budget or
    beyond a hold of the writers' lock are left out, and T is lowered to what is known to be complete without them. By a
    `pace` T is before all that slices hold which can wait for the next run.
    """
    policy = policy.at(now_ms)
    context = context_of(policy, state, now_ms, clock_ms, contended, pace)
    refusal = why_refused(policy, state, clock_ms)
    if refusal is not None:
        refused, unknown = _idle(context, "refused", refusal), why_unknown(policy, state, clock_ms)
        return without_watermark(refused, unknown) if unknown else refused
    if empty := no_commit(state):
        return without_watermark(_idle(context, "nothing_due", empty), empty)
    if not context.exposed and (published := is_published(policy, state, context.threshold_ms)):
        return _idle(context, "nothing_due", published)
    return _of_due(context, tuple(filter(context.is_due, state.slices)))


def _of_due(context: PlanningContext, due: Slices) -> TablePlan:
    """The plan of a table that may be planned, by its due slices."""
    wanted, policy = tuple(one for one in due if is_wanted(context, one)), context.policy
    reason: SkipReason = "due_but_not_chosen" if policy.is_stock else "due_but_in_other_partitions"
    context = _leaving_out(context, due, wanted, reason)
    chosen = tuple(file_slice for file_slice in wanted if file_slice not in context.contended)
    if wanted and not chosen:
        return _idle(context, "refused", written_to_all(context.state))
    if unknown_in := _unknown_left_out(context):
        return _refused_unknown(context, unknown_in)
    if not wanted:
        can_wait = context.threshold_ms < context.merged_up_to_ms
        idle = _idle(context, "nothing_due", nothing_due(policy, elsewhere=bool(due), can_wait=can_wait))
        return idle.model_copy(update={"threshold_ms": _complete_without(context)})
    found = _before_writers(context, chosen)
    if isinstance(found, TablePlan):
        return found
    context, chosen = _within_hold(*_within_budget(*found))
    if unknown_in := _unknown_left_out(context):
        return _refused_unknown(context, unknown_in)
    place = _instant(context, chosen)
    refusal = _too_young(context, place.instant) or not_exact(
        context.policy, context.threshold_ms, _complete_without(context)
    )
    return _idle(context, "refused", refusal, place) if refusal else _compact(context, chosen, place)


def _before_writers(context: PlanningContext, chosen: Slices) -> tuple[PlanningContext, Slices] | TablePlan:
    """The chosen slices that an instant before the oldest write in flight can merge; a refusal where T would not be known."""
    place, state = _instant(context, chosen), context.state
    writer = min(state.begun_writes, default=place.instant)
    if writer >= place.instant or not state.is_cut:
        return context, chosen
    context = merging_what_is_due(context)
    closed = closed_before(chosen, writer, lambda slices: _instant(context, slices).instant)
    without = _leaving_out(context, chosen, closed, "due_but_behind_a_writer")
    if not closed or _unknown_left_out(without):  # nobody would know how far RO is complete without it
        return _idle(context, "refused", overlapping_writer(state, writer, place.instant), place)
    return without, closed


def _within_hold(context: PlanningContext, chosen: Slices) -> tuple[PlanningContext, Slices]:
    """The chosen slices that fit into a hold of the writers' lock, those first that hold RO back; the others are left out.

    Those without which T would not be known, or keys could come to exist twice, are taken whatever they take.
    """
    limit, growth = context.contended.hold_bytes, context.state.write_growth
    if limit is None or context.is_exact:
        return context, chosen

    def taken(one: FileSlice) -> int:
        return slice_bytes(*io_bytes(one, size_of(one.log_files), growth))

    def holds_back(one: FileSlice) -> tuple[float, str, str]:
        return _reach(context.watermark(one.log_files)), one.partition, one.file_id

    ordered = tuple(sorted(chosen, key=holds_back))
    first = tuple(one for one in ordered if context.is_exposed(one) or _is_unknown(one, is_excused=True))
    groups = set(map(_GROUP, within_hold(ordered, limit, taken, first)))
    kept = tuple(one for one in chosen if one.group in groups)
    return _leaving_out(context, chosen, kept, "due_but_beyond_hold"), kept


def _leaving_out(context: PlanningContext, chosen: Slices, kept: Slices, reason: SkipReason) -> PlanningContext:
    """The context that leaves out those of the chosen slices that are not kept."""
    left_out = set(map(_GROUP, chosen)).difference(map(_GROUP, kept))
    return replace(context, left_out={**context.left_out, **dict.fromkeys(left_out, reason)})


def _unknown_left_out(context: PlanningContext) -> FileSlice | None:
    """A slice that is left out and in which an event time is not known: T cannot be known without it.

    Where a strategy of Hudi does not take the slice, writers keep adding to it, or one in flight is before it, a delete by key
    counts as in every watermark: as no earlier than its commit completed, less the data latency. Rows beside it are not excused.
    """
    for one in filter(context.leaves_out, context.state.slices):
        is_excused = context.left_out.get(one.group, "due_but_written_to") in _EXCUSING
        if _is_unknown(one, is_excused=is_excused):
            return one
    return None


def _is_unknown(file_slice: FileSlice, *, is_excused: bool) -> bool:
    """Whether an event time of the slice is not known, beside those of deletes by key where these are excused."""
    files = file_slice.log_files
    return any(f.min_event_time_ms is None and not (f.unknown_is_deletes and is_excused) for f in files)


def _refused_unknown(context: PlanningContext, file_slice: FileSlice) -> TablePlan:
    by_writers = file_slice.group not in context.left_out
    refusal = unknown_left_out(context.policy, context.state, file_slice, contended=by_writers)
    return _idle(replace(context, left_out={}), "refused", refusal)


def _within_budget(context: PlanningContext, chosen: Slices) -> tuple[PlanningContext, Slices]:
    """The chosen slices that the policy's budget allows, merged no further than it takes; the others are left out."""
    limit, growth = context.policy.strategy.max_io_bytes, context.state.write_growth
    if limit is None:
        return context, chosen

    def bytes_of(slices: Slices, up_to_ms: int | None) -> int:
        instant = _instant(context.merging_up_to(up_to_ms), slices).instant
        return sum(chain.from_iterable(io_bytes(one, size_of(compacted(one, instant)), growth) for one in slices))

    first = tuple(filter(context.is_exposed, chosen))
    kept, beyond_ms = within_budget(chosen, limit, bytes_of, first)
    groups = set(map(_GROUP, kept))
    within = _leaving_out(context, chosen, kept, "due_but_beyond_budget").merging_up_to(beyond_ms)
    return within, tuple(one for one in chosen if one.group in groups)


def _too_young(context: PlanningContext, instant: str) -> Refusal | None:
    """A cut is in the past, beyond the clock skew; without one, C is the latest of all instants (facts: carried-names)."""
    latest, state = instant_from_ms(context.clock_ms - clock_skew_ms(context.policy), context.zone), context.state
    last = max((i.requested for i in state.instants), default="")
    reason = None
    if state.is_cut and instant > latest:
        reason = f"the compaction's instant would have to be {instant}, which is not yet past the clock-skew bound ({latest})"
    if not state.is_cut and instant <= last:
        reason = f"the compaction's instant would be {instant}, which is not past the table's last instant ({last})"
    return Refusal("too_young", reason, "plan again in a second") if reason else None


def _instant(context: PlanningContext, chosen: tuple[FileSlice, ...]) -> Place:
    """C: past the last due log file (`log_file`) or past every log file (`file_slice`) of the chosen slices."""
    if not context.state.is_cut:
        now = instant_from_ms(context.clock_ms, context.zone)
        return Place(now, now)
    start = add_ms(max(next(must_merge(context, file_slice)).completed for file_slice in chosen), 1)
    return Place(start, *find_cut(Cut.of(chosen, context.state, context.policy.hudi_options), start))


def _compact(context: PlanningContext, chosen: tuple[FileSlice, ...], place: Place) -> TablePlan:
    instant = place.instant
    chosen_ids = set(map(_GROUP, chosen))
    left = [
        (file_slice, log_file)
        for file_slice in context.state.slices
        for log_file in (
            context.split(file_slice, instant)[1] if file_slice.group in chosen_ids else file_slice.log_files
        )
    ]
    after = context.watermark(log_file for _, log_file in left)
    operations = tuple(operation_of(context, file_slice, instant) for file_slice in chosen)
    if any(one.straddling for one in operations):  # the rows that stay are after T, and nobody knows by how much
        after = min(after, Watermark(context.threshold_ms, None, assumed=False), key=_reach)
    base = _idle(context, "compact", None, place)
    return base.model_copy(
        update={
            "instant": instant,
            "threshold_ms": _complete_without(context),
            "operations": operations,
            "other_log_bytes": _other_log_bytes(context, chosen),
            "watermark_after_ms": after.value_ms,
            "watermark_assumed": after.assumed,
            "held_back_by": after.held_back_by,
            "next_due_ms": no_run_before(context, left),
            "warnings": (
                *base.warnings,
                *other_readers_warning(context.state),
                *early_clean_warning(context.policy, context.state, instant),
                *exposed_warning(tuple(filter(context.is_exposed, chosen))),
                *left_out_warnings(base, context.state),
                *budget_warning(context.policy, operations, base),
                *whole_warning(context, chosen, instant),
            ),
        }
    )


def _other_log_bytes(context: PlanningContext, chosen: Slices) -> int | None:
    """The bytes of log files that the other granularity would merge of the same slices; None where the table has no other."""
    other = context.in_other_granularity()
    if other is None:
        return None
    if other.policy.strategy.granularity == "file_slice":
        return sum(size_of(one.log_files) for one in chosen)
    instant = _instant(other, chosen).instant
    return sum(size_of(other.split(one, instant)[0]) for one in chosen)


def _complete_without(context: PlanningContext) -> int:
    """T, or what RO is complete up to without the due slices that are left out."""
    files = (log_file for s in context.state.slices if context.leaves_out(s) for log_file in s.log_files)
    mark = context.watermark(files).value_ms
    return context.threshold_ms if mark is None else min(mark, context.threshold_ms)


def _idle(context: PlanningContext, action: Action, why: Reason | None, place: Place | None = None) -> TablePlan:
    """A plan that changes nothing; `_compact` fills in the rest."""
    policy, state = context.policy, context.state
    values, last = policy_values(policy), state.last_compaction
    files = tuple(chain.from_iterable(file_slice.log_files for file_slice in state.slices))
    before = context.watermark(files)
    unknown = sum(f.min_event_time_ms is None for f in files)
    moves = place.moves if place else ()
    return TablePlan(
        policy=policy.name,
        policy_fingerprint=policy.fingerprint,
        policy_values=values,
        policy_changes=changed_values(last.policy_values, values) if last and last.policy_values else (),
        base_path=state.base_path,
        new_from=policy.found_by if last is None and state.apply_state == ApplyState() else None,
        table_version=state.table_version,
        release=state.release,
        granularity=policy.strategy.granularity,
        stock_options=policy.stock_options,
        action=action,
        reason=why.reason if why else None,
        reason_code=why.code if why else None,
        pending=why.pending if isinstance(why, Refusal) else None,
        threshold_ms=context.threshold_ms,
        watermark_before_ms=before.value_ms,
        watermark_after_ms=before.value_ms,
        watermark_assumed=before.assumed,
        held_back_by=before.held_back_by,
        unknown_log_files=unknown,
        seen=_seen(state),
        now_ms=context.now_ms,
        data_latency_ms=policy.data_latency_ms,
        latency_evidence=policy.latency_evidence,
        pace=context.pace,
        next_due_ms=no_run_before(context, state.log_files) if action == "nothing_due" else None,
        instant_start=place.start if place else None,
        moves=moves,
        left_out=group_skipped_slices(
            state.slices, context.is_due, context.contended, context.left_out, refused=action == "refused"
        ),
        notes=tuple(f"C moved from {move.before} to {move.after}: {move.why}" for move in moves),
        warnings=_warnings(context, action),
        hints=(why.hint,) if why and why.hint else (),
    )


def _warnings(context: PlanningContext, action: Action) -> tuple[str, ...]:
    """What a user should know of the table, whatever its plan does."""
    policy = context.policy
    return (
        *unseen_warning(context.state),
        *unknown_warning(context),
        *column_warning(policy, context.state),
        *after_end_warning(policy, context.state, context.now_ms),
        *pace_warning(context.pace, policy.data_latency_ms),
        *retention_warning(policy, context.state),
        *(before_first_warning(context) if action == "nothing_due" else ()),
    )


def _seen(state: TableState) -> SeenState:
    completed = tuple(sorted(i.requested for i in state.instants if i.state == "completed"))
    return SeenState(
        properties_fingerprint=state.properties_fingerprint,
        last_completed=state.last_completed,
        instants_completed=completed,
        timezone=state.timezone,
        oldest_writer=min(state.begun_writes, default=None),
        write_growth=state.write_growth,
    )


_MERGE_ORDER = attrgetter("requested", "completed", "name")


def operation_of(context: PlanningContext, file_slice: FileSlice, instant: str) -> Operation:
    """What is merged of the slice and what stays, in bytes and event times."""
    merged, left = context.split(file_slice, instant)
    log_bytes = size_of(merged)
    known_ms = [log_file.min_event_time_ms for log_file in merged if log_file.min_event_time_ms is not None]
    unknown, due_ms = len(merged) - len(known_ms), min(context.threshold_ms, context.merged_up_to_ms)
    straddling = context.straddling(file_slice, merged)
    bytes_read, bytes_written = io_bytes(file_slice, log_bytes, context.state.write_growth)
    return Operation(
        partition=file_slice.partition,
        file_id=file_slice.file_id,
        base_instant=file_slice.base_instant,
        base_file=file_slice.base_file,
        log_files_compacted=_merge_order(merged),
        log_files_remaining=_merge_order(left),
        bytes_read=bytes_read,
        bytes_written_estimate=bytes_written,
        log_bytes_compacted=log_bytes,
        due_log_files=unknown + sum(time_ms <= due_ms for time_ms in known_ms),
        unknown_log_files=unknown,
        oldest_event_ms=min(known_ms, default=None),
        remaining_from_ms=_earliest(left),
        carried=carried_files(file_slice, left, instant) if context.carries else (),
        straddling=straddling,
        remainder=remainder_name(file_slice, instant) if context.splits(file_slice, merged) else None,
    )


def size_of(log_files: tuple[LogFile, ...]) -> int:
    """The bytes of log files."""
    return sum(log_file.size_bytes for log_file in log_files)


def _reach(mark: Watermark) -> float:
    """How far RO is complete; without end where nothing is left that it could lack."""
    return float("inf") if mark.value_ms is None else mark.value_ms


def _earliest(log_files: tuple[LogFile, ...]) -> int | None:
    """The smallest known event time."""
    return min((f.min_event_time_ms for f in log_files if f.min_event_time_ms is not None), default=None)


def _merge_order(log_files: tuple[LogFile, ...]) -> tuple[str, ...]:
    """By instant; before table version 8 all log files of a slice bear one, and are in the order of their versions."""
    requested = [one.requested for one in log_files]
    if all(map(lt, requested, requested[1:])):  # as they mostly are, and looking is cheaper than sorting
        return tuple(one.name for one in log_files)
    ordered = sorted(log_files, key=_MERGE_ORDER)
    if ordered[0].requested == ordered[-1].requested:
        ordered.sort(key=lambda one: log_order(one.name))
    return tuple(one.name for one in ordered)
