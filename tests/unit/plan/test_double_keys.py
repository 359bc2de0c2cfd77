"""Where two rows of one key can have arisen: deletes merged by a compaction, beside a write that it left behind."""

import pytest

from etc_policy.table.double_keys import Exposed, Merged, Written, find_exposed, left_behind, merged_by, still_exposed
from etc_policy.table.history import GroupWrite
from etc_policy.table.state import FileSlice, Instant, LogFile

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


def test_merged_by_a_state_are_the_completed_ones_whose_file_groups_are_known():
    instants = (
        Instant("1", "commit", "completed", "2", frozenset({"f"})),
        Instant("3", "commit", "completed", "4", None),
        Instant("5", "compaction", "inflight"),
        Instant("6", "deltacommit", "completed", "7"),
    )
    assert merged_by(instants) == (Merged("1", "2", frozenset({"f"})),)


class TestMended:
    """The next compaction of the group puts the keys back into the base file."""

    WRITES = (DELETE, write("300", "310"))
    NEXT = Merged("500", "700", frozenset({"f"}))

    def exposed(self, *beside, next_one=NEXT, writes=WRITES):
        known = [Written(one.requested, one.completed) for one in writes]
        return bool(find_exposed([C, next_one], writes, [*known, *(Written(*one) for one in beside)]))

    def test_where_nobody_wrote_in_between(self):
        assert not self.exposed(("200", "390"), ("701", "710"), ("701", None))

    @pytest.mark.parametrize("beside", [("410", "420"), ("390", "410"), ("600", "800"), ("350", None)])
    def test_not_where_somebody_may_have_looked_for_the_keys(self, beside):
        assert self.exposed(beside)

    def test_not_by_a_compaction_that_left_the_write_behind_too(self):
        assert self.exposed(next_one=self.NEXT._replace(requested="305"))

    def test_not_by_one_of_other_file_groups(self):
        assert self.exposed(next_one=self.NEXT._replace(file_ids=frozenset({"g"})))

    def test_not_before_it(self):
        assert find_exposed([C], self.WRITES)


class TestStillExposed:
    """Of the latest slices those with a write that their compaction left behind beside deletes."""

    WRITES = (DELETE, write("300", "310"))

    def found(self, *log_files, base="200", writes=WRITES, since="050"):
        left = left_behind([FileSlice("p", "f", base, "f.parquet", 1, log_files)], [C])
        return still_exposed(left, dict.fromkeys(left, since), writes)

    def test_a_log_file_that_was_begun_before_the_compaction_completed(self):
        assert self.found(LogFile("L", 1, "300", "310", 5)) == {("p", "f")}

    def test_not_once_it_is_compacted(self):
        assert self.found() == frozenset()
        assert self.found(LogFile("L", 1, "710", "720", 5), base="500") == frozenset()

    def test_not_one_that_was_begun_later(self):
        assert self.found(LogFile("L", 1, "410", "420", 5)) == frozenset()

    def test_not_where_nothing_was_deleted(self):
        without = (DELETE._replace(has_deletes=False), write("300", "310"))
        assert self.found(LogFile("L", 1, "300", "310", 5), writes=without) == frozenset()

    @pytest.mark.parametrize(
        ("deleted", "since", "exposed"), [("110", "110", True), ("110", "111", False), ("200", "050", False)]
    )
    def test_not_where_the_compaction_before_had_merged_the_deletes_or_they_were_left_behind_too(
        self, deleted, since, exposed
    ):
        writes = (write("100", deleted, deletes=True), write("300", "310"))
        assert bool(self.found(LogFile("L", 1, "300", "310", 5), writes=writes, since=since)) is exposed
