import json
import os
import time
from contextlib import nullcontext
from dataclasses import replace

import pytest

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi import stable_reading
from etc_policy.hudi.commits import decode_metadata
from etc_policy.hudi.properties import fingerprint, read_properties
from etc_policy.hudi.table import FileTableReader
from etc_policy.hudi.timeline import all_times, read_timeline
from etc_policy.hudi.zones import table_zone
from etc_policy.plan.fleet import Allowance
from etc_policy.policy.manifest import EventTime
from etc_policy.storage.local import LocalStorage
from etc_policy.storage.open_storage import open_reader
from tests.unit.hudi.reading import OURS, slices
from tests.unit.hudi.table_folder import (
    COMMIT_SCHEMA,
    ROLLBACK_PLAN,
    TableFolder,
    archived,
    at,
    avro,
    base,
    commit_metadata,
    log,
)

SYNC_MARKER = 16
CONTENT = avro(COMMIT_SCHEMA, commit_metadata(at("10:00:00"), (base("f1"), log("f1", 5))))

LAYOUT_2 = {"hoodie.timeline.layout.version": "2"}


def read(table):
    return FileTableReader().read(str(table.base), EventTime(column="ts"))


def test_metadata_of_both_forms():
    record = commit_metadata(at("10:00:00"), (base("f1"), log("f1", 5)))
    assert decode_metadata(CONTENT, "x") == record
    assert decode_metadata(json.dumps(record).encode(), "x") == record
    assert decode_metadata(b"", "x") == {}


def test_a_file_cut_short_anywhere_is_an_error_of_ours_and_never_a_part_of_the_record():
    whole = decode_metadata(CONTENT, "x")
    for length in range(1, len(CONTENT)):
        try:
            record = decode_metadata(CONTENT[:length], "/t/100_200.deltacommit")
        except TableError as error:
            assert error.code == "ETC208"
            assert "/t/100_200.deltacommit" in error.message
        else:
            assert (record, length >= len(CONTENT) - SYNC_MARKER) == (whole, True)


@pytest.mark.parametrize("flip", [0x01, 0x20, 0x80, 0xFF])
def test_a_flipped_byte_is_an_error_of_ours_or_goes_unseen(flip):
    errors = 0
    for position in range(len(CONTENT)):
        broken = bytearray(CONTENT)
        broken[position] ^= flip
        try:
            assert isinstance(decode_metadata(bytes(broken), "x"), dict)
        except TableError as error:
            assert error.code == "ETC208"
            errors += 1
    assert errors > len(CONTENT) // 10


@pytest.mark.parametrize("content", [b"{", b"[]", b'"text"', b"12", b"null", b"\xff\xfe", b"[" * 100_000, b"Obj\x01"])
def test_what_is_no_record(content):
    with pytest.raises(TableError) as error:
        decode_metadata(content, "x")
    assert error.value.code == "ETC208"


@pytest.mark.parametrize("content", [CONTENT[:-20], b"\x00\x01", b"{"], ids=["cut", "bytes", "text"])
def test_a_corrupt_commit_names_its_file(table, content):
    path = table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    path.write_bytes(content)
    with pytest.raises(TableError, match=path.name) as error:
        read(table)
    assert error.value.code == "ETC208"


@pytest.mark.parametrize("name", [".compaction.requested", "_20260101100001000.clean", "_20260101100001000.rollback"])
def test_other_corrupt_files_of_the_timeline(table, name):
    path = table.file(at("10:00:00"), name, b"Obj\x01 no")
    with pytest.raises(TableError, match=path.name) as error:
        read(table)
    assert error.value.code == "ETC208"


class TestEmptyRollback:
    """Hudi 0.x writes it in place: a kill in that moment leaves it empty."""

    def touched(self, table):
        (rollback,) = (one for one in read(table).instants if one.action == "rollback")
        return rollback.file_ids

    def test_what_it_touched_is_in_its_plan(self, table):
        table.rollback(at("10:00:02"), at("10:00:03")).write_bytes(b"")
        path = f"{table.base}/p/{base('f1').name(at('10:00:00'))}"
        plan = {"instantToRollback": {"commitTime": at("10:00:00")}, "RollbackRequests": [{"filesToBeDeleted": [path]}]}
        table.file(at("10:00:02"), ".rollback.requested", avro(ROLLBACK_PLAN, plan))
        assert self.touched(table) == {"f1"}

    def test_without_its_plan_it_may_have_touched_anything(self, table):
        table.rollback(at("10:00:02"), at("10:00:03")).write_bytes(b"")
        assert self.touched(table) is None


def test_a_commit_that_is_being_written_is_read_when_it_is_whole(table, monkeypatch):
    path = table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    content = path.read_bytes()
    path.write_bytes(content[:9])
    monkeypatch.setattr("etc_policy.hudi.stable_reading.sleep", lambda _: path.write_bytes(content))
    assert len(read(table).slices) == 1


def test_a_schema_that_is_no_json(table):
    metadata = commit_metadata(at("10:00:00"), ())
    metadata["extraMetadata"]["schema"] = "{"
    table.file(at("10:00:00"), f"_{at('10:00:01')}.deltacommit", avro(COMMIT_SCHEMA, metadata))
    with pytest.raises(TableError) as error:
        read(table)
    assert error.value.code == "ETC208"


def test_files_that_are_not_instants_are_passed_over(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    (table.timeline / f".{at('10:00:00')}.deltacommit.requested.crc").write_bytes(b"")
    (table.timeline / "history").mkdir()
    (table.timeline / "notes.txt").write_bytes(b"")
    timeline = read_timeline(LocalStorage(table.base), LAYOUT_2)
    assert list(timeline.files) == [at("10:00:00")]
    assert set(all_times(timeline)) == {at("10:00:00"), at("10:00:01")}


def test_a_log_compaction_is_one_also_when_it_ended_as_a_delta_commit(table):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 5), log("f2", 5))
    table.log_compaction(at("10:00:02"), at("10:00:03"), log("f1"))
    table.log_compaction(at("10:00:04"), None)
    writes, done, pending = read_timeline(LocalStorage(table.base), LAYOUT_2).instants()
    assert (writes.action, writes.file_ids) == ("deltacommit", None)
    assert (done.action, done.state, done.completed) == ("logcompaction", "completed", at("10:00:03"))
    assert done.file_ids == frozenset({"f1"})
    assert (pending.action, pending.state) == ("logcompaction", "inflight")


@pytest.mark.parametrize(("kind", "action"), [("CLUSTER", "clustering"), (None, "replacecommit")])
@pytest.mark.parametrize("state", ["requested", "inflight"])
def test_before_version_8_a_clustering_is_told_from_an_overwrite_by_its_plan(tmp_path, kind, action, state):
    table = TableFolder(tmp_path / "t", version=6)
    schema = {"type": "record", "name": "r", "fields": [{"name": "operationType", "type": ["null", "string"]}]}
    table.file(at("10:00:02"), ".replacecommit.requested", avro(schema, {"operationType": kind}) if kind else b"")
    if state == "inflight":
        table.file(at("10:00:02"), ".replacecommit.inflight")
    (pending,) = read_timeline(LocalStorage(table.base), {"hoodie.timeline.layout.version": "1"}).instants()
    assert (pending.action, pending.state) == (action, state)


@pytest.mark.parametrize("version", [6, 9])
def test_a_bulk_insert_is_told_from_a_compaction(tmp_path, version):
    table = TableFolder(tmp_path / "t", version=version)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), action="commit", kind="BULK_INSERT")
    table.compaction(at("10:00:02"), at("10:00:03"), base("f1"))
    table.commit(at("10:00:04"), at("10:00:05"), base("f1"), action="commit", kind="COMPACT")
    found = read_timeline(LocalStorage(table.base), {"hoodie.timeline.layout.version": str(table.layout)}).instants()
    assert [one.is_bulk_insert for one in found] == [True, False, False]


def test_the_archive_ends_at_the_first_write_and_not_at_a_clean(table):
    table.clean(at("09:00:00"), at("09:00:01"), at("08:00:00"))
    table.start(at("10:00:00"))
    table.commit(at("10:00:02"), at("10:00:03"), base("f1"))
    assert read_timeline(LocalStorage(table.base), LAYOUT_2).first_active == at("10:00:00")


class TestSavepoints:
    """A savepoint bears the time of its commit: it hides nothing of what the commit says, in whatever order they are listed."""

    @pytest.fixture(params=[False, True], autouse=True)
    def listing(self, request, monkeypatch):
        names = os.listdir
        monkeypatch.setattr(os, "listdir", lambda path: sorted(names(path), reverse=request.param))

    @pytest.mark.parametrize("version", [6, 9])
    def test_a_table_reads_the_same_with_them(self, tmp_path, version):
        table = TableFolder(tmp_path / "t", version=version)
        table.commit(at("09:00:00"), at("09:00:01"), base("f1"), base("f2"), base("f3"))
        table.commit(
            at("10:00:00"), at("10:00:01"), log("f1", 5, base_instant=at("09:00:00") if version == 6 else None)
        )
        table.compaction(at("10:10:00"), at("10:10:01"), base("f2"), extra=OURS, plan_extra=OURS)
        table.replace(at("10:20:00"), at("10:20:01"), base("f4"), replaced={"p": ["f3"]})
        without = read(table)
        for minute in ("10:00", "10:10", "10:20"):
            table.savepoint(at(f"{minute}:00"), at(f"{minute}:30"))
        seen = read(table)
        assert [one.has_savepoint for one in seen.instants] == [False, True, True, True]
        assert replace(seen, instants=without.instants) == without
        assert [replace(one, has_savepoint=False) for one in seen.instants] == list(without.instants)
        assert {one.file_id for one in without.slices} == {"f1", "f2", "f4"}
        assert without.last_compaction is not None

    def test_one_under_way(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), log("f1", 5))
        table.file(at("10:00:00"), ".savepoint.inflight")
        assert [(i.action, i.state) for i in read(table).instants] == [("deltacommit", "completed")]

    def test_archiving_beyond_one_leaves_its_commit_behind(self, table):
        table.commit(at("09:00:00"), at("09:00:01"), base("f1"))
        table.savepoint(at("09:00:00"), at("09:10:00"))
        table.data(at("09:30:00"), log("f1", 7))
        table.data(at("09:31:00"), log("f1", 3))  # left by a commit that was rolled back: on no timeline
        table.archive(archived(at("09:30:00"), at("09:30:05"), log("f1", 7)))
        table.commit(at("10:00:00"), at("10:00:01"), log("f1", 9))
        assert slices(table) == {
            "f1": (
                at("09:00:00"),
                [
                    (at("09:30:00"), at("09:30:05"), 7, False),
                    (at("10:00:00"), at("10:00:01"), 9, False),
                ],
            )
        }

    def test_where_all_commits_have_one_the_first_is_where_the_archive_ends(self, table):
        table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
        table.savepoint(at("10:00:00"), at("10:10:00"))
        assert read_timeline(LocalStorage(table.base), LAYOUT_2).first_active == at("10:00:00")


def test_archiving_that_has_passed_a_pending_plan_of_ours_hides_no_log_file(table):
    """Until the next run withdraws the plan, the archive still knows what completed after its instant."""
    table.plan(at("09:20:00"), OURS)
    table.data(at("09:10:00"), base("f1"))
    table.data(at("09:30:00"), log("f1", 7))
    table.data(at("09:31:00"), log("f1", 3))  # left by a commit that was rolled back: on no timeline
    table.archive(
        archived(at("09:10:00"), at("09:10:05"), base("f1")), archived(at("09:30:00"), at("09:30:05"), log("f1", 7))
    )
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 9))
    assert [requested for requested, *_ in slices(table)["f1"][1]] == [at("09:30:00"), at("10:00:00")]


@pytest.fixture(params=[False, True], ids=["listed in order", "in reverse"])
def listing(request, monkeypatch):
    names = LocalStorage.names
    monkeypatch.setattr(
        LocalStorage, "names", lambda storage, folder: sorted(names(storage, folder), reverse=request.param)
    )


def test_two_times_that_may_both_be_true_are_refused_in_whatever_order_listed(table, listing):
    table.commit(at("01:00:00"), at("01:00:05"), base("f1"))
    twice = table.commit(at("02:00:00"), at("02:00:05"), log("f1", 7))
    twice.with_name(f"{at('02:00:00')}_{at('02:01:00')}.deltacommit").write_bytes(twice.read_bytes())
    with pytest.raises(TableError) as error:
        FileTableReader().read(str(table.base), EventTime(column="ts", unit="ms"))
    assert error.value.code == "ETC208"
    assert f"{at('02:00:00')}_{at('02:00:05')}.deltacommit and {at('02:00:00')}_{at('02:01:00')}" in error.value.message


def test_a_clean_that_two_writers_carried_out_is_no_trouble(table, listing):
    table.commit(at("01:00:00"), at("01:00:05"), base("f1"))
    for completed in (at("02:00:05"), at("02:00:10")):
        table.file(at("02:00:00"), f"_{completed}.clean")
    state = FileTableReader().read(str(table.base), EventTime(column="ts", unit="ms"))
    assert [one.completed for one in state.instants if one.action == "clean"] == [at("02:00:10")]


def test_an_empty_timeline(table):
    timeline = read_timeline(LocalStorage(table.base), LAYOUT_2)
    assert (timeline.first_active, timeline.completions, timeline.instants()) == (None, {}, ())
    state = read(table)
    assert (state.slices, state.instants, state.event_time_type, state.last_completed) == ((), (), None, None)


class TestZone:
    @pytest.mark.parametrize("value", ["UTC", "utc"])
    def test_utc(self, value, monkeypatch):
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        assert table_zone({"hoodie.table.timeline.timezone": value}) == "UTC"

    @pytest.mark.parametrize("properties", [{}, {"hoodie.table.timeline.timezone": "LOCAL"}])
    @pytest.mark.parametrize(
        ("variable", "zone"),
        [
            ("Asia/Tokyo", "Asia/Tokyo"),
            (":Europe/Berlin", "Europe/Berlin"),
            ("/usr/share/zoneinfo/Europe/Rome", "Europe/Rome"),
            ("UTC", "UTC"),
        ],
    )
    def test_local_is_this_machines(self, properties, variable, zone, monkeypatch):
        monkeypatch.setenv("TZ", variable)
        assert table_zone(properties) == zone

    @pytest.mark.parametrize("variable", ["CET-1CEST,M3.5.0,M10.5.0/3", "<+03>-3", "UTC0"])
    def test_what_is_no_name_is_left_to_the_offset(self, variable, monkeypatch):
        monkeypatch.setenv("TZ", variable)
        monkeypatch.setattr("etc_policy.hudi.zones._fixed_zone", lambda: "by offset")
        assert table_zone({}) == "by offset"

    @pytest.mark.parametrize(
        ("variable", "hint"),
        [
            ("Europe/Berlni", "did you mean `Europe/Berlin`?"),
            ("../etc/passwd", "name a zone such as TZ=Europe/Berlin, or unset TZ"),
            ("X", "name a zone such as TZ=Europe/Berlin, or unset TZ"),
        ],
    )
    def test_a_zone_that_is_not_known_is_not_taken_for_utc(self, variable, hint, monkeypatch):
        monkeypatch.setenv("TZ", variable)
        with pytest.raises(TableError, match="is no known time zone") as error:
            table_zone({})
        assert (error.value.code, error.value.hint) == ("ETC214", hint)
        assert table_zone({"hoodie.table.timeline.timezone": "UTC"}) == "UTC"

    @pytest.mark.parametrize(
        ("variable", "zone"),
        [
            (":Europe/Berlin", "Europe/Berlin"),
            ("posix/Europe/Berlin", "Europe/Berlin"),
            ("/usr/share/zoneinfo/posix/Europe/Berlin", "Europe/Berlin"),
            (":/etc/localtime", "America/New_York"),
        ],
    )
    def test_other_ways_to_name_a_zone(self, variable, zone, monkeypatch):
        """Java knows a zone by its plain name alone."""
        monkeypatch.setenv("TZ", variable)
        links = {"/etc/localtime": "/usr/share/zoneinfo/America/New_York"}
        monkeypatch.setattr("os.path.realpath", lambda path: links.get(path, path))
        assert table_zone({}) == zone

    def test_without_a_variable_the_link_of_the_machine_decides(self, monkeypatch):
        monkeypatch.delenv("TZ", raising=False)
        monkeypatch.setattr("os.path.realpath", lambda path: "/usr/share/zoneinfo/America/New_York")
        assert table_zone({}) == "America/New_York"

    def test_without_either_the_offset_decides(self, monkeypatch):
        monkeypatch.delenv("TZ", raising=False)
        monkeypatch.setattr("os.path.realpath", lambda path: "/etc/localtime")
        monkeypatch.setattr("etc_policy.hudi.zones._fixed_zone", lambda: "UTC")
        assert table_zone({}) == "UTC"

    @pytest.fixture
    def rules(self, monkeypatch):
        """Sets a zone that has rules and no name."""

        def set_zone(variable):
            monkeypatch.setenv("TZ", variable)
            time.tzset()

        yield set_zone
        monkeypatch.undo()
        time.tzset()

    @pytest.mark.parametrize("variable", ["XYZ-3", "XYZ5", "XYZ-5:30"])
    def test_an_offset_alone_does_not_tell_summer_time(self, variable, rules):
        rules(variable)
        with pytest.raises(TableError, match="does not name its zone") as error:
            table_zone({})
        assert (error.value.code, error.value.exit_code) == ("ETC214", 3)
        assert "TZ=Europe/Berlin" in error.value.hint

    @pytest.mark.parametrize("variable", ["GMT0BST,M3.5.0/1,M10.5.0", "XYZ0ABC,M10.5.0,M3.5.0"])
    def test_a_zone_that_keeps_utc_for_half_the_year_is_not_utc(self, variable, rules):
        rules(variable)
        with pytest.raises(TableError, match="does not name its zone"):
            table_zone({})

    def test_utc_without_a_name_is_utc(self, rules):
        rules("XYZ0")
        assert table_zone({}) == "UTC"

    def test_a_table_is_read_in_it(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        table = TableFolder(tmp_path / "t", properties={"hoodie.table.timeline.timezone": "LOCAL"})
        assert read(table).timezone == "Asia/Tokyo"


def test_the_fingerprint_is_of_the_pairs_alone():
    one, other = {"a": "1", "b": "2"}, {"b": "2", "a": "1"}
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one) != fingerprint({"a": "1", "b": "3"})


def test_damaged_tables_are_waited_for_a_minute_an_hour_together(monkeypatch):
    """Each took 0.6 s: whoever makes 19,000 of them kept the tables of others waiting for 48 minutes."""
    waited, read, now = [], [], [1.0]
    monkeypatch.setattr(stable_reading, "_WAITS", Allowance(60.0))
    monkeypatch.setattr(stable_reading, "WRITTEN_SECONDS", 0.2)
    monkeypatch.setattr(stable_reading, "sleep", waited.append)
    monkeypatch.setattr(stable_reading, "monotonic", lambda: now[0])

    def damaged():
        read.append(now[0])
        raise TableError(Code.DAMAGED_TIMELINE, "it is not whole")

    def read_tables(count):
        for _ in range(count):
            with pytest.raises(TableError):
                stable_reading.read_until_stable("/lake/orders", damaged)

    read_tables(1000)
    assert (sum(waited), len(read)) == (pytest.approx(60, abs=0.5), 4 * 1000)
    now[0] += 3600
    read_tables(1000)
    assert sum(waited) == pytest.approx(120, abs=1)


@pytest.mark.parametrize(
    ("one", "other", "is_refused"),
    [
        (".rollback.requested", f"_{at('10:00:05')}.deltacommit", True),
        (".compaction.requested", f"_{at('10:00:05')}.clean", True),
        (".compaction.requested", f"_{at('10:00:05')}.commit", False),
        (".logcompaction.requested", f"_{at('10:00:05')}.deltacommit", False),
        (".clustering.requested", f"_{at('10:00:05')}.replacecommit", False),
        (".deltacommit.requested", ".savepoint.inflight", False),
    ],
)
def test_an_instant_of_two_actions_is_refused(table, one, other, is_refused):
    """Hudi sees both, and would carry out a rollback that a completed write hides here."""
    table.file(at("10:00:04"), one)
    table.file(at("10:00:04"), other)
    storage = open_reader(str(table.base))
    with pytest.raises(TableError, match="is of two actions") if is_refused else nullcontext():
        read_timeline(storage, read_properties(storage))
