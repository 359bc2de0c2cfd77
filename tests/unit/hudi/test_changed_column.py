"""A policy that names another event-time column than before: commits do not say of which one their event times are."""

import json

import pytest

from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.policy.manifest import EventTime, Policy, event_time_values
from etc_policy.table.history import POLICY_VALUES, SEEN_UNTIL, THRESHOLD
from tests.unit.hudi.log_file import avro
from tests.unit.hudi.table_folder import TableFolder, at, base, log

MS = 1_767_225_600_000  # 2026-01-01
TS, OTHER = EventTime(column="ts", unit="ms"), EventTime(column="id", unit="ms")
POLICY = Policy(name="t", table="t", event_time=TS, data_latency_ms=0)
#: What a commit recorded of the other column; in the policy's all events are an hour older.
RECORDED = MS + 3_600_000


@pytest.fixture
def table(tmp_path):
    return TableFolder(tmp_path / "t")


def write(table, instant, file_id):
    data = avro([MS], "long")
    file = log(file_id, min_event=RECORDED, size=len(data))
    table.commit(instant, instant, file)
    (table.base / "p" / file.name(instant)).write_bytes(data)


def compact(table, instant, event_time, seen_until, *, completed=None, by_stock=False):
    """By etc, or by stock Hudi, which leaves what etc says in the plan alone."""
    values = "" if event_time is None else json.dumps(event_time_values(event_time))
    extra = {THRESHOLD: str(MS), POLICY_VALUES: values, SEEN_UNTIL: seen_until}
    extra_of_commit = None if by_stock else extra
    table.compaction(instant, completed or instant, base("f"), extra=extra_of_commit, plan_extra=extra)


def recorded(table, event_time=TS):
    """The file groups whose recorded event times count."""
    state = FileTableReader().read(str(table.base), event_time)
    return {one.file_id for one, file in state.log_files if file.min_event_time_ms == RECORDED}


@pytest.mark.parametrize("then", [TS, None])
def test_what_commits_recorded_counts_where_the_column_is_the_same(table, then):
    compact(table, at("00:01:00"), then, at("00:00:59"))
    write(table, at("00:02:00"), "a")
    assert recorded(table) == {"a"}


def test_it_does_not_before_the_first_compaction_by_the_new_column(table):
    """And the log files are read: what is due by the new column is compacted."""
    write(table, at("00:00:30"), "a")
    compact(table, at("00:01:00"), OTHER, at("00:00:59"))
    write(table, at("00:02:00"), "b")
    assert recorded(table) == set()
    state = fill_from_logs(FileTableReader().read(str(table.base), TS), POLICY, None)
    plan = build_table_plan(POLICY, state, now_ms=MS + 600_000, clock_ms=MS + 600_000)
    assert {one.file_id for one in plan.operations} == {"a", "b"}
    assert recorded(table, OTHER) == {"a", "b"}


def test_then_it_counts_of_writes_that_began_after_that_plan(table):
    compact(table, at("00:01:00"), OTHER, at("00:00:59"))
    write(table, at("00:02:00"), "a")
    write(table, at("00:03:00"), "b")
    compact(table, at("00:02:30"), TS, at("00:03:01"))
    write(table, at("00:04:00"), "c")
    compact(table, at("00:05:00"), TS, at("00:04:30"))
    write(table, at("00:06:00"), "d")
    assert recorded(table) == {"c", "d"}
    assert recorded(table, OTHER) == set()


def test_a_plan_that_stock_hudi_carried_out_says_its_column_too(table):
    compact(table, at("00:01:00"), OTHER, at("00:00:59"), by_stock=True)
    write(table, at("00:02:00"), "a")
    assert recorded(table) == set()
    compact(table, at("00:03:00"), TS, at("00:02:30"), by_stock=True)
    write(table, at("00:04:00"), "b")
    assert recorded(table) == {"b"}


def test_a_write_that_was_in_flight_at_the_first_plan_for_the_new_column_recorded_the_old_one(table):
    """It began after the last completion that the plan saw, and before anybody changed the policy."""
    compact(table, at("00:01:00"), OTHER, at("00:00:59"))
    compact(table, at("00:01:30"), TS, at("00:01:00"), completed=at("00:03:00"))
    write(table, at("00:02:00"), "a")
    write(table, at("00:03:00"), "b")
    assert recorded(table) == {"b"}


@pytest.mark.parametrize("archived", [0, 1, 2, 3])
def test_what_is_archived_tells_of_its_column_as_before(table, archived):
    compact(table, at("00:01:00"), OTHER, at("00:00:59"))
    write(table, at("00:02:00"), "a")
    compact(table, at("00:02:30"), TS, at("00:02:01"))
    write(table, at("00:03:00"), "b")
    table.archive_first(archived)
    assert recorded(table) == {"b"}
    assert recorded(table, OTHER) == set()


def test_the_only_compaction_by_another_column_is_archived(table):
    """With 30 commits between two runs it always is, when the policy is changed."""
    compact(table, at("00:01:00"), OTHER, at("00:00:59"))
    write(table, at("00:02:00"), "a")
    table.archive_first(1)
    assert recorded(table) == set()
    assert recorded(table, OTHER) == {"a"}


def test_no_more_of_the_archive_is_read_than_somebody_asks_for(table):
    """A year of compactions is there, and the newest of them was planned before all that is active."""
    import pyarrow.parquet

    for hour in range(9):
        compact(table, at(f"0{hour}:00:00"), TS, at(f"0{hour}:00:00"))
    table.archive_first(9)
    rows = pyarrow.parquet.read_table(next((table.timeline / "history").glob("*.parquet"))).to_pylist()
    table.archive(*({**row, "metadata": b"damaged"} for row in rows[:5]), *rows[5:], manifest=2)
    write(table, at("09:00:00"), "a")
    assert recorded(table) == {"a"}
