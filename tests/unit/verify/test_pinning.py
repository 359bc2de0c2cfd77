"""As of which instant both views may be read."""

from dataclasses import replace

import pytest

from etc_policy.table.instants import add_ms
from etc_policy.table.state import CompactionRecord, Instant
from etc_policy.verify.compared_rows import pin_of
from tests.unit.plan.plan_cases import instant
from tests.unit.plan.states import STATE, C

COMPACTED = instant("12:00:00")
RECORD = CompactionRecord(C, COMPACTED, 0, "orders_ro", "plan")


def state(*instants):
    """The table after our compaction at C, and these instants besides: (requested, action, completed or None)."""
    found = [
        Instant(requested, action, "completed" if completed else "inflight", completed, frozenset())
        for requested, action, completed in ((C, "commit", COMPACTED), *instants)
    ]
    return replace(STATE, instants=(*STATE.instants, *found), last_compaction=RECORD)


def test_the_last_completion():
    assert pin_of(state()) == COMPACTED
    assert pin_of(state((instant("12:00:01"), "deltacommit", None))) == COMPACTED
    assert pin_of(state((instant("11:50:00"), "clean", None))) == COMPACTED
    assert pin_of(replace(STATE, instants=())) is None


@pytest.mark.parametrize("action", ["commit", "deltacommit", "replacecommit", "clustering"])
def test_right_before_the_first_writer_in_flight(action):
    began = instant("11:50:00")
    assert pin_of(state((began, action, None))) == add_ms(began, -1)
    assert pin_of(state((began, action, None), (instant("11:55:00"), action, None))) == add_ms(began, -1)


@pytest.mark.parametrize(
    "other",
    [
        (instant("11:40:00"), "deltacommit", instant("11:50:00.001")),
        (instant("11:51:00"), "deltacommit", instant("11:52:00")),
        (instant("11:40:00"), "commit", instant("11:51:00")),
        (instant("11:51:00"), "clean", instant("11:52:00")),
    ],
)
def test_right_before_a_writer_in_flight_whatever_else_completed_beside_it(other):
    began = instant("11:50:00")
    assert pin_of(state((began, "deltacommit", None), other)) == add_ms(began, -1)


def test_nothing_where_the_writer_began_before_our_compaction_s_instant():
    began = add_ms(C, -5)
    assert pin_of(state((began, "deltacommit", None))) is None
    whole = replace(RECORD, instant=instant("11:55:00"))
    later = state((instant("11:50:00"), "deltacommit", None), (whole.instant, "commit", instant("12:00:01")))
    assert pin_of(replace(later, last_compaction=whole)) is None


def test_nothing_where_the_table_has_no_compaction_of_ours():
    before = replace(state((instant("11:20:01"), "deltacommit", None)), last_compaction=None)
    assert pin_of(before) is None
