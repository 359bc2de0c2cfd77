"""Keys that a table has twice on purpose (`writer.keys: repeated`)."""

import pytest

from etc_policy.plan.builder import build_table_plan
from etc_policy.policy.manifest import Writer
from tests.unit.plan.plan_cases import epoch_ms, state_of
from tests.unit.plan.states import POLICY


@pytest.mark.parametrize(("keys", "merged"), [("unique", 1), ("repeated", 2)])
def test_no_log_file_stays_behind_that_updates_copies_by_their_place_in_the_old_base_file(keys, merged):
    """See facts: copies-by-position."""
    logs = {"L1": "09:00:00 > 09:00:05, event 08:30:00", "L2": "11:58:00 > 11:58:05, event 11:57:00"}
    state = state_of("/t", {"slices": {"p/f1": {"base": "08:00:00", "logs": logs}}})
    policy = POLICY.model_copy(update={"writer": Writer(keys=keys), "data_latency_ms": 3_600_000})
    noon_ms = epoch_ms("12:00:00")
    (operation,) = build_table_plan(policy, state, now_ms=noon_ms, clock_ms=noon_ms).operations
    assert len(operation.log_files_compacted) == merged
