"""What a table's instants and the clocks forbid: times that cannot be true, or of another zone, and a clock behind the table."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from etc_policy.plan.refusals import Facts, Refusal
from etc_policy.table.instants import CLOCK_TOLERANCE, instant_to_ms, parse_instant
from etc_policy.table.state import TableState


def clock_behind(facts: Facts) -> Refusal | None:
    """Instants ahead of our clock come from another time zone or clock: C and every lag would be wrong by as much."""
    state, now = facts.state, facts.now
    last = state.last_completed
    if last is None or parse_instant(last) - parse_instant(now) <= CLOCK_TOLERANCE:
        return None
    reason = (
        f"the table's last instant completed at {last}, ahead of this machine's clock ({now} in zone {state.timezone})"
    )
    if state.zone is not None and state.zone.certainty == "declared":
        hint = "compare this machine's clock with those of the writers: the table declares UTC, so `TZ` changes nothing"
    else:
        hint = "if its writers use another time zone, run etc with the environment variable `TZ` set to theirs"
    return Refusal("clock_behind", reason, hint)


def wrong_time(facts: Facts) -> Refusal | None:
    """A completion time that cannot be true: before its request, so that RO may not see it, or still to come."""
    wrong = next((one for one in facts.state.wrong_times if not one.late or one.is_future(facts.now)), None)
    if wrong is None:
        return None
    reason = f"{wrong.what}; its writer was in another time zone"
    if wrong.right is None:
        hint = f"`etc repair {facts.policy.name}` says what can be done"
        return Refusal("wrong_time", f"{reason}, and its true time cannot be known: {wrong.unknown}", hint)
    return Refusal("wrong_time", reason, f"`etc repair {facts.policy.name}` shows how it is set right, and asks")


def writers_elsewhere(state: TableState) -> Refusal | None:
    """Instants in local time that the files' times show to be of another zone, or of two: C and all lags would be wrong."""
    reading = state.zone
    if reading is None or reading.certainty != "contradicted":
        return None
    reason = (
        f"the table's instants are in its writers' local time, read here in {reading.timezone}, but {reading.evidence}"
    )
    hint = "run every writer of the table, and etc, with one and the same `TZ`; once they do, some 20 new commits clear this"
    return Refusal("writers_zone", reason, hint)


def zone_changed(facts: Facts) -> Refusal | None:
    """The plan's instants mean other times now: another `TZ`, or another machine."""
    seen, here = facts.seen, facts.state.timezone
    if seen is None or seen.timezone is None:
        return None
    planned = seen.timezone
    if all(_same_time(one, planned, here) for one in (facts.instant, seen.last_completed) if one):
        return None
    reason = f"the plan was made with the table's instants in zone {planned}, and here they are read in {here}"
    return Refusal("zone_changed", reason, "plan and apply with the same `TZ`: that of the table's writers")


def _same_time(instant: str, one: str, other: str) -> bool:
    return instant_to_ms(instant, ZoneInfo(one)) == instant_to_ms(instant, ZoneInfo(other))
