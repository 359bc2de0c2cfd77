"""Carried log files on real tables of version 6; `python -m tests.integration.version6` plays all kinds, and states that runs
leave, and `python -m tests.integration.random_kills --where version-6` kills runs."""

import random
import shutil

import pytest

from etc_policy.spark.session import start_spark
from tests.integration.bench import SECOND
from tests.integration.history import HISTORY, STRADDLING, Write, write_history
from tests.integration.kill_settings import OfVersion6
from tests.integration.kills import Project
from tests.integration.session import run_under_bundle, stop_spark
from tests.integration.version6 import Table6, make_table, play, play_first
from tests.integration.version6_kinds import FEW_WRITES, LAST, WRITES, Kind

pytestmark = [pytest.mark.spark, pytest.mark.extended]
LINKED = Kind(carry="hard_link")
#: Where runs are killed.
STEPS = ("carrying", "committing to the metadata table")


def test_every_view_is_right_at_each_step(spark, tmp_path):
    play_first(make_table(spark, tmp_path / "t", LINKED, FEW_WRITES), STRADDLING.start, STRADDLING.stop)


def test_so_is_it_after_two_more_plans_and_stock_services(spark, written_version_6, tmp_path):
    shutil.copytree(written_version_6, tmp_path / "t")
    play(Table6(spark, tmp_path / "t", kind=LINKED, history=WRITES))


def test_a_symbolic_link_dangles_once_the_stock_cleaner_has_run(spark, written_version_6, tmp_path):
    """Why `carry: symlink` is refused; `play` cleans hard links and copies likewise."""
    shutil.copytree(written_version_6, tmp_path / "t")
    table = Table6(spark, tmp_path / "t", kind=LINKED, history=WRITES)
    table.compact(SECOND)
    logs = {path.stat().st_ino: path for path in table.base.glob("*/.*.log.*") if path not in table.carried()}
    for one in table.carried():
        target = logs[one.stat().st_ino]
        one.unlink()
        one.symlink_to(target)
    assert table.views.rt() == table.oracle.rt()
    table.write(*LAST)
    table.clean()
    assert not any(one.exists() for one in table.carried())
    with pytest.raises(Exception, match=r"FileNotFound|does not exist"):
        table.views.rt()


def test_log_files_that_are_picked_wherever_they_stand_give_older_rows_back(spark, tmp_path, monkeypatch):
    """The RFC's choice by file: an update with an early event time is lost, and a deleted row comes back.

    See facts: prefix-not-pick.
    """
    newer_first = (Write(((1, "old", 900), (5, "old", 900))), Write(((1, "new", 100),)), Write(deleted=(5,)))
    kind = Kind(by_event_time=False)
    table = make_table(spark, tmp_path / "prefix", kind, (HISTORY[0], *newer_first))
    picked = table.copied(tmp_path / "picked")
    table.compact(SECOND)
    table.check("a prefix", len(table.history) - 1)

    def by_file(file_slice, due, _):
        logs = file_slice.log_files
        return tuple(one for one in logs if one in due), tuple(one for one in logs if one not in due)

    monkeypatch.setattr("etc_policy.plan.planning_context.split_slice", by_file)
    picked.apply(picked.plan())
    rt = picked.views.rt()
    assert {key: rt.get(key) for key in (1, 5)} == {1: "old", 5: "old"}
    assert {key: picked.oracle.rt().get(key) for key in (1, 5)} == {1: "new", 5: None}


#: Soon archived: each commit takes one before it off the active timeline.
ARCHIVED = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "1",
    "hoodie.metadata.compact.max.delta.commits": "1",
}


def test_rows_that_a_rollback_left_are_not_compacted(spark, tmp_path):
    """Once archiving has passed them, readers without the metadata table show them (facts: rolled-back-blocks-shown)."""
    table = make_table(spark, tmp_path / "t", writes=(HISTORY[0], Write(((4, "left", 150),))))
    (died,) = table.timeline(f"{table.views.delta_commits()[-1]}.deltacommit")
    died.unlink()  # its markers are gone
    options, number = {**table.kind.options, **ARCHIVED}, len(table.history)
    while table.timeline("[0-9]*.deltacommit")[0] < died:
        write_history(spark, table.base, (Write(((0, f"v{number}", 900 + number),)),), options, first=number)
        number += 1

    assert [rt[4] for rt in (table.views.rt(), table.views.rt_without_mdt())] == ["v0", "left"]
    table.granularity = "file_slice"
    (left,) = table.state().unrecorded_files
    (planned,) = table.plan(200).tables
    assert (planned.action, planned.reason_code, left in planned.reason) == ("refused", "files_unclear", True)


@pytest.mark.parametrize("release", ["0.15.0", "1.0.2"])
def test_every_view_is_right_under_earlier_bundles(no_spark, tmp_path, release):
    arguments = ("tests.integration.version6", str(tmp_path), "--first")
    said = run_under_bundle(release, *arguments, timeout_seconds=600)
    assert said.startswith("MDT on, hard_link, event time: right")
    assert "left at each of 1 steps, then finished or withdrawn: right" in said


def test_two_kills_and_one_run_that_mends_them(written_version_6, no_spark, tmp_path):
    setting, project, tables = OfVersion6(), Project(tmp_path), {}
    for number, step in enumerate(STEPS):
        name = f"t{number}"
        tables[name] = table = setting.add(project, name, written_version_6, "log_file", "", random.Random(number))
        at_least = table.order.index(step)
        project.kill_when(lambda table=table, least=at_least: table.order.index(table.step) >= least, name)
        assert at_least <= table.order.index(table.step) < table.order.index("committed"), project.stderr
    results = project.apply()
    assert {name: results[name]["status"] for name in tables} == dict.fromkeys(tables, "resumed")
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, tmp_path / "spark.log")
    try:
        for name, table in tables.items():
            assert results[name]["verification"]["status"] in ("pass", "warn")
            setting.check(spark, table, "metadata table")
    finally:
        stop_spark(spark)
