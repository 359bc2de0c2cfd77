"""The oracle itself, held to what was run on stock Hudi 1.2.0 (facts: prefix-not-pick, delete-rule, both-orders)."""

from __future__ import annotations

from tests.property.model import Log, Row, Table
from tests.property.writers import Change, Style, Write, Writers

PLAIN = Style(tracked=True, rolls_over=False, small_file=True, insert_to_log=False)


def put(key: int, event: int, value: int) -> Change:
    return Change(key, event, value, deletes=False)


def delete(key: int, event: int | None) -> Change:
    return Change(key, event, 0, deletes=True)


def table_of(*changes: Change, index: str | None = None, by_commit: bool = False) -> tuple[Table, Writers]:
    table = Table(by_commit=by_commit)
    writers = Writers(table, index)
    commit(writers, 10, *changes)
    return table, writers


def commit(writers: Writers, requested: int, *changes: Change, completed: int | None = None) -> Write:
    write = writers.begin(requested, list(changes), PLAIN)
    writers.complete(write, completed or requested + 5)
    return write


def values(rows: dict[str, dict[int, Row]]) -> list[tuple[int, int]]:
    return sorted((key, row.value) for group in rows.values() for key, row in group.items())


def compact(table: Table, instant: int, *writes: Write) -> None:
    publish(table, instant, *(log for write in writes for log in write.logs))
    table.execute(instant, 1_000)


def publish(table: Table, instant: int, *logs: Log) -> None:
    (group,) = (one for one in table.groups.values() if any(log in one.logs for log in logs))
    base = table.newest_base(group)
    table.publish(instant, {group.file_id: (base.name if base else None, tuple(log.name for log in logs))})


def test_a_cut_between_two_completions_changes_no_reader_and_brings_ro_up_to_it() -> None:
    table, writers = table_of(put(0, 1, 1), put(2, 1, 1))
    first = commit(writers, 20, put(0, 10, 2))
    commit(writers, 30, put(2, 20, 3))
    before = [table.as_of(at) for at in (10, 20, 26, 30, 99)]
    publish(table, 26, *first.logs)
    assert [table.as_of(at) for at in (10, 20, 26, 30, 99)] == before
    table.execute(26, 99)
    assert [table.as_of(at) for at in (10, 20, 26, 30, 99)] == before
    assert values(table.ro()) == [(0, 2), (2, 1)]
    assert values(table.rt()) == [(0, 2), (2, 3)]


def test_picking_a_log_file_behind_an_older_one_brings_a_deleted_row_back() -> None:
    table, writers = table_of(put(0, 100, 1), put(2, 1, 1))
    first, second = commit(writers, 20, put(0, 900, 2)), commit(writers, 30, delete(0, 910), put(2, 100, 3))
    assert values(table.rt()) == [(2, 3)]
    first.logs[0].completed = 40  # as if carried into the new slice, which RFC-74 does with files that are not picked
    compact(table, 36, second)
    assert values(table.rt()) == [(0, 2), (2, 3)]


def test_an_index_over_base_files_makes_a_key_twice_when_its_delete_is_compacted_away() -> None:
    table, writers = table_of(put(0, 1, 1), put(2, 1, 1))
    gone = commit(writers, 20, delete(0, None))
    commit(writers, 30, put(0, 50, 2))
    compact(table, 26, gone)
    assert table.keys_twice() == set()
    commit(writers, 2_000, put(0, 60, 3))
    assert table.keys_twice() == {0}
    table, writers = table_of(put(0, 1, 1), put(2, 1, 1), index="record_index")
    gone = commit(writers, 20, delete(0, None))
    commit(writers, 30, put(0, 50, 2))
    compact(table, 26, gone)
    commit(writers, 2_000, put(0, 60, 3))
    assert table.keys_twice() == set()


def test_late_data_behind_a_compacted_tombstone_comes_back() -> None:
    table, writers = table_of(put(0, 800, 1), put(2, 800, 1))
    tombstone = commit(writers, 20, delete(0, 910))
    commit(writers, 30, put(0, 900, 2))
    assert values(table.rt()) == [(2, 1)]
    compact(table, 26, tombstone)
    assert values(table.rt()) == [(0, 2), (2, 1)]


def test_the_snapshot_after_a_delete_by_key_depends_on_when_compaction_runs() -> None:
    table, writers = table_of(put(0, 800, 1), put(2, 800, 1))
    gone = commit(writers, 20, delete(0, None))
    commit(writers, 30, put(0, 700, 2))
    assert values(table.rt()) == [(0, 1), (2, 1)], "stock Hudi shows the old row"
    compact(table, 26, gone)
    assert values(table.rt()) == [(0, 2), (2, 1)]


def test_a_commit_in_flight_at_the_cut_is_lost_to_time_travel_and_meanwhile_to_incremental() -> None:
    table, writers = table_of(put(0, 1, 1), put(2, 1, 1))
    one, other = writers.begin(20, [put(0, 10, 2)], PLAIN), writers.begin(29, [put(2, 20, 3)], PLAIN)
    writers.complete(one, 30)
    writers.complete(other, 40)
    incremental = frozenset({29})
    assert values(table.as_of(29)) == [(0, 2), (2, 3)]
    assert values(table.incremental(incremental)) == [(2, 3)]
    publish(table, 31, *one.logs)
    assert values(table.rt()) == [(0, 2), (2, 3)]
    assert values(table.as_of(29)) == [(0, 2), (2, 1)]
    assert values(table.incremental(incremental)) == []
    table.execute(31, 99)
    assert values(table.as_of(29)) == [(0, 2), (2, 1)]
    assert values(table.incremental(incremental)) == [(2, 3)]


def test_incremental_reads_the_files_of_its_commits_alone_so_late_data_shows() -> None:
    table, writers = table_of(put(0, 1, 1), put(2, 1, 1))
    newer = commit(writers, 20, put(0, 50, 2))
    commit(writers, 30, put(0, 20, 3), put(2, 60, 4))
    assert values(table.incremental(frozenset({30}))) == [(0, 3), (2, 4)]
    compact(table, 26, newer)
    assert values(table.incremental(frozenset({30}))) == [(0, 3), (2, 4)]
    assert values(table.incremental(frozenset({20}))) == [(0, 2)]


def test_with_overlapping_writers_a_cut_by_completion_alone_changes_the_snapshot() -> None:
    table, writers = table_of(put(0, 1, 1), put(2, 1, 1), by_commit=True)
    early, late = writers.begin(20, [put(0, 10, 2)], PLAIN), writers.begin(29, [put(0, 5, 3)], PLAIN)
    writers.complete(late, 30)
    writers.complete(early, 40)
    assert values(table.rt()) == [(0, 3), (2, 1)]
    compact(table, 31, late)
    assert values(table.rt()) == [(0, 2), (2, 1)]


def test_a_log_only_group_has_no_read_optimized_rows_until_it_is_compacted() -> None:
    table = Table(by_commit=False)
    writers = Writers(table, "bucket")
    write = writers.begin(20, [put(0, 1, 1)], PLAIN._replace(insert_to_log=True))
    writers.complete(write, 25)
    assert (values(table.ro()), values(table.rt())) == ([], [(0, 1)])
    compact(table, 26, write)
    assert (values(table.ro()), values(table.rt())) == ([(0, 1)], [(0, 1)])
