"""Event times that a reading of log files found are those of the history too."""

from dataclasses import replace

import pytest

from etc_policy.table.history import Commit, with_times_of
from etc_policy.table.state import LogFile
from tests.past import history_of
from tests.unit.plan.plan_cases import instant
from tests.unit.plan.states import STATE, with_slice
from tests.unit.verify.test_late_data import write

DONE = instant("10:00:00")


def file_of(number, time_ms, seen_ms=None):
    name = f".f1_{DONE}.log.{number}_0-1-0"
    return LogFile(name, 1, DONE, DONE, time_ms, seen_event_time_ms=seen_ms)


def known(*files, recorded=None, log_files=None, certain=False):
    """(smallest event time, whether it is certain) of a write of which these log files were found."""
    count = len(files) if log_files is None else log_files
    one = write("10:00:00", None)._replace(log_files=count, known_min_ms=recorded, certain=certain)
    (found,) = with_times_of(history_of([one]), with_slice(STATE, "f1", log_files=files)).commits[0].groups
    return found.known_min_ms, found.certain


@pytest.mark.parametrize("times", [(30, 20), (20, 30)])
def test_of_files_that_rolled_over_the_smallest_counts(times):
    """The last one counted, whatever the others held."""
    assert known(*map(file_of, range(1, 3), times)) == (20, True)


@pytest.mark.parametrize("times", [(20, None), (None, 20)])
def test_it_is_certain_only_if_all_its_files_are_known(times):
    assert known(*map(file_of, range(1, 3), times)) == (20, False)


def test_nor_is_it_where_one_of_its_files_is_not_there():
    assert known(file_of(1, 20), log_files=2) == (20, False)


def test_what_is_seen_beside_a_delete_is_seen():
    assert known(file_of(1, None, 25), file_of(2, 30)) == (25, False)
    assert known(file_of(1, None, 25), recorded=22) == (22, False)


def test_a_file_that_holds_an_earlier_time_than_its_commit_records_wins():
    assert known(file_of(1, 20), recorded=30, certain=True) == (20, True)
    assert known(file_of(1, 40), recorded=30, certain=True) == (30, True)


def test_what_is_compacted_stays_as_it_is_recorded():
    assert known(recorded=30, certain=True, log_files=1) == (30, True)


def test_what_a_compaction_carries_or_splits_off_is_no_write():
    """Writers wrote it before, and its time of completion says nothing of them."""
    written, split_off = write("10:00:00", "09:00:00"), write("11:00:00", None)
    history = history_of([written])
    compaction = Commit(split_off.requested, split_off.completed, "commit", "COMPACT", (split_off,))
    assert replace(history, commits=(*history.commits, compaction)).writes == (written,)
