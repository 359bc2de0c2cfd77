"""Whether a saved plan follows from its policy and from the table as it was seen: anybody can compute its checksum."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from zoneinfo import ZoneInfo

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.cut import WITHOUT_DATA
from etc_policy.plan.model import Operation, TablePlan
from etc_policy.plan.pace import pace_again
from etc_policy.policy.manifest import Policy
from etc_policy.table.double_keys import left_behind, merged_by
from etc_policy.table.formats import FIRST_MS, LAST_MS, format_time
from etc_policy.table.history import promise_of
from etc_policy.table.instants import CLOCK_TOLERANCE_MS, instant_from_ms, instant_to_ms, parse_instant
from etc_policy.table.state import FileSlice, TableState

_MARGIN_MS = 7 * 86_400_000
_INSTANT = re.compile(r"[0-9]{17}")
#: Instants of Hudi before 0.10 have no milliseconds.
_ANY_INSTANT = re.compile(r"[0-9]{14}(?:[0-9]{3})?")
#: So many letters of a value are shown.
_SHOWN = 200
#: What decides what is compacted, or is committed or weighed with it.
_DECIDING = (
    "action",
    "table_version",
    "granularity",
    "stock_options",
    "data_latency_ms",
    "pace",
    "next_due_ms",
    "threshold_ms",
    "instant",
    "policy_values",
    "left_out_though_due",
    "other_log_bytes",
)


def find_malformed(table: TablePlan) -> str | None:
    """The name of a value that has not its form, so that nothing may be made of it; None where all have."""
    values: dict[str, object] = dict(table)
    for name in ("threshold_ms", "now_ms", "watermark_before_ms", "watermark_after_ms", "next_due_ms"):
        value = values[name]
        if isinstance(value, int) and not is_plain_time(value):
            return name
    if table.instant is not None and not _is_time(table.instant, _INSTANT):
        return "instant"
    if (table.action == "compact") != (table.instant is not None and bool(table.operations)):
        return "instant" if table.instant is None else "operations"
    return _malformed_seen(table)


def is_plain_time(epoch_ms: int) -> bool:
    """Whether every zone has a name for the time, and for what lies some days from it."""
    return FIRST_MS + _MARGIN_MS <= epoch_ms <= LAST_MS - _MARGIN_MS


def _malformed_seen(table: TablePlan) -> str | None:
    seen = table.seen
    for name in ("last_completed", "oldest_writer"):
        instant = getattr(seen, name)
        if instant is not None and not _is_time(instant, _ANY_INSTANT):
            return f"seen.{name}"
    if not all(_is_time(instant, _ANY_INSTANT) for instant in seen.instants_completed):
        return "seen.instants_completed"
    if seen.timezone is not None and not _is_zone(seen.timezone):
        return "seen.timezone"
    return None


def _is_time(instant: str, form: re.Pattern[str]) -> bool:
    if not form.fullmatch(instant):
        return False
    try:
        parse_instant(instant)
    except ValueError:
        return False
    return True


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        return False
    return True


def find_underived(policy: Policy, table: TablePlan, state: TableState, created_ms: int) -> tuple[str, ...]:
    """What of a plan made at `created_ms` does not follow from the table as it had seen it; empty where all does.

    `state` is the table as it is now: what the plan does not name as seen is left out of it, and the plan is made again.
    It must have seen what had completed when it was made, within the tolerance of clocks, or a plan could hide what is due.
    """
    if table.now_ms is None or table.now_ms > created_ms + CLOCK_TOLERANCE_MS:
        return ("it was made for a time that had not come",)
    unseen = tuple(_hidden(table, state, min(table.now_ms, created_ms), created_ms))
    return unseen or tuple(_differences(table, _made_again(policy, table, state, table.now_ms, created_ms)))


def _hidden(table: TablePlan, state: TableState, known_ms: int, created_ms: int) -> Iterator[str]:
    """What had completed at `known_ms` and was not seen, or was seen and had not begun when the plan was made."""
    zone, seen = ZoneInfo(state.timezone), set(table.seen.instants_completed)
    for done in state.instants:
        if done.state != "completed" or done.requested in seen or done.action in WITHOUT_DATA:
            continue
        if instant_to_ms(done.completed or done.requested, zone, latest=True) <= known_ms - CLOCK_TOLERANCE_MS:
            yield f"a {done.action} at {done.requested} had completed before it was made, and it had not seen it"
    last = max(seen, default=None)
    if last is not None and instant_to_ms(last, zone) > created_ms + CLOCK_TOLERANCE_MS:
        yield f"it had seen an instant at {last}, and was made before that, at {format_time(created_ms)}"


def _made_again(policy: Policy, table: TablePlan, state: TableState, now_ms: int, created_ms: int) -> TablePlan:
    """Before table version 8 the instant is the time at which the plan was made, and no later one."""
    clock_ms, zone = created_ms, ZoneInfo(state.timezone)
    if not state.is_cut and table.instant is not None:
        clock_ms = min(created_ms, instant_to_ms(table.instant, zone))
    seen = _as_seen(table, state, instant_from_ms(created_ms, zone))
    pace, policy = pace_again(policy, table.pace), _as_learned(policy, table, seen)
    return build_table_plan(policy, seen, now_ms=now_ms, clock_ms=clock_ms, pace=pace)


def _as_learned(policy: Policy, table: TablePlan, state: TableState) -> Policy:
    """A policy that learns its `data_latency` with that of the plan, where it may have been that long."""
    learned, evidence, latency_ms = policy.learned_latency, table.latency_evidence, table.data_latency_ms
    if learned is None or evidence is None or latency_ms is None:
        return policy
    promise = promise_of(policy, state)
    is_held = promise is not None and table.now_ms == promise.threshold_ms + latency_ms
    if not (is_held or learned.at_least_ms <= latency_ms <= learned.at_most_ms):
        return policy
    return policy.model_copy(update={"data_latency_ms": latency_ms, "latency_evidence": evidence})


def _as_seen(table: TablePlan, state: TableState, created: str) -> TableState:
    """The table less what began or completed since; what is on the active timeline no more was seen, archived or not yet.

    What is pending now forbids a compaction, as `find_stale` says, but not a plan that does nothing.
    """
    known, idle = set(table.seen.instants_completed), table.action == "nothing_due"
    since = {i.requested for i in state.instants if i.state == "completed" and i.requested not in known}
    begun = {i.requested for i in state.instants if i.state != "completed" and (idle or i.requested > created)}

    def seen(file_slice: FileSlice) -> FileSlice:
        return replace(file_slice, log_files=tuple(f for f in file_slice.log_files if f.requested not in since))

    kept = (seen(one) for one in state.slices if one.base_file is None or one.base_instant not in since)
    slices = tuple(one for one in kept if one.base_file is not None or one.log_files)
    done = merged_by(state.instants)  # what was written beside one of them may not have been seen yet
    return replace(
        state,
        instants=tuple(i for i in state.instants if i.requested not in since and i.requested not in begun),
        slices=slices,
        exposed=state.exposed.difference(left_behind(state.slices, done).keys() - left_behind(slices, done).keys()),
        living_writers=frozenset(filter(None, (table.seen.oldest_writer,))),
        writes_in_flight=(),
        write_growth=table.seen.write_growth,
    )


def _differences(table: TablePlan, again: TablePlan) -> Iterator[str]:
    if again.action == "refused":
        yield f"the table could not have been planned: {again.reason}"
        return
    for name in _DECIDING:
        planned, derived = getattr(table, name), getattr(again, name)
        if planned != derived:
            yield f"its `{name}` is {_short(planned)}, and {_short(derived)} follows"
    if table.seen.last_completed != again.seen.last_completed:
        yield f"its `seen.last_completed` is {table.seen.last_completed}, and {again.seen.last_completed} follows"
    yield from _different_operations(table.operations, again.operations)


def _different_operations(planned: tuple[Operation, ...], derived: tuple[Operation, ...]) -> Iterator[str]:
    given, due = ({one.group: one for one in operations} for operations in (planned, derived))
    if len(given) != len(planned):
        yield "it compacts a file group twice"
    for partition, file_id in due.keys() - given.keys():
        yield f"file group {file_id} in `{partition}` is due, and not in it"
    for key, operation in given.items():
        if due.get(key) != operation:
            yield f"what it does to file group {operation.file_id} in `{operation.partition}` does not follow"


def _short(value: object) -> str:
    """A value of a plan, of which somebody may have made a very long one."""
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
