"""A `_SUCCESS` in partitions disturbs nobody: readers, the cleaner, stock compaction, a metadata table that is made after it."""

import shutil
from pathlib import Path

import pytest

from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.sending import SuccessFile
from etc_policy.storage.open_storage import open_storage
from etc_policy.table.done import DoneEvent
from tests.integration.hudi_tables import StockTable

pytestmark = [pytest.mark.spark, pytest.mark.extended]
PARTITIONS = ("dt=2026-01-01", "dt=2026-01-02")
GOES_ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}


def write(table, number, **options):
    rows = [(key, PARTITIONS[key % 2], 1000 + number, f"v{number}") for key in range(4)]
    return table.write(rows, **options)


def mark(base):
    policy = Policy(name="t", table=str(base), event_time=EventTime(column="ts"), data_latency_ms=0)
    action = SuccessFile(open_storage(str(base)), "_SUCCESS", removes=True, policy=policy)
    for partition in PARTITIONS:
        values = {"key": "k", "kind": "done", "number": 1, "found_at_ms": 0, "instant": ""}
        action.send(DoneEvent.model_validate({"partition": partition, **values}))
        assert Path(base, partition, "_SUCCESS").stat().st_size > 0


def views(table, spark):
    """RT and RO by Spark, by listing and by the metadata table, all commits incrementally, and RT by hudi-rs."""
    from hudi import HudiTable

    found = {}
    for metadata in ("false", "true"):
        for optimized in ("false", "true"):
            reader = spark.read.format("hudi").option("hoodie.metadata.enable", metadata)
            rows = reader.option("hoodie.query.as.ro.table", optimized).load(table.base).select("id", "p", "ts", "v")
            found[metadata, optimized] = sorted(map(tuple, rows.collect()))
    reader = spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental")
    changed = reader.option("hoodie.datasource.read.begin.instanttime", "0").load(table.base)
    found["incremental"] = sorted(map(tuple, changed.select("id", "v").collect()))
    batches = HudiTable(table.base).read()
    found["hudi-rs"] = sorted((row["id"], row["v"]) for batch in batches for row in batch.to_pylist())
    return found


def test_nobody_is_disturbed_by_it(spark, tmp_path):
    options = {"hoodie.datasource.write.hive_style_partitioning": "false"}
    plain = StockTable(spark, str(tmp_path / "plain"), "id int, p string, ts long, v string", options=options)
    for number in range(2):
        write(plain, number)
    shutil.copytree(plain.base, tmp_path / "marked")
    marked = StockTable(spark, str(tmp_path / "marked"), plain.schema, options=options)
    mark(marked.base)
    assert views(marked, spark) == views(plain, spark)
    for table in (plain, marked):
        for number in range(2, 5):
            write(table, number, **GOES_ON)
    assert views(marked, spark) == views(plain, spark)
    for partition in PARTITIONS:
        assert Path(marked.base, partition, "_SUCCESS").exists()
        counts = [len(list(Path(table.base, partition).glob("*.parquet"))) for table in (plain, marked)]
        assert counts[0] == counts[1] < 5
    cleaned = [[action for _, _, action in table.completed()].count("clean") for table in (plain, marked)]
    assert cleaned[0] == cleaned[1] > 0
