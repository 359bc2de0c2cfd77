"""A data file that is not as long as its commit recorded: nothing is planned over it, and nothing is known of its table."""

from dataclasses import replace

import pytest

from etc_policy.plan.builder import build_table_plan
from etc_policy.report.freshness import table_freshness
from etc_policy.table.state import not_as_recorded
from tests.unit.plan.states import NOW, POLICY, STATE, slice_of, with_slice

BASE_BYTES = slice_of(STATE, "f1").base_file_bytes
LOG = slice_of(STATE, "f1").log_files[0]


def with_log(**changes):
    logs = (LOG._replace(**changes), *slice_of(STATE, "f1").log_files[1:])
    return with_slice(STATE, "f1", log_files=logs)


def plan_of(state):
    return build_table_plan(POLICY, state, now_ms=NOW, clock_ms=NOW)


def test_a_table_as_its_commits_wrote_it():
    assert list(not_as_recorded(STATE)) == []
    assert plan_of(STATE).action == "compact"
    assert table_freshness(POLICY, STATE, NOW, NOW).status != "unknown"


@pytest.mark.parametrize(
    "state",
    [
        with_slice(STATE, "f1", base_file_bytes=BASE_BYTES // 2),
        with_slice(STATE, "f1", base_file_bytes=BASE_BYTES + 1),
        with_log(size_bytes=LOG.size_bytes - 1),
    ],
)
def test_a_file_of_another_length(state):
    (found,) = not_as_recorded(state)
    planned, fresh = plan_of(state), table_freshness(POLICY, state, NOW, NOW)
    assert (planned.action, planned.reason_code) == ("refused", "files_damaged")
    assert (fresh.status, fresh.complete_until_ms) == ("unknown", None)
    for reason in (planned.reason, fresh.reason):
        assert f"{found.name}: {found.size_bytes} bytes, recorded were {found.recorded_bytes}" in reason


@pytest.mark.parametrize(
    "state",
    [
        with_slice(STATE, "f1", base_file_recorded_bytes=None),
        with_slice(STATE, "f1", base_file_recorded_bytes=0),
        with_log(recorded_bytes=None),
        with_log(size_bytes=LOG.size_bytes + 1),
        replace(with_log(size_bytes=1), table_version=6),
    ],
)
def test_what_is_not_recorded_or_may_grow_stops_nothing(state):
    assert plan_of(state).reason_code != "files_damaged"
