import re
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etc_policy.policy.quantities import (
    DURATION_PATTERN,
    MAX_BYTES,
    MAX_MS,
    SIZE_PATTERN,
    QuantityError,
    parse_duration_ms,
    parse_size_bytes,
)

STEADY = settings(suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("45s", timedelta(seconds=45)),
        ("30m", timedelta(minutes=30)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        (" 1h 30m ", timedelta(hours=1, minutes=30)),
        ("2d", timedelta(days=2)),
        ("1w", timedelta(weeks=1)),
        ("250ms", timedelta(milliseconds=250)),
        ("1s500ms", timedelta(seconds=1, milliseconds=500)),
        ("0s", timedelta(0)),
        ("PT30M", timedelta(minutes=30)),
        ("P1DT12H", timedelta(days=1, hours=12)),
        ("P2W", timedelta(weeks=2)),
        ("PT0.5S", timedelta(milliseconds=500)),
    ],
)
def test_durations(text, expected):
    assert parse_duration_ms(text) == expected / timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (30, "no unit of time"),
        (True, "got `True`"),
        (None, "got `None`"),
        (1.5, "got `1.5`"),
        ("30", "is not a duration"),
        ("", "empty"),
        ("1.5h", "is not a duration"),
        ("-5m", "is not a duration"),
        ("30min", "`min` in `30min`"),
        ("30M", "`M` in `30M`"),
        ("1m1h", "not largest first"),
        ("1h1h", "not largest first"),
        ("P", "ISO 8601"),
        ("PT", "ISO 8601"),
        ("P1DT", "ISO 8601"),
        ("P1M", "ISO 8601"),
        ("pt30m", "ISO 8601"),
        ("11000d", "ten years"),
        ("999999999999999w", "ten years"),
        ("9" * 100 + "s", "is not a duration"),
        ("٣m", "is not a duration"),
    ],
)
def test_what_is_no_duration(value, said):
    with pytest.raises(QuantityError) as error:
        parse_duration_ms(value)
    assert said in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(
    ("unit", "better"), [("minutes", "m"), ("Hours", "h"), ("M", "m"), ("secs", "s"), ("day", "d")]
)
def test_hint_names_the_right_unit_of_time(unit, better):
    with pytest.raises(QuantityError) as error:
        parse_duration_ms(f"3{unit}")
    assert error.value.hint == f"write `{better}` for it"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        ("134217728", 134_217_728),
        ("128 MiB", 134_217_728),
        ("128MiB", 134_217_728),
        ("1GB", 1_000_000_000),
        ("1.5 GiB", 1_610_612_736),
        ("0.1KB", 100),
        ("5 B", 5),
        (MAX_BYTES, MAX_BYTES),
    ],
)
def test_sizes(value, expected):
    assert parse_size_bytes(value) == expected


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "between 1 byte"),
        (-1, "is not a size"),
        (MAX_BYTES + 1, "between 1 byte"),
        (True, "got `True`"),
        (1.5, "got `1.5`"),
        ("", "is not a size"),
        ("0.1 B", "whole number"),
        ("128M", "`M` in `128M`"),
        ("128 mb", "`mb` in `128 mb`"),
        ("1 PB", "`PB` in `1 PB`"),
        ("MiB", "is not a size"),
        ("1 MiB 2 KiB", "is not a size"),
    ],
)
def test_what_is_no_size(value, said):
    with pytest.raises(QuantityError) as error:
        parse_size_bytes(value)
    assert said in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(("unit", "better"), [("mib", "`MiB`"), ("Mb", "`MB`"), ("k", "`KiB`"), ("Gi", "`GiB`")])
def test_hint_names_the_right_unit_of_size(unit, better):
    with pytest.raises(QuantityError) as error:
        parse_size_bytes(f"3 {unit}")
    assert better in error.value.hint


def _spelled(span: timedelta) -> tuple[str, str]:
    """A span in both spellings, by divmod on timedelta, which the parser does not use."""
    days, rest = divmod(span, timedelta(days=1))
    hours, rest = divmod(rest, timedelta(hours=1))
    minutes, rest = divmod(rest, timedelta(minutes=1))
    seconds, rest = divmod(rest, timedelta(seconds=1))
    milliseconds = rest // timedelta(milliseconds=1)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"), (milliseconds, "ms")]
    simple = "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
    return simple, f"P{days}DT{hours}H{minutes}M{seconds}.{milliseconds:03d}S"


@STEADY
@given(st.timedeltas(timedelta(0), timedelta(milliseconds=MAX_MS)))
def test_every_span_is_read_back_from_both_spellings(span):
    span -= timedelta(microseconds=span.microseconds % 1000)
    simple, iso = _spelled(span)
    assert timedelta(milliseconds=parse_duration_ms(simple)) == span
    assert timedelta(milliseconds=parse_duration_ms(iso)) == span


@STEADY
@given(st.integers(1, 9000), st.sampled_from("KMGT"), st.booleans(), st.sampled_from(["", " "]))
def test_every_size_is_its_number_times_its_unit(number, letter, binary, gap):
    shift = "_KMGT".index(letter)
    expected = number << (10 * shift) if binary else int(f"{number}{'000' * shift}")
    assert parse_size_bytes(f"{number}{gap}{letter}{'iB' if binary else 'B'}") == expected


@STEADY
@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_a_quantity_error(text):
    for parse, highest in ((parse_duration_ms, MAX_MS), (parse_size_bytes, MAX_BYTES)):
        try:
            assert 0 <= parse(text) <= highest
        except QuantityError as error:
            assert error.hint


def fault_of(parse, text):
    try:
        parse(text)
    except QuantityError as error:
        return error.message
    return None


_PARTS = st.tuples(
    st.sampled_from(["", "0", "7", "30", "1.5", "٣"]), st.sampled_from([*"wdhmsWDHMSPTKB ", "ms", "MiB", "hours"])
)


@given(st.lists(_PARTS, min_size=1, max_size=5).map(lambda parts: "".join(n + unit for n, unit in parts)))
@STEADY
def test_editors_accept_what_is_read(text):
    said = fault_of(parse_duration_ms, text)
    assert bool(re.search(DURATION_PATTERN, text)) == (said is None or "ten years" in said)
    said = fault_of(parse_size_bytes, text)
    assert bool(re.search(SIZE_PATTERN, text)) == (
        said is None or "a size is between" in said or "whole number" in said
    )
