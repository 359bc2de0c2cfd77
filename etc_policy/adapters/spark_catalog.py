"""Where the Spark catalog says a table lies."""

from __future__ import annotations

from typing import Any

from etc_policy.errors import TableError


def table_location(spark: Any, name: str) -> str:  # noqa: ANN401 - a SparkSession
    """The base path of `db.table`; raises TableError where the catalog does not know it."""
    if not spark.catalog.tableExists(name):
        hint = "check `table` in the policy and the catalog that Spark is configured with"
        raise TableError("ETC211", f"the Spark catalog has no table `{name}`", hint=hint)
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Location'").collect()
    if not rows:
        raise TableError("ETC211", f"the Spark catalog names no location for `{name}`")
    return str(rows[0]["data_type"]).removeprefix("file:")
