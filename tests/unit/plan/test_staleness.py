from dataclasses import replace

import pytest

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.derivation import find_underived
from etc_policy.plan.model import TablePlan
from etc_policy.plan.rules import find_stale
from etc_policy.policy.manifest import Strategy
from etc_policy.table.state import Instant, LogFile, WriteInFlight
from tests.unit.plan.plan_cases import instant, state_of
from tests.unit.plan.states import NOW, PLAN, POLICY, STATE, C, slice_of, with_instant, with_slice


def stale(state, *, published=False, policy=POLICY):
    return "; ".join(find_stale(policy, PLAN, state, published=published))


def with_log_file(state, file_id, requested, completed, *, deletes=False):
    """The state with one more log file, and the delta commit that wrote it."""
    added = LogFile("L9", 1, instant(requested), instant(completed), NOW, has_deletes=deletes)
    state = with_slice(state, file_id, log_files=(*slice_of(state, file_id).log_files, added))
    return with_instant(state, requested, "deltacommit", completed=completed)


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
        with_instant(STATE, "10:00:00", "indexing", completed="10:00:05"),
        with_instant(STATE, "11:59:00", "commit", completed="11:59:30", touched=["f2"]),
        with_instant(STATE, "11:59:00", "rollback", completed="11:59:30", touched=["f9"]),
        with_instant(STATE, "11:59:00", "logcompaction", completed="11:59:30", touched=["f2"]),
        with_log_file(STATE, "f1", "11:59:00", "11:59:05", deletes=True),
        with_log_file(STATE, "f2", "10:10:01", "11:59:05"),
        replace(STATE, metadata_instants=frozenset({instant("11:59:00")})),
        replace(STATE, living_writers=frozenset({instant("11:59:00")})),
        replace(STATE, writes_in_flight=(WriteInFlight(instant("10:10:03"), None, may_live=False),)),
        replace(STATE, slices=STATE.slices[:1]),
    ],
)
def test_what_does_not_touch_the_plan(state):
    assert stale(state) == ""
    assert find_underived(POLICY, PLAN, state, NOW) == ()


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
        (
            with_instant(STATE, "11:59:00", "indexing", pending="requested"),
            "index build at 20260101115900000 is pending",
        ),
        (with_instant(STATE, "11:59:00", "commit", completed="11:59:30", touched=["f1"]), "completed on the chosen"),
        (with_instant(STATE, "11:59:00", "replacecommit", completed="11:59:30", touched=["f1", "f8"]), "completed on"),
        (with_instant(STATE, "11:59:00", "rollback", completed="11:59:30", touched=["f1"]), "completed on the chosen"),
        (
            with_instant(STATE, "11:59:00", "logcompaction", completed="11:59:30", touched=["f1"]),
            "a logcompaction at 20260101115900000 completed on the chosen file groups",
        ),
        (
            with_instant(STATE, "11:59:00", "restore", completed="11:59:30"),
            "a restore at 20260101115900000 completed on",
        ),
        (with_instant(STATE, "10:05:00", "deltacommit", completed="10:10:05"), "completed before the plan's instant"),
        (
            with_instant(STATE, "10:05:00", "commit", completed="10:10:04", touched=["f2"]),
            "completed before the plan's",
        ),
        (
            with_instant(STATE, "07:00:00", "commit", completed="11:59:30", touched=["f1"]),
            "a commit at 20260101070000000 completed on the chosen",
        ),
        (
            with_instant(STATE, "07:00:00", "deltacommit", completed="10:00:00"),
            "a deltacommit at 20260101070000000 completed before the plan's instant",
        ),
        (
            replace(STATE, metadata_instants=frozenset({C})),
            f"the plan's instant {C} is no longer valid: another instant has that time",
        ),
        (
            with_log_file(STATE, "f1", "10:10:01", "11:59:05"),
            "is no longer valid: a commit that was requested before it",
        ),
        (
            with_slice(
                STATE, "f1", log_files=tuple(f._replace(has_deletes=True) for f in slice_of(STATE, "f1").log_files)
            ),
            "is no longer valid: delete rule",
        ),
        (with_instant(STATE, "10:10:05.001", "deltacommit", completed="11:59:00"), "another instant has that time"),
        (replace(STATE, living_writers=frozenset({instant("10:10:03")})), "still in flight"),
        (replace(STATE, writes_in_flight=(WriteInFlight(instant("10:10:03"), None),)), "still in flight"),
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


def test_archiving_that_is_about_to_pass_it_by_the_limits_of_the_policy():
    tight = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "3"}
    assert "is no longer valid: archiving" in stale(STATE, policy=POLICY.model_copy(update={"hudi_options": tight}))
    wide = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "30"}
    assert stale(STATE, policy=POLICY.model_copy(update={"hudi_options": wide})) == ""


def test_archiving_below_it_is_no_change():
    """What was archived is gone from the timeline, and nothing came instead."""
    state = replace(STATE, instants=tuple(i for i in STATE.instants if i.requested >= instant("10:10:00")))
    assert stale(state) == ""


class TestPublished:
    """After publishing, our own requested plan is on the timeline, and is not counted against itself."""

    def test_ours_alone(self):
        ours = replace(STATE, instants=(*STATE.instants, Instant(C, "compaction", "requested")))
        assert stale(ours, published=True) == ""
        assert "is pending" in stale(ours)

    def test_another_beside_it(self):
        other = Instant(instant("11:59:00"), "compaction", "requested")
        state = replace(STATE, instants=(*STATE.instants, Instant(C, "compaction", "requested"), other))
        assert "a compaction at 20260101115900000 is pending" in stale(state, published=True)

    def test_ours_begun_by_a_stock_compaction(self):
        state = replace(STATE, instants=(*STATE.instants, Instant(C, "compaction", "inflight")))
        assert stale(state, published=True) == ""
        assert f"a compaction at {C} is pending" in stale(state)

    def test_ours_completed_by_a_stock_compaction(self):
        """Its slice begins at C now, with the log files that were left."""
        done = Instant(C, "commit", "completed", instant("11:59:30"), frozenset({"f1"}))
        left = tuple(f for f in slice_of(STATE, "f1").log_files if f.completed >= C)
        state = with_slice(STATE, "f1", base_instant=C, base_file="f1_at_c.parquet", log_files=left)
        state = replace(state, instants=(*STATE.instants, done))
        assert stale(state, published=True) == ""
        assert "completed on the chosen file groups" in stale(state)

    def test_archiving_that_passed_it_meanwhile(self):
        active = tuple(i for i in STATE.instants if i.requested > C)
        state = replace(STATE, instants=(Instant(C, "compaction", "requested"), *active))
        assert "archiving has reached" in stale(state, published=True)


class TestVersion6:
    OLD = state_of(
        "/t", {"version": 6, "slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "08:00:00 > 08:00:00"}}}}
    )
    WHOLE = POLICY.model_copy(update={"strategy": Strategy(granularity="file_slice")})

    @property
    def plan(self) -> TablePlan:
        return build_table_plan(self.WHOLE, self.OLD, now_ms=NOW, clock_ms=NOW)

    def test_unchanged(self):
        assert find_stale(self.WHOLE, self.plan, self.OLD) == ()

    @pytest.mark.parametrize("action", ["deltacommit", "commit"])
    def test_a_writer_in_flight_could_lose_its_block(self, action):
        state = with_instant(self.OLD, "11:59:00", action)
        (said,) = find_stale(self.WHOLE, self.plan, state)
        assert said == "a writer that began at 20260101115900000 is in flight, and this table version has no cut"

    def test_a_block_of_a_new_commit_changes_it_whatever_its_instant(self):
        added = LogFile("L2", 1, instant("08:00:00"), instant("08:00:00"), None)
        state = with_slice(self.OLD, "f1", log_files=(*slice_of(self.OLD, "f1").log_files, added))
        assert any("the log files of file group f1" in said for said in find_stale(self.WHOLE, self.plan, state))

    @pytest.mark.parametrize(
        ("action", "logs_grow", "is_stale"),
        [("deltacommit", True, True), ("rollback", True, True), ("clean", True, False), ("deltacommit", False, False)],
    )
    def test_a_log_file_that_has_grown_bears_its_name_still(self, action, logs_grow, is_stale):
        """What was written after C would be in a base file of C: time travel to before it would show it."""
        later = with_instant(
            replace(self.OLD, logs_grow=logs_grow), "12:00:30", action, completed="12:00:31", touched=["f9"]
        )
        assert any("is not before the plan's" in said for said in find_stale(self.WHOLE, self.plan, later)) == is_stale
