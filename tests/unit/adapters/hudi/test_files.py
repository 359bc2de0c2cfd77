import pytest

from etc_policy.adapters.hudi.files import HudiFiles
from etc_policy.adapters.hudi.table import FileTableReader
from etc_policy.compile.manifest import EventTime, Policy
from etc_policy.execute.ports import Job
from etc_policy.plan.commit_metadata import PLAN_ID, THRESHOLD
from tests.unit.adapters.table_folder import at, base, log, operation

TS = EventTime(column="ts")
OURS = {THRESHOLD: "1000"}
C = at("10:00:06")


def policy_of(table):
    return Policy(name="orders_ro", table=str(table.base), event_time=TS, data_latency_ms=1)


def job_of(table, *operations):
    return Job(policy_of(table), str(table.base), 9, (), C, operations)


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

    def test_planned_files_that_are_gone(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f1"))
        here = operation("f1", base("f1").name(at("10:00:00")), log("f1").name(at("10:00:00")))
        assert HudiFiles().missing_files(job_of(table, here)) == ()
        gone = operation("f2", None, ".f2_1.log.1_0-1-0")
        top = operation("f3", "f3_0-1-0_1.parquet", partition="")
        assert HudiFiles().missing_files(job_of(table, here, gone, top)) == (
            "p/.f2_1.log.1_0-1-0",
            "f3_0-1-0_1.parquet",
        )

    def test_the_commit_of_a_compaction(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.plan(C, OURS)
        assert HudiFiles().commit_summary(str(table.base), C) is None
        table.compaction(C, at("10:00:30"), base("f1"), base("f2"))
        done = HudiFiles().commit_summary(str(table.base), C)
        assert (done.completed, done.bytes_written, done.plan_id) == (at("10:00:30"), 200, None)

    @pytest.mark.parametrize(
        ("extra", "plan_extra"),
        [({PLAN_ID: "x"}, {}), ({}, {PLAN_ID: "x"}), ({PLAN_ID: "x"}, {PLAN_ID: "y"})],
    )
    def test_the_plan_that_a_compaction_carried_out(self, table, extra, plan_extra):
        """Run by stock Hudi, only the plan file names it; the commit's own metadata win."""
        table.compaction(C, at("10:00:30"), base("f1"), extra=extra, plan_extra=plan_extra)
        assert HudiFiles().commit_summary(str(table.base), C).plan_id == "x"
