from dataclasses import replace

import pytest

from etc_policy.errors import RetryableError, TableError
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.carry import CARRIED, carried_text
from etc_policy.plan.model import CarriedFile
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.ports import AtCommit, Job
from etc_policy.run.table_files import HudiFiles, index_marks, require_same_indexes
from etc_policy.table.history import PLAN_ID, THRESHOLD
from tests.unit.hudi.table_folder import ROLLBACK_PLAN, TableFolder, at, avro, base, log, operation

TS = EventTime(column="ts")
OURS = {THRESHOLD: "1000"}
C = at("10:00:06")


def policy_of(table):
    return Policy(name="orders_ro", table=str(table.base), event_time=TS, data_latency_ms=1)


OLD_LOG = log("f1", base_instant=at("10:00:00")).name("")


def job_of(table, *operations):
    return Job(policy_of(table), str(table.base), 9 if table.layout > 1 else 6, (), C, operations)


class TestHudiFiles:
    def test_our_pending_plan_as_a_job(self, table):
        first = base("f1").name(at("10:00:00"))
        planned = operation("f1", first, log("f1").name(at("10:00:02")))
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.plan(C, OURS, planned)
        state = FileTableReader().read(str(table.base), TS)

        job = HudiFiles().pending_job(policy_of(table), state)

        assert (job.instant, job.operations, job.extra_metadata) == (C, (planned,), OURS)
        assert (job.base_path, job.table_version) == (str(table.base), 9)

    def test_a_plan_of_others_as_a_job(self, table):
        first, ours = base("f1").name(at("10:00:00")), at("10:00:07")
        planned = operation("f1", first, log("f1").name(at("10:00:02")))
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.plan(C, {"theirs": "1"}, planned)
        table.plan(ours, OURS, operation("f2", None, log("f2").name(at("10:00:02"))))
        state = FileTableReader().read(str(table.base), TS)

        job = HudiFiles().pending_job(policy_of(table), state, C)

        assert (job.instant, job.operations, job.extra_metadata) == (C, (planned,), {"theirs": "1"})
        alone = HudiFiles().pending_job(policy_of(table), state)
        assert (alone.instant, alone.model_file) == (ours, f"p/{first}")  # new base files are written like the table's

    def test_what_a_plan_says_that_it_reads_is_not_what_it_reads(self, table):
        """Each writer of the table may change that, and `etc run` takes what was read of the budget of all tables."""
        first = base("f1").name(at("10:00:00"))
        planned = operation("f1", first, log("f1").name(at("10:00:00"))).model_copy(update={"bytes_read": 10**15 << 20})
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f1"))
        table.plan(C, OURS, planned)
        job = HudiFiles().pending_job(policy_of(table), FileTableReader().read(str(table.base), TS))
        sizes = [(table.base / path).stat().st_size for path in (*job.base_paths, *job.log_paths)]
        assert (HudiFiles().bytes_read(job), len(sizes)) == (sum(sizes), 2)

    def test_log_files_of_changes_are_no_part_of_it(self, table):
        """Stock Hudi plans them with the others, and reads them for queries of changes alone."""
        first, log_file = base("f1").name(at("10:00:00")), log("f1").name(at("10:00:02"))
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.plan(C, {}, operation("f1", first, f"{log_file}.cdc", log_file))
        state = FileTableReader().read(str(table.base), TS)
        job = HudiFiles().pending_job(policy_of(table), state, C)
        assert job.log_paths == (f"p/{log_file}",)

    def test_planned_files_that_are_gone(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f1"))
        here = operation("f1", base("f1").name(at("10:00:00")), log("f1").name(at("10:00:00")))
        assert HudiFiles().missing_files(job_of(table, here)) == ()
        gone = operation("f2", None, ".f2_1.log.1_0-1-0")
        top = operation("f3", "f3_0-1-0_1.parquet", partition="")
        assert HudiFiles().missing_files(job_of(table, here, gone, top)) == (
            "f3_0-1-0_1.parquet",
            "p/.f2_1.log.1_0-1-0",
        )

    @pytest.mark.parametrize(
        ("before", "after", "found"),
        [
            (({}, {}), ({},), None),
            (({}, {"latest_schema": "one"}), ({"latest_schema": "one"},) * 2, None),
            (({}, {}), ({}, {"latest_schema": "one"}, {"latest_schema": "one"}), "10:00:08"),
            (({"latest_schema": "one"},), ({"latest_schema": "two"}, {"latest_schema": "one"}), "10:00:07"),
            (({"latest_schema": "one"},), ({},), None),
            ((), ({},), None),
        ],
    )
    def test_a_schema_that_was_altered_after_an_instant(self, table, before, after, found):
        for second, extra in [*enumerate(before), *enumerate(after, start=7)]:
            table.commit(at(f"10:00:0{second}"), at(f"10:00:0{second}"), log("f1", 1), extra=extra)
        table.plan(C, OURS)
        table.clean(at("10:00:20"), at("10:00:20"), at("10:00:07"))
        why = f"the table's schema was altered at {at(found)}" if found else None
        assert HudiFiles().wrong_schema(str(table.base), C) == why
        assert HudiFiles().read_at_commit(job_of(table)) == AtCommit(False, why)
        names = {one.requested: one.schema for one in FileTableReader().read(str(table.base), TS).instants}
        assert names.pop(C) == names.pop(at("10:00:20")) == ""
        assert [bool(name) for _, name in sorted(names.items())] == [bool(extra) for extra in (*before, *after)]

    @pytest.mark.parametrize("of", ["10:00:00", "10:00:02", "10:00:04", "10:00:06"])
    @pytest.mark.parametrize("is_done", [False, True])
    def test_a_rollback_of_what_a_compaction_takes(self, table, of, is_done):
        """Of its base file or of a log file, not of the compaction itself or of another write; files may be there yet."""
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.commit(at("10:00:02"), at("10:00:03"), log("f1"))
        table.plan(C, OURS)
        plan = {"instantToRollback": {"commitTime": at(of)}, "RollbackRequests": []}
        table.file(at("10:00:08"), ".rollback.requested", avro(ROLLBACK_PLAN, plan))
        if is_done:
            table.rollback(at("10:00:08"), at("10:00:09"))
        planned = operation("f1", base("f1").name(at("10:00:00")), log("f1").name(at("10:00:02")))
        words = f"the rollback at {at('10:00:08')} takes back the write at {at(of)}, which it compacts"
        expected = words if of in ("10:00:00", "10:00:02") else None
        assert HudiFiles().read_at_commit(job_of(table, planned)).rolled_back == expected
        assert HudiFiles().read_at_commit(job_of(table)).rolled_back is None
        table.plan(C, {}, planned)  # somebody else's: it is not in the job
        assert HudiFiles().read_at_commit(job_of(table)).rolled_back == expected

    @pytest.mark.parametrize(
        ("of", "named", "is_taken"),
        [
            ("10:00:02", {"fileId": "f1"}, True),
            ("10:00:02", {"logBlocksToBeDeleted": {f"p/{OLD_LOG}": 7}}, True),
            ("10:00:02", {"filesToBeDeleted": [f"p/{OLD_LOG}"]}, True),
            ("10:00:02", {"fileId": "f2"}, False),
            ("10:00:02", None, True),  # nobody says of what it takes rows
            ("10:00:07", {"fileId": "f1"}, False),  # they are in the slice that the plan begins
        ],
    )
    def test_before_version_8_a_rollback_leaves_the_log_file_in_which_the_rows_are(self, tmp_path, of, named, is_taken):
        """Which bears the instant of its slice. As long as the timeline knows of the write, a compaction leaves them out."""
        table = TableFolder(tmp_path / "old", version=6)
        table.commit(at("10:00:00"), "", base("f1"))
        table.commit(at("10:00:01"), "", log("f2", base_instant=at("10:00:00")))
        table.plan(C, OURS)
        request = {
            "partitionPath": "p",
            "fileId": "",
            "filesToBeDeleted": [],
            "logBlocksToBeDeleted": {},
            **(named or {}),
        }
        requests = [request] if named else []
        plan = {"instantToRollback": {"commitTime": at(of)}, "RollbackRequests": requests}
        table.file(at("10:00:08"), ".rollback.requested", avro(ROLLBACK_PLAN, plan))
        job = job_of(table, operation("f1", base("f1").name(at("10:00:00")), OLD_LOG))
        assert HudiFiles().read_at_commit(job) == AtCommit(
            False, rollbacks_beside=frozenset([at("10:00:08")] * is_taken)
        )
        for archived in table.timeline.glob("2026010110000[01]000*"):
            archived.unlink()  # Hudi takes what lies before its timeline for committed
        found = HudiFiles().read_at_commit(job)
        assert (bool(found.rolled_back), found.rollbacks_beside) == (is_taken, frozenset())

    def test_a_restore_that_has_not_ended(self, table):
        table.plan(C, OURS)
        assert HudiFiles().read_at_commit(job_of(table)).restore is None
        table.file(at("10:00:08"), ".restore.requested")
        assert HudiFiles().read_at_commit(job_of(table)).restore == at("10:00:08")
        table.file(at("10:00:08"), ".restore.inflight")
        assert HudiFiles().read_at_commit(job_of(table)).restore == at("10:00:08")
        table.file(at("10:00:08"), f"_{at('10:00:09')}.restore")
        assert HudiFiles().read_at_commit(job_of(table)).restore is None

    def test_a_table_that_is_not_what_the_job_has_seen(self, table):
        table.plan(C, OURS)
        properties = table.meta / "hoodie.properties"
        before, job = properties.read_text(), job_of(table)
        assert HudiFiles().read_at_commit(job).changed_table is None
        properties.write_text(f"{before}hoodie.table.metadata.partitions=record_index,files\n")
        others = HudiFiles().read_at_commit(job).changed_table
        assert others == "its metadata table has files, record_index now, and had nothing"
        job = replace(job, metadata_partitions=("files", "record_index"))
        assert HudiFiles().read_at_commit(job).changed_table is None
        properties.write_text(before)
        assert HudiFiles().read_at_commit(job).changed_table is not None
        upgraded = HudiFiles().read_at_commit(replace(job, table_version=8)).changed_table
        assert upgraded == "it is of table version 9 now, and was of 8"
        (table.meta / ".etc").mkdir()
        (table.meta / ".etc" / "metadata_partitions").write_text("files\nrecord_index")
        assert HudiFiles().read_at_commit(job).changed_table is None  # etc builds it anew

    @pytest.mark.parametrize("of_another", [True, False])
    def test_an_index_that_was_dropped_and_made_anew(self, table, of_another):
        """Of the same name; whole metadata tables are made anew like this, too. Files of etc's own folder say that it does it."""
        marks = {one: table.meta / "metadata" / one / ".hoodie_partition_metadata" for one in ("column_stats", "files")}
        job = replace(job_of(table), metadata_partitions=("column_stats", "files", "record_index"))
        for mark in marks.values():
            mark.parent.mkdir(parents=True)
            mark.write_text(f"commitTime={at('10:00:00')}")
        seen = index_marks(job)
        require_same_indexes(job, seen)
        if of_another:
            marks["column_stats"].write_text(f"commitTime={at('10:00:07')}")
        else:
            marks["column_stats"].unlink()
        with pytest.raises(RetryableError, match="`column_stats` in its metadata table was made anew") as error:
            require_same_indexes(job, seen)
        assert error.value.code == "ETC405"
        (table.meta / ".etc").mkdir()
        (table.meta / ".etc" / "metadata_partitions").write_text("column_stats")
        require_same_indexes(job, seen)

    def test_the_commit_of_a_compaction(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.plan(C, OURS)
        assert HudiFiles().completed_commit(str(table.base), C) is None
        table.compaction(C, at("10:00:30"), base("f1"), base("f2"))
        assert HudiFiles().read_at_commit(job_of(table)) == AtCommit(True)
        done = HudiFiles().completed_commit(str(table.base), C)
        assert (done.completed, done.bytes_written, done.plan_id) == (at("10:00:30"), 200, None)

    @pytest.mark.parametrize("is_whole", [True, False])
    def test_whether_a_commit_has_what_its_plan_carries(self, tmp_path, is_whole):
        """Stock Hudi may commit the plan, and so may the Java process of a run that was killed."""
        table, first = TableFolder(tmp_path / "old", version=6), at("10:00:00")
        table.commit(first, "", base("f1"))
        stays, target = log("f1", base_instant=C, version=0, token="100000-0-0"), log("f1", base_instant=first)
        pair = CarriedFile(name=stays.name(C), target=target.name(""), size_bytes=10)
        planned = operation("f1", base("f1").name(first)).model_copy(update={"carried": (pair,)})
        extra = {**OURS, CARRIED: carried_text([planned])}
        table.compaction(C, "", base("f1"), *([stays] * is_whole), plan_extra=extra)
        assert HudiFiles().has_added(job_of(table, planned)) is is_whole

    @pytest.mark.parametrize(
        ("extra", "plan_extra"),
        [({PLAN_ID: "x"}, {}), ({}, {PLAN_ID: "x"}), ({PLAN_ID: "x"}, {PLAN_ID: "y"})],
    )
    def test_the_plan_that_a_compaction_carried_out(self, table, extra, plan_extra):
        """Run by stock Hudi, only the plan file names it; the commit's own metadata win."""
        table.compaction(C, at("10:00:30"), base("f1"), extra=extra, plan_extra=plan_extra)
        assert HudiFiles().completed_commit(str(table.base), C).plan_id == "x"


class TestCutOff:
    """A run that was killed while Hudi 0.x wrote the file of its commit leaves it empty (facts: empty-commit-file)."""

    @pytest.fixture(params=[6, 9])
    def cut_off(self, request, tmp_path):
        table = TableFolder(tmp_path / "orders", version=request.param)
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        planned = operation("f1", base("f1").name(at("10:00:00")))
        table.compaction(C, at("10:00:30"), base("f1")).write_bytes(b"")
        table.plan(C, OURS, planned)
        return table

    def test_it_cannot_be_read_and_the_error_says_how_to_go_on(self, cut_off):
        with pytest.raises(TableError, match=rf"`.*/{C}\S*\.commit` is empty") as error:
            FileTableReader().read(str(cut_off.base), TS)
        assert error.value.code == "ETC208"
        assert "etc explain ETC208" in error.value.hint

    def test_it_is_pending_again(self, cut_off):
        files, policy = HudiFiles(), policy_of(cut_off)
        job = files.cut_off_job(policy, str(cut_off.base))
        files.reopen(job)
        state = FileTableReader().read(str(cut_off.base), TS)
        assert (state.own_pending, state.last_compaction) == (C, None)
        assert job == replace(files.pending_job(policy, state), base_file=None)
        assert files.cut_off_job(policy, str(cut_off.base)) is None

    def test_a_commit_that_was_written_meanwhile_stays(self, cut_off):
        job = HudiFiles().cut_off_job(policy_of(cut_off), str(cut_off.base))
        (written,) = cut_off.base.glob(f".hoodie/**/{C}*.commit")
        written.write_bytes(b"{}")
        HudiFiles().reopen(job)
        assert written.read_bytes() == b"{}"

    def test_it_stays_where_a_clean_may_take_what_it_compacted(self, cut_off):
        """Hudi reads it as a commit: what came before it may be cleaned."""
        job = HudiFiles().cut_off_job(policy_of(cut_off), str(cut_off.base))
        cut_off.file(at("10:01:00"), ".clean.requested")
        with pytest.raises(TableError, match="a clean began after it"):
            HudiFiles().reopen(job)

    def test_it_stays_where_what_it_compacted_is_gone(self, cut_off):
        job = HudiFiles().cut_off_job(policy_of(cut_off), str(cut_off.base))
        (cut_off.base / "p" / base("f1").name(at("10:00:00"))).unlink()
        with pytest.raises(TableError, match="is gone"):
            HudiFiles().reopen(job)

    def test_one_that_etc_did_not_plan_is_left_alone(self, table):
        table.compaction(C, at("10:00:30"), base("f1")).write_bytes(b"")
        assert HudiFiles().cut_off_job(policy_of(table), str(table.base)) is None
