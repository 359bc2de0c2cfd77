"""A repair that is killed while it renames a file is finished by the next one."""

import os
import time
from zoneinfo import ZoneInfo

import pytest

from etc_policy.errors import EngineError, TableError
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.repair import plan_repair
from etc_policy.policy.manifest import EventTime
from etc_policy.spark.completion_repair import HudiRepairFiles
from etc_policy.storage.local import LocalStorage
from etc_policy.table.instants import instant_from_ms
from tests.unit.hudi.table_folder import base, log

NOW_MS = time.time_ns() // 1_000_000
UTC = ZoneInfo("UTC")
HOURS_OFF = 8


def ago(seconds):
    return instant_from_ms(NOW_MS - seconds * 1000, UTC)


def written(path, seconds):
    os.utime(path, (NOW_MS / 1000 - seconds,) * 2)
    return path


@pytest.fixture
def wrong(table):
    """The compaction that completed in another zone, by its file."""
    written(table.commit(ago(4000), ago(3995), base("f1")), 3995)
    for seconds in (3000, 2000):
        written(table.commit(ago(seconds), ago(seconds - 5), log("f1", 7)), seconds - 5)
    return written(table.compaction(ago(1010), ago(1000 + HOURS_OFF * 3600), base("f1")), 1000)


@pytest.fixture(params=[False, True], ids=["listed in order", "in reverse"])
def listing(request, monkeypatch):
    names = LocalStorage.names
    monkeypatch.setattr(
        LocalStorage, "names", lambda storage, folder: sorted(names(storage, folder), reverse=request.param)
    )


def commits(table):
    return sorted(path.name for path in table.timeline.glob("*.commit"))


def read(table):
    return FileTableReader().read(str(table.base), EventTime(column="ts", unit="ms"))


def test_both_names_are_left_and_the_next_repair_removes_the_wrong_one(table, wrong, listing):
    files = HudiRepairFiles()
    (step,) = plan_repair(files.facts(str(table.base))).steps
    right = wrong.with_name(f"{ago(1010)}_{ago(1000)}.commit")
    os.link(wrong, right)  # where a kill between the two steps of a rename leaves it
    with pytest.raises(TableError, match="has two completed files") as error:
        read(table)
    assert "`etc repair` was killed" in error.value.hint
    assert plan_repair(files.facts(str(table.base))).steps == (step,)
    files.set_completion(str(table.base), step)
    assert commits(table) == [right.name]
    assert plan_repair(files.facts(str(table.base))).steps == ()
    assert read(table).wrong_times == ()


def test_another_file_of_the_right_name_is_not_touched(table, wrong):
    files = HudiRepairFiles()
    (step,) = plan_repair(files.facts(str(table.base))).steps
    right = wrong.with_name(f"{ago(1010)}_{ago(1000)}.commit")
    right.write_bytes(b"another")
    with pytest.raises(EngineError):
        files.set_completion(str(table.base), step)
    assert commits(table) == sorted((wrong.name, right.name))


def test_two_times_that_may_both_be_true_are_refused_in_whatever_order_listed(table, listing):
    table.commit(ago(4000), ago(3995), base("f1"))
    twice = table.commit(ago(3000), ago(2995), log("f1", 7))
    twice.with_name(f"{ago(3000)}_{ago(2900)}.deltacommit").write_bytes(twice.read_bytes())
    with pytest.raises(TableError) as error:
        read(table)
    assert error.value.code == "ETC208"
    assert f"{ago(3000)}_{ago(2995)}.deltacommit and {ago(3000)}_{ago(2900)}" in error.value.message


def test_a_clean_that_two_writers_carried_out_is_no_trouble(table, listing):
    table.commit(ago(4000), ago(3995), base("f1"))
    for seconds in (2990, 2980):
        table.file(ago(3000), f"_{ago(seconds)}.clean")
    assert [one.completed for one in read(table).instants if one.action == "clean"] == [ago(2980)]
