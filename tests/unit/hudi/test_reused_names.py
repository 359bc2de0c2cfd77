"""A column's name that another column had before: Hudi reads by the columns' numbers, so older event times are not known."""

import io
import json
from dataclasses import replace

import pytest

from etc_policy.api.verifying import note_verdict
from etc_policy.hudi.block_times import LogTimes, TimesWanted, read_times
from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.policy.manifest import EventTime, Policy, Verify
from etc_policy.spark import column_stats
from etc_policy.table.history import THRESHOLD, promise_of, promises_in
from etc_policy.table.proofs import is_proven, proofs_of
from etc_policy.table.state import CompactionRecord
from etc_policy.verify.evidence import Claim
from etc_policy.verify.metadata_checks import COMPACTED
from etc_policy.verify.ports import ExpectationResult, Verification
from etc_policy.wiring import Environment
from tests.fakes import MemoryApplyStates
from tests.unit.hudi import log_file
from tests.unit.hudi.log_file import avro, deletes, parquet
from tests.unit.hudi.table_folder import TableFolder, at, base
from tests.unit.hudi.table_folder import log as written

MS = 1_767_225_600_000  # 2026-01-01
TIMES = EventTime(column="ts", unit="ms")
POLICY = Policy(name="t", table="t", event_time=TIMES, data_latency_ms=0)
FIRST, ALTER, ALTERED, LAST = at("00:01:00"), at("00:02:00"), at("00:02:05"), at("00:03:00")
TS, OTHER = (1, "ts", "long"), (2, "other", "long")
SWAPPED = ((2, "ts", "long"), (1, "other", "long"))
NOW_MS = MS + 600_000


def version(number, *columns):
    fields = [{"id": n, "name": name, "optional": True, "type": kind} for n, name, kind in columns]
    return {"max_column_id": 9, "version_id": int(number), "type": "record", "fields": fields}


def of_instant(instant):
    return {log_file.INSTANT: instant}


@pytest.fixture
def table(tmp_path):
    """Two writes, and an ALTER TABLE between them; by their names all event times lie after the first hour."""
    folder = TableFolder(tmp_path / "t")
    folder.commit(at("00:00:00"), at("00:00:01"), base("old"), base("new"))
    for name, instant in (("old", FIRST), ("new", LAST)):
        data = avro([MS + 3_600_000], "long", header=of_instant(instant))
        file = written(name, size=len(data))
        folder.commit(instant, instant, file, extra={"latest_schema": f"of {name}"})
        (folder.base / "p" / file.name(instant)).write_bytes(data)
    folder.commit(ALTER, ALTERED, extra={"latest_schema": "of new"}, kind="ALTER_SCHEMA")
    return folder


def alter(table, *versions, text=None):
    folder = table.meta / ".schema"
    folder.mkdir()
    text = json.dumps({"schemas": versions}) if text is None else text
    (folder / f"{ALTER}_{ALTERED}.schemacommit").write_text(text)


def times(table, event_time=TIMES):
    state = FileTableReader().read(str(table.base), event_time)
    policy = POLICY.model_copy(update={"event_time": event_time})
    return {s.file_id: f.min_event_time_ms for s, f in fill_from_logs(state, policy, None).log_files}


KNOWN, UNKNOWN = MS + 3_600_000, None


@pytest.mark.parametrize(
    ("versions", "old"),
    [
        (((TS, OTHER), SWAPPED), UNKNOWN),
        (((TS,), ((1, "old_ts", "long"), (2, "ts", "long"))), UNKNOWN),
        (((TS,), ((5, "ts", "long"),)), UNKNOWN),
        (((TS,), (OTHER,), ((5, "ts", "long"),)), UNKNOWN),
        (((TS,), (TS, OTHER)), KNOWN),
        ((((1, "ts", "int"),), (TS,)), KNOWN),
        (((OTHER,), (OTHER, TS)), KNOWN),
        ((((1, "was", "long"),), (TS,)), KNOWN),  # a block of that time has no such column
        (((TS, OTHER), ((1, "ts", "long"), (2, "another", "long"))), KNOWN),
    ],
)
def test_what_was_written_under_a_name_that_was_another_column_s_is_unknown(table, versions, old):
    numbers = [0, int(at("00:01:59")), int(ALTER)] if len(versions) == 3 else [0, int(ALTER)]
    alter(table, *(version(number, *columns) for number, columns in zip(numbers, versions, strict=True)))
    assert times(table) == {"old": old, "new": KNOWN}


def test_without_versions_names_are_all_that_hudi_has_too(table):
    assert times(table) == {"old": KNOWN, "new": KNOWN}


@pytest.mark.parametrize("text", ["", "{", '{"schemas": [{"version_id": "x"}]}'])
def test_of_versions_that_cannot_be_read_all_that_is_older_than_the_newest_is_unknown(table, text):
    alter(table, text=text)
    assert times(table) == {"old": UNKNOWN, "new": KNOWN}


def test_what_was_requested_while_the_name_changed_is_unknown(table):
    """Its writer may have begun with either schema."""
    data = avro([KNOWN], "long", header=of_instant(at("00:02:04")))
    file = written("beside", size=len(data))
    table.commit(at("00:02:04"), at("00:02:09"), file, extra={"latest_schema": "of new"})
    (table.base / "p" / file.name(at("00:02:04"))).write_bytes(data)
    alter(table, version(0, TS, OTHER), version(ALTER, *SWAPPED))
    assert times(table) == {"old": UNKNOWN, "new": KNOWN, "beside": UNKNOWN}


@pytest.mark.parametrize("archived", [0, 1, 2, 3])
def test_an_alter_table_that_is_archived_ended_when_it_had_ended(table, archived):
    """What was begun while it ran may be of the other column."""
    table.commit(at("00:02:04"), at("00:02:09"), written("beside", min_event=KNOWN), extra={"latest_schema": "of new"})
    alter(table, version(0, TS, OTHER), version(ALTER, *SWAPPED))
    table.archive_first(archived)
    state = FileTableReader().read(str(table.base), TIMES)
    assert state.column_since == ALTERED
    assert {s.file_id: f.min_event_time_ms for s, f in state.log_files}["beside"] is None


@pytest.mark.parametrize("deleted", [0, 1])
def test_what_a_commit_recorded_then_was_of_the_other_column(tmp_path, deleted):
    folder = TableFolder(tmp_path / "t")
    for instant in (FIRST, LAST):
        file = written(f"f{instant}", min_event=KNOWN, deletes=deleted, rows=1)
        folder.commit(instant, instant, file, extra={"latest_schema": "x"})
    folder.commit(ALTER, ALTERED, extra={"latest_schema": "x"}, kind="ALTER_SCHEMA")
    alter(folder, version(0, TS, OTHER), version(ALTER, *SWAPPED))
    files = {f.requested: f for _, f in FileTableReader().read(str(folder.base), TIMES).log_files}
    assert (files[FIRST].min_event_time_ms, files[FIRST].seen_event_time_ms) == (None, None)
    assert not files[FIRST].unknown_is_deletes
    last = files[LAST]
    assert (last.seen_event_time_ms if deleted else last.min_event_time_ms) == KNOWN


def test_so_what_may_be_due_is_compacted(table):
    """In the column that has the name now the older row may have any event time."""
    alter(table, version(0, TS, OTHER), version(ALTER, *SWAPPED))
    state = fill_from_logs(FileTableReader().read(str(table.base), TIMES), POLICY, None)
    plan = build_table_plan(POLICY, state, now_ms=NOW_MS, clock_ms=NOW_MS)
    assert [one.file_id for one in plan.operations] == ["old"]


@pytest.mark.parametrize("make", [avro, lambda values, ts, **rest: parquet(values, ts, **rest)])
def test_each_block_counts_by_its_own_instant(make):
    """A log file of table version 6 grows, and a carried one bears a later instant than its blocks."""
    import pyarrow

    values = [MS] if make is avro else pyarrow.array([MS])
    wanted = TimesWanted(TIMES, "long", ("ts",), since=ALTERED)

    def read(*parts):
        data = b"".join(parts)
        return read_times(io.BytesIO(data), len(data), wanted)

    old, new = (make(values, "long", header=of_instant(one)) for one in (FIRST, LAST))
    assert read(new) == LogTimes(MS)
    assert read(old, new) == read(new, old) == LogTimes(None)
    delete = deletes((log_file.LONG, MS), ts="long")
    assert read(delete.replace(b"20260101000000000", LAST.encode())) == LogTimes(MS)
    assert read(delete) == LogTimes(None)
    assert read(log_file.block(log_file.COMMAND), new) == LogTimes(MS)


def test_a_threshold_of_the_other_column_promises_nothing(table):
    promised = {THRESHOLD: str(MS)}
    table.compaction(at("00:01:30"), at("00:01:31"), base("old"), extra={**promised, "latest_schema": "of old"})
    state = FileTableReader().read(str(table.base), TIMES)
    assert (
        promise_of(POLICY, state)
        == state.last_compaction
        == compaction_record(at("00:01:30"), at("00:01:31"), promised)
    )
    history = FileTableReader().read_with_history(str(table.base), TIMES)[1]
    assert len(promises_in(POLICY, history).runs) == 1
    alter(table, version(0, TS, OTHER), version(ALTER, *SWAPPED))
    state, history = FileTableReader().read_with_history(str(table.base), TIMES)[:2]
    assert isinstance(state.last_compaction, CompactionRecord)
    assert promise_of(POLICY, state) is None
    assert promises_in(POLICY, history).runs == ()


def test_nor_does_what_was_proved_of_it(table):
    table.compaction(at("00:01:30"), at("00:01:31"), base("old"), extra={THRESHOLD: str(MS), "latest_schema": "of old"})
    state, store = FileTableReader().read(str(table.base), TIMES), MemoryApplyStates()
    passed = Verification(
        level="metadata",
        status="pass",
        threshold_ms=MS,
        expectations=(ExpectationResult(expectation=COMPACTED, status="pass"),),
    )
    policy = POLICY.model_copy(update={"table": str(table.base), "verify": Verify(level="metadata")})
    note_verdict(policy, state, store, passed, "metadata", Claim(MS, ""))
    kept = store[str(table.base)]
    assert [one.until_ms for one in proofs_of(policy, replace(state, apply_state=kept))] == [MS]
    assert is_proven(policy, state, kept)
    alter(table, version(0, TS, OTHER), version(ALTER, *SWAPPED))
    state = FileTableReader().read(str(table.base), TIMES)
    assert proofs_of(policy, replace(state, apply_state=kept)) == ()
    assert not is_proven(policy, state, kept)


def test_statistics_of_then_are_not_asked_for(table, monkeypatch):
    """They go by names too."""
    monkeypatch.setattr(column_stats, "fill_event_times", lambda *_: pytest.fail("they were asked for"))
    alter(table, version(0, TS, OTHER), version(ALTER, *SWAPPED))
    state = FileTableReader().read(str(table.base), TIMES)
    state = replace(state, metadata_partitions=("column_stats",))
    assert Environment(table.base, lambda _: None).with_statistics(POLICY, state) is state
