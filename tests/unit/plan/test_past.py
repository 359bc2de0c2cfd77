"""What a replay starts from: base files and how they grow, file groups that come and go, and event times that others know."""

from dataclasses import replace

import pytest

from etc_policy.plan.simulation import actual_runs, figures_of
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.table.history import Commit, GroupWrite, TableHistory
from etc_policy.table.past import past_of
from etc_policy.table.state import CompactionRecord
from etc_policy.table.write_growth import WriteGrowth
from tests.unit.hudi.table_folder import at
from tests.unit.plan.plan_cases import epoch_ms
from tests.unit.plan.states import STATE

POLICY = Policy(name="p", table="/t", event_time=EventTime(column="ts"), data_latency_ms=60_000)
REST = replace(STATE, slices=())


def write(clock, group="f1", *, size, log_files=1, event=None, previous="x", merged=0, action="deltacommit", **rest):
    """A commit that wrote to one file group, a minute after it began; without log files it wrote a base file."""
    requested, completed = at(f"{clock}:00"), at(f"{clock}:59")
    event_ms = None if event is None else epoch_ms(event)
    found = GroupWrite(requested, completed, "p", group, event_ms, certain=event is not None, rows=1)
    found = found._replace(log_files=log_files, bytes_written=size, previous=previous, merged_log_bytes=merged)
    return Commit(requested, completed, action, rest.pop("operation", "UPSERT"), (found,), **rest)


def compaction(clock, size, merged):
    return write(clock, size=size, log_files=0, merged=merged, action="commit", operation="COMPACT")


def past(*commits, read_times=None):
    found = past_of(REST, TableHistory("/t", 9, "UTC", commits, complete=True, read_times=read_times or {}))
    assert found is not None
    return found


def test_a_base_file_from_before_is_as_large_as_the_next_that_is_known():
    found = past(write("08:00", size=10), compaction("09:00", size=700, merged=10), write("10:00", "f2", size=10))
    assert found.bases == {("p", "f1"): 700, ("p", "f2"): 0}
    assert [(one.bytes_read, one.bytes_written) for one in found.compactions] == [(710, 700)]
    assert found.state.write_growth is None  # nobody knows what the base file grew by


def test_base_files_that_are_born_later_teach_how_they_grow():
    born = write("08:00", size=500, log_files=0, previous=None)
    found = past(born, write("08:10", size=100), compaction("09:00", size=550, merged=100), write("10:00", size=10))
    assert found.bases == {}
    assert [(one.group, one.base_bytes) for one in found.changes] == [(("p", "f1"), 500)]
    assert found.state.write_growth == WriteGrowth(compactions=1, onto_base=0.5)
    later = found.since(epoch_ms("09:30:00"))
    assert (later.bases, later.changes, later.compactions, later.whole) == ({("p", "f1"): 500}, (), (), False)
    assert [one.completed_ms for one in later.arrivals] == [epoch_ms("10:00:59")]


def test_what_was_replaced_is_lacking_no_longer():
    first, last = write("08:00", size=10, event="07:59:00"), write("11:00", "f2", size=10, event="11:00:00")
    gone = Commit(at("09:00:00"), at("09:00:59"), "replacecommit", "CLUSTER", (), replaced=frozenset({("p", "f1")}))
    lag = [figures_of(past(*commits), POLICY, ()).lag_max_ms for commits in ((first, last), (first, gone, last))]
    assert lag == [epoch_ms(clock) - epoch_ms("07:59:00") + 1 for clock in ("11:00:59", "09:00:59")]


@pytest.mark.parametrize("left", [None, "08:20:00"])
def test_what_a_compaction_split_off_or_carried_waits_on(left):
    """From T on, or from its own event time: until the next compaction of its file group, as `etc freshness` says."""
    split = write("09:00", size=700, log_files=1, event=left, merged=10, action="commit", operation="COMPACT")
    record = CompactionRecord(split.requested, split.completed, epoch_ms("08:10:00"), "p", "i")
    split = replace(split, record=record)
    brought = write("08:30", size=10, event="08:05:00")
    rest = write("10:30", "f2", size=10, event="10:30:00")
    found = past(
        brought, split, rest, compaction("11:00", size=800, merged=10), write("11:30", "f2", size=10, event="11:29:00")
    )
    assert [[one.requested_ms for one in run.merged] for run in actual_runs(found)] == [
        [epoch_ms("08:30:00")],
        [epoch_ms("09:00:00")],
    ]
    first_ms = epoch_ms("08:10:00") + 1 if left is None else epoch_ms(left)
    figures = figures_of(found, POLICY, actual_runs(found))
    assert figures.lag_max_ms == epoch_ms("11:00:59") - first_ms + 1
    assert len(found.arrivals) == 3
    later = found.since(epoch_ms("09:30:00"))
    assert figures_of(later, POLICY, actual_runs(later)).lag_max_ms < figures.lag_max_ms


def test_event_times_that_were_read_of_log_files_count():
    first = write("08:00", size=10)
    read = {first.groups[0].key: epoch_ms("07:00:00")}
    found = past(first, write("09:00", size=10), read_times=read)
    assert [one.log_file.min_event_time_ms for one in found.arrivals] == [epoch_ms("07:00:00"), None]


def test_a_log_compaction_brings_nothing():
    found = past(write("08:00", size=10), write("09:00", size=10, operation="LOG_COMPACT"), write("10:00", size=10))
    assert [one.completed_ms for one in found.arrivals] == [epoch_ms("08:00:59"), epoch_ms("10:00:59")]


def test_one_commit_is_no_past():
    assert past_of(REST, TableHistory("/t", 9, "UTC", (write("08:00", size=1),))) is None
    assert past_of(REST, TableHistory("/t", 9, "UTC", ())) is None
