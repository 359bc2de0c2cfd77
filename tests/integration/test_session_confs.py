"""Whatever a user has set in Spark, rows mean the same: they are compacted as they are, and verified rightly."""

import datetime as dt
from contextlib import nullcontext
from pathlib import Path

import pytest

from etc_policy.errors import EngineError
from etc_policy.policy.manifest import EventTime
from etc_policy.spark import hudi_client
from etc_policy.spark.pinned_settings import PINNED
from etc_policy.spark.session import start_spark
from tests.integration.hudi_tables import EPOCH_MS, StockTable
from tests.integration.row_checks import CONTAINMENT, alike, check
from tests.integration.test_table_kinds import NO_MDT, Kind, T

pytestmark = [pytest.mark.spark, pytest.mark.extended]

ROWS = "id int, p string, v string, at string, day date, seen timestamp, more map<string, timestamp>"
AT = EventTime(column="at")
#: What a business writes for `never`, before the calendar that Spark asks about.
OLD_DAY, OLD_TIME = dt.date(1, 1, 1), dt.datetime(1500, 1, 1, 12)  # noqa: DTZ001 - a wall clock
READ, WRITE = "spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.datetimeRebaseModeInWrite"

#: Settings of a user by which verification was wrong, or could not be made.
HARMFUL = [
    {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
    {"hoodie.datasource.query.type": "read_optimized"},
    {READ: "EXCEPTION", WRITE: "EXCEPTION"},
]
#: Others that change what some SQL means.
OTHERS = [
    {"spark.hoodie.datasource.query.type": "incremental"},
    {"spark.sql.session.timeZone": "America/New_York"},
    {"spark.sql.ansi.enabled": "true"},
    {"spark.sql.caseSensitive": "true"},
    {"spark.sql.legacy.timeParserPolicy": "LEGACY"},
    {READ: "LEGACY", WRITE: "LEGACY"},
    {"spark.sql.decimalOperations.allowPrecisionLoss": "false", "spark.sql.legacy.sizeOfNull": "false"},
]


@pytest.fixture
def settings(spark, tmp_path):
    """Starts the session again as a user has set it; it is as before when the test has ended."""
    before = {}

    def set_by_user(confs):
        names = {*confs, *PINNED, "spark.sql.shuffle.partitions"}
        before.update({name: spark.conf.get(name, None) for name in names if name not in before})
        return start_spark({"spark.sql.shuffle.partitions": "2", **confs}, tmp_path / "spark.log")

    yield set_by_user
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def row(key, value="a", at_ms=0):
    at = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=EPOCH_MS + at_ms)  # noqa: DTZ001 - a wall clock
    return (key, "x", value, at.isoformat(), OLD_DAY, OLD_TIME, {"k": OLD_TIME})


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """A table that is compacted, and one of which RO lacks an update."""
    made = []
    for name in ("compacted", "lacking"):
        table = StockTable(spark, str(tmp_path_factory.mktemp(name) / "t"), ROWS, ordering="at")
        table.write([row(key) for key in range(4)], "insert")
        table.write([row(1, "new", 500), row(2, "late", 5_000)])
        made.append(table)
    made[0].compact()
    return made


@pytest.mark.parametrize("users", [HARMFUL, OTHERS], ids=["harmful", "others"])
def test_rows_are_verified_alike_whatever_the_session_is_set_to(tables, settings, users):
    def found():
        return [check(table, event_time=AT, **alike(table, AT.column)) for table in tables]

    usual = found()
    assert [results[CONTAINMENT].status for _, results in usual] == ["pass", "fail"]
    assert usual[1][1][CONTAINMENT].observed["different"] == 1
    for confs in users:
        settings(confs)
        assert found() == usual, confs


def rows(table, *, read_optimized):
    """The rows of a view with their old times as texts, which no zone or calendar of Python's changes."""
    reader = table.spark.read.format("hudi").option("hoodie.query.as.ro.table", str(read_optimized).lower())
    shown = reader.load(str(table.base)).selectExpr("id", "v", "cast(day as string)", "cast(seen as string)")
    return sorted(map(tuple, shown.collect()))


@pytest.fixture
def old_times(spark, tmp_path):
    """A table with times before 1582 in base files, in log files and in both."""
    schema = "id int, p string, v string, ts long, day date, seen timestamp"
    new = (dt.date(2024, 1, 1), dt.datetime(2024, 1, 1))  # noqa: DTZ001 - a wall clock
    table = Kind(spark, tmp_path / "t", options=NO_MDT, schema=schema)
    old, late = (OLD_DAY, OLD_TIME), EPOCH_MS + 100_000
    table.send([(1, "a", "v0", EPOCH_MS, *old), (2, "a", "v0", EPOCH_MS, *new), (3, "a", "v0", EPOCH_MS, *old)])
    table.send([(1, "a", "v1", late, *new), (2, "a", "v1", late, *old)])
    return table


@pytest.mark.parametrize("mode", ["EXCEPTION", "LEGACY"])
def test_old_times_stay_as_they_are(old_times, settings, mode):
    before = rows(old_times, read_optimized=False)
    settings({READ: mode, WRITE: mode})
    assert old_times.apply(old_times.settled_plan(T)).status == "compacted"
    assert rows(old_times, read_optimized=False) == rows(old_times, read_optimized=True) == before


def test_a_setting_for_files_of_other_tools_would_move_them(old_times, spark, settings):
    """Why no such setting of a user may reach a compaction."""
    before = rows(old_times, read_optimized=True)
    settings({})
    spark.conf.set(READ, "LEGACY")
    moved = rows(old_times, read_optimized=True)
    assert [row[:2] for row in moved] == [row[:2] for row in before]
    assert moved != before


def test_why_a_record_could_not_be_written_is_said(old_times, monkeypatch):
    """Of a record that cannot be written Hudi counts that it was not, and goes on: here an old time, without etc's setting."""
    with monkeypatch.context() as unset:
        unset.setattr(hudi_client, "pinned_in_tasks", lambda _: nullcontext())
        with pytest.raises(EngineError, match=r"could not write \d records? of 1 new base file of") as raised:
            old_times.apply(old_times.settled_plan(T))
    error = raised.value
    assert error.code == "ETC326"
    assert error.message.endswith(": nothing was committed, and the plan is withdrawn")
    assert old_times.state().own_pending is None
    assert "WRITE_ANCIENT_DATETIME" in error.cause.partition("\nwhich led to: ")[0]
    assert "`Error writing record`" in error.hint
    assert old_times.apply(old_times.settled_plan(T)).status == "compacted"
    assert rows(old_times, read_optimized=False) == rows(old_times, read_optimized=True)


def test_a_file_that_is_damaged_is_the_cause_that_is_said_first(spark, tmp_path):
    table = Kind(spark, tmp_path / "t", options=NO_MDT)
    table.history()
    plan = table.settled_plan()
    for base_file in Path(table.base).rglob("*.parquet"):
        base_file.write_bytes(base_file.read_bytes()[:50] + bytes(100))
        base_file.with_name(f".{base_file.name}.crc").unlink(missing_ok=True)
    with pytest.raises(EngineError) as raised:
        table.apply(plan)
    first, *led_to = raised.value.cause.split("\nwhich led to: ")
    assert "is not a Parquet file" in first
    assert "InvocationTargetException" not in raised.value.cause
    assert led_to
