"""Links and pipes where etc keeps its own files in a table: whoever may write there can make it overwrite no other file."""

import json
import os
import socket
import stat
import struct
import threading
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from etc_policy.errors import EngineError, RetryableError, TableError
from etc_policy.gx.verifier import GxVerifier
from etc_policy.hudi.file_slices import MARKER
from etc_policy.hudi.layout import ETC_FOLDER, METADATA_NOTE
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run import file_lease, file_lock
from etc_policy.run.file_lease import JAVA_LEASE, FileLease
from etc_policy.run.file_lock import FileLock
from etc_policy.run.lock_holder import LockPlace, Owner, held_lock, read_holder
from etc_policy.run.objects_in_logs import require_no_objects, require_no_objects_for
from etc_policy.run.ports import Job
from etc_policy.run.table_files import require_no_links
from etc_policy.spark import compactor
from etc_policy.spark.column_stats import fill_event_times
from etc_policy.spark.compactor import HudiCompactor
from etc_policy.storage import local
from etc_policy.storage.object_cache import MemoryCache
from etc_policy.verify.ports import DataCheck
from tests.unit.hudi import log_file
from tests.unit.hudi.reading import read
from tests.unit.hudi.table_folder import at, base, operation

C = at("10:00:06")


@pytest.fixture
def precious(tmp_path):
    (tmp_path / "outside").mkdir()
    path = tmp_path / "outside" / C
    path.write_text("precious")
    return path


@pytest.fixture
def own(table):
    folder = table.base / ETC_FOLDER
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("name", ["apply.lease", JAVA_LEASE])
def test_a_lease_is_never_a_link(table, own, precious, name):
    (own / name).symlink_to(precious)
    with pytest.raises(EngineError) as error, FileLease(str(table.base)) as lease:
        lease.mark(C)
    assert error.value.code == "ETC309"
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("name", ["apply.lease", JAVA_LEASE])
def test_a_pipe_in_place_of_a_lease_is_an_error_at_once(table, own, name):
    os.mkfifo(own / name)
    with pytest.raises(EngineError, match="cannot"), FileLease(str(table.base)):
        pass
    assert stat.S_ISFIFO((own / name).stat().st_mode)


@pytest.mark.parametrize("link", [".hoodie/.etc", ".hoodie"])
def test_the_folder_of_a_lease_is_not_reached_through_a_link(table, precious, link):
    (table.base / ".hoodie").rename(table.base / "kept")
    (table.base / link).parent.mkdir(exist_ok=True)
    (table.base / link).symlink_to(precious.parent)
    with pytest.raises(EngineError) as error, FileLease(str(table.base)):
        pass
    assert error.value.code == "ETC309"
    assert os.listdir(precious.parent) == [C]


def test_a_heartbeat_is_not_removed_through_a_link(table, precious):
    with FileLease(str(table.base)) as lease:
        lease.mark(C)
    (table.base / ".hoodie" / ".heartbeat").symlink_to(precious.parent)
    with FileLease(str(table.base)) as lease, pytest.raises(EngineError, match="cannot remove the heartbeat"):
        lease.wait_for_dead_run(C)
    assert precious.read_text() == "precious"


def test_what_is_written_before_a_lock_is_taken_follows_no_link(table, own, precious, monkeypatch):
    lock = FileLock(LockPlace(own / "lock", 0), str(table.base), 0, lambda _: None)
    (own / lock._own).symlink_to(precious)
    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", lambda name, **options: name == lock._own or unlink(name, **options))
    with pytest.raises(EngineError, match="cannot take the lock"), lock:  # the link is made anew as soon as it is gone
        pass
    assert precious.read_text() == "precious"


@pytest.fixture
def neighbour(tmp_path, monkeypatch):
    """The lock of another table, which its writer has held for an hour, and how a folder becomes a link to its folder."""
    lock = tmp_path / "neighbour" / ".hoodie" / "lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("of a living writer")
    os.utime(lock, (1, 1))

    def swap(folder):
        folder.rename(tmp_path / "former")
        folder.symlink_to(lock.parent)

    return SimpleNamespace(lock=lock, swap=swap)


@pytest.mark.parametrize("place", [f"{ETC_FOLDER}/lock", ".hoodie/lock", "locks/lock"])
@pytest.mark.parametrize("moment", ["_note_takers", "_write_own", "_take", "_remove_if_left", "_sweep", "_is_ours"])
def test_no_lock_of_another_table_is_taken_or_removed(table, own, neighbour, monkeypatch, moment, place):
    """Whoever writes the table makes a link of the lock's folder right before each step."""
    path = table.base / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("of a writer that was killed")
    os.utime(path, (1, 1))
    among = file_lock if moment == "_note_takers" else FileLock
    real = getattr(among, moment)

    def swapped(*args):
        if not path.parent.is_symlink():
            neighbour.swap(path.parent)
        return real(*args)

    monkeypatch.setattr(among, moment, swapped)
    lock, is_lost = FileLock(LockPlace(path, 1), str(table.base), 0, lambda _: None), pytest.raises(RetryableError)
    with suppress(EngineError), lock, is_lost:
        lock.require_held()
    assert path.parent.is_symlink()
    assert neighbour.lock.read_text() == "of a living writer"
    assert [one.name for one in neighbour.lock.parent.iterdir() if one != neighbour.lock] == []


def test_nor_as_one_that_a_killed_run_has_left(table, own, neighbour, monkeypatch):
    """What is removed is the lock that was looked at."""
    policy = Policy(name="a", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    (own / "lock").write_text(Owner(str(table.base), token="left").as_lock_file().decode())
    neighbour.lock.write_bytes((own / "lock").read_bytes())
    monkeypatch.setattr(file_lease, "is_left", lambda *_: neighbour.swap(own) or True)
    assert FileLease(str(table.base)).remove_left_lock(policy)
    assert neighbour.lock.exists()
    assert not (table.base.parent / "former" / "lock").exists()


def test_a_lock_behind_a_linked_folder_says_nothing(table, own, neighbour):
    policy = Policy(name="a", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    neighbour.swap(own)
    for look in (FileLease(str(table.base)).has_left_lock, lambda one: held_lock(one, str(table.base))):
        with pytest.raises(EngineError, match="cannot look at the lock"):
            look(policy)


def test_a_lock_that_is_a_link_shows_nothing_of_its_target(own, precious):
    (own / "lock").symlink_to(precious)
    holder = read_holder(own / "lock")
    assert holder.text == ""
    assert "precious" not in str(holder)


def test_a_lock_that_is_a_link_to_nothing_is_held(table, own):
    (own / "lock").symlink_to(own / "nothing")
    with pytest.raises(RetryableError), FileLock(LockPlace(own / "lock", 0), str(table.base), 0, lambda _: None):
        pass


def test_a_lock_that_is_a_pipe_is_looked_at_without_waiting(own):
    os.mkfifo(own / "lock")
    found = []
    reader = threading.Thread(target=lambda: found.append(read_holder(own / "lock")), daemon=True)
    reader.start()
    reader.join(5)
    assert [holder.text for holder in found] == [""]


@pytest.mark.parametrize(
    "link",
    [
        "p",
        ".hoodie",
        ".hoodie/metadata",
        ".hoodie/metadata/files",
        ".hoodie/.temp",
        f".hoodie/timeline/{C}.compaction.inflight",
        f"p/f1_0-1-0_{C}.parquet",
        "p/f1_0-1-0_20260101100000000.parquet",
    ],
)
def test_hudi_is_not_asked_to_work_where_there_is_a_link(table, precious, link):
    """It would write through it with the rights of the user of etc, or write into the table what nobody else may read."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), base("f2", partition="q"))
    policy = Policy(name="orders_ro", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    job = Job(policy, str(table.base), 9, (), C, (operation("f1", None),))
    (table.base / "q" / "other").symlink_to(precious)  # nothing is done there
    require_no_links(job)
    place = table.base / link
    if place.exists():
        place.rename(precious.parent / "moved")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(precious.parent / "moved")
    with pytest.raises(EngineError, match="lies behind a link") as error:
        require_no_links(job)
    assert error.value.code == "ETC442"


def make_pipe(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def make_socket(path, monkeypatch):
    path.parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(path.parent)  # its whole path may be too long for one
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)


#: What Java opens of a table that Python never does: it waited for ever, and all other tables behind it.
OPENED_BY_JAVA = (
    ".hoodie/.hoodie.properties.crc",
    ".hoodie/hoodie.properties.backup",
    ".hoodie/metadata/files/x.hfile",
    ".hoodie/.temp/x/MARKERS0",
    "p/.hoodie_partition_metadata",
    "p/.f1_0-1-0_20260101100000000.parquet.crc",
)


@pytest.mark.parametrize("path", OPENED_BY_JAVA)
def test_hudi_is_not_asked_to_work_where_it_would_wait_for_a_pipe(table, path):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), base("f2", partition="q"))
    policy = Policy(name="orders_ro", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    job = Job(policy, str(table.base), 9, (), C, (operation("f1", None),))
    make_pipe(table.base / "q" / "other")  # nothing is done there
    require_no_links(job)
    make_pipe(table.base / path)
    with pytest.raises(TableError, match="cannot read the table") as error:
        require_no_links(job)
    assert (error.value.code, error.value.cause) == ("ETC213", f"`{path}` is a pipe, a socket or a device")


class NoSpark:
    """It is not to be asked."""

    def __getattr__(self, name):
        raise AssertionError(name)


READINGS = {
    "check": lambda verifier, request, state: verifier.check(request),
    "partitions": lambda verifier, request, state: verifier.finds_partitions(request, state),
    "indexes": lambda verifier, request, state: verifier.missed_by_indexes(request, state),
    "listing": lambda verifier, request, state: verifier.wrongly_listed(state),
    "statistics": lambda verifier, request, state: verifier.wrongly_indexed(state),
    "event times": lambda verifier, request, state: fill_event_times(verifier.spark, request.policy, state),
}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("path", [".hoodie/.hoodie.properties.crc", ".hoodie/socket"])
def test_spark_does_not_read_a_table_where_it_would_wait_for_a_pipe(table, monkeypatch, reading, path):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    state = read(table)
    policy = Policy(name="orders_ro", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    request = DataCheck(policy, str(table.base), (), 0, 0, None, None, frozenset(), "", frozenset())
    if path.endswith("socket"):
        make_socket(table.base / path, monkeypatch)
    else:
        make_pipe(table.base / path)
    with pytest.raises(TableError) as error:
        READINGS[reading](GxVerifier(NoSpark()), request, state)
    assert "is a pipe, a socket or a device" in error.value.cause


@pytest.mark.parametrize("reading", READINGS)
def test_nor_where_there_is_a_link(table, precious, reading):
    """It would show in the table's own records what its writers may not read, and list links in a circle without an end."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    state = read(table)
    policy = Policy(name="orders_ro", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    request = DataCheck(policy, str(table.base), (), 0, 0, None, None, frozenset(), "", frozenset())
    place = ".hoodie/linked" if reading == "event times" else "p/linked"
    (table.base / place).symlink_to(precious)
    with pytest.raises(EngineError) as error:
        READINGS[reading](GxVerifier(NoSpark()), request, state)
    assert (error.value.code, f"`{place}`" in error.value.message) == ("ETC442", True)


#: Log files that Java opens: of an older slice, of a partition that only the metadata table names, of that table itself.
LOGS = (
    "p/.f1-0_20260101100000000.log.1_0-1-0",
    "p/.f1-0_20260101090000000.log.2",
    "q/deep/.f9-0_20260101100000000.log.1_0-1-0.cdc",
    ".hoodie/metadata/files/.files-0000-0_20260101100000000.log.1_0-1-0",
    ".hoodie/other/.f1-0_20260101100000000.log.1_0-1-0",
)
OBJECTS = log_file.block(log_file.DELETE, struct.pack(">ii", 2, 3) + b"\1\0x")


def write_log(table, path, content):
    place = table.base / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("path", LOGS)
def test_spark_does_not_read_a_table_of_whose_log_files_hudi_makes_objects(table, reading, path):
    if reading == "event times" and not path.startswith(".hoodie/metadata"):
        return  # it reads the metadata table alone
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    state = read(table)
    policy = Policy(name="orders_ro", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    request = DataCheck(policy, str(table.base), (), 0, 0, None, None, frozenset(), "", frozenset())
    write_log(table, path, log_file.avro([1]) + OBJECTS)
    with pytest.raises(TableError) as error:
        READINGS[reading](GxVerifier(NoSpark()), request, state)
    assert error.value.code == "ETC230"
    assert f"`{path}`" in error.value.message


@pytest.mark.parametrize("path", [LOGS[0], LOGS[1], LOGS[3], f".hoodie/.etc/split/{C}/p/.f1_{C}.log.1_0-1-0"])
@pytest.mark.parametrize("step", ["publish", "run", "withdraw", "locked"])
def test_hudi_is_not_asked_to_work_where_it_would_make_objects(table, monkeypatch, path, step):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), base("f2", partition="q"))
    policy = Policy(name="orders_ro", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    job = Job(policy, str(table.base), 9, (), C, (operation("f1", None),))
    for name in ("require_bundle", "require_carried", "require_unwritten"):
        monkeypatch.setattr(compactor, name, lambda *_: None)
    write_log(table, LOGS[2], OBJECTS)  # nothing is read there
    require_no_objects_for(job, None)
    write_log(table, path, OBJECTS)
    found = HudiCompactor(SimpleNamespace(_jvm=NoSpark()))
    steps = {
        "publish": lambda: found.publish(job, lambda: None, lambda: None),
        "run": lambda: found.run(job, lambda: None, SimpleNamespace()),
        "withdraw": lambda: found.withdraw(job),
        "locked": lambda: found.locked(job).__enter__(),
    }
    with pytest.raises(TableError) as error:
        steps[step]()
    assert error.value.code == "ETC230"


@pytest.mark.parametrize(
    "why",
    [
        "it is to be built anew",
        "it is not there",
        "it has an index of rows",
        "an index is to be made",
        "nothing was committed to it",
    ],
)
def test_all_log_files_are_looked_at_where_hudi_makes_the_metadata_table(table, why):
    policy = Policy(name="orders_ro", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    job = Job(policy, str(table.base), 9, ("files",), C, (operation("f1", None),))
    table.metadata_table((at("10:00:00"), at("10:00:01")))
    write_log(table, f".hoodie/metadata/files/{MARKER}", b"x")
    write_log(table, LOGS[2], OBJECTS)
    require_no_objects_for(job, None)
    if why == "an index is to be made":
        definitions = {"indexDefinitions": {"secondary_index_x": {"sourceFields": ["v"]}}}
        write_log(table, ".hoodie/.index_defs/index.json", json.dumps(definitions).encode())
    elif why == "nothing was committed to it":
        for path in (table.meta / "metadata" / ".hoodie" / "timeline").glob("*_*"):
            path.unlink()
    elif why == "it has an index of rows":
        job = replace(job, metadata_partitions=("files", "secondary_index_x"))
        write_log(table, f".hoodie/metadata/secondary_index_x/{MARKER}", b"x")
    elif why == "it is not there":
        (table.base / ".hoodie/metadata/files" / MARKER).unlink()
    else:
        write_log(table, METADATA_NOTE, b"files")
    with pytest.raises(TableError, match="objects of any class"):
        require_no_objects_for(job, None)


def test_the_next_run_opens_no_log_file_again(table, monkeypatch):
    """Each one opened all log files of a table that has an index of rows."""
    monkeypatch.setattr(local, "_AT_REST_NS", 0)
    opened, kept = [], MemoryCache()
    read_file = local.LocalStorage.open
    monkeypatch.setattr(local.LocalStorage, "open", lambda self, path: opened.append(path) or read_file(self, path))
    policy = Policy(name="orders_ro", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    job = Job(policy, str(table.base), 9, ("files", "secondary_index_x"), C, (operation("f1", None),))
    for path in LOGS[:3]:
        write_log(table, path, log_file.avro([1]))
    for _ in range(2):
        HudiCompactor(SimpleNamespace(_jvm=NoSpark()), kept=kept)._require_harmless(job)
        assert sorted(path for path in opened if path in LOGS) == sorted(LOGS[:3])


def test_each_version_of_a_log_file_is_looked_at_once(table, monkeypatch):
    monkeypatch.setattr(local, "_AT_REST_NS", 0)
    opened, kept = [], MemoryCache()
    read_file = local.LocalStorage.open
    monkeypatch.setattr(local.LocalStorage, "open", lambda self, path: opened.append(path) or read_file(self, path))
    for path in LOGS[:3]:
        write_log(table, path, log_file.avro([1]))
    for _ in range(2):
        require_no_objects(str(table.base), kept, "")
    assert sorted(opened) == sorted(LOGS[:3])
    opened.clear()
    write_log(table, LOGS[0], log_file.avro([2]))
    require_no_objects(str(table.base), kept, "")
    assert opened == [LOGS[0]]
    before = os.stat(table.base / LOGS[0])
    write_log(table, LOGS[0], OBJECTS.ljust(before.st_size, b"x"))
    os.utime(
        table.base / LOGS[0], ns=(before.st_atime_ns, before.st_mtime_ns)
    )  # whoever writes it may choose that time
    with pytest.raises(TableError, match="objects of any class"):
        require_no_objects(str(table.base), kept, "")


def test_a_log_file_that_was_written_a_moment_ago_is_looked_at_again(table):
    kept = MemoryCache()
    write_log(table, LOGS[0], log_file.avro([1]))
    require_no_objects(str(table.base), kept, "")
    assert b"log" not in b"".join(kept.values())
