"""Event times from the blocks that stock Hudi wrote, against what Spark reads from the same commits."""

import datetime as dt
import shutil
import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from etc_policy.gx.event_time_sql import event_time_ms
from etc_policy.hudi import event_time_values
from etc_policy.hudi.base_times import with_left_times
from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.table_files import timeline_of
from etc_policy.storage.object_cache import MemoryCache
from etc_policy.table.instants import instant_to_ms
from tests.integration.bench import Bench
from tests.integration.history import EPOCH_MS, QUICK, WRITER, Write, partition_of, write_history
from tests.integration.hudi_tables import StockTable
from tests.nightly import nightly

pytestmark = pytest.mark.spark

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
SCHEMA = "id int, p string, v string, ts timestamp, _hoodie_is_deleted boolean"
TIMES = EventTime(column="ts")


def row(key, second, deleted=False):
    """Microseconds that do not come out even: they are cut off, not rounded."""
    moment = START + dt.timedelta(seconds=second, microseconds=1999)
    return (key, "ab"[key % 2], f"v{second}", moment, deleted)


def milliseconds(second):
    return int(START.timestamp() * 1000) + second * 1000 + 1


def states(table, cache=None):
    """The table's state as its commits tell it, and with the log files read."""
    policy = Policy(name="t", table=table.base, event_time=TIMES, data_latency_ms=0)
    state = FileTableReader().read(table.base, TIMES)
    return state, fill_from_logs(state, policy, cache)


def by_commit(state):
    """(requested instant, partition) -> (smallest event time, whether it has deletes)."""
    found = {(f.requested, s.partition): (f.min_event_time_ms, f.has_deletes) for s, f in state.log_files}
    assert len(found) == sum(1 for _ in state.log_files)
    return found


def read_by_spark(spark, table, number):
    """Partition -> smallest event time of the rows that the commit wrote, by an incremental read."""
    completions = ["000"] + [completed for completed, _, _ in table.completed()]
    rows = (
        spark.read.format("hudi")
        .option("hoodie.datasource.query.type", "incremental")
        .option("hoodie.datasource.read.begin.instanttime", completions[number])
        .option("hoodie.datasource.read.end.instanttime", completions[number + 1])
        .load(table.base)
    )
    _, value = event_time_ms(rows.schema, TIMES)
    return dict(rows.select("p", value).groupBy("p").min().collect())


@pytest.mark.parametrize("block_format", ["avro", *nightly("parquet")])
def test_the_smallest_event_time_of_each_log_file(spark, tmp_path, block_format):
    table = StockTable(spark, str(tmp_path / "t"), SCHEMA)
    table.options = {"hoodie.logfile.data.block.format": block_format}
    table.write([row(key, key + 1) for key in range(6)])
    upserts = table.write([row(0, 100), row(2, 50), row(1, 70)])
    mixed = table.write([row(3, 120, deleted=True), row(1, 130), row(4, 110)])
    by_key = table.write([row(2, 0)], operation="delete")
    only_deletes = table.write([row(5, 140, deleted=True)])
    cache = MemoryCache()
    plain, filled = (by_commit(state) for state in states(table, cache))
    assert all(time is None for time, _ in plain.values())
    assert filled == {
        (upserts, "a"): (milliseconds(50), False),
        (upserts, "b"): (milliseconds(70), False),
        (mixed, "a"): (milliseconds(110), False),
        (mixed, "b"): (milliseconds(120), True),
        (by_key, "a"): (None, True),
        (only_deletes, "b"): (milliseconds(140), True),
    }
    assert read_by_spark(spark, table, 1) == {"a": filled[upserts, "a"][0], "b": filled[upserts, "b"][0]}
    assert read_by_spark(spark, table, 2) == {"a": filled[mixed, "a"][0], "b": milliseconds(130)}
    assert by_commit(states(table, cache)[1]) == filled


@pytest.mark.extended
def test_rows_keep_their_commit_when_they_are_compacted(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), SCHEMA)
    table.write([row(0, 1), row(2, 2), row(4, 3)])
    writes = [table.write([row(0, 100), row(2, 50)]), table.write([row(2, 70)])]
    table.compact()
    state = FileTableReader().read(table.base, TIMES)
    assert not any(state.log_files)
    began = [instant_to_ms(one, ZoneInfo(state.timezone)) for one in writes]
    assert dict(with_left_times(state, TIMES).left_times) == {began[0]: milliseconds(100), began[1]: milliseconds(70)}


@pytest.mark.extended
def test_partial_updates_are_unknown(spark, tmp_path):
    table = StockTable(spark, str(tmp_path / "t"), SCHEMA)
    table.write([row(0, 1), row(1, 2)])
    spark.sql(f"CREATE TABLE partially USING hudi LOCATION '{table.base}'")
    spark.sql("SET hoodie.spark.sql.merge.into.partial.updates=true")
    try:
        spark.sql(
            "MERGE INTO partially t USING (SELECT 0 AS id, 'a' AS p, timestamp'2024-01-02 00:00:00' AS ts) s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET ts = s.ts"
        )
    finally:
        spark.sql("RESET hoodie.spark.sql.merge.into.partial.updates")
        spark.sql("DROP TABLE partially")
    (log_file,) = (f for _, f in states(table)[1].log_files)
    assert log_file.min_event_time_ms is None
    folder = tmp_path / "t" / "a"
    assert b"\0\0\0\x07\0\0\0\x04true" in (folder / log_file.name).read_bytes()  # IS_PARTIAL, 4 bytes, `true`


#: Both clauses of a MERGE INTO, for a row that is there and one that is not: UPDATE sets another event time than INSERT would.
MERGE = """
MERGE INTO merged t USING (
  SELECT 1 AS id, '{there}' AS p, 'u' AS v, {inserted_ms}L AS ts UNION ALL SELECT 2, '{new}', 'i', {inserted_ms}L
) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v, ts = {updated_ms}L
WHEN NOT MATCHED THEN INSERT (id, p, v, ts) VALUES (s.id, s.p, s.v, s.ts)
"""


@pytest.mark.extended
def test_what_a_merge_into_records_of_its_partial_updates_is_not_believed(spark, tmp_path):
    """Its commit records what INSERT would have set (facts: merge-into-in-part): up to then RO would lack the update."""
    updated_ms, inserted_ms = EPOCH_MS + 100_000, EPOCH_MS + 1_000_000
    base = tmp_path / "t"
    write_history(spark, base, [Write(((1, "old", 10),))], QUICK)
    tracked = ("hoodie.write.track.event.time.watermark", "hoodie.payload.event.time.field")
    spark.sql(f"CREATE TABLE merged USING hudi LOCATION '{base}'")
    try:
        for option in tracked:
            spark.sql(f"SET {option}={WRITER[option]}")
        times = {"updated_ms": updated_ms, "inserted_ms": inserted_ms}
        spark.sql(MERGE.format(there=partition_of(1), new=partition_of(2), **times))
    finally:
        for option in tracked:
            spark.sql(f"RESET {option}")
        spark.sql("DROP TABLE merged")

    bench = Bench(spark, base)
    [(file_slice, log_file)] = bench.state().log_files
    stats = timeline_of(str(base)).commit(log_file.requested).stats
    assert stats.min_event_times_ms[stats.groups.index(file_slice.group)] == inserted_ms
    rows = bench.views().frame().select("id", "v", "ts").collect()
    assert sorted(map(tuple, rows)) == [(1, "u", updated_ms), (2, "i", inserted_ms)]
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    for reads_logs in (False, True):
        (table,) = bench.plan(500, reads_logs=reads_logs).tables
        assert (table.action, [one.log_files_compacted for one in table.operations]) == ("compact", [(log_file.name,)])


PART = """
MERGE INTO parts t USING (SELECT 1 AS id, 'x' AS p, 'new' AS c, {ms}L AS ts) s ON t.id = s.id AND t.p = s.p
WHEN MATCHED THEN UPDATE SET {column} = s.c, ts = s.ts
"""


def update_part(spark, base, column, at_ms):
    spark.sql(f"CREATE TABLE parts USING hudi LOCATION '{base}'")
    try:
        spark.sql(PART.format(column=column, ms=EPOCH_MS + at_ms))
    finally:
        spark.sql("DROP TABLE parts")


@pytest.mark.extended
def test_parts_of_rows_are_not_cut_apart(spark, tmp_path):
    """Log records give each other their parts before they meet the base file (facts: partial-merge-order)."""
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    table = StockTable(spark, str(tmp_path / "t"), "id int, p string, a string, b string, ts long", options=options)
    table.write([(1, "x", "old", "old", EPOCH_MS + 50_000)], "insert")
    update_part(spark, table.base, "b", 10_000)
    between = StockTable(spark, str(shutil.copytree(table.base, tmp_path / "between")), table.schema)
    options = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.auto.delete.partitions=false"
    spark.sql(f"CALL run_compaction(op => 'scheduleandexecute', path => '{between.base}', options => '{options}')")
    for base in (table.base, between.base):
        update_part(spark, base, "a", 400_000)
    parts = [one.view(read_optimized=False).select("a", "b").collect() for one in (table, between)]
    assert [tuple(*rows) for rows in parts] == [("new", "new"), ("new", "old")]

    bench = Bench(spark, Path(table.base), read_stats=True)
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    plan = bench.plan(100)
    assert [len(one.log_files_compacted) for one in plan.tables[0].operations] == [2]
    bench.apply(plan)
    for is_ro in (False, True):
        assert [tuple(row) for row in table.view(read_optimized=is_ro).select("a", "b").collect()] == [("new", "new")]


TEXTS = [
    *("1711846800123", " 1711846800 ", "12", "", "x", "1711846800123999", "9" * 18, "2024"),
    *("2024-03-31", "2024-02-30", "1969-12-31T23:59:59.9999Z", "2024-03-31T24:00", "2024-03-31 01:00:60"),
    *("2024-03-31T01:00", "2024-03-31 01:00:00.123999999", "2024-03-31 01:00:00 +02", "2024-03-31T01:00:00.1-0930"),
    *("2024-03-31T01:00:00+18:00", "2024-03-31T01:00:00+18:01", "2024-03-31T01:00:00+02:60", "2024-03-31T01:00:00-00:00"),
    *("31.03.2024 01:00", "31.3.2024 01:00", " 31.03.2024 01:00", "31.02.2024 01:00", "20240331010000", "20240331010000123"),
    *("202403310100001234", "2024033101000012", "2024-03-31T01:00:00.5Z", "2024-03-31T01:00:00.123+02:00", "2024 o'clock"),
    *("31032024010000", "2024-03-31 010000123", "20240331 0100001", "20240331 010000123999", "20240331T010000.12"),
]  # fmt: skip
PATTERNS = [
    *(None, "dd.MM.yyyy HH:mm", "yyyyMMddHHmmss", "ddMMyyyyHHmmss", "yyyyMMddHHmmssSSS", "yyyy-MM-dd HHmmssSSS"),
    *("yyyyMMdd HHmmssSSSSSS", "yyyyMMdd'T'HHmmss.SSS", "yyyy-MM-dd", "yyyy", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"),
]  # fmt: skip


@pytest.fixture
def corrected(spark):
    """The parser that verification sets too; Spark's default refuses texts that Spark 2 read."""
    spark.conf.set("spark.sql.legacy.timeParserPolicy", "CORRECTED")
    yield
    spark.conf.unset("spark.sql.legacy.timeParserPolicy")


@pytest.mark.usefixtures("corrected")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_are_read_as_spark_reads_them(spark, pattern):
    frame = spark.createDataFrame([(text,) for text in TEXTS], "ts string")
    _, by_spark = event_time_ms(frame.schema, EventTime(column="ts", format=pattern))
    read = event_time_values.time_reader("text", EventTime(column="ts", format=pattern))
    both = {text: (read(text), value) for text, value in frame.select("ts", by_spark).collect()}
    assert {text: pair for text, pair in both.items() if pair[0] != pair[1]} == {}


@pytest.mark.parametrize("unit", [None, "s", "ms", "us"])
def test_numbers_are_read_as_spark_reads_them(spark, unit):
    numbers = [sign * (10**n + d) for n in (0, 9, 10, 12, 13, 15, 16, 18) for d in (-1, 0, 999) for sign in (1, -1)]
    numbers += [2**63 - 1, -(2**63)]
    frame = spark.createDataFrame([(number,) for number in numbers], "ts long")
    _, by_spark = event_time_ms(frame.schema, EventTime(column="ts", unit=unit))
    values = [value for (value,) in frame.select(by_spark).collect()]
    assert [event_time_values.number_ms(number, unit) for number in numbers] == values
