"""The series behind the site's charts."""

import pytest

from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.policy.manifest import EventTime, Freshness, Policy
from etc_policy.policy.schema import LearnedLatency
from etc_policy.report import site_charts
from etc_policy.report.site_charts import bytes_chart, completeness_chart, spark_line, table_past
from etc_policy.table.history import Commit, GroupWrite, TableHistory

HOUR_MS = 3_600_000
DAY = 1_767_225_600_000  # 2026-01-01
POLICY = Policy(
    name="orders_ro",
    table="t",
    event_time=EventTime(column="ts"),
    data_latency_ms=HOUR_MS,
    freshness=Freshness(target_ms=4 * HOUR_MS),
)


def at(hour):
    return f"20260101{hour:02d}0000000"


def write(hour, event_hour=None):
    """A commit at an hour of the day; without an event it is the first base file."""
    event = None if event_hour is None else DAY + int(event_hour * HOUR_MS)
    group = GroupWrite(at(hour), at(hour), "p", "f", event, event is not None, 1, log_files=0 if event is None else 1)
    return Commit(at(hour), at(hour), "deltacommit", "UPSERT", (group,))


def compaction(hour, requested, threshold_hour, *, ours=True):
    extra = {"etc.event_time.threshold": str(DAY + threshold_hour * HOUR_MS), "etc.seen_until": requested}
    group = GroupWrite(requested, at(hour), "p", "f", None, False, 1, log_files=0, bytes_written=500)
    record = compaction_record(requested, at(hour), extra) if ours else None
    return Commit(requested, at(hour), "commit", "COMPACT", (group,), extra=extra if ours else {}, record=record)


def log_of(*commits, complete=True):
    return TableHistory("t", 9, "UTC", commits, complete)


LOG = log_of(write(2), write(3, 2.5), write(5, 4.5), compaction(6, "20260101050000001", 5), write(7, 4), write(8, 7.5))


def told(past):
    """(hour, lag in hours, mark) of each moment; a millisecond less counts as the hour."""
    return [(round((m.at_ms - DAY) / HOUR_MS, 3), round((m.lag_ms or 0) / HOUR_MS, 3), m.mark) for m in past.moments]


def test_the_lag_grows_until_a_compaction_and_late_data_let_it_jump():
    assert told(table_past(POLICY, LOG, DAY + 10 * HOUR_MS)) == [
        (2, 1, ""),  # nothing is waiting: as complete as data latency allows
        (3, 1, ""),
        (3, 1, ""),
        (6, 3.5, ""),
        (6, 1, "run"),
        (7, 1, ""),
        (7, 3, "late"),
        (8, 4, ""),
        (8, 4, ""),
        (10, 6, ""),
    ]


def test_events_that_are_replayed_count_from_the_last_commit():
    year_before = DAY - 365 * 24 * HOUR_MS
    past = table_past(POLICY, LOG, year_before)
    assert past.moments[-1].at_ms == DAY + 8 * HOUR_MS
    assert past.moments[-1].now_ms == year_before
    assert past.shift_ms == year_before - (DAY + 8 * HOUR_MS)
    assert completeness_chart(past)["shift"] == past.shift_ms / 1000


def test_a_compaction_of_somebody_else_has_a_mark_of_its_own():
    past = table_past(POLICY, log_of(write(3, 2), compaction(6, at(5), 5, ours=False)), DAY + 7 * HOUR_MS)
    assert [m.mark for m in past.moments if m.mark] == ["foreign"]
    assert past.moments[-1].threshold_ms is None


def test_a_long_past_shows_its_newest_points(monkeypatch):
    monkeypatch.setattr(site_charts, "MAX_POINTS", 8)
    past = table_past(POLICY, LOG, DAY + 10 * HOUR_MS)
    assert len(past.moments) <= 8
    assert past.cut_short
    assert past.moments[-1].at_ms == DAY + 10 * HOUR_MS


def test_rows_without_a_known_time_are_as_late_as_a_learned_latency_may_ever_be():
    """As `etc freshness` has it, beside which the chart is shown."""
    unknown = GroupWrite(at(5), at(5), "p", "f", None, False, 1)
    log = log_of(write(2), Commit(at(5), at(5), "deltacommit", "UPSERT", (unknown,)))
    learned = POLICY.model_copy(update={"learned_latency": LearnedLatency(at_most="3h")})
    assert told(table_past(POLICY, log, DAY + 8 * HOUR_MS))[-1] == (8, 4, "")
    assert told(table_past(learned, log, DAY + 8 * HOUR_MS))[-1] == (8, 6, "")


def test_where_nobody_knows_how_far_it_is_complete_now_the_last_moment_does_not_say_it():
    past = table_past(POLICY, LOG, DAY + 10 * HOUR_MS)
    unknown = past.at_most_now(None)
    assert completeness_chart(unknown)["complete"] == [*completeness_chart(past)["complete"][:-1], None]
    proved_ms = past.moments[-1].complete_until_ms - 1_000
    assert past.at_most_now(proved_ms).moments[-1].complete_until_ms == proved_ms
    assert past.at_most_now(proved_ms + 2_000) == past
    assert table_past(POLICY, log_of(), DAY).at_most_now(5).moments == ()


def test_no_past():
    past = table_past(POLICY, log_of(), DAY)
    assert (past.moments, spark_line(past)) == ((), None)
    assert completeness_chart(past)["x"] == []


def test_what_is_not_known_is_left_open():
    unseen = GroupWrite(at(3), at(3), "p", "f", DAY, True, 1, previous="20250101000000000")
    log = log_of(Commit(at(3), at(3), "deltacommit", "UPSERT", (unseen,)), complete=False)
    past = table_past(POLICY, log, DAY + 4 * HOUR_MS)
    assert past.cut_short
    assert completeness_chart(past)["complete"] == [None, None]
    assert spark_line(past) is None


def test_the_spark_line_stays_in_its_box_and_shows_the_target():
    spark = spark_line(table_past(POLICY, LOG, DAY + 10 * HOUR_MS))
    points = [tuple(map(float, point.split(","))) for point in spark.points.split(" ")]
    assert (points[0][0], points[-1][0]) == (0, 120)
    assert all(0 <= x <= 120 and 0 <= y <= 28 for x, y in points)
    assert min(y for _, y in points) < float(spark.target_y) < 28


@pytest.mark.parametrize("runs", [[], [(1_000, 5), (2_000, 7)]])
def test_bytes_of_each_run(runs):
    assert bytes_chart(runs) == {"x": [at / 1000 for at, _ in runs], "bytes": [size for _, size in runs]}
