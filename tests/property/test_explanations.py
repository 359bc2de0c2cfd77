"""Explanations over modelled histories: every slice told or counted, every move of C on a way without gaps."""

from __future__ import annotations

import re

import pytest

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.explainer import explain_plan
from etc_policy.plan.model import TablePlan, make_plan
from tests.property.histories import histories
from tests.property.history import LATENCY_MS, History

#: A command is copied in one piece, so it is never folded.
_COMMAND = re.compile("`[^`]+`[.,;:]?")


@pytest.fixture(scope="module")
def planned() -> list[tuple[History, TablePlan]]:
    found = []
    for data in histories(400, seed=5):
        history = History(data)
        now, clock = history.threshold + LATENCY_MS, history.clock - history.offset_ms
        found.append((history, build_table_plan(history.policy(), history.state(), now_ms=now, clock_ms=clock)))
    return found


def test_every_slice_is_in_or_out_once(planned: list[tuple[History, TablePlan]]) -> None:
    for history, table in planned:
        slices = history.state().slices
        told = len(table.operations) + sum(group.file_slices for group in table.left_out)
        assert told == len(slices)
        logs = sum(len(one.log_files_compacted) + len(one.log_files_remaining) for one in table.operations)
        assert logs + sum(group.log_files for group in table.left_out) == sum(len(one.log_files) for one in slices)


def test_c_goes_from_its_start_by_the_moves_to_where_it_stands(planned: list[tuple[History, TablePlan]]) -> None:
    moved = 0
    for _, table in planned:
        at = table.instant_start
        for move in table.moves:
            assert move.before == at
            assert move.after > move.before
            at = move.after
        moved += len(table.moves)
        assert table.action != "compact" or at == table.instant
    assert moved > 50


def test_due_log_files_are_counted(planned: list[tuple[History, TablePlan]]) -> None:
    for history, table in planned:
        slices = {(one.partition, one.file_id): one for one in history.state().slices}
        for one in table.operations:
            logs = slices[one.partition, one.file_id].log_files
            events = [log.min_event_time_ms for log in logs if log.name in one.log_files_compacted]
            known = [event for event in events if event is not None]
            assert one.unknown_log_files == events.count(None)
            assert one.due_log_files == events.count(None) + sum(event <= table.threshold_ms for event in known)
            assert one.oldest_event_ms == min(known, default=None)
            assert one.due_log_files > 0


@pytest.mark.parametrize("width", [80, 116])
def test_every_plan_can_be_said_in_words(planned: list[tuple[History, TablePlan]], width: int) -> None:
    for _, table in planned:
        text = explain_plan(make_plan("", (table,)), explain=True, width=width)
        assert "None" not in text
        wide = [line.strip() for line in text.splitlines() if len(line) > width]
        assert all(_COMMAND.fullmatch(line) for line in wide), wide
        assert ("why C" in text) == (table.instant_start is not None)
        assert text.count("moved  ") == len({(move.guard, index) for index, move in _runs(table)})


def _runs(table: TablePlan) -> list[tuple[int, object]]:
    """Each move with the number of the run of moves of one guard in which it stands."""
    found, number = [], -1
    for before, move in zip((None, *table.moves), table.moves, strict=False):
        number += before is None or before.guard != move.guard
        found.append((number, move))
    return found
