"""The record of what was sent, and the lock of who sends, on disk and on a bucket."""

import pytest

from etc_policy.errors import RetryableError
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.run import send_lock
from etc_policy.run.done_store import DoneStore
from etc_policy.storage.open_storage import use_storage_settings
from etc_policy.table.done import DoneEvent, DoneRecord, PartitionRecord

EVENT = DoneEvent(key="k", kind="done", partition="p", number=1, found_at_ms=1, instant="20260101000000000")
RECORD = DoneRecord(instant="20260101000000000", partitions={"p": PartitionRecord(events=(EVENT,), sent={"http": 1})})


@pytest.fixture(params=["disk", "bucket"])
def store(request, tmp_path, monkeypatch):
    monkeypatch.setattr(send_lock, "_WAIT_SECONDS", 0.3)
    if request.param == "disk":
        return DoneStore(str(tmp_path))
    request.getfixturevalue("s3_variables")
    server = request.getfixturevalue("moto_server")
    use_storage_settings(StorageSettings(endpoint=server.endpoint))
    return DoneStore(f"s3a://{server.make_bucket()}/t")


def test_what_is_kept_is_read_again(store):
    assert store.read() == DoneRecord()
    assert store.update(lambda _: RECORD) == RECORD
    assert store.read() == RECORD
    assert store.update(lambda kept: kept.begun("http", EVENT)).partitions["p"].begun == {"http": 1}


def test_one_tells_at_a_time(store):
    with store.send_lock() as renew:
        renew()
        with pytest.raises(RetryableError, match="another process is sending"), store.send_lock():
            raise AssertionError("two send at once")
        renew()
    with store.send_lock():
        pass


def test_a_turn_that_was_left_on_a_bucket_ends(store, monkeypatch):
    if store.base_path.startswith("/"):
        return  # the kernel gives it back: test_a_run_that_is_killed_anywhere_is_made_up_for
    held = store.send_lock()
    renew = held.__enter__()
    monkeypatch.setattr(send_lock, "_HOLD_SECONDS", -5.0)
    with store.send_lock(), pytest.raises(RetryableError):
        renew()  # it was taken over
    held.__exit__(None, None, None)
