"""The cut on real tables: RT, RO, incremental and time travel against the oracle, before, while pending and after."""

from __future__ import annotations

import shutil

import fastavro
import pytest

from etc_policy.plan.commit_metadata import THRESHOLD
from tests.integration.bench import ORACLE, SECOND, Bench, check_views
from tests.integration.history import EPOCH_MS, HISTORY, LOSING, QUICK, Oracle, Views, Write, write_history

pytestmark = pytest.mark.spark
#: A stock write after ours: an update in each partition, and a key that was deleted comes back.
LATER = Write(((1, "v7", 600), (9, "v7", 601), (2, "v7", 602), (5, "v7", 603)))


@pytest.fixture
def bench(spark, written_table, tmp_path):
    base = tmp_path / "t"
    shutil.copytree(written_table, base)
    return Bench(spark, base)


@pytest.mark.parametrize("granularity", ["log_file", "file_slice"])
def test_views_before_pending_after(bench, granularity):
    bench.granularity = granularity
    views = Views(bench.spark, bench.base)
    commits = views.delta_commits()
    assert len(commits) == len(HISTORY)
    check_views(views, commits)
    plan = bench.plan()
    table = plan.tables[0]
    assert table.action == "compact"
    left = [name for operation in table.operations for name in operation.log_files_remaining]
    assert bool(left) == (granularity == "log_file")

    before = bench.properties()
    bench.publish(plan)
    check_views(views, commits)
    outcome = bench.runner.finish_pending(bench.policy, str(bench.base))
    assert outcome is not None and outcome.status == "resumed"
    assert bench.properties() == before

    check_views(views, commits)
    ro = views.ro()
    assert views.rust(read_optimized=True) == ro
    expected = ORACLE.rt_up_to(SECOND)
    assert {key: ro.get(key) for key in expected} == expected
    state = bench.state()
    assert state.last_compaction is not None and state.last_compaction.threshold_ms == EPOCH_MS + SECOND * 1000
    assert state.last_compaction.plan_id == plan.plan_id
    after = bench.plan().tables[0]
    assert after.action == "nothing_due"
    assert after.watermark_before_ms == table.watermark_after_ms

    write_history(bench.spark, bench.base, (LATER,), first=len(HISTORY))
    later = Oracle.of((*HISTORY, LATER)).rt()
    assert views.rt() == views.rust() == later
    stock_compaction_and_clean(bench)
    assert views.rt() == views.ro() == views.rust() == views.rust(read_optimized=True) == later
    assert bench.state().last_compaction.threshold_ms == EPOCH_MS + SECOND * 1000


def test_cut_after_cut(bench):
    """The second cut lies before the completion of the first: both in the past, one shortly after the other."""
    views = Views(bench.spark, bench.base)
    commits = views.delta_commits()
    first = bench.apply(bench.plan(second=104))
    assert first.status == "compacted"
    check_views(views, commits)
    second = bench.apply(bench.plan(second=505))
    assert second.status == "compacted"
    assert first.instant < second.instant < first.completed < second.completed
    check_views(views, commits)
    assert views.ro() == views.rust(read_optimized=True) == ORACLE.rt()
    write_history(bench.spark, bench.base, (LATER,), first=len(HISTORY))
    later = Oracle.of((*HISTORY, LATER)).rt()
    assert views.rt() == views.rust() == later
    stock_compaction_and_clean(bench)
    assert views.rt() == views.ro() == views.rust() == later


@pytest.mark.parametrize("by", ["etc", "stock"])
def test_late_updates_that_lost_leave_incremental_queries_as_by_stock(spark, tmp_path, by):
    """A query whose range ends before the compaction returns them as before; one that takes it in no longer does."""
    write_history(spark, tmp_path / "t", LOSING, options=QUICK)
    bench, oracle, views = Bench(spark, tmp_path / "t"), Oracle.of(LOSING), Views(spark, tmp_path / "t")
    commits = views.delta_commits()
    begins = ["000", *commits[:-1]]

    def look(*, compacted):
        for number, completed in enumerate(commits):
            assert views.as_of(completed) == oracle.as_of(number)
            assert views.incremental(begins[number], completed) == oracle.incremental(number)
            assert views.incremental(begins[number]) == oracle.incremental_from(number, compacted=compacted)

    assert oracle.incremental_from(1, compacted=False) != oracle.incremental_from(1, compacted=True)
    look(compacted=False)
    if by == "etc":
        assert bench.apply(bench.plan(second=1000)).status == "compacted"
    else:
        stock_compaction(bench)
    assert views.rt() == views.ro() == oracle.rt()
    look(compacted=True)


def stock_compaction(bench: Bench) -> None:
    path = str(bench.base)
    bench.spark.sql(
        f"CALL run_compaction(op => 'schedule', path => '{path}', options => 'hoodie.compact.inline.max.delta.commits=1')"
    )
    bench.spark.sql(f"CALL run_compaction(op => 'run', path => '{path}')")


def stock_compaction_and_clean(bench: Bench) -> None:
    """A full compaction and a clean by stock Hudi, as a user would call them."""
    stock_compaction(bench)
    path = str(bench.base)
    bench.spark.sql(f"CREATE TABLE cleaned USING hudi LOCATION '{path}'")
    try:
        bench.spark.sql("CALL run_clean(table => 'cleaned', retain_commits => 1)")
    finally:
        bench.spark.sql("DROP TABLE cleaned")
    assert list(bench.base.glob(".hoodie/timeline/*.clean"))


def test_threshold_is_committed_with_the_data(bench):
    plan = bench.plan()
    outcome = bench.apply(plan)
    assert outcome.status == "compacted"
    (commit,) = (bench.base / ".hoodie" / "timeline").glob(f"{outcome.instant}_*.commit")
    with commit.open("rb") as handle:
        extra = next(iter(fastavro.reader(handle)))["extraMetadata"]
    assert extra[THRESHOLD] == str(EPOCH_MS + SECOND * 1000)
    assert bench.apply(plan).status == "already_applied"
