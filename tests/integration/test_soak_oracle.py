"""What the oracle of the soak must notice; `python -m tests.integration.soak` runs the soak itself."""

from __future__ import annotations

import json
import random

import pytest

from tests.integration.kills import Table
from tests.integration.soak_batches import Batch, Batches, Row
from tests.integration.soak_checks import LISTED, Expected, Seen, history_problems, in_ms, published_problems
from tests.integration.soak_timeline import Compaction, Timeline

BATCHES = (
    Batch("w0-0", (Row(1, "first", 100), Row(2, "first", 100), Row(3, "first", 100), Row(4, "first", 100))),
    Batch("w0-1", (Row(1, "newer", 300), Row(2, "too late", 50), Row(3, "", 200, deleted=True))),
    Batch("w0-2", deleted_keys=(4,)),
    Batch("w0-3", (Row(4, "again", 400),)),
    Batch("w0-4", (Row(1, "never there", 500),)),
)
RIGHT = {1: [Seen("newer", 300, "f")], 2: [Seen("first", 100, "f")], 4: [Seen("again", 400, "f")]}


@pytest.fixture
def timeline(tmp_path):
    """Four batches that completed at 1 to 4, one that did not, and a compaction that had seen the first two."""
    found = Timeline(Table(tmp_path))
    found.batches = {f"w0-{number}": str(number + 1) for number in range(4)}
    found.compactions = [Compaction("25", "26", 300, "2")]
    return found


@pytest.fixture
def journal(tmp_path):
    """Acknowledged are the first, second and fourth; the writer was killed while it wrote the third and the fifth."""
    lines = []
    for batch in BATCHES:
        lines.append({"what": "attempt", "batch": batch.__dict__})
        if batch.name not in ("w0-2", "w0-4"):
            lines.append({"what": "acknowledged", "name": batch.name})
    path = tmp_path / "writer.journal"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"what": "att')
    return path


def test_what_is_right_has_no_problem(journal, timeline):
    expected = Expected.of([journal], timeline)
    assert list(expected.problems({"RT": RIGHT, "RO": RIGHT})) == []
    assert list(published_problems(expected, RIGHT, timeline, 0)) == []
    history = {"compactions": [{"instant": "25", "threshold_ms": 300}]}
    assert list(history_problems(history, timeline)) == []


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({2: []}, "key 2 is missing"),
        ({1: [Seen("first", 100, "f")]}, "key 1 is"),
        ({3: [Seen("first", 100, "f")]}, "key 3 was deleted"),
        ({4: [Seen("again", 400, "f"), Seen("first", 100, "g")]}, "key 4 has 2 rows"),
        ({1: [Seen("never there", 500, "f")]}, "key 1 is"),
    ],
)
def test_wrong_rows_are_noticed(journal, timeline, rows, words):
    view = {key: seen for key, seen in {**RIGHT, **rows}.items() if seen}
    problems = list(Expected.of([journal], timeline).problems({"RT": view, "RO": RIGHT}))
    assert len(problems) == 1
    assert words in problems[0]


def test_a_base_file_of_a_write_that_has_not_completed_excuses_a_listing_of_its_partition_alone(
    journal, timeline, tmp_path
):
    """Keys 1 and 3 of one writer lie in partition `b0`, 2 in `a0` and 4 in `shared`."""
    timeline_folder, partition = tmp_path / ".hoodie" / "timeline", tmp_path / "b0"
    timeline_folder.mkdir(parents=True)
    partition.mkdir()
    (timeline_folder / "20.deltacommit.requested").touch()
    (partition / "f_0-1-2_20.parquet").touch()

    def alarms(view: str, rows: dict) -> int:
        seen = {key: found for key, found in {**RIGHT, **rows}.items() if found}
        return len(list(Expected.of([journal], timeline).problems({view: seen})))

    old, deleted = {1: [Seen("first", 100, "f")]}, {3: [Seen("first", 100, "f")]}
    assert [alarms(LISTED, old), alarms(LISTED, deleted), alarms(LISTED, {2: []}), alarms("RT", old)] == [0, 0, 1, 1]
    (timeline_folder / "20_21.deltacommit").touch()
    assert [alarms(LISTED, old), alarms(LISTED, deleted)] == [1, 1]


def test_a_lost_batch_is_noticed(journal, timeline):
    del timeline.batches["w0-3"]
    assert "batch w0-3 was acknowledged and has no commit" in list(Expected.of([journal], timeline).problems({}))


def test_ro_is_held_against_what_each_plan_had_seen(journal, timeline):
    expected = Expected.of([journal], timeline)
    ro = {1: [Seen("newer", 300, "f")], 2: [Seen("first", 100, "f")], 3: [Seen("first", 100, "f")]}
    assert ["key 3 was deleted" in problem for problem in published_problems(expected, ro, timeline, 0)] == [True]
    del ro[1], ro[3]
    assert ["key 1 is []" in problem for problem in published_problems(expected, ro, timeline, 0)] == [True]
    assert expected.ro_problems({**RIGHT, 4: []}, 399, "until 399", latency_ms=None) == []
    assert [
        "key 4 is []" in problem
        for problem in expected.ro_problems({**RIGHT, 4: []}, 400, "until 400", latency_ms=None)
    ] == [True]


def test_a_delete_by_key_is_due_at_once_unless_its_file_slice_may_have_been_left_out(tmp_path):
    """Then it happened no earlier than its batch completed, less the data latency."""
    batches = [Batch("w0-0", (Row(1, "first", 100),)), Batch("w0-1", deleted_keys=(1,))]
    said = [{"what": "attempt", "batch": batch.__dict__} for batch in batches]
    said += [{"what": "acknowledged", "name": batch.name} for batch in batches]
    (tmp_path / "writer.journal").write_text("".join(f"{json.dumps(line)}\n" for line in said))
    timeline = Timeline(Table(tmp_path))
    timeline.batches = {"w0-0": "20261123124409000", "w0-1": "20261123124416316"}
    expected, ro = Expected.of([tmp_path / "writer.journal"], timeline), {1: [Seen("first", 100, "f")]}
    bound_ms = in_ms("20261123124416316") - 6_000

    def problems(threshold_ms: int, *, leaves_out: bool) -> int:
        timeline.compactions = [Compaction("25", "26", threshold_ms, "3", leaves_out=leaves_out)]
        return len(list(published_problems(expected, ro, timeline, 6_000)))

    assert problems(bound_ms - 1, leaves_out=True) == 0
    assert problems(bound_ms, leaves_out=True) == 1
    assert problems(bound_ms - 1, leaves_out=False) == 1


def test_a_history_that_differs_is_noticed(timeline):
    assert "differ" in next(iter(history_problems({"compactions": []}, timeline)))


def test_a_key_that_was_deleted_comes_back_later_than_it_ever_was():
    clock = iter(range(1_000_000, 10_000_000, 700))
    batches = Batches(0, 1, random.Random(1), lambda: next(clock))
    newest, back = {}, 0
    for _ in range(300):
        deleted, batch = set(batches.contents.deleted), batches.draw()
        for row in batch.rows:
            back += row.key in deleted
            assert row.key not in deleted or row.event_ms > newest[row.key]
            newest[row.key] = max(row.event_ms, newest.get(row.key, 0))
        batches.contents.commit(batch)
    assert back > 100
