"""The options that `etc compile` writes reach stock writers in each form, and make them record event times."""

import json
import shlex

import fastavro
import pytest

from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.table import read_shape
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.policy.writers import render_options, render_spark_conf, render_tblproperties, writer_options
from etc_policy.storage.open_storage import open_storage

pytestmark = pytest.mark.spark

MS = 1_711_846_800_123
POLICY = Policy(
    name="t_ro", table="/t", event_time=EventTime(column="ts"), data_latency_ms=1, log_file_max_bytes=1_000_000
)
TABLE = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.metadata.enable": "false",
}


def _event_times(table):
    """Smallest and largest event time of every write, commit by commit, as the commit files tell it."""
    times = []
    for commit in sorted((table / ".hoodie" / "timeline").glob("*.deltacommit")):
        with commit.open("rb") as file:
            (metadata,) = fastavro.reader(file)
        for stats in metadata["partitionToWriteStats"].values():
            times += [(stat["minEventTime"], stat["maxEventTime"]) for stat in stats]
    return times


def _write(spark, table, options):
    for rows in ([(1, MS), (2, MS + 5)], [(1, MS + 9)]):
        frame = spark.createDataFrame(rows, "id int, ts long")
        given = {key: value for key, value in {**TABLE, **options}.items() if value is not None}
        frame.write.format("hudi").options(**given).mode("append").save(str(table))


@pytest.mark.parametrize("ordering", [{}, {"hoodie.datasource.write.precombine.field": None}], ids=["ordered", "not"])
def test_the_dataframe_writer_takes_the_options(spark, tmp_path, ordering):
    """Of a table without an ordering field the second write failed, as the table had not taken the merge mode."""
    _write(spark, tmp_path / "with", {**json.loads(render_options(POLICY)), **ordering})
    assert _event_times(tmp_path / "with") == [(MS, MS + 5), (MS + 9, MS + 9)]


@pytest.mark.extended
def test_spark_sql_takes_the_confs_and_the_dataframe_writer_does_not(spark, tmp_path):
    confs = dict(word.split("=", 1) for word in shlex.split(render_spark_conf(POLICY))[1::2])
    for key, value in confs.items():
        spark.conf.set(key, value)
    try:
        spark.sql(
            "create table sql_table (id int, v string, ts bigint) using hudi "
            f"tblproperties (type='mor', primaryKey='id', orderingFields='ts') location '{tmp_path / 'sql'}'"
        )
        spark.sql(f"insert into sql_table values (1, 'a', {MS}), (2, 'b', {MS + 5})")
        spark.sql(f"update sql_table set v = 'c', ts = {MS + 9} where id = 1")
        _write(spark, tmp_path / "frame", {})
    finally:
        spark.sql("drop table if exists sql_table")
        for key in confs:
            spark.conf.unset(key)
    assert _event_times(tmp_path / "sql") == [(MS, MS + 5), (MS + 9, MS + 9)]
    assert _event_times(tmp_path / "frame") == [(None, None), (None, None)]


def test_spark_sql_takes_the_table_s_properties(spark, tmp_path):
    policy = POLICY.model_copy(update={"table": "default.props_table"})
    spark.sql(
        "create table props_table (id int, v string, ts bigint) using hudi "
        f"tblproperties (type='mor', primaryKey='id', orderingFields='ts') location '{tmp_path / 'props'}'"
    )
    try:
        spark.sql(render_tblproperties(policy).rstrip().rstrip(";"))
        spark.sql(f"insert into props_table values (1, 'a', {MS}), (2, 'b', {MS + 5})")
        spark.sql(f"update props_table set v = 'c', ts = {MS + 9} where id = 1")
        assert spark.sql("select v from props_table order by id").collect()[0].v == "c"
    finally:
        spark.sql("drop table if exists props_table")
    assert _event_times(tmp_path / "props") == [(MS, MS + 5), (MS + 9, MS + 9)]


SQL_KINDS = {
    "no ordering field": ("ts bigint", "", f"{MS}"),
    "an ordering field": ("ts bigint", ", orderingFields='ts'", f"{MS}"),
    "a timestamp": ("ts timestamp", ", orderingFields='ts'", "timestamp '2024-03-31 02:00:00'"),
    "a text": ("ts string", ", orderingFields='ts'", "'2024-03-31T02:00:00Z'"),
    "seconds": ("ts bigint", ", orderingFields='ts'", f"{MS // 1000}L"),
    "microseconds": ("ts bigint", ", orderingFields='ts'", f"{MS * 1000}"),
}
UNITS = {"seconds": "s", "microseconds": "us"}


@pytest.mark.extended
@pytest.mark.parametrize("kind", SQL_KINDS)
def test_writers_of_an_existing_table_go_on_with_its_options(spark, tmp_path, kind):
    """By SQL with the table's properties set, by MERGE INTO, and by the DataFrame writer."""
    column, ordering, value = SQL_KINDS[kind]
    path, name = tmp_path / "t", "kind_table"
    spark.sql(
        f"create table {name} (id int, v string, {column}) using hudi "
        f"tblproperties (type='mor', primaryKey='id'{ordering}) location '{path}'"
    )
    try:
        spark.sql(f"insert into {name} values (1, 'a', {value}), (2, 'b', {value})")
        event_time = EventTime(column="ts", unit=UNITS.get(kind))
        policy = POLICY.model_copy(update={"table": f"default.{name}", "event_time": event_time})
        shape = read_shape(str(path), policy.event_time)
        spark.sql(render_tblproperties(policy, shape).rstrip().rstrip(";"))
        spark.sql(f"update {name} set v = 'c' where id = 1")
        spark.sql(
            f"merge into {name} as t using (select 2 as id, 'd' as v, {value} as ts) as s on t.id = s.id "
            "when matched then update set * when not matched then insert *"
        )
        frame = spark.sql(f"select 3 as id, 'e' as v, {value} as ts")
        frame.write.format("hudi").options(**_of_table(path), **writer_options(policy, shape)).mode("append").save(
            str(path)
        )
        spark.sql(f"refresh table {name}")
        assert {row.id: row.v for row in spark.sql(f"select id, v from {name}").collect()} == {1: "c", 2: "d", 3: "e"}
    finally:
        spark.sql(f"drop table if exists {name}")


def _of_table(path):
    """What a DataFrame writer of that table says besides."""
    properties = read_properties(open_storage(str(path)))
    given = {"hoodie.table.name": properties["hoodie.table.name"], "hoodie.datasource.write.recordkey.field": "id"}
    ordering = properties.get("hoodie.table.ordering.fields") or properties.get("hoodie.table.precombine.field")
    return {**given, **({"hoodie.datasource.write.precombine.field": ordering} if ordering else {})}
