"""PropertyStore on Spark SQL: properties of a table in whatever catalog the session has (FACTS 10)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from etc_policy.adapters.spark.catalog import catalog_errors
from etc_policy.codes.registry import Code
from etc_policy.errors import TableError
from etc_policy.publish.sync import PREFIX, PropertyChanges


class SparkPropertyStore:
    """Reads and changes properties by SHOW and ALTER TABLE; neither touches the table's data nor its timeline."""

    def __init__(self, spark: Any) -> None:  # noqa: ANN401 - a SparkSession
        self._spark = spark

    def read(self, table: str) -> dict[str, str]:
        """The properties of etc that `db.table` has.

        Raises:
            TableError: the catalog has no such table.
            RetryableError: the catalog cannot be asked.

        """
        name = _quoted(table)
        with catalog_errors(table):
            known = self._spark.catalog.tableExists(name)
        if not known:
            hint = (
                "the writer's hive sync makes it (`hoodie.datasource.hive_sync.enable`); is the target's catalog right?"
            )
            raise TableError(Code.NO_RO_TABLE, f"the catalog has no table `{table}`", hint=hint)
        with catalog_errors(table):
            rows = self._spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
        return {row["key"]: row["value"] for row in rows if row["key"].startswith(PREFIX)}

    def write(self, table: str, changes: PropertyChanges) -> None:
        """Change the properties of `db.table`; what is to go goes before anything is set.

        Raises:
            RetryableError: the catalog cannot be asked, or refused.

        """
        name = _quoted(table)
        with catalog_errors(table):
            if changes.remove:
                self._spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ({_listed(changes.remove)})")
            if changes.put:
                pairs = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in sorted(changes.put.items()))
                self._spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({pairs})")


def _quoted(table: str) -> str:
    """`db.table` with both parts in backticks."""
    return ".".join(f"`{part.strip('`')}`" for part in table.split("."))


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(_text(key) for key in keys)


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
