"""How much of the last day writers had a write in flight: by a table of what was and what it makes."""

from zoneinfo import ZoneInfo

import pytest

from etc_policy.table.history import Commit
from etc_policy.table.writing import Writing, writing_of
from tests.unit.plan.plan_cases import instant
from tests.unit.plan.states import NOW

MINUTE = 60_000


def write(begun, ended, action="deltacommit"):
    return Commit(instant(begun), instant(ended), action, "UPSERT", ())


@pytest.mark.parametrize(
    ("commits", "in_flight", "found"),
    [
        ([], [], Writing(0, 0, 0, 0, 0)),
        ([write("11:50:00", "11:54:00")], [], Writing(1, 10 * MINUTE, 4 * MINUTE, 6 * MINUTE, 4 * MINUTE)),
        (
            [write("11:50:00", "11:54:00"), write("11:52:00", "11:56:00"), write("11:57:00", "11:58:00")],
            [],
            Writing(3, 10 * MINUTE, 7 * MINUTE, 2 * MINUTE, 4 * MINUTE),
        ),
        (
            [write("11:50:00", "11:54:00")],
            [instant("11:55:00")],
            Writing(2, 10 * MINUTE, 9 * MINUTE, MINUTE, 5 * MINUTE),
        ),
        ([write("11:50:00", "11:54:00", "commit")], [], Writing(0, 0, 0, 0, 0)),
    ],
)
def test_what_the_timeline_shows(commits, in_flight, found):
    assert writing_of(commits, in_flight, ZoneInfo("UTC"), NOW) == found


def test_only_the_last_day_counts():
    begun, day = "20260101", 86_400_000
    commits = [
        Commit(f"{begun}0{hour}0000000", f"{begun}0{hour}3000000", "deltacommit", "UPSERT", ()) for hour in (1, 8)
    ]
    now_ms = NOW + 14 * 3_600_000  # two o'clock the next night, UTC
    assert writing_of(commits, [], ZoneInfo("UTC"), now_ms).writes == 1
    assert writing_of(commits, [], ZoneInfo("UTC"), now_ms + day) == Writing(0, 0, 0, 0, 0)


def test_a_write_that_began_before_it_counts_within_it():
    found = writing_of([write("10:00:00", "11:00:00")], [], ZoneInfo("UTC"), NOW + 86_400_000 - 90 * MINUTE)
    assert (found.busy_ms, found.longest_write_ms) == (30 * MINUTE, 60 * MINUTE)


@pytest.mark.parametrize(
    ("pause_ms", "longest_ms"), [(MINUTE - 1, 4 * MINUTE), (MINUTE, 6 * MINUTE), (2 * MINUTE, 10 * MINUTE)]
)
def test_how_long_no_pause_was_long_enough(pause_ms, longest_ms):
    """The pauses are of one, two and one minute; that which has begun may last."""
    commits = [write("11:50:00", "11:51:00"), write("11:52:00", "11:56:00"), write("11:58:00", "11:59:00")]
    assert writing_of(commits, [], ZoneInfo("UTC"), NOW).longest_without_ms(pause_ms) == longest_ms


def test_duty_is_a_share_of_what_is_known():
    assert writing_of([write("11:50:00", "11:59:00")], [], ZoneInfo("UTC"), NOW).duty == 0.9
