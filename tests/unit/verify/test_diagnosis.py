from dataclasses import replace

import pytest

from etc_policy.policy.hudi_options import EXPIRY, FILE_PROVIDER, PROVIDER
from etc_policy.policy.manifest import EventTime, Freshness, Policy, Sync, Writer
from etc_policy.policy.schema import PartitionTime
from etc_policy.table.apply_state import ApplyState, Looked, Unproven
from etc_policy.table.history import Commit, GroupWrite, TableHistory
from etc_policy.table.state import FileSlice, Instant, LogFile
from etc_policy.table.zone_evidence import ZoneReading
from etc_policy.verify.diagnosis import CHECKS, HeldLock, TableFacts, diagnose_table
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of
from tests.unit.plan.states import NOW, with_instant

POLICY = Policy(name="o", table="/t", event_time=EventTime(column="ts"), data_latency_ms=1, log_file_max_bytes=10_000)
STATE = state_of(
    "/t", {"slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "10:10:00 > 10:10:05, event 10:05:00"}}}}
)
OURS = {"etc.event_time.threshold": "1"}


def commit(requested, completed, *, event_time=1, action="deltacommit", extra=None, logs=1):
    ends = instant(requested), instant(completed)
    groups = (GroupWrite(*ends, "p", "f1", event_time, event_time is not None, 1, log_files=logs, bytes_written=10),)
    kind = "COMPACT" if action == "commit" else "UPSERT"
    return Commit(*ends, action, kind, groups, extra=extra or {})


def compaction(requested, extra=None):
    return commit(requested, requested, event_time=None, action="commit", extra=extra, logs=0)


def facts(*commits, policy=POLICY, state=STATE, properties=None, **writer):
    policy = policy.model_copy(update={"writer": Writer(**writer)}) if writer else policy
    return TableFacts(policy, state, TableHistory("/t", 9, "UTC", commits, complete=True), properties or {}, NOW)


def look(check, *arguments, **keywords):
    return CHECKS[check](facts(*arguments, **keywords))


def test_everything_is_looked_at_once():
    found = diagnose_table(facts(commit("10:00:00", "10:00:01")))
    assert [finding.check for finding in found] == list(CHECKS)
    skipped = ("version", "data latency", "compactions", "catalog", "pauses", "partitions")
    assert {one.status for one in found if one.check not in skipped} == {"ok"}
    assert all(len(finding.check) <= 13 for finding in found)


@pytest.mark.parametrize(("limit_ms", "status"), [(None, "ok"), (7_200_000, "ok"), (3_600_000, "warn")])
def test_a_backlog_is_judged_by_the_limit(limit_ms, status):
    policy = POLICY.model_copy(update={"freshness": Freshness(target_ms=limit_ms)})
    found, message, hint = look("backlog", policy=policy)
    assert (found, hint) == (status, "`etc apply --select o`" if status == "warn" else None)
    assert "RO lacks 1 log file" in message
    assert "complete until 2026-01-01 10:04:59.999 UTC" in message


DOUBTED = ApplyState(unproven=(Unproven("", "rows lack", "fail", Looked(level="data")),))


@pytest.mark.parametrize(
    ("state", "status", "said"),
    [
        (replace(STATE, apply_state=DOUBTED), "warn", "rows lack"),
        (replace(STATE, slices=(), apply_state=DOUBTED), "warn", "rows lack"),
        (replace(STATE, missing_files=("p/.f1.log.1",)), "warn", "1 missing data file"),
        (replace(STATE, slices=(), instants=()), "skipped", "no commit yet"),
    ],
    ids=["in doubt", "in doubt without a log file", "a file is gone", "empty"],
)
def test_where_nobody_knows_how_far_ro_is_complete_the_backlog_says_so(state, status, said):
    found, message, _ = look("backlog", state=state)
    assert (found, said in message) == (status, True), message
    assert "RO holds all" not in message
    assert "complete until" not in message


@pytest.mark.parametrize(
    ("synced", "status", "says"),
    [
        (None, "skipped", "Spark was not started"),
        ("the catalog cannot be asked", "warn", "cannot be asked"),
        ({}, "warn", "never recorded a commit in `lake.o_ro`"),
        ({"last_commit_time_sync": instant("10:10:00")}, "ok", "has every commit"),
        ({"last_commit_time_sync": instant("10:09:00")}, "warn", f"1 commit since {instant('10:10:00')} not synced"),
        (
            {"last_commit_time_sync": instant("10:12:00"), "last_commit_completion_time_sync": instant("10:10:04")},
            "warn",
            "1 commit since",  # it was requested before what was synced, and completed after it
        ),
    ],
)
def test_the_lag_of_the_catalog_is_told_apart(synced, status, says):
    state = with_instant(STATE, "11:00:00", "commit", completed="11:00:05")
    policy = POLICY.model_copy(update={"sync": Sync(ro_table="lake.o_ro")})
    found, message, _ = CHECKS["catalog"](replace(facts(policy=policy, state=state), last_sync=synced))
    assert (found, says in message) == (status, True), message


def test_what_stands_in_the_way_of_a_plan():
    pending = Instant(instant("11:59:00"), "clustering", "requested")
    status, message, hint = look("plan", state=replace(STATE, instants=(*STATE.instants, pending)))
    assert (status, "clustering" in message, "`CALL run_clustering(" in hint) == ("warn", True, True)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (replace(STATE, table_version=7), "table version 7 is not supported"),
        (replace(STATE, missing_files=("p/.f1.log.1",)), "1 missing data file"),
        (with_instant(STATE, "13:00:00", "deltacommit", completed="13:00:01"), "ahead of this machine's clock"),
    ],
)
def test_what_never_passes_by_itself_is_an_error_as_for_a_plan(state, said):
    status, message, _ = look("plan", state=state)
    assert (status, said in message) == ("error", True)


def test_indexes_that_could_not_be_looked_at_are_not_wrong():
    state = replace(STATE, metadata_partitions=("files", "column_stats"))
    status, message, _ = CHECKS["index records"](replace(facts(state=state), index_faults="Spark has ended"))
    assert (status, message) == ("warn", "the metadata table's indexes could not be looked at: Spark has ended")


def test_log_files_that_no_reader_sees():
    status, message, hint = look("unseen rows", state=replace(STATE, unseen_files=("p/L1", "p/L2")))
    assert (status, message) == ("error", "2 files with rows that no reader sees: p/L1, p/L2")
    assert "before a clean removes them" in hint
    many = look("unseen rows", state=replace(STATE, unseen_files=tuple(f"p/L{n}" for n in range(6))))
    assert many[1] == "6 files with rows that no reader sees: p/L0, p/L1, p/L2, p/L3, p/L4, ..."


def test_a_log_file_that_is_larger_than_allowed():
    status, message, hint = look("log file size", policy=POLICY.model_copy(update={"log_file_max_bytes": 9_999}))
    assert (status, message) == ("warn", "the only log file is larger than 9.8 KiB, with 9.8 KiB")
    assert "etc compile" in hint


class TestEventTimes:
    def test_the_latest_have_none(self):
        status, message, hint = look("event times", FINE, commit("10:01:00", "10:01:01", event_time=None))
        assert (status, message) == ("warn", "1 of 2 commits to log files records none")
        assert "etc compile" in hint

    @pytest.mark.parametrize(("version", "said"), [(8, True), (9, False)])
    def test_writers_of_version_8_may_be_of_a_hudi_that_records_none(self, version, said):
        status, _, hint = look("event times", BARE, state=replace(STATE, table_version=version))
        assert (status, "from Hudi 1.1.0 on" in hint) == ("warn", said)

    @pytest.mark.parametrize(
        ("state", "unit"),
        [
            (replace(STATE, event_time_type="timestamp-micros"), None),
            (replace(STATE, merge_mode="COMMIT_TIME_ORDERING"), None),
            (STATE, "us"),
        ],
    )
    def test_where_hudi_cannot_record_them_nobody_is_blamed(self, state, unit):
        policy = POLICY.model_copy(update={"event_time": EventTime(column="ts", unit=unit)})
        status, message, hint = look("event times", BARE, policy=policy, state=state)
        assert (status, hint) == ("ok", None)
        assert "read from the log files" in message

    def test_rows_without_an_event_time_are_counted_and_no_option_is_advised(self):
        empty = LogFile(".f1.log.1", 1, instant("10:00:00"), instant("10:00:01"), None, null_rows=3)
        slices = (replace(STATE.slices[0], log_files=(empty,)),)
        status, message, hint = look("event times", BARE, state=replace(STATE, slices=slices))
        assert (status, hint) == ("warn", "let the writer fill `ts`")
        assert message.startswith("3 rows in 1 log file with NULL in `ts`, for example in .f1.log.1")


class TestCompactions:
    def test_a_young_table_does_not_show_whether_its_writers_compact(self):
        writes = [commit(f"10:0{n}:00", f"10:0{n}:01") for n in range(6)]
        status, message, _ = look("compactions", *writes[:5])
        assert (status, "after five delta commits" in message) == ("skipped", True)
        assert look("compactions", *writes)[0] == "ok"

    def test_of_others(self):
        status, message, _ = look("compactions", compaction("11:00:00"), compaction("12:00:00", OURS))
        assert (status, message) == ("warn", f"1 compaction not by etc, the last at {instant('11:00:00')}")


FINE, BARE = (commit("10:00:00", "10:00:01", event_time=time) for time in (1, None))
COMPACTED_BARE = commit("11:00:00", "11:00:01", event_time=None, action="commit")
LATER = [commit(at, at, event_time=epoch_ms(at)) for at in (f"10:{minute:02}:00" for minute in range(1, 11))]
BULK = replace(commit("11:00:00", "11:00:01", action="commit"), operation="BULK_INSERT")
FOREIGN = compaction("11:00:00")
APART = (commit("10:00:00", "10:00:05"), commit("10:00:05", "10:00:09"))
SPLIT_OFF = STATE.with_log_files(
    lambda _, one: one._replace(name=f".f1_{instant('10:10:00')}.log.0_100000-0-0", size_bytes=20_000)
)
BUCKETS, RANDOM = (
    replace(STATE, slices=(FileSlice("p", f"{name}-1234-0", "1", "b", 1, ()),)) for name in ("00000003", "47110815")
)
DELETES = replace(STATE, slices=(replace(STATE.slices[0], log_files=(LogFile("L", 1, "1", "2", None, True),)),))
PENDING = replace(DELETES, instants=(*STATE.instants, Instant(instant("11:00:00"), "compaction", "requested")))
INDEXED = replace(STATE, metadata_partitions=("files", "record_index", "bloom_filters"))
#: What is looked at, the commits that are there, what else is given, and the status that is found.
STATUSES = {
    "log files as large as allowed": ("log file size", (), {}, "ok"),
    "no limit of log files": (
        "log file size",
        (),
        {"policy": POLICY.model_copy(update={"log_file_max_bytes": None})},
        "skipped",
    ),
    # It has the rows after T of several.
    "a log file of etc itself says nothing of the writers": ("log file size", (), {"state": SPLIT_OFF}, "ok"),
    "all have event times": ("event times", (FINE, compaction("11:00:00")), {}, "ok"),
    "rows that a compaction split off are no writer's": ("event times", (FINE, COMPACTED_BARE), {}, "ok"),
    "only old ones have no event times": ("event times", (BARE, *LATER), {}, "ok"),
    "compactions of etc alone": ("compactions", (compaction("11:00:00", OURS),), {}, "ok"),
    "those of others as declared": ("compactions", (compaction("11:00:00"),), {"compaction": "inline"}, "ok"),
    "declared and not there": ("compactions", (compaction("11:00:00", OURS),), {"compaction": "inline"}, "warn"),
    "a bulk insert is none": ("compactions", (BULK,), {}, "ok"),
    "no index is declared": ("index", (), {"index": None}, "ok"),
    "one that no file shows": ("index", (), {"index": "bloom"}, "ok"),
    "no buckets": ("index", (), {"index": "bucket"}, "error"),
    "buckets": ("index", (), {"state": BUCKETS, "index": "bucket"}, "ok"),
    "buckets by another index": ("index", (), {"state": BUCKETS, "index": "simple"}, "error"),
    "buckets by none": ("index", (), {"state": BUCKETS, "index": None}, "ok"),
    "an empty table": ("index", (), {"state": replace(STATE, slices=()), "index": "bucket"}, "ok"),
    "no record index": ("index", (), {"index": "record_index"}, "error"),
    "a record index": ("index", (), {"state": INDEXED, "index": "record_index"}, "ok"),
    "a random name may begin with eight digits": ("index", (), {"state": RANDOM, "index": "simple"}, "ok"),
    "one writer needs no lock": ("lock", APART, {}, "ok"),
    "a lock inside a process protects from nothing": (
        "lock",
        (),
        {"lock": {PROVIDER: "org.x.InProcessLockProvider"}},
        "warn",
    ),
    "others may part deletes": ("double keys", (FOREIGN,), {"state": DELETES}, "warn"),
    "so they may by bloom filters": ("double keys", (FOREIGN,), {"state": DELETES, "index": "bloom"}, "warn"),
    "and not in buckets": ("double keys", (FOREIGN,), {"state": DELETES, "index": "bucket"}, "ok"),
    "nor without deletes": ("double keys", (FOREIGN,), {}, "ok"),
    "nor does etc": ("double keys", (compaction("11:00:00", OURS),), {"state": DELETES}, "ok"),
    "a pending compaction of others counts": ("double keys", (), {"state": PENDING}, "warn"),
    "and not one of etc": ("double keys", (), {"state": replace(PENDING, own_pending=instant("11:00:00"))}, "ok"),
    "indexes that nobody drops": ("lost indexes", (), {"state": INDEXED}, "ok"),
    "what writers compact may lose them": ("lost indexes", (), {"state": INDEXED, "compaction": "async"}, "warn"),
    "there are none": ("lost indexes", (FOREIGN,), {}, "ok"),
}


@pytest.mark.parametrize(("check", "commits", "told", "status"), STATUSES.values(), ids=STATUSES)
def test_what_is_found(check, commits, told, status):
    assert look(check, *commits, **told)[0] == status


@pytest.mark.parametrize(("index", "status"), [("bucket", "ok"), (None, "ok"), ("simple", "error")])
def test_buckets_of_consistent_hashing_have_no_numbers(index, status):
    assert CHECKS["index"](replace(facts(index=index), consistent_buckets=True))[0] == status


ZOOKEEPER = {"hoodie.write.lock.provider": "org.x.ZookeeperBasedLockProvider"}


class TestLock:
    beside = (commit("10:00:00", "10:00:05"), commit("10:00:04", "10:00:09"))

    def test_several_writers_need_one(self):
        status, message, _ = look("lock", *self.beside)
        assert status == "warn"
        assert f"(commits {instant('10:00:00')} and {instant('10:00:04')} overlap)" in message
        assert look("lock", *self.beside, lock=ZOOKEEPER)[:2] == ("ok", "declared (ZookeeperBasedLockProvider)")

    def test_a_lock_without_a_provider_is_one_of_zookeeper(self):
        status, message, hint = look("lock", lock={"hoodie.write.lock.provder": FILE_PROVIDER})
        assert (status, "takes ZooKeeper" in message, PROVIDER in hint) == ("warn", True, True)
        zookeeper = {"hoodie.write.lock.zookeeper.url": "z:2181"}
        assert look("lock", lock=zookeeper)[:2] == ("ok", "declared (no provider named: Hudi takes ZooKeeper's)")

    def test_a_lock_file_should_expire(self):
        status, message, hint = look("lock", lock={PROVIDER: FILE_PROVIDER})
        assert (status, "a writer that dies while it holds it stops all others" in message) == ("warn", True)
        assert f"`{EXPIRY}: 5`" in hint
        assert look("lock", lock={PROVIDER: FILE_PROVIDER, EXPIRY: "5"})[0] == "ok"

    @pytest.mark.parametrize(
        ("age_seconds", "is_left", "status", "words"),
        [
            (5, False, "ok", "declared"),
            (61, False, "warn", "is held by user x, for 1m"),
            (1, True, "warn", "a killed run of etc has left the lock `/t/.hoodie/lock`"),
        ],
    )
    def test_one_that_is_held(self, age_seconds, is_left, status, words):
        held = HeldLock("/t/.hoodie/lock", "user x, for 1m", age_seconds, is_left)
        found = CHECKS["lock"](replace(facts(lock={PROVIDER: FILE_PROVIDER, EXPIRY: "5"}), lock=held))
        assert (found[0], words in found[1]) == (status, True)


class TestDefectsOfStockHudi:
    def test_what_may_have_come_of_it_is_said_whoever_compacted(self):
        """It said `ok ... never leaves a deleted key's later log file behind` of a table that had two rows of one key."""
        ours = replace(compaction("11:00:00", OURS), completed=instant("11:10:00"))
        writes = (
            GroupWrite(instant("10:00:00"), instant("10:00:01"), "p", "f1", None, False, 1, True),
            GroupWrite(instant("11:05:00"), instant("11:05:01"), "p", "f1", 1, True, 1),
        )
        first, second = (Commit(one.requested, one.completed, "deltacommit", "UPSERT", (one,)) for one in writes)
        status, message, hint = look("double keys", first, ours, second)
        assert (status, f"p/f1 at {instant('11:00:00')}" in message) == ("warn", True)
        assert "`etc verify --level data` finds them" in hint
        assert look("double keys", first, ours, second, index="bucket")[0] == "ok"
        assert look("double keys", first, ours)[0] == "ok"

    def test_before_version_8_nobody_knows(self):
        """Timelines there have no completion times: a write beside a compaction looks like one after it."""
        status, message, hint = look("double keys", compaction("11:00:00", OURS), state=replace(STATE, table_version=6))
        assert (status, "before table version 8" in message) == ("skipped", True)
        assert "`etc verify --level data`" in hint

    def test_rows_that_inserts_wrote_are_not_known(self):
        """It said `ok` of a table whose inserts had kept a key twice: no row is read here."""
        insert = replace(commit("10:00:00", "10:00:01"), operation="INSERT")
        for index in ("bloom", "bucket"):
            status, message, hint = look("double keys", commit("09:00:00", "09:00:01"), insert, index=index)
            assert (status, "1 write by insert looked no key up" in message) == ("skipped", True)
            assert "`etc verify --level data`" in hint
        status, message, hint = look("double keys", insert, keys="repeated")
        assert (status, "`writer.keys`" in message, hint) == ("skipped", True, None)

    def test_dropped_indexes(self):
        status, message, _ = look("lost indexes", FOREIGN, state=INDEXED)
        assert (status, "record_index and bloom_filters" in message) == ("warn", True)


@pytest.mark.parametrize(
    ("reading", "status", "words"),
    [
        (ZoneReading("UTC"), "ok", "instants are in UTC, as the table declares"),
        (ZoneReading("Asia/Tokyo", "confirmed", "3 instants agree"), "ok", "taken to be Asia/Tokyo: 3 instants agree"),
        (ZoneReading("Asia/Tokyo", "unsure", "it is a copy"), "ok", "not sure: it is a copy"),
        (
            ZoneReading("UTC", "contradicted", "its writers' clocks show another"),
            "error",
            "but its writers' clocks show",
        ),
    ],
)
def test_time_zone(reading, status, words):
    found = look("time zone", state=replace(STATE, timezone=reading.timezone, zone=reading))
    assert (found[0], words in found[1], found[2] is not None) == (status, True, status == "error")


def test_no_table_shows_whether_its_writers_may_upgrade_it():
    (found,) = (one for one in diagnose_table(facts(commit("10:00:00", "10:00:01"))) if one.check == "version")
    assert (found.status, found.message.partition(";")[0]) == ("skipped", "version 9")
    assert "give all of them the options of `etc compile`" in found.hint


def test_how_rows_are_merged_is_said_in_the_words_of_the_matrix_of_bundles():
    of_hudi_0 = "table version 6 of Hudi 0.x, EventTimeAvroPayload, one ordering field"
    message, hint = look("merges as", state=replace(STATE, merging=of_hudi_0))[1:]
    assert (message, hint) == (f"{of_hudi_0}: right by Hudi 0.15.0", None)
    message, hint = look("merges as", state=replace(STATE, merging="table version 9, an unknown payload"))[1:]
    assert message.endswith(": no release is known to be right")
    assert hint == "`etc explain ETC322` says what to do"


FILE_LOCK = {PROVIDER: FILE_PROVIDER, EXPIRY: "5"}
#: 50 s of each minute.
BUSY = tuple(commit(f"11:5{minute}:00", f"11:5{minute}:50") for minute in range(10))
#: Half of each minute, as a stream with a trigger.
CALM = tuple(commit(f"11:5{minute}:00", f"11:5{minute}:30") for minute in range(10))


@pytest.mark.parametrize(
    ("commits", "run_ms", "writer", "status", "says"),
    [
        (BUSY[:2], None, {}, "skipped", "2 writes in the last day"),
        (
            BUSY,
            9_000,
            {},
            "ok",
            "in flight 83% of the last 10m, the longest pause was 10s, the longest write took 50s, and a run takes 9s",
        ),
        (BUSY, 10_000, {}, "warn", "and a run takes 10s: one that compacts deletes would be refused or overtaken"),
        (BUSY, None, {}, "warn", "and a run is assumed to take 1m: one"),
        (
            CALM,
            None,
            {},
            "skipped",
            "the longest pause was 30s, the longest write took 30s, and a run is assumed to take 1m",
        ),
        (CALM, 40_000, {}, "warn", "and a run takes 40s: one that compacts deletes would be refused or overtaken"),
        (BUSY, None, {"lock": FILE_LOCK}, "ok", "a run holds the writers' lock between two writes"),
        (BUSY, None, {"lock": FILE_LOCK, "lock_wait_ms": 50_000}, "warn", "would be refused or overtaken"),
        (BUSY, None, {"lock": FILE_LOCK, "hold_ms": 0}, "warn", "would be refused or overtaken"),
    ],
)
def test_writers_that_leave_no_pause_are_known_before_the_first_run(commits, run_ms, writer, status, says):
    file_slice = STATE.slices[0]
    deletes = replace(file_slice, log_files=tuple(one._replace(has_deletes=True) for one in file_slice.log_files))
    state = replace(STATE, slices=(deletes,), apply_state=ApplyState(run_ms=run_ms))
    found, message, hint = look("pauses", *commits, state=state, **writer)
    assert (found, says in message) == (status, True), message
    assert (hint is not None and "`etc apply` in the writer's job" in hint) == (status == "warn")


@pytest.mark.parametrize(("target_ms", "status"), [(None, "ok"), (360_000, "ok"), (300_000, "warn")])
def test_one_long_pause_is_not_enough_where_ro_may_not_wait_for_it(target_ms, status):
    """As in a night: from 11:50 to 11:55:50 no pause was longer than 10 s."""
    file_slice = STATE.slices[0]
    deletes = replace(file_slice, log_files=tuple(one._replace(has_deletes=True) for one in file_slice.log_files))
    state = replace(STATE, slices=(deletes,), apply_state=ApplyState(run_ms=60_000))
    policy = POLICY.model_copy(update={"freshness": Freshness(target_ms=target_ms)})
    found, message, hint = look("pauses", *BUSY[:6], *BUSY[8:], state=state, policy=policy)
    assert (found, hint is not None) == (status, status == "warn"), message
    assert ("for 5m50s no pause was long enough" in message) == (status == "warn")


def test_where_nobody_knows_when_writes_ended_no_pause_is_claimed():
    """Version 6 records no completion times: each write seems to end as it begins."""
    status, message, hint = look("pauses", *BUSY, state=replace(STATE, table_version=6))
    assert (status, "does not record when writes ended" in message, hint) == ("skipped", True, None)


def test_without_deletes_no_write_is_waited_for():
    status, message, _ = look("pauses", *BUSY)
    assert (status, "no log file holds deletes" in message) == ("ok", True)


def test_events_after_the_end_of_their_partition_are_said():
    hours = POLICY.model_copy(update={"partition_time": PartitionTime(pattern="h=%Y-%m-%d-%H")})

    def table(event):
        logs = {"L1": f"10:10:00 > 10:10:05, event {event}"}
        return state_of("/t", {"slices": {"h=2026-01-01-09/f1": {"base": "08:00:00", "logs": logs}}})

    assert look("partitions", policy=hours, state=table("09:59:59"))[0] == "ok"
    status, message, _ = look("partitions", policy=hours, state=table("10:00:00"))
    assert (status, message.split(":")[0]) == ("warn", "by `partition_time.from")
    assert "`partition_time.grace`" in message
    assert look("partitions")[0] == "skipped"
