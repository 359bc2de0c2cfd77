from dataclasses import replace

import pytest

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.stages import TablePlan
from etc_policy.plan.staleness import find_stale
from etc_policy.plan.table_state import Instant, LogFile
from tests.unit.plan.plan_cases import instant, state_of
from tests.unit.plan.states import NOW, PLAN, POLICY, STATE, C, slice_of, with_instant, with_slice


def stale(state, *, published=False):
    return "; ".join(find_stale(PLAN, state, published=published))


def test_the_plan_of_these_tests_cuts_between_two_commits():
    assert (PLAN.action, C) == ("compact", instant("10:10:05.001"))
    assert [operation.file_id for operation in PLAN.operations] == ["f1"]


def test_an_unchanged_table_fits():
    assert stale(STATE) == ""


@pytest.mark.parametrize(
    "state",
    [
        with_instant(STATE, "11:59:00", "deltacommit", completed="11:59:05"),
        with_instant(STATE, "11:59:00", "deltacommit"),
        with_instant(STATE, "11:59:00", "clean", completed="11:59:05"),
        with_instant(STATE, "10:00:00", "clean", completed="10:00:05"),
        with_instant(STATE, "10:00:00", "savepoint", completed="10:00:05"),
        with_instant(STATE, "11:59:00", "indexing", pending="requested"),
        with_instant(STATE, "11:59:00", "commit", completed="11:59:30", touched=["f2"]),
        with_instant(STATE, "11:59:00", "rollback", completed="11:59:30", touched=["f9"]),
        replace(STATE, metadata_instants=frozenset({instant("11:59:00")})),
        replace(STATE, living_writers=frozenset({instant("11:59:00")})),
        replace(STATE, slices=STATE.slices[:1]),
    ],
)
def test_what_does_not_touch_the_plan(state):
    assert stale(state) == ""


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (replace(STATE, properties_fingerprint="other"), "hoodie.properties changed"),
        (with_instant(STATE, "11:59:00", "compaction"), "a compaction at 20260101115900000 is pending"),
        (
            with_instant(STATE, "11:59:00", "clustering", pending="requested"),
            "a clustering at 20260101115900000 is pending",
        ),
        (with_instant(STATE, "11:59:00", "rollback"), "a rollback at 20260101115900000 is pending"),
        (with_instant(STATE, "11:59:00", "commit", completed="11:59:30", touched=["f1"]), "completed on the chosen"),
        (with_instant(STATE, "11:59:00", "replacecommit", completed="11:59:30", touched=["f1", "f8"]), "completed on"),
        (with_instant(STATE, "11:59:00", "rollback", completed="11:59:30", touched=["f1"]), "completed on the chosen"),
        (
            with_instant(STATE, "11:59:00", "restore", completed="11:59:30"),
            "a restore at 20260101115900000 completed on",
        ),
        (with_instant(STATE, "10:05:00", "deltacommit", completed="10:10:05"), "completed before the plan's instant"),
        (
            with_instant(STATE, "10:05:00", "commit", completed="10:10:04", touched=["f2"]),
            "completed before the plan's",
        ),
        (replace(STATE, metadata_instants=frozenset({C})), "no longer free: another instant has that time"),
        (with_instant(STATE, "10:10:05.001", "deltacommit", completed="11:59:00"), "another instant has that time"),
        (replace(STATE, living_writers=frozenset({instant("10:10:03")})), "still in flight"),
        (replace(STATE, slices=STATE.slices[1:]), "file group f1 in `p` is gone"),
        (with_slice(STATE, "f1", base_file="new.parquet"), "has a new base file"),
        (with_slice(STATE, "f1", base_instant=instant("09:00:00")), "has a new base file"),
        (with_slice(STATE, "f1", log_files=slice_of(STATE, "f1").log_files[1:]), "the log files of file group f1"),
    ],
)
def test_what_makes_a_plan_stale(state, said):
    assert said in stale(state)


def test_a_log_file_that_was_added_before_the_cut():
    added = LogFile("L9", 1, instant("10:00:00"), instant("10:05:00"), 1)
    state = with_slice(STATE, "f1", log_files=(added, *slice_of(STATE, "f1").log_files))
    assert "the log files of file group f1 in `p` changed" in stale(state)


def test_archiving_that_passed_the_instant():
    active = tuple(i for i in STATE.instants if i.requested > C)
    assert "archiving has reached" in stale(replace(STATE, instants=active))


def test_archiving_below_it_is_no_change():
    """What lies before the first commit that the plan had seen may be anything that was archived, or that moved back."""
    state = replace(STATE, instants=tuple(i for i in STATE.instants if i.requested >= instant("10:10:00")))
    assert stale(state) == ""


class TestPublished:
    """After publishing, our own requested plan is on the timeline, and is not counted against itself."""

    def test_ours_alone(self):
        ours = replace(STATE, instants=(*STATE.instants, Instant(C, "compaction", "requested")))
        assert stale(ours, published=True) == ""
        assert "is pending" in stale(ours)

    @pytest.mark.parametrize(
        "other", [Instant(C, "compaction", "inflight"), Instant(instant("11:59:00"), "compaction", "requested")]
    )
    def test_another_beside_it(self, other):
        state = replace(STATE, instants=(*STATE.instants, Instant(C, "compaction", "requested"), other))
        assert "is pending" in stale(state, published=True)

    def test_archiving_that_passed_it_meanwhile(self):
        active = tuple(i for i in STATE.instants if i.requested > C)
        state = replace(STATE, instants=(Instant(C, "compaction", "requested"), *active))
        assert "archiving has reached" in stale(state, published=True)


class TestVersion6:
    OLD = state_of(
        "/t", {"version": 6, "slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "08:00:00 > 08:00:00"}}}}
    )
    WHOLE = POLICY.model_copy(update={"granularity": "file_slice"})

    @property
    def plan(self) -> TablePlan:
        return build_table_plan(self.WHOLE, self.OLD, now_ms=NOW, clock_ms=NOW)

    def test_unchanged(self):
        assert find_stale(self.plan, self.OLD) == ()

    def test_a_block_of_a_new_commit_changes_it_whatever_its_instant(self):
        added = LogFile("L2", 1, instant("08:00:00"), instant("08:00:00"), None)
        state = with_slice(self.OLD, "f1", log_files=(*slice_of(self.OLD, "f1").log_files, added))
        assert any("the log files of file group f1" in said for said in find_stale(self.plan, state))
