"""`etc finish` runs compactions that stock jobs have scheduled, and leaves to them what goes by choices that no table shows."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import time

import pytest

from etc_policy import Project
from etc_policy.cli.main import main
from etc_policy.errors import EngineError, OvertakenError
from etc_policy.hudi.layout import parse_data_file
from etc_policy.hudi.properties import read_properties
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.run.table_files import timeline_of
from etc_policy.storage.open_storage import open_storage
from etc_policy.table.history import TableHistory
from etc_policy.verify.diagnosis import CHECKS, TableFacts
from etc_policy.wiring import SparkSessions, clock_ms
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
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)  # an instant before it would be in the future of the writers
    plan = bench.plan(second=1000)
    assert plan.tables[0].action == "compact", plan.tables[0].reason
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


def carried_out_as_hinted(bench, hint, options):
    """The call that a hint has, as the writers fill it in."""
    (call,) = re.findall(r"`(CALL [^`]*)`", hint)
    filled = call.replace("KEY=VALUE,...", ",".join(f"{key}={value}" for key, value in options.items()))
    (done,) = bench.spark.sql(filled).collect()
    assert done.state == "COMPLETED"


@pytest.mark.parametrize("service", ["clustering", "logcompaction"])
def test_what_goes_by_its_writers_choices_is_carried_out_as_the_hint_says(bench, capsys, in_this_spark, service):
    before = indexes(bench)
    schedule(bench, service)
    hint = refused_hint(bench, service)
    code, said = hinted(bench, capsys, "etc finish --select t")
    assert (code, said["finished"], said["failed"][0]["hints"]) == (3, [], [hint])
    if service == "clustering":
        carried_out_as_hinted(bench, hint, {**INDEXED, **SCHEDULING})
    else:
        (option,) = re.findall("`(.*)=true`", hint)
        same = Write(((1, "v3", 300),))
        write_history(bench.spark, bench.base, (same,), options={**INDEXED, **SCHEDULING, option: "true"}, first=1)
    assert not [one for one in bench.state().pending if one.action == service]
    is_all_right(bench, before)


#: Buckets that a clustering splits and joins: the next writes go by its execution strategy.
_STRATEGY = "org.apache.hudi.client.clustering.{}.strategy.SparkConsistentBucketClustering{}Strategy"
RESIZED = {
    **QUICK,
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.min.num.buckets": "1",
    "hoodie.bucket.index.max.num.buckets": "16",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.parquet.max.file.size": "50000",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clustering.plan.strategy.class": _STRATEGY.format("plan", "Plan"),
    "hoodie.clustering.execution.strategy.class": _STRATEGY.format("run", "Execution"),
}
PREFERRED = "hoodie.write.lock.conflict.resolution.strategy"
#: Writers that go on beside a pending clustering, and win where it completes beside one of them.
UPDATING = {
    **QUICK,
    "hoodie.index.type": "SIMPLE",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    PREFERRED: "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy",
    "hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy",
}
KEYS = range(0, 60, 3)  # of one partition


def of_all(value, second):
    return Write(tuple((key, value, second) for key in KEYS))


def copy_of(bench, name, index=None):
    base = bench.base.with_name(name)
    shutil.copytree(bench.base, base)
    return Bench(bench.spark, base, index=index)


def clustering(bench, operation, options):
    told = ",".join(f"{key}={value}" for key, value in options.items())
    call = f"CALL run_clustering(path => '{bench.base}', op => '{operation}', options => '{told}')"
    return bench.spark.sql(call).collect()


def unseen_groups(bench):
    """The file groups that `etc debug` names, as those of the files that no reader sees."""
    state = bench.state()
    facts = TableFacts(bench.policy, state, TableHistory("", 9, "UTC", (), True), {}, clock_ms())
    status, message, _ = CHECKS["unseen rows"](facts)
    assert (status, all(path in message for path in state.unseen_files[:5])) == (
        "error" if state.unseen_files else "ok",
        True,
    )
    return {parse_data_file(path.rpartition("/")[2]).file_id for path in state.unseen_files}


def test_buckets_that_are_to_be_resized_are_left_to_their_writers(spark, tmp_path):
    """By any other strategy than theirs their later writes go to file groups that nobody reads."""
    bench = Bench(spark, tmp_path / "t", index="bucket")
    write_history(spark, bench.base, (of_all("v0", 1),), options=RESIZED)
    compacted = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    write_history(spark, bench.base, (of_all("v1", 2),), options={**RESIZED, **compacted}, first=1)
    asked = {"hoodie.clustering.schedule.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    write_history(spark, bench.base, (of_all("v2", 3),), options={**RESIZED, **asked}, first=2)
    hint = refused_hint(bench, "clustering")
    with pytest.raises(EngineError, match="a clustering at"):
        bench.finish()
    wrong, old = copy_of(bench, "wrong"), {one.file_id for one in bench.state().slices}

    carried_out_as_hinted(bench, hint, {**RESIZED, "hoodie.datasource.write.recordkey.field": "id"})
    clustering(wrong, "execute", QUICK)
    for one in (bench, wrong):
        write_history(spark, one.base, (of_all("v3", 4),), options=RESIZED, first=3)
    assert Views(spark, bench.base).rt() == dict.fromkeys(KEYS, "v3")
    assert unseen_groups(bench) == set()
    assert Views(spark, wrong.base).rt() == dict.fromkeys(KEYS, "v2")
    assert unseen_groups(wrong) == old


def test_a_row_that_was_written_since_a_clustering_was_scheduled_is_not_lost(spark, tmp_path):
    """Stock Hudi loses it where the clustering is not told how its writers resolve conflicts."""
    bench = Bench(spark, tmp_path / "t", index="simple")
    write_history(spark, bench.base, (of_all("v0", 1), of_all("v1", 2)), options=UPDATING)
    clustering(bench, "schedule", UPDATING)
    write_history(spark, bench.base, (Write(((3, "v2", 3),)),), options=UPDATING, first=2)
    with pytest.raises(EngineError, match="a clustering at"):
        bench.finish()
    assert Views(spark, bench.base).rt()[3] == "v2"
    assert unseen_groups(bench) == set()
    stock, (group,) = copy_of(bench, "stock"), {one.file_id for one in bench.state().slices}
    alone = {key: value for key, value in UPDATING.items() if key != PREFERRED}
    clustering(stock, "execute", alone)
    assert Views(spark, stock.base).rt()[3] == "v1"
    assert unseen_groups(stock) == {group}


@pytest.mark.parametrize("version", [6, 9])
def test_a_key_that_is_written_again_beside_a_scheduled_compaction_of_its_delete_is_there_once(
    spark, tmp_path, version
):
    """Stock Hudi makes two rows of it; before version 8 what writers have added forbids to take the plan back."""
    options = {
        **QUICK,
        "hoodie.index.type": "SIMPLE",
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
    }
    bench = Bench(spark, tmp_path / "t", "log_file" if version > 6 else "file_slice", "simple")
    rows = Write(((1, "v0", 1), (4, "v0", 2)))
    write_history(spark, bench.base, (rows, Write(deleted=(1,))), options=options)
    always = ",".join(f"{key}={value}" for key, value in {**options, **SCHEDULING}.items())
    bench.spark.sql(f"CALL run_compaction(op => 'schedule', path => '{bench.base}', options => '{always}')").collect()
    write_history(spark, bench.base, (Write(((1, "again", 3),)),), options=options, first=2)
    stock = copy_of(bench, "stock")
    stock.spark.sql(f"CALL run_compaction(op => 'run', path => '{stock.base}', options => '{always}')").collect()

    if version > 6:
        with pytest.raises(OvertakenError, match="was added to file group"):
            bench.finish()
    else:
        (done,) = bench.finish()
        assert done.writes_beside
        bench.apply(bench.plan(1000))
    assert bench.state().pending == ()
    for one in (bench, stock):
        write_history(spark, one.base, (Write(((1, "later", 4),)),), options=options, first=3)
    assert [Views(spark, one.base).frame().where("id = 1").count() for one in (bench, stock)] == [1, 2]


def test_before_version_8_a_clustering_is_left_to_its_writers_too(spark, tmp_path):
    options = {**UPDATING, "hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}
    del options[PREFERRED]  # stock's own call fails with it there (facts: clustering-against-itself)
    bench = Bench(spark, tmp_path / "t", "file_slice", "simple")
    write_history(spark, bench.base, (of_all("v0", 1), of_all("v1", 2)), options=options)
    clustering(bench, "schedule", options)
    carried_out = refused_hint(bench, "clustering")
    with pytest.raises(EngineError, match="a clustering at"):
        bench.finish()
    carried_out_as_hinted(bench, carried_out, options)
    assert Views(spark, bench.base).rt() == dict.fromkeys(KEYS, "v1")


def test_log_files_of_changes_are_no_part_of_what_is_compacted(spark, tmp_path):
    """Stock Hudi names them in its plans, and does not read them (facts: change-logs-planned)."""
    options = {**QUICK, "hoodie.index.type": "SIMPLE", "hoodie.table.cdc.enabled": "true"}
    bench = Bench(spark, tmp_path / "t", index="simple")
    always = ",".join(f"{key}={value}" for key, value in {**options, **SCHEDULING}.items())
    call = f"CALL run_compaction(op => '{{}}', path => '{bench.base}', options => '{always}')"
    write_history(spark, bench.base, (of_all("v0", 1), of_all("v1", 2)), options=options)
    spark.sql(call.format("scheduleandexecute")).collect()
    write_history(spark, bench.base, (of_all("v2", 3),), options=options, first=2)
    spark.sql(call.format("schedule")).collect()
    (pending,) = bench.state().pending
    (operation,) = timeline_of(bench.location).plan_of(pending.requested)["operations"]
    assert [name.endswith(".cdc") for name in operation["deltaFilePaths"]].count(True) == 1
    (done,) = bench.finish()
    assert (done.instant, done.log_files) == (pending.requested, 1)
    assert Views(spark, bench.base).rt() == Views(spark, bench.base).ro() == dict.fromkeys(KEYS, "v2")


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
