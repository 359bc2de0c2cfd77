import subprocess
import sys
import time

import pytest

from etc_policy.adapters import hudi_files
from etc_policy.adapters.hudi_files import FileLease, HudiFiles
from etc_policy.adapters.hudi_table import WRITER_HEARTBEAT_TOLERANCE_SECONDS, FileTableReader
from etc_policy.compile.manifest import EventTime, Policy
from etc_policy.errors import EngineError, RetryableError
from etc_policy.execute.ports import Job
from etc_policy.plan.commit_metadata import PLAN_ID, THRESHOLD
from tests.unit.adapters.table_folder import at, base, log, operation

TS = EventTime(column="ts")
OURS = {THRESHOLD: "1000"}
C = at("10:00:06")

HOLDER = """
import sys
from etc_policy.adapters.hudi_files import FileLease
with FileLease(sys.argv[1]):
    print("taken", flush=True)
    sys.stdin.readline()
"""


def policy_of(table):
    return Policy(name="orders_ro", table=str(table.base), event_time=TS, data_latency_ms=1)


def job_of(table, *operations):
    return Job(policy_of(table), str(table.base), 9, (), C, operations)


def heartbeat(table, age_seconds):
    path = table.meta / ".heartbeat" / C
    path.parent.mkdir(exist_ok=True)
    path.touch()
    beat(path, age_seconds)
    return path


def beat(path, age_seconds):
    import os

    moment = time.time() - age_seconds
    os.utime(path, (moment, moment))


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


class TestLease:
    def test_one_at_a_time_and_then_the_next(self, table):
        with FileLease(str(table.base)), pytest.raises(RetryableError) as error, FileLease(str(table.base)):
            pass
        assert (error.value.code, error.value.exit_code) == ("ETC403", 4)
        with FileLease(str(table.base)):
            pass

    def test_an_error_gives_it_back(self, table):
        with pytest.raises(ZeroDivisionError), FileLease(str(table.base)):
            _ = 1 / 0
        with FileLease(str(table.base)):
            pass

    def test_tables_do_not_block_each_other(self, table, tmp_path):
        (tmp_path / "other" / ".hoodie").mkdir(parents=True)
        with FileLease(str(table.base)), FileLease(str(tmp_path / "other")):
            pass

    def test_it_is_between_processes_and_dies_with_its_own(self, table):
        command = [sys.executable, "-c", HOLDER, str(table.base)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout.readline() == "taken\n"
            with pytest.raises(RetryableError, match="another `etc apply`"), FileLease(str(table.base)):
                pass
            holder.kill()
            holder.wait()
        with FileLease(str(table.base)):
            pass

    def test_a_folder_that_cannot_be_written(self, table):
        (table.meta / ".etc").write_text("a file")
        with pytest.raises(EngineError, match="cannot write to") as error, FileLease(str(table.base)):
            pass
        assert (error.value.code, error.value.exit_code) == ("ETC309", 3)

    def test_a_lock_that_a_killed_run_left_is_cleared_but_not_beside_a_living_one(self, table):
        lock = table.meta / ".etc" / "lock"
        lock.parent.mkdir()
        lock.touch()
        with FileLease(str(table.base)):
            assert not lock.exists()
            lock.touch()
            with pytest.raises(RetryableError), FileLease(str(table.base)):
                pass
            assert lock.exists()


class TestHeartbeat:
    @pytest.fixture
    def lease(self, table):
        return FileLease(str(table.base))

    @pytest.fixture
    def naps(self, monkeypatch):
        """What happens in each nap of a wait, in order; more naps than that fail the test."""
        steps = []
        monkeypatch.setattr(hudi_files.time, "sleep", lambda seconds: steps.pop(0)())
        return steps

    def test_no_heartbeat_is_no_living_run(self, lease, naps):
        lease.wait_for_dead_run(C)

    def test_an_old_one_is_dead(self, table, lease, naps):
        heartbeat(table, WRITER_HEARTBEAT_TOLERANCE_SECONDS + 1)
        lease.wait_for_dead_run(C)

    def marked(self, table, *instants):
        with FileLease(str(table.base)) as dead:
            for instant in instants:
                dead.mark(instant)

    @pytest.mark.parametrize("instants", [(C,), (f"{C}000", C)])
    def test_one_of_a_run_of_ours_is_dead_sooner(self, table, lease, naps, instants):
        """The lease that the dead run held is free, and names what it ran: nobody else can be beating so often."""
        self.marked(table, *instants)
        heartbeat(table, hudi_files._HEARTBEAT_TOLERANCE_SECONDS + 1)
        with lease:
            lease.wait_for_dead_run(C)

    @pytest.mark.parametrize("instants", [(), (at("10:00:07"),), (C, at("10:00:07"))])
    def test_any_other_may_be_a_stock_writers_which_beats_once_a_minute(self, table, lease, naps, instants):
        self.marked(table, *instants)
        path = heartbeat(table, hudi_files._HEARTBEAT_TOLERANCE_SECONDS + 1)
        naps.extend([lambda: None, path.unlink])
        with lease:
            lease.wait_for_dead_run(C)
        assert naps == []

    def test_how_long_each_may_be_silent(self):
        assert (hudi_files._HEARTBEAT_TOLERANCE_SECONDS, WRITER_HEARTBEAT_TOLERANCE_SECONDS) == (30, 180)

    def test_a_fresh_one_is_waited_for_until_it_expires(self, table, lease, naps):
        path = heartbeat(table, 0)
        real = hudi_files.time.time
        naps.extend([lambda: None, lambda: setattr(hudi_files.time, "time", lambda: real() + 3600)])
        try:
            lease.wait_for_dead_run(C)
        finally:
            hudi_files.time.time = real
        assert (naps, path.exists()) == ([], True)

    def test_one_that_goes_away_is_over(self, table, lease, naps):
        path = heartbeat(table, 0)
        naps.append(path.unlink)
        lease.wait_for_dead_run(C)
        assert naps == []

    def test_one_that_advances_is_alive(self, table, lease, naps):
        path = heartbeat(table, 5)
        naps.extend([lambda: None, lambda: beat(path, 0)])
        with pytest.raises(RetryableError) as error:
            lease.wait_for_dead_run(C)
        assert (error.value.code, naps) == ("ETC404", [])
        assert C in error.value.message

    def test_we_may_commit_while_ours_is_fresh_or_where_none_is_kept(self, table, lease):
        lease.require_alive(C)
        heartbeat(table, hudi_files._HEARTBEAT_TOLERANCE_SECONDS - 2)
        lease.require_alive(C)

    def test_we_may_not_once_ours_expired(self, table, lease):
        heartbeat(table, hudi_files._HEARTBEAT_TOLERANCE_SECONDS + 1)
        with pytest.raises(EngineError) as error:
            lease.require_alive(C)
        assert (error.value.code, error.value.exit_code) == ("ETC307", 3)
