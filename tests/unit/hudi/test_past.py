"""The history of a table from its active and its archived timeline, and what it says of the watermark at each moment."""

from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from etc_policy.errors import TableError
from etc_policy.hudi.table import FileTableReader, read_compactions
from etc_policy.plan.commit_metadata import withdrawn_metadata
from etc_policy.plan.split import SPLIT
from etc_policy.policy.manifest import EventTime
from etc_policy.table.completeness import replay_completeness
from etc_policy.table.history import with_times_of
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.watermark import watermark
from tests.unit.hudi.table_folder import (
    COMMIT_SCHEMA,
    TableFolder,
    archived,
    at,
    avro,
    base,
    commit_metadata,
    log,
    operation,
)

TS = EventTime(column="ts", unit="ms")
OURS = {
    "etc.event_time.threshold": "25",
    "etc.policy": "orders_ro",
    "etc.policy_fingerprint": "f00d",
    "etc.plan_id": "p1",
    "etc.seen_until": at("10:00:05"),
    "etc.git_sha": "abc",
    "etc.new_key": "1",
}
LATENCY_MS = 60_000


def read(table, archived=None):
    return FileTableReader().read_with_history(str(table.base), TS, archived=archived)[1]


def points(table, archived=None):
    return replay_completeness(read(table, archived), LATENCY_MS)


def ms(clock):
    return instant_to_ms(at(clock), ZoneInfo("UTC"))


@pytest.fixture
def stream(table):
    """Two file groups: a compaction at 10:00:06 takes the log of f1 that completed before it."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), base("f2"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 20), log("f2", 40))
    table.commit(at("10:00:04"), at("10:00:05"), log("f1", 30))
    table.compaction(at("10:00:04.001"), at("10:00:20"), base("f1", merged=1, previous=at("10:00:00")), extra=OURS)
    table.commit(at("10:00:30"), at("10:00:31"), log("f2", 10))
    return table


def test_every_write_in_order_of_completion(stream):
    history = read(stream)
    assert [(c.requested, c.action, c.is_compaction) for c in history.commits] == [
        (at("10:00:00"), "deltacommit", False),
        (at("10:00:02"), "deltacommit", False),
        (at("10:00:04"), "deltacommit", False),
        (at("10:00:04.001"), "commit", True),
        (at("10:00:30"), "deltacommit", False),
    ]
    compaction = history.commits[3]
    assert (compaction.extra, compaction.bytes_written, compaction.groups[0].merged_log_files) == (OURS, 100, 1)
    assert history.complete


def test_a_withdrawn_plan_is_no_compaction_and_changes_nothing(stream):
    before = points(stream)
    stream.compaction(at("10:00:40"), at("10:00:41"), extra=withdrawn_metadata(), plan_extra=OURS)
    *_, last = read(stream).commits
    assert (last.requested, last.action, last.is_compaction) == (at("10:00:40"), "commit", False)
    *same, point = points(stream)
    assert tuple(same) == before
    assert point == replace(before[-1], at_ms=ms("10:00:41"), instant=at("10:00:40"), late_groups=0, late_by_ms=0)


def test_the_watermark_at_each_moment(stream):
    found = points(stream)
    assert [(p.at_ms, p.watermark_ms, p.threshold_ms, p.open_log_files) for p in found] == [
        (ms("10:00:01"), None, None, 0),
        (ms("10:00:03"), 19, None, 2),
        (ms("10:00:05"), 19, None, 3),
        (ms("10:00:20"), 29, 25, 2),  # the log file of 10:00:04 completed after C: it stays
        (ms("10:00:31"), 9, 25, 3),
    ]
    assert all(point.known and not point.assumed for point in found)


def test_what_came_after_the_plan_below_its_threshold_is_late(stream):
    stream.commit(at("10:00:10"), at("10:00:11"), log("f1", 24))  # while the compaction ran
    assert [(p.instant, p.late_groups, p.late_by_ms) for p in points(stream) if p.late_groups] == [
        (at("10:00:10"), 1, 1),
        (at("10:00:30"), 1, 15),
    ]


def test_the_last_point_is_what_the_table_shows_now(stream):
    state = FileTableReader().read(str(stream.base), TS)
    now = watermark((f for _, f in state.log_files), LATENCY_MS, ZoneInfo("UTC"))
    last = points(stream)[-1]
    assert (last.watermark_ms, last.open_log_files) == (now.value_ms, sum(1 for _ in state.log_files))


def test_an_unknown_event_time_is_bounded_by_the_promise_or_told_by_a_reading(stream):
    stream.commit(at("10:00:40"), at("10:00:41"), log("f2", None, deletes=1), log("f1", None))
    history = read(stream)
    latency_ms = ms("10:00:41") - 7
    assumed = replay_completeness(history, latency_ms)[-1]
    assert (assumed.assumed, assumed.watermark_ms) == (True, 6)
    state = FileTableReader().read(str(stream.base), TS)
    told = {"f1": 5, "f2": 6}
    slices = (
        replace(one, log_files=tuple(f._replace(min_event_time_ms=told[one.file_id]) for f in one.log_files))
        for one in state.slices
    )
    known = with_times_of(history, replace(state, slices=tuple(slices)))
    assert replay_completeness(known, LATENCY_MS)[-1].watermark_ms == 4


def test_what_is_seen_beside_a_delete_holds_it_back_however_late_it_came(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 20, deletes=1))
    last, state = points(table)[-1], FileTableReader().read(str(table.base), TS)
    now = watermark((f for _, f in state.log_files), LATENCY_MS, ZoneInfo("UTC"))
    assert (last.watermark_ms, last.assumed) == (now.value_ms, now.assumed) == (19, False)


def test_what_a_compaction_knew_of_the_past_is_kept_in_its_commit(table):
    """The log file whose event time nobody recorded is gone; its plan had read it."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", None))
    knew = {**OURS, "etc.watermark_before": "7"}
    table.compaction(at("10:00:03.001"), at("10:00:20"), base("f1", merged=1, previous=at("10:00:00")), extra=knew)
    before, after = points(table)[1:]
    assert (before.watermark_ms, before.assumed) == (7, True)
    assert (after.watermark_ms, after.open_log_files) == (None, 0)


@pytest.mark.parametrize("knew", ["", "x", "9" * 40, str(2**53)])
def test_what_no_calendar_has_or_is_later_than_known_changes_nothing(table, knew):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 20))
    extra = {**OURS, "etc.watermark_before": knew}
    table.compaction(at("10:00:03.001"), at("10:00:20"), base("f1", merged=1, previous=at("10:00:00")), extra=extra)
    assert points(table)[1].watermark_ms == 19


def test_rows_that_a_compaction_has_split_off_wait_on_and_are_later_than_its_threshold(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 20))
    rest = log("f1", version=0, token="100000-0-0")
    table.compaction(at("10:00:03.001"), at("10:00:20"), base("f1"), rest, extra={**OURS, SPLIT: "[]"})
    last, state = points(table)[-1], FileTableReader().read(str(table.base), TS)
    now = watermark((f for _, f in state.log_files), LATENCY_MS, ZoneInfo("UTC"))
    assert (last.watermark_ms, last.open_log_files, last.assumed) == (now.value_ms, 1, False) == (25, 1, False)


def test_a_clustering_takes_its_file_groups_away(stream):
    stream.replace(at("10:01:00"), at("10:01:01"), base("f3"), replaced={"p": ["f2"]})
    last = points(stream)[-1]
    assert (last.watermark_ms, last.open_log_files) == (29, 1)


def test_the_archive_goes_on_where_the_active_timeline_begins(table):
    compaction = {
        "instantTime": at("09:00:04"),
        "completionTime": at("09:00:10"),
        "action": "commit",
        "metadata": avro(COMMIT_SCHEMA, commit_metadata(at("09:00:04"), (base("f1", merged=1),), OURS, "COMPACT")),
    }
    table.archive(
        archived(at("09:00:00"), at("09:00:01"), base("f1")),
        archived(at("09:00:02"), at("09:00:03"), log("f1", 20)),
        compaction,
    )
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50))
    history = read(table)
    assert [c.archived for c in history.commits] == [True, True, True, False]
    assert [(p.watermark_ms, p.threshold_ms) for p in points(table)] == [(None, None), (19, None), (None, 25), (49, 25)]


def test_a_history_that_is_cut_short_claims_nothing_before_it_knows(table):
    table.archive(
        archived(at("09:00:00"), at("09:00:01"), base("f1")),
        archived(at("09:00:02"), at("09:00:03"), log("f1", 20, previous=at("09:00:00"))),
    )
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50, previous=at("09:00:00")))
    table.compaction(at("10:00:02"), at("10:00:10"), base("f1", previous=at("09:00:00")))
    table.commit(at("10:00:20"), at("10:00:21"), log("f1", 60, previous=at("10:00:02")))
    found = points(table, archived=0)
    assert [(p.known, p.watermark_ms) for p in found] == [(False, None), (True, None), (True, 59)]


def test_only_compactions(stream):
    history = read_compactions(str(stream.base))
    assert [c.requested for c in history.commits] == [at("10:00:04.001")]
    assert not history.complete


def test_version_6_has_a_history_without_event_times(tmp_path):
    table = TableFolder(tmp_path / "t", version=6)
    table.commit(at("10:00:00"), "", base("f1"))
    table.commit(at("10:00:02"), "", log("f1", 20, base_instant=at("10:00:00")))
    table.compaction(at("10:00:06"), "", base("f1", previous=at("10:00:00")), extra=OURS)
    found = points(table)
    assert [(p.assumed, p.open_log_files, p.threshold_ms) for p in found] == [
        (False, 0, None),
        (True, 1, None),
        (False, 0, 25),
    ]


def test_version_6_log_files_that_were_carried_wait_on(tmp_path):
    start, middle = at("10:00:00"), at("10:00:06")
    table = TableFolder(tmp_path / "t", version=6)
    table.commit(start, "", base("f1"))
    for second in (2, 3, 4):
        table.commit(at(f"10:00:0{second}"), "", log("f1", 20, base_instant=start, version=second))
    carried = log("f1", base_instant=middle, version=0, token="100000-0-0")
    table.compaction(middle, "", base("f1", previous=start), carried, extra=OURS)
    table.compaction(at("10:00:08"), "", base("f1", previous=middle), extra=OURS)
    assert [p.open_log_files for p in points(table)] == [0, 1, 2, 3, 1, 0]


def test_what_the_plan_of_a_compaction_expected(table):
    """Of all its operations; one by which nobody can say is none."""
    first, second = (
        operation(name, None).model_copy(update={"bytes_written_estimate": size})
        for name, size in (("f1", 70), ("f2", 30))
    )
    table.compaction(at("10:00:06"), at("10:00:20"), base("f1"), base("f2"), extra=OURS)
    table.plan(at("10:00:06"), OURS, first, second)
    table.compaction(at("10:01:06"), at("10:01:20"), base("f1"), extra=OURS)
    assert [one.bytes_written_estimate for one in read(table).commits] == [100, None]


def test_no_table(tmp_path):
    with pytest.raises(TableError) as error:
        read_compactions(str(tmp_path / "none"))
    assert error.value.code == "ETC201"
