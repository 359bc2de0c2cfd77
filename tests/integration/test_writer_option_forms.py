"""The options that `etc compile` writes reach stock writers in each form, and make them record event times."""

import json
import shlex

import fastavro
import pytest

from etc_policy.compile.manifest import EventTime, Policy
from etc_policy.compile.writer_forms import render_options, render_spark_conf, render_tblproperties

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
        frame.write.format("hudi").options(**TABLE, **options).mode("append").save(str(table))


def test_the_dataframe_writer_takes_the_options(spark, tmp_path):
    _write(spark, tmp_path / "with", json.loads(render_options(POLICY)))
    assert _event_times(tmp_path / "with") == [(MS, MS + 5), (MS + 9, MS + 9)]


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
