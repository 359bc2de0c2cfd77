"""Writes in flight as the timeline tells of them."""

import os
import time
from math import inf

import pytest

from etc_policy.errors import RetryableError
from etc_policy.hudi.pending_writes import HEARTBEAT_EXPIRY_MS
from etc_policy.policy.manifest import Policy, Writer
from etc_policy.run import table_files
from etc_policy.run.ports import Job
from etc_policy.run.table_files import HudiFiles, require_no_metadata_commits, wait_for_metadata_commits
from etc_policy.table.state import WriteInFlight
from etc_policy.wiring import Environment
from tests.unit.hudi.reading import OURS, TS, read
from tests.unit.hudi.table_folder import COMMIT_SCHEMA, at, avro, base, commit_metadata, log

BEGAN = at("10:00:05")


@pytest.fixture
def begun(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.file(BEGAN, ".deltacommit.requested")
    return table


def inflight(table, *written):
    """The writer has looked its keys up: it says to which file groups it adds, none of which has a file yet."""
    record = commit_metadata(BEGAN, written)
    record["partitionToWriteStats"].setdefault("p", []).append({"fileId": "", "path": None})
    fields = ("fileId", "path", "numDeletes", "fileSizeInBytes", "minEventTime")
    for stats in record["partitionToWriteStats"].values():
        for stat in stats:
            stat.update({name: stat.get(name) for name in fields})
    table.file(BEGAN, ".deltacommit.inflight", avro(COMMIT_SCHEMA, record))


def beat(table, age_seconds):
    path = table.meta / ".heartbeat" / BEGAN
    path.parent.mkdir()
    path.touch()
    os.utime(path, (time.time() - age_seconds,) * 2)


def test_one_that_has_not_looked_up_its_keys_may_add_to_any(begun):
    assert read(begun).writes_in_flight == (WriteInFlight(BEGAN, None),)


def test_one_that_has_says_to_which_it_adds(begun):
    inflight(begun, log("f1", partition="p"), log("f2", partition="q"))
    assert read(begun).writes_in_flight == (WriteInFlight(BEGAN, frozenset({("p", "f1"), ("q", "f2")})),)


def test_one_that_found_none_adds_to_none(begun):
    inflight(begun)
    assert read(begun).writes_in_flight == (WriteInFlight(BEGAN, frozenset()),)


@pytest.mark.parametrize("content", [b"", b"Obj\x01half"])
def test_one_that_says_nothing_may_add_to_any(begun, content):
    begun.file(BEGAN, ".deltacommit.inflight", content)
    assert read(begun).writes_in_flight == (WriteInFlight(BEGAN, None),)


@pytest.mark.parametrize(("age_seconds", "may_live"), [(0, True), (HEARTBEAT_EXPIRY_MS // 1000 + 60, False)])
def test_one_whose_heartbeat_has_expired_is_dead(begun, age_seconds, may_live):
    beat(begun, age_seconds)
    assert read(begun).writes_in_flight == (WriteInFlight(BEGAN, None, may_live),)


def test_one_that_the_policy_lets_beat_less_often_lives(begun):
    """Taken for dead, it could add to a slice of which deletes are being compacted."""
    beat(begun, HEARTBEAT_EXPIRY_MS // 1000 + 60)
    writer = Writer(heartbeat_expiry="10m")
    policy = Policy(name="t", table=str(begun.base), event_time=TS, data_latency_ms=0, writer=writer)
    environment = Environment(begun.base.parent, lambda _: None)
    states = (
        environment.read_state(policy),
        environment.read_table(policy)[0],
        environment.read_whole(policy).state,
        environment.runner().state_of(policy, str(begun.base)),
    )
    assert [one.begun_writes for one in states] == [{BEGAN}] * 4


def test_a_bulk_insert_may_add_to_any_and_a_compaction_is_no_write(begun):
    begun.file(at("10:00:06"), ".commit.requested")
    begun.plan(at("10:00:07"), OURS)
    assert [one.requested for one in read(begun).writes_in_flight] == [BEGAN, at("10:00:06")]


def test_one_that_has_completed_is_not_in_flight(begun):
    begun.commit(BEGAN, at("10:00:06"), log("f1"))
    assert read(begun).writes_in_flight == ()


@pytest.mark.parametrize("name", ["p/f1_1-1-1.log.marker.CREATE", "MARKERS0"])
def test_when_it_made_its_last_file(begun, name):
    rolls_back, since_files = at("10:00:07"), HudiFiles().seconds_since_files
    begun.file(rolls_back, ".rollback.inflight")
    assert since_files(str(begun.base), [BEGAN, rolls_back, at("10:00:08")]) == (None, inf, inf)
    marker = begun.meta / ".temp" / BEGAN / name
    marker.parent.mkdir(parents=True)
    assert since_files(str(begun.base), [BEGAN]) == (None,)
    marker.touch()
    os.utime(marker, (time.time() - 60,) * 2)
    (seconds,) = since_files(str(begun.base), [BEGAN])
    assert 59 < seconds < 90


def test_what_a_moment_between_two_writes_waits_for(begun):
    """Writes that live, and rollbacks: a plan beside one is refused."""
    files, base_path = HudiFiles(), str(begun.base)
    assert files.writes_in_flight(base_path, HEARTBEAT_EXPIRY_MS) == {BEGAN}
    begun.file(at("10:00:07"), ".rollback.inflight")
    assert files.writes_in_flight(base_path, HEARTBEAT_EXPIRY_MS) == {BEGAN, at("10:00:07")}
    beat(begun, HEARTBEAT_EXPIRY_MS // 1000 + 60)
    begun.rollback(at("10:00:07"), at("10:00:08"))
    assert files.writes_in_flight(base_path, HEARTBEAT_EXPIRY_MS) == set()
    assert files.writes_in_flight(base_path, HEARTBEAT_EXPIRY_MS + 600_000) == {BEGAN}


class TestOpenInTheMetadataTable:
    """A client that does not stream ends every commit that is open there."""

    @pytest.fixture
    def job(self, begun):
        begun.metadata_table((at("10:00:00"), at("10:00:01")))
        for instant in (BEGAN, at("10:00:07"), at("10:00:08")):
            self.open(begun, instant)
        begun.plan(at("10:00:07"), OURS)  # the run's own
        begun.file(at("10:00:08"), ".rollback.inflight")  # of the run that rolls it back
        policy = Policy(name="t", table=str(begun.base), event_time=TS, data_latency_ms=0)
        return Job(policy, str(begun.base), 9, ("files",), at("10:00:07"))

    def open(self, table, instant):
        (table.meta / "metadata" / ".hoodie" / "timeline" / f"{instant}.deltacommit.requested").touch()

    def test_a_writer_that_may_live_is_left_alone(self, job, monkeypatch):
        monkeypatch.setattr(table_files, "_WRITER_WAIT_SECONDS", 0.1)
        wait_for_metadata_commits(job)
        with pytest.raises(
            RetryableError, match=f"the writer that began at {BEGAN} is at work on the metadata"
        ) as error:
            require_no_metadata_commits(job)
        assert error.value.code == "ETC405"

    def test_one_that_is_dead_or_done_is_not_waited_for(self, job, begun):
        beat(begun, HEARTBEAT_EXPIRY_MS / 1000 + 60)
        require_no_metadata_commits(job)
        begun.commit(BEGAN, at("10:00:09"), log("f1"))
        require_no_metadata_commits(job)

    def test_one_that_has_not_begun_there_is_no_hindrance(self, job, begun):
        (begun.meta / "metadata" / ".hoodie" / "timeline" / f"{BEGAN}.deltacommit.requested").unlink()
        wait_for_metadata_commits(job)
        require_no_metadata_commits(job)
