"""Which base files both views read alike."""

from dataclasses import replace

from etc_policy.table.state import Instant
from etc_policy.verify.compared_rows import partitions_read_whole, same_files, spared_files, waiting_writes
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of

BASE = "08:00:00"


def state(**slices):
    """A table of one partition; each slice with its base instant, and a log file where one is given."""
    found = {
        f"p/{name}": {"base": base, **({"logs": {"L1": logs}} if logs else {})} for name, (base, logs) in slices.items()
    }
    return state_of("/t", {"slices": found})


def names(table, pin):
    return sorted(name.removesuffix(".parquet") for name in same_files(table, pin))


LOG = "11:20:00 > 11:20:05, event 11:00:00.001"


def test_those_without_log_files():
    table = state(f1=(BASE, None), f2=(BASE, LOG))
    assert names(table, table.last_completed) == ["f1"]
    assert names(table, None) == ["f1"]


def test_none_that_came_after_the_instant_at_which_the_views_are_read():
    table = state(f1=(BASE, None), f2=("11:30:00", None), f3=("11:40:00", None))
    done = [Instant(instant(at), "commit", "completed", instant(f"{at}.500"), None) for at in ("11:30:00", "11:40:00")]
    table = replace(table, instants=(*table.instants, *done))
    assert names(table, table.last_completed) == ["f1", "f2", "f3"]
    assert names(table, instant("11:35:00")) == ["f1", "f2"]
    assert names(table, instant("11:30:00.499")) == ["f1"]


def test_none_that_an_archived_commit_completed_after_it():
    """A write that began before one that is in flight may be archived, though it has completed later."""
    table = state(f1=(BASE, None), f2=(BASE, None))
    later = replace(table.slices[1], base_completed=instant("11:30:00"))
    table = replace(table, slices=(table.slices[0], later), instants=())
    assert names(table, instant("11:30:00")) == ["f1", "f2"]
    assert names(table, instant("11:29:59")) == ["f1"]
    assert partitions_read_whole(table, instant("11:30:00")) == {"p"}
    assert partitions_read_whole(table, instant("11:29:59")) == frozenset()


def test_none_whose_name_a_file_group_with_log_files_has_too():
    """A bucket may have the same file id in every partition."""
    table = state(f1=(BASE, None), f2=(BASE, LOG))
    first, second = table.slices
    table = replace(table, slices=(first, replace(second, base_file=first.base_file)))
    assert same_files(table, table.last_completed) == frozenset()


def test_none_that_is_a_log_file_only():
    table = state(f1=(BASE, LOG))
    table = replace(table, slices=(replace(table.slices[0], base_file=None),))
    assert same_files(table, table.last_completed) == frozenset()


def test_rows_without_an_event_time_wait_for_the_rest_of_a_file_that_is_known_to_be_after_t():
    logs = {"L1": LOG, "L2": "11:21:00 > 11:21:05, event 11:10:00", "L3": "11:22:00 > 11:22:05"}
    table = state_of("/t", {"slices": {"p/f1": {"base": BASE, "logs": logs}}})
    assert waiting_writes(table, epoch_ms("11:00:00")) == {f"p/f1/{instant(at)}" for at in ("11:20:00", "11:21:00")}
    assert waiting_writes(table, epoch_ms("11:00:00.001")) == {f"p/f1/{instant('11:21:00')}"}
    assert waiting_writes(replace(table, table_version=6), 0) == frozenset()


def test_they_do_not_wait_where_one_of_the_files_of_their_write_may_hold_something_due():
    table = state_of("/t", {"slices": {"p/f1": {"base": BASE, "logs": {"L1": LOG, "L2": LOG}}}})
    first, second = table.slices[0].log_files
    for other_ms in (None, 0):
        logs = (first, second._replace(min_event_time_ms=other_ms))
        changed = replace(table, slices=(replace(table.slices[0], log_files=logs),))
        assert waiting_writes(changed, 0) == frozenset()


def test_none_are_spared_where_that_does_not_pay():
    table = state(f1=(BASE, None), f2=(BASE, LOG))
    slices = [replace(one, base_file_bytes=size) for one, size in zip(table.slices, (50, 50), strict=True)]
    assert spared_files(replace(table, slices=tuple(slices)), None) == {"f1.parquet"}
    slices[1] = replace(slices[1], base_file_bytes=51)
    assert spared_files(replace(table, slices=tuple(slices)), None) == frozenset()
