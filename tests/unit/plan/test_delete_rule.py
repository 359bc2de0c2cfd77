from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.delete_rule import find_overtaken, groups_with_deletes, writes_beside
from etc_policy.plan.explainer import explain_plan
from etc_policy.plan.model import make_plan
from etc_policy.plan.skipped_slices import ContendedSlices
from etc_policy.policy.manifest import Strategy, Writer
from etc_policy.table.double_keys import SEES_LOG_FILES
from etc_policy.table.state import LogFile, WriteInFlight
from tests.unit.plan.plan_cases import instant, state_of
from tests.unit.plan.states import NOW, POLICY, slice_of, with_instant, with_slice

F1, F2 = ("p", "f1"), ("p", "f2")
STATE = state_of(
    "/t",
    {
        "slices": {
            "p/f1": {"base": "08:00:00", "logs": {"L1": "10:10:00 > 10:10:05, deletes"}},
            "p/f2": {"base": "08:00:00", "logs": {"L2": "10:20:00 > 10:20:05, event 10:05:00"}},
        }
    },
)
PLAN = build_table_plan(POLICY, STATE, now_ms=NOW, clock_ms=NOW)
LATER = LogFile("L9", 1, instant("11:59:00"), instant("11:59:05"), NOW)
UNKNOWN = LogFile("L8", 1, instant("11:40:00"), instant("11:40:05"), None)


def instants_of(state):
    return frozenset(one.requested for one in state.instants)


KNOWN = instants_of(STATE)


def added_to(file_id, state=STATE):
    return with_slice(state, file_id, log_files=(*slice_of(state, file_id).log_files, LATER))


def in_flight(groups, *, may_live=True):
    return replace(STATE, writes_in_flight=(WriteInFlight(instant("11:59:00"), groups, may_live),))


def with_record_index(state):
    return replace(state, metadata_partitions=("files", "record_index"))


def overtaken(state, index=None):
    policy = POLICY.model_copy(update={"writer": Writer(index=index)})
    return find_overtaken(policy, PLAN.operations, state)


def test_the_plan_of_these_tests_compacts_a_delete_in_one_of_two_slices():
    assert {(o.partition, o.file_id) for o in PLAN.operations} == {F1, F2}
    assert groups_with_deletes(PLAN.operations, STATE) == {F1}


@pytest.mark.parametrize(
    "state",
    [
        STATE,
        added_to("f2"),
        in_flight(frozenset({F2})),
        in_flight(frozenset()),
        in_flight(frozenset({F1}), may_live=False),
        in_flight(None, may_live=False),
        replace(STATE, slices=tuple(s for s in STATE.slices if s.file_id != "f1")),
    ],
)
def test_what_is_not_in_the_way(state):
    assert overtaken(state) == ()


@pytest.mark.parametrize("index", [None, "bucket", "simple"])
def test_a_log_file_that_was_added_is_whatever_the_index(index):
    """A delete with an event time hides later upserts of an earlier time only while it is in the log."""
    (found,) = overtaken(added_to("f1"), index)
    assert (found.group, found.waits) == (F1, False)
    assert "L9 was added to file group f1 in `p`" in found.why


@pytest.mark.parametrize("groups", [None, frozenset({F1}), frozenset({F1, F2})])
@pytest.mark.parametrize("index", [None, "simple", "bloom", "global_simple", "global_bloom", "hbase", "unknown"])
def test_a_write_in_flight_is_where_the_index_reads_base_files_alone(groups, index):
    (found,) = overtaken(in_flight(groups), index)
    assert (found.group, found.waits) == (F1, True)
    assert instant("11:59:00") in found.why


@pytest.mark.parametrize("index", sorted(SEES_LOG_FILES))
def test_a_write_in_flight_is_not_where_the_index_finds_keys_in_log_files(index):
    assert overtaken(with_record_index(in_flight(None)), index) == ()


@pytest.mark.parametrize("index", ["record_index", "global_record_index"])
def test_it_is_where_the_record_index_is_not_there(index):
    """Its writers look keys up in base files then (facts: record-index-falls-back)."""
    (found,) = overtaken(in_flight(None), index)
    assert (found.group, found.waits) == (F1, True)


def test_a_compacted_log_file_that_is_gone_may_have_held_deletes():
    state = with_slice(STATE, "f2", log_files=(LATER,))
    assert [one.group for one in overtaken(state)] == [F2]


@given(st.sets(st.sampled_from(["f1", "f2"])), st.sets(st.sampled_from([F1, F2])), st.booleans(), st.booleans())
def test_what_may_be_committed_parts_no_delete_from_a_later_write(added, written, is_known, may_live):
    state = STATE
    for file_id in added:
        state = added_to(file_id, state)
    write = WriteInFlight(instant("11:59:00"), frozenset(written) if is_known else None, may_live)
    state = replace(state, writes_in_flight=(write,))
    touched = F1 in written or not is_known
    assert bool(overtaken(state)) == ("f1" in added or (may_live and touched))
    assert bool(overtaken(state, "bucket")) == ("f1" in added)


@pytest.mark.parametrize("may_live", [True, False])
def test_no_compaction_is_put_behind_the_write_of_a_writer_alone_on_its_table(may_live):
    """It keeps no heartbeat. A rollback of what it overtook moves C past its begin: time travel would miss its rows."""
    rolled_back = with_instant(STATE, "11:59:10", "rollback", completed="11:59:20", touched=["f1"])
    write = WriteInFlight(instant("11:59:00"), frozenset({F1}), may_live)
    begun = with_instant(replace(rolled_back, writes_in_flight=(write,)), "11:59:00", "deltacommit")
    table = build_table_plan(POLICY, begun, now_ms=NOW, clock_ms=NOW)
    left = {one.reason for one in table.left_out}
    assert (table.instant < instant("11:59:00"), "due_but_behind_a_writer" in left) == (may_live, may_live)
    assert {one.file_id for one in table.operations} == ({"f2"} if may_live else {"f1", "f2"})


class TestWritesBeside:
    DONE = instant("12:00:00")

    def test_one_that_began_and_has_added_a_log_file(self):
        after = added_to("f1", with_instant(STATE, "11:59:00", "deltacommit", completed="11:59:05"))
        assert writes_beside(POLICY, frozenset({F1}), KNOWN, after, self.DONE) == (instant("11:59:00"),)
        assert writes_beside(POLICY, frozenset({F2}), KNOWN, after, self.DONE) == ()
        assert writes_beside(POLICY, frozenset({F1}), instants_of(after), after, self.DONE) == ()

    def test_one_that_began_and_may_add_one(self):
        assert writes_beside(POLICY, frozenset({F1}), KNOWN, in_flight(None), self.DONE) == (instant("11:59:00"),)
        assert writes_beside(POLICY, frozenset({F1}), KNOWN, in_flight(frozenset({F2})), self.DONE) == ()

    def test_one_that_began_after_the_commit_has_seen_it(self):
        assert writes_beside(POLICY, frozenset({F1}), KNOWN, in_flight(None), instant("11:58:00")) == ()

    def test_before_version_8_one_in_the_slice_that_the_compaction_began(self):
        """There its log file bears the compaction's instant, which is all that is known of when that completed."""
        old = with_instant(replace(STATE, table_version=6), "11:59:00", "deltacommit", completed="11:59:00")
        done, known = instant("11:58:00"), frozenset(one for one in instants_of(old) if one < instant("11:58:00"))
        after = with_slice(old, "f1", base_instant=done, log_files=(LogFile("L9", 1, done, done, None),))
        assert writes_beside(POLICY, frozenset({F1}), known, after, done) == (instant("11:59:00"),)
        assert writes_beside(POLICY, frozenset({F2}), known, after, done) == ()
        begun = replace(old, writes_in_flight=in_flight(None).writes_in_flight)
        assert writes_beside(POLICY, frozenset({F1}), known, begun, done) == (instant("11:59:00"),)

    def test_one_beside_a_record_index_that_is_not_there(self):
        policy = POLICY.model_copy(update={"writer": Writer(index="record_index")})
        of = policy, frozenset({F1}), KNOWN
        assert writes_beside(*of, in_flight(None), self.DONE) == (instant("11:59:00"),)
        assert writes_beside(*of, with_record_index(in_flight(None)), self.DONE) == ()

    def test_nothing_where_the_index_finds_keys_in_log_files(self):
        policy = POLICY.model_copy(update={"writer": Writer(index="bucket")})
        assert writes_beside(policy, frozenset({F1}), KNOWN, in_flight(None), self.DONE) == ()


class TestLeavingOut:
    def plan(self, **contended):
        return build_table_plan(POLICY, STATE, now_ms=NOW, clock_ms=NOW, contended=ContendedSlices(**contended))

    @pytest.mark.parametrize("contended", [{"groups": frozenset({F1})}, {"all_deletes": True}])
    def test_what_writers_keep_adding_to_is_left_out_and_the_rest_goes_on(self, contended):
        table = self.plan(**contended)
        assert [operation.file_id for operation in table.operations] == ["f2"]
        left = {one.reason: one.file_slices for one in table.left_out}
        assert left == {"due_but_written_to": 1}
        assert table.left_out_though_due == 1
        assert any("1 file slice with deletes left out" in warning for warning in table.warnings)

    def test_what_does_not_fit_into_a_hold_is_left_for_later_runs(self):
        table = self.plan(hold_bytes=1)
        assert [operation.file_id for operation in table.operations] == ["f1"]
        assert {one.reason: one.file_slices for one in table.left_out} == {"due_but_beyond_hold": 1}
        assert any("1 file slice left for later runs" in warning for warning in table.warnings)
        assert "with the next run" in explain_plan(make_plan("", (table,)), explain=True)

    def test_the_threshold_is_before_all_that_they_may_hold(self):
        """Deletes by key have no event time: they came in at 10:10:05, at most an hour late."""
        table = self.plan(all_deletes=True)
        assert table.threshold_ms == NOW - (12 * 3600 - 9 * 3600 - 10 * 60 - 5) * 1000 - 1
        assert table.threshold_ms == table.watermark_after_ms < PLAN.threshold_ms

    def test_nothing_is_left_to_do(self):
        table = self.plan(groups=frozenset({F1, F2}))
        assert (table.action, table.reason_code) == ("refused", "writer_in_flight")
        assert {one.reason for one in table.left_out} == {"due_but_written_to"}
        assert "in flight" not in table.reason

    def test_a_writer_that_has_not_ended_is_named(self):
        """It may be dead: one that is alone on its table keeps no heartbeat."""
        state = in_flight(None)
        table = build_table_plan(
            POLICY, state, now_ms=NOW, clock_ms=NOW, contended=ContendedSlices(frozenset({F1, F2}))
        )
        assert (table.action, table.reason_code) == ("refused", "writer_in_flight")
        assert f"the writer that began at {instant('11:59:00')} has not ended" in table.reason
        assert any("if it is dead" in hint for hint in table.hints)
        some = build_table_plan(POLICY, state, now_ms=NOW, clock_ms=NOW, contended=ContendedSlices(frozenset({F1})))
        assert any(f"began at {instant('11:59:00')} has not ended" in warning for warning in some.warnings)

    def test_one_that_is_not_due_is_no_reason_to_lower_the_threshold(self):
        newer = added_to("f2", with_slice(STATE, "f2", log_files=()))
        table = build_table_plan(POLICY, newer, now_ms=NOW, clock_ms=NOW, contended=ContendedSlices(frozenset({F2})))
        assert (table.threshold_ms, table.left_out_though_due) == (PLAN.threshold_ms, 0)

    def test_rows_of_which_nobody_knows_the_time_are_not_left_behind(self):
        """A threshold was committed by the promise on latency, over rows that may be older than it."""
        state = with_slice(STATE, "f1", log_files=(*slice_of(STATE, "f1").log_files, UNKNOWN))
        table = build_table_plan(POLICY, state, now_ms=NOW, clock_ms=NOW, contended=ContendedSlices(frozenset({F1})))
        assert (table.action, table.reason_code) == ("refused", "unknown_left_out")
        assert "writers that keep adding to its file slice leave it out" in table.reason

    def test_what_is_left_out_is_not_said_to_be_compacted(self):
        state = with_slice(STATE, "f2", log_files=(*slice_of(STATE, "f2").log_files, UNKNOWN))
        table = build_table_plan(POLICY, state, now_ms=NOW, clock_ms=NOW, contended=ContendedSlices(frozenset({F1})))
        assert any(one.startswith("1 log file of 3 without a known event time") for one in table.warnings)

    def test_what_others_leave_out_is_not_blamed_for_it(self):
        """A slice of another partition, all of it known, is left out too."""
        state = with_slice(STATE, "f1", log_files=(*slice_of(STATE, "f1").log_files, UNKNOWN))
        state = replace(
            state, slices=tuple(replace(s, partition="q") if s.file_id == "f2" else s for s in state.slices)
        )
        policy = POLICY.model_copy(update={"strategy": Strategy(granularity="log_file", partitions=("p",))})
        more = replace(state, slices=(*state.slices, replace(slice_of(STATE, "f2"), file_id="f3")))
        table = build_table_plan(policy, more, now_ms=NOW, clock_ms=NOW, contended=ContendedSlices(frozenset({F1})))
        assert (table.reason_code, "writers that keep adding" in table.reason) == ("unknown_left_out", True)
