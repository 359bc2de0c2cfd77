"""Corners of the guards that no whole table shows; tests/golden/plans has the rest."""

from dataclasses import replace

import pytest

from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.plan.cut import (
    Cut,
    Guard,
    Raised,
    after_archive,
    archive_limits,
    archive_passed,
    at_a_free_time,
    find_cut,
)
from etc_policy.policy.hudi_options import ARCHIVE_LIMITS, WHOLE_NUMBER_OPTIONS
from etc_policy.table.state import Instant
from tests.unit.plan.plan_cases import instant


def cut_of(*instants, **changes):
    return Cut(slices=(), instants=instants, metadata_instants=frozenset(), **changes)


def write(requested, completed=None, action="deltacommit"):
    state = "completed" if completed else "inflight"
    return Instant(instant(requested), action, state, instant(completed) if completed else None)


def test_an_empty_timeline_bounds_nothing():
    assert find_cut(cut_of(), instant("10:00:00")) == (instant("10:00:00"), ())


def test_a_pending_write_is_the_archives_cursor_too():
    assert after_archive(cut_of(write("10:00:00")), instant("09:00:00")).instant == instant("10:00:00.001")


def test_without_any_write_the_first_instant_of_any_kind_is():
    clean = write("10:00:00", "10:00:05", action="clean")
    assert after_archive(cut_of(clean), instant("09:00:00")).instant == instant("10:00:00.001")
    assert after_archive(cut_of(clean, write("11:00:00")), instant("10:30:00")).instant == instant("11:00:00.001")


@pytest.mark.parametrize(("commits", "floor"), [(25, 0), (26, 6), (30, 10)])
def test_archiving_by_hudis_defaults(commits, floor):
    """It starts above 30 commits and leaves 20; from 26 on C keeps clear of what it will take."""
    told = [write(f"10:{minute:02}:00", f"10:{minute:02}:05") for minute in range(commits)]
    raised = after_archive(cut_of(*told), instant("10:00:00"))
    assert raised.instant == instant(f"10:{floor:02}:00.001")


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ({}, (20, 30)),
        ({"hoodie.keep.min.commits": "5"}, (5, 30)),
        ({"hoodie.keep.min.commits": "5", "hoodie.keep.max.commits": "9"}, (5, 9)),
    ],
)
def test_the_limits_of_archiving(options, limits):
    assert archive_limits(options) == limits


def savepoint(requested, completed):
    return replace(write(requested, completed), has_savepoint=True)


def test_commits_that_archiving_left_behind_for_their_savepoints_bound_nothing():
    left, active = savepoint("08:00:00", "08:00:05"), write("10:00:00", "10:00:05")
    assert after_archive(cut_of(left, active), instant("09:00:00")).instant == instant("10:00:00.001")
    assert after_archive(cut_of(left), instant("09:00:00")) is None
    assert archive_passed((left, active), instant("09:00:00"))
    assert not archive_passed((left,), instant("09:00:00"))


@pytest.mark.parametrize(
    ("commits", "savepoints", "raised_to"),
    [(5, 0, "10:00:00.001"), (6, 0, "10:04:00.001"), (6, 1, "10:05:00.001"), (6, 4, "10:05:00.001")],
)
def test_archiving_counts_commits_with_savepoints_and_takes_the_others(commits, savepoints, raised_to):
    """Above ten commits two are left, whichever these are: six are too near, and four of them go."""
    told = [write(f"10:0{minute}:00", f"10:0{minute}:05") for minute in range(commits)]
    told[:savepoints] = [replace(one, has_savepoint=True) for one in told[:savepoints]]
    raised = after_archive(cut_of(*told, keep_commits=(2, 10)), instant("10:00:00"))
    assert raised.instant == instant(raised_to)


def test_the_defaults_are_those_that_policies_are_checked_against():
    assert tuple(WHOLE_NUMBER_OPTIONS[key] for key in ARCHIVE_LIMITS) == archive_limits({})
    assert WHOLE_NUMBER_OPTIONS["hoodie.time.generator.max_expected_clock_skew_ms"] == MAX_CLOCK_SKEW_MS


def test_what_archiving_has_passed():
    compaction = Instant(instant("10:00:00"), "compaction", "requested")
    earlier, later = write("09:00:00", "09:00:05"), write("11:00:00", "11:00:05")
    clean = write("09:00:00", "09:00:05", action="clean")
    assert not archive_passed((earlier, compaction, later), compaction.requested)
    assert archive_passed((clean, compaction, later), compaction.requested)
    assert archive_passed((compaction, write("10:00:00.001")), compaction.requested)
    assert not archive_passed((compaction,), compaction.requested)


def test_a_time_is_taken_by_requests_and_completions():
    taken = cut_of(write("10:00:00", "10:00:00.001"), write("10:00:00.002"))
    assert at_a_free_time(taken, instant("10:00:00")).instant == instant("10:00:00.003")
    assert at_a_free_time(taken, instant("10:00:00.003")) is None


def test_guards_are_asked_again_until_none_moves():
    """Each may move past a time that another did not like before; every move is told."""

    def no_even_second(_, found):
        odd = int(found[12:14]) % 2
        return None if odd else Raised(instant(f"10:00:{int(found[12:14]) + 1:02}"), "even")

    def not_below_ten(_, found):
        return None if int(found[12:14]) >= 10 else Raised(instant("10:00:10"), "small")

    found, moves = find_cut(
        cut_of(), instant("10:00:01"), [Guard("", "", no_even_second), Guard("", "", not_below_ten)]
    )
    assert found == instant("10:00:11")
    assert [(move.guard, move.before, move.after, move.why) for move in moves] == [
        ("not_below_ten", instant("10:00:01"), instant("10:00:10"), "small"),
        ("no_even_second", instant("10:00:10"), instant("10:00:11"), "even"),
    ]
