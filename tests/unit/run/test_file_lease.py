import errno
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from etc_policy.errors import EngineError, RetryableError
from etc_policy.hudi.apply_state import FileApplyStateStore
from etc_policy.hudi.pending_writes import HEARTBEAT_EXPIRY_MS
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime
from etc_policy.run import file_lease, run_signs
from etc_policy.run.file_lease import JAVA_LEASE, FileLease
from etc_policy.run.lease_document import read_document
from etc_policy.run.lock_holder import Owner
from etc_policy.run.run_signs import HEARTBEAT_TOLERANCE_SECONDS
from etc_policy.table.apply_state import ApplyState
from tests.unit.hudi.table_folder import at

C = at("10:00:06")
EVENT_TIME = EventTime(column="ts", unit="ms")

HOLDER = """
import sys
from etc_policy.run.file_lease import FileLease
with FileLease(sys.argv[1]):
    print("taken", flush=True)
    sys.stdin.readline()
"""


def heartbeat(table, age_seconds):
    path = table.meta / ".heartbeat" / C
    path.parent.mkdir(exist_ok=True)
    path.touch()
    beat(path, age_seconds)
    return path


def beat(path, age_seconds):
    moment = time.time() - age_seconds
    os.utime(path, (moment, moment))


def rewrite(path, **changed):
    path.write_bytes(replace(read_document(path.read_bytes()), **changed).as_bytes())


class TestLease:
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

    @pytest.mark.parametrize("lock", ["flock", "lockf"])
    def test_a_file_system_without_locks(self, table, lock, monkeypatch):
        """One table's error, which does not stop the next table; and its file is closed."""

        def refused(handle, operation):
            handles.append(handle)
            raise OSError(errno.ENOLCK, "No locks available")

        handles: list[int] = []
        monkeypatch.setattr(f"fcntl.{lock}", refused)
        with pytest.raises(EngineError, match="cannot lock") as error, FileLease(str(table.base)):
            pass
        assert (error.value.code, error.value.cause) == ("ETC309", f"[Errno {errno.ENOLCK}] No locks available")
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(handles[0])

    def test_a_folder_that_cannot_be_written(self, table):
        (table.meta / ".etc").write_text("a file")
        with pytest.raises(EngineError, match="cannot write to") as error, FileLease(str(table.base)):
            pass
        assert (error.value.code, error.value.exit_code) == ("ETC309", 3)

    def test_who_may_write_the_table_may_take_its_lease_after_somebody_else(self, table):
        """The umask says who that is, as it does of all other files of etc."""
        before = os.umask(0o002)
        try:
            with FileLease(str(table.base), local=True):
                FileApplyStateStore().update(str(table.base), lambda _: ApplyState(verified="x"))
        finally:
            os.umask(before)
        modes = {path.name: path.stat().st_mode & 0o777 for path in (table.meta / ".etc").iterdir()}
        assert modes == {"apply.lease": 0o664, JAVA_LEASE: 0o664, "memory.json": 0o664, "place": 0o664}

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
        monkeypatch.setattr(run_signs, "sleep", lambda seconds: steps.pop(0)())
        return steps

    def test_no_heartbeat_is_no_living_run(self, lease, naps):
        lease.wait_for_dead_run(C)

    def test_an_old_one_is_dead(self, table, lease, naps):
        heartbeat(table, HEARTBEAT_EXPIRY_MS // 1000 + 1)
        lease.wait_for_dead_run(C)

    def killed(self, table, *instants):
        """A run of etc that was killed: its marks stand, and none says that it ended."""
        dead = FileLease(str(table.base)).__enter__()
        for instant in instants:
            dead.mark(instant)
        os.close(dead._handle)

    @pytest.mark.parametrize("instants", [(C,), (f"{C}000", C)])
    def test_one_of_a_run_of_ours_is_dead_sooner(self, table, lease, naps, instants):
        """The lease that the dead run held is free, and names what it ran: nobody else can be beating so often."""
        self.killed(table, *instants)
        heartbeat(table, HEARTBEAT_TOLERANCE_SECONDS + 1)
        with lease:
            lease.wait_for_dead_run(C)

    @pytest.mark.parametrize("instants", [(), (at("10:00:07"),), (C, at("10:00:07"))])
    def test_any_other_may_be_a_stock_writers_which_beats_once_a_minute(self, table, lease, naps, instants):
        self.killed(table, *instants)
        path = heartbeat(table, HEARTBEAT_TOLERANCE_SECONDS + 1)
        naps.extend([lambda: None, path.unlink])
        with lease:
            lease.wait_for_dead_run(C)
        assert naps == []

    def test_how_long_each_may_be_silent(self):
        assert (HEARTBEAT_TOLERANCE_SECONDS, HEARTBEAT_EXPIRY_MS) == (30, 180_000)

    def test_a_stock_writers_as_long_as_the_policy_says(self, table, lease, naps):
        path = heartbeat(table, HEARTBEAT_EXPIRY_MS // 1000 + 1)
        naps.append(path.unlink)
        lease.wait_for_dead_run(C, HEARTBEAT_EXPIRY_MS + 600_000)
        assert naps == []

    def test_a_fresh_one_is_waited_for_until_it_expires(self, table, lease, naps, monkeypatch):
        path = heartbeat(table, 0)
        in_an_hour = time.time() + 3600
        naps.extend([lambda: None, lambda: monkeypatch.setattr(run_signs, "time_at", lambda _: in_an_hour)])
        lease.wait_for_dead_run(C)
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


class TestStockRun:
    """A stock writer alone on its table keeps no heartbeat: what it writes is the only sign of it."""

    @pytest.fixture
    def begun(self, table):
        inflight = table.file(C, ".compaction.inflight")
        marker = table.meta / ".temp" / C / "p" / "f1_0-1-0_x.parquet.marker.CREATE"
        marker.parent.mkdir(parents=True)
        marker.touch()
        base = table.base / "p" / "f1_0-1-0_x.parquet"
        base.parent.mkdir(exist_ok=True)
        base.touch()
        for path in (inflight, marker, base):
            beat(path, 100)
        return {"inflight": inflight, "marker": marker, "base": base}

    @pytest.mark.parametrize("advances", ["inflight", "marker", "base"])
    def test_is_alive_while_any_file_advances(self, table, begun, monkeypatch, advances):
        monkeypatch.setattr(run_signs, "sleep", lambda _: beat(begun[advances], 0))
        with FileLease(str(table.base)) as lease, pytest.raises(RetryableError) as error:
            lease.wait_for_dead_run(C)
        assert error.value.code == "ETC404"

    def test_is_alive_while_a_base_file_grows_that_a_timeline_server_has_announced(self, table, begun, monkeypatch):
        begun["marker"].unlink()
        listing = table.meta / ".temp" / C / "MARKERS0"
        listing.write_text(f"p/other.parquet.marker.CREATE\np/{begun['base'].name}.marker.MERGE\n")
        listing.with_name("MARKERS.type").write_text("TIMELINE_SERVER_BASED")
        for path in listing.parent.glob("MARKERS*"):
            beat(path, 300)
        monkeypatch.setattr(run_signs, "sleep", lambda _: beat(begun["base"], 0))
        with FileLease(str(table.base)) as lease, pytest.raises(RetryableError) as error:
            lease.wait_for_dead_run(C)
        assert error.value.code == "ETC404"

    def test_is_dead_once_all_are_old(self, table, begun):
        for path in begun.values():
            beat(path, HEARTBEAT_EXPIRY_MS // 1000 + 1)
        with FileLease(str(table.base)) as lease:
            lease.wait_for_dead_run(C)

    def test_a_run_of_ours_that_failed_is_not_waited_for(self, table, begun):
        with pytest.raises(ZeroDivisionError), FileLease(str(table.base)) as first:
            first.mark(C)
            beat(begun["inflight"], 1)
            _ = 1 / 0
        with FileLease(str(table.base)) as lease:
            lease.wait_for_dead_run(C)

    def test_a_run_that_began_after_ours_had_failed_is(self, table, begun, monkeypatch):
        with FileLease(str(table.base)) as first:
            first.mark(C)
        beat(begun["inflight"], -1)
        monkeypatch.setattr(run_signs, "sleep", lambda _: beat(begun["marker"], -2))
        with FileLease(str(table.base)) as lease, pytest.raises(RetryableError):
            lease.wait_for_dead_run(C)


class TestRunsOfThisMachine:
    """Both locks of a dead run are free, on the kernel that kept them: there is nothing to wait for."""

    @pytest.fixture
    def killed(self, table):
        """A local run of etc that was killed 100 s ago, 3 s after its last beat."""
        with FileLease(str(table.base), local=True) as dead:
            dead.mark(C)
            beat(table.file(C, ".compaction.inflight"), 6)
            dead.note_inflight(C)
            document = dead._document
        lease = table.meta / ".etc" / "apply.lease"
        lease.write_bytes(document.as_bytes())
        beat(lease, 8)
        return heartbeat(table, 3)

    @pytest.mark.parametrize("noted", [True, False])
    def test_is_not_waited_for_and_its_heartbeat_goes(self, table, killed, noted):
        """Hudi itself would refuse to begin while a heartbeat looks fresh."""
        if not noted:  # it died right after its inflight file was made
            path = table.meta / ".etc" / "apply.lease"
            rewrite(path, made=None)
            beat(path, 8)
        with FileLease(str(table.base), local=True) as lease:
            lease.wait_for_dead_run(C)
        assert not killed.exists()

    @pytest.mark.parametrize(
        "other",
        [
            "of a cluster",
            "of another machine",
            "another run",
            "taken over",
            "begun later",
            "begun before",
            "begun once ended",
        ],
    )
    def test_any_other_is(self, table, killed, monkeypatch, other):
        path = table.meta / ".etc" / "apply.lease"
        if other == "of another machine":
            rewrite(path, owner=Owner(str(table.base), boot="another-boot pid:[1]"))
        if other == "another run":
            rewrite(path, instant=at("10:00:07"))
        if other == "taken over":  # by a writer that beats too
            beat(table.timeline / f"{C}.compaction.inflight", 2)
            beat(killed, 1)
        if other in ("begun later", "begun before"):
            rewrite(path, made=None)
            beat(path, 30 if other == "begun later" else 5)
        if other == "begun once ended":  # ours failed before it began
            rewrite(path, made=None, ended=True)
            beat(path, 8)
        began = table.timeline / f"{C}.compaction.inflight"
        monkeypatch.setattr(run_signs, "sleep", lambda _: beat(began, -5))
        with FileLease(str(table.base), local=other != "of a cluster") as lease, pytest.raises(RetryableError):
            lease.wait_for_dead_run(C)
        assert killed.exists()

    def test_one_that_a_stock_writer_took_over_is_given_that_writers_time(self, table, killed, monkeypatch):
        """It beats once a minute: silence for a while, after which a run of etc would be dead, says nothing."""
        silence = HEARTBEAT_TOLERANCE_SECONDS + 5
        for path in (table.timeline / f"{C}.compaction.inflight", killed):
            beat(path, silence)
        monkeypatch.setattr(run_signs, "sleep", lambda _: beat(killed, 0))
        with FileLease(str(table.base)) as lease, pytest.raises(RetryableError):
            lease.wait_for_dead_run(C)

    def test_a_run_that_ends_leaves_what_it_noted(self, table, killed):
        with FileLease(str(table.base), local=True) as lease:
            lease.mark(C)
            lease.note_inflight(C)
            held = lease._document
            lease.require_alive(C)
        left = read_document((table.meta / ".etc" / "apply.lease").read_bytes())
        assert left == replace(held, ended=True, nonce=left.nonce)


class TestFence:
    """What `require_alive` asks, right before the commit."""

    @pytest.fixture
    def lease(self, table):
        with FileLease(str(table.base)) as lease:
            lease.mark(C)
            yield lease

    def test_we_may_commit_while_ours_is_fresh_or_where_none_is_kept(self, table, lease):
        lease.require_alive(C)
        heartbeat(table, HEARTBEAT_TOLERANCE_SECONDS - 2)
        lease.require_alive(C)

    @pytest.mark.parametrize("how", ["rolled back", "begun anew"])
    def test_we_may_not_once_another_has_taken_the_run_over(self, table, lease, how):
        """Its heartbeat stands where ours stood."""
        inflight = table.file(C, ".compaction.inflight")
        lease.note_inflight(C)
        heartbeat(table, 0)
        lease.require_alive(C)
        inflight.unlink() if how == "rolled back" else beat(inflight, 1)
        with pytest.raises(EngineError, match="has taken over") as error:
            lease.require_alive(C)
        assert error.value.code == "ETC307"

    def test_we_may_not_once_ours_expired(self, table, lease):
        heartbeat(table, HEARTBEAT_TOLERANCE_SECONDS + 1)
        with pytest.raises(EngineError, match="heartbeat") as error:
            lease.require_alive(C)
        assert (error.value.code, error.value.exit_code) == ("ETC307", 3)

    def test_we_may_not_once_the_lease_was_taken_away(self, table, lease):
        """On a file system that honours no locks, or by a hand that removed the file."""
        path = table.meta / ".etc" / "apply.lease"
        path.unlink()
        with pytest.raises(EngineError, match="lease") as error:
            lease.require_alive(C)
        assert error.value.code == "ETC307"
        with FileLease(str(table.base)) as thief:
            thief.mark(C)
            with pytest.raises(EngineError, match="lease"):
                lease.require_alive(C)
            thief.require_alive(C)

    def test_we_may_not_once_another_has_marked_it(self, table, lease):
        (table.meta / ".etc" / "apply.lease").write_text(f"{C} another")
        with pytest.raises(EngineError, match="lease"):
            lease.require_alive(C)


JAVA = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("taken", flush=True)
    sys.stdin.readline()
"""


def test_nobody_begins_while_the_java_process_of_a_dead_run_lives(table):
    """POSIX locks are what Java's FileLock takes."""
    with FileLease(str(table.base)):
        pass
    java = table.meta / ".etc" / JAVA_LEASE
    command = [sys.executable, "-c", JAVA, str(java)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as orphan:
        assert orphan.stdout.readline() == "taken\n"
        with pytest.raises(RetryableError) as error, FileLease(str(table.base)):
            pass
        assert error.value.code == "ETC403"
        orphan.kill()
        orphan.wait()
    with FileLease(str(table.base)):
        pass


class TestSharedFileSystem:
    """Its server notes when files are written, by a clock that need not be this machine's."""

    @pytest.fixture(params=[-240, -35, 0, 35])
    def ahead(self, request, monkeypatch):
        touch = os.utime

        def by_its_clock(file, times=None):
            touch(file, times or (time.time() + request.param,) * 2)

        monkeypatch.setattr(file_lease.os, "utime", by_its_clock)
        return request.param

    def test_our_own_heartbeat_is_fresh(self, table, ahead):
        with FileLease(str(table.base)) as lease:
            lease.mark(C)
            heartbeat(table, -ahead)
            lease.require_alive(C)
            heartbeat(table, -ahead + HEARTBEAT_TOLERANCE_SECONDS + 1)
            with pytest.raises(EngineError, match="has expired"):
                lease.require_alive(C)

    def test_a_stock_writer_that_beats_is_alive(self, table, ahead, monkeypatch):
        path = heartbeat(table, -ahead + 50)
        monkeypatch.setattr(run_signs, "sleep", lambda _: beat(path, -ahead))
        with FileLease(str(table.base)) as lease, pytest.raises(RetryableError) as error:
            lease.wait_for_dead_run(C)
        assert error.value.code == "ETC404"

    def test_a_writer_that_beats_lives_to_whoever_reads_the_table_then(self, table, ahead):
        table.file(C, ".deltacommit.requested")
        path = heartbeat(table, -ahead)
        with FileLease(str(table.base)):
            assert FileTableReader().read(str(table.base), EVENT_TIME).living_writers == {C}
            beat(path, -ahead + HEARTBEAT_EXPIRY_MS // 1000 + 5)
            assert FileTableReader().read(str(table.base), EVENT_TIME).living_writers == set()

    def test_a_clock_that_is_wrong_is_told(self, table, ahead):
        told = []
        with FileLease(str(table.base), progress=told.append):
            pass
        by = "this machine's clock is 4m ahead of that of the table's storage: one of them is wrong, and T with it"
        assert told == ([by] if ahead == -240 else [])
