"""Event times of every type that a column may have, read by Spark in a zone that is not UTC."""

import datetime as dt
from decimal import Decimal

import pytest

from etc_policy.errors import TableError
from etc_policy.gx.event_time_sql import event_time_ms
from etc_policy.policy.manifest import EventTime

pytestmark = pytest.mark.spark

MS = 1_711_846_800_123  # 2024-03-31 01:00:00.123 UTC: that hour does not exist in Berlin
WALL = dt.datetime(2024, 3, 31, 1, 0, 0, 123_999)  # noqa: DTZ001 - a wall clock
DAY_MS = 1_711_843_200_000


@pytest.fixture(scope="module", autouse=True)
def berlin(spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def read(spark, spark_type, values, **event_time):
    frame = spark.createDataFrame([(value,) for value in values], f"t {spark_type}")
    _, milliseconds = event_time_ms(frame.schema, EventTime(column="t", **event_time))
    return [row[0] for row in frame.select(milliseconds).collect()]


@pytest.mark.parametrize(
    ("spark_type", "settings", "values", "expected"),
    [
        ("timestamp", {}, [WALL.replace(tzinfo=dt.UTC), None], [MS, None]),
        ("timestamp_ntz", {}, [WALL, WALL + dt.timedelta(hours=1)], [MS, MS + 3_600_000]),
        ("date", {}, [WALL.date(), dt.date(1969, 12, 31)], [DAY_MS, -86_400_000]),
        ("int", {}, [1_711_846_800, 7], [1_711_846_800_000, None]),
        ("long", {}, [1_711_846_800, MS, MS * 1000 + 999, 20240331], [1_711_846_800_000, MS, MS, None]),
        ("long", {"unit": "s"}, [7, -7, 9_223_372_036_854_775_807], [7_000, -7_000, None]),
        ("long", {"unit": "ms"}, [7], [7]),
        ("long", {"unit": "us"}, [7_999, -1], [7, -1]),
        ("decimal(20,0)", {"unit": "ms"}, [Decimal(MS)], [MS]),
        ("string", {}, [str(MS), " 1711846800 ", "12", ""], [MS, 1_711_846_800_000, None, None]),
        ("string", {"unit": "us"}, ["7000"], [7]),
        ("string", {}, ["2024-03-31T01:00:00.123Z", "2024-03-31 01:00:00.123999"], [MS, MS]),
        ("string", {}, ["2024-03-31T03:00:00.123+02:00", "2024-03-31T03:00:00.123+0200"], [MS, MS]),
        ("string", {}, ["2024-03-31", "2024-03-31T01:00", "2024-02-30", "2024", "x"],
         [DAY_MS, DAY_MS + 3_600_000, None, None, None]),
        ("string", {"format": "dd.MM.yyyy HH:mm:ss"}, ["31.03.2024 01:00:00", "2024-03-31"], [MS - 123, None]),
        ("string", {"format": "yyyy-MM-dd HH:mm:ssXXX"}, ["2024-03-31 03:00:00+02:00"], [MS - 123]),
        ("string", {"format": "yyyyMMddHHmmss.SSS"}, ["20240331010000.123"], [MS]),
        ("string", {"format": "yyyyMMdd'T'HHmmssSSS"}, ["20240331T010000123"], [MS]),
        ("string", {"format": "yyyy-MM-dd HH:mm:ssSSS"}, ["2024-03-31 01:00:00123"], [MS]),
        ("string", {"format": "'Z'yyyy-MM-dd"}, ["Z2024-03-31"], [DAY_MS]),
    ],
)  # fmt: skip
def test_values_are_read_as_epoch_milliseconds(spark, spark_type, settings, values, expected):
    assert read(spark, spark_type, values, **settings) == expected


def test_a_fraction_that_follows_the_year_without_a_separator_is_no_pattern(spark):
    """Why policies may not have such a pattern: Spark fails, or reads NULL where `timeParserPolicy` is CORRECTED."""
    with pytest.raises(Exception, match="PARSE_DATETIME_BY_NEW_PARSER"):
        read(spark, "string", ["20240331010000123"], format="yyyyMMddHHmmssSSS")


def test_a_dotted_name_leads_into_structs(spark):
    frame = spark.createDataFrame([((7,),)], "e struct<at:long>")
    _, milliseconds = event_time_ms(frame.schema, EventTime(column="e.at", unit="ms"))
    assert frame.select(milliseconds).first()[0] == 7


@pytest.mark.parametrize(
    ("column", "code"), [("flag", "ETC231"), ("e", "ETC231"), ("e.no", "ETC233"), ("f.x", "ETC233")]
)
def test_columns_without_times_are_refused(spark, column, code):
    schema = spark.createDataFrame([], "flag boolean, e struct<at:long>").schema
    with pytest.raises(TableError) as raised:
        event_time_ms(schema, EventTime(column=column))
    assert raised.value.code == code
    assert f"`{column}`" in raised.value.message
