"""Records of a metadata table laid over each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.adapters.metadata_table import file_records as reader
from etc_policy.adapters.metadata_table.file_records import FileRecords, UnsureListing
from etc_policy.adapters.metadata_table.hfile import read_hfile
from tests.unit.adapters.metadata_folder import file_records, hfile, record

NAMES = st.sampled_from(["f", "g", "h"])
CHANGES = st.lists(st.dictionaries(NAMES, st.none() | st.integers(0, 2**40), min_size=1), max_size=6)


def laid_over(*listings):
    records = FileRecords()
    for one in listings:
        records.add(read_hfile(hfile(file_records(one))))
    return records.partitions()


@given(CHANGES)
def test_each_file_is_as_it_was_since_it_was_deleted_last(changes):
    expected = {}
    for name in {name for one in changes for name in one}:
        sizes = [one[name] for one in changes if name in one]
        since = sizes[len(sizes) - sizes[::-1].index(None) :] if None in sizes else sizes
        if since:
            expected[name] = max(since)
    found = laid_over({"p": {}}, *({"p": one} for one in changes))
    assert found == {"p": expected}


def test_a_partition_that_was_deleted_is_not_there():
    records = FileRecords()
    records.add(read_hfile(hfile(file_records({"p": {"f": 1}, "q": {"g": 2}}))))
    gone = [(b"__all_partitions__", record({"q": None}, kind=1)), (b"q", record({"g": None}))]
    records.add(read_hfile(hfile(gone)))
    assert records.partitions() == {"p": {"f": 1}}


def test_a_partition_may_begin_with_a_dot():
    assert laid_over({".net": {"f": 1}, "q/.r": {"g": 2}}) == {".net": {"f": 1}, "q/.r": {"g": 2}}


def test_a_table_without_partitions_has_one_without_a_name():
    assert laid_over({"": {"f": 1}}) == {"": {"f": 1}}


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([(b"p", record({"f": 1}))], "no record names the partitions"),
        ([*file_records({"p": {}}), (b"q", record({"f": 1}))], "not one of the partitions"),
        ([(b"p", record({"f": 1}, kind=3))], "a record of type 3"),
        ([(b"__all_partitions__", record({"p": 0}))], "a record of type 2"),
        ([(b"p", record({"f": -1}))], "without a size"),
        (file_records({"../q": {"f": 1}}), "not a folder of the table"),
        (file_records({"/q": {}}), "not a folder of the table"),
        (file_records({"q/./r": {}}), "not a folder of the table"),
        (file_records({"q/.hoodie": {}}), "not a folder of the table"),
    ],
)
def test_what_is_not_understood_is_in_doubt(records, why):
    found = FileRecords()
    with pytest.raises(UnsureListing, match=why):
        found.add(read_hfile(hfile(records)))
        found.partitions()


def test_of_all_files_together_no_more_is_decoded_than_a_bound(monkeypatch):
    one = read_hfile(hfile([(b"p", record({"f": 1}))]))
    monkeypatch.setattr(reader, "MAX_DECODED_BYTES", 2 * sum(len(value) for _, value in one.records))
    found = FileRecords()
    found.add(one)
    found.add(one)
    with pytest.raises(UnsureListing, match="bytes are to be decoded"):
        found.add(one)
