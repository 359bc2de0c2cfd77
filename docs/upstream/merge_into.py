"""Stock Hudi: with event-time tracking on, a MERGE INTO fails."""

import tempfile

from stock import root_cause, start_spark

TRACKING = {"hoodie.write.track.event.time.watermark": "true", "hoodie.payload.event.time.field": "ts"}
NO_PARTIAL_UPDATES = {"hoodie.spark.sql.merge.into.partial.updates": "false"}


def play(spark, settings, statement):
    """What the statement makes of a table with one row: the rows, or the error."""
    spark.sql(
        f"""CREATE TABLE t (id INT, v STRING, w STRING, ts BIGINT) USING hudi LOCATION '{tempfile.mkdtemp()}/t'
            TBLPROPERTIES (type = 'mor', primaryKey = 'id', orderingFields = 'ts')"""
    )
    for key, value in settings.items():
        spark.sql(f"SET {key}={value}")
    try:
        spark.sql("INSERT INTO t VALUES (1, 'a', 'a', 1700000000000)")
        spark.sql(statement)
        return [tuple(row) for row in spark.sql("SELECT id, v, w, ts FROM t").collect()]
    except Exception as error:
        return root_cause(error)
    finally:
        for key in settings:
            spark.sql(f"RESET {key}")
        spark.sql("DROP TABLE t")


if __name__ == "__main__":
    spark = start_spark()
    merge = """MERGE INTO t USING (SELECT 1 AS id, 'b' AS v, 'b' AS w, 1700000001000 AS ts) s ON t.id = s.id
               WHEN MATCHED THEN UPDATE SET {}"""
    some, every = merge.format("v = s.v, ts = s.ts"), merge.format("*")
    insert = "INSERT INTO t VALUES (1, 'b', 'b', 1700000001000)"
    for title, settings, statement in (
        ("tracking off, MERGE INTO sets some columns", {}, some),
        ("tracking on,  MERGE INTO sets some columns", TRACKING, some),
        ("tracking on,  MERGE INTO sets all columns", TRACKING, every),
        ("tracking on,  MERGE INTO sets all columns, partial updates off", {**TRACKING, **NO_PARTIAL_UPDATES}, every),
        (
            "tracking on,  INSERT INTO of the same key",
            {**TRACKING, "hoodie.spark.sql.insert.into.operation": "upsert"},
            insert,
        ),
    ):
        print(f"{title}:\n  {play(spark, settings, statement)}", flush=True)
