"""Times of partitions against an oracle that walks through time and writes down the name that a writer would give."""

import time
from datetime import UTC, datetime, timedelta
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etc_policy.policy.times import PartitionClock, Span, length_fault, pattern_fault, usual_pattern

DAY = 86_400_000
#: Zones of which the clock is moved by an hour and by half of one, at midnight too, and one that left out a day.
ZONES = ("UTC", "Europe/Paris", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata", "America/Havana")
PATTERNS = {
    "dt=%Y-%m-%d": timedelta(days=1),
    "%Y/%m/%d": timedelta(days=1),
    "%Y%m%d": timedelta(days=1),
    "year=%Y/month=%m/day=%d/hour=%H": timedelta(hours=1),
    "%Y-%j": timedelta(days=1),
    "at=%Y-%m-%d %H:%M": timedelta(minutes=1),
    "month=%Y-%m": timedelta(days=31),
}


def ms(moment):
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def name_of(moment, pattern, zone):
    return moment.astimezone(ZoneInfo(zone)).strftime(pattern)


def walked(moment, pattern, zone):
    """The first and the last minute round a moment that a writer gives the name of the moment."""
    name, minute, longest = name_of(moment, pattern, zone), timedelta(minutes=1), 2 * PATTERNS[pattern]
    step = timedelta(minutes=30) if PATTERNS[pattern] >= timedelta(days=1) else minute
    begin = moment.replace(minute=moment.minute - moment.minute % (step // minute))
    around = [begin + step * n for n in range(-(longest // step) - 240, longest // step + 240)]
    named = [one for one in around if name_of(one, pattern, zone) == name]
    return Span(ms(named[0]), ms(named[-1] + step))


@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(
    st.integers(ms(datetime(2015, 1, 1, tzinfo=UTC)) // 60_000, ms(datetime(2027, 1, 1, tzinfo=UTC)) // 60_000),
    st.sampled_from([one for one in PATTERNS if PATTERNS[one] <= timedelta(days=1)]),
    st.sampled_from(ZONES),
    st.booleans(),
)
def test_a_span_is_all_time_that_a_writer_gives_the_name(minute, pattern, zone, encoded):
    moment = datetime.fromtimestamp(minute * 60, UTC)
    name = name_of(moment, pattern, zone)
    assert PartitionClock(pattern, None, ZoneInfo(zone)).span(quote(name) if encoded else name) == walked(
        moment, pattern, zone
    )


@pytest.mark.parametrize(
    ("zone", "pattern", "partition", "hours"),
    [
        ("Europe/Paris", "dt=%Y-%m-%d", "dt=2026-03-29", 23),
        ("Europe/Paris", "dt=%Y-%m-%d", "dt=2026-10-25", 25),
        ("Europe/Paris", "dt=%Y-%m-%d", "dt=2026-11-25", 24),
        ("Europe/Paris", "%Y-%m-%d %H", "2026-10-25 02", 2),
        ("Europe/Paris", "%Y-%m-%d %H", "2026-03-29 02", 0),
        ("America/Sao_Paulo", "dt=%Y-%m-%d", "dt=2018-11-04", 23),  # its midnight is skipped
        ("Pacific/Apia", "dt=%Y-%m-%d", "dt=2011-12-30", 0),  # the day that Samoa left out
        ("Australia/Lord_Howe", "%Y-%m-%d %H", "2026-04-05 01", 1.5),
        ("UTC", "month=%Y-%m", "month=2028-02", 29 * 24),
        ("UTC", "y=%Y", "y=2026", 365 * 24),
    ],
)
def test_days_and_hours_are_as_long_as_the_clock_makes_them(zone, pattern, partition, hours):
    span = PartitionClock(pattern, None, ZoneInfo(zone)).span(partition)
    assert span is not None
    assert span.ends_ms - span.begins_ms == hours * 3_600_000


def test_a_length_goes_by_the_clock():
    week = PartitionClock("dt=%Y-%m-%d", 7 * DAY, ZoneInfo("Europe/Paris")).span("dt=2026-10-19")
    assert week is not None
    assert week.ends_ms - week.begins_ms == 7 * DAY + 3_600_000


@pytest.mark.parametrize(
    ("pattern", "partition"),
    [
        ("dt=%Y-%m-%d", "dt=2026-02-30"),
        ("dt=%Y-%m-%d", "dt=__HIVE_DEFAULT_PARTITION__"),
        ("dt=%Y-%m-%d", "dt=2026-11-25/hour=01"),
        ("dt=%Y-%m-%d", "DT=2026-11-25"),
        ("dt=%Y-%m-%d", "dt=0000-01-01"),
        ("dt=%Y-%m-%d", "dt=9999-12-31"),
        ("dt=%Y-%m-%d", "dt=2026-11-25\n"),
        ("dt=%Y-%m-%d", "dt=٢٠٢٦-11-25"),
        ("%Y%m%d", "2026112"),
        ("%Y-%j", "2026-366"),
        ("%Y-%j", "2026-0"),
        ("%Y-%m-%d %H", "2026-11-25 24"),
        ("at=%s", "at=-5"),
    ],
)
def test_what_is_no_time_is_none(pattern, partition):
    assert PartitionClock(pattern, None, ZoneInfo("UTC")).span(partition) is None


@pytest.mark.parametrize(
    ("pattern", "partition"),
    [
        ("year=%Y/month=%m/day=%d", "year=2026/month=1/day=5"),  # integer columns
        ("region=*/dt=%Y-%m-%d", "region=eu/dt=2026-01-05"),
        ("dt=%Y-%m-%d", "dt=2026%2D01%2D05"),
        ("%d.%m.%Y", "05.01.2026"),
        ("dt=%s", f"dt={ms(datetime(2026, 1, 5, tzinfo=UTC)) // 1000}"),
        ("100%%/%Y%m%d", "100%25/20260105"),
    ],
)
def test_other_forms_of_a_day(pattern, partition):
    found = PartitionClock(pattern, DAY, ZoneInfo("UTC")).span(partition)
    assert found == Span(ms(datetime(2026, 1, 5, tzinfo=UTC)), ms(datetime(2026, 1, 6, tzinfo=UTC)))


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("dt=%m-%d", "no year"),
        ("dt", "no year"),
        ("%Y/%d", "`%d` needs `%m`"),
        ("%Y-%m %H", "`%H` needs `%d`"),
        ("%Y-%Y", "twice"),
        ("%Y-%m-%q", "`%q` is not one of"),
        ("%Y %s", "by itself"),
        ("%Y-%m-%j", "without `%m`"),
        ("x*-*-*/%Y", "more than 2 `*` in one folder"),
    ],
)
def test_patterns_that_are_no_time(pattern, says):
    assert says in (pattern_fault(pattern) or "")


def test_a_long_name_is_soon_read():
    clock = PartitionClock("*a*/*a*/*a*/*a*%Y", DAY, ZoneInfo("UTC"))
    assert pattern_fault(clock.pattern) is None
    began = time.process_time()
    assert clock.span("/".join(["a" * 250] * 4)) is None
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("pattern", "length", "says"),
    [
        ("%Y-%m-%d", 3_600_000, "the length is less"),
        ("%Y-%m", 30 * DAY, "no fixed length"),
        ("%Y", 365 * DAY, "no fixed length"),
        ("%s", None, "does not say how long"),
    ],
)
def test_lengths_that_do_not_fit(pattern, length, says):
    assert pattern_fault(pattern) is None
    assert says in (length_fault(pattern, length) or "")


@pytest.mark.parametrize(
    ("pattern", "length"), [("%Y-%m-%d", 7 * DAY), ("%Y-%m-%d", None), ("%Y-%m", None), ("%s", DAY)]
)
def test_lengths_that_fit(pattern, length):
    assert pattern_fault(pattern) is None
    assert length_fault(pattern, length) is None


@pytest.mark.parametrize(
    ("partitions", "pattern"),
    [
        (["dt=2026-01-01", "dt=__HIVE_DEFAULT_PARTITION__", "dt=2026-01-02"], "dt=%Y-%m-%d"),
        (["2026/01/01", "2026/01/02"], "%Y/%m/%d"),
        (["2026/01/01/05"], "%Y/%m/%d/%H"),
        (["h=2026-01-01-05"], "h=%Y-%m-%d-%H"),
        (["region=eu/day=20260101", "region=us/day=20260102"], "region=*/day=%Y%m%d"),
        (["dt=2026-01-01/eu", "dt=2026-01-01/us"], "dt=%Y-%m-%d/*"),
        (["year=2026/month=01/day=02"], "year=%Y/month=%m/day=%d"),
        (["dt=2026-01-01/hour=05", "dt=2026-01-01/hour=17"], "dt=%Y-%m-%d/hour=%H"),
        (["year=2026/month=01/day=02/hr=05"], "year=%Y/month=%m/day=%d/hr=%H"),
        (["2026-01-01/region=05"], "%Y-%m-%d/region=*"),
        (["dt=2026%2F01%2F01"], "dt=%Y/%m/%d"),
        (["50%25-20260101"], "50%%-%Y%m%d"),
        (["by_month=2026-01", "by_month=2026-11"], "by_month=%Y-%m"),
        (["year=2026/month=1", "year=2026/month=11"], "year=%Y/month=%m"),
        (["year=2026/month=1/day=5", "year=2026/month=1/day=17"], "year=%Y/month=%m/day=%d"),
        (["2026/01/eu", "2026/02/us"], "%Y/%m/*"),
        (["m=202601", "m=202612"], "m=%Y%m"),
        (["shop=202601", "shop=310017", "shop=450012"], None),
        (["id=100012", "id=100011"], None),
        (["customer=17", "customer=20260101"], None),
        (["a", "dt=2026-01-01", "b"], None),
        ([""], None),
        ([], None),
    ],
)
def test_the_usual_pattern_of_paths(partitions, pattern):
    assert usual_pattern(partitions) == pattern
