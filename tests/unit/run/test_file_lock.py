"""The table's lock file, taken beside stock Hudi's rules: who finds a file does not hold the lock, who made it does."""

import math
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from etc_policy.errors import EngineError, RetryableError
from etc_policy.policy.hudi_options import FILE_PROVIDER, LOCK_FOLDER, PROVIDER
from etc_policy.policy.manifest import EventTime, Policy, Writer
from etc_policy.run import file_lock
from etc_policy.run.file_lease import FileLease
from etc_policy.run.file_lock import FileLock
from etc_policy.run.lock_holder import PROCESS_TOKEN, LockPlace, Owner, lock_place, read_holder

TAKER = """
import sys
from pathlib import Path
from etc_policy.run.file_lock import FileLock
from etc_policy.run.lock_holder import LockPlace
with FileLock(LockPlace(Path(sys.argv[1]), 0), sys.argv[2], 0, print):
    print("taken", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a table" / ".hoodie").mkdir(parents=True)
    return tmp_path / "a table" / ".hoodie" / "lock"


@pytest.fixture
def said():
    return []


@pytest.fixture
def lock(path, said):
    def make(*, table=None, wait_ms=0, expiry=0, care_ms=math.inf):
        place, base_path = LockPlace(path, expiry), str(table or path.parents[1])
        return FileLock(place, base_path, wait_ms, said.append, care_ms=care_ms)

    return make


def killed_while_holding(path, table):
    """What `kill -9` leaves of a process that holds the lock."""
    command = [sys.executable, "-c", TAKER, str(path), str(table)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "taken\n"
        process.kill()
        process.wait()
    assert path.exists()


def names_in(folder):
    return sorted(one.name for one in folder.iterdir() if one.name != ".etc")


def old(path, minutes):
    moment = time.time() - minutes * 60
    os.utime(path, (moment, moment))


def test_it_names_its_owner_and_leaves_nothing(lock, path):
    with lock() as held:
        holder = read_holder(path)
        assert holder.owner == Owner(str(path.parents[1]), token=holder.owner.token)
        assert PROCESS_TOKEN not in holder.text
        assert '"lockThreadName"' in holder.text
        held.require_held()
    assert names_in(path.parent) == []


def test_a_lock_is_as_old_as_its_file_system_says(lock, path, monkeypatch):
    """Machines share it: with a clock that is ahead the fresh lock of a living writer would look expired."""
    path.touch()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 600)
    with pytest.raises(RetryableError, match="was not released"), lock(expiry=5):
        pass
    assert path.exists()


def test_a_file_system_without_hard_links_is_named(lock, path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(EngineError) as error, lock():
        pass
    assert (error.value.code, "hard links" in error.value.hint, names_in(path.parent)) == ("ETC309", True, [])


def test_what_a_killed_run_left_is_taken_over(lock, path, said):
    killed_while_holding(path, path.parents[1])
    with lock():
        assert read_holder(path).owner.process == os.getpid()
    assert said == [f"removing the lock `{path}` that a killed run has left"]


def test_it_is_the_tables_under_whatever_path(lock, path, tmp_path):
    """Another machine may know the table by another path, which is not here."""
    elsewhere = tmp_path / "elsewhere"
    path.parents[1].rename(elsewhere)
    killed_while_holding(elsewhere / ".hoodie" / "lock", elsewhere)
    elsewhere.rename(path.parents[1])
    with lock():
        pass


@pytest.mark.parametrize("is_here", [True, False])
def test_a_shared_lock_of_another_table_is_left_alone(tmp_path, said, is_here):
    """Tables that are written together may share one; that of a living run on another machine names a table that is not here."""
    path, table, other = tmp_path / "locks" / "lock", tmp_path / "t", tmp_path / "other"
    for folder in (path.parent, table, other):
        folder.mkdir()
    killed_while_holding(path, other)
    other.rename(other if is_here else tmp_path / "far")
    shared = FileLock(LockPlace(path, 0), str(table), 0, said.append)
    with pytest.raises(RetryableError, match=f"at work on `{other}`") as error, shared:
        pass
    assert error.value.hint.startswith(f"run `etc apply` for the table `{other}`")
    assert path.exists()


@pytest.mark.parametrize("kept", ["the lock", "its takers"])
def test_no_note_of_another_table_makes_the_lock_of_its_living_run_a_dead_one(tmp_path, said, kept):
    """Whoever writes one table wrote into it what the shared lock, or files beside the other table, name its run by."""
    path, table, other = tmp_path / "locks" / "lock", tmp_path / "t", tmp_path / "other"
    for folder in (path.parent, table / ".hoodie" / ".etc", other):
        folder.mkdir(parents=True)
    command = [sys.executable, "-c", TAKER, str(path), str(other)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "taken\n"
        takers = (other / ".hoodie" / ".etc" / "lock.takers").read_text().split()
        seen = {
            "the lock": re.findall("[0-9a-f]{32}", path.read_text() + " ".join(names_in(path.parent))),
            "its takers": takers,
        }[kept]
        (table / ".hoodie" / ".etc" / "lock.takers").write_text("\n".join(seen))
        left = names_in(path.parent)
        with pytest.raises(RetryableError, match=f"at work on `{other}`"), shared_lock(path, table, said):
            pass
        assert names_in(path.parent) == left
        process.communicate("\n")
    assert names_in(path.parent) == []
    with shared_lock(path, table, said):
        pass


def test_a_pipe_in_place_of_a_held_lock_is_not_waited_for(lock, path):
    """Whoever may write there put one where the lock and the file beside it were: each look at it waited for ever."""
    with lock() as held:
        own = path.with_name(held._own)
        pipe = path.with_name("pipe")
        os.mkfifo(pipe)
        for one in (own, path):
            one.unlink()
            os.link(pipe, one)
        answers = []

        def look():
            with pytest.raises(RetryableError, match="was taken over"):
                held.require_held()
            answers.append("lost")

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        looking.join(5)
        assert answers == ["lost"]


def shared_lock(path, table, said):
    return FileLock(LockPlace(path, 0), str(table), 0, said.append)


def test_a_table_that_has_the_same_path_elsewhere_is_another_one(tmp_path, said):
    """Two containers may mount different volumes at one path, and one folder for the locks of both."""
    path, table = tmp_path / "locks" / "lock", tmp_path / "t"
    for folder in (path.parent, table):
        folder.mkdir()
    left = path.with_name(f".lock.etc.{'0' * 32}.x")  # of a run of the other one that waits
    left.touch()
    killed_while_holding(path, table)
    table.rename(tmp_path / "their volume")
    table.mkdir()
    with pytest.raises(RetryableError) as error, FileLock(LockPlace(path, 0), str(table), 0, said.append):
        pass
    assert "check whether its holder is alive" in error.value.hint
    path.unlink()
    with FileLock(LockPlace(path, 0), str(table), 0, said.append):
        pass
    assert left.exists()


def test_what_killed_runs_left_is_known_however_many_they_were(lock, path, said):
    """Each that was killed before it took the lock leaves a file of its own."""
    killed_while_holding(path, path.parents[1])
    held = path.read_bytes()
    path.unlink()
    for _ in range(2):
        killed_while_holding(path, path.parents[1])
        path.unlink()
    path.write_bytes(held)
    with lock():
        pass
    assert said == [f"removing the lock `{path}` that a killed run has left"]
    assert names_in(path.parent) == []


def test_what_lies_in_the_tables_folder_may_be_the_lock_of_another_table_too(lock, path, tmp_path):
    """Tables that are written together may share one lock; the lease of one proves nothing of runs on the other."""
    other = tmp_path / "other"
    other.mkdir()
    killed_while_holding(path, other)
    with FileLease(str(path.parents[1])) as lease:
        assert not lease.has_left_lock(policy_of(path.parents[1]))


def test_a_file_that_may_not_be_read_is_a_strangers_lock(lock, path, monkeypatch):
    path.touch()

    def refuse(self, mode="r", **_):
        if self == path:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, mode)

    real = Path.open
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RetryableError, match="was not released within 0ms; it is held by a process of user"), lock():
        pass
    assert path.exists()


@pytest.mark.parametrize(
    "etc",
    [
        "[" * 200_000,
        '{"table": 7}',
        '{"table": null}',
        '{"table": "/t", "process": "1"}',
        '{"table": "/t", "token": []}',
        '{"table": "/t\\u0000", "token": "x"}',
    ],
)
def test_what_etc_has_not_written_into_a_lock_stops_nobody(lock, path, etc):
    """Stock writers share it: it does not count as left by etc."""
    path.write_text(f'{{"etc": {etc}' + "}" * (len(etc) < 100))
    lease = FileLease(str(path.parents[1].resolve()), local=True)
    policy = Policy(
        name="orders_ro",
        table=str(path.parents[1]),
        event_time=EventTime(column="ts"),
        data_latency_ms=1,
        writer=Writer(lock={PROVIDER: FILE_PROVIDER, LOCK_FOLDER: str(path.parent)}),
    )
    assert (lease.has_left_lock(policy), read_holder(path).owner) == (False, None)
    other = path.parents[2] / "other"
    other.mkdir()
    with pytest.raises(RetryableError, match="was not released within 0ms"), lock(table=other):
        pass


def test_a_lock_whose_folder_may_not_be_looked_at_is_named(tmp_path):
    """Here the folder is a link to itself; one without permission ends there too."""
    (tmp_path / "locks").symlink_to(tmp_path / "locks")
    with pytest.raises(EngineError, match="cannot look at the lock") as error:
        read_holder(tmp_path / "locks" / "lock")
    assert (error.value.code, str(tmp_path / "locks" / "lock") in error.value.message) == ("ETC309", True)


def test_in_a_folder_that_is_none_nobody_holds_a_lock(tmp_path):
    (tmp_path / "file").touch()
    assert read_holder(tmp_path / "file" / "lock") is None


def test_a_stranger_is_waited_for_and_said_to_be(lock, path, said):
    path.touch()
    threading.Timer(0.4, path.unlink).start()
    with lock(wait_ms=20_000):
        assert read_holder(path).owner is not None
    (words,) = said
    assert words.startswith(f"waiting for the lock `{path}`, held by a process of user ")


def test_a_stranger_who_stays_ends_the_waiting_and_keeps_the_lock(lock, path):
    path.write_text("host 7")
    began = time.monotonic()
    with pytest.raises(RetryableError) as error, lock(wait_ms=300):
        pass
    assert 0.3 <= time.monotonic() - began < 5
    assert (error.value.code, error.value.exit_code) == ("ETC422", 4)
    assert f"the lock `{path}` was not released within 300ms" in error.value.message
    assert ": host 7, for " in error.value.message
    listed, removed = re.findall(r"`((?:ls|rm) [^`|]*)", error.value.hint)
    assert shlex.split(listed)[2:] == [str(path.parent / folder) for folder in (".heartbeat", "timeline")]
    assert shlex.split(removed) == ["rm", str(path)]
    assert path.read_text() == "host 7"
    assert names_in(path.parent) == ["lock"]


@pytest.mark.parametrize(("expiry", "age_minutes", "taken"), [(0, 1000, False), (5, 4, False), (5, 6, True)])
def test_an_expiry_is_kept_as_hudi_keeps_it(lock, path, expiry, age_minutes, taken):
    path.touch()
    path.with_name(".lock.crc").touch()
    old(path, age_minutes)
    if taken:
        with lock(expiry=expiry):
            assert not path.with_name(".lock.crc").exists()
    else:
        with pytest.raises(RetryableError), lock(expiry=expiry):
            pass


def test_it_does_not_expire_while_it_is_held(lock, path):
    with lock():
        old(path, 60)
        wait_until(lambda: time.time() - path.stat().st_mtime < 30)


def test_a_stock_writer_who_gives_up_waiting_removes_it_and_it_is_put_back(lock, path):
    """What has begun is still protected; but somebody may have had the lock meanwhile, so nothing more begins."""
    with lock() as held:
        path.unlink()
        with pytest.raises(RetryableError):
            held.require_held()
        wait_until(path.exists)
        assert read_holder(path).owner.process == os.getpid()
        with pytest.raises(RetryableError, match="taken over by another process"):
            held.require_held()
    assert not path.exists()


def test_one_that_is_held_for_too_long_expires_and_another_takes_it(lock, path):
    """Such as by a commit that hangs in Java: what has not begun does not begin, and nobody waits for ever."""
    with lock(expiry=0.01, care_ms=300) as held:
        assert not held.lost
        wait_until(lambda: held.lost)
        with pytest.raises(RetryableError, match="or has expired"):
            held.require_held()
        assert time.time() - path.stat().st_mtime > 0.6
        path.unlink()
        time.sleep(0.2)
        assert not path.exists()
        path.touch()
    assert path.exists()


def test_one_that_never_expires_is_put_back_however_long_it_is_held(lock, path):
    with lock(care_ms=0) as held:
        time.sleep(0.2)
        path.unlink()
        wait_until(path.exists)
        assert time.time() - path.stat().st_mtime > 0.2
        assert held.lost


def test_one_that_another_has_taken_is_lost_and_stays(lock, path):
    with lock() as held:
        other = path.with_name("other")
        other.touch()
        os.replace(other, path)
        wait_until(lambda: held.lost)
        with pytest.raises(RetryableError, match="taken over by another process") as error:
            held.require_held()
        assert error.value.code == "ETC423"
    assert path.read_bytes() == b""


def test_a_stock_writer_who_made_the_file_at_the_same_moment_has_it(lock, path, monkeypatch):
    """Hudi looks for the file, then makes it: what came between is emptied."""

    def link(*names, **options):
        real(*names, **options)
        path.write_bytes(b"")

    real = os.link
    monkeypatch.setattr(file_lock.os, "link", link)
    with pytest.raises(RetryableError), lock():
        pass
    assert path.read_bytes() == b""


def test_one_whose_folder_was_replaced_is_lost(lock, path):
    """Others look for it in the new one."""
    with lock() as held:
        former = path.parent.rename(path.parents[1] / "former")
        path.parent.mkdir()
        with pytest.raises(RetryableError, match="taken over by another process"):
            held.require_held()
        wait_until(lambda: held.lost)
    assert (names_in(former), names_in(path.parent)) == ([], [])


def test_it_is_not_taken_twice_by_one_process(lock, path):
    with lock(), pytest.raises(RetryableError), lock():
        pass
    assert not path.exists()


class TestPlace:
    def test_the_default_is_our_own(self, tmp_path):
        assert lock_place({}, str(tmp_path)) == LockPlace(tmp_path / ".hoodie" / ".etc" / "lock", 1)

    def test_a_lock_within_one_java_process_is_no_lock_between_processes(self, tmp_path):
        """Held round the client it would be refused to the client, whose own lock it is: no run could ever commit."""
        lock = {PROVIDER: "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}
        assert lock_place(lock, str(tmp_path)) == lock_place({}, str(tmp_path))

    def test_hudis_default_is_in_the_table(self, tmp_path):
        assert lock_place({PROVIDER: FILE_PROVIDER}, str(tmp_path)) == LockPlace(tmp_path / ".hoodie" / "lock", 0)

    def test_a_declared_folder_and_expiry(self, tmp_path, monkeypatch):
        monkeypatch.setenv("LOCKS", str(tmp_path))
        lock = {PROVIDER: FILE_PROVIDER, LOCK_FOLDER: "file://{{ env_var('LOCKS') }}/a"}
        lock["hoodie.write.lock.filesystem.expire"] = "3"
        assert lock_place(lock, "/t") == LockPlace(tmp_path / "a" / "lock", 3)

    @pytest.mark.parametrize(
        "lock", [{PROVIDER: "a.ZookeeperBasedLockProvider"}, {PROVIDER: FILE_PROVIDER, LOCK_FOLDER: "hdfs://n/locks"}]
    )
    def test_others_are_hudis_own(self, lock):
        assert lock_place(lock, "/t") is None


def test_a_left_lock_is_found_and_removed_under_the_lease(path):
    base = str(path.parents[1])
    policy, lease = policy_of(base), FileLease(base)
    assert not lease.has_left_lock(policy)
    path.touch()
    assert not lease.has_left_lock(policy)
    with lease:
        assert not lease.remove_left_lock(policy)
    path.unlink()
    killed_while_holding(path, base)
    assert lease.has_left_lock(policy)
    with lease:
        assert lease.remove_left_lock(policy)
    assert not path.exists()


def policy_of(table):
    policy = Policy(name="a", table=str(table), event_time=EventTime(column="ts"), data_latency_ms=1)
    return policy.model_copy(update={"writer": Writer(lock={PROVIDER: FILE_PROVIDER})})


def wait_until(happens):
    deadline = time.monotonic() + 10
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.01)


#: `/proc` without the processes that one may not trace.
HIDDEN = """
mount -t proc -o hidepid=2,gid=12345 proc /proc &&
exec setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace "$2" -c "$3" "$1"
"""
ASK = """
import sys
from pathlib import Path
from etc_policy.run.lock_holder import Owner
print(Path(f"/proc/{sys.argv[1]}").exists(), Owner("/t", process=int(sys.argv[1])).is_gone_here)
"""


def test_a_process_that_cannot_be_seen_lives():
    command = ["unshare", "-m", "sh", "-c", HIDDEN, "sh", str(os.getpid()), sys.executable, ASK]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this machine lets no process hide others: {error}")
    assert found == "False False\n"


@pytest.mark.parametrize("process", [0, -1, 2**40])
def test_a_number_that_no_process_has_is_of_none(process):
    assert Owner("/t", process=process).is_gone_here
