"""Strategies of stock Hudi: etc chooses what Hudi's own planner chooses by the same options, and says what RO holds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import fastavro
import pytest

from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.policy.manifest import Policy
from etc_policy.policy.schema import Strategy
from tests.integration.bench import Bench
from tests.integration.history import EPOCH_MS, HISTORY, Oracle, Views, Write, partition_of, write_history
from tests.integration.test_apply_process import POLICY, run, run_without_time, start_and_stop_at_inflight
from tests.integration.test_table_kinds import LOG_ONLY, Kind

pytestmark = pytest.mark.spark
ORACLE = Oracle.of(HISTORY)
#: Partition `c` has four log files, the others five; the first event in its log files is at this second.
FIRST_IN_C = 101


@dataclass
class StockBench(Bench):
    """A table with a policy of a strategy of Hudi's own."""

    strategy: dict = field(default_factory=dict)

    @property
    def policy(self) -> Policy:
        return with_strategy(super().policy, self.strategy)


@dataclass
class StockKind(Kind):
    """The same for other kinds of table."""

    strategy: dict = field(default_factory=dict)

    @property
    def policy(self) -> Policy:
        return with_strategy(super().policy, self.strategy)


def with_strategy(policy: Policy, strategy: dict) -> Policy:
    declared = Strategy.from_yaml({**strategy, "granularity": "file_slice"})
    return policy.model_copy(update={"strategy": declared})


def chosen_by_etc(bench) -> dict[tuple[str, str], tuple]:
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    table = bench.plan(10_000).tables[0]
    assert table.action != "refused", table.reason
    return {one.group: (one.base_file, frozenset(one.log_files_compacted)) for one in table.operations}


def chosen_by_hudi(bench, **more: str) -> dict[tuple[str, str], tuple]:
    """What stock Hudi schedules by the policy's options and more, on a copy of the table."""
    copy = bench.base.with_name(f"{bench.base.name}-by-hudi")
    shutil.copytree(bench.base, copy)
    options = {**bench.policy.stock_options, "hoodie.compact.inline.max.delta.commits": "1", **more}
    text = ",".join(f"{key}={value}" for key, value in options.items())
    bench.spark.sql(f"CALL run_compaction(op => 'schedule', path => '{copy}', options => '{text}')")
    known = {plan.name for plan in (bench.base / ".hoodie" / "timeline").iterdir()}
    plans = [plan for plan in (copy / ".hoodie" / "timeline").glob("*.compaction.requested") if plan.name not in known]
    found = _operations(plans[0]) if plans else {}
    shutil.rmtree(copy, ignore_errors=True)
    return found


def _operations(plan: Path) -> dict[tuple[str, str], tuple]:
    with plan.open("rb") as file:
        (content,) = fastavro.reader(file)
    return {
        (one["partitionPath"], one["fileId"]): (one["dataFilePath"], frozenset(one["deltaFilePaths"]))
        for one in content["operations"]
    }


@pytest.mark.extended
def test_the_slices_that_hudis_own_planner_takes(spark, written_table, tmp_path):
    shutil.copytree(written_table, tmp_path / "t")
    bench = StockBench(spark, tmp_path / "t", strategy={"type": "unbounded"})
    sizes = sorted(sum(log.size_bytes for log in one.log_files) for one in bench.state().slices)
    expected = {
        json.dumps(strategy): partitions
        for strategy, partitions in (
            ({"type": "unbounded"}, "abc"),
            ({"type": "bounded_io", "target_io": "50 GiB"}, "abc"),
            ({"type": "log_file_num", "min_log_files": 5}, "ab"),
            ({"type": "log_file_num", "min_log_files": 6}, ""),
            ({"type": "log_file_size", "min_log_size": sizes[1]}, None),
            ({"type": "log_file_size"}, "abc"),
            ({"type": "partition_regex", "regex": "^[ac]$"}, "ac"),
        )
    }
    for text, partitions in expected.items():
        bench.strategy = json.loads(text)
        by_etc = chosen_by_etc(bench)
        assert by_etc == chosen_by_hudi(bench), text
        found = "".join(sorted(partition for partition, _ in by_etc))
        assert found == partitions if partitions is not None else len(found) == 2, text


@pytest.mark.extended
def test_a_budget_is_spent_as_by_hudi(spark, tmp_path):
    """Slices without a base file count as one of the largest size that Hudi writes: here two are beyond the budget."""
    table = StockKind(spark, tmp_path / "t", options=LOG_ONLY)
    for second, keys in enumerate(((0, 1, 2), (0, 1), (0,)), 1):
        table.write(*((key, f"v{second}", second) for key in keys))
    for mebibytes, partitions in ((100, "a"), (120, "a"), (121, "ab"), (240, "ab"), (241, "abc")):
        for kind in ("log_file_num", "log_file_size"):
            table.strategy = {"type": kind, "target_io": mebibytes * 2**20}
            by_etc = chosen_by_etc(table)
            assert "".join(sorted(partition for partition, _ in by_etc)) == partitions
            assert by_etc == chosen_by_hudi(table), table.strategy


@pytest.mark.extended
def test_the_latest_days_as_by_hudi(spark, tmp_path):
    def row(key, value, at):
        return (key, f"2026/01/{key + 1:02d}", value, at)

    table = StockKind(spark, tmp_path / "t", to_row=row)
    table.write(*((key, "v0", key) for key in range(4)))
    table.write((0, "v1", 100), (1, "v1", 101), (2, "v1", 102))
    for count, days in ((1, ()), (2, ("03",)), (3, ("02", "03")), (9, ("01", "02", "03"))):
        table.strategy = {"type": "day_based", "latest_partitions": count}
        by_etc = chosen_by_etc(table)
        assert sorted(partition for partition, _ in by_etc) == [f"2026/01/{day}" for day in days]
        assert by_etc == chosen_by_hudi(table), count


@pytest.mark.extended
def test_hudi_still_sees_what_a_plan_left(spark, written_table, tmp_path):
    """Incrementally it looks only at partitions with later commits, and at those that the last plan says it missed."""
    shutil.copytree(written_table, tmp_path / "t")
    bench = StockBench(spark, tmp_path / "t", strategy={"type": "partition_regex", "regex": "^a$"})
    before = bench.state()
    assert {one.partition for one in before.slices if one.log_files} == {"a", "b", "c"}
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    assert bench.apply(bench.plan(10_000)).status == "compacted"
    write_history(spark, bench.base, (Write(((0, "later", 900),)),), first=len(HISTORY))
    bench.strategy = {"type": "unbounded"}
    chosen = chosen_by_hudi(bench, **{"hoodie.table.services.incremental.enabled": "true"})
    assert {partition for partition, _ in chosen} == {"a", "b", "c"}


@pytest.fixture
def project(written_table, tmp_path):
    shutil.copytree(written_table, tmp_path / "t")
    (tmp_path / "policies").mkdir()
    return tmp_path


def declare(project: Path, strategy: str) -> None:
    text = POLICY.format(table=project / "t").replace("level: metadata", "level: data")
    (project / "policies" / "t.yml").write_text(f"{text}    strategy: {strategy}\n")


def applied(project: Path) -> str:
    result = run(project, "apply", "--yes", "--output", "json")
    assert result.returncode == 0, result.stderr
    (table,) = json.loads(result.stdout)["tables"]
    return table["status"]


def complete_until_ms(project: Path) -> int:
    """What `etc freshness` says of RO, in epoch milliseconds."""
    result = run(project, "freshness", "--output", "json")
    (table,) = json.loads(result.stdout)["tables"]
    return table["complete_until_ms"]


@pytest.mark.extended
def test_applied_verified_killed_and_finished(no_spark, project):
    """The slice with few log files holds T back, a killed run is finished by the next, and `unbounded` leaves nothing."""
    views = Views(None, project / "t")
    declare(project, "{type: log_file_num, min_log_files: 5}")
    first = start_and_stop_at_inflight(project)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert applied(project) == "resumed"
    assert views.rust() == ORACLE.rt()
    ro, whole = views.rust(read_optimized=True), ORACLE.rt()
    assert {key: ro[key] for key in whole if partition_of(key) in "ab"} == {
        key: value for key, value in whole.items() if partition_of(key) in "ab"
    }
    assert ro != whole
    assert complete_until_ms(project) == EPOCH_MS + FIRST_IN_C * 1000 - 1
    plan = json.loads(run(project, "plan", "--output", "json").stdout)["tables"][0]
    assert (plan["action"], plan["threshold_ms"]) == ("nothing_due", EPOCH_MS + FIRST_IN_C * 1000 - 1)

    declare(project, "{type: unbounded}")
    assert applied(project) == "compacted"
    assert views.rust() == views.rust(read_optimized=True) == ORACLE.rt()
    assert complete_until_ms(project) == EPOCH_MS + 210_000
    assert run_without_time(project, "verify").returncode == 0
