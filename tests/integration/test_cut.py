"""The cut on real tables: RT, RO, incremental and time travel against the oracle, before, while pending and after."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import fastavro
import pytest

from etc_policy.adapters.hudi_compactor import HudiCompactor
from etc_policy.adapters.hudi_files import FileLease, HudiFiles
from etc_policy.adapters.hudi_table import FileTableReader
from etc_policy.compile.manifest import EventTime, Policy, Writer
from etc_policy.execute.ports import Job
from etc_policy.execute.runner import Runner
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.commit_metadata import THRESHOLD, extra_metadata
from etc_policy.plan.stages import make_plan
from etc_policy.plan.table_state import TableState
from etc_policy.wiring import clock_ms
from tests.integration.history import EPOCH_MS, HISTORY, Oracle, Views, Write, write_history

pytestmark = pytest.mark.spark
ORACLE = Oracle.of(HISTORY)
SECOND = 210
#: A stock write after ours: an update in each partition, and a key that was deleted comes back.
LATER = Write(((1, "v7", 600), (9, "v7", 601), (2, "v7", 602), (5, "v7", 603)))


@dataclass
class Bench:
    """A table, its policy, and the product's own steps on it."""

    spark: object
    base: Path
    granularity: str = "log_file"
    index: str | None = None

    @property
    def policy(self) -> Policy:
        return Policy(
            name="t",
            table=str(self.base),
            event_time=EventTime(column="ts", unit="ms"),
            data_latency_ms=10_000,
            granularity=self.granularity,
            writer=Writer(index=self.index),
        )

    @property
    def runner(self) -> Runner:
        return Runner(FileTableReader(), HudiFiles(), lambda: HudiCompactor(self.spark), FileLease, lambda _: None)

    def state(self) -> TableState:
        return FileTableReader().read(str(self.base), self.policy.event_time)

    def plan(self, second=SECOND):
        """A plan with threshold T at the given second."""
        now_ms = EPOCH_MS + second * 1000 + self.policy.data_latency_ms
        return make_plan(
            "2026-01-01T00:00:00Z", (build_table_plan(self.policy, self.state(), now_ms=now_ms, clock_ms=clock_ms()),)
        )

    def apply(self, plan):
        return self.runner.apply(self.policy, plan.tables[0], plan.plan_id, None)

    def publish(self, plan):
        table = plan.tables[0]
        extra = extra_metadata(table, plan.plan_id, None)
        state = self.state()
        job = Job(
            self.policy,
            str(self.base),
            state.table_version,
            state.metadata_partitions,
            table.instant,
            table.operations,
            extra,
        )
        HudiCompactor(self.spark).publish(job, lambda _: None)

    def properties(self) -> list[str]:
        lines = (self.base / ".hoodie" / "hoodie.properties").read_text().splitlines()
        return sorted(line for line in lines if not line.startswith("#"))


@pytest.fixture(scope="module")
def written(spark, tmp_path_factory):
    base = tmp_path_factory.mktemp("written") / "t"
    write_history(spark, base)
    return base


@pytest.fixture
def bench(spark, written, tmp_path):
    base = tmp_path / "t"
    shutil.copytree(written, base)
    return Bench(spark, base)


def check_views(views: Views, commits: list[str]) -> None:
    """RT, incremental and time travel as the oracle says, by Spark with and without the metadata table, and hudi-rs."""
    assert views.rt() == ORACLE.rt()
    assert views.rt_without_mdt() == ORACLE.rt()
    assert views.rust() == ORACLE.rt()
    for number, completed in enumerate(commits):
        assert views.as_of(completed) == ORACLE.as_of(number), f"time travel to commit {number}"
        after = commits[number - 1] if number else "000"
        assert views.incremental(after, completed) == ORACLE.incremental(number), f"incremental of commit {number}"


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


def stock_compaction_and_clean(bench: Bench) -> None:
    """A full compaction and a clean by stock Hudi, as a user would call them."""
    path = str(bench.base)
    bench.spark.sql(
        f"CALL run_compaction(op => 'schedule', path => '{path}', options => 'hoodie.compact.inline.max.delta.commits=1')"
    )
    bench.spark.sql(f"CALL run_compaction(op => 'run', path => '{path}')")
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
