"""The cut on real tables: RT, RO, incremental and time travel against the oracle, before, while pending and after."""

from __future__ import annotations

import shutil

import fastavro
import pytest

from etc_policy.table.history import THRESHOLD
from tests.integration.bench import ORACLE, SECOND, Bench, check_views
from tests.integration.cut_checks import LATER, check_the_cut, stock_compaction, stock_compaction_and_clean
from tests.integration.history import EPOCH_MS, HISTORY, LOSING, QUICK, Oracle, Views, write_history

pytestmark = pytest.mark.spark


@pytest.fixture
def bench(spark, written_table, tmp_path):
    base = tmp_path / "t"
    shutil.copytree(written_table, base)
    return Bench(spark, base)


@pytest.mark.extended
@pytest.mark.parametrize("granularity", ["log_file", "file_slice", "record"])
def test_views_before_pending_after(bench, granularity):
    bench.granularity = granularity
    check_the_cut(bench)


@pytest.mark.extended
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


@pytest.mark.extended
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


@pytest.mark.extended
def test_threshold_is_committed_with_the_data(bench):
    plan = bench.plan()
    outcome = bench.apply(plan)
    assert outcome.status == "compacted"
    (commit,) = (bench.base / ".hoodie" / "timeline").glob(f"{outcome.instant}_*.commit")
    with commit.open("rb") as handle:
        extra = next(iter(fastavro.reader(handle)))["extraMetadata"]
    assert extra[THRESHOLD] == str(EPOCH_MS + SECOND * 1000)
    assert bench.apply(plan).status == "already_applied"
