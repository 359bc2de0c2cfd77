"""Whether the lag of RO's completeness is within what a policy allows."""

from __future__ import annotations

from etc_policy.policy.manifest import Freshness
from etc_policy.policy.selection import FreshnessStatus
from etc_policy.table.formats import format_duration


def completeness_lag_ms(now_ms: int, complete_until_ms: int | None) -> int | None:
    """How far `complete_until` lies behind now; never negative, None when it is not known."""
    return None if complete_until_ms is None else max(0, now_ms - complete_until_ms)


def lag_text(lag_ms: int) -> str:
    """`RO lags 3h behind now`."""
    return f"RO lags {format_duration(lag_ms)} behind now"


def has_limits(freshness: Freshness) -> bool:
    """Whether the policy limits the lag at all."""
    return any(limit is not None for limit in (freshness.target_ms, freshness.warn_after_ms, freshness.error_after_ms))


def effective_limits_ms(freshness: Freshness) -> dict[str, int]:
    """What a lag is judged against, by the words of a report; `warn after` only where it comes before all others."""
    target_ms, warn_ms, error_ms = freshness.target_ms, freshness.warn_after_ms, error_limit_ms(freshness)
    others = [limit for limit in (target_ms, error_ms) if limit is not None]
    warns = warn_ms is not None and all(warn_ms < limit for limit in others)
    named = {"target": target_ms, "warn after": warn_ms if warns else None, "error after": error_ms}
    return {name: limit for name, limit in named.items() if limit is not None}


def error_limit_ms(freshness: Freshness) -> int | None:
    """The lag beyond which a table is an error: that of `error_after`, else the target."""
    return freshness.target_ms if freshness.error_after_ms is None else freshness.error_after_ms


def judge_lag(lag_ms: int | None, freshness: Freshness) -> FreshnessStatus:
    """The verdict over a lag; a lag equal to a limit is within it, and one without any limit is not judged.

    Beyond `error_after` is an error, beyond `warn_after` or the target a warning. A target without
    `error_after` is itself the limit beyond which it is an error.
    """
    if lag_ms is None:
        return "unknown"
    if not has_limits(freshness):
        return "no_target"
    error_after_ms = error_limit_ms(freshness)
    if error_after_ms is not None and lag_ms > error_after_ms:
        return "error"
    warn_limits_ms = [limit for limit in (freshness.warn_after_ms, freshness.target_ms) if limit is not None]
    return "warn" if any(lag_ms > limit for limit in warn_limits_ms) else "pass"
