import pytest

from etc_policy.policy.manifest import Freshness
from etc_policy.verify.freshness import completeness_lag_ms, effective_limits_ms, has_limits, judge_lag

TARGET = {"target_ms": 100}
ALL = {"target_ms": 100, "warn_after_ms": 150, "error_after_ms": 200}


@pytest.mark.parametrize(
    ("lag_ms", "limits", "expected"),
    [
        (None, ALL, "unknown"),
        (None, {}, "unknown"),
        (10**12, {}, "no_target"),
        (100, TARGET, "pass"),
        (101, TARGET, "error"),
        (100, ALL, "pass"),
        (101, ALL, "warn"),
        (200, ALL, "warn"),
        (201, ALL, "error"),
        (150, {"warn_after_ms": 150}, "pass"),
        (151, {"warn_after_ms": 150}, "warn"),
        (10**12, {"warn_after_ms": 150}, "warn"),
        (60, {"target_ms": 100, "warn_after_ms": 50}, "warn"),
        (101, {"target_ms": 100, "warn_after_ms": 50}, "error"),
        (201, {"error_after_ms": 200}, "error"),
        (1, {"error_after_ms": 0}, "error"),
    ],
)
def test_the_verdict_over_a_lag(lag_ms, limits, expected):
    assert judge_lag(lag_ms, Freshness(**limits)) == expected


def test_the_lag_is_never_negative_and_unknown_stays_unknown():
    assert completeness_lag_ms(1_000, 400) == 600
    assert completeness_lag_ms(1_000, 1_400) == 0
    assert completeness_lag_ms(1_000, None) is None


def test_a_limit_of_zero_is_a_limit():
    assert has_limits(Freshness(error_after_ms=0))
    assert not has_limits(Freshness())


@pytest.mark.parametrize(
    ("limits", "shown"),
    [
        ({}, {}),
        (TARGET, {"target": 100, "error after": 100}),
        ({"target_ms": 100, "warn_after_ms": 50}, {"target": 100, "warn after": 50, "error after": 100}),
        ({"target_ms": 100, "warn_after_ms": 300}, {"target": 100, "error after": 100}),
        (ALL, {"target": 100, "error after": 200}),
        ({"warn_after_ms": 150}, {"warn after": 150}),
        ({"warn_after_ms": 150, "error_after_ms": 200}, {"warn after": 150, "error after": 200}),
    ],
)
def test_the_limits_that_are_shown_are_those_that_a_lag_is_judged_by(limits, shown):
    freshness = Freshness(**limits)
    assert effective_limits_ms(freshness) == shown
    changes = {limit for limit in range(400) if judge_lag(limit, freshness) != judge_lag(limit + 1, freshness)}
    assert changes == set(shown.values())
