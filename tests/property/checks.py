"""The promises of a plan, checked on one history. Each broken one is an AssertionError that says what was promised."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.hold import slice_bytes
from etc_policy.plan.model import TablePlan
from etc_policy.plan.skipped_slices import ContendedSlices
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.state import FileSlice, LogFile, TableState
from tests.property.expected_cut import (
    broken_rules,
    cut_bounds,
    due_slices,
    first_valid_cut,
    is_due,
    must_be_refused,
    split,
)
from tests.property.history import EVENT_ZERO_MS, LATENCY_MS, START_MS, History
from tests.property.leaving_out import bytes_of, check_budget, check_threshold_without, has_unknown, limited_plan
from tests.property.model import Row, Table, cut_time, instant_text, instant_time, publish_plan

Rows = dict[str, dict[int, Row]]
LATER_STEPS = 6
#: Every event is due.
EVER = 10**15


def check(data: bytes, *, readers_only: bool = False) -> str:
    """The action that was planned for the history of these bytes; raises AssertionError where a promise is broken.

    `readers_only` looks at nothing but what readers and later writers see, and not at the rules that lead there.
    """
    history = History(data)
    state, policy = history.state(), history.policy()
    now, clock = history.threshold + LATENCY_MS, history.clock - history.offset_ms
    plan = build_table_plan(policy, state, now_ms=now, clock_ms=clock)
    if not readers_only:
        assert plan == build_table_plan(policy, history.state(), now_ms=now, clock_ms=clock), "plans differ"
        assert plan.threshold_ms == history.threshold, "T is not now - data_latency"
        check_action(history, state, plan)
        check_watermark_before(history, state, plan)
    if plan.action == "compact":
        if not readers_only:
            check_operations(state, plan)
            check_cut(history, state, plan)
        check_readers(history, plan)
        if not readers_only:
            check_watermark_after(history, plan)
        check_later_writes(data, history, plan)
    if not readers_only:
        check_beside_living_writers(data)
        check_what_a_policy_leaves_out(data, plan)
        if plan.action == "compact":
            check_busy_slices(data, plan)
            check_hold(data, plan)
    return plan.action


def check_what_a_policy_leaves_out(data: bytes, whole: TablePlan) -> None:
    """Within a budget, and in some partitions alone, a plan does what it can, and promises no more than that."""
    if whole.action != "compact":
        return
    limit = bytes_of(whole) * (1 + data[0] % 4) // 5
    history, partition = History(data), whole.operations[0].partition
    state = history.state()
    in_budget = limited_plan(history, state, max_io_bytes=limit)
    in_partition = limited_plan(history, state, partitions=(partition,))
    unknown = has_unknown(due_slices(state, history.threshold))
    for plan in (in_budget, in_partition):
        assert plan.action == "compact" or unknown or history.options, f"refused: {plan.reason}"
        if plan.action == "compact":
            check_operations(state, plan)
            check_threshold_without(history, state, plan)
    if in_budget.action == "compact":
        check_budget(history, state, in_budget, limit)
        history.threshold = in_budget.threshold_ms
        check_readers(history, in_budget)
    if in_partition.action == "compact":
        assert {one.partition for one in in_partition.operations} == {partition}, "another partition"
        history = History(data)
        history.threshold = in_partition.threshold_ms
        check_readers(history, in_partition)


def check_beside_living_writers(data: bytes) -> None:
    """Told of the writes in flight, a plan stays before them: it merges what it can, and promises no more than that."""
    history = History(data)
    writers = [write.commit.requested for write in history.writers.open]
    if not writers:
        return
    living, policy = frozenset(map(instant_text, writers)), history.policy()
    state = replace(history.state(), living_writers=living)
    now, clock = history.threshold + LATENCY_MS, history.clock - history.offset_ms
    plan = build_table_plan(policy, state, now_ms=now, clock_ms=clock)
    due = due_slices(state, history.threshold)
    possible = [one for one in due if _can_be_cut(history, state, one, min(writers))]
    if plan.action != "compact":
        logs = [log for one in due for log in one.log_files]
        unknown = any(log.min_event_time_ms is None and not log.unknown_is_deletes for log in logs)
        excused = must_be_refused(state) or policy.hudi_options or plan.reason_code == "too_young" or unknown
        assert plan.action == "nothing_due" or not possible or excused, (
            f"{plan.reason}, though {possible[0].file_id} could be compacted"
        )
        return
    assert cut_time(plan) < min(writers), "C is not before a writer in flight"
    chosen = {(operation.partition, operation.file_id) for operation in plan.operations}
    assert chosen <= {(one.partition, one.file_id) for one in possible} or policy.hudi_options, (
        "a slice that has no cut"
    )
    check_operations(state, plan)
    _check_what_writers_leave(history, state, plan)


def check_busy_slices(data: bytes, whole: TablePlan) -> None:
    """Without a slice that writers kept adding to: all else that is due is compacted, and T is before what the slice holds."""
    history, busy = History(data), whole.operations[data[0] % len(whole.operations)].group
    state, due = history.state(), {operation.group for operation in whole.operations}
    now, clock = history.threshold + LATENCY_MS, history.clock - history.offset_ms
    without = ContendedSlices(frozenset({busy}))
    plan = build_table_plan(history.policy(), state, now_ms=now, clock_ms=clock, contended=without)
    if due == {busy}:
        assert plan.action == "refused", "there is nothing else to be compacted"
        return
    logs = [log for one in state.slices if one.group == busy for log in one.log_files]
    unknown = any(log.min_event_time_ms is None and not log.unknown_is_deletes for log in logs)
    if plan.action != "compact":
        assert unknown or history.options, f"refused: {plan.reason}"
        return
    assert {operation.group for operation in plan.operations} == due - {busy}, "not all others are compacted"
    check_operations(state, plan)
    _check_what_writers_leave(history, state, plan)


def check_hold(data: bytes, whole: TablePlan) -> None:
    """While writers are kept out: those slices first that hold RO back, as many as fit, and T is before what the others hold."""
    history, slices = History(data), len(whole.operations)
    state, limit = history.state(), 1 + data[0] % slices
    now, clock = history.threshold + LATENCY_MS, history.clock - history.offset_ms
    held = ContendedSlices(hold_bytes=slice_bytes(0, 0) * limit)
    plan = build_table_plan(history.policy(), state, now_ms=now, clock_ms=clock, contended=held)
    if plan.action != "compact":
        assert history.options, f"refused: {plan.reason}"
        return
    chosen = {operation.group for operation in plan.operations}
    due = [one for one in state.slices if one.group in {operation.group for operation in whole.operations}]
    bounds = {one.group: min(_latest_known_ms(history, log) for log in one.log_files) for one in due}
    must = {one.group for one in due if bounds[one.group] < 0} | state.exposed
    assert len(chosen) == max(limit, len(must & bounds.keys())), "not as many as fit"
    inside, outside = chosen - must, bounds.keys() - chosen
    ordered = not inside or not outside or max(bounds[one] for one in inside) <= min(bounds[one] for one in outside)
    assert ordered, "what holds RO back is left out"
    check_operations(state, plan)
    _check_what_writers_leave(history, state, plan)


def _latest_known_ms(history: History, log: LogFile) -> int:
    """Before which event RO is complete without the log file; below 0 where nobody knows."""
    if log.min_event_time_ms is not None:
        return log.min_event_time_ms
    return instant_to_ms(log.completed, ZoneInfo(history.zone)) - LATENCY_MS if log.unknown_is_deletes else -1


def _check_what_writers_leave(history: History, state: TableState, plan: TablePlan) -> None:
    """No row of unknown event time is left out, T is before all that is, and readers find what it promises."""
    chosen = {operation.group for operation in plan.operations}
    bounds = [history.threshold]
    for log in (
        log for one in due_slices(state, history.threshold) if one.group not in chosen for log in one.log_files
    ):
        assert log.min_event_time_ms is not None or log.unknown_is_deletes, "a row of unknown event time is left out"
        happened = instant_to_ms(log.completed, ZoneInfo(history.zone)) - LATENCY_MS  # of a delete by key
        bounds.append((happened if log.min_event_time_ms is None else log.min_event_time_ms) - 1)
    assert plan.threshold_ms == min(bounds), "T is not what is left out"
    history.threshold = plan.threshold_ms
    check_readers(history, plan)


def _can_be_cut(history: History, state: TableState, one: FileSlice, writer: int) -> bool:
    threshold = EVER if history.granularity == "file_slice" else history.threshold
    alone = replace(state, slices=(one,))
    first = first_valid_cut(history.policy(), alone, threshold, history.clock, delete_rule=True)
    return first is not None and first < writer


def check_action(history: History, state: TableState, plan: TablePlan) -> None:
    """Refused, nothing due and compact each exactly where they belong."""
    due = due_slices(state, history.threshold)
    if must_be_refused(state):
        assert plan.action == "refused", f"nothing may be planned, and the plan says {plan.action}"
    elif not due:
        assert plan.action == "nothing_due", f"nothing is due, and the plan says {plan.action}: {plan.reason}"
    elif history.granularity == "log_file":
        earliest, latest = cut_bounds(history.policy(), state, history.threshold, history.clock)
        expected = {"refused"} if earliest is None else {"compact"} if latest is not None else {"compact", "refused"}
        assert plan.action in expected, f"{expected} was right (C {earliest}), not {plan.action}: {plan.reason}"
    else:
        assert plan.action != "nothing_due", "something is due"
    assert (plan.action == "compact") == bool(plan.operations), "operations where nothing is to be done, or none"
    if plan.action == "refused":
        assert plan.reason and plan.reason_code, "a refusal without its reason"


def check_watermark_before(history: History, state: TableState, plan: TablePlan) -> None:
    """One ms before the smallest event time in log files; an unknown one can only hold it back further."""
    logs = [log for one in state.slices for log in one.log_files]
    known = [log.min_event_time_ms for log in logs if log.min_event_time_ms is not None]
    ahead = history.offset_ms + LATENCY_MS
    unknown = [instant_time(log.completed) - ahead for log in logs if log.min_event_time_ms is None]
    expected = min(known + unknown, default=None)
    promised = None if expected is None else expected - 1
    assert plan.watermark_before_ms == promised, f"watermark before is {plan.watermark_before_ms}, not {promised}"
    if plan.action != "refused":
        assert plan.unknown_log_files == len(unknown), "log files of unknown event time miscounted"


def check_operations(state: TableState, plan: TablePlan) -> None:
    """Operations name real files of latest slices, each once, and their bytes."""
    slices = {(one.partition, one.file_id): one for one in state.slices}
    assert len({(op.partition, op.file_id) for op in plan.operations}) == len(plan.operations), "a slice twice"
    for op in plan.operations:
        one = slices[op.partition, op.file_id]
        assert (op.base_instant, op.base_file) == (one.base_instant, one.base_file), "not the latest slice"
        names = [log.name for log in sorted(one.log_files, key=lambda log: (log.requested, log.name))]
        assert sorted(op.log_files_compacted + op.log_files_remaining) == sorted(names), "log files lost or made up"
        compacted = [name for name in names if name in op.log_files_compacted]
        assert list(op.log_files_compacted) == compacted, "compacted log files are not in merge order"
        size = sum(log.size_bytes for log in one.log_files if log.name in op.log_files_compacted)
        assert op.log_bytes_compacted == size, "bytes of compacted log files"
        assert op.bytes_read == size + one.base_file_bytes, "bytes read"


def check_cut(history: History, state: TableState, plan: TablePlan) -> None:
    """C keeps every rule, nothing due stays behind, and no more is compacted than the rules ask for."""
    chosen = due_slices(state, history.threshold)
    assert {op.file_id for op in plan.operations} == {one.file_id for one in chosen}, (
        "not exactly the slices with due log files"
    )
    instant = cut_time(plan)
    delete_rule = not history.writers.indexes_logs
    broken = list(broken_rules(instant, history.policy(), state, chosen, history.clock, delete_rule=delete_rule))
    assert not broken, f"C {plan.instant}: {'; '.join(broken)}"
    operations = {op.file_id: op for op in plan.operations}
    for one in chosen:
        before, after = split(one, instant)
        op = operations[one.file_id]
        assert {log.name for log in before} == set(op.log_files_compacted), (
            f"{one.file_id}: C does not divide as planned"
        )
        assert not any(is_due(log, history.threshold) for log in after), f"{one.file_id}: a due log file remains"
        assert history.granularity == "log_file" or not after, f"{one.file_id}: not the whole slice"
    if history.granularity == "log_file":
        earliest, latest = cut_bounds(history.policy(), state, history.threshold, history.clock)
        for one in chosen:
            merged = len(operations[one.file_id].log_files_compacted)
            assert merged >= len(split(one, earliest or 0)[0]), f"{one.file_id}: less than needed"
            assert latest is None or merged <= len(split(one, latest)[0]), f"{one.file_id}: more than needed"


def check_readers(history: History, plan: TablePlan) -> None:
    """RT, time travel and incremental are the same before, while pending and after; RO is complete up to T."""
    table, instant = history.table, cut_time(plan)
    before, ro_before = views(table, instant), table.ro()
    publish_plan(table, plan)
    assert_same(before, views(table, instant), "while the plan is pending")
    assert table.ro() == ro_before, "RO changed while the plan is pending"
    table.execute(instant, history.clock)
    assert_same(before, views(table, instant), "after the plan")
    ro = table.ro()
    for file_id, rows in table.rt().items():
        for key, row in rows.items():
            complete = row.event > history.threshold or ro.get(file_id, {}).get(key) == row
            assert complete, f"RO lacks key {key} of {file_id}: {row}, it has {ro.get(file_id, {}).get(key)}"


def check_watermark_after(history: History, plan: TablePlan) -> None:
    """The watermark that was predicted is the one that is measured; no log file of unknown event time was left."""
    left = [log.min_event_time_ms for one in history.state().slices for log in one.log_files]
    known = [event for event in left if event is not None]
    assert len(known) == len(left), "a log file of unknown event time was left"
    measured = min(known) - 1 if known else None
    assert plan.watermark_after_ms == measured, f"watermark after is {measured}, not {plan.watermark_after_ms}"


def views(table: Table, instant: int) -> dict[str, Rows]:
    """What every reader sees: RT, incremental by commit, time travel to every commit and around C."""
    commits = [c for c in table.timeline.values() if c.action == "deltacommit" and c.completed is not None]
    requested = sorted(commit.requested for commit in commits)
    found = {"RT": table.rt(), "incremental of all": table.incremental(frozenset(requested))}
    for at in requested:
        found[f"incremental of {instant_text(at)}"] = table.incremental(frozenset({at}))
    for time in {*requested, *(commit.completed for commit in commits), instant - 1, instant, instant + 1}:
        assert time is not None
        found[f"time travel to {instant_text(time)}"] = table.as_of(time)
    return found


def assert_same(before: dict[str, Rows], now: dict[str, Rows], when: str) -> None:
    """No reader sees a difference."""
    for reader, rows in before.items():
        assert now[reader] == rows, f"{reader} changed {when}: {rows} became {now[reader]}"


def check_later_writes(data: bytes, history: History, plan: TablePlan) -> None:
    """Writers go on by their index: no key comes to stand twice that would not without the plan."""
    deletes = any(_has_deletes(history.table, name) for op in plan.operations for name in op.log_files_compacted)
    if not deletes and not history.writers.open:
        check_writers_beside(data, plan)
    go_on(history, finish_open=not deletes or history.writers.indexes_logs)
    twice = history.table.keys_twice()
    if twice:
        twin = History(data)
        # Overlapping writers and a stock compaction can have split a key over two groups before the plan was made.
        excused = twin.table.keys_in_two_groups()
        go_on(twin, finish_open=not deletes or history.writers.indexes_logs)
        twice -= excused | twin.table.keys_twice()
        assert not twice, f"keys {sorted(twice)} stand twice after later writes"


def check_writers_beside(data: bytes, plan: TablePlan) -> None:
    """Writers that go on between publishing and executing end with the rows that they would have without the plan.

    Not where deletes are compacted: late data that comes after one is dropped by its tombstone only as long as that
    is not compacted, in stock Hudi too.
    """
    beside, alone = History(data), History(data)
    instant = publish_plan(beside.table, plan)
    go_on(beside, finish_open=True)
    beside.table.execute(instant, beside.tick())
    go_on(alone, finish_open=True)
    assert _values(beside.table) == _values(alone.table), "rows differ after writes beside the pending plan"


def _values(table: Table) -> list[tuple[int, int, int]]:
    return sorted((key, row.event, row.value) for rows in table.rt().values() for key, row in rows.items())


def go_on(history: History, *, finish_open: bool) -> None:
    """Open writes end, and each key is written again.

    They fail where a delete is compacted under an index over base files alone: a write that was tagged to the row
    before the compaction took it meets `delete-rule` of docs/facts in stock Hudi too, and no plan can know of it.
    """
    history.now = max(history.now, history.clock)
    for write in list(history.writers.open):
        if finish_open:
            history.complete(write)
        else:
            history.fail(write)
    for _ in range(LATER_STEPS):
        history.complete(history.begin())
    for key in range(history.keys):
        history.complete(history.rewrite(key))


def _has_deletes(table: Table, name: str) -> bool:
    return any(log.has_deletes for group in table.groups.values() for log in group.logs if log.name == name)


def describe(data: bytes) -> str:
    """The history of the bytes in words, for a report of a failure."""
    history = History(data)
    merging = "commit" if history.table.by_commit else "event"
    return "\n".join(
        [
            f"{history.granularity}, {merging}-time ordering, index {history.writers.index}, {history.zone}, {history.options}",
            f"times in ms from the start, events from their zero; T {history.threshold - EVENT_ZERO_MS}, "
            f"clock {history.clock - START_MS}",
            *history.trace,
        ]
    )
