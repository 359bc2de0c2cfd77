"""The table's lock, held between two writes: taken when none is in flight, and given back in time whatever happens."""

import threading
import time
from dataclasses import replace
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest

from etc_policy.errors import OvertakenError, RetryableError
from etc_policy.plan.builder import build_table_plan
from etc_policy.policy.hudi_options import FILE_PROVIDER, PROVIDER
from etc_policy.policy.manifest import Writer
from etc_policy.run import fence, lock_hold
from etc_policy.run.file_lock import FileLock
from etc_policy.run.lock_hold import LockHold, hold_place, take_between_writes
from etc_policy.run.lock_holder import LockPlace
from etc_policy.spark.table_lock import table_lock
from etc_policy.table.state import WriteInFlight
from tests.fakes import MemoryCompactor, MemoryFiles, MemoryTable
from tests.unit.plan.plan_cases import instant
from tests.unit.plan.states import NOW, POLICY, STATE, slice_of, with_slice

LONG = 600.0
LOCK = {PROVIDER: FILE_PROVIDER}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(lock_hold, "_DRAIN_SECONDS", 0.1)
    monkeypatch.setattr(lock_hold, "_RETRY_SECONDS", 0.1)


@pytest.fixture
def path(tmp_path):
    (tmp_path / ".hoodie").mkdir()
    return tmp_path / ".hoodie" / "lock"


@pytest.fixture
def new_lock(path):
    return partial(FileLock, LockPlace(path, 0), str(path.parents[1]), 0, lambda _: None)


@pytest.fixture
def taken(new_lock):
    return new_lock().__enter__()


class TestLockHold:
    def test_it_lends_the_lock_until_it_ends(self, taken, path):
        hold = LockHold(taken, LONG)
        with hold.borrowed() as lock:
            lock.require_held()
        assert path.exists()
        hold.end()
        hold.end()
        with hold.borrowed() as lock:
            assert lock is None
        assert not path.exists()

    def test_writers_go_on_when_its_time_is_over(self, taken, path):
        hold = LockHold(taken, 0.1)
        _until(lambda: not path.exists())
        with hold.borrowed() as lock:
            assert lock is None

    def test_what_is_being_written_under_the_lock_comes_to_its_end(self, taken, path):
        hold = LockHold(taken, 0.1)
        with hold.borrowed() as lock:
            time.sleep(0.4)
            assert path.exists()
            lock.require_held()
        _until(lambda: not path.exists())

    def test_one_that_somebody_has_removed_is_not_lent_any_more(self, taken, path):
        """A stock writer that gives up waiting does, and may have begun since."""
        hold = LockHold(taken, LONG)
        path.unlink()
        path.touch()
        _until(lambda: taken.lost)
        with hold.borrowed() as lock:
            assert lock is None
        assert path.read_bytes() == b""


class TestTakeBetweenWrites:
    """`looks` are what is in flight at each look under the lock."""

    @pytest.fixture
    def take(self, new_lock, path):
        def taking(*looks, wait_seconds=LONG):
            left, held = list(looks), []

            def in_flight():
                held.append(path.exists())
                return frozenset(left.pop(0) if len(left) > 1 else left[0])

            found = take_between_writes(new_lock, LockPlace(path, 0), in_flight, lambda _: [1.0], wait_seconds)
            assert all(held), "somebody could have begun beside the look"
            return found

        return taking

    @pytest.mark.parametrize("looks", [[""], ["a", ""], ["ab", "b", ""]])
    def test_it_is_taken_once_no_write_is_in_flight(self, take, path, looks):
        lock = take(*looks)
        lock.require_held()
        lock.__exit__()
        assert not path.exists()

    def test_writers_that_leave_no_moment_go_on(self, take, path):
        assert take("ab", "bc", "cd", wait_seconds=0.0) is None
        assert not path.exists()

    def test_who_wants_to_begin_is_kept_out_while_others_come_to_their_commit(self, take, monkeypatch):
        slept = []
        monkeypatch.setattr(lock_hold, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept.append))
        take("a", "ab", "b", "").__exit__()
        assert slept.count(lock_hold._DRAIN_SECONDS) == 1

    @pytest.mark.parametrize("last", [[None, 3.0], [60.0, 70.0]], ids=["one makes files", "both have failed"])
    def test_they_are_kept_out_while_a_write_is_on_the_way_to_its_files(self, new_lock, path, last):
        looks, left = [], ["xab", "ab", ""]

        def seconds_since_files(writes):
            looks.append((sorted(writes), path.exists()))
            return last if len(looks) > 2 else [0.1 if len(looks) == 1 else None, 60.0]

        place = LockPlace(path, 0)
        take_between_writes(new_lock, place, lambda: frozenset(left.pop(0)), seconds_since_files, LONG).__exit__()
        assert looks == [(["a", "b"], True)] * 3

    def test_they_are_not_kept_out_for_long_writes(self, new_lock, path):
        began, left = time.monotonic(), ["a", "a", ""]
        place = LockPlace(path, 0)
        take_between_writes(new_lock, place, lambda: frozenset(left.pop(0)), lambda _: [None], LONG, 0.3).__exit__()
        assert 0.3 < time.monotonic() - began < 5

    def test_an_error_gives_it_back(self, new_lock, path):
        def unread():
            raise RetryableError("ETC450", "no answer")

        with pytest.raises(RetryableError):
            take_between_writes(new_lock, LockPlace(path, 0), unread, lambda _: [1.0], LONG)
        assert not path.exists()


class Busy(threading.Thread):
    """A writer that never pauses: it makes the lock file to begin and to commit, as stock Hudi does, and else tries again."""

    def __init__(self, path, in_flight, stop, work_seconds):
        super().__init__(daemon=True)
        self.path, self.in_flight, self.stop, self.work_seconds = path, in_flight, stop, work_seconds
        self.is_done = False  # but for its commit

    def run(self):
        for number in count():
            if self.stop.is_set():
                return
            write = f"{id(self)} {number}"
            self.locked(partial(self.in_flight.add, write))
            time.sleep(self.work_seconds)
            self.is_done = True
            self.locked(partial(self.in_flight.discard, write))
            self.is_done = False
            time.sleep(0.1)  # what comes between two writes takes longer in a real one

    def locked(self, step):
        while True:
            try:
                self.path.open("xb").close()
                break
            except FileExistsError:
                time.sleep(0.15)
        step()
        time.sleep(0.02)
        self.path.unlink()


@pytest.mark.parametrize("work_seconds", [[0.3], [0.3, 0.4], [0.2, 0.5, 0.3]])
def test_beside_writers_that_never_pause_it_is_taken_in_the_end(path, monkeypatch, work_seconds):
    monkeypatch.setattr(lock_hold, "_DRAIN_SECONDS", 0.5)
    monkeypatch.setattr(lock_hold, "_RETRY_SECONDS", 0.4)
    in_flight, stop = set(), threading.Event()
    writers = [Busy(path, in_flight, stop, seconds) for seconds in work_seconds]
    for writer in writers:
        writer.start()
    take = partial(FileLock, LockPlace(path, 0), str(path.parents[1]), 20_000, lambda _: None, lock_hold.POLL_SECONDS)
    place, since_files = LockPlace(path, 0), lambda _: [1.0 if writer.is_done else None for writer in writers]
    lock = take_between_writes(take, place, lambda: frozenset(in_flight), since_files, 60.0)
    stop.set()
    assert lock is not None
    time.sleep(0.3)
    assert not in_flight, "somebody has begun"
    lock.__exit__()
    for writer in writers:
        writer.join()


@pytest.mark.parametrize(
    ("writer", "is_held"),
    [
        (Writer(lock=LOCK), True),
        (Writer(lock=LOCK, hold_ms=0), False),
        (Writer(), False),
        (Writer(lock={PROVIDER: "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}), False),
        (Writer(lock={PROVIDER: "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"}), False),
    ],
)
def test_a_declared_lock_file_can_be_held(tmp_path, writer, is_held):
    assert (hold_place(POLICY.model_copy(update={"writer": writer}), str(tmp_path)) is not None) == is_held


def test_what_java_does_under_the_lock_is_done_under_the_held_one(taken, path):
    """To take it again would wait for this very run."""
    policy = POLICY.model_copy(update={"writer": Writer(lock=LOCK, lock_wait_ms=0)})
    hold = LockHold(taken, LONG)
    job = SimpleNamespace(policy=policy, base_path=str(path.parents[1]), hold=hold)
    locked = partial(table_lock, None, job, None, None, lambda _: None)
    for _ in range(2):
        with locked() as require_held:
            require_held()
    assert path.exists()
    hold.end()
    with locked() as require_held:
        require_held()
    assert not path.exists()


class TestApplyBetweenWrites:
    """The plan of a table with deletes, carried out by `Runner.apply_between_writes`."""

    DELETING = with_slice(
        STATE, "f1", log_files=tuple(f._replace(has_deletes=True) for f in slice_of(STATE, "f1").log_files)
    )

    @pytest.fixture
    def table(self):
        return MemoryTable(self.DELETING)

    @pytest.fixture
    def apply(self, table, path):
        policy = POLICY.model_copy(update={"writer": Writer(lock=LOCK, lock_wait_ms=0)})

        def applying(policy=policy, **ports):
            def plan_anew():
                table.calls.append(f"plan {'under the lock' if path.exists() else ''}")
                return build_table_plan(policy, table.state, now_ms=NOW, clock_ms=NOW), "plan-1"

            return table.runner(**ports).apply_between_writes(policy, str(path.parents[1]), plan_anew, None)

        return applying

    def test_it_plans_and_commits_under_one_lock(self, table, apply, path):
        held = []
        result, plan = apply(compactor=MemoryCompactor(table, meanwhile=lambda: held.append(path.exists())))
        assert (result.status, plan.action, held, path.exists()) == ("compacted", "compact", [True], False)
        assert table.calls.index("lease") < table.calls.index("plan under the lock") < table.calls.index("publish")

    def test_writers_go_on_right_after_the_commit(self, apply, path, monkeypatch):
        held, completed_commit = [], MemoryFiles.completed_commit

        def look(files, base_path, at):
            done = completed_commit(files, base_path, at)
            held.append((done is not None, path.exists()))
            return done

        monkeypatch.setattr(MemoryFiles, "completed_commit", look)
        apply()
        assert set(held) == {(False, True), (True, False)}

    def test_what_is_asked_before_the_commit_is_asked_all_the_same(self, table, apply, path, monkeypatch):
        """A writer that does not take the lock to begin, or whose wait was over."""
        monkeypatch.setattr(fence, "WRITER_WAIT_SECONDS", 0.1)

        def begin():
            write = WriteInFlight(instant("11:59:00"), None)
            table.state = replace_writes(table.state, write)

        with pytest.raises(OvertakenError):
            apply(compactor=MemoryCompactor(table, meanwhile=begin))
        assert (table.state.own_pending, table.commits, path.exists()) == (None, {}, False)

    def test_without_a_lock_to_hold_nothing_is_done(self, table, apply):
        assert apply(POLICY) is None
        assert table.calls == []

    def test_writers_that_leave_no_moment_leave_nothing_to_do(self, table, apply, path):
        table.state = replace_writes(table.state, WriteInFlight(instant("11:59:00"), None))
        assert apply() is None
        assert {"publish", "plan under the lock"}.isdisjoint(table.calls)
        assert not path.exists()


def replace_writes(state, *writes):
    return replace(state, writes_in_flight=writes)


def _until(condition):
    ends = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)
