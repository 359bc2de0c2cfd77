"""Whether plan, engine and this machine agree on the time: a compaction that completes before its own instant hides rows."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from etc_policy.policy.manifest import Policy
from etc_policy.table.formats import format_duration, format_time
from etc_policy.table.instants import CLOCK_TOLERANCE, CLOCK_TOLERANCE_MS, instant_from_ms, instant_to_ms, parse_instant

#: Hudi's default for `hoodie.time.generator.max_expected_clock_skew_ms`.
MAX_CLOCK_SKEW_MS = 200


@dataclass(frozen=True, slots=True)
class EngineTime:
    """What the engine would write as the time now, and this machine's clock right before and after it was asked."""

    instant: str
    asked_ms: int
    answered_ms: int


def engine_disagrees(engine: EngineTime, timezone: str, skew_ms: int) -> str | None:
    """Why the engine's time is not this machine's time in the zone `timezone`, within the skew; None where it is."""
    zone = ZoneInfo(timezone)
    read = (instant_to_ms(engine.instant, zone, latest=latest) for latest in (False, True))
    if any(engine.asked_ms - skew_ms <= one <= engine.answered_ms + skew_ms for one in read):
        return None
    now = instant_from_ms(engine.answered_ms, zone)
    return f"Hudi would write {engine.instant} as the time now, and in the table's zone ({timezone}) it is {now}"


def completes_too_early(requested: str, engine: EngineTime, last_completed: str | None) -> str | None:
    """Why a commit at `requested` may not complete now: not after its own instant, or behind the table's last one."""
    if requested >= engine.instant:
        return f"it would be completed at {engine.instant}, which is not after its own instant {requested}"
    if last_completed and parse_instant(last_completed) - parse_instant(engine.instant) > CLOCK_TOLERANCE:
        return f"it would be completed at {engine.instant}, and the table's last instant completed at {last_completed}"
    return None


def ahead_of_clock(planned_ms: int, clock_ms: int) -> str | None:
    """Why a plan that was made at `planned_ms` may not be carried out now: it comes from the future."""
    if planned_ms - clock_ms <= CLOCK_TOLERANCE_MS:
        return None
    ahead = format_duration(planned_ms - clock_ms)
    return f"the plan was made at {format_time(planned_ms)}, {ahead} ahead of this machine's clock ({format_time(clock_ms)})"


def clock_skew_ms(policy: Policy) -> int:
    """How far the clocks of a table's writers may be apart."""
    return int(policy.hudi_options.get("hoodie.time.generator.max_expected_clock_skew_ms", MAX_CLOCK_SKEW_MS))
