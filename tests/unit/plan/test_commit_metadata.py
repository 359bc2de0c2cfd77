import json

import pytest

from etc_policy import __version__
from etc_policy.plan.commit_metadata import compaction_record, extra_metadata
from tests.unit.plan.states import PLAN

PLANNED = PLAN.model_copy(update={"policy_values": {"data_latency": "1h"}})


def test_a_commit_joins_git_policy_plan_and_threshold():
    extra = extra_metadata(PLANNED, "plan-1", "abc")
    assert extra == {
        "etc.event_time.threshold": str(PLAN.threshold_ms),
        "etc.policy": PLAN.policy,
        "etc.policy_fingerprint": PLAN.policy_fingerprint,
        "etc.policy_values": '{"data_latency":"1h"}',
        "etc.plan_id": "plan-1",
        "etc.seen_until": PLAN.seen.last_completed,
        "etc.granularity": PLAN.granularity,
        "etc.version": __version__,
        "etc.watermark_before": str(PLAN.watermark_before_ms),
        "etc.git_sha": "abc",
    }
    record = compaction_record("1", "2", extra)
    assert (record.policy_values, record.plan_id) == ({"data_latency": "1h"}, "plan-1")
    assert record.watermark_before_ms == PLAN.watermark_before_ms


def test_files_that_were_changed_since_the_commit_are_told():
    extra = extra_metadata(PLANNED, "plan-1", "abc-dirty")
    assert (extra["etc.git_sha"], extra["etc.git_dirty"]) == ("abc", "true")
    assert "etc.git_sha" not in extra_metadata(PLANNED, "plan-1", None)


def test_values_that_nobody_can_read_are_none():
    for text in ("", "{", "[1]", json.dumps(3), "[" * 100_000):
        extra = {**extra_metadata(PLANNED, "plan-1", None), "etc.policy_values": text}
        assert compaction_record("1", "2", extra).policy_values == {}


@pytest.mark.parametrize("threshold", ["", "-", "--5", "²", "٣", "5-", " 5", "1" * 16, "9" * 5000, "-99999999999999"])
def test_a_threshold_that_is_no_time_is_not_ours(threshold):
    assert compaction_record("1", "2", {"etc.event_time.threshold": threshold}) is None


@pytest.mark.parametrize("threshold", ["-5", "0", "1767261600000"])
def test_thresholds(threshold):
    assert compaction_record("1", "2", {"etc.event_time.threshold": threshold}).threshold_ms == int(threshold)


def test_values_longer_than_any_policy_has_are_not_read():
    """As a mapping each takes more than ten times as much memory, and there is one for each compaction."""
    text = json.dumps({f"k{number}": "x" for number in range(6_000)})
    assert len(text) > 1 << 16
    extra = {**extra_metadata(PLANNED, "plan-1", None), "etc.policy_values": text}
    assert compaction_record("1", "2", extra).policy_values == {}
