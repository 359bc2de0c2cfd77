"""Which completion times cannot be true, and what the true ones are."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.table.completion_times import CompletedFile, find_wrong_times
from etc_policy.table.instants import add_ms, instant_to_ms
from tests.unit.plan.plan_cases import instant

UTC = ZoneInfo("UTC")
HOUR_MS = 3_600_000


def file(requested, completed, action="deltacommit", *, zone=UTC, shift_ms=0, after_ms=200):
    """A file that was written shortly after its completion; its name bears the time of a clock that many ms ahead."""
    done = instant(completed)
    return CompletedFile(instant(requested), add_ms(done, shift_ms), action, instant_to_ms(done, zone) + after_ms)


def find(*files, timezone="UTC"):
    return find_wrong_times("table", files, [time for one in files for time in one[:2]], timezone)


GOOD = (file("09:00:00", "09:00:05"), file("10:00:00", "10:00:05"), file("11:00:00", "11:00:05"))


def test_nothing_is_wrong_with_times_that_agree():
    assert find(*GOOD) == ()


@pytest.mark.parametrize(("shift_ms", "late", "said"), [(-8 * HOUR_MS, False, "8h"), (9 * HOUR_MS, True, "9h")])
def test_a_compaction_by_a_clock_of_another_zone(shift_ms, late, said):
    (wrong,) = find(*GOOD, file("10:00:06", "10:30:00", "commit", shift_ms=shift_ms))
    assert (wrong.late, wrong.right, wrong.unknown) == (late, instant("10:30:00"), "")
    true = f"and its true time is {instant('10:30:00')} ({said} off); its file may be renamed to that"
    assert wrong.truth == f"its writer was in another time zone, {true}"
    words = "completed in the future" if late else "completed before it was requested"
    assert words in wrong.what and "compaction" in wrong.what


def test_a_time_in_the_future_of_its_file_is_wrong_when_it_has_come_too():
    (wrong,) = find(*GOOD, file("10:00:06", "10:30:00", "commit", shift_ms=9 * HOUR_MS))
    assert wrong.is_future(instant("12:00:00")) and not wrong.is_future(add_ms(instant("23:00:00"), HOUR_MS))


def test_a_table_that_is_read_in_another_zone_has_no_wrong_times():
    """All of its times differ from those of the files: that is this machine's zone."""
    assert find(*GOOD, timezone="America/Los_Angeles") == ()
    assert find(*GOOD, timezone="Asia/Tokyo") == ()


def test_in_local_time():
    paris = ZoneInfo("Europe/Paris")
    good = [file(f"{h:02}:00:00", f"{h:02}:00:05", zone=paris) for h in (9, 10, 11)]
    (wrong,) = find(
        *good, file("10:00:06", "10:30:00", "commit", zone=paris, shift_ms=-5 * HOUR_MS), timezone="Europe/Paris"
    )
    assert wrong.right == instant("10:30:00")


def unknown(*files):
    (wrong,) = find(*files)
    assert wrong.right is None
    return wrong.unknown


def test_a_time_that_cannot_be_known():
    early = file("10:00:06", "10:30:00", "commit", shift_ms=-8 * HOUR_MS)
    assert "as in a copy" in unknown(early)
    assert "no zone explains" in unknown(*GOOD, early._replace(written_ms=early.written_ms + 400_000))
    assert "is the time of another instant" in unknown(*GOOD, file("10:30:00", "10:30:10"), early)
    both = CompletedFile(instant("19:00:06"), instant("19:30:00"), "commit", GOOD[1].written_ms)
    assert "its request is later than its file too" in unknown(
        *GOOD, both._replace(written_ms=both.written_ms + 1_795_000)
    )
    assert "not after its request either" in unknown(*GOOD, early._replace(requested=instant("10:31:00")))


def test_a_clock_that_was_set_back_wrote_what_it_showed():
    """Summer time ends between request and completion: the name is right as it is."""
    paris = ZoneInfo("Europe/Paris")
    good = [file(f"{h:02}:00:00", f"{h:02}:00:05", zone=paris) for h in (9, 10)]
    done = CompletedFile("20261025025900000", "20261025020100000", "deltacommit", 1_792_890_060_300)
    (wrong,) = find_wrong_times("table", [*good, done], [], "Europe/Paris")
    assert wrong.right is None and "clocks were set back" in wrong.unknown


def test_an_order_that_a_new_name_would_break():
    """Its file was written well after the time that would be its own, and another completed in between."""
    early = file("10:00:06", "10:30:00", "commit", shift_ms=-8 * HOUR_MS, after_ms=90_000)
    assert find(*GOOD, file("10:29:00", "10:29:20"), early)[0].right == instant("10:30:00")
    assert "contradicts the order" in unknown(*GOOD, file("10:29:00", "10:30:20"), early)


@given(quarters=st.integers(-100, 100).filter(bool), after_ms=st.integers(0, 100_000))
def test_the_true_time_is_found_for_any_zone(quarters, after_ms):
    shift = timedelta(minutes=15) * quarters // timedelta(milliseconds=1)
    one = file("10:00:06", "10:30:00", "commit", shift_ms=shift, after_ms=after_ms)
    found = find(*GOOD, one)
    if one.completed < one.requested or shift > 0:
        assert [wrong.right for wrong in found] == [instant("10:30:00")]
    else:
        assert found == ()
