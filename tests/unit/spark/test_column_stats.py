"""Smallest values in column statistics as event times; what Java hands over is given."""

from types import SimpleNamespace

import pytest

from etc_policy.policy.manifest import EventTime
from etc_policy.spark.column_stats import _times, event_time_ms

S = 1_767_200_000


class Pair:
    """Java's pair of a partition and a file name."""

    def getLeft(self):
        return "p"

    def getRight(self):
        return "L1"


def told(least, greatest, unit=None, column_type="long", nulls=0):
    """The event time of the one log file whose least and greatest value these are; None where nobody knows it."""
    ends = SimpleNamespace(getMinValue=lambda: least, getMaxValue=lambda: greatest, getNullCount=lambda: nulls)
    found = dict(_times({Pair(): ends}, EventTime(column="ts", unit=unit), column_type)).get(("p", "L1"))
    return None if found is None else found[0]


def test_a_row_without_an_event_time_makes_it_unknown():
    assert told(S, S, "s") == S * 1000
    assert told(S, S, "s", nulls=1) is None


def test_a_date_is_days():
    assert told(9_999, 10_000, None, "date") == 9_999 * 86_400_000
    assert event_time_ms(19_675, EventTime(column="d"), "date") == 19_675 * 86_400_000
    assert event_time_ms(19_675, EventTime(column="d"), "int") is None


@pytest.mark.parametrize(
    ("least", "greatest", "unit", "time"),
    [
        (S, S + 5, None, S * 1000),
        (S * 1000, S * 1000 + 5, None, S * 1000),
        (-S, -5, None, None),
        (S, S * 1000, "ms", S),
        (-7, 7, "s", -7000),
        (7999, 10**6, "us", 7),
    ],
)
def test_numbers(least, greatest, unit, time):
    assert told(least, greatest, unit) == time


@pytest.mark.parametrize("greatest", [1_577_836_800_000, 1_577_836_800_000_000, None])
def test_of_mixed_units_the_least_number_is_not_the_earliest_time(greatest):
    """The greatest number is of 2020, the least of 2025."""
    assert told(S, greatest) is None


@pytest.mark.parametrize(
    ("column_type", "time"),
    [
        ("timestamp-millis", 3_600_000_000),
        ("timestamp-micros", 3_600_000),
        ("timestamp-nanos", 3600),
        ("local-timestamp-nanos", 3600),
    ],
)
def test_columns_of_times_have_their_unit_whatever_the_digits_look_like(column_type, time):
    assert told(3_600_000_000, 3_600_000_001, None, column_type) == time
