import pytest

from etc_policy.adapters import hudi_table
from etc_policy.adapters.hudi_table import FileTableReader
from etc_policy.compile.manifest import EventTime
from etc_policy.errors import RetryableError, TableError
from etc_policy.plan.commit_metadata import PLAN_ID, POLICY, SEEN_UNTIL, THRESHOLD
from tests.unit.adapters.table_folder import TableFolder, archived, at, base, commit_metadata, log

TS = EventTime(column="ts")
OURS = {THRESHOLD: "1000", POLICY: "orders_ro", PLAN_ID: "abc", SEEN_UNTIL: at("10:00:09")}


def read(table, event_time=TS):
    return FileTableReader().read(str(table.base), event_time)


def slices(table, event_time=TS):
    """Per file group: base file's instant and its log files as (requested, completed, smallest event time, deletes)."""
    return {
        one.file_id: (
            one.base_instant,
            [(f.requested, f.completed, f.min_event_time_ms, f.has_deletes) for f in one.log_files],
        )
        for one in read(table, event_time).slices
    }


def test_what_the_properties_and_the_timeline_say(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.clean(at("10:00:02"), at("10:00:03"), at("10:00:00"))
    table.start(at("10:00:04"))
    table.metadata_table((at("10:00:00"), at("10:00:00.900")), (at("10:00:05"), at("10:00:06")))

    state = read(table)

    assert (state.base_path, state.table_name, state.table_version) == (str(table.base), "orders", 9)
    assert (state.timezone, state.record_key_fields, state.partition_fields) == ("UTC", ("id",), ("p",))
    assert state.event_time_type == "long"
    assert state.earliest_commit_to_retain == at("10:00:00")
    assert [(i.requested, i.action, i.state, i.completed) for i in state.instants] == [
        (at("10:00:00"), "deltacommit", "completed", at("10:00:01")),
        (at("10:00:02"), "clean", "completed", at("10:00:03")),
        (at("10:00:04"), "deltacommit", "inflight", None),
    ]
    assert state.metadata_instants == {at("10:00:00"), at("10:00:00.900"), at("10:00:05"), at("10:00:06")}
    assert state.last_completed == at("10:00:03")
    assert state == read(table)


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


def test_replaced_file_groups_are_left_out(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), base("f2"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 1), log("f2", 1))
    table.replace(at("10:00:04"), at("10:00:05"), base("f3"), replaced={"p": ["f1"]})

    assert set(slices(table)) == {"f2", "f3"}
    replace = next(i for i in read(table).instants if i.action == "replacecommit")
    assert replace.file_ids == {"f1", "f3"}


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
    "properties", [{"hoodie.record.merge.mode": "CUSTOM"}, {"hoodie.allow.operation.metadata.field": "true"}]
)
def test_where_stats_hide_deletes_every_log_file_may_have_some(tmp_path, properties):
    table = TableFolder(tmp_path / "t", properties=properties)
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50))
    assert slices(table)["f1"][1] == [(at("10:00:00"), at("10:00:01"), None, True)]


@pytest.mark.parametrize("kind", [None, "UNKNOWN", "LOG_COMPACT"])
def test_commits_of_unclear_kind_may_have_deletes(table, kind):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50), kind=kind)
    assert slices(table)["f1"][1] == [(at("10:00:00"), at("10:00:01"), None, True)]


@pytest.mark.parametrize(
    "event_time", [EventTime(column="ts", unit="us"), EventTime(column="ts", format="yyyy-MM-dd HH:mm")]
)
def test_times_that_the_writer_cannot_have_recorded_rightly_are_unknown(table, event_time):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50))
    assert slices(table, event_time)["f1"][1] == [(at("10:00:00"), at("10:00:01"), None, False)]


def test_a_log_file_that_no_stat_tells_of_is_unknown(table):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50))
    table.data(at("10:00:00"), log("f2", 1))
    assert slices(table)["f2"][1] == [(at("10:00:00"), at("10:00:01"), None, False)]


def test_partitions_at_any_depth_and_other_folders(table):
    nested, top = log("f1", 1, partition="y=2026/m=01"), log("f2", 1, partition="")
    table.commit(at("10:00:00"), at("10:00:01"), nested, top)
    (table.base / "p" / ".etc").mkdir(parents=True)
    (table.base / "unmarked").mkdir()
    (table.base / "unmarked" / log("f9", 1).name(at("10:00:00"))).write_bytes(b"")
    (table.base / "y=2026" / "m=01" / ".x.crc").write_bytes(b"")
    assert [(s.partition, s.file_id) for s in read(table).slices] == [("", "f2"), ("y=2026/m=01", "f1")]


class TestArchive:
    def test_archived_delta_commits_keep_completion_and_event_time(self, table):
        table.data(at("09:00:00"), base("f1"))
        table.data(at("09:00:02"), log("f1"))
        table.data(at("09:00:03"), log("f1"))
        table.archive(
            archived(at("09:00:00"), at("09:00:01"), base("f1")),
            archived(at("09:00:02"), at("09:00:09"), log("f1", 20)),
            archived(at("09:00:03"), at("09:00:05"), log("f1", 30, deletes=2)),
        )
        table.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
        assert slices(table) == {
            "f1": (
                at("09:00:00"),
                [
                    (at("09:00:03"), at("09:00:05"), None, True),
                    (at("09:00:02"), at("09:00:09"), 20, False),
                    (at("10:00:00"), at("10:00:01"), 40, False),
                ],
            )
        }

    def test_an_archived_commit_whose_completion_nobody_knows_counts_as_completed_when_requested(self, table):
        table.data(at("09:00:02"), log("f1"))
        table.archive(archived(at("09:00:02"), None, log("f1", 20)))
        table.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
        assert slices(table)["f1"][1][0] == (at("09:00:02"), at("09:00:02"), 20, False)

    def test_the_manifest_says_which_archive_files_count(self, table):
        table.data(at("09:00:02"), log("f1"))
        table.archive(archived(at("09:00:02"), at("09:00:03"), log("f1", 20)), manifest=1)
        table.archive(archived(at("09:00:02"), at("09:00:04"), log("f1", 10)), manifest=2)
        table.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
        assert slices(table)["f1"][1][0] == (at("09:00:02"), at("09:00:04"), 10, False)


class TestLastCompaction:
    def test_its_commit_tells_the_threshold(self, table):
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=OURS)
        record = read(table).last_compaction
        assert (record.instant, record.completed) == (at("10:00:06"), at("10:00:30"))
        assert (record.threshold_ms, record.policy, record.plan_id) == (1000, "orders_ro", "abc")
        assert record.seen_until == at("10:00:09")

    def test_run_by_stock_hudi_its_plan_file_tells_it(self, table):
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), plan_extra=OURS)
        assert read(table).last_compaction.threshold_ms == 1000

    def test_the_commit_wins_over_the_plan(self, table):
        extra = {**OURS, THRESHOLD: "2000"}
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=extra, plan_extra=OURS)
        assert read(table).last_compaction.threshold_ms == 2000

    def test_a_later_compaction_that_is_not_ours_does_not_hide_it(self, table):
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=OURS)
        table.compaction(at("10:00:40"), at("10:00:50"), base("f1"))
        assert read(table).last_compaction.instant == at("10:00:06")

    @pytest.mark.parametrize("threshold", ["", "soon", "1.5"])
    def test_a_threshold_that_is_no_number_is_none(self, table, threshold):
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra={THRESHOLD: threshold})
        assert read(table).last_compaction is None

    @pytest.mark.parametrize("part", ["metadata", "plan"])
    def test_from_the_archive(self, table, part):
        from etc_policy.adapters.hudi_plan_file import encode_plan
        from tests.unit.adapters.table_folder import COMMIT_SCHEMA, avro

        told = {
            "metadata": avro(COMMIT_SCHEMA, commit_metadata(at("09:00:00"), (), OURS)),
            "plan": encode_plan((), OURS),
        }
        stock = avro(COMMIT_SCHEMA, commit_metadata(at("09:30:00"), ()))
        row = {"instantTime": at("09:00:00"), "completionTime": at("09:00:01"), "action": "commit", "metadata": stock}
        other = {"instantTime": at("09:30:00"), "completionTime": at("09:30:01"), "action": "commit", "metadata": stock}
        table.archive({**row, part: told[part]}, other)
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        record = read(table).last_compaction
        assert (record.instant, record.completed, record.threshold_ms) == (at("09:00:00"), at("09:00:01"), 1000)

    def test_the_active_timeline_wins_over_the_archive(self, table):
        table.archive(archived(at("09:00:00"), at("09:00:01"), extra={**OURS, THRESHOLD: "5"}, action="commit"))
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=OURS)
        assert read(table).last_compaction.threshold_ms == 1000

    def test_a_delta_commit_with_such_metadata_is_no_compaction(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"), extra=OURS)
        assert read(table).last_compaction is None


class TestPendingPlan:
    def test_ours(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.plan(at("10:00:02"), OURS)
        state = read(table)
        assert state.own_pending == at("10:00:02")
        assert [(i.requested, i.action, i.state) for i in state.pending] == [
            (at("10:00:02"), "compaction", "requested")
        ]

    def test_ours_while_it_runs(self, table):
        table.plan(at("10:00:02"), OURS)
        table.file(at("10:00:02"), ".compaction.inflight")
        state = read(table)
        assert (state.own_pending, state.pending[0].state) == (at("10:00:02"), "inflight")

    def test_somebody_elses(self, table):
        table.plan(at("10:00:02"), {"other": "1"})
        assert read(table).own_pending is None

    def test_once_completed_it_pends_no_more(self, table):
        table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=OURS, plan_extra=OURS)
        assert (read(table).own_pending, read(table).pending) == (None, ())

    def test_a_bare_inflight_file_is_a_commits(self, table):
        table.file(at("10:00:02"), ".inflight")
        assert [(i.action, i.state) for i in read(table).pending] == [("commit", "inflight")]


class TestRefused:
    @pytest.mark.parametrize(
        ("properties", "code"),
        [
            ({"hoodie.table.type": "COPY_ON_WRITE"}, "ETC203"),
            ({"hoodie.table.type": None}, "ETC203"),
            ({"hoodie.bootstrap.base.path": "/old"}, "ETC204"),
            ({"hoodie.table.version": None}, "ETC205"),
            ({"hoodie.table.version": "nine"}, "ETC205"),
            ({"hoodie.timeline.layout.version": "7"}, "ETC206"),
        ],
    )
    def test_tables_of_a_kind_that_is_not_handled(self, tmp_path, properties, code):
        table = TableFolder(tmp_path / "t", properties=properties)
        with pytest.raises(TableError) as error:
            read(table)
        assert error.value.code == code
        assert str(table.base) in error.value.message

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(TableError, match="does not exist") as error:
            FileTableReader().read(str(tmp_path / "none"), TS)
        assert error.value.code == "ETC201"

    def test_a_folder_that_is_no_table(self, tmp_path):
        with pytest.raises(TableError, match="not a Hudi table") as error:
            FileTableReader().read(str(tmp_path), TS)
        assert error.value.code == "ETC202"

    def test_a_column_that_the_table_does_not_have(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        with pytest.raises(TableError, match="no column `when`") as error:
            read(table, EventTime(column="when"))
        assert (error.value.code, error.value.hint) == ("ETC209", "its columns are id, p, ts")


class TestChangesWhileRead:
    @pytest.mark.parametrize("times", [1, hudi_table.ATTEMPTS - 1])
    def test_a_file_that_vanishes_is_read_again(self, table, monkeypatch, times):
        """Archiving takes a commit off the timeline between the listing and the reading."""
        gone = table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.commit(at("10:00:02"), at("10:00:03"), log("f1", 2))
        content, read_timeline, listings = gone.read_bytes(), hudi_table.read_timeline, []

        def listed(folder, layout):
            gone.write_bytes(content)
            timeline = read_timeline(folder, layout)
            listings.append(folder)
            if len(listings) <= times:
                gone.unlink()
            return timeline

        monkeypatch.setattr(hudi_table, "read_timeline", listed)
        assert slices(table) == {"f1": (at("10:00:00"), [(at("10:00:02"), at("10:00:03"), 2, False)])}
        assert len(listings) == times + 1

    def test_what_never_stands_still_is_for_another_run(self, table, monkeypatch):
        gone, read_timeline = table.commit(at("10:00:00"), at("10:00:01"), base("f1")), hudi_table.read_timeline

        def listed(folder, layout):
            gone.touch()
            timeline = read_timeline(folder, layout)
            gone.unlink()
            return timeline

        monkeypatch.setattr(hudi_table, "read_timeline", listed)
        with pytest.raises(RetryableError) as error:
            read(table)
        assert (error.value.code, error.value.exit_code) == ("ETC401", 4)


class TestVersion6:
    @pytest.fixture
    def old(self, tmp_path):
        return TableFolder(tmp_path / "old", version=6)

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

    def test_instants_are_their_own_completion_times(self, old):
        old.commit(at("10:00:00"), "", base("f1"))
        assert [(i.requested, i.completed) for i in read(old).instants] == [(at("10:00:00"), at("10:00:00"))]

    def test_event_times_are_not_taken_from_the_commit_of_the_base_file(self, old):
        """The instant in a log file's name is not that of the commit that wrote it, so its stats say nothing of it."""
        old.commit(at("10:00:00"), "", base("f1", min_event=1000))
        old.commit(at("10:00:02"), "", log("f1", 10, base_instant=at("10:00:00")))
        assert [f.min_event_time_ms for f in read(old).slices[0].log_files] == [None]

    def test_a_bare_inflight_is_a_commit_under_way(self, old):
        old.file(at("10:00:02"), ".inflight")
        old.file(at("10:00:03"), ".compaction.requested")
        assert [(i.action, i.state) for i in read(old).pending] == [("commit", "inflight"), ("compaction", "requested")]


@pytest.mark.parametrize(
    ("avro_type", "name"),
    [
        ("long", "long"),
        (["null", "int"], "int"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp-micros"),
        (["null", {"type": "long", "logicalType": "timestamp-micros"}], "timestamp-micros"),
        ({"type": "fixed", "name": "x", "size": 3}, "fixed"),
    ],
)
def test_the_type_of_the_event_time_column(avro_type, name):
    assert hudi_table._type_name(avro_type) == name
