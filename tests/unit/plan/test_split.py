"""Which tables may be split by record, and what a plan of one says."""

import re
from dataclasses import replace

import pytest

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.explainer import explain_plan
from etc_policy.plan.model import LaterRows, make_plan
from etc_policy.plan.refusals import Facts
from etc_policy.plan.rules import changed_since_carried, find_stale, why_refused
from etc_policy.plan.split import find_split_obstacle, later_rows
from etc_policy.policy.manifest import EventTime, Strategy, Writer
from etc_policy.table.state import CompactionRecord, FileSlice, LogFile, RowGroup, WriteInFlight
from tests.unit.plan.plan_cases import epoch_ms, instant
from tests.unit.plan.states import NOW, POLICY, STATE

T = epoch_ms("11:00:00")
EXACT = POLICY.model_copy(
    update={
        "strategy": Strategy(granularity="record"),
        "writer": Writer(compaction="none"),
        "event_time": EventTime(column="ts", unit="ms"),
        "data_latency_ms": NOW - T,
    }
)


def log(at, event, **rest):
    name = f".f1_{instant(at)}.log.1_0-1-0"
    return LogFile(name, 10, instant(at), instant(at), epoch_ms(event) if event else None, **rest)


def state_of(*logs, **rest):
    one = FileSlice("p", "f1", instant("08:00:00"), "f1.parquet", 1, logs)
    return replace(
        STATE,
        slices=(one,),
        event_time_type="long",
        merge_mode="EVENT_TIME_ORDERING",
        ordering_fields=("ts",),
        **rest,
    )


STRADDLING = log("10:10:00", "10:05:00")


def plan_of(state, policy=EXACT):
    return build_table_plan(policy, state, now_ms=NOW, clock_ms=NOW)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"table_version": 6}, "table version 6"),
        ({"merge_mode": "COMMIT_TIME_ORDERING"}, "merges by COMMIT_TIME_ORDERING"),
        ({"merge_mode": "CUSTOM"}, "merges by CUSTOM"),
        ({"column_since": instant("10:20:00")}, "`ts` was another column's name"),
        ({"merge_mode": None}, "an unknown mode"),
        ({"updates_in_part": True}, "updates rows in part"),
        ({"ordering_fields": ("other",)}, "ordered by `other`"),
        ({"ordering_fields": ("ts", "id")}, "ordered by `ts`, `id`"),
        ({"ordering_fields": ()}, "ordered by nothing"),
        ({"event_time_type": "string"}, "values of `ts` \\(string\\)"),
        ({"event_time_type": "timestamp-nanos"}, "values of `ts` \\(timestamp-nanos\\)"),
        ({"metadata_partitions": ("files", "record_index")}, "`record_index` in the metadata table"),
        ({"has_cdc": True}, "CDC"),
        ({"base_path": "gs://lake/orders"}, "not on other stores"),
        ({"base_path": "hdfs://lake/orders"}, "not on other stores"),
        ({"foreign_compaction": instant("09:00:00")}, "is not etc's"),
    ],
)
def test_a_table_of_which_it_is_not_known_is_refused(changes, why):
    state = replace(state_of(STRADDLING), **changes)
    reason, hint = find_split_obstacle(EXACT, state)
    assert re.search(why, reason)
    assert "granularity: " in hint
    refusal = why_refused(EXACT, state, NOW)
    assert (refusal.code, refusal.reason) == ("cannot_split", reason)
    assert why_refused(EXACT.model_copy(update={"strategy": Strategy(granularity="file_slice")}), state, NOW) is None


@pytest.mark.parametrize("location", ["/lake/orders", "file:///lake/orders", "s3://lake/orders", "s3a://lake/orders"])
def test_where_a_table_that_is_split_may_lie(location):
    assert find_split_obstacle(EXACT, replace(state_of(STRADDLING), base_path=location)) is None


@pytest.mark.parametrize("kind", ["int", "long", "date", "timestamp-millis", "timestamp-micros"])
def test_a_table_ordered_by_its_event_time_is_split(kind):
    assert find_split_obstacle(EXACT, replace(state_of(STRADDLING), event_time_type=kind)) is None


def test_the_writers_must_not_compact_and_integers_have_a_unit():
    state = state_of(STRADDLING)
    compacting = EXACT.model_copy(update={"writer": Writer(compaction="inline")})
    assert "compact on their own (`inline`)" in find_split_obstacle(compacting, state)[0]
    copies = EXACT.model_copy(update={"writer": Writer(keys="repeated")})
    assert "more than once" in find_split_obstacle(copies, state)[0]
    unitless = EXACT.model_copy(update={"event_time": EventTime(column="ts")})
    assert "not in the order of their times" in find_split_obstacle(unitless, state)[0]


def test_what_is_compacted_is_split_unless_it_holds_deletes():
    plain = plan_of(state_of(STRADDLING, log("11:50:00", "11:30:00")))
    (one,) = plain.operations
    assert (one.log_files_compacted, one.remainder) == (
        (STRADDLING.name,),
        f".f1_{plain.instant}.log.0_100000-0-0",
    )
    assert (plain.watermark_after_ms, plain.warnings) == (T, ())
    deleting = plan_of(state_of(STRADDLING._replace(has_deletes=True), log("11:50:00", "11:30:00")))
    assert deleting.operations[0].remainder is None
    assert len(deleting.operations[0].log_files_compacted) == 2
    assert "RO may hold rows after T" in deleting.warnings[0]


def test_only_what_may_hold_rows_after_the_threshold_is_split():
    """Their blocks were read, or nobody knows it."""
    logs = [log(f"10:1{n}:00", "10:05:00", max_event_time_ms=ms) for n, ms in enumerate([T, T + 1, None])]
    (one,) = plan_of(state_of(*logs)).operations
    assert (one.straddling, one.remainder is None) == (tuple(f.name for f in logs[1:]), False)
    plan = plan_of(state_of(logs[0], log("11:50:00", "11:30:00")))
    (one,) = plan.operations
    assert (one.straddling, one.remainder is None, plan.warnings) == ((), False, ())
    assert plan.watermark_after_ms == epoch_ms("11:30:00") - 1


def test_keys_that_the_index_does_not_find_are_not_left_in_a_log_file():
    state = replace(state_of(STRADDLING), exposed=frozenset({("p", "f1")}))
    assert plan_of(state).operations[0].remainder is None


def test_keys_that_the_index_does_not_find_do_not_wait_for_the_next_boundary():
    """The next upsert of such a key makes it exist twice, a day before the next boundary."""
    daily = EXACT.model_copy(update={"strategy": Strategy(granularity="record", at="11:00 UTC")})
    last = CompactionRecord(instant("09:00:00"), instant("09:00:00"), T, "p", "x")
    state = state_of(log("10:10:00", "11:30:00"), last_compaction=last)
    assert plan_of(state, daily).reason_code == "published"
    (one,) = plan_of(replace(state, exposed=frozenset({("p", "f1")})), daily).operations
    assert (len(one.log_files_compacted), one.remainder) == (1, None)
    bucket = daily.model_copy(update={"writer": Writer(index="bucket", compaction="none")})
    assert plan_of(replace(state, exposed=frozenset({("p", "f1")})), bucket).reason_code == "published"


def test_a_threshold_below_that_of_an_earlier_run_is_said():
    last = CompactionRecord(instant("09:00:00"), instant("09:00:00"), T + 1, "p", "x")
    assert any("RO may hold rows up to" in one for one in plan_of(state_of(STRADDLING, last_compaction=last)).warnings)


class TestLaterRows:
    """Base files with rows after T: counted by the row groups of their footers."""

    GROUPS = (RowGroup(T, 70), RowGroup(T + 1, 20), RowGroup(None, 5))

    def test_the_row_groups_that_hold_one_are_counted(self):
        state = state_of(STRADDLING)
        slices = (*state.slices, *(replace(state.slices[0], base_file=name) for name in ("f2.parquet", None)))
        state = replace(state, slices=slices)
        assert later_rows(state, {"p/f1.parquet": self.GROUPS}, T) == LaterRows(
            base_files=1, rows_at_most=20, unknown_base_files=1
        )
        assert later_rows(state, {"p/f1.parquet": self.GROUPS, "p/f2.parquet": ()}, T + 1) == LaterRows(
            base_files=0, rows_at_most=0, unknown_base_files=0
        )

    @pytest.mark.parametrize(
        ("counts", "words"),
        [
            ((0, 0, 0), "none in base files"),
            (
                (2, 1200, 0),
                "at most 1,200 rows in 2 base files  RO shows what is there; a view of `sync.as_of_view` does",
            ),
            ((1, 1, 3), "at most 1 row in 1 base file, not known of 3 base files  RO shows"),
            ((0, 0, 1), "later rows    not known of 1 base file  RO shows"),
        ],
    )
    def test_the_plan_says_so(self, counts, words):
        found = LaterRows(**dict(zip(LaterRows.model_fields, counts, strict=True)))
        plan = make_plan(
            "2026-01-01T00:00:00Z", (plan_of(state_of(STRADDLING)).model_copy(update={"later_rows": found}),)
        )
        assert words in explain_plan(plan, width=200)


class TestPublished:
    def test_a_cut_that_splits_may_lie_in_the_past(self):
        state = state_of(STRADDLING)
        assert find_stale(EXACT, plan_of(state), state) == ()

    def test_what_came_before_c_meanwhile_takes_it_back(self):
        state = state_of(STRADDLING)
        plan = plan_of(state)
        added = replace(state, slices=(replace(state.slices[0], log_files=(log("10:09:00", "10:00:00"), STRADDLING)),))
        assert changed_since_carried(Facts(EXACT, state, None, plan.instant, plan.operations)) is None
        found = changed_since_carried(Facts(EXACT, added, None, plan.instant, plan.operations))
        assert found.reason == "the log files of file group f1 in `p` changed"

    def test_a_writer_from_before_c_that_has_not_ended_takes_it_back(self):
        state = state_of(STRADDLING)
        plan = plan_of(state)
        writing = replace(state, writes_in_flight=(WriteInFlight(instant("10:00:00"), None),))
        assert (
            "has not ended" in changed_since_carried(Facts(EXACT, writing, None, plan.instant, plan.operations)).reason
        )
