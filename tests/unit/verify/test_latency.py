from dataclasses import replace

import pytest

from etc_policy.plan.table_history import GroupWrite, TableHistory
from etc_policy.verify.latency import judge_latency, quantile, round_up_ms
from tests.unit.plan.plan_cases import epoch_ms, instant

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
DONE = instant("11:00:00")
NOW = epoch_ms("12:00:00")


def history(*latencies_ms, completed=DONE, **changes):
    """Writes that all completed at 11:00, each with its oldest event so long before."""
    done = epoch_ms("11:00:00")
    times = [None if latency is None else done - latency for latency in latencies_ms]
    writes = tuple(GroupWrite(completed, completed, "p", "f", time, time is not None, 1) for time in times)
    return replace(TableHistory("UTC", writes), **changes)


def test_the_quantiles_are_of_the_latest_row_of_each_write():
    verdict = judge_latency(history(*(n * MINUTE for n in range(100, 0, -1)), None), 2 * HOUR, NOW)
    observed = verdict.observed
    assert (observed.writes, observed.unknown_writes) == (100, 1)
    assert (observed.p50_ms, observed.p99_ms, observed.max_ms) == (50 * MINUTE, 99 * MINUTE, 100 * MINUTE)
    assert observed.since_ms == epoch_ms("11:00:00")
    assert (verdict.status, verdict.late_share) == ("fits", 0)
    assert verdict.suggested_ms == 2 * HOUR  # 99 minutes, rounded up to half hours


@pytest.mark.parametrize(
    ("declared_ms", "status", "late_share"),
    [
        (99 * MINUTE, "fits", 0.01),
        (99 * MINUTE - 1, "too_short", 0.02),
        (200 * MINUTE, "fits", 0.0),
        (200 * MINUTE + 1, "generous", 0.0),
        (0, "too_short", 1.0),
    ],
)
def test_the_verdict_turns_at_one_write_in_a_hundred_and_at_twice_the_largest(declared_ms, status, late_share):
    verdict = judge_latency(history(*(n * MINUTE for n in range(1, 101))), declared_ms, NOW)
    assert (verdict.status, verdict.late_share) == (status, late_share)


def test_a_handful_of_writes_says_nothing():
    assert judge_latency(history(*[MINUTE] * 20), HOUR, NOW).status == "generous"
    few = judge_latency(history(*[MINUTE] * 19, None, None), HOUR, NOW)
    assert (few.status, few.observed, few.suggested_ms) == ("unknown", None, None)
    assert few.reason.startswith("19 of 21 writes")


def test_what_has_not_completed_at_the_moment_asked_for_does_not_count():
    """A replay: `--at` lies years before the commits, and what they say of lateness is not true of it."""
    assert judge_latency(history(*[MINUTE] * 50), HOUR, epoch_ms("11:00:00")).status == "generous"
    assert judge_latency(history(*[MINUTE] * 50), HOUR, epoch_ms("11:00:00") - 1).status == "unknown"


def test_instants_are_read_in_the_tables_zone():
    """11:00 in Tokyo is 02:00 UTC."""
    tokyo = history(*[0] * 50, timezone="Asia/Tokyo")
    assert judge_latency(tokyo, HOUR, epoch_ms("02:00:00")).observed.since_ms == epoch_ms("02:00:00")


def test_events_ahead_of_their_commit_count_as_no_latency():
    assert judge_latency(history(*[-HOUR] * 50), HOUR, NOW).observed.max_ms == 0


def test_nearest_rank():
    assert [quantile([1, 2, 3, 4], share) for share in (0.0, 0.25, 0.26, 0.5, 0.99, 1.0)] == [1, 1, 2, 2, 4, 4]
    assert quantile([7], 0.5) == 7


@pytest.mark.parametrize(
    ("duration_ms", "rounded_ms"),
    [
        (0, 10 * SECOND), (1, 10 * SECOND), (10 * SECOND, 10 * SECOND), (61 * SECOND, 2 * MINUTE),
        (11 * MINUTE, 15 * MINUTE), (61 * MINUTE, 90 * MINUTE), (7 * HOUR + 1, 8 * HOUR), (2 * DAY + 1, 3 * DAY),
    ],
)  # fmt: skip
def test_suggestions_read_well(duration_ms, rounded_ms):
    assert round_up_ms(duration_ms) == rounded_ms
