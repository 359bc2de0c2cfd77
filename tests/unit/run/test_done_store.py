"""The record of what was sent, and whose turn it is to send, on disk and on a bucket, by processes that meet."""

import json
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest

from etc_policy.errors import RetryableError
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.run import done_store
from etc_policy.run.done_store import DoneStore
from etc_policy.storage import clocks
from etc_policy.storage.open_storage import use_storage_settings
from etc_policy.table.done import DoneEvent, DoneRecord, PartitionRecord

EVENT = DoneEvent(key="k", kind="done", partition="p", number=1, found_at_ms=1, instant="20260101000000000")
EVENTS = PartitionRecord(events=(EVENT,), sent={"http": 1})
RECORD = DoneRecord(instant="20260101000000000", partitions={"p": EVENTS})
#: Sends the event unless the record says that it was sent, and prints that it did; with `kill` it dies while it sends.
SENDER = """
import os, signal, sys, time
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.run.done_store import DoneStore
from etc_policy.storage.open_storage import use_storage_settings
location, endpoint, how = sys.argv[1:]
if endpoint:
    use_storage_settings(StorageSettings(endpoint=endpoint))
store = DoneStore(location)
with store.turn(30) as update:
    one = store.read().partitions["p"]
    if "command" not in one.sent:
        update(lambda kept: kept.begun("command", one.last))
        print("sent", flush=True)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.5)
        store.update(lambda kept: kept.sent("command", one.last, ("command",)))
"""


@pytest.fixture(params=["disk", "bucket"])
def store(request, tmp_path, monkeypatch):
    monkeypatch.setattr(done_store, "_WAIT_SECONDS", 0.3)
    if request.param == "disk":
        return DoneStore(str(tmp_path))
    request.getfixturevalue("s3_variables")
    server = request.getfixturevalue("moto_server")
    use_storage_settings(StorageSettings(endpoint=server.endpoint))
    return DoneStore(f"s3a://{server.make_bucket()}/t")


@pytest.fixture
def sender(store, request):
    """Starts a process that sends."""
    endpoint = "" if store.location.startswith("/") else request.getfixturevalue("moto_server").endpoint

    def start(how="live"):
        command = [sys.executable, "-c", SENDER, store.location, endpoint, how]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def test_what_is_kept_is_read_again(store):
    assert store.read() == DoneRecord()
    assert store.update(lambda _: RECORD) == RECORD
    assert store.read() == RECORD
    assert store.update(lambda kept: kept.begun("http", EVENT)).partitions["p"].begun == {"http": 1}


def test_processes_that_meet_send_once(store, sender):
    store.update(lambda _: RECORD)
    running = [sender() for _ in range(4)]
    ended = [(*one.communicate(timeout=60), one.returncode) for one in running]
    assert sorted(out for out, _, _ in ended) == ["", "", "", "sent\n"], ended
    assert [code for _, _, code in ended] == [0, 0, 0, 0], ended
    assert store.read().turn is None


def test_the_turn_of_a_process_that_was_killed_is_over_at_once(store, sender):
    store.update(lambda _: RECORD)
    killed = sender("kill")
    assert killed.communicate(timeout=60)[0] == "sent\n"
    assert (killed.returncode, store.read().turn is None) == (-signal.SIGKILL, False)
    assert sender().communicate(timeout=60)[0] == "sent\n"


def test_one_sends_at_a_time_and_what_others_record_stays(store):
    with store.turn(30) as update:
        with pytest.raises(RetryableError, match="another process is sending"), store.turn(30):
            raise AssertionError("two send at once")
        store.update(lambda kept: kept.model_copy(update={"partitions": {"p": EVENTS}}))
        assert update(lambda kept: kept.begun("http", EVENT)).partitions["p"].begun == {"http": 1}
    assert (store.read().turn, store.read().partitions["p"].begun) == (None, {"http": 1})
    with store.turn(30):
        pass


def test_a_turn_that_somebody_elsewhere_left_ends(store):
    held = store.turn(30)
    update = held.__enter__()
    elsewhere(store)
    with pytest.raises(RetryableError), store.turn(30):
        raise AssertionError("it has not ended")
    elsewhere(store, ends_ms=1)
    with store.turn(30), pytest.raises(RetryableError):
        update(lambda kept: kept)  # it was taken over
    held.__exit__(None, None, None)


def elsewhere(store, **values):
    """The turn as one of another machine, of whose processes nobody here knows."""

    def changed(kept):
        return kept.turn.model_copy(update={"owner": {**kept.turn.owner, "host": "elsewhere"}, **values})

    store.update(lambda kept: kept.model_copy(update={"turn": changed(kept)}))


def test_a_clock_that_is_wrong_takes_over_nothing(store):
    with store.turn(30):
        elsewhere(store)
        clocks.note_time(store.location, clocks.time_at(store.location) + 3600)
        with pytest.raises(RetryableError), store.turn(30):
            raise AssertionError("two send at once")


@pytest.mark.parametrize(("ahead_seconds", "waits"), [(3600, True), (2 * 86_400, False)])
def test_an_owner_that_means_nothing_is_waited_for_but_not_for_ever(store, ahead_seconds, waits):
    turn = {"owner": {"x": 1}, "ends_ms": int((time.time() + ahead_seconds) * 1000)}
    store.update(lambda _: DoneRecord.of_json(json.dumps({"turn": turn}).encode()))
    with pytest.raises(RetryableError) if waits else nullcontext(), store.turn(30):
        assert not waits
