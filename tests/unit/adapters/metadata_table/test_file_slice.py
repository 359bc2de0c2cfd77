"""Which files of a metadata table are read: by the two timelines alone."""

import pytest

from etc_policy.adapters.hudi.layout import parse_instant_file
from etc_policy.adapters.hudi.timeline import Timeline
from etc_policy.adapters.metadata_table.file_records import UnsureListing
from etc_policy.adapters.metadata_table.file_slice import choose_slice
from etc_policy.adapters.storage.local import LocalStorage
from tests.unit.adapters.metadata_folder import FIRST
from tests.unit.adapters.table_folder import at

#: Made, then compacted at 10:02.
OWN = {FIRST: ("09:00:00", "deltacommit"), "10:02:00": ("10:02:30", "commit")}
FILES = [("", FIRST), ("log", FIRST), ("", "10:02:00")]


def instant(clock):
    return clock if clock == FIRST else at(clock)


def timeline(tmp_path, commits):
    """Delta commits by when they were requested; None for one that is pending."""
    files = {}
    for clock, ended in commits.items():
        completed, action = ended if isinstance(ended, tuple) else (ended, "deltacommit")
        name = f"{instant(clock)}_{at(completed)}.{action}" if completed else f"{instant(clock)}.{action}.inflight"
        files[instant(clock)] = (parse_instant_file(name, 2),)
    return Timeline(LocalStorage(tmp_path), "timeline", 2, files)


def chosen(tmp_path, table, own, files):
    """The instants of what is read, the base file's first."""
    names = [
        f".files-0000-0_{instant(c)}.log.1_0-1-0" if k else f"files-0000-0_0-1-0_{instant(c)}.hfile" for k, c in files
    ]
    found = choose_slice(timeline(tmp_path, table), timeline(tmp_path, own), names)
    return [one.instant for one in (found.base, *found.logs)]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"10:01:00": "10:01:59"}, []),
        ({"10:01:00": "10:02:00"}, ["10:01:00"]),
        ({"10:01:00": "10:03:00"}, ["10:01:00"]),  # under way while it was compacted
        ({"10:03:00": "10:05:00", "10:04:00": "10:04:30"}, ["10:04:00", "10:03:00"]),
        ({"10:03:00": None}, []),
    ],
)
def test_log_files_count_that_completed_after_the_base_file_in_that_order(tmp_path, own, expected):
    table = {clock: "10:06:00" if completed else None for clock, completed in own.items()}
    files = [*FILES, *(("log", clock) for clock in own)]
    assert chosen(tmp_path, table, {**OWN, **own}, files) == [at("10:02:00"), *map(at, expected)]


@pytest.mark.parametrize("own", [{}, {"10:05:00": (None, "deltacommit")}])
def test_a_base_file_counts_once_its_commit_is_complete(tmp_path, own):
    assert chosen(tmp_path, {}, {**OWN, **own}, [*FILES, ("", "10:05:00")]) == [at("10:02:00")]


#: A metadata table whose first commits are archived.
LATER = {"10:02:00": ("10:02:30", "commit"), "10:04:00": "10:04:30"}
LATER_FILES = [("", "10:02:00"), ("log", "10:04:00")]


@pytest.mark.parametrize(
    ("table", "files"),
    [
        ({"10:01:00": "10:01:30"}, []),
        ({"10:01:00": "10:01:30"}, [("log", "10:01:00")]),
        ({}, [("log", "10:00:00")]),  # archived on both
    ],
)
def test_what_is_archived_lies_below_the_base_file(tmp_path, table, files):
    table = {**table, "10:04:00": "10:04:40"}
    assert chosen(tmp_path, table, LATER, [*LATER_FILES, *files]) == [at("10:02:00"), at("10:04:00")]


@pytest.mark.parametrize(
    ("table", "files", "why"),
    [
        ({"10:01:00": "10:03:00"}, [], "no commit for the instant"),
        ({"10:01:00": None}, [("log", "10:01:00")], "not on the metadata table's timeline"),
        ({}, [("log", "10:03:00")], "not on the metadata table's timeline"),
    ],
)
def test_what_cannot_be_archived_is_in_doubt(tmp_path, table, files, why):
    with pytest.raises(UnsureListing, match=why):
        chosen(tmp_path, {**table, "10:04:00": "10:04:40"}, LATER, [*LATER_FILES, *files])
