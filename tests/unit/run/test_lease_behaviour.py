"""What every lease of a run does; a new one joins by its name in `LEASES`."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from etc_policy.errors import EngineError, RetryableError
from etc_policy.hudi.pending_writes import HEARTBEAT_EXPIRY_MS, living_writers, writes_in_flight
from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.timeline import read_timeline
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.run import run_signs, store_lease
from etc_policy.run.file_lease import FileLease
from etc_policy.run.lease_document import STORE_LEASE, LeaseDocument, read_document
from etc_policy.run.lock_holder import Owner
from etc_policy.run.run_signs import RunSigns
from etc_policy.run.store_lease import StoreLease
from etc_policy.storage.open_storage import open_storage, use_storage_settings
from tests.nightly import nightly
from tests.unit.hudi.table_folder import at

C = at("10:00:06")
BEAT = f".hoodie/.heartbeat/{C}"


class OnDisk:
    """A table on local disk, and how its lease is lost."""

    def __init__(self, request):
        self.table = request.getfixturevalue("table")
        self.storage = open_storage(str(self.table.base))

    def lease(self):
        return FileLease(str(self.table.base))

    def content(self):
        return self._path.read_bytes()

    def leave(self, content):
        """As a run leaves it that dies with this content."""
        self._path.write_bytes(content)

    @property
    def _path(self):
        return Path(self.table.base) / ".hoodie" / ".etc" / "apply.lease"

    def take_over(self):
        path = self._path
        path.rename(f"{path}.old")
        path.touch()


class OnARemoteStorage:
    """The same table on a storage that machines share."""

    def lease(self):
        return StoreLease(self.storage)

    def content(self):
        return self.storage.version(STORE_LEASE).content

    def leave(self, content):
        """And its lease has ended: this process lives."""
        self.replace(read_document(content).renewed(released=True).as_bytes())

    def take_over(self):
        self.replace(b'{"somebody": "else"}')

    def replace(self, content):
        assert self.storage.replace_version(STORE_LEASE, content, self.storage.version(STORE_LEASE).tag)


class InABucket(OnARemoteStorage):
    def __init__(self, request, server):
        request.getfixturevalue("s3_variables")
        found = request.getfixturevalue(server)
        location = found.upload(request.getfixturevalue("table").base, found.make_bucket(), "t")
        use_storage_settings(StorageSettings(endpoint=found.endpoint))
        self.storage = open_storage(location)


class OnHdfs(OnARemoteStorage):
    def __init__(self, request):
        cluster = request.getfixturevalue("hdfs_cluster")
        self.storage = open_storage(cluster.upload(request.getfixturevalue("table").base, cluster.new_folder()))


class InAnotherCloud(OnARemoteStorage):
    def __init__(self, request, bucket):
        self.storage = open_storage(f"{request.getfixturevalue(bucket)}/t")
        base = request.getfixturevalue("table").base
        for path in filter(Path.is_file, sorted(base.rglob("*"))):
            self.storage.create(path.relative_to(base).as_posix(), path.read_bytes())


LEASES = {
    "azurite": lambda request: InAnotherCloud(request, "azure_container"),
    "fake-gcs-server": lambda request: InAnotherCloud(request, "gcs_bucket"),
    "file": OnDisk,
    "hdfs": OnHdfs,
    "moto": lambda request: InABucket(request, "moto_server"),
    "versitygw": lambda request: InABucket(request, "versity_server"),
}


@pytest.fixture(params=["azurite", "fake-gcs-server", "file", "moto", "versitygw", *nightly("hdfs")])
def place(request):
    return LEASES[request.param](request)


@pytest.fixture
def _no_naps(monkeypatch):
    """Whoever waits for signs of a run fails the test."""

    def sleep(_):
        raise AssertionError("there is nothing to wait for")

    monkeypatch.setattr(run_signs, "sleep", sleep)


def inflight(place, content=b""):
    place.storage.replace(f".hoodie/timeline/{C}.compaction.inflight", content)


def test_one_at_a_time_and_then_the_next(place):
    with place.lease(), pytest.raises(RetryableError) as error, place.lease():
        pass
    assert (error.value.code, error.value.exit_code) == ("ETC403", 4)
    with place.lease():
        pass


def test_an_error_gives_it_back(place):
    with pytest.raises(ZeroDivisionError), place.lease():
        _ = 1 / 0
    with place.lease():
        pass


def test_a_run_that_holds_it_may_commit(place):
    with place.lease() as lease:
        lease.mark(C)
        inflight(place)
        lease.note_inflight(C)
        place.storage.replace(BEAT, b"")
        lease.require_alive(C)
        lease.require_alive(C)


def test_a_run_that_has_lost_it_may_not(place):
    with place.lease() as lease:
        lease.mark(C)
        place.take_over()
        with pytest.raises(EngineError, match="was lost; nothing was committed") as error:
            lease.require_alive(C)
        assert error.value.code == "ETC307"


def test_nor_may_one_whose_inflight_file_is_anothers(place):
    with place.lease() as lease:
        lease.mark(C)
        inflight(place)
        lease.note_inflight(C)
        place.storage.remove(f".hoodie/timeline/{C}.compaction.inflight")
        time.sleep(1.1)  # times of stores have whole seconds
        inflight(place)
        with pytest.raises(EngineError, match="another run of the compaction"):
            lease.require_alive(C)


def test_a_run_that_ended_leaves_nothing_to_wait_for(place, _no_naps):
    with place.lease() as lease:
        lease.mark(C)
        inflight(place)
        lease.note_inflight(C)
        place.storage.replace(BEAT, b"")
    with place.lease() as lease:
        lease.wait_for_dead_run(C)
    assert place.storage.info(BEAT) is None


def killed_before_it_began(place):
    """A run that finishes a pending plan, and dies before Hudi has rolled back what was begun."""
    with place.lease() as lease:
        lease.wait_for_dead_run(C)
        lease.mark(C)
        left = place.content()
    place.leave(left)


def test_what_a_killed_run_had_found_is_not_taken_for_a_stock_writers(place, monkeypatch):
    """A stock writer is given three minutes, and every run that died at this moment cost so much."""
    inflight(place)
    waits = []
    monkeypatch.setattr(RunSigns, "wait_until_silent", lambda _, instant, seconds: waits.append(seconds))
    for _ in range(3):
        killed_before_it_began(place)
    assert waits == [180, 30, 30]


def test_one_that_a_stock_writer_has_begun_since_is(place, monkeypatch):
    inflight(place)
    waits = []
    monkeypatch.setattr(RunSigns, "wait_until_silent", lambda _, instant, seconds: waits.append(seconds))
    killed_before_it_began(place)
    place.storage.remove(f".hoodie/timeline/{C}.compaction.inflight")
    monkeypatch.setattr(RunSigns, "inflight_made", lambda *_: "1")
    killed_before_it_began(place)
    assert waits == [180, 180]


def test_a_wait_is_announced(place, monkeypatch):
    said, signs_at = [], iter([100.0, 100.0, 101.0])
    signs = RunSigns(place.storage, said.append)
    monkeypatch.setattr(run_signs, "time_at", lambda _: 110.0)
    monkeypatch.setattr(signs, "_last", lambda _: next(signs_at))
    monkeypatch.setattr(run_signs, "sleep", lambda _: None)
    with pytest.raises(RetryableError):
        signs.wait_until_silent(C, 30)
    assert said == [f"a run of the compaction at {C} wrote 10 s ago; waiting 20 s to see whether it is dead"]


@pytest.mark.parametrize(
    "sign", [BEAT, f".hoodie/timeline/{C}.compaction.inflight", f".hoodie/.temp/{C}/p/m.marker.MERGE"]
)
def test_a_sign_of_a_time_to_come_is_waited_for_once(table, sign):
    """Whoever may write a table could give a file a time of 2099: no other table was compacted any more."""
    (table.timeline / f"{C}.compaction.inflight").touch()
    path = table.base / sign
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (4_070_908_800,) * 2)
    said = []
    began = time.monotonic()
    with FileLease(str(table.base), progress=said.append) as lease:
        lease.wait_for_dead_run(C, 1_000)
        assert 1 <= time.monotonic() - began < 5
        lease.wait_for_dead_run(C, 1_000)
        assert time.monotonic() - began < 5.5
    assert said == [f"a run of the compaction at {C} wrote 0 s ago; waiting 1 s to see whether it is dead"]


def test_one_of_a_time_to_come_that_changes_is_alive(table, monkeypatch):
    (table.timeline / f"{C}.compaction.inflight").touch()
    path = table.base / BEAT
    path.parent.mkdir(parents=True)
    path.touch()
    times = iter(range(4_070_908_800, 4_070_908_900))
    monkeypatch.setattr(run_signs, "sleep", lambda _: os.utime(path, (next(times),) * 2))
    with FileLease(str(table.base)) as lease, pytest.raises(RetryableError, match="is alive: it goes on writing"):
        lease.wait_for_dead_run(C, 60_000)


def test_nothing_is_waited_for_once_the_process_is_to_end(place, monkeypatch):
    inflight(place)
    place.storage.replace(BEAT, b"")
    answers = iter([True, False])
    signs = RunSigns(place.storage, lambda _: None, lambda: next(answers))
    with pytest.raises(RetryableError, match="this process is to end"):
        signs.wait_until_silent(C, 600)


def test_a_stock_writer_that_beats_may_be_alive(place, monkeypatch):
    inflight(place)
    place.storage.replace(BEAT, b"")

    def beat_again(seconds):
        os.sched_yield()
        monkeypatch.undo()
        time.sleep(1.1)
        place.storage.replace(BEAT, b"")

    with place.lease() as lease:
        monkeypatch.setattr(run_signs, "sleep", beat_again)
        with pytest.raises(RetryableError, match="is alive: it goes on writing"):
            lease.wait_for_dead_run(C)


@pytest.mark.parametrize("minutes", [-5, 5])
def test_under_a_lease_writers_live_by_the_storages_clock(place, monkeypatch, minutes):
    """By a clock of this machine that is ahead, one that beats would be dead, and what it adds would be left out of sight."""
    writer = at("10:07:00")
    place.storage.replace(f".hoodie/timeline/{writer}.deltacommit.requested", b"")
    place.storage.replace(f".hoodie/.heartbeat/{writer}", b"")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + minutes * 60)
    with place.lease():
        timeline = read_timeline(place.storage, read_properties(place.storage))
        assert living_writers(place.storage, timeline, HEARTBEAT_EXPIRY_MS) == {writer}
        found = writes_in_flight(place.storage, timeline, HEARTBEAT_EXPIRY_MS)
        assert [(one.requested, one.may_live) for one in found] == [(writer, True)]


def test_a_table_without_traces_is_not_waited_for(place, _no_naps):
    with place.lease() as lease:
        lease.wait_for_dead_run(C)


@pytest.mark.parametrize("place", ["moto", *nightly("hdfs")], indirect=True)
def test_of_many_that_take_over_one_wins(place, monkeypatch):
    elsewhere = Owner(place.storage.location, host="another-machine", boot="b", process=1, token="t")
    assert place.storage.replace_version(STORE_LEASE, LeaseDocument(elsewhere, valid_seconds=1.0).as_bytes(), None)
    in_half_a_minute = time.time_ns() + 30_000_000_000
    monkeypatch.setattr(store_lease, "require_conditional_put", lambda storage: in_half_a_minute)
    won, start, end = [], threading.Barrier(8), threading.Barrier(8)

    def take(number):
        start.wait()
        try:
            with place.lease():
                won.append(number)
                end.wait(60)
        except RetryableError:
            end.wait(60)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(take, range(8)))
    assert len(won) == 1
