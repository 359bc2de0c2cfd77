"""Builds one table's plan from its policy, its state and the clock; never reads a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from etc_policy.compile.manifest import Policy
from etc_policy.compile.policy_values import changed_values, policy_values
from etc_policy.plan.clock import times_refusal
from etc_policy.plan.closed_slices import closed_before
from etc_policy.plan.cut import Cut, archive_limits, compacted, find_cut, remaining
from etc_policy.plan.instants import add_ms, instant_from_ms
from etc_policy.plan.plan_warnings import left_out_warnings, space_warning, unknown_warning
from etc_policy.plan.refusals import (
    Refusal,
    find_refusal,
    overlapping_writer,
    written_to_all,
)
from etc_policy.plan.skipped_slices import WrittenTo, group_skipped_slices
from etc_policy.plan.stages import Action, Move, Operation, SeenState, TablePlan
from etc_policy.plan.table_state import FileSlice, GroupKey, LogFile, TableState
from etc_policy.plan.table_versions import CUT_VERSIONS
from etc_policy.plan.watermark import Watermark, watermark

#: Hudi's default for `hoodie.time.generator.max_expected_clock_skew_ms`.
MAX_CLOCK_SKEW_MS = 200


@dataclass(frozen=True, slots=True)
class _Place:
    """Where C is put: where it began, and how guards raised it from there."""

    start: str
    instant: str
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class _Context:
    policy: Policy
    state: TableState
    now_ms: int
    clock_ms: int
    written_to: WrittenTo
    behind: frozenset[GroupKey] = frozenset()

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.state.timezone)

    @property
    def threshold_ms(self) -> int:
        return self.now_ms - self.policy.data_latency_ms

    def option(self, key: str, default: int) -> int:
        """A whole-number Hudi option that the policy declares, else Hudi's default."""
        return int(self.policy.hudi_options.get(key, default))

    def must_merge(self, log_file: LogFile) -> bool:
        """Whether a chosen slice may not keep the log file behind."""
        return self.policy.granularity == "file_slice" or _is_due(log_file, self.threshold_ms)

    def leaves_out(self, file_slice: FileSlice) -> bool:
        """Whether the slice is not compacted though it is due."""
        return file_slice in self.written_to or _group(file_slice) in self.behind

    def watermark(self, log_files: list[LogFile]) -> Watermark:
        return watermark(log_files, self.policy.data_latency_ms, self.zone)


def build_table_plan(
    policy: Policy,
    state: TableState,
    *,
    now_ms: int,
    clock_ms: int,
    written_to: WrittenTo = WrittenTo(),  # noqa: B008 - frozen
) -> TablePlan:
    """The plan that makes RO hold every row with event time <= T = `now_ms` - data latency.

    `clock_ms` is the wall clock: it bounds the instant C, which `now_ms` never moves. A log file whose smallest event
    time is not known is compacted. The result's `action` is `refused` when the table may not be planned now. Slices
    that are `written_to`, or not closed before a writer in flight began, are left out, and T is lowered to what is known to
    be complete without them.
    """
    context = _Context(policy, state, now_ms, clock_ms, written_to)
    refusal = find_refusal(policy, state) or times_refusal(policy, state, clock_ms)
    if refusal is not None:
        return _idle(context, "refused", refusal)
    chosen = tuple(file_slice for file_slice in state.slices if _due(file_slice, context.threshold_ms))
    if not chosen:
        return _idle(
            context, "nothing_due", Refusal("nothing_due", "no log file can hold an event at or below the threshold")
        )
    chosen = tuple(file_slice for file_slice in chosen if file_slice not in written_to)
    if not chosen:
        return _idle(context, "refused", written_to_all(state))
    place = _instant(context, chosen)
    writer = min(state.living_writers, default=place.instant)
    if writer < place.instant and state.table_version in CUT_VERSIONS:
        closed = closed_before(chosen, writer, lambda slices: _instant(context, slices).instant)
        behind = frozenset(map(_group, chosen)).difference(map(_group, closed))
        unknown = any(_group(s) in behind and f.min_event_time_ms is None for s, f in state.log_files)
        if not closed or unknown:  # without its event time nobody knows how far RO is complete without it
            return _idle(context, "refused", overlapping_writer(writer, place.instant), place)
        context, chosen, place = replace(context, behind=behind), closed, _instant(context, closed)
    young = _too_young(context, place.instant)
    return _idle(context, "refused", young, place) if young else _compact(context, chosen, place)


def _too_young(context: _Context, instant: str) -> Refusal | None:
    """A cut is in the past, beyond the clock skew; without one, C is the latest of all instants (FACTS 8)."""
    skew_ms = context.option("hoodie.time.generator.max_expected_clock_skew_ms", MAX_CLOCK_SKEW_MS)
    latest, state = instant_from_ms(context.clock_ms - skew_ms, context.zone), context.state
    last = max((i.requested for i in state.instants), default="")
    reason = None
    if state.table_version in CUT_VERSIONS and instant > latest:
        reason = f"the compaction's instant would have to be {instant}, which is not yet past the clock-skew bound ({latest})"
    if state.table_version not in CUT_VERSIONS and instant <= last:
        reason = f"the compaction's instant would be {instant}, which is not past the table's last instant ({last})"
    return Refusal("too_young", reason, "plan again in a second") if reason else None


def _due(file_slice: FileSlice, threshold_ms: int) -> bool:
    return any(_is_due(log_file, threshold_ms) for log_file in file_slice.log_files)


def _is_due(log_file: LogFile, threshold_ms: int) -> bool:
    return log_file.min_event_time_ms is None or log_file.min_event_time_ms <= threshold_ms


def _instant(context: _Context, chosen: tuple[FileSlice, ...]) -> _Place:
    """C: past the last due log file (`log_file`) or past every log file (`file_slice`) of the chosen slices."""
    if context.state.table_version not in CUT_VERSIONS:
        now = instant_from_ms(context.clock_ms, context.zone)
        return _Place(now, now)
    last = max(
        log_file.completed for file_slice in chosen for log_file in file_slice.log_files if context.must_merge(log_file)
    )
    start = add_ms(last, 1)
    return _Place(start, *find_cut(_cut(context, chosen), start))


def _cut(context: _Context, chosen: tuple[FileSlice, ...]) -> Cut:
    return Cut(
        slices=chosen,
        instants=context.state.instants,
        metadata_instants=context.state.metadata_instants,
        keep_commits=archive_limits(context.policy.hudi_options),
    )


def _group(file_slice: FileSlice) -> GroupKey:
    return file_slice.partition, file_slice.file_id


def _compact(context: _Context, chosen: tuple[FileSlice, ...], place: _Place) -> TablePlan:
    instant = place.instant
    chosen_ids = set(map(_group, chosen))
    left = [
        log_file
        for file_slice, log_file in context.state.log_files
        if _group(file_slice) not in chosen_ids or log_file.completed >= instant
    ]
    after = context.watermark(left)
    operations = tuple(_operation(file_slice, instant, context.threshold_ms) for file_slice in chosen)
    base = _idle(context, "compact", None, place)
    return base.model_copy(
        update={
            "instant": instant,
            "threshold_ms": _complete_without(context),
            "operations": operations,
            "watermark_after_ms": after.value_ms,
            "watermark_assumed": after.assumed,
            "held_back_by": after.held_back_by,
            "warnings": (
                *base.warnings,
                *space_warning(context.state, instant),
                *left_out_warnings(base, context.state),
            ),
        }
    )


def _complete_without(context: _Context) -> int:
    """T, or what RO is complete up to without the due slices that are left out."""
    files = (log_file for s in context.state.slices if context.leaves_out(s) for log_file in s.log_files)
    mark = context.watermark(list(files)).value_ms
    return context.threshold_ms if mark is None else min(mark, context.threshold_ms)


def _operation(file_slice: FileSlice, instant: str, threshold_ms: int) -> Operation:
    merged, left = compacted(file_slice, instant), remaining(file_slice, instant)
    log_bytes = sum(log_file.size_bytes for log_file in merged)
    return Operation(
        partition=file_slice.partition,
        file_id=file_slice.file_id,
        base_instant=file_slice.base_instant,
        base_file=file_slice.base_file,
        log_files_compacted=_merge_order(merged),
        log_files_remaining=_merge_order(left),
        bytes_read=file_slice.base_file_bytes + log_bytes,
        bytes_written_estimate=file_slice.base_file_bytes or log_bytes,
        log_bytes_compacted=log_bytes,
        due_log_files=sum(_is_due(log_file, threshold_ms) for log_file in merged),
        unknown_log_files=sum(log_file.min_event_time_ms is None for log_file in merged),
        oldest_event_ms=_earliest(merged),
        remaining_from_ms=_earliest(left),
    )


def _earliest(log_files: tuple[LogFile, ...]) -> int | None:
    """The smallest known event time."""
    return min((f.min_event_time_ms for f in log_files if f.min_event_time_ms is not None), default=None)


def _merge_order(log_files: tuple[LogFile, ...]) -> tuple[str, ...]:
    return tuple(f.name for f in sorted(log_files, key=lambda f: (f.requested, f.completed, f.name)))


def _idle(context: _Context, action: Action, refusal: Refusal | None, place: _Place | None = None) -> TablePlan:
    """A plan that changes nothing; `_compact` fills in the rest."""
    policy, state = context.policy, context.state
    values, last = policy_values(policy), state.last_compaction
    files = [log_file for _, log_file in state.log_files]
    before = context.watermark(files)
    unknown = sum(f.min_event_time_ms is None for f in files)
    moves = place.moves if place else ()
    return TablePlan(
        policy=policy.name,
        policy_fingerprint=policy.fingerprint,
        policy_values=values,
        policy_changes=changed_values(last.policy_values, values) if last and last.policy_values else (),
        base_path=state.base_path,
        table_version=state.table_version,
        granularity=policy.granularity,
        action=action,
        reason=refusal.reason if refusal else None,
        reason_code=refusal.code if refusal else None,
        threshold_ms=context.threshold_ms,
        watermark_before_ms=before.value_ms,
        watermark_after_ms=before.value_ms,
        watermark_assumed=before.assumed,
        held_back_by=before.held_back_by,
        unknown_log_files=unknown,
        seen=_seen(state),
        now_ms=context.now_ms,
        data_latency_ms=policy.data_latency_ms,
        instant_start=place.start if place else None,
        moves=moves,
        left_out=group_skipped_slices(
            state.slices,
            lambda s: _due(s, context.threshold_ms),
            context.written_to,
            context.behind,
            refused=action == "refused",
        ),
        notes=tuple(f"C moved from {move.before} to {move.after}: {move.why}" for move in moves),
        warnings=unknown_warning(unknown, len(files)),
        hints=(refusal.hint,) if refusal and refusal.hint else (),
    )


def _seen(state: TableState) -> SeenState:
    completed = tuple(sorted(i.requested for i in state.instants if i.state == "completed"))
    return SeenState(
        properties_fingerprint=state.properties_fingerprint,
        last_completed=state.last_completed,
        instants_completed=completed,
        timezone=state.timezone,
        oldest_writer=min(state.living_writers, default=None),
    )
