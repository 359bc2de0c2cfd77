"""The catalog of the Spark session: where a table lies, the properties of a table, and that it does not answer.

See facts: ro-table-properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from etc_policy.errors import EtcError, RetryableError, TableError, first_line
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import METADATA_TABLE
from etc_policy.policy.locations import is_local
from etc_policy.policy.writers import spark_name, spark_text
from etc_policy.report.sync import (
    PREFIX,
    PropertyChanges,
    is_located_at,
    no_partition,
    partition_values,
    require_located,
)
from etc_policy.run.objects_in_logs import require_no_objects
from etc_policy.run.table_files import require_regular
from etc_policy.spark.interrupts import raise_if_interrupted


class SparkPropertyStore:
    """Reads and changes properties of the tables at a base path by SHOW and ALTER TABLE; neither touches data nor timeline."""

    def __init__(self, spark: Any, base_path: str) -> None:
        self._spark = spark
        self._base_path = base_path

    def read(self, table: str, prefix: str = PREFIX) -> dict[str, str]:
        """The properties of `db.table` that begin so: those of etc if not given.

        Raises:
            TableError: the catalog has no such table, or has it elsewhere.
            RetryableError: the catalog cannot be asked.

        """
        name = _quoted(table)
        self._require_known(table)
        self._require_own(table)
        with catalog_errors(table):
            rows = self._spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
        return {row["key"]: row["value"] for row in rows if row["key"].startswith(prefix)}

    def write(self, table: str, changes: PropertyChanges) -> None:
        """Change the properties of `db.table`; what is to go goes before anything is set.

        Raises:
            TableError: the catalog has it elsewhere.
            RetryableError: the catalog cannot be asked, or refused.

        """
        name = _quoted(table)
        self._require_own(table)
        with catalog_errors(table):
            if changes.remove:
                self._spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ({_listed(changes.remove)})")
            if changes.put:
                pairs = ", ".join(
                    f"{spark_text(key)} = {spark_text(value)}" for key, value in sorted(changes.put.items())
                )
                self._spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({pairs})")

    def write_view(self, view: str, table: str, condition: str | None) -> None:
        """Make or replace a view of the rows of `db.table` for which a condition holds; for None remove the view, if it is such.

        A view is etc's own of the table by its text. Which one is to go is what properties of the table say: whoever may write
        these may name one of somebody else.

        Raises:
            TableError: the catalog has the table elsewhere, or a view or table of that name that etc did not make of it, or Spark
                would wait for a pipe in the table, or make objects.
            RetryableError: the catalog cannot be asked, or refused.

        """
        rows = f"SELECT * FROM {_quoted(table)} WHERE "  # noqa: S608 - it is etc's own
        location = self._require_own(table)
        if condition is not None:  # Spark lists the table, by its metadata table, and reads no log file but of that
            if is_local(location):
                require_regular(location, "")
            require_no_objects(location, None, METADATA_TABLE)
        with catalog_errors(view):
            text = self._view_text(view)
        is_own = text is not None and text.lower().startswith(rows.lower())
        if condition is not None and text is not None and not is_own:
            message = f"`{view}` of the catalog is no view that etc made of `{table}`, and is not replaced"
            raise TableError(Code.NO_RO_TABLE, message, hint="drop it, or name another view in `sync.as_of_view`")
        with catalog_errors(view):
            if condition is not None:
                self._spark.sql(f"CREATE OR REPLACE VIEW {_quoted(view)} AS {rows}{condition}")
            elif is_own:
                self._spark.sql(f"DROP VIEW {_quoted(view)}")

    def _view_text(self, view: str) -> str | None:
        """The view's query, which is empty of a table; None where nothing has that name."""
        if not self._spark.catalog.tableExists(_quoted(view)):
            return None
        return _detail(self._spark, _quoted(view), "View Text")

    def _require_known(self, table: str) -> None:
        with catalog_errors(table):
            known = self._spark.catalog.tableExists(_quoted(table))
        if not known:
            hint = (
                "the writer's hive sync makes it (`hoodie.datasource.hive_sync.enable`); is the target's catalog right?"
            )
            raise TableError(Code.NO_RO_TABLE, f"the catalog has no table `{table}`", hint=hint)

    def _require_own(self, table: str) -> str:
        """The location of `db.table`, which is that of the base path."""
        location = table_location(self._spark, _quoted(table))
        require_located(table, self._with_authority(location), self._with_authority(self._base_path))
        return location

    def _with_authority(self, location: str) -> str:
        """A location on HDFS with the NameNode that Hadoop's configuration means where it names none."""
        path = location.removeprefix("hdfs:")
        if path == location or (path.startswith("//") and not path.startswith("///")):
            return location
        jvm, conf = self._spark._jvm, self._spark._jsc.hadoopConfiguration()
        default = str(jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(conf).toString())
        return f"{default.rstrip('/')}/{path.lstrip('/')}" if default.startswith("hdfs://") else location

    def write_partition(self, table: str, partition: str, properties: Mapping[str, str]) -> None:
        """Set properties of the partition of `db.table` that lies at the path below the base path; SQL of Spark has no statement
        for it.

        Raises:
            TableError: the catalog has no such table, or no partition there.
            RetryableError: the catalog cannot be asked, or refused.

        """
        self._require_known(table)
        database, name = (part.strip("`") for part in table.split("."))
        jvm, catalog = self._spark._jvm, self._spark._jsparkSession.sharedState().externalCatalog()
        with catalog_errors(table):
            columns = catalog.getTable(database, name).partitionColumnNames()
            names = [columns.apply(place) for place in range(columns.size())]
            spec = jvm.PythonUtils.toScalaMap(dict(zip(names, partition_values(partition, len(names)), strict=False)))
            found = catalog.getPartitionOption(database, name, spec)
        place = "" if found.isEmpty() else self._with_authority(_location(found.get().location()))
        if not is_located_at(place, partition, self._with_authority(self._base_path)):
            raise no_partition(table, partition, self._base_path)
        with catalog_errors(table):
            one = found.get()
            kept = jvm.scala.collection.JavaConverters.mapAsJavaMap(one.parameters())
            changed = jvm.PythonUtils.toScalaMap({**dict(kept), **properties})
            made = one.copy(one.spec(), one.storage(), changed, one.createTime(), one.lastAccessTime(), one.stats())
            catalog.alterPartitions(database, name, jvm.PythonUtils.toSeq([made]))


def _location(uri: Any) -> str:
    """A `java.net.URI` without its escapes."""
    scheme, authority = uri.getScheme(), uri.getAuthority()
    return f"{scheme}://{authority or ''}{uri.getPath()}" if scheme else str(uri.getPath())


def _quoted(table: str) -> str:
    """`db.table` with both parts in backticks."""
    return spark_name(".".join(part.strip("`") for part in table.split(".")))


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(spark_text(key) for key in keys)


def table_location(spark: Any, name: str) -> str:
    """The base path of `db.table`.

    Raises:
        TableError: the catalog does not know it.
        RetryableError: the catalog cannot be asked.

    """
    plain = name.replace("`", "")
    with catalog_errors(plain):
        known = spark.catalog.tableExists(name)
    if not known:
        hint = "check `table` in the policy and the catalog that Spark is configured with"
        raise TableError(Code.UNKNOWN_CATALOG_TABLE, f"the Spark catalog has no table `{plain}`", hint=hint)
    with catalog_errors(plain):
        location = _detail(spark, name, "Location")
    if "/" not in location:
        raise TableError(Code.UNKNOWN_CATALOG_TABLE, f"the Spark catalog names no location for `{plain}`")
    return location.removeprefix("file:")


def _detail(spark: Any, name: str, detail: str) -> str:
    """What the catalog says of a table or view under this title; columns come first, and one of them may have that name."""
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").where(f"col_name = '{detail}'").collect()
    return str(rows[-1]["data_type"]) if rows else ""


def tables_in(spark: Any, database: str, pattern: str) -> Iterator[tuple[str, str | EtcError]]:
    """Each table of a database whose name matches, as `db.table`, with its path or why that is not known; views are left out.

    Raises:
        TableError: it has no such database.
        RetryableError: the catalog cannot be asked.

    """
    with catalog_errors(f"{database}.{pattern}"):
        rows = spark.sql(f"SHOW TABLES IN {_quoted(database)} LIKE {spark_text(pattern)}").collect()
        views = {row["viewName"] for row in spark.sql(f"SHOW VIEWS IN {_quoted(database)}").collect()}
    for row in rows:
        if row["isTemporary"] or row["tableName"] in views:
            continue
        name = f"{database}.{row['tableName']}"
        try:
            yield name, table_location(spark, _quoted(name))
        except EtcError as error:
            yield name, error


_CATALOG_HINT = "run it again; if it goes on, check `catalog` of the target"


@contextmanager
def catalog_errors(table: str) -> Iterator[None]:
    """What Spark says of its catalog, as an error that another try may not meet, unless there is no such database."""
    try:
        yield
    except Exception as error:
        raise_if_interrupted()
        cause = first_line(error)
        if (cause or "").startswith("[SCHEMA_NOT_FOUND]"):
            message = f"the Spark catalog has no database of `{table}`"
            hint = "check its name, and `catalog` of the target"
            raise TableError(Code.UNKNOWN_CATALOG_TABLE, message, hint=hint) from error
        message, hint = f"the catalog cannot be asked about `{table}`", _CATALOG_HINT
        raise RetryableError(Code.CATALOG_FAILED, message, hint=hint, cause=cause) from error
