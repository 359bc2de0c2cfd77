"""A plan that is taken back on real tables: all readers as before, those too that had listed it, and stock services after it."""

from __future__ import annotations

import shutil
import time
from types import SimpleNamespace

import pytest

from etc_policy.errors import EngineError
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.run.file_lease import FileLease
from etc_policy.spark.compactor import HudiCompactor
from tests.integration.bench import AT_THE_CUT, ORACLE, SECOND, Bench, check_views
from tests.integration.cut_checks import LATER, stock_compaction, stock_compaction_and_clean
from tests.integration.history import EPOCH_MS, HISTORY, QUICK, Oracle, write_history

pytestmark = pytest.mark.spark


@pytest.fixture
def bench(spark, written_table, tmp_path):
    base = tmp_path / "t"
    shutil.copytree(written_table, base)
    return Bench(spark, base)


def publish_and_die(bench, *, begun):
    """A run published its plan and died, right away or when its base files were written."""
    plan = bench.plan()
    bench.publish(plan)
    if not begun:
        return plan
    instant = plan.tables[0].instant
    with FileLease(bench.location) as lease:
        lease.mark(instant)
        job = bench.runner.files.pending_job(bench.policy, bench.state())

        def dies():
            raise EngineError("ETC304", "killed")

        with pytest.raises(EngineError, match="killed"):
            HudiCompactor(bench.spark).run(job, lambda: lease.note_inflight(instant), SimpleNamespace(before_lock=dies))
    assert list(bench.base.glob(f"*/*_{instant}.parquet"))
    return plan


@pytest.mark.extended
@pytest.mark.parametrize("begun", [True, False])
def test_no_view_changes_and_a_plan_can_be_made_again(bench, begun):
    views, before = bench.views(), bench.properties()
    commits, ro = views.delta_commits(), views.ro()
    instant = publish_and_die(bench, begun=begun).tables[0].instant
    assert bench.runner.undo(bench.policy, bench.location)
    assert bench.properties() == before
    assert not list(bench.base.glob(f"*/*_{instant}.parquet"))
    assert [name.split("_")[0] for name in views.timeline() if name.endswith(".commit")] == [instant]
    check_views(views, commits, since=AT_THE_CUT)
    assert views.ro() == views.rust(read_optimized=True) == ro
    assert views.incremental(commits[-1]) == {}
    state = bench.state()
    assert (state.own_pending, state.last_compaction) == (None, None)
    assert bench.apply(bench.plan()).status == "compacted"
    check_views(views, commits, since=AT_THE_CUT)
    assert bench.state().last_compaction.threshold_ms == EPOCH_MS + SECOND * 1000


@pytest.mark.extended
def test_what_was_written_while_it_was_pending_stays(bench):
    """The writer saw a new file slice begin at the plan; without a base file there the old one goes on."""
    views = bench.views()
    publish_and_die(bench, begun=False)
    write_history(bench.spark, bench.base, (LATER,), first=len(HISTORY))
    later = Oracle.of((*HISTORY, LATER)).rt()
    assert views.rt() == later
    assert bench.runner.undo(bench.policy, bench.location)
    assert views.rt() == views.rt_without_mdt() == views.rust() == later
    stock_compaction(bench)
    assert views.rt() == views.ro() == views.rust() == later
    write_history(bench.spark, bench.base, (LATER,), first=len(HISTORY) + 1)
    stock_compaction_and_clean(bench)
    assert views.rt() == views.ro() == views.rust() == later


def test_a_stock_reader_that_had_listed_it_goes_on(bench):
    """Its file system view opens the plans of the timeline that was listed with it."""
    jvm = bench.spark._jvm
    publish_and_die(bench, begun=False)
    listed = (
        jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        .setConf(jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(bench.spark._jsc.hadoopConfiguration()))
        .setBasePath(bench.location)
        .setLoadActiveTimelineOnLoad(True)
        .build()
    )
    assert bench.runner.undo(bench.policy, bench.location)
    plans = jvm.org.apache.hudi.common.util.CompactionUtils.getAllPendingCompactionPlans(listed)
    assert plans.size() == 1
    assert bench.views().rt() == ORACLE.rt()


@pytest.mark.extended
def test_the_run_whose_hudi_cannot_read_a_log_file_takes_its_plan_back(spark, tmp_path):
    """HFile blocks: Hudi 1.2.0 on Spark reads none of a table's rows (facts: hfile-log-blocks)."""
    hfile = {**QUICK, "hoodie.logfile.data.block.format": "hfile"}
    write_history(spark, tmp_path / "t", HISTORY[:2], options=hfile)
    bench = Bench(spark, tmp_path / "t")
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    ro, before, plan = bench.views().ro(), set(bench.base.rglob("*.parquet")), bench.plan()
    assert plan.tables[0].action == "compact", plan.tables[0].reason
    with pytest.raises(EngineError, match="nothing was committed, and the plan is withdrawn") as error:
        bench.apply(plan)
    assert error.value.code == "ETC326"
    assert "ClassCastException" in error.value.cause
    state = bench.state()
    assert (state.own_pending, state.pending, state.last_compaction) == (None, (), None)
    assert (bench.views().ro(), set(bench.base.rglob("*.parquet"))) == (ro, before)
    assert bench.plan().tables[0].action == "compact"


@pytest.mark.parametrize(
    "option",
    ["hoodie.write.record.merge.custom.implementation.classes", "hoodie.datasource.write.record.merger.impls"],
)
def test_the_class_of_a_merger_is_missed_before_its_plan_is_published(bench, option):
    """Hudi looks for it when the plan is carried out, which would be left pending (facts: custom-merger-classes)."""
    known = "org.apache.hudi.common.model.HoodieAvroRecordMerger"
    policy = bench.policy.model_copy(update={"hudi_options": {option: f"{known}, com.example.NoSuchMerger"}})
    plan, before = bench.plan(), bench.names_in(".hoodie/timeline")
    with pytest.raises(EngineError, match=f"`{option}` of `t` names `com.example.NoSuchMerger`") as error:
        bench.runner.apply(policy, plan.tables[0], plan.plan_id, None)
    assert (error.value.code, "`packages`" in error.value.hint) == ("ETC304", True)
    assert "ClassNotFoundException" in error.value.cause
    assert bench.names_in(".hoodie/timeline") == before
