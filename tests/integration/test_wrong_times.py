"""Tables that a job in another zone has hurt: recognised, and what setting their completion times right by hand does to them."""

from __future__ import annotations

import shutil
import time

import pytest

from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.report.freshness import table_freshness
from etc_policy.table.instants import add_ms
from etc_policy.wiring import clock_ms
from tests.integration.bench import AT_THE_CUT, ORACLE, Bench, check_views
from tests.integration.history import HISTORY, QUICK, Oracle, Views, Write, write_history
from tests.integration.other_zone import compact_in_zone

pytestmark = [pytest.mark.spark, pytest.mark.extended]
ZONES = ("America/Los_Angeles", "Asia/Tokyo")
NO_METADATA = {"hoodie.metadata.enable": "false"}
OPTIONS = {**QUICK, "hoodie.table.timeline.timezone": "UTC", "hoodie.metadata.compact.max.delta.commits": "2"}
HOUR_MS = 3_600_000
#: Enough commits for the metadata table to be compacted after the wrong time.
LATER = tuple(Write(((1, f"w{n}", 700 + n), (4, f"w{n}", 700 + n))) for n in range(3))
#: RO after the compaction: the state after commit 5.
COMPACTED = ORACLE.as_of(5)


@pytest.fixture(scope="module")
def utc_table(spark, tmp_path_factory):
    base = tmp_path_factory.mktemp("zoned") / "t"
    write_history(spark, base, options=OPTIONS)
    return base


@pytest.fixture
def bench(spark, utc_table, tmp_path):
    shutil.copytree(utc_table, tmp_path / "t")
    return Bench(spark, tmp_path / "t")


def rename(bench, wrong, completed=None):
    """Gives a commit's file the name with its true time, or with another one, as the page says."""
    folder = "metadata/.hoodie/timeline" if wrong.timeline == "metadata table" else "timeline"
    file = bench.base / ".hoodie" / folder / f"{wrong.requested}_{wrong.completed}.{wrong.action}"
    file.rename(file.with_name(f"{wrong.requested}_{completed or wrong.right}.{wrong.action}"))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def ro_of(views):
    return (
        views.ro(),
        views.read(hoodie__query__as__ro__table="true", hoodie__metadata__enable="false"),
        views.rust(read_optimized=True),
    )


def check_right(bench, history=HISTORY):
    views = Views(bench.spark, bench.base)
    if history is HISTORY:
        check_views(views, views.delta_commits(), since=AT_THE_CUT)
    else:
        assert views.rt() == views.rt_without_mdt() == views.rust() == Oracle.of(history).rt()
    assert ro_of(views) == (COMPACTED,) * 3
    assert bench.state().wrong_times == ()


def check_later(bench, history):
    """A stock write, and a compaction by etc, on the table that was set right."""
    write = Write(((1, "last", 900), (2, "last", 901)))
    write_history(bench.spark, bench.base, (write,), options=OPTIONS, first=len(history))
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    later = bench.apply(bench.plan(second=1000))
    assert later.status == "compacted", later.reason
    views, oracle = Views(bench.spark, bench.base), Oracle.of((*history, write))
    assert views.rt() == views.rt_without_mdt() == views.rust() == oracle.rt()
    assert ro_of(views) == (oracle.rt(),) * 3


@pytest.mark.parametrize("zone", ZONES)
def test_a_compaction_by_a_job_in_another_zone_is_recognised_and_set_right_by_two_names(bench, zone):
    early = zone == ZONES[0]
    name = compact_in_zone(bench.spark, bench, bench.plan(), zone)
    requested, completed = name.removesuffix(".commit").split("_")
    assert (completed < requested) == early
    views = Views(bench.spark, bench.base)
    assert views.rt() == ORACLE.rt()
    assert (views.ro() == COMPACTED) is not early
    plan = bench.plan().tables[0]
    assert (plan.action, plan.reason_code) == ("refused", "wrong_time")
    assert ("before it was requested" if early else "completed in the future") in plan.reason
    assert f"({'8h' if early else '9h'} off)" in plan.reason
    assert table_freshness(bench.policy, bench.state(), clock_ms(), clock_ms()).status == "unknown"

    table, metadata = bench.state().wrong_times
    assert (table.timeline, metadata.timeline) == ("table", "metadata table")
    for wrong in (metadata, table):
        rename(bench, wrong)
    check_right(bench)
    assert bench.plan().tables[0].action == "nothing_due"
    check_later(bench, HISTORY)


@pytest.mark.parametrize("zone", ZONES)
def test_a_metadata_table_that_was_compacted_by_the_wrong_time_is_dropped_and_built_again(bench, zone):
    compact_in_zone(bench.spark, bench, bench.plan(), zone)
    write_history(bench.spark, bench.base, LATER, options=OPTIONS, first=len(HISTORY))
    table = next(one for one in bench.state().wrong_times if one.timeline == "table")
    bench.spark.sql(f"CREATE TABLE hurt USING hudi LOCATION '{bench.base}'")
    try:
        bench.spark.sql("CALL delete_metadata_table(table => 'hurt')").collect()
    finally:
        bench.spark.sql("DROP TABLE hurt")
    assert bench.state().metadata_partitions == ()
    rename(bench, table)
    check_right(bench, (*HISTORY, *LATER))
    check_later(bench, (*HISTORY, *LATER))
    assert "files" in bench.state().metadata_partitions


@pytest.mark.parametrize("zone", ZONES)
def test_a_table_without_a_metadata_table_is_set_right_by_one_name(spark, tmp_path, zone):
    write_history(spark, tmp_path / "t", options={**OPTIONS, **NO_METADATA})
    bench = Bench(spark, tmp_path / "t")
    compact_in_zone(spark, bench, bench.plan(), zone, "hoodie.metadata.enable=false")
    (wrong,) = bench.state().wrong_times
    rename(bench, wrong)
    views = Views(spark, bench.base)
    assert views.rt() == views.rust() == ORACLE.rt()
    assert ro_of(views) == (COMPACTED,) * 3


@pytest.mark.parametrize("hours", [9, -8])
def test_a_delta_commit_that_a_compaction_has_left_out_is_lost_by_its_true_time(spark, tmp_path, hours):
    """Completed too late, its rows were in RT until then. Completed before its base file, they are a slice of their own, which
    hides the others, and a stock compaction makes that the base file.
    """
    write_history(spark, tmp_path / "t", options={**OPTIONS, **NO_METADATA})
    bench = Bench(spark, tmp_path / "t")
    done = max(name for name in Views(spark, bench.base).timeline() if name.endswith(".deltacommit"))
    requested, completed = done.removesuffix(".deltacommit").split("_")
    folder = bench.base / ".hoodie" / "timeline"
    (folder / done).rename(folder / f"{requested}_{add_ms(completed, hours * HOUR_MS)}.deltacommit")
    views, without = Views(spark, bench.base), Oracle.of(HISTORY[:-1]).rt()
    assert (views.rt() == ORACLE.rt()) is (hours > 0)
    spark.sql(f"CALL run_compaction(op => 'scheduleAndExecute', path => '{bench.base}')").collect()
    assert (views.ro() == without) is (hours > 0)
    assert (views.rt() == ORACLE.rt()) is (hours > 0)

    (wrong,) = bench.state().wrong_times
    assert (wrong.right, wrong.late) == (completed, hours > 0)
    rename(bench, wrong)
    assert views.rt() != ORACLE.rt()
    assert hours < 0 or views.rt() == views.rust() == without
