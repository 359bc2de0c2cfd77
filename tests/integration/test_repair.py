"""Tables that a job in another zone has hurt: recognised, repaired wherever a repair may die, and right after it."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from etc_policy.errors import EngineError, RetryableError
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.plan.repair import RebuildMetadata, SetCompletion
from etc_policy.report.freshness import table_freshness
from etc_policy.run.file_lease import FileLease
from etc_policy.run.ports import Job
from etc_policy.run.repairer import Repairer
from etc_policy.spark.compactor import HudiCompactor
from etc_policy.spark.completion_repair import HudiRepairFiles
from etc_policy.spark.hudi_client import hudi_client, hudi_table
from etc_policy.spark.metadata_renewal import drop
from etc_policy.wiring import clock_ms
from tests.integration.bench import AT_THE_CUT, ORACLE, Bench, check_views
from tests.integration.history import HISTORY, QUICK, Oracle, Views, Write, write_history
from tests.integration.other_zone import compact_in_zone

pytestmark = [pytest.mark.spark, pytest.mark.extended]
ZONES = ("America/Los_Angeles", "Asia/Tokyo")
OPTIONS = {**QUICK, "hoodie.table.timeline.timezone": "UTC", "hoodie.metadata.compact.max.delta.commits": "2"}
#: Enough commits for the metadata table to be compacted after the wrong time.
LATER = tuple(Write(((1, f"w{n}", 700 + n), (4, f"w{n}", 700 + n))) for n in range(3))
#: RO after the compaction: the state after commit 5.
COMPACTED = ORACLE.as_of(5)


class KilledError(Exception):
    """The end of a run, at a step that begins."""


@pytest.fixture(scope="module")
def utc_table(spark, tmp_path_factory):
    base = tmp_path_factory.mktemp("zoned") / "t"
    write_history(spark, base, options=OPTIONS)
    return base


@pytest.fixture
def bench(spark, utc_table, tmp_path):
    shutil.copytree(utc_table, tmp_path / "t")
    return Bench(spark, tmp_path / "t")


def repairer(bench, progress=lambda _: None):
    return Repairer(HudiRepairFiles(), lambda: HudiCompactor(bench.spark), FileLease, progress)


def repair(bench):
    found = repairer(bench).plan(str(bench.base))
    assert found.refusal is None
    repairer(bench).repair(bench.policy, found)
    return found.steps


def ro_of(views):
    return (
        views.ro(),
        views.read(hoodie__query__as__ro__table="true", hoodie__metadata__enable="false"),
        views.rust(read_optimized=True),
    )


def check_repaired(bench, history=HISTORY):
    views = Views(bench.spark, bench.base)
    if history is HISTORY:
        check_views(views, views.delta_commits(), since=AT_THE_CUT)
    else:
        assert views.rt() == views.rt_without_mdt() == views.rust() == Oracle.of(history).rt()
    assert ro_of(views) == (COMPACTED,) * 3
    assert bench.state().wrong_times == ()


def check_later(bench, history):
    """A stock write, and a compaction by etc, on the repaired table."""
    write = Write(((1, "last", 900), (2, "last", 901)))
    write_history(bench.spark, bench.base, (write,), options=OPTIONS, first=len(history))
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    later = bench.apply(bench.plan(second=1000))
    assert later.status == "compacted", later.reason
    views, oracle = Views(bench.spark, bench.base), Oracle.of((*history, write))
    assert views.rt() == views.rt_without_mdt() == views.rust() == oracle.rt()
    assert ro_of(views) == (oracle.rt(),) * 3


@pytest.mark.parametrize("zone", ZONES)
def test_a_compaction_by_a_job_in_another_zone_is_recognised_and_repaired(bench, zone):
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
    assert "etc repair t" in plan.hints[0]
    assert table_freshness(bench.policy, bench.state(), clock_ms(), clock_ms()).status == "unknown"

    steps = repair(bench)
    assert [(type(step), step.timeline) for step in steps] == [
        (SetCompletion, "metadata table"),
        (SetCompletion, "table"),
    ]
    assert {step.apart for step in steps} == {"8h" if early else "9h"}
    check_repaired(bench)
    assert bench.plan().tables[0].action == "nothing_due"
    assert repair(bench) == ()
    check_later(bench, HISTORY)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("killed_at", [1, 2])
def test_a_repair_that_dies_at_any_step_is_finished_by_the_next(bench, zone, killed_at):
    compact_in_zone(bench.spark, bench, bench.plan(), zone)
    kill(bench, killed_at)
    assert Views(bench.spark, bench.base).rt() == ORACLE.rt()
    assert bench.state().wrong_times
    repair(bench)
    check_repaired(bench)


def kill(bench, step):
    """A repair that dies when its step of that number begins."""
    begun = []

    def progress(text):
        begun.append(text)
        if len(begun) == step:
            raise KilledError(text)

    shown = repairer(bench).plan(str(bench.base))
    with pytest.raises(KilledError):
        repairer(bench, progress).repair(bench.policy, shown)


@pytest.mark.parametrize("zone", ZONES)
def test_a_metadata_table_that_was_compacted_by_the_wrong_time_is_built_again(bench, zone):
    compact_in_zone(bench.spark, bench, bench.plan(), zone)
    write_history(bench.spark, bench.base, LATER, options=OPTIONS, first=len(HISTORY))
    history, partitions = (*HISTORY, *LATER), bench.state().metadata_partitions
    shown = repairer(bench).plan(str(bench.base))
    assert [type(step) for step in shown.steps] == [RebuildMetadata, SetCompletion]
    kill(bench, 2)
    assert bench.state().metadata_partitions == partitions
    repair(bench)
    check_repaired(bench, history)
    assert bench.state().metadata_partitions == partitions
    check_later(bench, history)


def test_a_repair_that_dies_between_dropping_and_building_the_metadata_table(bench):
    compact_in_zone(bench.spark, bench, bench.plan(), ZONES[0])
    write_history(bench.spark, bench.base, LATER, options=OPTIONS, first=len(HISTORY))
    before = bench.state()
    job = Job(bench.policy, str(bench.base), before.table_version, before.metadata_partitions, "1")
    with hudi_client(bench.spark, job, EngineError("ETC000", "a kill")) as client:
        drop(bench.spark._jvm, client, hudi_table(bench.spark, client), job)
    assert bench.state().metadata_partitions == ()
    assert Views(bench.spark, bench.base).rt() == Oracle.of((*HISTORY, *LATER)).rt()
    repair(bench)
    assert bench.state().metadata_partitions == before.metadata_partitions
    check_repaired(bench, (*HISTORY, *LATER))
    assert repair(bench) == ()


@pytest.mark.parametrize("zone", ZONES)
def test_a_table_without_a_metadata_table_is_repaired_by_one_name(spark, tmp_path, zone):
    write_history(spark, tmp_path / "t", options={**OPTIONS, "hoodie.metadata.enable": "false"})
    bench = Bench(spark, tmp_path / "t")
    name = compact_in_zone(spark, bench, bench.plan(), zone, "hoodie.metadata.enable=false")
    assert bench.state().metadata_partitions == ()
    (step,) = repair(bench)
    assert f"{step.requested}_{step.completed}.commit" == name
    views = Views(spark, bench.base)
    assert views.rt() == views.rust() == ORACLE.rt()
    assert ro_of(views) == (COMPACTED,) * 3


def test_nothing_is_done_beside_a_writer_or_another_run_or_in_a_copy(bench, tmp_path):
    compact_in_zone(bench.spark, bench, bench.plan(), ZONES[0])
    shown = repairer(bench).plan(str(bench.base))
    with FileLease(str(bench.base)), pytest.raises(RetryableError, match="another `etc apply`"):
        repairer(bench).repair(bench.policy, shown)

    timeline = bench.base / ".hoodie" / "timeline"
    (timeline / "20990101000000000.deltacommit.requested").touch()
    refusal = repairer(bench).plan(str(bench.base)).refusal
    assert refusal is not None and "its writer may be alive" in refusal.reason
    (timeline / "20990101000000000.deltacommit.requested").unlink()

    shutil.copytree(bench.base, tmp_path / "copy", copy_function=shutil.copyfile)
    for file in (tmp_path / "copy").rglob("*.*commit"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    refusal = repairer(bench).plan(str(tmp_path / "copy")).refusal
    assert refusal is not None and "as in a copy of a table" in refusal.reason
