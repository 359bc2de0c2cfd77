"""The lease on HDFS: it ends by the NameNode's clock."""

import subprocess
import sys
import time

import pytest

from etc_policy.errors import RetryableError
from etc_policy.run import store_lease
from etc_policy.run.file_lease import lease_of
from etc_policy.run.lease_document import STORE_LEASE, LeaseDocument, read_document
from etc_policy.run.lock_holder import Owner
from etc_policy.run.store_lease import StoreLease
from etc_policy.storage.open_storage import open_storage

HOLDER = """
import sys
from etc_policy.run.file_lease import lease_of
with lease_of(sys.argv[1], local=True, progress=print):
    print("taken", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def storage(hdfs_cluster, table):
    return open_storage(hdfs_cluster.upload(table.base, hdfs_cluster.new_folder()))


def left_by_another_machine(storage, valid_seconds):
    owner = Owner(storage.location, host="another-machine", boot="b", process=1, token="t")
    last = storage.version(STORE_LEASE)
    assert storage.replace_version(STORE_LEASE, LeaseDocument(owner, valid_seconds).as_bytes(), last and last.tag)


def test_that_of_a_process_that_was_killed_here_is_free_at_once(storage):
    command = [sys.executable, "-c", HOLDER, storage.location]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "taken\n"
        with pytest.raises(RetryableError), lease_of(storage.location, local=True, progress=print):
            pass
        holder.kill()
    with lease_of(storage.location, local=True, progress=print):
        pass


@pytest.mark.parametrize("minutes", [-5, 5])
def test_another_machines_ends_by_the_clock_of_the_namenode(storage, monkeypatch, minutes):
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + minutes * 60)
    monkeypatch.setattr(store_lease, "_MARGIN_SECONDS", 0.5)
    left_by_another_machine(storage, 60)
    with pytest.raises(RetryableError, match="on another-machine"), StoreLease(storage):
        pass
    left_by_another_machine(storage, 0.5)
    time.sleep(1.5)
    with StoreLease(storage):
        pass


def test_it_is_renewed_while_it_is_held_and_old_numbers_go(storage):
    with StoreLease(storage, valid_seconds=1.0):
        first = int(storage.version(STORE_LEASE).tag)
        end = time.monotonic() + 60
        while int(storage.version(STORE_LEASE).tag) < first + 2:
            assert time.monotonic() < end
            time.sleep(0.1)
    last = storage.version(STORE_LEASE)
    assert read_document(last.content).released
    assert storage.names(f"{STORE_LEASE}.versions") == [last.tag]
