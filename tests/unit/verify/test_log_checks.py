"""Which log files are proven by their bytes, which are not, and what becomes of the verdict."""

from dataclasses import replace

import pytest

from etc_policy.table.log_witness import path_of
from etc_policy.table.state import LogWitness
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.log_checks import check_logs, is_proven_by_logs
from tests.past import history_of
from tests.unit.plan.plan_cases import epoch_ms
from tests.unit.plan.states import NOW, POLICY, STATE, with_slice

CLAIM = Claim(epoch_ms("10:00:00"), "20260101235959000")


def evidence(state=STATE, claim=CLAIM, **changes):
    """Every log file holds what its commit recorded, but for the changes to the witness of the first."""
    found = [
        LogWitness(path_of(s, f), f.size_bytes, f.min_event_time_ms, f.min_event_time_ms) for s, f in state.log_files
    ]
    witnesses = (found[0]._replace(**changes), *found[1:])
    return Evidence(POLICY, replace(state, witnesses=witnesses), history_of(), claim, NOW)


RECORDED = next(STATE.log_files)[1].min_event_time_ms


@pytest.mark.parametrize(
    ("changes", "status", "proven"),
    [
        ({}, "pass", True),
        ({"found_ms": RECORDED - 1}, "fail", True),
        ({"found_ms": RECORDED + 1}, "pass", True),  # of log files that rolled over one bears the time of all
        ({"found_ms": None}, "pass", True),  # no event is in it at all
        ({"found_ms": None, "why": "HFile blocks"}, "warn", False),
        ({"recorded_ms": None, "found_ms": None, "why": "HFile blocks"}, "warn", False),  # by column statistics alone
        ({"has_nulls": True}, "warn", True),
        ({"path": "p/another"}, "warn", False),
    ],
)
def test_what_a_witness_says(changes, status, proven):
    found = evidence(**changes)
    assert (check_logs(found).status, is_proven_by_logs(found)) == (status, proven)


def test_what_rows_prove_needs_no_witness():
    found = check_logs(evidence(found_ms=None, why="HFile blocks"), rows_compared=True)
    assert (found.status, found.observed["log_files_unproven"]) == ("pass", 1)
    assert check_logs(evidence(found_ms=RECORDED - 1), rows_compared=True).status == "fail"


def test_a_time_that_nobody_knows_is_no_writers_word_unless_it_was_left_out():
    """It counts as at or below the threshold; left out it is only bounded by the promise on latency."""
    first = STATE.slices[0]
    unknown = tuple(f._replace(min_event_time_ms=None) for f in first.log_files)
    state = with_slice(STATE, first.file_id, log_files=unknown)
    why = {"found_ms": None, "why": "deletes carry no event time"}
    assert is_proven_by_logs(evidence(state, **why))
    assert not is_proven_by_logs(evidence(state, **why, damaged=True))
    assert not is_proven_by_logs(evidence(state, replace(CLAIM, leaves_out=True), **why))


def test_without_witnesses_nothing_is_proven_by_logs():
    assert not is_proven_by_logs(Evidence(POLICY, STATE, history_of(), CLAIM, NOW))
