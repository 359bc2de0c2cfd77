import json
from dataclasses import dataclass, replace
from datetime import UTC

import pytest

from etc_policy.errors import TableError
from etc_policy.hudi import commits as hudi_commits
from etc_policy.plan.rules import why_refused, why_unknown
from etc_policy.policy.manifest import EventTime, Strategy
from etc_policy.report.freshness import table_freshness
from etc_policy.table.history import POLICY_VALUES
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.watermark import watermark_of
from tests.unit.hudi.reading import OURS, read, slices
from tests.unit.hudi.table_folder import (
    COMMIT_SCHEMA,
    TableFolder,
    Written,
    archived,
    at,
    avro,
    base,
    commit_metadata,
    log,
)
from tests.unit.plan.states import POLICY

CLOCK_MS = instant_to_ms("20990101000000000", UTC)


def test_a_log_file_belongs_to_the_newest_base_file_at_or_below_its_completion_time(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 2))
    table.commit(at("10:00:04"), at("10:00:09"), log("f1", 4))
    table.commit(at("10:00:05"), at("10:00:06"), log("f1", 5))
    table.compaction(at("10:00:06"), at("10:00:30"), base("f1"))

    only = read(table).slices[0]

    assert only.base_file == f"f1_0-1-0_{at('10:00:06')}.parquet"
    assert only.base_file_bytes == 100
    assert [(f.requested, f.completed) for f in only.log_files] == [
        (at("10:00:05"), at("10:00:06")),
        (at("10:00:04"), at("10:00:09")),
    ]
    assert [f.size_bytes for f in only.log_files] == [10, 10]


def test_a_slice_without_a_base_file(table):
    table.commit(at("10:00:02"), at("10:00:05"), log("f1", 2))
    table.commit(at("10:00:03"), at("10:00:04"), log("f1", 3))

    only = read(table).slices[0]

    assert (only.base_file, only.base_file_bytes, only.base_instant) == (None, 0, at("10:00:02"))
    assert [f.requested for f in only.log_files] == [at("10:00:03"), at("10:00:02")]


def test_rolled_over_log_files_keep_their_order(table):
    files = [log("f1", 5, version=version) for version in (10, 2, 1)]
    table.commit(at("10:00:00"), at("10:00:01"), *files)
    assert [f.name.split(".log.")[1] for f in read(table).slices[0].log_files] == ["1_0-1-0", "2_0-1-0", "10_0-1-0"]


def test_files_of_commits_that_have_not_completed_are_not_there(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.start(at("10:00:02"), log("f1", 1), base("f2"))
    table.plan(at("10:00:03"), {})
    table.data(at("10:00:03"), base("f1"))
    assert slices(table) == {"f1": (at("10:00:00"), [])}


def test_files_of_a_rolled_back_commit_are_not_there(table):
    """The rollback took the instant away; a log file that it could not delete yet belongs to nobody."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.data(at("10:00:02"), log("f1", 1))
    table.rollback(at("10:00:03"), at("10:00:04"), log("f1").name(at("10:00:02")), base("f7").name(at("10:00:02")))

    assert slices(table) == {"f1": (at("10:00:00"), [])}
    rollback = next(i for i in read(table).instants if i.action == "rollback")
    assert rollback.file_ids == {"f1", "f7"}


@pytest.mark.parametrize(
    ("files", "is_deletes"),
    [
        ([log("f1", None, deletes=2, rows=0)], True),
        ([log("f1", 7, deletes=2, rows=3)], True),
        ([log("f1", None, deletes=2, rows=3)], False),
        ([log("f1", None, deletes=2, rows=0), log("f1", None, rows=3, version=2)], False),
        ([log("f1", None, deletes=2, rows=0), log("f1", 9, rows=3, version=2)], True),
        ([log("f1", None, deletes=2, rows=0), base("f1")], False),
        ([log("f1", None, rows=3)], False),
    ],
)
def test_whether_deletes_alone_have_no_event_time(table, files, is_deletes):
    """The write stat says whether there are rows beside deletes by key, and from when on."""
    table.commit(at("10:00:00"), at("10:00:01"), *files)
    assert {one.unknown_is_deletes for one in read(table).slices[0].log_files} == {is_deletes}


def test_rows_that_change_others_in_part_are_bound_by_no_time_beside_deletes(tmp_path):
    """Not by what their commit recorded; deletes alone need none."""
    table = TableFolder(tmp_path / "t", properties={"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"})
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 7, deletes=2, rows=3), log("f2", None, deletes=2, rows=0))
    assert [one.log_files[0].unknown_is_deletes for one in read(table).slices] == [False, True]


def test_of_what_may_delete_nobody_knows_whether_it_has_rows(tmp_path):
    table = TableFolder(tmp_path / "t", properties={"hoodie.record.merge.property.hoodie.payload.delete.field": "Op"})
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", None, rows=3), log("f2", None), log("f3", 7))
    files = [one.log_files[0] for one in read(table).slices]
    assert [(one.has_deletes, one.unknown_is_deletes) for one in files] == [(True, False), (True, False), (True, True)]


def test_replaced_file_groups_are_left_out(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), base("f2"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 1), log("f2", 1))
    table.replace(at("10:00:04"), at("10:00:05"), base("f3"), replaced={"p": ["f1"]})

    assert set(slices(table)) == {"f2", "f3"}
    replace = next(i for i in read(table).instants if i.action == "replacecommit")
    assert replace.file_ids == {"f1", "f3"}


@pytest.mark.parametrize("version", [6, 9])
def test_log_files_added_to_a_file_group_that_a_write_took_away_are_seen_by_no_reader(tmp_path, version):
    """What was there before was taken away on purpose."""
    table = TableFolder(tmp_path / "t", version=version)
    start = at("10:00:00")
    table.commit(start, at("10:00:01"), base("f1"), base("f1", partition="q"))
    before, late = (log("f1", 1, base_instant=start, version=number) for number in (1, 2))
    elsewhere = log("f1", 1, base_instant=start, partition="q")
    gone = log("f1", 1, base_instant=start, version=3, on_disk=False)
    table.commit(at("10:00:02"), at("10:00:03"), before)
    assert read(table).unseen_files == ()
    table.replace(at("10:00:04"), at("10:00:05"), replaced={"p": ["f1"]}, kind="DELETE_PARTITION")
    assert read(table).unseen_files == ()
    table.commit(at("10:00:06"), at("10:00:07"), late, elsewhere)
    table.commit(at("10:00:08"), at("10:00:09"), gone)

    name = late.name(at("10:00:06"))
    assert read(table).unseen_files == (f"p/{name}",)
    assert [one.partition for one in read(table).slices] == ["q"]
    table.replace(at("10:01:00"), at("10:01:01"), replaced={"p": ["f1"]}, kind="INSERT_OVERWRITE")
    assert read(table).unseen_files == ()


def test_a_write_that_began_before_a_deletion_and_ended_after_it_is_seen_by_no_reader(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.replace(at("10:00:03"), at("10:00:04"), replaced={"p": ["f1"]}, kind="DELETE_PARTITION")
    table.commit(at("10:00:02"), at("10:00:05"), log("f1", 1))
    assert read(table).unseen_files == (f"p/{log('f1', 1).name(at('10:00:02'))}",)


@pytest.mark.parametrize("version", [6, 9])
def test_a_clustering_moves_what_its_plan_has_seen(tmp_path, version):
    """What was written to its file groups since no reader sees, also what completed before it did."""
    table = TableFolder(tmp_path / "t", version=version)
    start, planned = at("10:00:00"), at("10:00:04")
    table.commit(start, at("10:00:01"), base("f1"), base("f1", partition="q"))
    before, beside, after = (log("f1", 1, base_instant=start, version=number) for number in (1, 2, 3))
    table.commit(at("10:00:02"), at("10:00:03"), before)
    table.commit(at("10:00:05"), at("10:00:06"), beside)
    table.replace(planned, at("10:00:07"), base("f2"), replaced={"p": ["f1"]})
    table.commit(at("10:00:08"), at("10:00:09"), after, base("f1"), log("f1", 1, base_instant=start, partition="q"))
    table.compaction(at("10:00:10"), at("10:00:11"), base("f2"))

    found = (beside.name(at("10:00:05")), after.name(at("10:00:08")), base("f1").name(at("10:00:08")))
    assert read(table).unseen_files == tuple(sorted(f"p/{name}" for name in found))


@pytest.mark.parametrize(
    ("of", "partition", "unseen"), [("clustering", "p", 0), ("clustering", "q", 1), ("write", "p", 1)]
)
def test_beside_a_clustering_rows_may_be_written_to_both_file_groups(table, of, partition, unseen):
    """The log file of the new one bears the clustering's instant. Any other that a write adds to proves nothing."""
    planned, write = at("10:00:04"), at("10:00:05")
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.replace(planned, at("10:00:06"), base("f2"), replaced={"p": ["f1"]})
    new = log("f2", 1, base_instant=planned if of == "clustering" else None, partition=partition)
    table.commit(write, at("10:00:07"), log("f1", 1), new)
    assert len(read(table).unseen_files) == unseen


def test_services_add_no_rows_to_what_was_replaced(table):
    """A compaction or log compaction that was pending meanwhile writes what it was to write."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f1", 1))
    table.replace(at("10:00:02"), at("10:00:03"), replaced={"p": ["f1"]}, kind="DELETE_PARTITION")
    table.compaction(at("10:00:04"), at("10:00:05"), base("f1"))
    table.log_compaction(at("10:00:06"), at("10:00:07"), log("f1"))
    assert read(table).unseen_files == ()


def test_a_file_id_is_replaced_in_its_partition_alone(table):
    """Consistent hashing names file groups alike in every partition."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), base("f1", partition="q"))
    table.replace(at("10:00:04"), at("10:00:05"), base("f3"), replaced={"p": ["f1"]})
    assert [(s.partition, s.file_id) for s in read(table).slices] == [("p", "f3"), ("q", "f1")]


def test_a_file_id_has_in_each_partition_its_own_event_times(table):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50), log("f1", 70, partition="q"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 90), log("f1", partition="q"))
    found = {one.partition: [f.min_event_time_ms for f in one.log_files] for one in read(table).slices}
    assert found == {"p": [50, 90], "q": [70, None]}


def test_a_partition_may_begin_with_a_dot(table):
    """Its files are marked as missing where its folder is not listed, and are unknown once their commits are archived."""
    table.data(at("10:00:00"), base("f1", partition=".net"))
    table.archive(archived(at("10:00:00"), at("10:00:01"), base("f1", partition=".net")))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 2, partition=".net"))
    state = read(table)
    assert [(s.partition, s.base_instant, len(s.log_files)) for s in state.slices] == [(".net", at("10:00:00"), 1)]
    assert state.missing_files == ()


def test_a_pending_clustering_replaces_nothing(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.file(at("10:00:04"), ".clustering.requested")
    assert set(slices(table)) == {"f1"}


def test_a_completed_compaction_names_the_file_groups_it_touched(table):
    table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), base("f2"))
    table.commit(at("10:00:40"), at("10:00:41"), log("f1", 1))
    assert [i.file_ids for i in read(table).instants] == [{"f1", "f2"}, None]


def test_the_smallest_event_time_is_that_of_all_stats_of_a_commit_and_file_group(table):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 70, version=1), log("f1", 50, version=2), log("f2", 60))
    assert [e for _, _, e, _ in slices(table)["f1"][1]] == [50, 50]
    assert [e for _, _, e, _ in slices(table)["f2"][1]] == [60]


@pytest.mark.parametrize("order", [(None, 50), (50, None)])
def test_one_stat_without_event_time_makes_the_commit_unknown(table, order):
    table.commit(at("10:00:00"), at("10:00:01"), *(log("f1", e, version=v) for v, e in enumerate(order, 1)))
    assert [e for _, _, e, _ in slices(table)["f1"][1]] == [None, None]


def test_the_same_file_group_in_another_commit_is_not_touched_by_that(table):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 50))
    assert [e for _, _, e, _ in slices(table)["f1"][1]] == [None, 50]


def test_deletes_make_the_event_time_unknown(table):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50, deletes=1), log("f2", 50))
    assert slices(table)["f1"][1] == [(at("10:00:00"), at("10:00:01"), None, True)]
    assert slices(table)["f2"][1] == [(at("10:00:00"), at("10:00:01"), 50, False)]


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.record.merge.mode": "CUSTOM"},
        {"hoodie.record.merge.property.hoodie.payload.delete.field": "Op"},
    ],
)
def test_where_stats_hide_deletes_every_log_file_may_have_some(tmp_path, properties):
    table = TableFolder(tmp_path / "t", properties=properties)
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50))
    assert slices(table)["f1"][1] == [(at("10:00:00"), at("10:00:01"), None, True)]


def test_a_log_compaction_counts_the_deletes_that_it_repeats(table):
    """As it is read: it has the times and the deletes of its own stats (facts: log-compaction-deletes)."""
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50))
    table.log_compaction(at("10:00:02"), at("10:00:03"), log("f1", 50), log("f2", deletes=1))
    assert slices(table)["f1"][1][1] == (at("10:00:02"), at("10:00:03"), 50, False)
    assert slices(table)["f2"][1] == [(at("10:00:02"), at("10:00:03"), None, True)]


@pytest.mark.parametrize("kind", [None, "UNKNOWN"])
def test_commits_of_unclear_kind_may_have_deletes(table, kind):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50), kind=kind)
    assert slices(table)["f1"][1] == [(at("10:00:00"), at("10:00:01"), None, True)]


@pytest.mark.parametrize(
    ("event_time", "kind"),
    [(EventTime(column="ts", unit="us"), "long"), (EventTime(column="ts", format="yyyy-MM-dd HH:mm"), "string")],
)
def test_times_that_the_writer_cannot_have_recorded_rightly_are_unknown(table, event_time, kind):
    schema = {"type": "record", "name": "r", "fields": [{"name": "ts", "type": kind}]}
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50), extra={"schema": json.dumps(schema)})
    assert slices(table, event_time)["f1"][1] == [(at("10:00:00"), at("10:00:01"), None, False)]


def test_a_log_file_that_no_stat_tells_of_is_unknown_and_may_hold_deletes(table):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50))
    table.data(at("10:00:00"), log("f2", 1))
    assert slices(table)["f2"][1] == [(at("10:00:00"), at("10:00:01"), None, True)]


def test_when_a_base_file_was_completed_is_known_where_its_commit_is_archived(table):
    table.data(at("08:00:00"), base("f1"))
    table.archive(archived(at("08:00:00"), at("09:30:00"), base("f1")))
    table.commit(at("09:40:00"), at("09:40:05"), base("f2"))
    assert [one.base_completed for one in read(table).slices] == [at("09:30:00"), at("09:40:05")]


def test_a_log_file_whose_archived_commit_is_not_to_be_found_may_hold_deletes(table):
    table.data(at("09:00:00"), log("f1", 1))
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50))
    first, second = slices(table)["f1"][1]
    assert first == (at("09:00:00"), at("09:00:00"), None, True)
    assert second == (at("10:00:00"), at("10:00:01"), 50, False)


def test_partitions_at_any_depth_and_other_folders(table):
    nested, top = log("f1", 1, partition="y=2026/m=01"), log("f2", 1, partition="")
    table.commit(at("10:00:00"), at("10:00:01"), nested, top)
    (table.base / "p" / ".etc").mkdir(parents=True)
    (table.base / "unmarked").mkdir()
    (table.base / "unmarked" / log("f9", 1).name(at("10:00:00"))).write_bytes(b"")
    (table.base / "y=2026" / "m=01" / ".x.crc").write_bytes(b"")
    assert [(s.partition, s.file_id) for s in read(table).slices] == [("", "f2"), ("y=2026/m=01", "f1")]


def test_a_table_with_a_link_is_refused(table):
    """A partition that is one has rows of the table, which may not be left out."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f2", 5))
    (table.base / "p").rename(table.base.parent / "elsewhere")
    (table.base / "p").symlink_to(table.base.parent / "elsewhere")
    with pytest.raises(TableError) as error:
        read(table)
    assert (error.value.code, str(table.base / "p") in error.value.cause) == ("ETC442", True)


class TestTwins:
    """Two base files of one file group and instant: a task that was tried again may leave one that no commit records."""

    STRAY = f"f1_9-9-9_{at('08:00:00')}.parquet"
    RECORDED = base("f1").name(at("08:00:00"))

    def stray(self, table):
        (table.base / "p" / self.STRAY).write_bytes(b"cut short")

    def test_the_one_that_its_commit_recorded_counts(self, table):
        table.commit(at("08:00:00"), at("08:00:10"), base("f1"))
        table.commit(at("09:00:00"), at("09:00:10"), log("f1", 5))
        before = read(table)
        self.stray(table)
        assert read(table) == replace(before, stray_files=(f"p/{self.STRAY}",))

    def test_so_it_is_where_the_commit_is_archived(self, table):
        table.data(at("08:00:00"), base("f1"))
        table.archive(archived(at("08:00:00"), at("08:00:10"), base("f1")))
        table.commit(at("09:00:00"), at("09:00:10"), log("f1", 5))
        self.stray(table)
        state = read(table)
        assert state.slices[0].base_file == self.RECORDED
        assert (state.unclear_files, state.stray_files) == ((), (f"p/{self.STRAY}",))

    def test_where_no_commit_says_which_counts_the_table_is_refused(self, table):
        table.data(at("08:00:00"), base("f1"))
        table.commit(at("09:00:00"), at("09:00:10"), log("f1", 5))
        self.stray(table)
        state = read(table)
        assert state.unclear_files == (f"p/{self.RECORDED}", f"p/{self.STRAY}")
        assert why_unknown(POLICY, state, CLOCK_MS).code == "files_unclear"
        assert why_refused(POLICY, state, CLOCK_MS).code == "files_unclear"


class TestUnrecorded:
    """Files at the instant of a commit that did not record them: a task that was tried again may leave them."""

    LEFT = log("f1", token="0-9-7")
    COMMITS = pytest.mark.parametrize("is_archived", [False, True])

    @pytest.fixture
    def listed(self, tmp_path):
        return TableFolder(tmp_path / "listed", properties={"hoodie.table.metadata.partitions": "files,column_stats"})

    def left(self, table, is_archived, *written):
        """A table with a file of a commit at nine o'clock beside those that it recorded."""
        for instant, files in ((at("08:00:00"), [base("f1")]), (at("09:00:00"), written)):
            table.commit(instant, instant[:-4] + "9000", *files)
        if is_archived:
            for file in table.timeline.glob("2026*"):
                file.unlink()
            rows = ((at("08:00:00"), at("08:00:09"), base("f1")), (at("09:00:00"), at("09:00:09"), *written))
            table.archive(*(archived(*row) for row in rows))
        table.commit(at("10:00:00"), at("10:00:10"), log("f1", 7))
        table.data(at("09:00:00"), self.LEFT)
        return read(table)

    @COMMITS
    def test_a_log_file_has_not_the_event_time_of_another_one(self, table, is_archived):
        """Without a metadata table its rows are those of readers."""
        state = self.left(table, is_archived, log("f1", 500, rows=1))
        found = {f.name: f for f in state.slices[0].log_files}
        left, written = found[self.LEFT.name(at("09:00:00"))], found[log("f1").name(at("09:00:00"))]
        assert (written.min_event_time_ms, written.has_deletes, written.rows_since) == (500, False, None)
        assert (left.min_event_time_ms, left.has_deletes, left.rows_since) == (None, True, at("09:00:00"))
        assert (left.recorded_bytes, state.unrecorded_files) == (None, ())
        assert watermark_of(state, 1_000).value_ms == 6  # of the last one
        assert watermark_of(replace(state, slices=(replace(state.slices[0], log_files=(left,)),)), 1_000).assumed

    @COMMITS
    def test_with_a_metadata_table_the_table_is_refused(self, listed, is_archived):
        state = self.left(listed, is_archived, log("f1", 500, rows=1))
        assert state.unrecorded_files == (f"p/{self.LEFT.name(at('09:00:00'))}",)
        assert why_unknown(POLICY, state, CLOCK_MS).code == "files_unclear"
        refused = why_refused(POLICY, state, CLOCK_MS)
        assert refused.code == "files_unclear"
        assert state.unrecorded_files[0] in refused.reason

    def test_one_that_a_later_base_file_has_taken_in_matters_no_more(self, listed):
        self.left(listed, False, log("f1", 500, rows=1))
        listed.compaction(at("11:00:00"), at("11:00:10"), base("f1"))
        assert (read(listed).unrecorded_files, why_unknown(POLICY, read(listed), CLOCK_MS)) == ((), None)

    def test_a_base_file_that_hides_an_older_one(self, listed):
        listed.commit(at("08:00:00"), at("08:00:10"), base("f1"))
        listed.commit(at("09:00:00"), at("09:00:10"), log("f2", 5))
        listed.data(at("09:00:00"), base("f1"), base("f3"))  # nothing is behind that of f3
        assert read(listed).unrecorded_files == (f"p/{base('f1').name(at('09:00:00'))}",)

    @pytest.fixture
    def rolled_back(self, listed):
        """A table whose writer died at nine o'clock; two archived commits and one active one are about f1 too."""
        listed.commit(at("08:00:00"), at("08:00:09"), base("f1"))
        listed.commit(at("09:30:00"), at("09:30:09"), log("f1", 7))
        listed.commit(at("10:00:00"), at("10:00:10"), log("f1", 8))
        listed.archive_first(2)
        return listed

    def test_a_log_file_that_a_rollback_left(self, rolled_back):
        """No view shows it until archiving has passed its instant: then those that list the folders do."""
        rolled_back.data(at("09:00:00"), log("f1"))
        left = f"p/{log('f1').name(at('09:00:00'))}"
        assert read(rolled_back).unrecorded_files == (left,)
        refused = why_refused(POLICY, read(rolled_back), CLOCK_MS)
        assert (refused.code, left in refused.reason) == ("files_unclear", True)

    def test_a_base_file_that_a_rollback_left(self, rolled_back):
        rolled_back.data(at("09:00:00"), base("f1"), base("f3"))  # nothing is behind that of f3
        assert read(rolled_back).unrecorded_files == (f"p/{base('f1').name(at('09:00:00'))}",)

    def test_an_archived_instant_without_a_completion_time_may_have_completed(self, rolled_back):
        rolled_back.data(at("09:00:00"), log("f1"))
        rolled_back.archive(*rolled_back.archived, archived(at("09:00:00"), None))
        assert read(rolled_back).unrecorded_files == ()

    def test_so_may_one_before_all_that_is_archived(self, rolled_back):
        rolled_back.data(at("07:00:00"), base("f2"))
        rolled_back.commit(at("10:30:00"), at("10:30:10"), log("f2", 9))
        assert read(rolled_back).unrecorded_files == ()

    def test_the_log_file_of_a_write_beside_a_resize_is_not_the_clusterings(self, listed):
        """See facts: dual-write-names; the commit that recorded it may be archived, and is not looked for."""
        listed.replace(at("10:00:02"), at("10:00:20"), base("g1"), replaced={"p": ["f1"]})
        listed.data(at("10:00:02"), log("g1", 5))
        state = read(listed)
        assert state.unrecorded_files == ()
        assert [(f.min_event_time_ms, f.rows_since) for f in state.slices[0].log_files] == [(None, at("10:00:02"))]


class TestUnrecordedBeforeVersion8:
    """The archive is asked there too, of the base files alone that hide something."""

    FIRST, DIED, LEFT = at("08:00:00"), at("09:00:00"), base("f1").name(at("09:00:00"))

    @pytest.fixture
    def old(self, tmp_path):
        """A table whose writer died at nine o'clock; a base file of it is there, and what came before is to be archived."""
        table = TableFolder(tmp_path / "old", version=6, properties={"hoodie.table.metadata.partitions": "files"})
        table.data(self.FIRST, base("f1"), base("f2"), base("f3"))
        table.data(self.DIED, base("f1"), base("f4"))  # nothing is behind that of f4
        table.commit(at("10:00:00"), "", log("f1", base_instant=self.FIRST), log("f2", base_instant=self.FIRST))
        return table

    def test_a_base_file_that_a_rollback_left_hides_the_log_files_of_the_one_before(self, old):
        old.archive_to_log(1, self.FIRST, at("09:30:00"))
        state = read(old)
        assert state.unrecorded_files == (f"p/{self.LEFT}",)
        by_slice = POLICY.model_copy(update={"strategy": Strategy(granularity="file_slice")})
        refused = why_refused(by_slice, state, CLOCK_MS)
        assert (refused.code, self.LEFT in refused.reason) == ("files_unclear", True)

    def test_without_a_metadata_table_it_is_what_readers_see(self, old):
        old.archive_to_log(1, self.FIRST, at("09:30:00"))
        properties = old.meta / "hoodie.properties"
        properties.write_text(properties.read_text().replace("hoodie.table.metadata.partitions=files\n", ""))
        assert read(old).unrecorded_files == ()

    @pytest.mark.parametrize("later", [(), (at("09:30:00"),)])
    def test_one_that_is_archived_was_committed(self, old, later):
        """In the newest file that has them all; what is older is not read."""
        old.archive_to_log(9, at("07:00:00")).write_bytes(b"no log file")
        old.archive_to_log(10, self.FIRST, self.DIED)
        if later:
            old.archive_to_log(11, *later)
        assert read(old).unrecorded_files == ()

    def test_what_was_never_archived_may_have_been_committed(self, old):
        assert read(old).unrecorded_files == ()
        old.archive_to_log(1, at("09:30:00"))  # it begins later
        assert read(old).unrecorded_files == ()

    def test_an_archive_that_cannot_be_read_to_its_end_does_not_say_that_it_was_not(self, old):
        damaged = old.archive_to_log(2, at("09:30:00"))
        damaged.write_bytes(damaged.read_bytes()[:-9])
        old.archive_to_log(1, self.FIRST)
        with pytest.raises(TableError) as raised:
            read(old)
        assert (raised.value.code, damaged.name in raised.value.message) == ("ETC208", True)
        damaged.with_name(".commits_.archive.1_1-0-1").unlink()
        old.archive_to_log(3, self.FIRST, self.DIED)  # as the next writer archives them
        assert read(old).unrecorded_files == ()


class TestVersion6:
    @pytest.fixture
    def old(self, tmp_path):
        return TableFolder(tmp_path / "old", version=6)

    def test_a_base_file_that_is_gone_is_missed_and_a_log_file_is_not(self, old):
        """Commits go on writing to log files of earlier ones."""
        first, second = at("10:00:00"), at("10:00:02")
        old.commit(first, first, base("f1"), base("f2"))
        old.commit(second, second, log("f2", base_instant=first), log("f1", base_instant=first))
        for file in (base("f1"), log("f2", base_instant=first)):
            (old.base / "p" / file.name(first)).unlink()
        assert read(old).missing_files == (f"p/{base('f1').name(first)}",)

    def test_a_base_file_that_a_newer_one_follows_may_be_gone(self, old):
        old.commit(at("10:00:00"), at("10:00:00"), base("f1"))
        old.commit(at("10:00:02"), at("10:00:02"), base("f1"))
        (old.base / "p" / base("f1").name(at("10:00:00"))).unlink()
        assert read(old).missing_files == ()

    def test_the_base_instant_in_the_name_decides(self, old):
        """Commit 4 was under way when the compaction was requested: its block stays in the old slice."""
        first, second = at("10:00:00"), at("10:00:05")
        old.commit(first, "", base("f1"))
        old.commit(at("10:00:02"), "", log("f1", base_instant=first))
        old.compaction(second, "", base("f1"))
        old.commit(at("10:00:07"), "", log("f1", base_instant=second), log("f1", base_instant=second, version=2))

        only = read(old).slices[0]

        assert (only.base_instant, only.base_file) == (second, f"f1_0-1-0_{second}.parquet")
        assert [f.name for f in only.log_files] == [f".f1_{second}.log.{v}_0-1-0" for v in (1, 2)]

    def test_log_files_of_a_pending_compactions_slice_are_there(self, old):
        """Writers that begin after the request write to the slice that the compaction will make."""
        first, second = at("10:00:00"), at("10:00:05")
        old.commit(first, "", base("f1"))
        old.commit(at("10:00:02"), "", log("f1", base_instant=first))
        old.plan(second, {})
        old.commit(at("10:00:07"), "", log("f1", base_instant=second))
        only = read(old).slices[0]
        assert (only.base_instant, only.base_file) == (first, f"f1_0-1-0_{first}.parquet")
        assert [f.name for f in only.log_files] == [f".f1_{instant}.log.1_0-1-0" for instant in (first, second)]

    def test_base_files_of_a_pending_compaction_are_not(self, old):
        first, second = at("10:00:00"), at("10:00:05")
        old.commit(first, "", base("f1"))
        old.plan(second, {})
        old.data(second, base("f1"))
        assert read(old).slices[0].base_instant == first

    def test_instants_are_their_own_completion_times(self, old):
        old.commit(at("10:00:00"), "", base("f1"))
        assert [(i.requested, i.completed) for i in read(old).instants] == [(at("10:00:00"), at("10:00:00"))]

    def test_event_times_are_not_taken_from_the_commit_of_the_base_file(self, old):
        """The instant in a log file's name is not that of the commit that wrote it, so its stats say nothing of it."""
        old.commit(at("10:00:00"), "", base("f1", min_event=1000))
        old.commit(at("10:00:02"), "", log("f1", 10, base_instant=at("10:00:00")))
        assert [f.min_event_time_ms for f in read(old).slices[0].log_files] == [None]

    def test_what_was_carried_is_bounded_by_what_its_plan_knew(self, old):
        """Its rows came before the instant in its name, and so the latency promises nothing from there on."""
        first, second = at("10:00:00"), at("10:00:06")
        old.commit(first, "", base("f1"))
        old.commit(at("10:00:02"), "", log("f1", 20, base_instant=first))
        carried = log("f1", base_instant=second, version=0, token="100000-0-0")
        values = json.dumps({"event_time_column.column": "ts", "event_time_column.trust_commit_metadata": "true"})
        extra = {**OURS, POLICY_VALUES: values}
        old.compaction(second, "", base("f1", previous=first), carried, extra=extra)
        old.commit(at("10:00:08"), "", log("f1", base_instant=second))
        files = read(old).slices[0].log_files
        assert [(f.min_event_time_ms, f.seen_event_time_ms) for f in files] == [(None, 1001), (None, None)]
        other = read(old, EventTime(column="ts", unit="us")).slices[0].log_files
        assert [f.seen_event_time_ms for f in other] == [None, None]  # a threshold of another column bounds nothing
        assert [f.may_hold_anything for f in other] == [True, False]

    def test_once_the_compaction_that_carried_it_is_archived_nothing_bounds_it(self, old):
        first, second = at("10:00:00"), at("10:00:06")
        carried = log("f1", base_instant=second, version=0, token="100000-0-0")
        old.commit(first, "", base("f1"))
        old.compaction(second, "", base("f1", previous=first), carried, extra=OURS)
        assert [f.may_hold_anything for f in read(old).slices[0].log_files] == [False]
        old.commit(at("10:00:08"), "", base("f2"))
        for file in [*old.timeline.glob(f"{first}*"), *old.timeline.glob(f"{second}*")]:
            file.unlink()
        state = read(old)
        assert [f.may_hold_anything for f in state.slices[0].log_files] == [True]
        assert watermark_of(state, 0).value_ms < 0
        now_ms = instant_to_ms(at("10:10:00"), UTC)
        found = table_freshness(POLICY, state, now_ms, now_ms)
        assert (found.status, found.complete_until_ms) == ("unknown", None)
        assert "nothing bounds them" in found.reason

    def test_a_bare_inflight_is_a_commit_under_way(self, old):
        old.file(at("10:00:02"), ".inflight")
        old.file(at("10:00:03"), ".compaction.requested")
        assert [(i.action, i.state) for i in read(old).pending] == [("commit", "inflight"), ("compaction", "requested")]


def test_a_data_file_that_a_commit_wrote_and_that_is_gone(table):
    written = {"f1": log("f1", 1), "f2": base("f2"), "f4": log("f4", 4, partition="q")}
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), base("f3"))
    table.commit(at("10:00:02"), at("10:00:03"), *written.values())
    assert read(table).missing_files == ()
    names = [file.name(at("10:00:02")) for file in written.values()]
    for partition, name in zip("ppq", names, strict=True):
        (table.base / partition / name).unlink()
    assert read(table).missing_files == (f"p/{names[0]}", f"p/{names[1]}", f"q/{names[2]}")


@pytest.mark.parametrize("is_done", [False, True])
def test_a_log_file_of_a_file_group_that_a_clustering_is_about_to_make_is_not_missed(table, is_done):
    """Beside a resize of consistent buckets rows are written twice: to the old file group, and to the new one.

    See facts: dual-write-names.
    """
    second = at("10:00:02")
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.file(second, ".clustering.requested")
    table.file(second, ".clustering.inflight")
    table.commit(at("10:00:04"), at("10:00:05"), log("f1", 5), log("g1", 5, base_instant=second))
    if is_done:
        table.replace(second, at("10:00:20"), base("g1"), replaced={"p": ["f1"]})
    state = read(table)
    assert state.missing_files == ()
    assert [(one.file_id, len(one.log_files)) for one in state.slices] == [("g1" if is_done else "f1", 1)]
    if is_done:  # its rows came while the clustering was at work, not when that ended
        assert watermark_of(state, 1_000).value_ms == instant_to_ms(second, UTC) - 1_000 - 1


def test_a_file_that_was_written_in_vain_is_not_missed(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f1", size=0, on_disk=False))
    assert read(table).missing_files == ()


def test_the_bytes_that_commits_book(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f1", 1, size=77), log("f2", 1, size=88))
    unbooked = log("f1", 2)
    table.commit(at("10:00:02"), at("10:00:03"), log("f2", 3, size=0))
    table.data(at("10:00:02"), unbooked)
    one, two = read(table).slices
    assert (one.base_file_bytes, one.base_file_recorded_bytes, two.base_file_recorded_bytes) == (100, 100, None)
    assert [(f.size_bytes, f.recorded_bytes) for f in one.log_files] == [(77, 77), (10, None)]
    assert [f.recorded_bytes for f in two.log_files] == [88, 0]


def test_a_log_file_that_only_an_archived_commit_books(table):
    table.archive(archived(at("09:00:00"), at("09:00:01"), log("f1", 5)))
    table.data(at("09:00:00"), log("f1", 5))
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
    assert [(f.min_event_time_ms, f.recorded_bytes) for f in read(table).slices[0].log_files] == [(5, 10), (40, 10)]


def with_stats(table, *more):
    """A commit of one log file of f1, whose stat is followed by others made of it."""
    path = table.commit(at("10:00:00"), at("10:00:01"), log("f1", 500))
    record = commit_metadata(at("10:00:00"), (log("f1", 500),))
    (stat,) = record["partitionToWriteStats"]["p"]
    record["partitionToWriteStats"]["p"] += [{**stat, **one(stat)} for one in more]
    path.write_bytes(avro(COMMIT_SCHEMA, record))
    return table.base / stat["path"]


@pytest.mark.parametrize("ending", [".cdc", "-cdc"])
def test_what_is_for_change_data_capture_is_no_log_file_whoever_books_it(table, ending):
    path = with_stats(table, lambda stat: {"path": stat["path"] + ending})
    path.with_name(path.name + ending).write_bytes(b"xx")
    assert [f.name for f in read(table).slices[0].log_files] == [path.name]


@pytest.mark.parametrize("ending", [".tmp", "x", "_1"])
def test_what_is_named_much_as_a_log_file_may_be_one(table, ending):
    with_stats(table, lambda stat: {"path": stat["path"] + ending})
    with pytest.raises(TableError, match="its name has a form that is not known"):
        read(table)


@pytest.mark.parametrize("other", [{"numDeletes": 3}, {"minEventTime": None}, {"numDeletes": -1}])
@pytest.mark.parametrize("path", [None, "p/f1_0-1-0_20260101100000000.parquet"])
def test_what_any_stat_of_the_group_leaves_open_is_unknown_of_its_log_file(table, other, path):
    with_stats(table, lambda _: {**other, "path": path})
    (log_file,) = read(table).slices[0].log_files
    assert (log_file.min_event_time_ms, log_file.has_deletes) == (None, "numDeletes" in other)


@pytest.mark.parametrize(("time", "lowest"), [(499, 499), (501, 500)])
def test_the_earliest_event_time_of_the_group_is_its_log_files(table, time, lowest):
    with_stats(table, lambda _: {"minEventTime": time, "path": None})
    assert [f.min_event_time_ms for f in read(table).slices[0].log_files] == [lowest]


def test_a_log_file_that_is_recorded_again_has_its_largest_size(table):
    path = with_stats(table, lambda _: {"fileSizeInBytes": 30}, lambda _: {"fileId": "f9", "fileSizeInBytes": 4})
    assert [(f.size_bytes, f.recorded_bytes) for f in read(table).slices[0].log_files] == [(10, 30)]
    record = commit_metadata(at("10:00:02"), ())
    later = {"fileId": "f1", "path": f"p/{path.name}", "fileSizeInBytes": 40, "numDeletes": 0, "minEventTime": 1}
    record["partitionToWriteStats"]["p"] = [later]
    table.commit(at("10:00:02"), at("10:00:03")).write_bytes(avro(COMMIT_SCHEMA, record))
    assert [(f.size_bytes, f.recorded_bytes) for f in read(table).slices[0].log_files] == [(10, 40)]


def test_a_table_of_many_commits_is_read_as_one_of_few_is(table, monkeypatch):
    """Many commits are read by a pattern."""
    for number in range(40):
        clock = f"10:{number:02}"
        kinds = [(group, version) for group in range(4) for version in (11, 2)]
        files = [log(f"f{g}", g, partition="pq"[g % 2], size=10 + g, version=version) for g, version in kinds]
        table.commit(at(f"{clock}:00"), at(f"{clock}:01"), *files, log("f9", 7, deletes=number % 2, previous="1"))
    table.compaction(at("10:20:30"), at("11:00:00"), base("f1", partition="q"), base("f9"))
    (table.base / "p" / log("f2", version=2).name(at("10:39:00"))).unlink()
    few = read(table)
    assert (len(few.instants), len(few.missing_files), len(few.slices[0].log_files)) == (41, 1, 80)
    monkeypatch.setattr(hudi_commits, "_MANY", 1)
    monkeypatch.setattr(hudi_commits, "decode_metadata", lambda content, place: pytest.fail(place))
    assert read(table) == few


def test_what_a_newer_base_file_has_merged_may_be_gone(table):
    old = (base("f1"), log("f1", 1))
    table.commit(at("10:00:00"), at("10:00:01"), *old)
    table.compaction(at("10:00:06"), at("10:00:30"), base("f1"))
    for file in old:
        (table.base / "p" / file.name(at("10:00:00"))).unlink()
    assert read(table).missing_files == ()


def test_what_was_replaced_or_never_completed_may_be_gone(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.replace(at("10:00:04"), at("10:00:05"), base("f3"), replaced={"p": ["f1"]})
    table.start(at("10:00:06"), log("f3", 1))
    (table.base / "p" / base("f1").name(at("10:00:00"))).unlink()
    assert read(table).missing_files == ()


class TestArchivedCommits:
    """What they wrote is still what the latest slices are made of."""

    WRITES = ((at("09:00:00"), base("f1", partition="q")), (at("09:10:00"), log("f1", 5, partition="q", size=1000)))

    @pytest.fixture
    def settled(self, table):
        """A partition that nobody has written to since its commits were archived."""
        table.archive(*(archived(instant, instant[:-3] + "900", written) for instant, written in self.WRITES))
        for instant, written in self.WRITES:
            table.data(instant, written)
        table.commit(at("10:00:00"), at("10:00:01"), base("f2"))
        return table

    def path(self, table, place):
        instant, written = self.WRITES[place]
        return table.base / "q" / written.name(instant)

    def test_a_sound_one(self, settled):
        state = read(settled)
        assert (state.missing_files, why_unknown(POLICY, state, CLOCK_MS)) == ((), None)
        assert [one.recorded_bytes for _, one in state.log_files] == [1000]

    def test_a_log_file_that_was_cut_short(self, settled):
        self.path(settled, 1).write_bytes(b"x" * 400)
        assert why_unknown(POLICY, read(settled), CLOCK_MS).code == "files_damaged"

    def test_a_partition_that_lost_its_mark(self, settled):
        """Readers by the metadata table see its rows all the same: RO would count as complete without them."""
        mark = settled.base / "q" / ".hoodie_partition_metadata"
        mark.rename(mark.with_name(f"{mark.name}_0"))  # a draft, such as a task leaves that was killed
        state = read(settled)
        assert state.missing_files == ("q/.hoodie_partition_metadata",)
        assert why_unknown(POLICY, state, CLOCK_MS).code == "files_missing"

    def test_a_dropped_partition_that_is_being_cleaned(self, settled):
        settled.replace(at("10:05:00"), at("10:05:01"), replaced={"q": ["f1"]})
        (settled.base / "q" / ".hoodie_partition_metadata").unlink()
        assert read(settled).missing_files == ()

    def test_a_copy_beside_the_table_is_no_partition(self, settled):
        folder = settled.base / "export"
        folder.mkdir()
        (folder / self.path(settled, 0).name).write_bytes(b"x" * 100)
        assert read(settled).missing_files == ()


def test_the_latest_event_time_that_a_commit_recorded_is_not_believed(table):
    """Hudi leaves out values without 10 or 13 digits, so that a later one may be in the file (facts: dropped-maximum)."""
    ms = 1_767_225_600_000
    table.commit(at("00:00:00"), at("00:00:01"), base("f1"))
    table.commit(at("01:00:00"), at("01:00:01"), log("f1", ms, max_event=ms + 7))
    table.commit(at("02:00:00"), at("02:00:01"), log("f1", ms, max_event=ms + 8, deletes=1))
    (one,) = read(table, EventTime(column="ts", unit="ms")).slices
    assert [(f.min_event_time_ms, f.max_event_time_ms) for f in one.log_files] == [(ms, None), (None, None)]


@dataclass(frozen=True)
class Named(Written):
    """A log file with a name of another form."""

    form: str = ""

    def name(self, instant):
        return self.form.format(instant)


UNKNOWN_NAMES = (
    ".f1_{0}.log.1_0-1-0.parquet",
    ".f1_{0}.log.parquet",
    ".f1_{0}.archive.1_0-1-0",
    ".f1_{0}.log.1_0-1-0-7",
    "f1_0-1-0_{0}.log.parquet",
    "f1_0-1-0_{0}.avro",
)


@pytest.mark.parametrize("archived", [0, 2])
@pytest.mark.parametrize("name", UNKNOWN_NAMES)
def test_a_file_of_a_commit_whose_name_is_not_known_is_no_file_that_is_not_there(tmp_path, name, archived):
    """It may be a log file, as a later Hudi writes it: RO may lack its rows."""
    table = TableFolder(tmp_path / "t")
    table.commit(at("09:00:00"), at("09:00:01"), base("f1"))
    table.commit(at("09:10:00"), at("09:10:01"), Named("f1", min_event=1, form=name))
    table.commit(at("09:20:00"), at("09:20:01"), log("f1", 2))
    table.archive_first(archived)
    with pytest.raises(TableError) as error:
        read(table)
    assert error.value.code == "ETC216"
    assert f"p/{name.format(at('09:10:00'))}" in str(error.value)


@pytest.mark.parametrize("name", [".f1_{0}.log.1_0-1-0.cdc", ".f1_{0}.log.1_0-1-0.crc", "_SUCCESS", "notes_1.txt"])
def test_what_holds_no_rows_is_beside_them(tmp_path, name):
    table = TableFolder(tmp_path / "t")
    table.commit(at("09:00:00"), at("09:00:01"), base("f1"))
    (table.base / "p" / name.format(at("09:00:00"))).write_bytes(b"x")
    assert [one.log_files for one in read(table).slices] == [()]


@pytest.mark.parametrize("name", UNKNOWN_NAMES)
def test_what_no_commit_has_written_is_none_of_the_table(tmp_path, name):
    table = TableFolder(tmp_path / "t")
    table.commit(at("09:00:00"), at("09:00:01"), base("f1"))
    (table.base / "p" / name.format(at("10:00:00"))).write_bytes(b"x")
    assert len(read(table).slices) == 1
