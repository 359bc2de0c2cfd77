"""Settings of a session that decide what rows mean: the same for everybody, whatever the defaults of a user or a cluster are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

#: Hudi's base files are in today's calendar. By default Spark refuses old times in them, and by a setting that is meant for
#: the files of other tools it moves them by days: a compaction would write them so (facts: old-times).
_CALENDAR = {
    f"spark.sql.parquet.{kind}RebaseModeIn{way}": "CORRECTED"
    for kind in ("datetime", "int96")
    for way in ("Read", "Write")
}
PINNED: Mapping[str, str] = {
    **_CALENDAR,
    # Else texts become times without a zone, of which Spark gives no milliseconds.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Else `${env:KEY}` in a name that a table's writers have chosen is a variable of this process (facts: variables-in-sql).
    "spark.sql.variable.substitute": "false",
    # A file that is damaged or gone would be left out of both views alike.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}


#: A file's schema may name Java classes, of which Parquet's reader of Avro would make objects (facts: classes-of-a-schema).
_WITHOUT_CLASSES = {"parquet.avro.data.supplier": "org.apache.parquet.avro.GenericDataSupplier"}


def pin_settings(session: Any) -> None:
    """Let a session read rows in the one way in which they are compacted and verified."""
    for name, value in PINNED.items():
        session.conf.set(name, value)
    for name, value in _WITHOUT_CLASSES.items():
        session.sparkContext._jsc.hadoopConfiguration().set(name, value)


@contextmanager
def pinned_in_tasks(session: Any) -> Iterator[None]:
    """The same for what Hudi writes by jobs of this thread: Spark tells the tasks of SQL alone what their session is set to."""
    context = session.sparkContext
    for name, value in _CALENDAR.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        with suppress(Exception):  # its Java has died
            for name in _CALENDAR:
                context.setLocalProperty(name, None)
