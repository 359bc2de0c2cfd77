"""What `etc apply` keeps beside a table: kept whole, whatever the file holds and whoever else writes it."""

import fcntl
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from etc_policy.errors import TableError
from etc_policy.hudi.apply_state import FileApplyStateStore
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.storage import shared_file
from etc_policy.storage.local import LocalStorage
from etc_policy.storage.open_storage import use_storage_settings
from etc_policy.storage.safe_files import folder_of
from etc_policy.table.apply_state import ApplyState, Looked, Misrecorded, Proof, Proofs, Refusals, Runs, Unproven
from tests.fakes import MemoryApplyStates

WHOLE = ApplyState(
    run_ms=60_000,
    unproven=(
        Unproven("c 1", "it failed", "fail", Looked(level="data", until_ms=5, checks=("a",)), "k1", ("k2",), 9),
        Unproven("c 1", "it failed", event_time="k2"),
    ),
    misrecorded=(Misrecorded("p/.f.log.1", 9, 2, 1, "k1"),),
    proofs=Proofs("c 1 digest", (Proof(level="logs", until_ms=1, proved_at_ms=2),)),
    refusals=Refusals(2, "then", "20260101120000000"),
    runs=Runs(in_a_row=2, since_ms=7_200_000, hours=((2, 5, 3),)),
    busy=(("p", "f1"), ("p", "f2")),
)


@pytest.fixture
def base(tmp_path):
    (tmp_path / ".hoodie" / ".etc").mkdir(parents=True)
    return str(tmp_path)


@pytest.fixture
def file(tmp_path, base):
    return tmp_path / ".hoodie" / ".etc" / "memory.json"


@pytest.mark.parametrize("store", [FileApplyStateStore(), MemoryApplyStates()], ids=["file", "fake"])
def test_what_was_kept_is_read(base, store):
    assert store.read(base) == ApplyState()
    assert store.update(base, lambda _: WHOLE) == store.read(base) == WHOLE
    proven = store.update(base, lambda kept: replace(kept, verified="c 1", unproven=(), refusals=None))
    assert (proven, proven.verified, proven.refusals) == (store.read(base), "c 1", None)
    assert proven.proofs_of("c 1 digest") == WHOLE.proofs.of
    assert proven.proofs_of("c 2 digest") == ()


def test_what_an_older_etc_kept_is_of_any_event_time(base):
    kept = {
        "unproven": {"compaction": "c 1", "why": "it failed", "verification": "fail", "level": "data"},
        "misrecorded": [{"path": "p/x", "size_bytes": 9, "recorded_ms": 2, "found_ms": 1}],
    }
    (Path(base) / ".hoodie/.etc/memory.json").write_text(json.dumps(kept))
    found = FileApplyStateStore().read(base)
    (doubt,), (file,) = found.unproven, found.misrecorded
    assert (doubt, doubt.is_of("any")) == (Unproven("c 1", "it failed", "fail", Looked(level="data")), True)
    assert file == Misrecorded("p/x", 9, 2, 1)


HOUR = 3_600_000


def test_runs_of_the_last_day_are_counted_by_hours():
    runs = Runs()
    for hour in range(30):
        for _ in range(2):
            runs = runs.with_run(moved=hour % 3 > 0, now_ms=hour * HOUR + 5)
    assert runs.of_day(29 * HOUR + 9) == (48, 16)
    assert runs.of_day(40 * HOUR) == (26, 8)
    assert runs.of_day(90 * HOUR) == (0, 0)
    assert len(runs.hours) == 24


def test_a_run_that_moves_ends_the_row_and_a_clock_that_jumped_back_forgets_what_is_to_come():
    runs = Runs().with_run(moved=False, now_ms=HOUR).with_run(moved=False, now_ms=2 * HOUR)
    assert (runs.in_a_row, runs.since_ms) == (2, HOUR)
    moved = runs.with_run(moved=True, now_ms=0)
    assert (moved.in_a_row, moved.since_ms, moved.hours) == (0, None, ((0, 1, 0),))


def test_what_another_process_has_written_since_it_was_read_stays(base):
    store, other = FileApplyStateStore(), FileApplyStateStore()
    before = store.read(base)
    other.update(base, lambda kept: replace(kept, refusals=Refusals(1, "now")))
    assert before.refusals is None
    assert store.update(base, lambda kept: replace(kept, run_ms=5)).refusals == Refusals(1, "now")
    assert store.read(base) == ApplyState(run_ms=5, refusals=Refusals(1, "now"))


def test_what_another_version_of_etc_keeps_stays(base, file):
    theirs = {"of_a_later_etc": [1], "refusals": {"count": "many"}}
    file.write_text(json.dumps(theirs))
    FileApplyStateStore().update(base, lambda kept: replace(kept, run_ms=5))
    kept = json.loads(file.read_text())
    assert kept == {**theirs, "run_ms": 5, "place": "/".join(Path(base).parts[-2:])}


def test_nothing_is_written_where_nothing_changes(base, file, monkeypatch):
    store = FileApplyStateStore()
    store.update(base, lambda _: WHOLE)
    monkeypatch.setattr(shared_file, "replace_in", lambda *_: pytest.fail("it was written"))
    assert store.update(base, lambda kept: replace(kept, run_ms=60_000)) == WHOLE


BUSY = """
import sys
from dataclasses import replace
from etc_policy.hudi.apply_state import FileApplyStateStore
from etc_policy.storage.open_storage import use_storage_settings
from etc_policy.policy.project_schema import StorageSettings
use_storage_settings(StorageSettings(endpoint=sys.argv[2] or None))
store, base = FileApplyStateStore(), sys.argv[1]
print("begins", flush=True)
for number in range(int(sys.argv[3])):
    store.update(base, lambda kept: replace(kept, run_ms=(kept.run_ms or 0) + 1))
"""


@pytest.mark.parametrize("place", ["local", "moto", "hdfs"])
def test_of_many_that_write_at_once_nothing_is_lost(request, base, place):
    """One notes how long its run took while the other notes that the last compaction is not proven."""
    location, endpoint, each = base, "", 100
    if place == "moto":
        request.getfixturevalue("s3_variables")
        server = request.getfixturevalue("moto_server")
        location, endpoint, each = f"s3a://{server.make_bucket()}/t", server.endpoint, 20
        use_storage_settings(StorageSettings(endpoint=endpoint))
    elif place == "hdfs":
        location, each = request.getfixturevalue("hdfs_cluster").new_folder(), 10
    command = [sys.executable, "-c", BUSY, location, endpoint, str(each)]
    store = FileApplyStateStore()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as busy:
        busy.stdout.readline()
        for number in range(each):
            store.update(
                location, lambda kept, n=number: replace(kept, unproven=(Unproven(str(n), "a row is missing"),))
            )
            assert store.read(location).unproven[0].compaction == str(number)
    assert (busy.returncode, store.read(location).run_ms) == (0, each)


def test_one_that_hangs_is_not_waited_for(base, monkeypatch):
    monkeypatch.setattr(shared_file, "_WAIT_SECONDS", 0.1)
    store = FileApplyStateStore()
    with folder_of(Path(base), ".hoodie/.etc/memory.json", make=True) as (folder, _):
        fcntl.flock(folder, fcntl.LOCK_EX)
        assert store.update(base, lambda _: WHOLE) == store.read(base) == WHOLE


def test_where_nothing_can_be_written_what_is_kept_counts(base, monkeypatch):
    store = FileApplyStateStore()
    store.update(base, lambda _: WHOLE)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shared_file, "folder_of", refuse)
    assert store.update(base, lambda kept: replace(kept, run_ms=5)) == replace(WHOLE, run_ms=5)


@pytest.mark.parametrize("content", ["", "[1]", '{"verified": 1, "refusals": {"count": "x"}}', "{", "[" * 100_000])
def test_a_file_that_means_nothing_is_empty(base, file, content):
    file.write_text(content)
    store = FileApplyStateStore()
    assert store.read(base) == ApplyState()
    store.update(base, lambda kept: replace(kept, verified="c 1"))
    assert store.read(base) == ApplyState(verified="c 1")


@pytest.mark.parametrize("run_ms", [-1, True, "9", 10**15, None])
def test_a_length_that_no_run_has_is_unknown(base, file, run_ms):
    file.write_text(json.dumps({"run_ms": run_ms, "verified": "x"}))
    store = FileApplyStateStore()
    assert store.read(base) == ApplyState(verified="x")
    store.update(base, lambda kept: replace(kept, run_ms=5))
    assert store.read(base) == ApplyState(run_ms=5, verified="x")


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    FileApplyStateStore().update(str(tmp_path / "gone"), lambda _: WHOLE)
    assert not (tmp_path / "gone").exists()


@pytest.fixture
def failing(monkeypatch):
    """Once called, a storage that gives nothing."""

    def fail():
        def denied(storage, path, *more):
            raise PermissionError(13, "Permission denied", path)

        monkeypatch.setattr(LocalStorage, "read", denied)

    return fail


def test_what_the_storage_does_not_give_is_not_taken_for_nothing(base, failing):
    store = FileApplyStateStore()
    store.update(base, lambda _: WHOLE)
    failing()
    with pytest.raises(TableError) as error:
        store.read(base)
    assert error.value.code == "ETC213"


def test_nothing_is_lost_where_the_storage_fails_for_a_moment(base, failing, monkeypatch):
    store = FileApplyStateStore()
    store.update(base, lambda _: WHOLE)
    failing()
    assert store.update(base, lambda kept: replace(kept, run_ms=5)) == ApplyState(run_ms=5)
    monkeypatch.undo()
    assert store.read(base) == WHOLE


def test_one_that_is_larger_than_etc_writes_is_not_read(base, file):
    """As JSON it took thirty times as much memory."""
    with file.open("wb") as opened:
        opened.truncate(33 << 20)
    with pytest.raises(TableError) as error:
        FileApplyStateStore().read(base)
    assert error.value.code == "ETC235"


def test_texts_are_no_longer_than_etc_writes(base, file):
    long = 9_000 * "x"
    kept = [
        {"compaction": long, "why": long, **how} for how in ({}, {"verification": "fail"}, {"verification": "running"})
    ]
    file.write_text(json.dumps({"unproven": kept, "refusals": {"count": 1, "since": long, "pending": long}}))
    state = FileApplyStateStore().read(base)
    texts = [text for one in state.unproven for text in (one.compaction, one.why)]
    assert {len(text) for text in (*texts, state.refusals.since, state.refusals.pending)} == {8_000}


def test_a_forged_count_is_counted_on_from(base, file):
    """One at the bound made a number beyond it, and each later run had an error instead of a count."""
    file.write_text(json.dumps({"runs": {"in_a_row": 2**63 - 1, "since_ms": 1, "hours": [[1, 2**62, 2**62]]}}))
    for _ in range(2):
        change = lambda kept: replace(kept, runs=kept.runs.with_run(moved=False, now_ms=3_600_000))  # noqa: E731
        FileApplyStateStore().update(base, change)
    assert FileApplyStateStore().read(base).runs == Runs(in_a_row=2**62, since_ms=1, hours=((1, 2**62, 2**62),))
