"""`etc finish` runs compactions that stock jobs have scheduled, and leaves to them what goes by choices that no table shows."""

from __future__ import annotations

import json
import re
import shlex
import shutil

import pytest

from etc_policy import Project
from etc_policy.cli.main import main
from etc_policy.hudi.properties import read_properties
from etc_policy.storage.open_storage import open_storage
from etc_policy.wiring import SparkSessions
from tests.command_blocks import REPOSITORY
from tests.integration.bench import ORACLE, Bench
from tests.integration.history import HISTORY, QUICK, Views, Write, write_history

pytestmark = [pytest.mark.spark, pytest.mark.extended]
INDEXED = {
    **QUICK,
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
LATER = Write(((1, "after", 950), (8, "new", 951)))


@pytest.fixture(scope="module")
def indexed_table(spark, tmp_path_factory):
    """A table with a record index and bloom filters, which the tests copy."""
    base = tmp_path_factory.mktemp("indexed") / "t"
    write_history(spark, base, options=INDEXED)
    return base


@pytest.fixture
def bench(spark, indexed_table, tmp_path):
    base = tmp_path / "lake" / "t"
    shutil.copytree(indexed_table, base)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "t.yml").write_text(
        f"version: 1\npolicies: [{{name: t, table: {base}, event_time_column: {{column: ts, unit: ms}}, data_latency: 10s}}]\n"
    )
    return Bench(spark, base)


def schedule(bench, service):
    """What a stock job schedules, with the settings of the table's writers, and then does not run."""
    options = ",".join(f"{key}={value}" for key, value in {**INDEXED, **SCHEDULING}.items())
    where = f"op => 'schedule', path => '{bench.base}', options => '{options}'"
    bench.spark.sql(f"CALL run_{service}({where})").collect()
    (pending,) = [one for one in bench.state().pending if one.action == service]
    return pending


SCHEDULING = {
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.plan.strategy.small.file.limit": "1000000000",
    "hoodie.log.compaction.enable": "true",
    "hoodie.log.compaction.blocks.threshold": "1",
}


def indexes(bench):
    return read_properties(open_storage(str(bench.base)))["hoodie.table.metadata.partitions"].split(",")


def hinted(bench, capsys, arguments):
    """Run the command that the refused plan's hint names, as a user pastes it, in the project of the table."""
    command = shlex.split(arguments)
    assert command[0] == "etc"
    project = bench.base.parents[1]
    code = main([*command[1:], "--project-dir", str(project), "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def in_this_spark(spark, monkeypatch):
    """Commands use the session of the tests."""
    monkeypatch.setattr(SparkSessions, "_start_spark", lambda *_: spark)
    monkeypatch.setattr(SparkSessions, "close", lambda _: None)


def refused_hint(bench, action):
    """The hint of a plan that is refused because of a service."""
    plan = bench.plan().tables[0]
    assert (plan.action, plan.reason_code, plan.pending.action) == ("refused", "pending_service", action)
    (hint,) = plan.hints
    return hint


def is_all_right(bench, before):
    """Indexes are as they were, and each view has what was written; later writes and compactions go on."""
    assert indexes(bench) == before
    views = Views(bench.spark, bench.base)
    assert views.rt() == views.rt_without_mdt() == views.rust() == ORACLE.rt()
    write_history(bench.spark, bench.base, (LATER,), options=INDEXED, first=len(HISTORY))
    plan = bench.plan(second=1000)
    assert plan.tables[0].action == "compact"
    bench.apply(plan)
    assert views.rt() == views.ro() == views.rust() == views.rust(read_optimized=True)
    assert views.rt() == {**ORACLE.rt(), 1: "after", 8: "new"}


def test_the_hint_of_a_refused_plan_finishes_a_compaction_and_keeps_all_indexes(bench, capsys, in_this_spark):
    before = indexes(bench)
    assert {"record_index", "bloom_filters", "files"} <= set(before)
    pending = schedule(bench, "compaction")
    code, said = hinted(bench, capsys, refused_hint(bench, "compaction").split("`")[1])
    assert (code, said["finished"]) == (0, [{"policy": "t", "action": "compaction", "instant": pending.requested}])
    views = Views(bench.spark, bench.base)
    assert views.ro() == views.rust(read_optimized=True) == ORACLE.rt()
    assert Project(bench.base.parents[1]).finish().finished == ()
    is_all_right(bench, before)


def test_a_plan_of_etc_is_left_to_apply(bench):
    plan = bench.plan()
    bench.publish(plan)
    assert Project(bench.base.parents[1]).finish().finished == ()
    assert bench.state().own_pending == plan.tables[0].instant


def test_the_metadata_table_is_built_again_as_the_page_says(bench):
    """With the indexes that the writer's options name: without them they would be gone."""
    before, name = indexes(bench), "dropped"
    page = (REPOSITORY / "docs" / "how-to" / "repair.md").read_text("utf-8")
    (statement,) = re.findall(r"`(CALL [^`]*)`", page)
    bench.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{bench.base}'")
    try:
        bench.spark.sql(statement.replace("db.table", name)).collect()
    finally:
        bench.spark.sql(f"DROP TABLE {name}")
    assert indexes(bench) == [""]
    write_history(bench.spark, bench.base, (LATER,), options=INDEXED, first=len(HISTORY))
    assert indexes(bench) == before
    views = Views(bench.spark, bench.base)
    assert views.rt() == views.rt_without_mdt() == views.rust() == {**ORACLE.rt(), 1: "after", 8: "new"}
