"""Filling event times from log files, and the cache of what was read."""

import io
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi import log_times, times_cache
from etc_policy.hudi.block_times import LogTimes
from etc_policy.hudi.log_times import fill_from_logs, read_all_logs, with_read_times
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.rules import why_refused
from etc_policy.plan.skipped_slices import ContendedSlices
from etc_policy.policy.manifest import EventTime, Policy, Strategy
from etc_policy.report.freshness import table_freshness
from etc_policy.storage import by_cores, local
from etc_policy.storage.local import LocalStorage
from etc_policy.storage.object_cache import MemoryCache
from etc_policy.table.impossible_times import latest_in
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.state import Instant, LogFile
from etc_policy.wiring import Environment
from tests.unit.hudi import log_file as log
from tests.unit.hudi.log_file import avro, deletes
from tests.unit.hudi.table_folder import OF_HUDI_0, TableFolder, archived, at, base
from tests.unit.hudi.table_folder import log as written
from tests.unit.plan import plan_cases

MS = 1_711_846_800_123
TIMES = EventTime(column="ts", unit="ms")
POLICY = Policy(name="t", table="t", event_time=TIMES, data_latency_ms=0)
MIN, SECOND, SECOND_DONE = at("00:00:00"), at("00:02:00"), at("00:02:01")


@pytest.fixture
def folder(tmp_path):
    """A table of which one log file's event time is told by its commit, and the others' by themselves."""
    table = TableFolder(tmp_path / "t", properties={"hoodie.table.ordering.fields": "ts"})
    table.commit(MIN, at("00:00:01"), *(base(name) for name in ("known", "plain", "deletes", "keyed", "nulls")))
    files = {
        written("known", min_event=7): b"never read",
        written("plain"): avro([MS + 5, MS], "long"),
        written("deletes", deletes=1): avro([MS + 9], "long") + deletes((log.LONG, MS + 1), ts="long"),
        written("keyed", deletes=1): deletes((log.LONG, MS), (log.INT, 0), ts="long"),
        written("nulls", deletes=1): avro([MS, None], "long"),
    }
    table.commit(SECOND, SECOND_DONE, *(replace(file, size=len(data)) for file, data in files.items()))
    for file, data in files.items():
        (table.base / "p" / file.name(SECOND)).write_bytes(data)
    return table


@pytest.fixture
def cache(monkeypatch):
    monkeypatch.setattr(local, "_AT_REST_NS", 0)
    return MemoryCache()


def state_of(table, event_time=TIMES):
    return FileTableReader().read(str(table.base), event_time)


@pytest.mark.parametrize(
    ("content", "is_deletes"),
    [
        (avro([MS], "long") + deletes((log.INT, 0), ts="long"), True),
        (deletes((log.INT, 0), ts="long"), True),
        (avro([MS, None], "long"), False),
        (avro([MS], "long") + b"damaged", False),
    ],
)
def test_whether_deletes_alone_have_no_event_time(tmp_path, content, is_deletes):
    """Of a table whose commits count no deletes."""
    table = TableFolder(tmp_path / "t", properties={"hoodie.record.merge.property.hoodie.payload.delete.field": "Op"})
    file = written("f1", size=len(content))
    table.commit(SECOND, SECOND_DONE, file)
    (table.base / "p" / file.name(SECOND)).write_bytes(content)
    ((_, found),) = fill_from_logs(state_of(table), POLICY, None).log_files
    assert (found.min_event_time_ms, found.unknown_is_deletes) == (None, is_deletes)


@pytest.mark.parametrize(
    ("rows", "is_deletes"),
    [
        (avro([MS], "long"), True),
        (avro([MS, None], "long"), False),
        (avro([MS], "long") + avro([MS], "long", header={log.IS_PARTIAL: "true"}), False),
        (avro([MS], "long", header={log.SCHEMA: '{"fields": []}'}), False),
    ],
)
def test_what_is_read_wins_over_a_commit_by_which_deletes_alone_have_no_event_time(tmp_path, rows, is_deletes):
    """It recorded the event times of the others: a slice with such rows may not be left out as one with deletes may."""
    table = TableFolder(tmp_path / "t")
    content = rows + deletes((log.INT, 0), ts="long")
    file = written("f1", min_event=MS, deletes=1, rows=1, size=len(content))
    table.commit(SECOND, SECOND_DONE, file)
    (table.base / "p" / file.name(SECOND)).write_bytes(content)
    state = state_of(table)
    assert [f.unknown_is_deletes for _, f in state.log_files] == [True]
    filled = fill_from_logs(state, POLICY, None)
    assert [(f.min_event_time_ms, f.unknown_is_deletes) for _, f in filled.log_files] == [(None, is_deletes)]
    busy = ContendedSlices(frozenset({("p", "f1")}))
    now = instant_to_ms(SECOND_DONE, UTC) + 60_000
    beside = replace(filled, slices=(*filled.slices, replace(filled.slices[0], file_id="f2")))
    plan = build_table_plan(POLICY, beside, now_ms=now, clock_ms=now, contended=busy)
    assert plan.reason_code == (None if is_deletes else "unknown_left_out")


@pytest.mark.parametrize("in_part", [0, 1, 2])
def test_no_event_time_bounds_a_slice_with_rows_that_are_updated_in_part(tmp_path, cache, in_part):
    """Its commit recorded what the INSERT clause of a MERGE INTO would have set, and log records merge with each other before
    they meet the base file (facts: merge-into-in-part, partial-merge-order).
    """
    table = TableFolder(tmp_path / "t")
    partial = {log.IS_PARTIAL: "true"}
    instants = [(at(f"00:0{n}:00"), at(f"00:0{n}:01")) for n in (1, 2, 3)]
    for number, (instant, ends) in enumerate(instants):
        file_ids = ("f1", "f2") if number == in_part else ("f1", "f2", "f3")
        files = [written(file_id, min_event=MS + 1, rows=1, size=9) for file_id in file_ids]
        content = avro([MS], "long", header=partial if number == in_part else {})
        files = [replace(one, size=len(content)) for one in files]
        table.commit(instant, ends, *files)
        for one in files:
            (table.base / "p" / one.name(instant)).write_bytes(content)
    for state in (state_of(table), fill_from_logs(state_of(table), POLICY, cache)):
        found = {(one.file_id, f.min_event_time_ms, f.seen_event_time_ms) for one, f in state.log_files}
        assert {one for one in found if one[0] == "f3"} == {("f3", MS + 1, None)}
        assert {one[:2] for one in found if one[0] != "f3"} == {("f1", None), ("f2", None)}
        assert [one.updates_in_part for one in state.slices] == [True, True, False]
    wide = POLICY.model_copy(update={"data_latency_ms": 1})
    now_ms = instant_to_ms(at("00:04:00"), UTC)
    warnings = build_table_plan(wide, state, now_ms=now_ms, clock_ms=now_ms).warnings
    assert any("a `MERGE INTO` that sets some columns" in one for one in warnings)


@pytest.mark.parametrize("in_part", [True, False])
def test_rows_beside_deletes_may_not_be_left_behind_parts_of_rows(tmp_path, in_part):
    table = TableFolder(tmp_path / "t")
    contents = avro([MS], "long", header={log.IS_PARTIAL: "true"} if in_part else {}), avro([MS], "long")
    for number, content in enumerate(contents, 1):
        file = written("f1", min_event=MS, rows=2, deletes=number - 1, size=len(content))
        table.commit(at(f"00:0{number}:00"), at(f"00:0{number}:01"), file)
        (table.base / "p" / file.name(at(f"00:0{number}:00"))).write_bytes(content)
    assert [one.unknown_is_deletes for _, one in state_of(table).log_files] == [False, not in_part]


FIRST, DIED, LATER = at("08:00:00"), at("09:00:00"), at("10:00:00")


def rows_of(instant):
    """A block of rows of a write, which before table version 8 no name shows."""
    return avro([MS], "long", header={log.INSTANT: instant})


def taken_back(instant):
    """A block by which a rollback takes the rows of a write back."""
    return log.block(log.COMMAND, header={log.INSTANT: LATER, log.TARGET: instant})


@pytest.mark.parametrize(
    ("left", "is_left"),
    [
        ([rows_of(DIED)], True),
        ([rows_of(FIRST) + rows_of(DIED)], True),
        ([rows_of(DIED), taken_back(DIED)], False),
        ([rows_of(DIED), taken_back(FIRST)], True),
        ([rows_of(at("09:30:00"))], False),
        ([rows_of(at("07:00:00"))], False),
        ([rows_of(at("10:30:00"))], False),
    ],
    ids=["left", "beside others", "taken back", "another is", "archived", "before the archive", "not archived yet"],
)
@pytest.mark.parametrize("has_metadata", [True, False])
def test_before_version_8_blocks_say_what_a_rollback_has_left(tmp_path, cache, left, is_left, has_metadata):
    """See facts: rolled-back-blocks-shown; what was read once is known without the files."""
    listed = {"hoodie.table.metadata.partitions": "files"} if has_metadata else {}
    table = TableFolder(tmp_path / "t", version=6, properties={**OF_HUDI_0, **listed})
    files = [written("f1", base_instant=FIRST, version=number) for number, _ in enumerate(left, 1)]
    table.data(FIRST, base("f1"), *files)
    table.commit(LATER, "", written("f2", base_instant=FIRST))
    table.archive_to_log(1, FIRST, at("09:30:00"))
    for file, content in zip(files, left, strict=True):
        (table.base / "p" / file.name(FIRST)).write_bytes(content)
    assert state_of(table).unrecorded_files == ()
    found = {read(state_of(table), POLICY, cache).unrecorded_files for read in (fill_from_logs, read_all_logs) * 2}
    (unrecorded,) = found
    assert bool(unrecorded) == (is_left and has_metadata)
    assert all(path in {f"p/{file.name(FIRST)}" for file in files} for path in unrecorded)


@pytest.mark.parametrize(
    ("content", "base_at", "hidden_at"),
    [
        (rows_of(DIED), FIRST, DIED),
        (rows_of(DIED) + taken_back(DIED), FIRST, None),
        (rows_of(FIRST) + rows_of(LATER), FIRST, None),
        (rows_of(LATER), DIED, DIED),
    ],
    ids=["a log file", "taken back", "shown", "a base file"],
)
@pytest.mark.parametrize("has_savepoint", [True, False])
def test_before_version_8_rows_behind_a_savepoint_are_not_compacted(
    tmp_path, cache, content, base_at, hidden_at, has_savepoint
):
    """Archiving went beyond the savepoint; readers do not show what it took, and a compaction would lose it."""
    table = TableFolder(tmp_path / "t", version=6, properties=OF_HUDI_0)
    table.commit(FIRST, "", base("f1"))
    if has_savepoint:
        table.savepoint(FIRST, "")
    log_file = written("f2", base_instant=base_at)
    table.data(base_at, base("f2"), log_file)
    table.commit(LATER, "", written("f1", base_instant=FIRST))
    table.archive_to_log(1, DIED)
    (table.base / "p" / log_file.name(base_at)).write_bytes(content)
    by_slice = POLICY.model_copy(update={"strategy": Strategy(granularity="file_slice")})
    refused = why_refused(by_slice, fill_from_logs(state_of(table), POLICY, cache), instant_to_ms(at("23:00:00"), UTC))
    assert (refused is not None) == (
        hidden_at is not None
    )  # also once the savepoint is deleted, until its commit is archived
    if refused is not None:
        assert (refused.code, f"was committed at {hidden_at}" in refused.reason) == ("hidden_by_savepoint", True)


@pytest.mark.parametrize("is_base", [True, False])
@pytest.mark.parametrize("action", ["deltacommit", "clean", None])
def test_nor_is_what_a_savepoint_that_is_gone_hides_from_version_8_on(tmp_path, is_base, action):
    """Its commit is still there: what was archived and came after it readers do not show until it is archived, too."""
    table = TableFolder(tmp_path / "t")
    table.commit(FIRST, at("08:00:30"), base("f1"))
    file = base("f2") if is_base else written("f1")
    table.data(DIED, file)
    table.commit(LATER, at("10:00:30"), written("f1"))
    rows = [archived(at("07:00:00"), at("07:00:30")), {**archived(DIED, at("09:00:30"), file), "action": action}]
    table.archived = rows if action else rows[:1]
    table.archive(*table.archived)
    state, path = state_of(table), f"p/{file.name(DIED)}"
    is_hidden = action == "deltacommit"
    assert state.hidden_blocks == (((DIED, path),) if is_hidden else ())
    refused = why_refused(POLICY, state, instant_to_ms(at("23:00:00"), UTC))
    assert (refused is not None) == is_hidden
    if refused is not None:
        assert (refused.code, path in refused.reason) == ("hidden_by_savepoint", True)
    table.archive_first(1)
    assert state_of(table).hidden_blocks == ()


def test_rows_that_change_others_in_part_are_bound_by_no_time_beside_deletes(folder):
    unknown = tuple(
        replace(one, log_files=tuple(f._replace(unknown_is_deletes=False) for f in one.log_files))
        for one in state_of(folder).slices
    )
    filled = fill_from_logs(replace(state_of(folder), slices=unknown, updates_in_part=True), POLICY, None)
    found = {one.file_id: (f.has_deletes, f.unknown_is_deletes) for one, f in filled.log_files}
    assert (found["deletes"], found["nulls"]) == ((True, False), (True, False))


def fill(table, cache_dir=None, event_time=TIMES):
    """File group -> the smallest event time that is known then."""
    filled = fill_from_logs(
        state_of(table, event_time), POLICY.model_copy(update={"event_time": event_time}), cache_dir
    )
    return {file_slice.file_id: log_file.min_event_time_ms for file_slice, log_file in filled.log_files}


#: One file of the write shows its form, and is no block here.
LOOKED_AT = [f"p/{written('known').name(SECOND)}"]
FILLED = {"known": 7, "plain": MS, "deletes": MS + 1, "keyed": None, "nulls": None}


def cached(cache):
    """What is kept, a dict of files for each column that was asked for."""
    return [json.loads(content) for content in cache.values()]


def spoil(table, name="plain"):
    """Other content of the same size, as a bad disk has it: who reads it again knows nothing."""
    path = table.base / "p" / written(name).name(SECOND)
    path.write_bytes(b"x" * path.stat().st_size)


def opened(monkeypatch):
    """The names of the log files that are opened from now on."""
    names, plain = [], LocalStorage.open

    def open_and_note(self, path):
        names.extend([path] if ".log." in path else [])
        return plain(self, path)

    monkeypatch.setattr(LocalStorage, "open", open_and_note)
    return names


def test_only_what_is_unknown_is_read_and_nothing_else_changes(folder):
    before = state_of(folder)
    after = fill_from_logs(before, POLICY, None)
    assert {s.file_id: f.min_event_time_ms for s, f in after.log_files} == FILLED

    def without_times(state):
        emptied = {"min_event_time_ms": None, "seen_event_time_ms": None, "unknown_is_deletes": False, "null_rows": 0}
        emptied["max_event_time_ms"] = None
        slices = (replace(s, log_files=tuple(f._replace(**emptied) for f in s.log_files)) for s in state.slices)
        return replace(state, slices=tuple(slices))

    assert without_times(after) == without_times(before)


def test_a_state_without_unknown_files_is_returned_as_it_is(folder, cache):
    state = state_of(folder)
    known = tuple(s for s in state.slices if s.file_id == "known")
    state = replace(state, slices=known, base_path="s3://not/looked/at")
    assert fill_from_logs(state, POLICY, cache) is state
    assert not cache


@pytest.mark.parametrize("recorded", [None, MS - 5])
@pytest.mark.parametrize("deletes", [0, 1])
def test_a_log_file_with_a_row_without_an_event_time_stays_unknown(tmp_path, recorded, deletes):
    """Nobody knows when that row is due; what is seen of the others counts for how far RO is complete."""
    table = TableFolder(tmp_path / "t")
    data = avro([MS, None], "long")
    file = replace(written("f", size=len(data)), min_event=recorded if deletes else None, deletes=deletes)
    table.commit(SECOND, SECOND_DONE, file)
    (table.base / "p" / file.name(SECOND)).write_bytes(data)
    ((_, found),) = fill_from_logs(state_of(table), POLICY, None).log_files
    assert (found.min_event_time_ms, found.seen_event_time_ms) == (None, MS - 5 if recorded and deletes else MS)
    assert found.null_rows == 1


def test_deletes_are_unknown_without_an_ordering_field(folder):
    properties = folder.meta / "hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("hoodie.table.ordering.fields=ts", "hoodie.table.ordering.fields=id"))
    assert fill(folder)["deletes"] is None
    properties.write_text(text.replace("hoodie.table.ordering.fields", "hoodie.table.precombine.field"))
    assert fill(folder) == FILLED


def test_a_second_reading_comes_from_the_cache(folder, cache, monkeypatch):
    assert fill(folder, cache) == FILLED
    names = opened(monkeypatch)
    assert fill(folder, cache) == FILLED
    assert names == LOOKED_AT
    names.clear()
    spoil(folder)
    assert fill(folder, cache)["plain"] is None  # it is another file, in as many bytes
    assert names == [*LOOKED_AT, f"p/{written('plain').name(SECOND)}"]


def test_the_cache_goes_by_the_column_too(folder, cache):
    fill(folder, cache)
    seconds = EventTime(column="ts", unit="us")
    assert fill(folder, cache, seconds)["plain"] == MS // 1000
    assert fill(folder, cache) == FILLED
    assert len(cached(cache)) == 2


def test_what_was_written_a_moment_ago_is_read_again(folder, cache, monkeypatch):
    """Its time may stay the same where it is written once more: clocks have ticks."""
    monkeypatch.setattr(local, "_AT_REST_NS", 10**12)
    fill(folder, cache)
    names = opened(monkeypatch)
    assert fill(folder, cache) == FILLED
    assert len(names) == 4 + len(LOOKED_AT)


def test_all_log_files_are_read_anew_where_the_policy_says_full(folder, cache):
    def read_anew(full):
        policy = POLICY.model_copy(update={"verify": POLICY.verify.model_copy(update={"full": full})})
        return sum(one.is_read_anew for one in read_all_logs(state_of(folder), policy, cache).witnesses)

    assert [read_anew(full) for full in (False, False, True, False)] == [5, 1, 5, 1]  # a damaged one is never kept


def test_what_a_commit_tells_is_not_replaced_by_what_was_read_before(folder, cache):
    spoiled = folder.base / "p" / written("known").name(SECOND)
    spoiled.write_bytes(avro([MS], "long"))
    state = state_of(folder)
    files = tuple(
        replace(s, log_files=tuple(f._replace(min_event_time_ms=None) for f in s.log_files)) for s in state.slices
    )
    filled = fill_from_logs(replace(state, slices=files), POLICY, cache)
    assert {f.min_event_time_ms for s, f in filled.log_files if s.file_id == "known"} == {MS}
    assert fill(folder, cache) == FILLED


def test_tables_do_not_share_a_cache(folder, cache, tmp_path):
    fill(folder, cache)
    folder.base.rename(tmp_path / "moved")
    folder.base = tmp_path / "moved"
    spoil(folder)
    assert fill(folder, cache)["plain"] is None
    assert len(cache) == 2


def test_of_log_files_that_are_gone_the_newest_stay_in_the_cache(folder, cache, monkeypatch):
    fill(folder, cache)
    (folder.base / "p" / written("plain").name(SECOND)).unlink()
    fill(folder, cache)
    (entries,) = cached(cache)
    assert len(entries) == 4
    monkeypatch.setattr(times_cache, "KEPT_GONE", 1)
    path = folder.base / "p" / written("keyed").name(SECOND)
    path.unlink()
    fill(folder, cache)
    (entries,) = cached(cache)
    assert len(entries) == 3


def test_what_was_read_of_a_write_is_known_when_it_is_compacted(folder, cache):
    def history():
        state, past = FileTableReader().read_with_history(str(folder.base), TIMES)[:2]
        return {key[2]: ms for key, ms in with_read_times(past, state, POLICY, cache).read_times.items()}

    assert history() == {}
    fill(folder, cache)
    expected = {"plain": MS, "deletes": MS + 1, "keyed": MS, "nulls": MS}
    assert history() == expected
    (folder.base / "p" / written("plain").name(SECOND)).unlink()
    fill(folder, cache)
    assert history() == expected


@pytest.mark.parametrize(("instants", "known"), [((LATER,), {LATER}), ((DIED, LATER), set())])
def test_before_version_8_blocks_say_of_which_write_a_log_file_is(tmp_path, cache, instants, known):
    """Of one that grew nobody knows which write brought its earliest event."""
    table = TableFolder(tmp_path / "t", version=6, properties=OF_HUDI_0)
    table.commit(FIRST, "", base("f1"))
    content = b"".join(map(rows_of, instants))
    file = written("f1", base_instant=FIRST, size=len(content))
    for instant in instants:
        table.commit(instant, "", replace(file, on_disk=False))
    (table.base / "p" / file.name(FIRST)).write_bytes(content)
    state, past, *_ = FileTableReader().read_with_history(str(table.base), TIMES)
    fill_from_logs(state, POLICY, cache)
    assert with_read_times(past, state, POLICY, cache).read_times == {(one, "p", "f1"): MS for one in known}


def test_before_version_8_blocks_say_when_rows_came_of_which_commits_do_not(tmp_path, cache):
    """The commits of the slice, and of its first write, are archived, and a later one added to the log file."""
    table = TableFolder(tmp_path / "t", version=6, properties=OF_HUDI_0)
    content = rows_of(DIED) + rows_of(LATER)
    file = written("f1", base_instant=FIRST, size=len(content))
    other = written("f2", base_instant=LATER)
    table.data(FIRST, base("f1"))
    table.commit(LATER, "", base("f2"), replace(file, on_disk=False), other)
    table.commit(at("11:00:00"), "", other)
    (table.base / "p" / file.name(FIRST)).write_bytes(content)
    state = FileTableReader().read(str(table.base), TIMES)
    (found,) = (f.written for s, f in state.log_files if s.file_id == "f1")
    (filled,) = (f.written for s, f in fill_from_logs(state, POLICY, cache).log_files if s.file_id == "f1")
    assert (found, filled) == ((FIRST, LATER), (DIED, LATER))


def test_a_table_is_read_with_what_its_writes_were_found_to_hold(folder, cache):
    policy = POLICY.model_copy(update={"table": str(folder.base)})
    environment = Environment(folder.base.parent, lambda _: None)
    _, history = environment.read_table(policy)[:2]
    assert history.read_times[SECOND, "p", "plain"] == MS
    assert environment.read_whole(policy).history.read_times == history.read_times


def test_log_files_that_are_gone_leave_the_cache(folder, cache, monkeypatch):
    monkeypatch.setattr(times_cache, "KEPT_GONE", 0)
    fill(folder, cache)
    fill(folder, cache, EventTime(column="ts", unit="us"))
    (folder.base / "p" / written("plain").name(SECOND)).unlink()
    fill(folder, cache)
    assert sorted(len(files) for files in cached(cache)) == [3, 4]  # those of the other column go when it is read


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"null", b'{"a": 1}', b"\xff", b"[" * 100_000),
        *("entry", "[1]", '["10", 1, false]', "[10, 1.5, false]", "[10, 1, 0]", "[10, true, false]", "{}"),
    ],
)
def test_a_cache_that_is_not_what_was_written_is_ignored(folder, cache, content):
    fill(folder, cache)
    (key,) = cache
    if isinstance(content, str):
        value = content if content != "entry" else '"entry"'
        content = json.dumps({f"p/{written('plain').name(SECOND)}": json.loads(value)}).encode()
    cache[key] = content
    assert fill(folder, cache) == FILLED


def test_a_file_that_cannot_be_read_is_asked_again(folder, cache, monkeypatch):
    path = folder.base / "p" / written("plain").name(SECOND)
    state = state_of(folder)
    moved = path.rename(path.with_suffix(".away"))
    gone = fill_from_logs(state, POLICY, cache)
    assert {f.min_event_time_ms for s, f in gone.log_files if s.file_id == "plain"} == {None}
    moved.rename(path)
    assert fill(folder, cache) == FILLED


def test_a_damaged_file_that_is_restored_in_as_many_bytes_is_read_again(folder, cache):
    path = folder.base / "p" / written("plain").name(SECOND)
    sound = path.read_bytes()
    path.write_bytes(b"x" * len(sound))
    assert fill(folder, cache)["plain"] is None
    path.write_bytes(sound)
    assert fill(folder, cache) == FILLED


def test_a_file_that_grew_since_the_listing_is_unknown(folder, cache):
    state = state_of(folder)
    path = folder.base / "p" / written("plain").name(SECOND)
    path.write_bytes(path.read_bytes() + avro([MS - 1], "long"))
    filled = fill_from_logs(state, POLICY, cache)
    assert {f.min_event_time_ms for s, f in filled.log_files if s.file_id == "plain"} == {None}
    assert fill(folder, cache)["plain"] == MS - 1


def test_much_to_read_is_announced(folder, cache, monkeypatch):
    said = []
    fill_from_logs(state_of(folder), POLICY, None, said.append)
    assert said == []
    sizes = sum(f.size_bytes for s, f in state_of(folder).log_files if s.file_id != "known")
    monkeypatch.setattr(log_times, "SHARED_BYTES", sizes // 2)
    fill_from_logs(state_of(folder), POLICY, cache, said.append)
    assert said[0].startswith("t: reading event times of 4 log files (0 B of ")
    assert len(said) == 2
    fill_from_logs(state_of(folder), POLICY, cache, said.append)
    assert len(said) == 2


def test_what_is_appended_while_a_file_is_read_is_not_of_it(folder, monkeypatch):
    """As writers before table version 8 append to log files."""
    state, opened = state_of(folder), LocalStorage.open

    class Grown(io.BytesIO):
        def seek(self, place, whence=os.SEEK_SET):
            found = super().seek(place, whence)
            if whence == os.SEEK_END:
                self.write(avro([1], "long"))
            return found

    def grown(storage, path):
        with opened(storage, path) as stream:
            return Grown(stream.read())

    expected = read_all_logs(state, POLICY, None)
    monkeypatch.setattr(LocalStorage, "open", grown)
    assert read_all_logs(state, POLICY, None) == expected


class TestReadByProcesses:
    """Beyond some bytes each core has a process that reads log files."""

    @pytest.fixture(autouse=True)
    def shared(self, monkeypatch):
        monkeypatch.setattr(by_cores, "SHARED_BYTES", 0)
        monkeypatch.setattr(by_cores, "_SHARE_BYTES", 1)
        monkeypatch.setattr(by_cores.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)

    @pytest.mark.parametrize(
        ("own", "files", "count"),
        [
            ("/", {}, 3),
            ("/", {"cpu.max": "150000 100000", "memory.max": "max"}, 2),
            ("/a/b", {"a/cpu.max": "20000 100000", "a/b/cpu.max": "max 100000"}, 1),
            ("/", {"cpu.max": "max 100000", "memory.max": str(2 << 30)}, 2),
            ("/", {"memory.max": str(64 << 20)}, 1),
            ("/", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
            ("/x", {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
            ("/x", {"memory/memory.limit_in_bytes": f"{1 << 30}\n"}, 1),
            ("/../outside", {}, 3),
        ],
    )
    def test_there_are_no_more_than_a_container_has_cores_and_memory_for(
        self, tmp_path, monkeypatch, own, files, count
    ):
        """It sees all cores of its machine: each got a process, whose memory ended the container."""
        groups = tmp_path / "cgroup"
        for name, text in files.items():
            (groups / name).parent.mkdir(parents=True, exist_ok=True)
            (groups / name).write_text(text)
        (tmp_path / "own").write_text(f"1:cpu:/\n0::{own}\n")
        monkeypatch.setattr(by_cores, "_GROUPS", groups)
        monkeypatch.setattr(by_cores, "_OWN_GROUP", tmp_path / "own")
        assert by_cores._usable_cores() == count

    def test_they_find_what_one_finds(self, folder, monkeypatch):
        state = state_of(folder)
        found = read_all_logs(state, POLICY, None)
        monkeypatch.setattr(by_cores, "SHARED_BYTES", 10**9)
        assert found == read_all_logs(state, POLICY, None)
        assert len({one.found_ms for one in found.witnesses}) > 2

    def test_what_one_cannot_read_is_read_here(self, folder, monkeypatch):
        state = state_of(folder)
        found = read_all_logs(state, POLICY, None)
        monkeypatch.setattr(by_cores.sys, "executable", shutil.which("false"))
        assert found == read_all_logs(state, POLICY, None)

    def test_one_that_is_killed_is_an_error_with_its_files(self, folder, monkeypatch):
        begin = by_cores._Process.__init__

        def killed(process, begun):
            begin(process, begun)
            process._child.kill()

        monkeypatch.setattr(by_cores._Process, "__init__", killed)
        with pytest.raises(TableError, match=r"the process that read `p/\..*` was killed \(signal 9\)"):
            read_all_logs(state_of(folder), POLICY, None)

    def test_they_end_with_who_began_them(self, tmp_path):
        script = (
            "import os, signal; from etc_policy.storage import by_cores; child = by_cores._Process(b'')._child; "
            "print(child.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
        )
        said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        end = time.monotonic() + 30
        while Path(f"/proc/{int(said.stdout)}").exists():
            assert time.monotonic() < end
            time.sleep(0.05)


def written_in(tmp_path, *values):
    """A table with a log file for each list of numbers in its event-time column."""
    table = TableFolder(tmp_path / "t")
    table.commit(MIN, at("00:00:01"), *(base(f"f{number}") for number in range(len(values))))
    files = {written(f"f{number}"): avro(list(one), "long") for number, one in enumerate(values)}
    table.commit(SECOND, SECOND_DONE, *(replace(file, size=len(data)) for file, data in files.items()))
    for file, data in files.items():
        (table.base / "p" / file.name(SECOND)).write_bytes(data)
    return table


DONE_MS = instant_to_ms(SECOND_DONE, UTC)


@pytest.mark.parametrize("read", [fill_from_logs, read_all_logs])
@pytest.mark.parametrize(
    ("unit", "factor", "fitting"), [("s", 1, "ms"), ("s", 1000, "us"), ("ms", 1000, "us"), ("us", 10**6, None)]
)
def test_where_all_event_times_are_impossible_the_table_is_refused_with_the_unit_that_fits(
    tmp_path, cache, read, unit, factor, fitting
):
    """Else nothing would ever be due, and RO would be said to be complete. Nanoseconds are no unit."""
    table = written_in(tmp_path, [DONE_MS * factor], [(DONE_MS - 9) * factor])
    policy = POLICY.model_copy(update={"event_time": EventTime(column="ts", unit=unit)})
    for _ in range(2):  # from the cache too
        state = read(state_of(table, policy.event_time), policy, cache)
        plan = build_table_plan(policy, state, now_ms=2**42, clock_ms=2**42)
        assert (plan.action, plan.reason_code, plan.watermark_known) == ("refused", Code.WRONG_UNIT, False)
        assert (f"set `event_time_column: {{column: ts, unit: {fitting}}}`" in plan.hints[0]) == bool(fitting)
        assert fitting or "nanoseconds, which cannot be read" in plan.hints[0]
        fresh = table_freshness(policy, state, 2**42, 2**42)
        assert (fresh.status, fresh.complete_until_ms) == ("unknown", None)


def test_by_a_wrong_unit_no_time_is_possible_whatever_commits_recorded(tmp_path):
    """Hudi tells seconds from milliseconds by their digits."""
    state = state_of(written_in(tmp_path, [DONE_MS]))
    state = state.with_log_files(lambda _, one: one._replace(min_event_time_ms=DONE_MS))
    policy = POLICY.model_copy(update={"event_time": EventTime(column="ts", unit="s")})
    assert [one.impossible_ms for one in read_all_logs(state, policy, None).log_files_ahead] == [DONE_MS * 1000]


@pytest.mark.parametrize("read", [fill_from_logs, read_all_logs])
def test_a_log_file_that_may_not_be_read_is_an_error_with_its_cause(tmp_path, cache, read, monkeypatch):
    """It does not count as unknown: nothing could compact it."""
    table = written_in(tmp_path, [1_000])
    state, opened = state_of(table), LocalStorage.open

    def denied(storage, path):
        if ".log." in path:
            raise PermissionError(13, "Permission denied", path)
        return opened(storage, path)

    monkeypatch.setattr(LocalStorage, "open", denied)
    with pytest.raises(TableError, match="cannot read the table at") as found:
        read(state, POLICY, cache)
    assert (found.value.code, "as which user etc runs" in found.value.hint) == (Code.CANNOT_READ_TABLE, True)
    assert found.value.cause == f"[Errno 13] Permission denied: 'p/{written('f0').name(SECOND)}'"


@pytest.mark.parametrize("read", [fill_from_logs, read_all_logs])
def test_a_few_impossible_event_times_count_as_unknown(tmp_path, cache, read):
    """So the files that hold them are compacted, and what is seen beside them bounds completeness."""
    never = 4_102_444_800_000  # 2100-01-01
    table = written_in(tmp_path, [DONE_MS - 5, never], [never], [DONE_MS - 3])
    state = read(state_of(table), POLICY, cache)
    found = [(f.min_event_time_ms, f.seen_event_time_ms, f.impossible_ms) for _, f in state.log_files]
    assert found == [(None, DONE_MS - 5, never), (None, None, never), (DONE_MS - 3, None, None)]
    plan = build_table_plan(POLICY, state, now_ms=DONE_MS - 1_000, clock_ms=2**42)
    assert {one.file_id for one in plan.operations} == {"f0", "f1"}
    assert any("2 log files with an event time in `ts` that is later than its commit" in one for one in plan.warnings)
    allowed = POLICY.model_copy(update={"event_time": TIMES.model_copy(update={"max_ahead_ms": never - DONE_MS})})
    times = [f.min_event_time_ms for _, f in read(state_of(table, allowed.event_time), allowed, cache).log_files]
    assert times == [DONE_MS - 5, never, DONE_MS - 3]


@pytest.mark.parametrize(("unit", "divisor", "fitting"), [("ms", 1000, "s"), ("us", 1, "ms"), ("us", 1000, "s")])
def test_of_event_times_around_1970_the_unit_that_fits_is_named(tmp_path, unit, divisor, fitting):
    """All of them are due at once, which does no harm."""
    table = written_in(tmp_path, [DONE_MS // divisor], [DONE_MS // divisor - 9])
    policy = POLICY.model_copy(update={"event_time": EventTime(column="ts", unit=unit)})
    state = fill_from_logs(state_of(table, policy.event_time), policy, None)
    plan = build_table_plan(policy, state, now_ms=DONE_MS, clock_ms=2**42)
    assert (plan.action, len(plan.operations)) == ("compact", 2)
    assert any(f"set `event_time_column: {{column: ts, unit: {fitting}}}`" in one for one in plan.warnings)


def test_a_log_file_that_grows_is_not_older_than_the_table(tmp_path):
    """Before table version 8 it bears the instant of its slice, however much later its rows came."""
    state = state_of(written_in(tmp_path, [DONE_MS]))
    old = state.slices[0].log_files[0]._replace(completed="20250101000000000")
    assert latest_in(state, old, TIMES) < DONE_MS
    assert latest_in(replace(state, table_version=6), old, TIMES) > DONE_MS


def test_texts_that_are_no_times_stop_the_plan_before_anything_is_compacted(tmp_path, cache):
    table = TableFolder(tmp_path / "t")
    schema = {"type": "record", "name": "r", "fields": [{"name": "ts", "type": "string"}]}
    table.commit(MIN, at("00:00:01"), base("f"), extra={"schema": json.dumps(schema)})
    data = avro(["22/11/2026 02:10"], "string")
    table.commit(SECOND, SECOND_DONE, replace(written("f"), size=len(data)), extra={"schema": json.dumps(schema)})
    (table.base / "p" / written("f").name(SECOND)).write_bytes(data)
    texts = EventTime(column="ts")
    policy = POLICY.model_copy(update={"event_time": texts})
    for _ in range(2):  # from the cache too
        state = fill_from_logs(state_of(table, texts), policy, cache)
        planned = build_table_plan(policy, state, now_ms=MS, clock_ms=2**42)
        assert (planned.action, planned.reason_code) == ("refused", Code.UNREADABLE_TIMES)
        assert "`22/11/2026 02:10` in column `ts` of the file " in planned.reason
        assert "format: PATTERN" in planned.hints[0]
        assert table_freshness(policy, state, MS, 2**42).status == "unknown"
    spoken = policy.model_copy(update={"event_time": EventTime(column="ts", format="dd/MM/yyyy HH:mm")})
    state = fill_from_logs(state_of(table, spoken.event_time), spoken, cache)
    assert build_table_plan(spoken, state, now_ms=2**42, clock_ms=2**42).action == "compact"
    wrong = policy.model_copy(update={"event_time": EventTime(column="ts", format="MM/dd/yyyy HH:mm")})
    planned = build_table_plan(wrong, fill_from_logs(state, wrong, cache), now_ms=MS, clock_ms=2**42)
    assert (planned.action, planned.reason_code) == ("refused", Code.UNREADABLE_TIMES)
    assert "is not a time of the format `MM/dd/yyyy HH:mm`" in planned.reason


@pytest.mark.parametrize(
    ("version", "instants", "write"),
    [
        (9, {SECOND}, ("base", "base end")),
        (6, {SECOND}, (SECOND, "end")),
        (6, {SECOND, "archived"}, None),
        (6, {"archived"}, None),
        (6, set(), None),
    ],
)
def test_the_write_of_a_log_file_is_not_told_by_its_name_before_version_8(version, instants, write):
    """That is of its slice: a lag would be counted from the compaction before."""
    state = replace(
        plan_cases.state_of("/t", {}),
        table_version=version,
        instants=(Instant(SECOND, "deltacommit", "completed", "end"),),
    )
    log_file = LogFile("x", 1, "base", "base end", None)
    assert log_times._write_of(state, log_file, LogTimes(1, instants=frozenset(instants))) == write
