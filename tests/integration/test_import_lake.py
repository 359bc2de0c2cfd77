"""A lake of twelve tables of different making: `etc import`, its questions answered, and the project does what a project does."""

import datetime as dt
import json
import re
import time

import pytest

from etc_policy.cli.main import main
from etc_policy.wiring import SparkSessions

pytestmark = [pytest.mark.spark, pytest.mark.extended]
NOW_S = int(time.time())
BASE = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.compact.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.metadata.enable": "false",
}
UNPARTITIONED = {
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}
#: What differs in the making of each table that DataFrames write: its event time, and its options.
FRAMES = {
    "plain": ("long", {}),
    "tracked": ("long", {"hoodie.write.track.event.time.watermark": "true"}),
    "timestamps": ("timestamp", UNPARTITIONED),
    "dates": ("date", {}),
    "bucket": ("long", {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}),
    "record_index": (
        "long",
        {
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.record.index.enable": "true",
            "hoodie.index.type": "RECORD_INDEX",
        },
    ),
    "no_meta_columns": ("long", {"hoodie.populate.meta.fields": "false", "hoodie.index.type": "SIMPLE"}),
    "version_6": ("long", {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}),
    "hive_style": (
        "long",
        {"hoodie.datasource.write.hive_style_partitioning": "true", "hoodie.index.type": "GLOBAL_SIMPLE"},
    ),
}
LAKE = {*FRAMES, "sql", "sql_ordered", "stream"}


def rows_of(kind, value, ids, minutes_ago):
    """Rows with an event a minute, the last so many minutes ago."""
    times = {key: NOW_S - (minutes_ago + place) * 60 for place, key in enumerate(ids)}
    read = {
        "long": lambda second: second * 1000,
        "timestamp": lambda second: dt.datetime.fromtimestamp(second, dt.UTC),
        "date": lambda second: dt.datetime.fromtimestamp(second, dt.UTC).date() - dt.timedelta(days=2),
    }[kind]
    return [(key, value, read(second), f"p{key % 2}") for key, second in times.items()]


def write_frames(spark, base, kind, options):
    whole = {**BASE, "hoodie.table.name": base.name, **options}
    for operation, value, ids, minutes_ago in (
        ("bulk_insert", "v0", range(12), 400),
        ("upsert", "v1", range(6), 300),
        ("upsert", "v2", range(4, 14), 200),
    ):
        frame = spark.createDataFrame(rows_of(kind, value, ids, minutes_ago), f"id int, v string, ts {kind}, p string")
        named = {**whole, "hoodie.datasource.write.operation": operation}
        frame.coalesce(1).write.format("hudi").options(**named).mode("append").save(str(base))


def write_sql(spark, base, ordering):
    name = base.name
    spark.sql(
        f"CREATE TABLE {name} (id int, v string, placed_at timestamp) USING hudi "
        f"TBLPROPERTIES (type = 'mor', primaryKey = 'id'{ordering}) LOCATION '{base}'"
    )
    try:
        values = ", ".join(f"({key}, 'v0', timestamp_seconds({NOW_S - 24_000 - key}))" for key in range(6))
        spark.sql(f"INSERT INTO {name} VALUES {values}")
        spark.sql(f"UPDATE {name} SET v = 'v1', placed_at = timestamp_seconds({NOW_S - 20_000}) WHERE id < 3")
        spark.sql(f"DELETE FROM {name} WHERE id = 5")
    finally:
        spark.sql(f"DROP TABLE {name}")  # an external one: its files stay


def write_stream(spark, base, source):
    source.mkdir()
    for number in range(3):
        lines = [
            json.dumps(
                {
                    "id": key,
                    "v": f"v{number}",
                    "ts": dt.datetime.fromtimestamp(NOW_S - 20_000 + key, dt.UTC).isoformat(),
                }
            )
            for key in range(8)
        ]
        (source / f"{number}.json").write_text("\n".join(lines))
        options = {**BASE, **UNPARTITIONED, "hoodie.table.name": base.name}
        stream = spark.readStream.schema("id int, v string, ts string").json(str(source)).writeStream.format("hudi")
        query = stream.options(**options).option("checkpointLocation", str(source.parent / "checkpoint"))
        query = query.outputMode("append").trigger(availableNow=True).start(str(base))
        query.awaitTermination()
        assert query.exception() is None


def answered(text):
    """A policy's file, where the answer that is below each question is taken; events are due after an hour, late as they came."""
    taken = re.sub(r"^( +)# \? .*\n(?:\1# (?![a-z_]+: ).*\n)*\1# ([a-z_]+: .*)$", r"\1\2", text, flags=re.MULTILINE)
    return re.sub(r"^( +data_latency: ).*$", r"\g<1>1h", taken, flags=re.MULTILINE)


@pytest.fixture
def lake(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(SparkSessions, "_start_spark", lambda *_: spark)
    monkeypatch.setattr(SparkSessions, "close", lambda _: None)
    folder = tmp_path / "lake"
    for name, (kind, options) in FRAMES.items():
        write_frames(spark, folder / name, kind, options)
    write_sql(spark, folder / "sql", "")
    write_sql(spark, folder / "sql_ordered", ", orderingFields = 'placed_at'")
    write_stream(spark, folder / "stream", tmp_path / "arriving")
    monkeypatch.chdir(tmp_path)
    return folder


def test_twelve_tables_are_imported_planned_compacted_and_verified(lake, tmp_path, capsys):
    def etc(*arguments):
        capsys.readouterr()
        code = main(list(arguments))
        found = capsys.readouterr()
        assert code == 0, f"{arguments}: {code}\n{found.out}\n{found.err}"
        return found.out

    properties = {name: (lake / name / ".hoodie" / "hoodie.properties").read_bytes() for name in LAKE}
    found = etc("import", "--bucket", "lake")
    assert {line.split()[0] for line in found.splitlines() if line.split()[1:2] == ["written"]} == LAKE
    files = sorted((tmp_path / "policies").glob("*.yml"))
    asked = sum(text.count("# ? ") for text in (file.read_text() for file in files))
    assert asked >= len(LAKE)  # nobody but "tracked" records event times, and that one has too few writes
    for file in files:
        file.write_text(answered(file.read_text()))
    parsed = etc("parse")
    assert "12 policies OK" in parsed
    listed = etc("plan")
    plan = json.loads(etc("plan", "--output", "json"))
    assert {one["policy"]: one["action"] for one in plan["tables"]} == dict.fromkeys(LAKE, "compact")
    results = json.loads(etc("apply", "--yes", "--output", "json"))
    done = {one["policy"]: (one["status"], one["verification"]["status"]) for one in results["tables"]}
    assert done == dict.fromkeys(LAKE, ("compacted", "pass"))
    verdicts = json.loads(etc("verify", "--output", "json"))["tables"]
    assert {one["policy"]: one["verification"]["status"] for one in verdicts} == dict.fromkeys(LAKE, "pass")
    assert {name: (lake / name / ".hoodie" / "hoodie.properties").read_bytes() for name in LAKE} == properties
    print(found, parsed, listed, sep="\n")
