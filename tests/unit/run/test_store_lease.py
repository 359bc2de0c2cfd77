"""What only the lease on an object store does: it ends by itself, and a lost answer does not lose it."""

import socket
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from etc_policy.errors import EngineError, EtcError, RetryableError
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.run import store_lease
from etc_policy.run.lease_document import STORE_LEASE, LeaseDocument, read_document
from etc_policy.run.lock_holder import Owner, boot_id
from etc_policy.run.store_lease import StoreLease
from etc_policy.storage.open_storage import open_storage, use_storage_settings
from tests.faulty_proxy import faulty_proxy
from tests.unit.hudi.table_folder import at

C = at("10:00:06")
ELSEWHERE = {"host": "another-machine", "boot": "b", "process": 1, "token": "t"}

HOLDER = """
import sys
from etc_policy.run.store_lease import StoreLease
from etc_policy.storage.open_storage import open_storage, use_storage_settings
from etc_policy.policy.project_schema import StorageSettings
use_storage_settings(StorageSettings(endpoint=sys.argv[1]))
with StoreLease(open_storage(sys.argv[2])):
    print("taken", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def location(moto_server, s3_variables, table):
    return moto_server.upload(table.base, moto_server.make_bucket(), "t")


def reach(endpoint, location, timeout="30s"):
    use_storage_settings(StorageSettings(endpoint=endpoint, timeout=timeout))
    return open_storage(location)


@pytest.fixture
def storage(moto_server, location):
    return reach(moto_server.endpoint, location)


@pytest.fixture
def proxy(moto_server):
    with faulty_proxy(moto_server.endpoint) as found:
        yield found


def left_by(storage, valid_seconds=1.0, **changed):
    """The lease of a run, on another machine if nothing else is said, which does not renew it."""
    elsewhere = Owner(table=storage.location, **ELSEWHERE)
    document = replace(LeaseDocument(elsewhere, valid_seconds), **changed)
    storage.replace(STORE_LEASE, document.as_bytes())
    return document


def document(storage):
    return read_document(storage.read(STORE_LEASE))


def test_it_says_who_has_it_and_each_body_is_another(storage):
    seen = []
    with StoreLease(storage) as lease:
        seen.append(document(storage))
        lease.mark(C)
        seen.append(document(storage))
        assert (seen[0].owner, seen[1].instant) == (Owner(table=storage.location), C)
    seen.append(document(storage))
    assert len({one.nonce for one in seen}) == 3
    assert (seen[2].ended, seen[2].released) == (True, True)
    assert storage.names(".hoodie/.etc") == ["lease.json"]


def test_another_machines_is_waited_for_until_it_ends(storage, monkeypatch):
    left_by(storage, valid_seconds=60)
    with pytest.raises(RetryableError, match="on another-machine") as error, StoreLease(storage):
        pass
    assert "for its lease to end in" in error.value.hint
    monkeypatch.setattr(store_lease, "_MARGIN_SECONDS", 1.0)
    left_by(storage, valid_seconds=1)
    time.sleep(3.1)
    with StoreLease(storage):
        assert document(storage).owner.host == socket.gethostname()


@pytest.mark.parametrize(
    "elsewhere",
    [{"boot": f"{boot_id()} pid:[1]"}, {"boot": boot_id()}, {"boot": "b pid:[4026531836]"}, {"boot": "-"}],
    ids=["another container", "a version of etc that did not say", "another machine, or before a restart", "unknown"],
)
def test_one_of_the_same_host_name_may_be_alive_where_its_processes_are_not_seen(storage, elsewhere):
    nobody = 2**22 + 1  # above the largest number of a process
    left_by(storage, owner=Owner(storage.location, process=nobody, token="t", **elsewhere))
    with pytest.raises(RetryableError, match=socket.gethostname()), StoreLease(storage):
        pass
    left_by(storage, owner=Owner(storage.location, process=nobody, token="t"))
    with StoreLease(storage):
        pass


@pytest.mark.parametrize("minutes", [-5, 5])
def test_a_clock_that_is_wrong_takes_over_nothing(storage, monkeypatch, minutes):
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + minutes * 60)
    left_by(storage, valid_seconds=120)
    with pytest.raises(RetryableError), StoreLease(storage):
        pass


def test_it_is_renewed_while_it_is_held(storage):
    with StoreLease(storage, valid_seconds=1.0):
        first = document(storage).nonce
        end = time.monotonic() + 60
        while document(storage).nonce == first:
            assert time.monotonic() < end
            time.sleep(0.1)


def test_that_of_a_process_that_was_killed_here_is_free_at_once(storage, moto_server, location):
    command = [sys.executable, "-c", HOLDER, moto_server.endpoint, location]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "taken\n"
        with pytest.raises(RetryableError), StoreLease(storage):
            pass
        holder.kill()
    with StoreLease(storage):
        pass


@pytest.mark.parametrize("fault", ["busy", "cut before", "cut after", "error after"])
def test_a_lost_answer_does_not_lose_it(proxy, location, fault):
    storage = reach(proxy.endpoint, location, "6s")
    with StoreLease(storage) as lease:
        for _ in range(3):
            proxy.once(fault, "PUT")
            lease.mark(C)
        lease.require_alive(C)


def test_a_renewal_that_the_store_kept_and_never_answered_is_ours(proxy, location):
    storage = reach(proxy.endpoint, location, "1s")
    with StoreLease(storage) as lease:
        proxy.spoil = lambda method, path: "cut after" if method == "PUT" else "cut before"
        with pytest.raises(EtcError) as error:
            lease.mark(C)
        assert (error.value.code, error.value.exit_code) == ("ETC450", 4)
        proxy.always("")
        lease.mark(C)
        lease.require_alive(C)
    assert document(reach(proxy.endpoint, location)).released


def test_a_store_that_ignores_conditions_is_refused(proxy, location):
    proxy.without = ("if-none-match", "if-match")
    storage = reach(proxy.endpoint, location)
    with pytest.raises(EngineError, match="cannot hold a lease: it has created one file twice") as error:
        StoreLease(storage).__enter__()
    assert (error.value.code, error.value.exit_code) == ("ETC455", 3)
    assert storage.version(STORE_LEASE) is None


def test_a_store_that_ignores_tags_is_refused(proxy, location):
    proxy.without = ("if-match",)
    with pytest.raises(EngineError, match="replaced a file that had been replaced"):
        StoreLease(reach(proxy.endpoint, location)).__enter__()


def test_a_document_that_cannot_be_read_holds_the_table_for_a_while_only(storage, monkeypatch):
    storage.replace(STORE_LEASE, b"{")
    with pytest.raises(RetryableError, match="an unknown process"), StoreLease(storage):
        pass
    monkeypatch.setattr(store_lease, "MAX_VALID_SECONDS", -60.0)
    with StoreLease(storage):
        pass
