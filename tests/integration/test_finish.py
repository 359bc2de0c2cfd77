"""`etc finish` runs what stock jobs have scheduled: the hint that a refused plan prints, on tables that it is printed for."""

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
    if service == "logcompaction":
        schedule_log_compaction(bench)
    else:
        options = ",".join(f"{key}={value}" for key, value in {**INDEXED, **SCHEDULING}.items())
        where = f"op => 'schedule', path => '{bench.base}', options => '{options}'"
        bench.spark.sql(f"CALL run_{service}({where})").collect()
    (pending,) = [one for one in bench.state().pending if one.action == service]
    return pending


def schedule_log_compaction(bench):
    """By the stock client, as a writer with `hoodie.log.compaction.enable` does; no procedure of SQL does it."""
    jvm = bench.spark._jvm
    options = jvm.java.util.HashMap()
    for key, value in {**INDEXED, **SCHEDULING}.items():
        options.put(key, value)
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    create = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
    client = create(bench.spark._jsparkSession, str(bench.base), jvm.PythonUtils.toScalaMap(options), none)
    try:
        assert client.scheduleLogCompaction(jvm.org.apache.hudi.common.util.Option.empty()).isPresent()
    finally:
        client.close()


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


@pytest.mark.parametrize("service", ["compaction", "clustering", "logcompaction"])
def test_the_hint_of_a_refused_plan_finishes_the_service_and_keeps_all_indexes(bench, capsys, monkeypatch, service):
    monkeypatch.setattr(SparkSessions, "_start_spark", lambda *_: bench.spark)
    monkeypatch.setattr(SparkSessions, "close", lambda _: None)
    before = indexes(bench)
    assert {"record_index", "bloom_filters", "files"} <= set(before)
    pending = schedule(bench, service)
    plan = bench.plan().tables[0]
    assert (plan.action, plan.reason_code) == ("refused", "pending_service")
    (hint,) = plan.hints
    code, said = hinted(bench, capsys, hint.split("`")[1])
    finished = {"policy": "t", "action": service, "instant": pending.requested}
    assert (code, said["finished"]) == (0, [finished])

    assert indexes(bench) == before
    views = Views(bench.spark, bench.base)
    assert views.rt() == views.rt_without_mdt() == views.rust() == ORACLE.rt()
    if service == "compaction":
        assert views.ro() == views.rust(read_optimized=True) == ORACLE.rt()
    write_history(bench.spark, bench.base, (LATER,), options=INDEXED, first=len(HISTORY))
    assert views.rt()[1] == "after"
    assert views.rt()[8] == "new"
    plan = bench.plan(second=1000)
    assert plan.tables[0].action == "compact"
    if service == "logcompaction":  # its log file holds again what older ones hold
        bench.apply(plan)
        assert views.rt() == views.ro() == views.rust() == views.rust(read_optimized=True)
        assert views.rt() == {**ORACLE.rt(), 1: "after", 8: "new"}
    assert Project(bench.base.parents[1]).finish().finished == ()


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
