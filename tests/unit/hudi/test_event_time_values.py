"""Values of a column as epoch milliseconds; the integration tests ask Spark about the same ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.hudi.event_time_values import format_ms, kind_of, number_ms, text_ms, time_reader
from etc_policy.policy.manifest import EventTime

MS = 1_711_846_800_123  # 2024-03-31 01:00:00.123 UTC
DAY_MS = 1_711_843_200_000


@pytest.mark.parametrize(
    ("number", "unit", "expected"),
    [
        *((1_711_846_800, None, MS - 123), (MS, None, MS), (MS * 1000 + 999, None, MS)),
        *((7, None, None), (20240331, None, None), (-MS, None, None), (0, None, None), (10**13, None, None)),
        *((7, "s", 7000), (-7, "s", -7000), (7, "ms", 7), (7999, "us", 7), (-1, "us", -1)),
        *((2**63 - 1, "s", None), (-(2**62), "s", None), (2**63 - 1, "ms", 2**63 - 1)),
    ],
)
def test_numbers(number, unit, expected):
    assert number_ms(number, unit) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((str(MS), MS), (" 1711846800 ", MS - 123), ("12", None), ("", None), ("x", None), ("١٧١١٨٤٦٨٠٠", None)),
        *(("2024-03-31", DAY_MS), ("2024-03-31T01:00", MS - 123), ("2024-03-31 01:00:00.123999", MS)),
        *(("2024-03-31T03:00:00.123+02:00", MS), ("2024-03-31T03:00:00.123+0200", MS), ("2024-03-31 03:00 +02", MS - 123)),
        *(("2024-03-30T15:30:00.123-0930", MS), ("1969-12-31T23:59:59.9999Z", -1), ("2024-03-31T01:00:00.1", MS - 23)),
        *(("2024-02-30", None), ("0000-01-01", None), ("2024-03-31T24:00", None), ("2024-03-31 01:00:60", None)),
        *(("2024-03-31T01:00+18:01", None), ("2024-03-31T01:00+02:60", None), ("2024-03-31\n", None), ("2024", None)),
    ],
)  # fmt: skip
def test_texts_without_a_pattern(text, expected):
    assert text_ms(text, None) == expected


def test_digits_in_a_text_have_the_unit():
    assert text_ms("7000", "us") == 7
    assert text_ms("9" * 18, "s") is None
    assert text_ms("9" * 19, "ms") is None


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("31.03.2024 01:00:00", "dd.MM.yyyy HH:mm:ss", MS - 123),
        ("20240331010000", "yyyyMMddHHmmss", MS - 123),
        ("31032024010000", "ddMMyyyyHHmmss", MS - 123),
        ("20240331010000123", "yyyyMMddHHmmssSSS", None),
        ("2024-03-31 010000123", "yyyy-MM-dd HHmmssSSS", MS),
        ("20240331 0100001", "yyyyMMdd HHmmssSSS", MS - 23),
        ("20240331T010000.123999", "yyyyMMdd'T'HHmmss.SSSSSS", MS),
        ("Z2024-03-31", "'Z'yyyy-MM-dd", DAY_MS),
        ("2024-03-31T03:00:00.123+02:00", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", MS),
        ("2024-03-31T01:00:00.123Z", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", MS),
        ("2024-03-31T01:00:00.123+19:00", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", None),
        ("2024", "yyyy", 1_704_067_200_000),
        ("2024-03-31", "dd.MM.yyyy", None),
        ("31.3.2024", "dd.MM.yyyy", None),
        ("31.02.2024", "dd.MM.yyyy", None),
        (" 2024", "yyyy", None),
        ("2024x", "yyyy", None),
        *(("2024-03-31", pattern, None) for pattern in ("yyyy-M-d", "yyyy-MM-dd[ HH]", "EEE", "")),
        *(("2024-03", "yyyy-dd", None), ("03-31", "MM-dd", None), ("2024.123", "yyyy.SSS", None), ("Z", "XXX", None)),
        *(("2024-2024", pattern, None) for pattern in ("yyyy-yyyy", "yyyy-'", "yyyy-''yy", "yyyy-DDD")),
    ],
)
def test_texts_with_a_pattern(text, pattern, expected):
    assert format_ms(text, pattern) == expected


def test_a_pattern_with_its_own_signs_is_no_regular_expression():
    assert format_ms("2024.", "yyyy.") == 1_704_067_200_000
    assert format_ms("2024x", "yyyy.") is None
    assert format_ms("2024(", "yyyy(") == 1_704_067_200_000


@pytest.mark.parametrize(
    ("type_name", "raw", "expected"),
    [
        *(("date", -1, -86_400_000), ("timestamp-millis", MS, MS), ("local-timestamp-millis", -1, -1)),
        *(("timestamp-micros", -1, -1), ("local-timestamp-micros", MS * 1000 + 999, MS), ("timestamp-nanos", 10**6, 1)),
        *(("int", 1_711_846_800, MS - 123), ("long", 7, None), ("string", "2024-03-31", DAY_MS)),
    ],
)
def test_what_records_store_is_read_by_its_type(type_name, raw, expected):
    assert time_reader(kind_of(type_name), EventTime(column="ts"))(raw) == expected


@pytest.mark.parametrize("type_name", ["double", "boolean", "time-micros", "decimal", "uuid", "bytes", "?"])
def test_other_types_hold_no_times(type_name):
    assert kind_of(type_name) is None


@given(st.text(), st.one_of(st.none(), st.text(min_size=1), st.text("yMdHmsSXT'-: .", min_size=1)))
def test_no_text_and_no_pattern_raises(text, pattern):
    read = time_reader("text", EventTime(column="ts", format=pattern))
    assert isinstance(read(text), int | None)
