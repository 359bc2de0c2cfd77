from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.commit_metadata import withdrawn_metadata
from etc_policy.policy.manifest import EventTime
from etc_policy.table.history import PLAN_ID, SEEN_UNTIL, THRESHOLD
from tests.unit.hudi.table_folder import TableFolder, archived, at, base, log

MS = EventTime(column="ts", unit="ms")


def read(table, **options):
    return FileTableReader().read_with_history(str(table.base), options.pop("event_time", MS), **options)[1]


def test_one_write_for_each_file_group_whose_log_a_commit_wrote(tmp_path):
    table = TableFolder(tmp_path / "t")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"), base("f2"))
    rolled = (log("f1", 500), log("f1", version=2), log("f2", 700), base("f3"))
    table.commit(at("09:00:00"), at("09:00:05"), *rolled)
    table.commit(at("09:10:00"), at("09:10:05"), log("f1", 900, deletes=1))
    one, two, three = read(table).writes
    assert (one.requested, one.completed, one.partition, one.file_id) == (at("09:00:00"), at("09:00:05"), "p", "f1")
    assert (one.known_min_ms, one.certain) == (500, False)  # the rolled-over file has no time of its own
    assert (two.file_id, two.known_min_ms, two.certain) == ("f2", 700, True)
    assert (three.known_min_ms, three.certain) == (900, False)  # a delete by key has no event time


def test_writes_come_in_the_order_in_which_they_completed(tmp_path):
    table = TableFolder(tmp_path / "t")
    table.commit(at("09:00:00"), at("09:30:00"), log("f1", 1))
    table.commit(at("09:10:00"), at("09:20:00"), log("f1", 2))
    assert [write.known_min_ms for write in read(table).writes] == [2, 1]


def test_what_is_under_way_is_no_history(tmp_path):
    table = TableFolder(tmp_path / "t")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    table.start(at("09:00:00"), log("f1", 500))
    assert read(table).writes == ()


def test_times_that_are_not_the_policys_are_not_taken(tmp_path):
    table = TableFolder(tmp_path / "t")
    table.commit(at("08:00:00"), at("08:00:05"), log("f1", 500))
    (write,) = read(table, event_time=EventTime(column="ts", unit="us")).writes
    assert (write.known_min_ms, write.certain) == (None, False)


def test_our_compactions_by_their_commit_or_by_their_plan(tmp_path):
    """Stock Hudi carries a plan of etc out without its pairs; the plan still has them."""
    table = TableFolder(tmp_path / "t")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    told = {THRESHOLD: "1000", PLAN_ID: "one", SEEN_UNTIL: at("08:00:05")}
    table.compaction(at("09:00:00"), at("09:30:00"), base("f1"), extra=told)
    table.compaction(at("09:10:00"), at("09:20:00"), base("f1"), plan_extra={**told, PLAN_ID: "two"})
    table.compaction(at("09:40:00"), at("09:50:00"), base("f1"))  # not ours
    runs = read(table).runs
    assert [(run.plan_id, run.threshold_ms, run.seen_until) for run in runs] == [
        ("two", 1000, at("08:00:05")), ("one", 1000, at("08:00:05")),
    ]  # fmt: skip


def test_archived_commits_only_where_asked_for(tmp_path):
    table = TableFolder(tmp_path / "t")
    old = archived(at("07:00:00"), at("07:00:05"), log("f1", 300))
    twice = archived(at("08:00:00"), at("08:00:05"), log("f1", 400))
    table.archive(old, twice)
    table.commit(at("08:00:00"), at("08:00:05"), log("f1", 400))
    assert [write.known_min_ms for write in read(table).writes] == [400]
    assert [write.known_min_ms for write in read(table, archived=None).writes] == [300, 400]


def test_the_state_is_the_same_as_without_the_history(tmp_path):
    table = TableFolder(tmp_path / "t")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    table.commit(at("09:00:00"), at("09:00:05"), log("f1", 500))
    reader = FileTableReader()
    assert reader.read_with_history(str(table.base), MS)[0] == reader.read(str(table.base), MS)


def test_a_commit_that_promises_something_else_than_its_plan(tmp_path):
    table = TableFolder(tmp_path / "t")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    told = {THRESHOLD: "1000", PLAN_ID: "one", SEEN_UNTIL: at("08:00:05")}
    forged, later = {**told, THRESHOLD: "1001"}, {**told, SEEN_UNTIL: at("08:00:06")}
    table.compaction(at("09:00:00"), at("09:00:05"), base("f1"), extra=told, plan_extra=told)
    table.compaction(at("09:10:00"), at("09:10:05"), base("f1"), extra=forged, plan_extra=told)
    table.compaction(at("09:20:00"), at("09:20:05"), base("f1"), extra=later, plan_extra=told)
    table.compaction(at("09:30:00"), at("09:30:05"), base("f1"), extra=told)
    table.compaction(at("09:40:00"), at("09:40:05"), base("f1"), plan_extra=told)
    table.compaction(at("09:50:00"), at("09:50:05"), extra=withdrawn_metadata(), plan_extra=told)
    assert [run.instant for run in read(table).runs if run.is_disputed] == [at("09:10:00"), at("09:20:00")]
    assert [run.instant for run in read(table).runs] == [at(f"09:{minute}0:00") for minute in range(5)]
