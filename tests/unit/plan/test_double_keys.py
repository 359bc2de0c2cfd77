"""Where two rows of one key can have arisen: deletes merged by a compaction, beside a write that it left behind."""

import pytest

from etc_policy.plan.double_keys import Exposed, Merged, compactions_of, find_exposed
from etc_policy.plan.table_history import GroupWrite
from etc_policy.plan.table_state import Instant
from tests.unit.plan.plan_cases import state_of

C = Merged("200", "400", frozenset({"f"}))


def write(requested, completed, file_id="f", *, deletes=False):
    return GroupWrite(requested, completed, "p", file_id, None, False, 1, deletes)


DELETE = write("100", "110", deletes=True)


@pytest.mark.parametrize(
    ("writes", "compactions", "exposed"),
    [
        ([DELETE, write("300", "310")], [C], True),  # it began and ended while the compaction was pending
        ([DELETE, write("300", "450")], [C], True),  # it ended after the compaction
        ([DELETE, write("150", "210")], [C], True),  # it began before the compaction's instant
        ([DELETE, write("410", "420")], [C], False),  # it began after it: it looked into the new base file
        ([DELETE, write("150", "160")], [C], False),  # it was merged too
        ([DELETE], [C], False),
        ([write("100", "110"), write("300", "310")], [C], False),  # nothing was deleted
        ([DELETE, write("300", "310", "g")], [C], False),  # in another file group
        ([DELETE, write("300", "310")], [C._replace(file_ids=frozenset({"g"}))], False),
        ([DELETE, write("300", "310")], [Merged("120", "130", frozenset({"f"})), C], False),  # merged by the one before
        ([DELETE, write("300", "310", deletes=True)], [C], True),  # deletes may come with rows
    ],
)
def test_exposed(writes, compactions, exposed):
    found = find_exposed(compactions, writes)
    assert found == ((Exposed("p", "f", "200", writes[-1].requested),) if exposed else ())


def test_each_file_group_once_with_its_latest_compaction():
    again = Merged("500", "700", frozenset({"f"}))
    writes = [DELETE, write("300", "310"), write("450", "460", deletes=True), write("600", "610")]
    assert find_exposed([again, C], writes) == (Exposed("p", "f", "500", "600"),)
    assert find_exposed([again, C], writes)[0].file_group == "p/f"


def test_compactions_of_a_state_are_the_completed_ones_whose_file_groups_are_known():
    instants = (
        Instant("1", "commit", "completed", "2", frozenset({"f"})),
        Instant("3", "commit", "completed", "4", None),
        Instant("5", "compaction", "inflight"),
        Instant("6", "deltacommit", "completed", "7"),
    )
    from dataclasses import replace

    state = replace(state_of("/t", {"slices": {}}), instants=instants)
    assert compactions_of(state) == (Merged("1", "2", frozenset({"f"})),)
