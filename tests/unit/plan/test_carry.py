"""Partial compaction on table version 6, against a model of how Hudi reads the old slice and the new one."""

import random
from dataclasses import replace

import pytest

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.carry import find_obstacle, is_carried_name, log_order
from etc_policy.plan.refusals import Facts
from etc_policy.plan.rules import Moment, changed_since_carried, find_stale, first_objection
from etc_policy.policy.manifest import Strategy
from etc_policy.table.state import FileSlice, Instant, LogFile, WriteInFlight
from tests.unit.plan.plan_cases import epoch_ms, instant
from tests.unit.plan.states import NOW, POLICY, STATE, with_instant, with_slice

B = instant("08:00:00")
CARRYING = POLICY.model_copy(update={"strategy": Strategy(granularity="log_file", carry="auto")})
#: Rows by log file: (key, value, event time).
Rows = dict[str, list[tuple[int, str, int]]]


def log_name(version, token="0-1-0", base=B):
    return f".f1_{base}.log.{version}_{token}"


def state_of(logs):
    one = FileSlice("p", "f1", B, "f1.parquet", 1, tuple(logs))
    base = Instant(B, "deltacommit", "completed", B)
    return replace(STATE, table_version=6, slices=(one,), instants=(base,))


def logs_of(*events):
    return [LogFile(log_name(n), 10, B, B, epoch_ms(at) if at else None) for n, at in enumerate(events, 1)]


def plan_of(state, policy=CARRYING):
    return build_table_plan(policy, state, now_ms=NOW, clock_ms=NOW)


def merged(names: list[str], rows: Rows, before: dict, *, by_event_time: bool) -> dict:
    """The rows of a base file with these log files on it, in the order in which Hudi reads them."""
    found = dict(before)
    for name in sorted(names, key=log_order):
        for key, value, at in rows[name]:
            if not by_event_time or key not in found or at >= found[key][1]:
                found[key] = (value, at)
    return found


@pytest.mark.parametrize("seed", range(300))
def test_both_slices_read_the_same_whatever_is_carried(seed):
    chance = random.Random(seed)
    names = [log_name(0, f"{100_000 + n}-0-0") for n in range(chance.choice([0, 0, 3, 12]))]
    names += [
        log_name(n, f"{chance.randrange(20)}-{chance.randrange(200)}-7") for n in range(1, chance.randrange(2, 14))
    ]
    hours = [chance.choice(["10:00:00", "11:30:00", "11:40:00"]) for _ in names]
    logs = [
        LogFile(name, 10, B, B, chance.choice([epoch_ms(at), epoch_ms(at), None]))
        for name, at in zip(names, hours, strict=True)
    ]
    chance.shuffle(logs)
    rows = {
        name: [(chance.randrange(4), f"{n}", chance.randrange(9)) for _ in range(2)] for n, name in enumerate(names)
    }
    table = plan_of(state_of(logs))
    if table.action == "nothing_due":
        assert all(one.min_event_time_ms > table.threshold_ms for one in logs)
        return
    (operation,) = table.operations
    due = {one.name for one in logs if one.min_event_time_ms is None or one.min_event_time_ms <= table.threshold_ms}
    assert due <= set(operation.log_files_compacted)
    assert sorted(names) == sorted((*operation.log_files_compacted, *operation.log_files_remaining))
    assert operation.log_files_remaining == tuple(one.target for one in operation.carried)
    assert all(is_carried_name(one.name) and table.instant in one.name for one in operation.carried)
    rows |= {one.name: rows[one.target] for one in operation.carried}
    new = log_name(1, base=table.instant)
    rows[new] = [(0, "new", 8)]
    for by_event_time in (True, False):
        base = {0: ("base", 0)}
        compacted = merged(list(operation.log_files_compacted), rows, base, by_event_time=by_event_time)
        after = merged([*(one.name for one in operation.carried), new], rows, compacted, by_event_time=by_event_time)
        old = merged(names, rows, base, by_event_time=by_event_time)
        assert after == merged([new], rows, old, by_event_time=by_event_time)


def test_each_files_own_choice_would_lose_a_row():
    """The RFC's `filterLogFiles` picks due files wherever they stand: a deleted row comes back (facts: prefix-not-pick)."""
    first, second = log_name(1), log_name(2)
    rows = {first: [(1, "written", 900)], second: [(1, "deleted", 910), (2, "late", 100)]}
    right = merged([first, second], rows, {}, by_event_time=False)
    picked = merged([second], rows, {}, by_event_time=False)
    assert merged([first], rows, picked, by_event_time=False)[1] == ("written", 900) != right[1]
    (operation,) = plan_of(state_of(logs_of("11:30:00", "10:00:00"))).operations
    assert (operation.log_files_compacted, operation.carried) == ((first, second), ())


def test_twelve_carried_files_keep_their_order_as_texts():
    (operation,) = plan_of(state_of(logs_of("10:00:00", *["11:30:00"] * 12))).operations
    names = [one.name for one in operation.carried]
    assert len(names) == 12
    assert names == sorted(names, key=log_order) == sorted(names)
    assert all(log_order(name) < log_order(log_name(1, base=instant("12:00:00"))) for name in names)


class TestStale:
    STATE = state_of(logs_of("10:00:00", "11:30:00"))

    def stale(self, state, *, published=False):
        return find_stale(CARRYING, plan_of(self.STATE), state, published=published)

    def test_as_planned_it_is_not(self):
        assert self.stale(self.STATE) == ()

    @pytest.mark.parametrize("published", [False, True])
    def test_where_a_log_file_that_stays_has_grown_or_gone_it_is(self, published):
        for changes in ({"size_bytes": 11}, {"name": log_name(3)}):
            first, second = self.STATE.slices[0].log_files
            changed = with_slice(self.STATE, "f1", log_files=(first, second._replace(**changes)))
            assert self.stale(changed, published=published) == ("the log files of file group f1 in `p` changed",)

    def test_where_the_timeline_has_passed_it_it_is(self):
        later = with_instant(self.STATE, "12:00:01", "deltacommit", completed="12:00:01")
        assert self.stale(later) == ("an instant at 20260101120001000 is not before the plan's",)

    def test_before_its_commit_what_was_written_into_the_new_slice_does_not_count(self):
        table = plan_of(self.STATE)
        added = LogFile(log_name(1, base=table.instant), 5, table.instant, table.instant, None)
        files = self.STATE.slices[0].log_files
        beside = with_slice(self.STATE, "f1", log_files=(*files, added))
        assert changed_since_carried(Facts(CARRYING, beside, None, table.instant, table.operations)) is None
        into_the_old = with_slice(self.STATE, "f1", log_files=(*files, added._replace(name=log_name(3), requested=B)))
        found = changed_since_carried(Facts(CARRYING, into_the_old, None, table.instant, table.operations))
        assert found.reason == "the log files of file group f1 in `p` changed"

    def test_before_its_commit_no_older_writer_may_live(self):
        table = plan_of(self.STATE)
        cases = (("11:59:59", True, True), ("11:59:59", False, False), ("12:00:01", True, False))
        for requested, may_live, objects in cases:
            state = replace(self.STATE, writes_in_flight=(WriteInFlight(instant(requested), None, may_live),))
            found = changed_since_carried(Facts(CARRYING, state, None, table.instant, table.operations))
            assert (found is not None and "has not ended" in found.reason) == objects


def test_what_writers_add_to_the_slices_of_a_pending_plan_does_not_take_it_back():
    """It could not be withdrawn any more: also where another slice of the plan is merged whole, as it holds deletes."""
    first = state_of(logs_of("10:00:00", "11:30:00"))
    other = replace(first.slices[0], file_id="f2")
    name = log_name(1).replace("f1", "f2")
    whole = replace(other, log_files=(LogFile(name, 10, B, B, epoch_ms("10:00:00"), has_deletes=True),))
    state = replace(first, slices=(*first.slices, whole))
    table = plan_of(state)
    assert [bool(one.carried) for one in table.operations] == [True, False]
    added = LogFile(name.replace(B, table.instant), 5, table.instant, table.instant, None)
    beside = with_slice(state, "f2", log_files=(*whole.log_files, added))
    facts = Facts(CARRYING, beside, None, table.instant, table.operations)
    assert first_objection(Moment.PENDING, facts, spoils=True) is None


@pytest.mark.parametrize(("carry", "refused"), [("auto", False), ("copy", False), ("hard_link", True)])
def test_an_object_store_has_copies_and_no_hard_links(carry, refused):
    state = replace(state_of(logs_of("10:00:00")), base_path="s3://bucket/t", metadata_partitions=("files",))
    obstacle = find_obstacle(
        POLICY.model_copy(update={"strategy": Strategy(granularity="log_file", carry=carry)}), state
    )
    assert (obstacle is not None and "no hard links" in obstacle[0]) == refused
    assert refused or obstacle is None


@pytest.mark.parametrize("carry", ["auto", "copy"])
def test_where_writers_append_to_log_files_none_is_carried(carry):
    """Hudi 0.x would append to the carried one, and the plan could be neither finished nor withdrawn."""
    policy = POLICY.model_copy(update={"strategy": Strategy(granularity="log_file", carry=carry)})
    state = replace(state_of(logs_of("10:00:00")), metadata_partitions=("files",))
    assert find_obstacle(policy, state) is None
    reason, hint = find_obstacle(policy, replace(state, logs_grow=True))
    assert ("append" in reason, hint.startswith("set `granularity: file_slice`")) == (True, True)
