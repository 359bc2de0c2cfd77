"""Clocks and zones of writers, of etc, of Java and of the table, across the days on which clocks change: the pure rules."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import assume, example, given
from hypothesis import strategies as st

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.clock import EngineTime, completes_too_early, engine_disagrees
from etc_policy.table.instants import instant_from_ms
from etc_policy.table.zone_evidence import ZoneSample, judge_zone
from tests.unit.plan.plan_cases import POLICY_OF_CASES, state_at

NAMES = ("UTC", "America/Los_Angeles", "Asia/Tokyo", "Asia/Kolkata", "Europe/Paris")
#: Two hours before clocks change in Los Angeles or Paris (spring, autumn), and a day on which none does.
CHANGES = [
    int(datetime(*day, tzinfo=UTC).timestamp() * 1000)
    for day in ((2026, 3, 8, 8), (2026, 3, 28, 23), (2026, 10, 24, 23), (2026, 11, 1, 7), (2026, 7, 1, 0))
]
HOUR_MS = 3_600_000

zones = st.sampled_from(NAMES)
moments = st.builds(lambda start, after: start + after, st.sampled_from(CHANGES), st.integers(0, 4 * HOUR_MS))


def offset_ms(name, epoch_ms):
    offset = (
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms)).astimezone(ZoneInfo(name)).utcoffset()
    )
    return offset // timedelta(milliseconds=1)


def written(zone, moment_ms, late_ms=0):
    return ZoneSample(instant_from_ms(moment_ms, ZoneInfo(zone)), moment_ms + late_ms)


@given(java=zones, table=zones, now=moments, took=st.integers(0, 2_000), skew=st.integers(-5_000, 5_000))
def test_the_engine_agrees_exactly_where_its_zone_shows_the_same_time(java, table, now, took, skew):
    engine = EngineTime(instant_from_ms(now + took // 2 + skew, ZoneInfo(java)), now, now + took)
    same = offset_ms(java, now + took // 2 + skew) == offset_ms(table, now + took // 2 + skew)
    agrees = engine_disagrees(engine, table, 200) is None
    if same and abs(skew) <= 200:
        assert agrees
    if agrees:
        assert -200 - took <= skew <= 200 + took or _near_a_change(table, now)


def _near_a_change(zone, now):
    """An instant in the hour that comes twice means two times."""
    return offset_ms(zone, now - 2 * HOUR_MS) != offset_ms(zone, now + 2 * HOUR_MS)


@given(
    zone=zones,
    other=zones,
    start=moments,
    gaps=st.lists(st.integers(1_000, 20 * 60_000), min_size=3, max_size=12),
    late=st.integers(0, 900),
)
def test_a_writer_in_another_zone_is_recognised(zone, other, start, gaps, late):
    times = [start + sum(gaps[:n]) for n in range(len(gaps) + 1)]
    assume(times[-1] - times[0] >= 4 * late)
    reading = judge_zone(zone, [written(other, time, late) for time in times])
    same = all(offset_ms(zone, time) == offset_ms(other, time) for time in times)
    assert reading.certainty == ("confirmed" if same else "contradicted")


@given(zone=zones, other=zones, start=moments, gaps=st.lists(st.integers(2_000, 600_000), min_size=3, max_size=8))
def test_writers_in_two_zones_are_recognised(zone, other, start, gaps):
    times = [start + sum(gaps[:n]) for n in range(len(gaps) + 1)]
    assume(all(offset_ms(zone, time) != offset_ms(other, time) for time in times))
    samples = [written((zone, other)[n % 2], time) for n, time in enumerate(times)]
    reading = judge_zone(zone, samples)
    assert reading.certainty == "contradicted"
    assert "back and forth between two zones" in reading.evidence


@given(
    zone=zones,
    other=zones,
    start=moments,
    gaps=st.lists(st.integers(1, 3_600_000), max_size=12),
    copied=st.integers(0, 10**9),
)
@example(zone="UTC", other="UTC", start=1_772_956_800_000, gaps=[860_001, 1], copied=19_998)
def test_a_copy_is_never_taken_for_another_zone(zone, other, start, gaps, copied):
    """All of its files were written within the blink of an eye."""
    times = [start + sum(gaps[:n]) for n in range(len(gaps) + 1)]
    samples = [ZoneSample(instant_from_ms(t, ZoneInfo(other)), times[-1] + copied + n) for n, t in enumerate(times)]
    assert judge_zone(zone, samples).certainty in ("unsure", "confirmed")


@given(
    zone=zones,
    start=moments,
    gaps=st.lists(st.integers(1, 60_000), min_size=1, max_size=8),
    grid=st.integers(0, 96),
    rest=st.integers(-20_000, 20_000),
    later=st.lists(st.integers(1_000, HOUR_MS), min_size=1, max_size=30),
)
@example(zone="UTC", start=1_772_956_800_000, gaps=[2], grid=1, rest=-20_000, later=[1_000] * 3)
def test_a_copy_that_is_written_to_is_never_taken_for_another_zone(zone, start, gaps, grid, rest, later):
    """Also where it was copied whole quarters of an hour after its instants."""
    times = [start + sum(gaps[:n]) for n in range(len(gaps) + 1)]
    copied = max(times[0] + grid * 15 * 60_000 + rest, times[-1])
    samples = [ZoneSample(instant_from_ms(t, ZoneInfo(zone)), copied + n) for n, t in enumerate(times)]
    after = [copied + 100 + sum(later[: n + 1]) for n in range(len(later))]
    samples += [written(zone, time) for time in after]
    assume(len({offset_ms(zone, time) for time in (*times, *after)}) == 1)
    assert judge_zone(zone, samples).certainty in ("unsure", "confirmed")


@given(
    zone=zones,
    start=moments,
    commits=st.lists(st.integers(300, HOUR_MS), min_size=1, max_size=8),
    wait=st.integers(0, HOUR_MS),
)
@example(
    zone="Europe/Paris",
    start=1_792_883_886_292,
    commits=[2314, 2_875_830, 134_326, 2_097_153, 1_657_905, 1_836_849, 13_515],
    wait=593_614,
)
def test_what_is_planned_lies_before_the_time_of_its_commit_or_is_not_committed(zone, start, commits, wait):
    """Also in the hour that comes twice: then the planner or the fence refuses."""
    times = [start + sum(commits[:n]) for n in range(len(commits) + 1)]
    now = times[-1] + wait
    state = state_at([instant_from_ms(time, ZoneInfo(zone)) for time in times], zone)
    plan = build_table_plan(POLICY_OF_CASES, state, now_ms=now, clock_ms=now)
    if plan.action != "compact":
        assert plan.action == "refused"
        return
    for later in (now, now + 60_000, now + HOUR_MS):
        completed = instant_from_ms(later, ZoneInfo(zone))
        refused = completes_too_early(plan.instant, EngineTime(completed, later, later), state.last_completed)
        assert refused is not None or plan.instant < completed
        clocks_went_back = offset_ms(zone, later) < offset_ms(zone, times[0])
        if refused is not None:
            assert clocks_went_back
