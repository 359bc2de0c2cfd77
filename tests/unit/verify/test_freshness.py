import pytest

from etc_policy.compile.manifest import Freshness
from etc_policy.verify.freshness import completeness_lag_ms, has_limits, judge_lag

TARGET = {"target_ms": 100}
ALL = {"target_ms": 100, "warn_after_ms": 150, "error_after_ms": 200}


@pytest.mark.parametrize(
    ("lag_ms", "limits", "expected"),
    [
        (None, ALL, "unknown"),
        (None, {}, "unknown"),
        (10**12, {}, "pass"),
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
