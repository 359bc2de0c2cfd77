"""What the catalog of the Spark session says: where a table lies, and that it does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from etc_policy.adapters.spark.interrupts import raise_if_interrupted
from etc_policy.codes.registry import Code
from etc_policy.errors import RetryableError, TableError, first_line


def table_location(spark: Any, name: str) -> str:  # noqa: ANN401 - a SparkSession
    """The base path of `db.table`.

    Raises:
        TableError: the catalog does not know it.
        RetryableError: the catalog cannot be asked.

    """
    with catalog_errors(name):
        known = spark.catalog.tableExists(name)
    if not known:
        hint = "check `table` in the policy and the catalog that Spark is configured with"
        raise TableError(Code.UNKNOWN_CATALOG_TABLE, f"the Spark catalog has no table `{name}`", hint=hint)
    with catalog_errors(name):
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Location'").collect()
    # columns come first, and one of them may have that name
    location = str(rows[-1]["data_type"]) if rows else ""
    if "/" not in location:
        raise TableError(Code.UNKNOWN_CATALOG_TABLE, f"the Spark catalog names no location for `{name}`")
    return location.removeprefix("file:")


@contextmanager
def catalog_errors(table: str) -> Iterator[None]:
    """What Spark says of its catalog, as an error that another try may not meet."""
    try:
        yield
    except Exception as error:
        raise_if_interrupted()
        message = f"the catalog cannot be asked about `{table}`"
        raise RetryableError(Code.CATALOG_FAILED, message, cause=first_line(error)) from error
