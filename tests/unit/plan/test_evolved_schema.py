"""By which schema a compaction would merge: writes are given by what they carry, one a minute from 10:00 on."""

import pytest

from etc_policy.table.state import HIDDEN, Instant, find_lacking
from tests.unit.plan.plan_cases import instant


def writes(*schemas):
    return tuple(
        Instant(instant(f"10:0{minute}:00"), "deltacommit", "completed", instant(f"10:0{minute}:05"), schema=schema)
        for minute, schema in enumerate(schemas)
    )


@pytest.mark.parametrize(
    ("schemas", "at", "lacking"),
    [
        ((), "10:01:30", None),
        (("", "", ""), "10:01:30", None),
        (("", "one", "one"), "10:01:30", None),
        (("", "one", "one"), "10:00:30", "10:01:00"),
        (("one", "two", "one"), "10:00:30", "10:01:00"),
        (("one", HIDDEN), "10:00:30", None),
        (("one", HIDDEN), "10:01:30", "10:01:00"),
        (("one", HIDDEN, "two"), "10:00:30", "10:02:00"),
        (("one", HIDDEN, "two"), "10:01:30", "10:02:00"),
        (("one", HIDDEN, "two"), "10:02:30", None),
        (("one", ""), "10:01:30", None),
    ],
)
def test_the_write_whose_schema_a_compaction_would_not_merge_by(schemas, at, lacking):
    done = writes(*schemas)
    for order in (done, tuple(reversed(done))):
        found = find_lacking(order, instant(at))
        assert (found and found.requested) == (lacking and instant(lacking))


def test_why():
    assert (
        find_lacking(writes("", "one"), instant("10:00:30")).why
        == "the table's schema was altered at 20260101100100000"
    )
    hidden = find_lacking(writes("one", HIDDEN))
    assert hidden.why == "the write at 20260101100100000 does not carry on the schema that ALTER TABLE made"


def test_what_has_not_completed_or_writes_nothing_does_not_count():
    (done,) = writes("one")
    others = (
        Instant(instant("10:01:00"), "deltacommit", "inflight", schema="two"),
        Instant(instant("10:02:00"), "clean", "completed", instant("10:02:01"), schema="two"),
    )
    assert find_lacking((done, *others), instant("10:00:30")) is None


def test_what_its_commit_says_that_it_merged_by_goes_before_what_it_should_have():
    done = writes("one", "one")
    assert find_lacking(done, instant("10:00:30"), own="two").requested == instant("10:01:00")
    assert find_lacking(done[:1], instant("10:00:30"), own=HIDDEN).requested == instant("10:00:00")
    assert find_lacking(writes("one", HIDDEN), instant("10:00:30"), own="one") is None
