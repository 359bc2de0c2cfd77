"""The boundaries of `strategy.at` against an oracle that walks a clock minute by minute."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.policy.times import parse_boundaries

YEARS = datetime(2000, 1, 1), datetime(2030, 1, 1)  # noqa: DTZ001 - UTC by `timezones`
MINUTE = timedelta(minutes=1)
#: With clocks that move by an hour and by half of one, at midnight too, and one that left out a day.
ZONES = ("UTC", "Europe/Paris", "America/Sao_Paulo", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia")


def ms(moment):
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def utc(text):
    return ms(datetime.fromisoformat(text).replace(tzinfo=UTC))


def walked(moment, times, zone):
    """The last minute at or before a moment at which the clock shows one of the times for the first time on that day."""
    minute = moment.replace(second=0, microsecond=0)
    shown = [(minute - n * MINUTE).astimezone(ZoneInfo(zone)).replace(tzinfo=None) for n in range(3 * 24 * 60)]
    for number, reading in enumerate(shown):
        if f"{reading:%H:%M}" in times and reading not in shown[number + 1 :]:
            return ms(minute - number * MINUTE)
    raise AssertionError(times)


@given(
    moment=st.datetimes(*YEARS, timezones=st.just(UTC)),
    times=st.lists(st.sampled_from(["00:00", "00:30", "06:00", "12:00", "23:59"]), min_size=1, max_size=3, unique=True),
    zone=st.sampled_from(["UTC", "Europe/Paris", "Australia/Lord_Howe"]),
)
def test_the_last_one_is_what_a_clock_has_shown(moment, times, zone):
    """In zones that move the clock at other times."""
    found = parse_boundaries(" ".join((*times, zone)))
    last = found.last_ms(ms(moment))
    assert last == walked(moment, times, zone)
    assert found.last_ms(found.next_ms(last) - 1) == last < ms(moment) + 1 <= found.next_ms(last)


@given(moment=st.datetimes(*YEARS, timezones=st.just(UTC)), zone=st.sampled_from(ZONES))
def test_the_next_is_the_one_after_the_last(moment, zone):
    found = parse_boundaries(f"00:00 02:30 13:00 {zone}")
    last, next_one = found.last_ms(ms(moment)), found.next_ms(ms(moment))
    assert last <= ms(moment) < next_one
    assert found.last_ms(next_one - 1) == last
    assert found.last_ms(next_one) == next_one


@pytest.mark.parametrize(
    ("at", "now", "boundary"),
    [
        ("00:00 Europe/Paris", "2026-03-29T12:00", "2026-03-28T23:00"),
        ("00:00 Europe/Paris", "2026-03-30T12:00", "2026-03-29T22:00"),
        ("02:30 Europe/Paris", "2026-03-29T01:29", "2026-03-28T01:30"),  # skipped: at 03:30 of that day
        ("02:30 Europe/Paris", "2026-03-29T01:30", "2026-03-29T01:30"),
        ("02:30 Europe/Paris", "2026-10-25T12:00", "2026-10-25T00:30"),  # twice: the first
        ("00:00 America/Sao_Paulo", "2018-11-04T12:00", "2018-11-04T03:00"),  # that day began at 01:00
        ("00:00 America/Havana", "2026-11-01T12:00", "2026-11-01T04:00"),  # midnight came twice
        ("00:00 Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00"),  # there was no 30 December
        ("00:00 12:00 UTC", "2026-01-01T12:00", "2026-01-01T12:00"),
    ],
)
def test_days_on_which_the_clock_moves(at, now, boundary):
    assert parse_boundaries(at).last_ms(utc(now)) == utc(boundary)


@pytest.mark.parametrize(
    ("at", "longest_hours"), [("00:00 UTC", 24), ("06:00 00:00 UTC", 18), ("00:00 08:00 16:00 UTC", 8)]
)
def test_the_longest_time_between_two(at, longest_hours):
    assert parse_boundaries(at).longest_ms == longest_hours * 3_600_000


@pytest.mark.parametrize("at", ["0001-01-01", "9999-12-31"])
def test_at_the_ends_of_the_calendar(at):
    moment = utc(at)
    assert (
        parse_boundaries("00:00 Europe/Paris").last_ms(moment)
        <= moment
        < parse_boundaries("00:00 Europe/Paris").next_ms(moment)
    )
