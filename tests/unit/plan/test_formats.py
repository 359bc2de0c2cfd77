import pytest

from etc_policy.table.formats import (
    FIRST_MS,
    LAST_MS,
    count_of,
    format_bytes,
    format_duration,
    format_time,
    iso_time,
    keep_together,
    labelled,
)


@pytest.mark.parametrize(
    ("epoch_ms", "text"),
    [
        (None, "-"),
        (0, "1970-01-01 00:00:00 UTC"),
        (1_767_265_200_001, "2026-01-01 11:00:00.001 UTC"),
        (-1, "1969-12-31 23:59:59.999 UTC"),
    ],
)
def test_times(epoch_ms, text):
    assert format_time(epoch_ms) == text


@pytest.mark.parametrize("epoch_ms", [FIRST_MS - 1, LAST_MS + 1, 1_767_265_200_000_000, 2**63 - 1, -(2**63)])
def test_times_that_no_calendar_has(epoch_ms):
    """Microseconds in a column that was declared to be in milliseconds, say."""
    assert format_time(epoch_ms) == f"{epoch_ms} ms after 1970"
    assert iso_time(epoch_ms) == ("0001-01-01T00:00:00.000Z" if epoch_ms < 0 else "9999-12-31T23:59:59.999Z")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0ms"),
        (250, "250ms"),
        (1000, "1s"),
        (5_400_000, "1h30m"),
        (90_061_001, "1d1h"),
        (-1500, "-1s"),
    ],
)
def test_durations_in_the_two_largest_units(milliseconds, text):
    assert format_duration(milliseconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 * 1024**3, "5.0 GiB"),
        (3 * 1024**4, "3.0 TiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_sizes(size, text):
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("text", "under"),
    [
        ("one two three four", 16),
        ("- one two three four", 18),
        ("  one two three four", 18),
        ("pass  one two three", 22),
    ],
)
def test_folded_lines_go_on_under_their_text(text, under):
    first, *rest = labelled("label", text, 30).splitlines()
    assert first.startswith(f"  label         {text.split()[0] if text[0] != ' ' else '  one'}")
    assert rest
    assert {len(line) - len(line.lstrip()) for line in rest} == {under}


def test_what_is_kept_together_is_not_folded():
    text = f"pass  no key twice ({keep_together('RO rows 1,785')})"
    assert [line.strip() for line in labelled("", text, 45).splitlines()] == ["pass  no key twice", "(RO rows 1,785)"]


@pytest.mark.parametrize(("count", "text"), [(0, "0 log files"), (1, "1 log file"), (1200, "1,200 log files")])
def test_counts(count, text):
    assert count_of(count, "log file") == text


def test_nouns_that_end_with_y():
    assert [count_of(n, noun) for n in (1, 2) for noun in ("policy", "key")] == [
        "1 policy",
        "1 key",
        "2 policies",
        "2 keys",
    ]
